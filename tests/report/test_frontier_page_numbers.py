"""What the page of a frontier is made of: staircases, histograms, groups, certificates."""

import json
import math
import re
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from page_frontiers import SMALL, data, fitted, page_of, selected

from equipoise.errors import InputError
from equipoise.frontier.judging import Criteria, ReportSettings
from equipoise.frontier.selection import LimitStep, pick, read_wish, steps
from equipoise.frontier.snapshots import Entry, Snapshots
from equipoise.inference import certify
from equipoise.inference.gap import gap_estimates
from equipoise.metrics import find_metric, prepare
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.report.frontier_data import (
    MOST_GROUPS,
    MOST_MODELS,
    MOST_NUMBERS,
    View,
    assess_snapshots,
    counts_by_group,
    edges_for,
    groups_of,
    points_of,
    positions_along,
    quantiles_by_group,
    snapshots_shown,
    some_views,
    thinned,
    views_of,
)
from equipoise.report.frontier_page import RunFacts, frontier_page, select_call
from equipoise.report.page import json_text, render_page
from equipoise.tables import SensitiveTable
from tests.composing import composed
from tests.error_parts import says


def snapshots_like(random, count, *, ties):
    """Snapshots of random values, every one kept; ties make equal values common."""
    values = random.random((count, 3))
    values = np.round(values, 1) if ties else values
    return Snapshots(
        criteria=Criteria("AUC", (("KS-GSP", "age"), ("KS-GSP", "sex"))),
        entry=np.zeros(count, dtype=np.int64),
        iteration=np.arange(count),
        utility=values[:, 0],
        threshold=np.full(count, 0.5),
        unfairness=values[:, 1:],
        weights={number: {} for number in range(count)},
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.booleans(), st.sampled_from(["age", None]))
def test_the_staircase_is_what_select_picks_at_every_limit(seed, count, ties, attribute):
    random = np.random.default_rng(seed)
    snapshots = snapshots_like(random, count, ties=ties)
    found = steps(snapshots, "KS-GSP", attribute)
    limits = [step.unfairness for step in found]
    assert limits == sorted(limits)
    for limit in [*limits, *random.random(5)]:
        wish = read_wish(
            snapshots.criteria,
            max_unfairness=limit,
            min_utility=None,
            metric=None,
            attribute=attribute,
        )
        within = [step.snapshot for step in found if step.unfairness <= limit]
        if within:
            assert pick(snapshots, [Entry(0.0, (0,), (0,))], wish).number == within[-1]
        else:
            with pytest.raises(InputError, match="no snapshot has KS-GSP"):
                pick(snapshots, [Entry(0.0, (0,), (0,))], wish)


@given(
    st.lists(st.floats(0, 2), min_size=1, max_size=9, unique=True).map(sorted),
)
def test_the_limit_of_a_step_picks_that_step_in_few_digits(values):
    found = tuple(LimitStep(value, number) for number, value in enumerate(values))
    view = View("SP", None, (0, 1), found, ())
    for place, value in enumerate(values):
        limit = float(view.limit(place))
        assert value <= limit
        assert place + 1 == len(values) or limit < values[place + 1]
    assert View("SP", None, (0,), (LimitStep(0.05, 1),), ()).limit(0) == "0.05"
    assert View("SP", None, (0,), (LimitStep(0.05001, 1),), ()).limit(0) == "0.051"


