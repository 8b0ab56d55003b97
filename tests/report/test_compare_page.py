"""Runs compared: the numbers are those that each frontier gives by itself."""

import re
from html import unescape

import numpy as np
import pytest
from curves import curve, people
from sklearn.base import clone

from equipoise import FairFrontier, load
from equipoise.errors import InputError
from equipoise.frontier.comparison import BUDGETS, COLUMNS, ComparedRun, compare
from equipoise.frontier.judging import DRAWS_FOR_MANY
from equipoise.report.compare_page import compare_page
from tests.error_parts import says

SCRIPT = "<script>document.title='broken'</script>"


def run(kind, name=None):
    frontier = curve(kind)
    return ComparedRun(name or kind, frontier, frontier.get_params())


@pytest.fixture(scope="module")
def runs():
    return [run("two strengths", "short"), run("longer", "long")]


@pytest.fixture(scope="module")
def table(runs):
    return compare(runs).table


@pytest.fixture(scope="module")
def html(runs):
    return compare_page(compare(runs))


def test_each_number_is_what_select_reports(runs, table):
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 2 * 6 * len(BUDGETS)
    seen = set()
    for each in runs:
        for (metric, attribute), rows in table[table["run"] == each.name].groupby(
            ["metric", "attribute"], sort=False
        ):
            volume = each.frontier.hypervolume(metric, attribute)
            assert rows["hypervolume"].tolist() == [volume] * 4
            assert rows["budget"].tolist() == list(BUDGETS)
            for _, row in rows.iterrows():
                wish = {"max_unfairness": row["budget"], "metric": metric, "attribute": attribute}
                try:
                    chosen = each.frontier.select(draws=DRAWS_FOR_MANY, allow_useless=True, **wish)
                except InputError:
                    assert row["note"] == "no snapshot within the budget"
                    assert row[["snapshot", "utility", "unfairness_test"]].isna().all()
                    seen.add("none")
                    continue
                seen.add("some")
                assert row["snapshot"] == chosen.snapshot
                assert row["note"] == ""
                utility = chosen.rows[0]
                (unfair,) = (
                    r for r in chosen.rows if (r.metric, r.attribute) == (metric, attribute)
                )
                for name, found in (("utility", utility), ("unfairness", unfair)):
                    shown = row[[name, f"{name}_test", f"{name}_low", f"{name}_high"]].tolist()
                    assert shown == [found.validation, found.test, found.low, found.high]
                assert row["where"] == unfair.where
                assert bool(unfair.where) == (metric == "gap")
    assert seen == {"none", "some"}


def test_every_number_is_on_the_page_in_full(table, html):
    body = re.search(r'<table id="all".*?<tbody>(.*?)</tbody>', html, flags=re.DOTALL)[1]
    shown = re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL)
    assert len(shown) == len(table)
    for text, (_, row) in zip(shown, table.iterrows(), strict=True):
        cells = re.findall(r"<td([^>]*)>(.*?)</td>", text)
        assert [unescape(cell) for _, cell in cells[:3]] == [
            row["metric"],
            row["attribute"],
            row["run"],
        ]
        for (attributes, _), name in zip(cells[3:14], COLUMNS[3:14], strict=True):
            value = re.search(r'data-value="(.*?)"', attributes)
            if table[name].isna()[row.name]:
                assert value is None
            else:
                assert float(value[1]) == row[name]


def test_the_gap_is_shown_with_its_group_and_what_chance_explains(table, html, open_page):
    page = open_page(html)
    for attribute in ("sex", "age"):
        rows = table.query(f"metric == 'gap' and attribute == '{attribute}'")
        shown = page.locator(f"[data-measure='gap {attribute}'] .by-budget").inner_text()
        assert all(where in shown for where in rows["where"])
        assert all(" by chance" in where for where in rows[rows["snapshot"].notna()]["where"])
    words = page.inner_text("#reading")
    assert "gap" in words and "0.1 is 10 percentage points" in words


