"""The page of a frontier, in a browser: what is moved changes what is shown, to the number."""

import copy
import math
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, count, selection_rate
from page_frontiers import fitted, page_of, selected
from page_reading import assert_table_is, cells, choose_view, chosen, number, set_slider, steps_of
from sklearn.metrics import recall_score

from equipoise.frontier.judging import DRAWS_FOR_MANY
from equipoise.inference.gap import gap_estimates
from equipoise.metrics import find_metric, prepare
from equipoise.report.frontier_page import RunFacts, frontier_page

VIEWS = [("gap", None), ("gap", "group"), ("KS-GSP", "age"), ("SP", None)]


def test_the_page_begins_with_the_selected_model(open_page):
    selection = selected("two classes")
    page = open_page(page_of("two classes"))
    assert chosen(page) == selection.snapshot
    assert "selected by the run" in page.inner_text("#chosen-who")
    assert_table_is(page, selection)
    answer = page.inner_text("#answer").replace("\N{NO-BREAK SPACE}", " ")
    utility = selection.rows[0]
    assert (
        f"score {100 * utility.test:.1f} % of the time (95 % interval {100 * utility.low:.1f} % to "
        f"{100 * utility.high:.1f} %)"
    ) in answer
    words = page.inner_text("section.words")
    assert "Measured on 500 test rows" in words
    for verdict in selection.verdicts:
        assert " ".join([f"{verdict.attribute}: {verdict.words}.", *verdict.sentences]) in words


def test_the_gap_is_shown_with_its_group_its_threshold_and_what_chance_explains(open_page):
    curve = fitted("two classes").fitted_curve()
    page = open_page(page_of("two classes"))
    for end in ("min", "max"):
        set_slider(page, "#limit", page.get_attribute("#limit", end))
        (scores,) = curve.test_scores([chosen(page)])
        shown = {row[0].splitlines()[0]: row for row in cells(page, "#metrics-body")}
        found = {}
        for name in ("age", "group"):
            sample = prepare(scores.T, curve.test.y).against(curve.test.table[name])
            (found[name],) = gap_estimates(find_metric("gap"), sample)
            row = shown[f"gap by {name}"]
            assert row[0].splitlines()[1] == found[name].where
            assert number(row[3]) == pytest.approx(found[name].value, abs=5.0001e-5)
            assert number(row[5]) == pytest.approx(found[name].certificate, abs=5.0001e-5)
            assert f"{100 * found[name].chance:.1f}".removesuffix(".0") + " by chance" in row[0]
        largest = max(found.values(), key=lambda each: each.value)
        assert page.inner_text("#chosen-summary").endswith(
            f"The group that stands out most is {largest.where}."
        )
    reading = page.inner_text("h3#reading + ul")
    assert "gap (independence): Largest difference between any group" in reading
    assert "0.1 is 10 percentage points" in reading and "by chance is taken out" in reading


@pytest.mark.parametrize(("metric", "attribute"), VIEWS)
def test_the_slider_chooses_what_select_chooses_and_the_table_follows(open_page, metric, attribute):
    frontier = fitted("two classes")
    page = open_page(page_of("two classes"))
    choose_view(page, metric, attribute)
    found = set()
    slider = page.locator("#limit")
    least, most = (float(slider.get_attribute(end)) for end in ("min", "max"))
    for limit in np.linspace(least, most, 7):
        set_slider(page, "#limit", limit)
        shown = float(page.inner_text("#limit-value").removeprefix("at most "))
        assert shown == pytest.approx(limit, abs=1e-4)
        selection = frontier.select(
            max_unfairness=shown, metric=metric, attribute=attribute, draws=DRAWS_FOR_MANY
        )
        assert chosen(page) == selection.snapshot
        if selection.snapshot != selected("two classes").snapshot:
            assert_table_is(page, selection)
        found.add(selection.snapshot)
    # The two ends: what is fairest, and what is most useful.
    assert len(found) >= 2
    assert least == pytest.approx(steps_of(frontier, metric, attribute)[0], abs=1e-3)


