"""What is done with each column: decided by rule, said in words, before anything trains."""

import numpy as np
import pandas as pd
import pytest

from equipoise.errors import InputError
from equipoise.files import read_columns
from tests.error_parts import says

ROWS = 200


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "hours": rng.normal(40, 10, ROWS),
            "job": rng.choice(["cook", "nurse", "clerk"], ROWS),
            "sex": rng.choice(["F", "M"], ROWS),
            "age": rng.integers(18, 80, ROWS),
            "hired": rng.choice(["no", "yes"], ROWS),
        }
    )


def read(frame, **options):
    return read_columns(frame, **{"target": "hired", "sensitive": ["sex", "age"], **options})


def refusal(frame, **options):
    with pytest.raises(InputError) as refused:
        read(frame, **options)
    return str(refused.value)


def test_every_column_has_a_part_and_the_table_says_which(frame):
    columns = read(frame)
    assert (columns.features, columns.sensitive, columns.target) == (
        ["hours", "job"],
        ["sex", "age"],
        "hired",
    )
    assert (columns.id, columns.dropped, columns.flags) == ([], {}, ())
    assert (columns.task, columns.outcome.classes) == ("classification", ("no", "yes"))
    low, high = frame["hours"].min(), frame["hours"].max()
    shown = str(columns).splitlines()
    assert shown[0] == "200 rows, 5 columns: 2 features, 2 sensitive, 0 dropped."
    assert shown[1] == (
        "Predicted: 'hired', classification (text of 2 distinct values). The score is the "
        "probability of 'yes' rather than 'no'."
    )
    assert [line.split()[:3] for line in shown[3:]] == [
        ["column", "role", "read"],
        ["hours", "feature", "number"],
        ["job", "feature", "category"],
        ["sex", "sensitive", "discrete"],
        ["age", "sensitive", "continuous"],
        ["hired", "target", "classes"],
    ]
    table = columns.to_frame().set_index("column")
    assert table.loc["hours", "values"] == f"{low:g} to {high:g}"
    assert table.loc["job", "values"] == "clerk, cook, nurse"
    assert table["missing"].tolist() == [0] * 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "hird"}, ("target names the column 'hird'", "did you mean 'hired'?")),
        ({"sensitive": "Sex "}, ("sensitive names the column 'Sex", "did you mean 'sex'?")),
        (
            {"drop": ["zzzzzz"]},
            ("drop names the column 'zzzzzz'", "the columns are 'hours', 'job'"),
        ),
        (
            {"target": "sex"},
            (
                "column 'sex'",
                "must not be named both by sensitive and by target",
                "depending on what it predicts",
                "take it out of one",
            ),
        ),
        (
            {"id": "age"},
            (
                "column 'age'",
                "must not be named both by sensitive and by id",
                "one role",
                "take it out of one",
            ),
        ),
        (
            {"drop": ["sex"]},
            (
                "column 'sex'",
                "must not be named both by sensitive and by drop",
                "one role",
                "take it out of one",
            ),
        ),
        (
            {"features": ["hours", "sex"]},
            (
                "column 'sex'",
                "must not be named both by sensitive and by features",
                "never features",
                "take it out of one",
            ),
        ),
        (
            {"features": ["hired"]},
            (
                "column 'hired'",
                "must not be named both by target and by features",
                "the target would predict itself",
                "take it out of one",
            ),
        ),
        ({"drop": ["job", "job"]}, ("drop", "name a column once", "'job' twice")),
        ({"sensitive": []}, ("sensitive", "name at least one column", "none")),
        ({"target": ["hired"]}, ("target", "be the name of one", "['hired']")),
        ({"id": [3]}, ("id", "hold names of columns as", "3")),
        (
            {"drop": ["hours", "job"]},
            (
                "the data",
                "have at least one column",
                "none: 'hours' is dropped",
                "'job' is dropped",
                "'sex' is sensitive",
                "'age' is sensitive",
                "'hired' is target",
            ),
        ),
        (
            {"task": "ranking"},
            ("task", "'classification' or 'regression'", "'ranking'", "leave it out"),
        ),
    ],
)
def test_options_that_can_not_be_meant(frame, options, said):
    assert says(refusal(frame, **options), *said)


def test_ids_and_dropped_columns_are_no_features(frame):
    frame.insert(0, "person", [f"p{i}" for i in range(ROWS)])
    columns = read(frame, id="person", drop="job")
    assert (columns.id, columns.features) == (["person"], ["hours"])
    assert columns.dropped == {"job": "named by drop"}
    columns = read(frame, features="hours", drop="job")
    assert columns.dropped == {"person": "not named by features", "job": "named by drop"}