@pytest.mark.parametrize("most", [7, 20, 10_000])
def test_thinning_keeps_the_ends_and_what_must_stay(most):
    random = np.random.default_rng(0)
    snapshots = snapshots_like(random, 500, ties=False)
    # The fairer the less useful, without exception: every snapshot is a step.
    age, sex, utility = np.sort(random.random((3, 500)), axis=1)
    snapshots = replace(snapshots, utility=utility, unfairness=np.column_stack([age, sex]))
    views = views_of(snapshots)
    assert [len(view.steps) for view in views] == [500, 500, 500]
    assert [(view.metric, view.attribute) for view in views] == [
        ("KS-GSP", None),
        ("KS-GSP", "age"),
        ("KS-GSP", "sex"),
    ]
    middle = views[1].steps[len(views[1].steps) // 3].snapshot
    kept = thinned(views, most, always=[middle])
    assert len(snapshots_shown(kept)) <= most
    assert len(snapshots_shown(kept)) >= min(most, 500) - 2
    assert middle in snapshots_shown(kept)
    for view in kept:
        assert view.shown[0] == 0 and view.shown[-1] == len(view.steps) - 1
        assert (len(view.shown) == len(view.steps)) == (most == 10_000)


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-7, 1.0, 3e5]),
    st.sampled_from([0.0, -2.0, 0.3]),
    st.sampled_from([None, 0.31, 5.0, 1.7e308, -9.0]),
)
def test_counts_above_every_edge_are_the_decisions_there(seed, spread, centre, threshold):
    random = np.random.default_rng(seed)
    n = 40
    scores = (centre + spread * random.random(n)).round(random.integers(1, 9))
    table = SensitiveTable.from_data({"g": random.integers(3, size=n).astype(str)})
    labels, codes = groups_of(table["g"], np.ones(n))
    edges = edges_for(scores, threshold)
    counts = counts_by_group(scores, edges, codes, (scores > 0.5).astype(np.int64), np.ones(n))
    assert (np.diff(edges.values) > 0).all()
    assert edges.values[0] < scores.min() and scores.max() <= edges.values[-1]
    assert 1 <= len(edges.values) - 1 <= 106
    for place, edge in enumerate(edges.values):
        for code in range(len(labels)):
            decided = ((scores > edge) & (codes == code)).sum()
            assert counts[code, :, place:].sum() == decided
    if threshold is None:
        assert edges.own is None
    else:
        own = edges.values[edges.own]
        assert ((scores > own) == (scores > threshold)).all()
        assert edges.inserted == (own == threshold and own not in edges_for(scores, None).values)


def test_edges_are_round_numbers():
    edges = edges_for(np.random.default_rng(0).random(1000), None)
    assert edges.step == 0.01
    assert [f"{edge:g}" for edge in edges.values[:3]] == ["0", "0.01", "0.02"]
    assert edges_for(np.full(5, 0.25), None).step == 0.01


def test_counts_give_sizes_and_rates_of_every_group():
    curve = fitted("two classes").fitted_curve()
    scores = curve.test_scores([selected("two classes").snapshot])[0, :, 0]
    threshold, y = selected("two classes").threshold, curve.test.y
    for column in curve.test.table.columns:
        _, codes = groups_of(column, np.ones(len(scores)))
        edges = edges_for(scores, threshold)
        counts = counts_by_group(scores, edges, codes, y, np.ones(len(scores)))
        for code, by_class in enumerate(counts):
            for outcome, bins in enumerate(by_class):
                rows = (codes == code) & (y == outcome)
                assert bins.sum() == rows.sum()
                decided = bins[edges.own :].sum() / bins.sum()
                assert decided == pytest.approx((scores[rows] > threshold).mean())


def test_small_groups_are_put_together_and_unknown_ones_are_a_group():
    sizes = [30 - number for number in range(15)]
    values = [f"g{number:02}" for number, size in enumerate(sizes) for _ in range(size)]
    column = SensitiveTable.from_data({"g": [*values, None, None]}, missing="skip")["g"]
    labels, codes = groups_of(column, np.ones(len(values) + 2))
    assert len(labels) == MOST_GROUPS + 1
    assert labels[-2:] == ("4 smaller groups together", "not known")
    found = np.bincount(codes).tolist()
    assert found == [*sizes[:11], sum(sizes[11:]), 2]