def test_limits_are_said_to_be_kept_or_not(open_page):
    frontier = fitted("two classes")
    page = open_page(page_of("two classes"))
    choose_view(page, "gap", "age")
    slider = page.locator("#limit")
    for share in (0.0, 0.3, 0.6):
        least, most = (float(slider.get_attribute(end)) for end in ("min", "max"))
        set_slider(page, "#limit", least + share * (most - least))
        limit = float(page.inner_text("#limit-value").removeprefix("at most "))
        row = frontier.select(max_gap=limit, attribute="age").to_frame()
        test = row.query("metric == 'gap' and attribute == 'age'")["test"].item()
        words = page.inner_text("[data-measure='gap by age'] td:nth-child(2)")
        assert words == f"≤ {limit:g}: {'kept' if test <= limit else 'not kept'}"
        assert page.inner_text("[data-measure='SP by age'] td:nth-child(2)") == ""


def test_the_last_column_is_the_certificate_for_all_models_of_the_page(open_page):
    frontier, text = fitted("two classes"), page_of("two classes")
    page = open_page(text)
    models = int(re.search(r"for all (\d+) models on this page", text).group(1))
    selection = frontier.select(
        max_gap={row.attribute: row.limit for row in selected("two classes").rows[1:3]},
        candidates=models,
    )
    assert selection.snapshot == chosen(page)
    for row, shown in zip(selection.rows, cells(page, "#metrics-body"), strict=True):
        assert number(shown[-1]) == pytest.approx(row.certificate, abs=5.0001e-5, nan_ok=True)


def test_a_model_no_better_than_chance_is_marked_and_its_lines_ask_for_it(open_page):
    known = fitted("two classes")
    curve = known.fitted_curve()
    fairest, best = (known.select(max_gap=limit, draws=2).rows[0].validation for limit in (0, 1))
    assert fairest < best
    frontier = copy.copy(known)._keep(replace(curve, chance=fairest))
    selection = frontier.select(max_gap=1.0)
    page = open_page(frontier_page(frontier, selection, RunFacts(title="Some are useless")))
    choose_view(page, "gap", None)
    for end, useless in (("min", True), ("max", False)):
        set_slider(page, "#limit", page.get_attribute("#limit", end))
        assert ("no better than chance" in page.inner_text("#limit-meaning")) == useless
        line = page.inner_text("#python-lines").splitlines()[-2]
        assert ("allow_useless=True" in line) == useless
        assert ("--allow-useless" in page.text_content("#select-command")) == useless
        call = line.removeprefix("model = ").removesuffix(".model")
        assert eval(call, {"frontier": frontier}).snapshot == chosen(page)


def test_a_run_without_a_selected_model_says_so(open_page):
    frontier = fitted("two classes")
    nearest = frontier.select(max_gap=0.0, min_utility=1.0, allow_nearest=True)
    facts = RunFacts(title="None is near enough", deploy_command="", chosen=False)
    page = open_page(frontier_page(frontier, nearest, facts))
    assert "only shown, not selected" in page.inner_text("#nearest")
    assert "No model of this run is selected yet" in page.inner_text("#use-selected")
    assert "selected by the run" not in page.inner_text("#chosen-who")


def test_the_lines_shown_select_the_model_shown(open_page):
    frontier = fitted("two classes")
    page = open_page(page_of("two classes"))
    names = {"frontier": frontier}

    def selected_by(line):
        return eval(line.removeprefix("model = ").removesuffix(".model"), names).snapshot

    lines = page.inner_text("#python-lines").splitlines()
    assert lines[0] == "from equipoise import load"
    assert selected_by(lines[-2]) == selected("two classes").snapshot
    assert lines[-1] == "scores = model.predict_proba(X)[:, 1]"
    assert page.is_hidden("#select-command") and page.is_visible("#use-selected")
    for metric, attribute in VIEWS:
        choose_view(page, metric, attribute)
        for end in ("min", "max"):
            set_slider(page, "#limit", page.get_attribute("#limit", end))
            if chosen(page) == selected("two classes").snapshot:
                continue
            line = page.inner_text("#python-lines").splitlines()[-2]
            assert selected_by(line) == chosen(page)
            words = shlex.split(page.inner_text("#select-command"))
            options = dict(zip(words[3::2], words[4::2], strict=True))
            assert words[:3] == ["equipoise", "select", "RUN"]
            assert options.get("--attribute") == attribute
            if metric == "gap":
                assert set(options) <= {"--max-gap", "--attribute"} and "max_gap=" in line
                wish = {"max_gap": float(options["--max-gap"])}
            else:
                assert options["--metric"] == metric
                wish = {"max_unfairness": float(options["--max-unfairness"]), "metric": metric}
            assert frontier.select(attribute=attribute, **wish).snapshot == chosen(page)


