"""Choosing: on validation rows only, reported on rows nobody looked at."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from equipoise.datasets import make_synthetic
from equipoise.errors import InputError, NoSuchModel
from equipoise.frontier.selection import pick, read_wish
from equipoise.inference import Estimate, bootstrap, certify
from equipoise.inference.gap import gap_estimates
from equipoise.metrics import find_metric, prepare
from equipoise.tables import SensitiveTable
from tests.composing import composed
from tests.error_parts import says

OPTIONS = {
    "strengths": (0.0, 0.5, 0.9),
    "seeds": 2,
    "iterations": 120,
    "evaluate_every": 20,
    "hidden": (16,),
    "critic_hidden": (8,),
    "batch_size": 100,
    "random_state": 7,
}


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(1500, random_state=3)


@pytest.fixture(scope="module")
def frontier(rows):
    return composed(**OPTIONS).fit(rows.X, rows.y, sensitive_features=rows.A)


# Limits are shares of the snapshots within them, so that they bind whatever training gives.
WISHES = [
    {"max_gap": 0.4},
    {"max_gap": 0.3, "attribute": "group"},
    {"max_gap": {"age": 0.6, "group": 0.7}},
    {"max_gap": {"group": 0.5}},
    {"max_gap": 0.7, "min_utility": 0.2},
    {"max_unfairness": 0.4},
    {"max_unfairness": 0.4, "metric": "KS-GSP"},
    {"max_unfairness": 0.3, "attribute": "group", "metric": "KS-GSP"},
    {"max_unfairness": {"age": 0.6, "group": 0.7}, "metric": "KS-GSP"},
    {"max_unfairness": {"age": 0.5}, "metric": "SP"},
    {"max_unfairness": 0.7, "min_utility": 0.2, "metric": "KS-GSP"},
    {"min_utility": 0.4},
    {"min_utility": 0.4, "metric": "KS-GSP"},
    {"min_utility": 0.6, "attribute": "age", "metric": "SP"},
]


@pytest.mark.parametrize("shares", WISHES, ids=str)
def test_the_pick_is_the_best_row_of_the_table_within_the_limits(frontier, shares):
    table, metric = frontier.table(), shares.get("metric", "gap")
    option = "max_gap" if "max_gap" in shares else "max_unfairness"
    wish, limits = dict(shares), shares.get(option)
    names = [shares["attribute"]] if "attribute" in shares else ["age", "group"]
    columns = [f"{metric} {name}" for name in (limits if isinstance(limits, dict) else names)]
    if isinstance(limits, dict):
        wish[option] = {
            name: float(table[f"{metric} {name}"].quantile(share)) for name, share in limits.items()
        }
        most = list(wish[option].values())
    elif limits is None:
        most = [np.inf] * len(columns)
    else:
        wish[option] = float(table[columns].max(axis=1).quantile(limits))
        most = [wish[option]] * len(columns)
    if "min_utility" in shares:
        wish["min_utility"] = float(table["utility"].quantile(shares["min_utility"]))
    within = (table[columns] <= most).all(axis=1)
    within &= table["utility"] >= wish.get("min_utility", -np.inf)
    chosen = frontier.select(draws=2, **wish).snapshot
    assert within[chosen] and 0 < within.sum() < len(table)
    if limits is not None:
        assert table.loc[chosen, "utility"] == table["utility"][within].max()
    else:
        assert table.loc[chosen, columns].max() == table[columns].max(axis=1)[within].min()


def test_picking_does_not_look_at_test_rows(rows, frontier):
    # Other outcomes and attributes for the test rows: the same table, pick and model, another
    # report.
    test = frontier.split_.test
    shuffled = np.arange(len(rows.y))
    shuffled[test] = np.random.default_rng(0).permutation(test)
    other = clone(frontier).fit(
        rows.X,
        rows.y.to_numpy()[shuffled],
        sensitive_features=rows.A.iloc[shuffled].reset_index(drop=True),
    )
    assert other.table().equals(frontier.table())
    wish = {"max_gap": 0.2, "draws": 2}
    first, second = frontier.select(**wish), other.select(**wish)
    assert first.snapshot == second.snapshot
    assert np.array_equal(first.model.predict_proba(rows.X), second.model.predict_proba(rows.X))
    assert first.rows[0].test > 0.6 and abs(second.rows[0].test - 0.5) < 0.1


def test_the_report_is_measured_on_the_test_rows(rows, frontier):
    wish = {"max_unfairness": {"group": 0.4}, "metric": "KS-GSP"}
    selection = frontier.select(**wish, draws=50, level=0.9)
    test = frontier.split_.test
    scores = selection.model.predict_proba(rows.X.iloc[test])[:, 1]
    y = rows.y.iloc[test].to_numpy()
    people = SensitiveTable.from_data(rows.A).take(test)
    utility, gap_by_age, gap_by_group, *unfairness = selection.rows
    assert utility.metric == "AUC" and np.isnan(utility.limit)
    assert utility.test == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    assert utility.low < utility.test < utility.high
    expected = bootstrap(
        ["KS-GSP", "SP"],
        scores,
        people,
        y,
        draws=50,
        level=0.9,
        threshold=selection.threshold,
    )
    names = [(metric, attribute) for attribute in people.names for metric in ("KS-GSP", "SP")]
    by_name = dict(zip(names, expected, strict=True))
    table = frontier.table().loc[selection.snapshot]
    assert [(row.metric, row.attribute) for row in unfairness] == [
        *(("KS-GSP", "age"), ("KS-GSP", "group"), ("SP", "age"), ("SP", "group"))
    ]
    for row in unfairness:
        interval = by_name[row.metric, row.attribute]
        assert (row.test, row.low, row.high) == pytest.approx(
            (interval.value, interval.low, interval.high), abs=1e-9
        )
        assert row.validation == table[f"{row.metric} {row.attribute}"]
        if row.metric == "KS-GSP":
            bound = certify(scores, people[row.attribute], level=0.9)
            assert row.certificate == pytest.approx(float(bound.upper), abs=1e-9)
        else:
            assert np.isnan(row.certificate)
    assert [row.limit for row in unfairness if not np.isnan(row.limit)] == [0.4]
    scored = prepare(scores, y)
    for row, attribute in ((gap_by_age, "age"), (gap_by_group, "group")):
        (expected,) = gap_estimates(
            find_metric("gap"), scored.against(people[attribute]), level=0.9, candidates=1
        )
        assert (row.metric, row.attribute) == ("gap", attribute)
        assert gap_of(row) == pytest.approx(gap_of(expected), abs=1e-9)
        assert row.where == expected.where and attribute in row.where
        assert row.validation == table[f"gap {attribute}"] and np.isnan(row.limit)


def gap_of(estimate):
    """The numbers that a gap has, of an estimate or of a row of a selection."""
    value = estimate.value if isinstance(estimate, Estimate) else estimate.test
    return value, estimate.low, estimate.high, estimate.chance, estimate.certificate


def test_certificates_count_the_selections_compared(frontier):
    one, many = (frontier.select(max_gap=0.2, draws=2, candidates=count) for count in (1, 20))
    assert one.snapshot == many.snapshot
    for a, b in zip(one.rows, many.rows, strict=True):
        if a.metric in ("gap", "KS-GSP"):
            assert a.test < a.certificate < b.certificate
    said = " ".join(str(many).split())
    assert "Each certificate holds by itself, for 20 selections." in said
    assert said.endswith("weakens it; candidates counts them.")


def test_a_selection_says_what_it_is(frontier):
    selection = frontier.select(max_gap={"group": 0.2}, draws=20)
    utility, _, group, *_ = selection.rows
    said = " ".join(str(selection).split())
    (verdict,) = selection.verdicts
    assert str(selection).startswith(f"group: {verdict.words}.\n\n")
    assert said.startswith(f"group: {verdict.words}. {' '.join(verdict.sentences)} Snapshot")
    assert (
        f"Snapshot {selection.snapshot} (strength {selection.strength:g}, seed {selection.seed}, "
        f"iteration {selection.iteration}) has the best AUC with gap by group <= 0.2, among "
        f"{selection.picked_among} snapshots on a front, on 300 validation rows. On 300 test rows, "
        f"used neither to train nor to pick, it is {'' if group.test <= 0.2 else 'not '}within the "
        f"limits (95 % intervals in brackets): AUC {utility.test:.4f} ({utility.low:.4f} to "
        f"{utility.high:.4f}), {utility.validation:.4f} on validation rows"
    ) in said
    assert (
        f"gap by group {group.test:.4f} ({group.low:.4f} to {group.high:.4f}), certified to be "
        f"at most {group.certificate:.4f}, {group.validation:.4f} on validation rows, limit: at "
        "most 0.2"
    ) in said
    assert max(map(len, str(selection).splitlines())) <= 100
    frame = selection.to_frame()
    assert frame["test"].tolist() == [row.test for row in selection.rows]


@pytest.mark.parametrize("metric", ["KS-GSP", "SP"])
def test_an_impossible_wish_names_the_nearest_and_asking_for_it_is_granted(frontier, metric):
    table, wish = frontier.table(), {"max_unfairness": 0.0, "metric": metric}
    largest = table[[f"{metric} age", f"{metric} group"]].max(axis=1)
    useful = table["utility"] > frontier.fitted_curve().chance
    number = int(largest.where(useful).argmin())
    near = table.loc[number]
    age, group = (np.ceil(1e4 * near[f"{metric} {name}"]) / 1e4 for name in ("age", "group"))
    utility = np.floor(1e4 * near["utility"]) / 1e4
    message = (
        f"no snapshot has {metric} by age <= 0 and {metric} by group <= 0 on the validation rows; "
        f"the nearest is snapshot {number} (strength {near['strength']:g}, seed {near['seed']:g}, "
        f"iteration {near['iteration']:g}) with AUC {utility:.4f} and {metric} by age {age:.4f}, "
        f"{metric} by group {group:.4f}; ask for these values, pass allow_nearest=True, train "
        "longer, or add strengths nearer to 1"
    )
    with pytest.raises(NoSuchModel, match=f"^{re.escape(message)}$") as refused:
        frontier.select(**wish)
    assert refused.value.nearest == {
        "snapshot": number,
        "utility": utility,
        "unfairness": {"age": age, "group": group},
    }
    granted = frontier.select(
        **wish | {"max_unfairness": {"age": age, "group": group}}, min_utility=utility, draws=2
    )
    assert table.loc[granted.snapshot, "utility"] >= near["utility"]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (
            {},
            "select needs a limit, got none; pass max_gap to get the best utility within it, or "
            "min_utility to get the least unfairness at that utility, for example max_gap=0.05",
        ),
        (
            {"max_unfairness": 0.1, "metric": "KS-GPS"},
            "metric must be one the frontier was judged by (gap, KS-GSP, SP), got 'KS-GPS'; to "
            "add it, fit again with it in metrics=; did you mean 'KS-GSP'?",
        ),
        (
            {"max_gap": 0.1, "attribute": "gruop"},
            "attribute must be a sensitive column that gap was measured for (age, group), got "
            "'gruop'; did you mean 'group'?",
        ),
        (
            {"max_unfairness": {"sex": 0.1}, "metric": "KS-GSP"},
            "max_unfairness must name sensitive columns that KS-GSP was measured for (age, group), "
            "got 'sex'",
        ),
        (
            {"max_unfairness": {"age": 0.1}, "attribute": "group"},
            "attribute must not be given when max_unfairness names attributes, got 'group'; leave "
            "it out",
        ),
        ({"max_unfairness": {}}, "max_unfairness must name at least one attribute, got {}"),
        (
            {"max_unfairness": {"age": -0.1}},
            "max_unfairness must be a finite number of at least 0, got -0.1 for age; leave out "
            "attributes without a limit",
        ),
        (
            {"max_unfairness": float("nan"), "attribute": "age"},
            "max_unfairness must be finite, got nan for age; leave out attributes without a limit",
        ),
        (
            {"max_unfairness": {"age": 0.1, "group": float("inf")}},
            "max_unfairness must be finite, got inf for group; leave out attributes without a "
            "limit",
        ),
        (
            {"min_utility": 80},
            "min_utility must be a finite number of at most 1, the AUC of perfect scores, got 80",
        ),
        (
            {"min_utility": "high"},
            "min_utility must be a finite number of at most 1, the AUC of perfect scores, got "
            "'high'",
        ),
        (
            {"max_unfairness": 0.5, "level": 95},
            "level must lie strictly between 0 and 1, got 95; try level=0.95",
        ),
        ({"max_unfairness": 0.5, "draws": 1}, "draws must be a whole number of at least 2, got 1"),
        (
            {"max_unfairness": 0.5, "candidates": 0},
            "candidates must be a whole number of at least 1, got 0",
        ),
    ],
)
def test_wrong_wishes_are_refused(frontier, wish, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        frontier.select(**wish)


@pytest.mark.parametrize(
    ("wish", "parts"),
    [
        ({"max_gap": 1.5}, ("max_gap", "must lie in [0, 1]", "got 1.5", "leave out")),
        ({"max_gap": -0.1}, ("max_gap", "must lie in [0, 1]", "got -0.1", "leave out")),
        ({"max_gap": {"age": 2}}, ("max_gap", "must lie in [0, 1]", "got 2 for age", "leave out")),
        ({"max_gap": "little"}, ("max_gap", "must lie in [0, 1]", "got 'little'", "leave out")),
        ({"max_gap": float("nan")}, ("max_gap", "finite", "got nan", "leave out")),
        (
            {"max_gap": {"age": 0.1, "gruop": 0.1}},
            ("max_gap", "must name sensitive columns", "age, group", "'gruop'", "mean 'group'?"),
        ),
        ({"max_gap": {}}, ("max_gap", "must name at least one attribute", "got {}")),
        (
            {"max_gap": {"age": 0.1}, "attribute": "age"},
            ("attribute", "must not be given", "max_gap", "got 'age'", "leave it out"),
        ),
        (
            {"max_gap": 0.1, "metric": "KS-GSP"},
            ("max_gap", "must stand alone", "metric='KS-GSP'", "pass max_unfairness and metric"),
        ),
        (
            {"max_gap": 0.1, "max_unfairness": 0.1},
            ("max_gap", "must stand alone", "got max_unfairness", "pass max_unfairness and metric"),
        ),
    ],
    ids=str,
)
def test_wrong_limits_on_the_gap_are_refused(frontier, wish, parts):
    with pytest.raises(InputError) as refused:
        frontier.select(**wish)
    says(str(refused.value), *parts)


def test_a_limit_on_the_gap_needs_a_frontier_judged_by_it(rows):
    few = {"strengths": (0.0,), "seeds": 1, "iterations": 20, "metrics": ("KS-GSP", "SP")}
    frontier = composed(**OPTIONS | few).fit(rows.X, rows.y, sensitive_features=rows.A)
    with pytest.raises(InputError) as refused:
        frontier.select(max_gap=0.1)
    says(str(refused.value), "max_gap", "judged by 'gap' or 'gap given Y'", "KS-GSP, SP")
    says(str(refused.value), "add the gap to metrics= and fit again", "pass max_unfairness")


def test_a_limit_binds_only_the_attributes_it_names(frontier):
    # The best of all breaks the limit on groups; named alone, age binds nobody.
    table = frontier.table()
    best = int(table["utility"].argmax())
    loose = float(table["gap age"].max())
    tight = float(table["gap group"].min())
    assert table.loc[best, "gap group"] > tight
    assert frontier.select(max_gap={"age": loose}, draws=2).snapshot == best
    both = frontier.select(max_gap={"age": loose, "group": tight}, draws=2).snapshot
    assert both != best and table.loc[both, "gap group"] == tight


def test_a_measure_that_no_fair_score_satisfies_is_shown_but_does_not_pick():
    rows = make_synthetic(1500, task="regression", random_state=3)
    metrics = ("gap given Y", "KS-GEO", "EO")
    frontier = composed(
        task="regression", notion="separation", metrics=metrics, **OPTIONS | {"iterations": 40}
    )
    # Far from 0, since EO divides by mean scores.
    frontier.fit(rows.X, rows.y + 20, sensitive_features=rows.A)
    table = frontier.table()
    for metric in ("KS-GEO", "EO"):
        assert (table[[f"{metric} age", f"{metric} group"]] > 0).all(axis=None)
        for wish in ({"max_unfairness": 0.5}, {"min_utility": 0.0}):
            with pytest.raises(InputError) as refused:
                frontier.select(**wish, metric=metric)
            says(str(refused.value), "metric", "a fair score can satisfy", f"got {metric!r}")
            says(str(refused.value), find_metric(metric).caveat("continuous"))
            says(str(refused.value), "not even for a perfect prediction", "use gap given Y")
    chosen = frontier.select(max_gap=1.0, draws=2)
    assert chosen.metric == "gap given Y"
    assert table.loc[chosen.snapshot, "utility"] == table["utility"].max()
    assert {row.metric for row in chosen.rows} == {"R2", *metrics}


def test_other_questions_refuse_wrong_names(frontier):
    with pytest.raises(
        InputError,
        match=r"^attribute must be named if there are several, got None; choose one of age, group$",
    ):
        frontier.front()
    with pytest.raises(InputError, match=r"^most_unfairness must be positive, got 0$"):
        frontier.hypervolume(attribute="age", most_unfairness=0)


def test_what_holds_on_test_rows_is_what_the_numbers_say(frontier):
    selection = frontier.select(max_gap={"group": 0.4}, min_utility=0.6, draws=2)
    utility, age, group, *_ = selection.rows
    assert (utility.limit, group.limit) == (0.6, 0.4) and np.isnan(age.limit)

    def valued(row, value):
        return replace(row, estimate=replace(row.estimate, value=value))

    def holds(*, auc=0.7, gap=0.3):
        rows = (valued(utility, auc), age, valued(group, gap))
        return replace(selection, rows=rows).holds_on_test

    assert holds()
    assert not holds(auc=0.59) and not holds(gap=0.41)
    assert not holds(gap=float("nan"))


def test_few_test_rows_have_a_wide_certificate_and_name_the_ranges_they_do_not_judge(rows):
    few = composed(**OPTIONS | {"strengths": (0.0,), "seeds": 1, "test": range(90)})
    few.fit(rows.X, rows.y, sensitive_features=rows.A[["age"]])
    _, gap, age, _ = few.select(min_utility=0.5, draws=2).rows
    assert (gap.metric, age.metric) == ("gap", "KS-GSP")
    for row in (gap, age):
        assert row.low <= row.test <= row.high <= row.certificate
        assert row.test + 0.3 < row.certificate
    assert gap.note.startswith("too few rows to judge by themselves: age ")
    assert gap.note in " ".join(str(few.select(min_utility=0.5, draws=2)).split())
    assert age.note == ""


def test_an_undefined_metric_keeps_a_snapshot_off_its_fronts_and_out_of_choice(frontier):
    curve = frontier.fitted_curve()
    wish = read_wish(
        curve.snapshots.criteria,
        max_unfairness=10.0,
        min_utility=None,
        metric="SP",
        attribute="group",
    )
    best = pick(curve.snapshots, curve.entries, wish).number
    column = curve.snapshots.criteria.columns.index("SP group")
    unfairness = curve.snapshots.unfairness.copy()
    unfairness[best, column] = np.nan
    without = replace(curve.snapshots, unfairness=unfairness)
    assert best in curve.snapshots.front([column]) and best not in without.front([column])
    assert pick(without, curve.entries, wish).number != best
    unfairness[:, column] = np.nan
    with pytest.raises(
        InputError,
        match=r"^no snapshot has a defined SP by group; the table of snapshots shows where",
    ):
        pick(without, curve.entries, wish)


def flat_network(n_inputs, n_outputs):
    layer = torch.nn.Linear(n_inputs, n_outputs)
    torch.nn.init.constant_(layer.weight, 1e-5)
    return layer


def test_an_unhealthy_snapshot_is_pointed_out(rows):
    # A learning rate this small leaves the score where it started: nearly constant.
    dull = composed(
        **OPTIONS | {"strengths": (0.5,), "seeds": 1, "learning_rate": 1e-12, "iterations": 20},
        network=flat_network,
    )
    dull.fit(rows.X, rows.y, sensitive_features=rows.A)
    selection = dull.select(min_utility=0.0, draws=2)
    (message,) = selection.model.health_.messages
    assert message.startswith("The score is nearly constant")
    assert f"Training: {message}" in " ".join(str(selection).split())
    assert dull.members()["health"].tolist() == [message]