def test_quantiles_along_an_attribute_are_numpys():
    random = np.random.default_rng(4)
    age, scores = random.normal(size=600), random.random(600)
    middle, ranges = positions_along(SensitiveTable.from_data({"age": age})["age"])
    bands = quantiles_by_group(scores, ranges, np.ones(600))
    assert len(middle) == 20  # some 30 rows each
    cuts = np.quantile(age, np.arange(1, 20) / 20)
    for place in range(20):
        inside = np.searchsorted(cuts, age) == place
        assert middle[place] == np.median(age[inside])
        assert bands[place].tolist() == pytest.approx(
            np.quantile(scores[inside], [0.1, 0.25, 0.5, 0.75, 0.9]).tolist(), abs=1e-12
        )


@pytest.mark.parametrize("kind", ["two classes", "numbers", "three classes", "weights"])
def test_models_assessed_together_have_the_numbers_they_have_alone(kind):
    curve = fitted(kind).fitted_curve()
    numbers = list(curve.snapshots.weights)[:4]
    options = ReportSettings(draws=20, level=0.9)
    together = assess_snapshots(curve, numbers, options)
    for model in together:
        (alone,) = assess_snapshots(curve, [model.snapshot], options)
        for one, other in zip(model.rows, alone.rows, strict=True):
            assert astuple(one)[:2] == astuple(other)[:2] and one.note == other.note
            # R2 is a matrix product, whose last digits depend on how many rows it has.
            assert astuple(one)[2:-1] == pytest.approx(astuple(other)[2:-1], rel=1e-9, nan_ok=True)
        assert model.health == alone.health


def test_joint_certificates_hold_for_all_models_together():
    curve = fitted("two classes").fitted_curve()
    numbers = list(curve.snapshots.weights)[:5]
    models = assess_snapshots(curve, numbers, ReportSettings(draws=2))
    scores = curve.test_scores(numbers)[:, :, 0]
    for place, attribute in enumerate(("age", "group")):
        column = curve.test.table[attribute]
        sample = prepare(scores, curve.test.y).against(column)
        of_gap = gap_estimates(find_metric("gap"), sample, candidates=5)
        bounds = [each.certificate for each in of_gap], certify(scores, column, candidates=5).upper
        for measure, bound in zip((place, place + 2), bounds, strict=True):
            found = [model.joint_certificates[measure] for model in models]
            assert found == pytest.approx(list(bound))
            alone = [model.rows[measure + 1].certificate for model in models]
            assert all(one < other for one, other in zip(alone, bound, strict=True))
    assert np.isnan([model.joint_certificates[4:] for model in models]).all()


def test_the_page_holds_the_table_of_the_frontier():
    text = page_of("two classes")
    found = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))
    table = fitted("two classes").table()
    points = found["points"]
    assert points["number"] == table.index.tolist()
    assert points["utility"] == pytest.approx(table["utility"].tolist(), rel=1e-5)
    assert points["iteration"] == table["iteration"].tolist()
    for (metric, attribute), values in zip(found["measures"], points["unfairness"], strict=True):
        column = table[f"{metric} {attribute}"]
        known = [math.nan if value is None else value for value in values]
        np.testing.assert_allclose(known, column.to_numpy(), rtol=1e-5)
    entries = found["entries"]
    assert [entries[e]["strength"] for e in points["entry"]] == table["strength"].tolist()
    (model,) = (m for m in found["models"] if m["snapshot"] == selected("two classes").snapshot)
    curve = fitted("two classes").fitted_curve()
    scores = curve.test_scores([model["snapshot"]])[0, :, 0]
    codes = curve.test.table["group"].codes
    for group, shown in enumerate(model["scores"][1]["quantiles"]):
        expected = np.quantile(scores[codes == group], [0.1, 0.25, 0.5, 0.75, 0.9])
        assert shown == pytest.approx(expected.tolist(), rel=1e-5)
    history = fitted("two classes").history_
    assert entries[3]["iterations"] == history.iterations.tolist()
    assert entries[3]["penalty"] == pytest.approx(history.penalty[:, 3].tolist(), rel=1e-5)