def true_positive_rate(y, decided):
    return recall_score(y, decided, zero_division=np.nan)


def false_positive_rate(y, decided):
    return recall_score(1 - y, decided, zero_division=np.nan)


def test_decisions_are_those_of_fairlearn_at_every_threshold(open_page):
    frontier = fitted("two classes")
    page = open_page(page_of("two classes"))
    set_slider(page, "#limit", page.get_attribute("#limit", "max"))
    curve = frontier.fitted_curve()
    (scores,) = curve.test_scores([chosen(page)])
    scores, y, column = scores[:, 0], curve.test.y, curve.test.table["group"]
    groups = np.array(column.categories)[column.codes]
    youden = float(curve.snapshots.threshold[chosen(page)])
    last = int(page.get_attribute("#threshold", "max"))
    own = int(page.input_value("#threshold"))
    for place in sorted({0, own, own + 1, last // 3, last // 2, last}):
        set_slider(page, "#threshold", place)
        said = re.match(r"score > (-?[\d.]+)", page.inner_text("#threshold-value")).group(1)
        # Edges are round numbers of few digits, except for the model's own.
        threshold = youden if place == own else float(said)
        frame = MetricFrame(
            metrics={
                "rows": count,
                "rate": selection_rate,
                "true": true_positive_rate,
                "false": false_positive_rate,
                "ones": lambda y, _: int(y.sum()),
                "zeros": lambda y, _: int((1 - y).sum()),
            },
            y_true=y,
            y_pred=(scores > threshold).astype(int),
            sensitive_features=groups,
        ).by_group
        shown = cells(page, "table[data-attribute=group] tbody")
        assert [row[0].strip() for row in shown] == list(frame.index)
        for row, found in zip(shown, frame.itertuples(index=False), strict=True):
            rows, decided, rate = map(number, row[1:4])
            (true, of_true), (false, of_false) = (each.split("\nof ") for each in row[4:])
            true, false = number(true), number(false)
            assert (rows, decided) == (found.rows, round(found.rate * found.rows))
            few = [f"{n:,.0f}{', few rows' if n < 30 else ''}" for n in (found.ones, found.zeros)]
            assert [of_true, of_false] == few
            expected = [100 * found.rate, 100 * found.true, 100 * found.false]
            assert [rate, true, false] == pytest.approx(expected, abs=0.05001)
    page.click("#threshold-reset")
    assert int(page.input_value("#threshold")) == own
    assert "set on validation rows" in page.inner_text("#threshold-value")


def test_bands_of_a_continuous_attribute_are_groups_of_decisions(open_page):
    frontier = fitted("two classes")
    page = open_page(page_of("two classes"))
    curve = frontier.fitted_curve()
    (scores,) = curve.test_scores([chosen(page)])
    age = curve.test.table["age"].values
    threshold = curve.snapshots.threshold[chosen(page)]
    shown = cells(page, "table[data-attribute=age] tbody")
    assert len(shown) == 10
    for row in shown:
        low, high = map(float, row[0].strip().split(" to "))
        # Names have six digits.
        inside = (age >= low - 1e-5) & (age <= high + 1e-5)
        assert number(row[1]) == inside.sum()
        assert number(row[2]) == (scores[inside, 0] > threshold).sum()


def test_everything_can_be_done_with_the_keyboard(open_page):
    page = open_page(page_of("two classes"))
    seen = []
    for _ in range(14):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.getAttribute('role')"
            )
        )
    wanted = ["metric", "attribute", "limit", "radio", "threshold"]
    assert [name for name in seen if name in wanted] == wanted
    page.focus("#limit")
    page.keyboard.press("End")
    most_useful = chosen(page)
    page.keyboard.press("Home")
    fairest = chosen(page)
    assert fairest != most_useful
    page.focus("[role=radio][tabindex='0']")
    page.keyboard.press("End")
    assert chosen(page) == most_useful
    page.keyboard.press("ArrowLeft")
    assert chosen(page) not in (most_useful, fairest)
    # Focus stays on the point that is chosen now, and says what it is.
    checked = "document.activeElement.getAttribute('aria-checked')"
    assert page.evaluate(checked) == "true"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("gap")
    assert page.is_visible("#tip") and f"Snapshot {chosen(page)}" in page.inner_text("#tip")
    page.keyboard.press("Home")
    assert chosen(page) == fairest
    own = int(page.input_value("#threshold"))
    page.focus("#threshold")
    page.keyboard.press("ArrowRight")
    assert int(page.input_value("#threshold")) == own + 1
    page.focus("#reset")
    page.keyboard.press("Enter")
    assert chosen(page) == selected("two classes").snapshot
    assert page.get_attribute("#limit-meaning", "aria-live") == "polite"