def test_points_of_the_fronts_are_those_of_front(runs, html, open_page):
    page = open_page(html)
    panel = page.locator("[data-measure='gap age']")
    fronts = [each.frontier.front("gap", "age") for each in runs]
    who = [
        f"strength {row['strength']:g}, seed {row['seed']:.0f}, iteration {row['iteration']:.0f}"
        for front in fronts
        for _, row in front.iterrows()
    ]
    values = [(row["gap age"], row["utility"]) for front in fronts for _, row in front.iterrows()]
    assert panel.locator("[data-fronts] title").all_text_contents() == [
        f"{words}: utility {utility:.4f}, gap age {unfairness:.4f}"
        for words, (unfairness, utility) in zip(who, values, strict=True)
    ]
    # A path begins at the first point of its front and passes through all others.
    lines = panel.locator("[data-fronts] > svg .front-line")
    for place, front in enumerate(fronts):
        path = lines.nth(place).get_attribute("d")
        places = np.array(re.findall(r"[MH](-?[\d.]+)", path)[: len(front)], float)
        expected = front["gap age"].to_numpy()
        assert len(places) == len(expected) and len(expected) > 1
        steps, numbers = np.diff(places), np.diff(expected)
        np.testing.assert_allclose(steps, steps.sum() * numbers / numbers.sum(), atol=0.05)
    rows = panel.locator(".fronts tbody tr")
    assert rows.locator("td:last-child").all_text_contents() == who
    shown = rows.evaluate_all(
        "rows => rows.map(row => [1, 2].map(k => Number(row.cells[k].dataset.value)))"
    )
    assert [tuple(each) for each in shown] == values


def test_the_answer_names_every_run_and_its_uncertainty(table, html):
    shown = re.search(r'id="volumes">(.*?)</section>', html, flags=re.DOTALL)[1]
    reached, kept = (unescape(text) for text in re.findall(r"<p>(.*?)</p>", shown))
    first = table.query("metric == 'gap' and attribute == 'sex'")
    short, long = (first[first["run"] == name] for name in ("short", "long"))
    assert reached == (
        "Share of the achievable trade-offs between AUC and gap by sex, on validation rows (0 "
        f"to 1): short {short['hypervolume'].iloc[0]:.3f}, long {long['hypervolume'].iloc[0]:.3f}."
    )
    both = [b for b in BUDGETS if first[first["budget"] == b]["snapshot"].notna().all()]
    a, b = (rows[rows["budget"] == both[0]].iloc[0] for rows in (short, long))
    assert kept == (
        f"Within a budget of {both[0]:g}, on test rows, short has AUC {a['utility_test']:.3f} "
        f"[{a['utility_low']:.3f} to {a['utility_high']:.3f}] and long has AUC "
        f"{b['utility_test']:.3f} [{b['utility_low']:.3f} to {b['utility_high']:.3f}]."
    )


def test_settings_that_differ_are_listed_and_no_others(html):
    part = re.search(r'id="differences">(.*?)</section>', html, flags=re.DOTALL)[1]
    assert re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td>', part) == [
        ("estimator__iterations", "60", "80")
    ]


def test_same_rows_need_no_caution(runs):
    assert compare(runs).cautions == ()


def test_other_rows_are_said_and_not_refused():
    compared = [run("two strengths", "a"), run("other seed", "b")]
    assert compare(compared).cautions == (
        "The test rows of b are not those of a: what differs may be the people, not the models.",
        "The validation rows of b are not those of a: hypervolumes and selected models are "
        "based on different rows.",
    )
    found = compare(compared).table
    assert found[found["run"] == "a"]["note"].isin(["", "no snapshot within the budget"]).all()
    others = found[found["run"] == "b"]["note"].str.split("; ")
    assert all(notes[-1] == "other test rows than the first run" for notes in others)
    page = unescape(compare_page(compare(compared)))
    assert all(caution in page for caution in compare(compared).cautions)


def test_a_run_without_test_rows_has_validation_values_only(tmp_path):
    curve().save(tmp_path / "bare.equipoise", include_test_rows=False)
    bare = load(tmp_path / "bare.equipoise")
    assert isinstance(bare, FairFrontier)
    compared = [run("two strengths", "whole"), ComparedRun("bare", bare, {})]
    assert compare(compared).cautions == (
        "bare was kept without test rows: it has values on validation rows only.",
    )
    found = compare(compared).table
    whole, bare_rows = (found[found["run"] == name] for name in ("whole", "bare"))
    assert bare_rows["utility_test"].isna().all()
    assert bare_rows["utility"].tolist() == pytest.approx(whole["utility"].tolist(), nan_ok=True)
    assert "has AUC" in compare_page(compare(compared)) and "on validation rows" in compare_page(
        compare(compared)
    )


