"""Columns that give the target away or stand in for a sensitive one, against scikit-learn."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, spearmanr
from sklearn.metrics import r2_score, roc_auc_score

from equipoise import load_dataset
from equipoise.files import read_columns
from equipoise.files.contents import (
    _IDENTIFIER_NAME,
    _WITH_COMMAS,
    SAMPLED_ROWS,
    predictability,
    revealing_levels,
    sample_goal,
)

ROWS = 4000


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def frame(rng):
    return pd.DataFrame(
        {
            "noise": rng.normal(size=ROWS),
            "job": rng.choice(["cook", "nurse", "clerk"], ROWS),
            "sex": rng.choice(["F", "M"], ROWS),
            "age": rng.integers(18, 80, ROWS),
            "hired": rng.choice(["no", "yes"], ROWS),
        }
    )


def flags(frame, **options):
    read = read_columns(frame, **{"target": "hired", "sensitive": ["sex", "age"], **options})
    return [(flag.concern, flag.words) for flag in read.flags]


def test_noise_raises_no_flag(frame):
    assert flags(frame) == []


def test_the_target_under_another_name(frame):
    frame["outcome"] = frame["hired"].map({"no": 1, "yes": 0})
    assert flags(frame) == [
        (
            "giveaway",
            "'outcome' is the target under another name: each of its values belongs to one class; "
            "drop it",
        )
    ]


@pytest.mark.parametrize("shape", ["threshold", "band", "category"])
def test_a_column_that_gives_the_target_away_is_named_with_its_number(frame, rng, shape):
    yes = (frame["hired"] == "yes").to_numpy()
    if shape == "threshold":
        frame["leak"] = np.where(yes, 1, -1) * rng.uniform(0.1, 1, ROWS)
    elif shape == "band":  # both ends of the range mean no: no order of the values tells
        frame["leak"] = np.where(yes, rng.uniform(-1, 1, ROWS), rng.choice([-3, 3], ROWS))
    else:
        frame["leak"] = np.where(yes, "code A", rng.choice(["code B", "code C"], ROWS))
    (found,) = flags(frame)
    assert found == (
        "giveaway",
        "'leak' gives the target away: AUC 1.000 on its own, on held-out rows; drop it if it is "
        "not known when decisions are made",
    )


def test_the_limit_is_an_area_of_099(frame, rng):
    yes = (frame["hired"] == "yes").to_numpy()
    # Two unit normals d apart have an area of Phi(d / sqrt 2).
    frame["strong"] = rng.normal(size=ROWS) + 5.0 * yes
    frame["weak"] = rng.normal(size=ROWS) + 3.0 * yes
    assert norm.cdf(5.0 / np.sqrt(2)) > 0.999
    assert 0.98 < norm.cdf(3.0 / np.sqrt(2)) < 0.985
    assert [words.split()[0] for _, words in flags(frame)] == ["'strong'"]


def test_a_number_that_gives_a_number_away(frame, rng):
    frame["hired"] = rng.lognormal(sigma=3.0, size=ROWS)
    frame["other currency"] = 1.1 * frame["hired"]
    frame["related"] = frame["hired"] * rng.lognormal(sigma=2.0, size=ROWS)
    (found,) = flags(frame)
    assert found[1].startswith("'other currency' gives the target away: R2 1.000 on its own")


def test_proxies_are_information(frame):
    frame["title"] = frame["sex"].map({"F": "Ms", "M": "Mr"})
    frame["birth year"] = 2020 - frame["age"]
    assert flags(frame) == [
        ("proxy", "'title' nearly determines sex: AUC 1.000 on its own, on held-out rows"),
        ("proxy", "'birth year' nearly determines age: R2 1.000 on its own, on held-out rows"),
    ]


def test_wife_tells_sex_in_adult():
    data = load_dataset("adult")
    frame = pd.concat([data.X, data.A, data.y], axis=1)
    read = read_columns(frame, target=data.y.name, sensitive=["age", "race", "sex"])
    wives = data.A["sex"][data.X["relationship"] == "Wife"]
    share, overall = (wives == "Female").mean(), (data.A["sex"] == "Female").mean()
    words = [flag.words for flag in read.flags]
    assert (
        f"'relationship' = 'Wife' reveals sex: {share:.1%} of its rows are 'Female', {overall:.1%} "
        "of all rows are"
    ) in words
    assert [word.split()[0] for word in words] == ["'relationship'", "'relationship'"]


def test_few_rows_are_said_to_be_too_few(frame):
    said = "to look for columns that give the target away (at least 40 are needed)"
    assert flags(frame.iloc[:39]) == [("rows", f"39 rows are too few of each class {said}")]
    numbers = frame.iloc[:39].assign(hired=frame["noise"])
    assert ("rows", f"39 rows are too few {said}") in flags(numbers)
    frame["hired"] = np.where(np.arange(ROWS) < 3, "yes", "no")  # none to measure on
    assert flags(frame) == [("rows", f"4,000 rows are too few of each class {said}")]


def test_infinite_and_missing_numbers_do_no_harm(frame):
    frame.loc[:9, "noise"] = np.inf
    frame.loc[10:1500, "noise"] = np.nan
    frame.loc[:1500, "job"] = None
    assert flags(frame) == []


def test_a_missing_value_that_tells_is_found(frame):
    yes = frame["hired"] == "yes"
    frame["reason"] = frame["job"].where(yes)
    frame["days"] = frame["noise"].where(yes)
    assert [words.split()[0] for _, words in flags(frame)] == ["'reason'", "'days'"]


def test_the_area_is_that_of_scikit_learn(rng):
    codes = rng.integers(0, 3, 3000)
    category = np.where(rng.random(3000) < 0.5, codes, rng.integers(0, 5, 3000))
    goal = sample_goal(codes, None, rng)
    half = len(goal.rows) // 2
    column, classes = category[goal.rows], codes[goal.rows]
    shares = np.stack(
        [[np.mean(classes[:half][column[:half] == c] == k) for k in range(3)] for c in range(5)]
    )
    expected = roc_auc_score(classes[half:], shares[column[half:]], multi_class="ovr")
    assert predictability(column, categories=True, goal=goal) == pytest.approx(expected, abs=1e-12)


def test_the_share_explained_is_that_of_scikit_learn(rng):
    category = rng.integers(0, 4, 3000)
    values = category + rng.normal(size=3000)
    goal = sample_goal(None, values, rng)
    half = len(goal.rows) // 2
    column = category[goal.rows]
    means = np.array([goal.targets[:, 0][:half][column[:half] == c].mean() for c in range(4)])
    expected = r2_score(goal.targets[:, 0][half:], means[column[half:]])
    assert predictability(column, categories=True, goal=goal) == pytest.approx(expected, abs=1e-12)


def test_an_increasing_number_tells_as_much_as_spearman_says(rng):
    values = rng.lognormal(sigma=4.0, size=3000)
    number = np.log(values) + 0.01 * rng.normal(size=3000)
    goal = sample_goal(None, values, rng)
    half = len(goal.rows) // 2
    expected = spearmanr(number[goal.rows][half:], goal.targets[:, 0][half:]).statistic ** 2
    assert predictability(number[goal.rows], categories=False, goal=goal) == pytest.approx(expected)


def test_numbers_with_commas_are_flagged(rng):
    frame = pd.DataFrame(
        {
            "pay": [f"{cents // 100},{cents % 100:02d}" for cents in rng.integers(1, 9999, 200)],
            "codes": rng.choice(["1,2,3", "2", "1,3"], 200),
            "level": rng.choice(["1", "2", "3"], 200),
            "sex": rng.choice(["F", "M"], 200),
            "hired": rng.choice(["no", "yes"], 200),
        }
    )
    flags = read_columns(frame, target="hired", sensitive=["sex"]).flags
    first = frame["pay"].value_counts().index[0]
    assert [flag.words for flag in flags if flag.concern == "text"] == [
        "'pay' is read as categories although its values are numbers with commas, such as "
        f"'{first}'; write them with a decimal point and no separator between thousands"
    ]


def test_a_rare_class_is_sampled_like_a_common_one(rng):
    codes = (rng.random(200_000) < 0.002).astype(int)
    goal = sample_goal(codes, None, rng)
    assert len(goal.rows) == SAMPLED_ROWS // 2 + codes.sum()
    assert predictability(codes[goal.rows] * 1.0, categories=False, goal=goal) == 1.0
    assert np.array_equal(codes[goal.rows], goal.targets.argmax(1))


def test_levels_tell_only_what_is_not_true_of_nearly_everybody():
    levels = np.repeat([0, 1, 2], [50, 50, 900])
    groups = np.concatenate([np.zeros(50, int), np.ones(50, int), np.arange(900) % 2])
    found = revealing_levels(levels, groups)
    assert found == [(0, 0, 1.0, 0.5), (1, 1, 1.0, 0.5)]
    nearly_all = np.zeros(1000, int)
    nearly_all[-5:] = 1
    assert revealing_levels(levels, nearly_all) == []
    missing = np.where(levels == 0, -1, groups)
    assert [row[0] for row in revealing_levels(levels, missing)] == [1]
    few = slice(25, None)  # 25 rows of level 0
    assert [row[0] for row in revealing_levels(levels[few], groups[few])] == [1]


@pytest.mark.parametrize("name", ["customer_id", "e-mail", "paid", "period"])
def test_names_that_identifiers_have(name):
    assert bool(_IDENTIFIER_NAME.search(name)) == (name in ("customer_id", "e-mail"))


@pytest.mark.parametrize("text", ["1,5", "-20", "3,25", "1,234,567.50", "950", "2,5,6", "a,5"])
def test_numbers_that_have_commas(text):
    assert bool(re.fullmatch(_WITH_COMMAS, text)) == (text not in ("2,5,6", "a,5"))