def test_pointing_at_a_dot_shows_all_its_numbers(open_page):
    frontier = fitted("two classes")
    page = open_page(page_of("two classes"))
    point = page.locator("[role=radio]").last
    point.hover()
    text = page.inner_text("#tip")
    number_of = int(re.match(r"Snapshot (\d+)", text).group(1))
    row = frontier.table().loc[number_of]
    assert f"strength {row.strength:g}, seed {row.seed:g}, iteration {row.iteration:g}" in text
    for name, column in [
        ("AUC", "utility"),
        ("gap by age", "gap age"),
        ("KS-GSP by age", "KS-GSP age"),
        ("SP by group", "SP group"),
    ]:
        shown = float(re.search(rf"^{re.escape(name)}\s+([\d.]+)$", text, re.MULTILINE).group(1))
        assert shown == pytest.approx(row[column], abs=5.0001e-5)
    point.click()
    assert chosen(page) == number_of


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_a_phone_a_desk_and_paper(open_page, width, scheme):
    page = open_page(
        page_of("two classes"), viewport={"width": width, "height": 844}, color_scheme=scheme
    )
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    assert page.evaluate(wide) == 0
    ink = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ink) == ("rgb(253, 253, 251)" if scheme == "light" else "rgb(20, 24, 29)")
    page.emulate_media(media="print")
    assert page.is_hidden("#limit") and page.is_visible("#plot svg")
    assert page.evaluate(ink) == "rgb(255, 255, 255)"


def test_everything_about_the_model_follows_the_choice(open_page):
    frontier = fitted("two classes")
    page = open_page(page_of("two classes"))
    parts = ("score-figures", "training-figures", "health", "decision-tables", "python-lines")

    def drawn():
        return [page.inner_html(f"#{part}") for part in parts]

    first = drawn()
    found = page.evaluate("document.querySelectorAll('#training-figures path.median').length")
    assert found == 4  # of loss and penalty, what came before the snapshot and after
    set_slider(page, "#limit", page.get_attribute("#limit", "min"))
    assert all(now != before for now, before in zip(drawn(), first, strict=True))
    health = frontier.fitted_curve().model(chosen(page)).health_
    shown = [number(text) for text in page.locator("#health dd").all_inner_texts()]
    assert shown == pytest.approx(
        [health.score_spread, health.correlation, health.critic_value], abs=5.1e-4
    )
    page.click("#reset")
    assert drawn() == first


@pytest.mark.parametrize(
    "wish", [{"max_gap": {"age": 0.3, "group": 0.6}}, {"min_utility": 0.7, "metric": "SP"}]
)
def test_a_wish_that_no_slider_can_say_is_shown_as_it_was(open_page, wish):
    frontier = fitted("two classes")
    selection = frontier.select(**wish)
    page = open_page(frontier_page(frontier, selection, RunFacts(title="A wish")))
    assert chosen(page) == selection.snapshot
    assert_table_is(page, selection)
    limits = [row[1] for row in cells(page, "#metrics-body")]
    kept = [
        f"{'≤' if row.attribute else '≥'} {row.limit:g}: "
        f"{'kept' if (row.test <= row.limit) == bool(row.attribute) else 'not kept'}"
        if not math.isnan(row.limit)
        else ""
        for row in selection.rows
    ]
    assert limits == kept
    assert page.inner_text("#limit-value").startswith("as the run was asked: ")
    assert page.locator("#plot .limit").count() == 0
    assert selection.wish.split(" ")[0] in page.inner_text("#repeat ~ dl")
    page.focus("#limit")
    page.keyboard.press("Home")
    assert page.inner_text("#limit-value").startswith("at most ")
    page.click("#reset")
    assert chosen(page) == selection.snapshot