def test_only_what_all_runs_have_is_compared():
    compared = [run("two strengths", "both"), run("one metric", "parity")]
    found = compare(compared).table
    assert found[["metric", "attribute"]].drop_duplicates().to_numpy().tolist() == [
        ["SP", "sex"],
        ["SP", "age"],
    ]
    assert compare(compared).cautions == (
        "Not compared, as not all runs have it: gap by sex, gap by age, KS-GSP by sex, "
        "KS-GSP by age of both.",
    )


@pytest.mark.parametrize(
    ("kinds", "parts"),
    [
        ([("two strengths", "x")], ("runs", "at least two", "got 1")),
        (
            [("two strengths", "x"), ("longer", "x")],
            ("runs", "must have different names", "got 'x'"),
        ),
        (
            [("two strengths", "x"), ("regression", "y")],
            ("runs", "must have the same utility", "AUC of 'x'", "R2 of 'y'", "one kind"),
        ),
        (
            [("two strengths", "x"), ("separation", "y")],
            ("runs", "must share a metric", "'x' has gap", "'y' has gap given Y", "same notion"),
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(kinds, parts):
    with pytest.raises(InputError) as refusal:
        compare([run(kind, name) for kind, name in kinds])
    says(str(refusal.value), *parts)


def test_different_notions_with_a_common_metric_are_said():
    X, y, A = people()
    other = clone(curve("separation")).set_params(metrics=["KS-GSP"])
    other.fit(X, y, sensitive_features=A)
    compared = [run("two strengths", "a"), ComparedRun("b", other, {})]
    assert compare(compared).cautions[0] == (
        "The runs were trained for different notions: a for independence, b for separation."
    )


def test_names_cannot_become_markup(open_page):
    nasty = curve("nasty")
    compared = [
        ComparedRun(SCRIPT, nasty, {SCRIPT: "</script><!--"}),
        ComparedRun("<img src=x onerror=document.title='broken'>", nasty, {SCRIPT: 2}),
    ]
    page = open_page(compare_page(compare(compared)))
    assert page.title() == (
        f"Comparison of {SCRIPT} and <img src=x onerror=document.title='broken'>"
    )
    assert page.locator("img").count() == 0
    assert page.locator("#differences tbody td").first.inner_text() == "</script><!--"


def test_long_names_break_into_lines(open_page, runs):
    long = [ComparedRun("path/" * 30 + each.name, each.frontier, {"a": "b" * 200}) for each in runs]
    page = open_page(compare_page(compare(long)), viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_a_line_is_known_by_more_than_its_color(html, open_page, scheme):
    page = open_page(html, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    dashes = page.eval_on_selector_all(
        "[data-measure='SP age'] [data-fronts] > svg .front-line",
        "lines => lines.map(line => getComputedStyle(line).strokeDasharray)",
    )
    assert len(set(dashes)) == len(dashes) == 2
    shapes = page.eval_on_selector_all(
        "[data-measure='SP age'] .legend .marker",
        "all => all.map(each => each.getAttribute('d').replace(/[^a-zA-Z]/g, ''))",
    )
    assert len(set(shapes)) == len(shapes) == 2


def test_a_point_lies_on_its_line(html, open_page):
    page = open_page(html)
    chart = "[data-measure='SP age'] [data-fronts] > svg"
    point = page.locator(f"{chart} .marker").first.bounding_box()
    x, y = page.locator(f"{chart} .front-line").first.evaluate(
        """line => { const start = line.getPointAtLength(0).matrixTransform(line.getScreenCTM());
        return [start.x, start.y]; }"""
    )
    assert point["x"] + point["width"] / 2 == pytest.approx(x, abs=0.75)
    assert point["y"] + point["height"] / 2 == pytest.approx(y, abs=0.75)


def test_without_scripts_the_numbers_of_every_chart_are_there(html, open_page):
    page = open_page(html, java_script_enabled=False)
    assert page.locator("noscript").is_visible()
    assert page.locator(".fronts:visible").count() == page.locator("[data-measure]").count() == 6