def test_of_very_many_snapshots_those_needed_are_in_the_picture():
    room = MOST_NUMBERS // 6
    many = snapshots_like(np.random.default_rng(0), 3 * room, ties=False)
    needed = set(range(0, 3 * room, 100))
    found = points_of(many, needed)
    assert len(found["number"]) == room and needed <= set(found["number"].tolist())
    assert np.diff(found["number"]).min() >= 1
    assert found["of"] == 3 * room


def test_with_little_room_the_question_that_was_asked_stays():
    snapshots = snapshots_like(np.random.default_rng(0), 30, ties=False)
    views = views_of(snapshots)
    assert some_views(views, 2, views[2]) == (views[0], views[2])
    assert some_views(views, 1, views[1]) == (views[1],)
    assert some_views(views, 9, views[1]) == views


def test_the_documentation_names_the_limits_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
    assert f"offers up to {MOST_MODELS} models" in page
    assert f"fewer than {SMALL_GROUP} rows" in page
    assert MOST_GROUPS == 12 and "more than twelve groups" in page


def test_a_selection_can_be_asked_for_again():
    frontier = fitted("two classes")
    names = ("age", "group")
    for wish in (
        {"max_gap": 0.5},
        {"max_gap": 0.4, "attribute": "age"},
        {"max_gap": {"age": 0.4, "group": 0.5}},
        {"max_gap": {"group": 0.5}},
        {"max_unfairness": 0.5, "metric": "KS-GSP"},
        {"max_unfairness": 0.4, "attribute": "age", "metric": "SP"},
        {"min_utility": 0.6},
        {"min_utility": 0.6, "metric": "SP", "attribute": "group"},
        {"max_unfairness": 0.5, "min_utility": 0.55},
    ):
        selection = frontier.select(draws=2, **wish)
        call = select_call(selection, names)
        assert eval(call, {"frontier": frontier}).snapshot == selection.snapshot
    assert select_call(frontier.select(max_gap=0.5, draws=2), names) == (
        "frontier.select(max_gap=0.5)"
    )
    by_another = frontier.select(max_unfairness=0.5, metric="KS-GSP", draws=2)
    assert select_call(by_another, names) == "frontier.select(max_unfairness=0.5, metric='KS-GSP')"


def test_of_two_gaps_the_line_limits_the_one_that_was_limited():
    rows = data()
    options = SMALL | {"metrics": ("gap", "gap given Y"), "strengths": (0.0,), "iterations": 20}
    frontier = composed(**options).fit(rows.X, rows.y, sensitive_features=rows.A)
    for wish in ({"max_gap": 0.9}, {"max_unfairness": 0.9, "metric": "gap given Y"}):
        selection = frontier.select(draws=2, **wish)
        call = select_call(selection, ("age", "group"))
        assert eval(call, {"frontier": frontier}).wish == selection.wish


def test_a_selection_of_another_frontier_is_refused():
    other = selected("weights")
    with pytest.raises(InputError) as refusal:
        frontier_page(fitted("two classes"), other, RunFacts(title="t"))
    found = f"got snapshot {other.snapshot} of another"
    says(str(refusal.value), "selection", "must come from", found, "frontier.select")


def test_json_can_not_leave_its_script():
    text = json_text(
        {"a": "</script><!--&\u2028", "b": [np.float64("nan"), np.array([1, 2]), None]}
    )
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!--&\u2028", "b": [None, [1, 2], None]}
    assert json_text(np.array([0.5, np.inf])) == "[0.5,null]"


def test_templates_escape_and_refuse_what_they_were_not_given():
    page = render_page("base.html", scripts=(), data="<i>", title="<b>")
    assert "<title>&lt;b&gt;</title>" in page and "<i>" not in page
    with pytest.raises(Exception, match="'title' is undefined"):
        render_page("base.html", scripts=(), data=None)


def test_the_page_is_the_same_every_time():
    frontier, selection = fitted("weights"), selected("weights")
    torch.manual_seed(3)
    first = frontier_page(frontier, selection, RunFacts(title="t"))
    torch.manual_seed(4)
    assert frontier_page(frontier, selection, RunFacts(title="t")) == first