def test_what_can_not_be_learned_from_is_dropped_with_a_reason(frame):
    frame["country"] = "NL"
    frame["nothing"] = np.nan
    frame["person"] = [f"p{i}" for i in range(ROWS)]
    frame["number"] = np.arange(ROWS) + 1000
    frame["born"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(np.arange(ROWS), unit="D")
    frame["photo"] = [b"x"] * ROWS
    frame["tags"] = [["a"]] * ROWS
    frame["wave"] = 1j
    dropped = read(frame).dropped
    assert {name: why.partition(":")[0] for name, why in dropped.items()} == {
        "country": "constant",
        "nothing": "no value in any row",
        "person": "an identifier",
        "number": "an identifier",
        "born": "dates, times or durations",
        "photo": "bytes",
        "tags": "lists, dicts or other nested values",
        "wave": "complex numbers",
    }
    assert "age in years" in dropped["born"] and "decode" in dropped["photo"]


def test_features_named_by_hand_are_kept_or_refused_never_dropped(frame):
    frame["country"] = "NL"
    frame["number"] = np.arange(ROWS)
    frame["born"] = pd.Timestamp("2000-01-01")
    columns = read(frame, features=["hours", "country", "number"])
    assert columns.features == ["hours", "country", "number"]
    assert [flag.words for flag in columns.flags] == [
        "'number' may be an identifier: 200 of 200 values are distinct; if so, name it as id or "
        "drop it"
    ]
    assert says(
        refusal(frame, features=["born"]),
        "features",
        "be numbers or categories",
        "'born'",
        "age in years",
    )


def test_distinct_amounts_are_no_identifiers(frame):
    rng = np.random.default_rng(1)
    # 200 draws from ten million differ with a chance of exp(-200^2 / 2e7) = 0.998.
    frame["salary"] = rng.choice(10_000_000, ROWS, replace=False)
    frame["exact"] = np.linspace(0, 1, ROWS)
    columns = read(frame)
    assert columns.features == ["hours", "job", "salary", "exact"]
    assert [(flag.concern, flag.column) for flag in columns.flags] == [("identifier", "salary")]


@pytest.mark.parametrize(("span", "identifier"), [(3999, True), (4001, False)])
def test_the_limit_of_chance_is_exp_of_minus_five(frame, span, identifier):
    # 200 numbers from a range of 4000 all differ with a chance of exp(-200^2 / 8000) = exp(-5).
    drawn = np.random.default_rng(2).choice(np.arange(1, span - 1), ROWS - 2, replace=False)
    frame["number"] = np.concatenate([drawn, [0, span - 1]])
    assert ("number" in read(frame).dropped) == identifier


def test_near_identifiers_are_kept_and_flagged(frame):
    codes = [f"c{i}" for i in range(ROWS)]
    codes[1] = codes[0]
    frame["customer_id"] = codes
    columns = read(frame)
    assert columns.features == ["hours", "job", "customer_id"]
    assert [flag.words for flag in columns.flags] == [
        "'customer_id' may be an identifier: 199 of 200 values are distinct, and its name suggests "
        "it; if so, name it as id or drop it"
    ]


def test_numbers_spoilt_by_a_word_are_flagged(frame):
    values = [str(i % 7) for i in range(ROWS)]
    values[:20] = ["?"] * 20
    frame["rooms"] = values
    assert [flag.words for flag in read(frame).flags] == [
        "'rooms' is read as categories although 90.0% of its values are numbers, because of values "
        "such as '?'; leave the field empty if a value is unknown"
    ]


def test_missing_sensitive_values_are_said(frame):
    frame.loc[:4, "sex"] = None
    columns = read(frame)
    assert columns.to_frame().set_index("column").loc["sex", "missing"] == 5
    assert [flag.words for flag in columns.flags] == [
        "sensitive 'sex' is missing in 5 of 200 rows; fitting needs missing_sensitive='skip' "
        "(--missing-sensitive skip), which leaves these rows out of the penalty"
    ]


def test_many_categories_say_that_the_rarest_share_a_column(frame):
    frame = pd.concat([frame] * 3, ignore_index=True)
    frame["town"] = [f"t{i % 300}" for i in range(3 * ROWS)]
    table = read(frame).to_frame().set_index("column")
    assert table.loc["town", "values"] == "300 categories"
    assert table.loc["town", "why"] == "254 most frequent categories, the others together"


def test_how_a_sensitive_column_is_typed_can_be_said(frame):
    frame["age"] = np.repeat([1, 2, 3, 4], ROWS // 4)
    assert read(frame).to_frame().set_index("column").loc["age", "read as"] == "discrete"
    table = read(frame, sensitive_types={"age": "continuous"}).to_frame().set_index("column")
    assert table.loc["age", "read as"] == "continuous"


@pytest.mark.parametrize(
    ("values", "task", "rule", "classes"),
    [
        ([0, 1], "classification", "whole numbers of 2 distinct values", (0, 1)),
        ([0.0, 1.0], "classification", "whole numbers of 2 distinct values", (0, 1)),
        ([True, False], "classification", "booleans of 2 distinct values", (False, True)),
        (["b", "a", "c"], "classification", "text of 3 distinct values", ("a", "b", "c")),
        (
            list(range(20)),
            "classification",
            "whole numbers of 20 distinct values",
            tuple(range(20)),
        ),
        (list(range(21)), "regression", "numbers of 21 distinct values", ()),
        ([0.5, 1.5], "regression", "numbers of 2 distinct values, not all whole", ()),
    ],
)
def test_the_task_follows_from_the_target(frame, values, task, rule, classes):
    frame["hired"] = np.resize(np.array(values), ROWS)
    columns = read(frame)
    assert (columns.task, columns.outcome.rule, columns.outcome.classes) == (task, rule, classes)
    assert [type(label) for label in columns.outcome.classes] == [type(each) for each in classes]


def test_a_task_given_wins(frame):
    frame["hired"] = np.arange(ROWS) % 5
    outcome = read(frame, task="regression").outcome
    assert (outcome.task, outcome.rule) == (
        "regression",
        "as task says; numbers of 5 distinct values",
    )
    frame["hired"] = np.arange(ROWS) % 30
    outcome = read(frame, task="classification").outcome
    assert (outcome.classes, outcome.rule) == (
        tuple(range(30)),
        "as task says; whole numbers of 30 distinct values",
    )


@pytest.mark.parametrize(
    ("values", "task", "said"),
    [
        (
            ["yes"] * ROWS,
            None,
            (
                "target 'hired'",
                "hold at least two values",
                "'yes' in every row",
                "name another column, or add",
            ),
        ),
        (
            ["yes"] * 150 + ["no"] * 38 + [None] * 12,
            None,
            (
                "target 'hired'",
                "be known in every row",
                "missing in 12 of 200 rows",
                "leave out these rows",
            ),
        ),
        (
            [f"c{i % 30}" for i in range(ROWS)],
            None,
            (
                "target 'hired'",
                "have at most 20 classes",
                "30 categories",
                "name another column if these",
            ),
        ),
        (
            ["a", "b"] * (ROWS // 2),
            "regression",
            ("target 'hired'", "hold numbers for task='regression'", "a, b", "leave out task"),
        ),
        (
            [0.25, 0.5] * (ROWS // 2),
            "classification",
            (
                "target 'hired'",
                "hold whole numbers, text or",
                "numbers from 0.25 to 0.5",
                "leave out task, or divide",
            ),
        ),
        (
            [1.0, np.inf] * (ROWS // 2),
            None,
            ("target 'hired'", "hold finite numbers", "an infinite one", "leave out such rows"),
        ),
        (
            [pd.Timestamp("2020-01-01")] * ROWS,
            None,
            (
                "target 'hired'",
                "hold classes or numbers",
                "dates, times or durations",
                "name another column",
            ),
        ),
    ],
)
def test_targets_nobody_can_predict(frame, values, task, said):
    frame["hired"] = values
    assert says(refusal(frame, task=task), *said)


@pytest.mark.parametrize(
    ("pair", "found"), [((1, "a"), "number and text"), ((True, "a"), "boolean and text")]
)
def test_a_column_of_several_types_is_refused(frame, pair, found):
    frame["mixed"] = pair * (ROWS // 2)
    assert says(
        refusal(frame),
        "column 'mixed'",
        "hold values of one type",
        f"{found}",
        "convert it to numbers or",
    )
    assert read(frame, drop="mixed").features == read(frame, id="mixed").features


def test_a_path_is_no_frame():
    assert says(
        refusal("people.csv"),
        "frame",
        "be a pandas DataFrame",
        "str",
        "read a file with read_table(path)",
    )


def test_names_and_categories_can_not_disturb_the_screen(frame):
    frame["bell\x07\n"] = np.resize(["\x1b[31mred", "bl\u00fce"], ROWS)
    line = str(read(frame)).splitlines()[-1]
    assert line.split() == [
        "bell\\x07\\n",
        "feature",
        "category",
        "\\x1b[31mred,",
        "bl\u00fce",
        "0",
    ]


def test_names_of_columns_must_be_text(frame):
    frame[3] = 1.5
    with pytest.raises(InputError, match="frame must have text as column names, got 3; rename it"):
        read(frame)


def test_names_of_columns_must_differ(frame):
    frame = pd.concat([frame, frame[["job"]]], axis=1)
    assert says(
        refusal(frame), "frame", "have distinct column names", "'job' more than once", "rename"
    )


def test_many_flags_of_one_kind_are_counted_and_all_are_kept():
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], ROWS)
    copies = {f"copy{number}": np.where(sex == "F", "f", "m") for number in range(30)}
    frame = pd.DataFrame({"sex": sex, "y": rng.choice(["no", "yes"], ROWS), **copies})
    columns = read_columns(frame, target="y", sensitive="sex")
    assert [flag.column for flag in columns.flags] == list(copies)
    lines = [line for line in columns.parts[-1].splitlines() if line.startswith("! ")]
    assert len(lines) == 6
    says(lines[4], "'copy4' nearly determines sex")
    says(lines[5], "25 more like the last", "'copy5', 'copy6', 'copy7', 'copy8', 'copy9', ...")
