"""What a person can act on, on every kind of page: verdicts first, in words and in numbers."""

import json
import re
from dataclasses import replace
from html import unescape
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from curves import curve
from page_frontiers import fitted, page_of, selected
from page_reading import choose_view, set_slider

from equipoise.auditing import audit
from equipoise.frontier.comparison import ComparedRun, compare
from equipoise.frontier.judging import DRAWS_FOR_MANY
from equipoise.inference import Estimate
from equipoise.inference.verdict import Fared, Rates, State, Verdict
from equipoise.report.compare_page import compare_page
from equipoise.report.frontier_page import RunFacts, frontier_page
from equipoise.report.model_card import model_card, to_html, to_json, to_markdown
from equipoise.report.page import Source
from equipoise.words import capital, points

ESTIMATES = {
    State.CERTAIN: Estimate(value=0.03, low=0.0, high=0.08, level=0.95, chance=0.05),
    State.WITHIN: Estimate(value=0.06, low=0.0, high=0.2, level=0.95, chance=0.05, resolution=0.05),
    State.BEYOND: Estimate(value=0.3, low=0.2, high=0.4, level=0.95, chance=0.05),
    State.UNKNOWN: Estimate(value=0.02, high=0.5, low=0.0, level=0.95, chance=0.4, resolution=0.4),
}
SYMBOLS = {
    State.CERTAIN: "\N{CHECK MARK}",
    State.WITHIN: "\N{ALMOST EQUAL TO}",
    State.BEYOND: "\N{BALLOT X}",
    State.UNKNOWN: "?",
}
SOURCE = Source("people.csv", "ab" * 32, "2026-02-03")
VERSIONS = {"equipoise": "9.8", "python": "3.99"}


def facts(**changes):
    given = {"title": "A run", "target": "y", "source": SOURCE, "versions": VERSIONS}
    return RunFacts(**(given | changes))


def every_state():
    """A verdict of each state, with words of its own for decisions, on few rows and on many."""
    return tuple(
        Verdict(
            "independence",
            f"{state} column",
            "gap",
            0.1,
            estimate,
            Rates("selection rate", "", Fared("a", 0.125, 29), Fared("b", 0.5, 30), "are invited"),
            Estimate(value=0.25, low=0.2, high=0.9),
        )
        for state, estimate in ESTIMATES.items()
    )


@pytest.fixture(scope="module")
def pages():
    """One of each kind, with every state of a verdict where there are verdicts of a selection."""
    random = np.random.default_rng(3)
    sex, age = random.choice(["F", "M"], 400), random.integers(18, 80, 400)
    y = random.integers(0, 2, 400)
    scores = (random.random(400) + 0.5 * y + 0.2 * (sex == "F")) / 1.7
    options = {"draws": 20, "permutations": 39, "threshold": 0.5}
    columns = {"sex": sex, "age": age}
    selection = replace(selected("two classes"), verdicts=every_state(), nearest=True)
    about = facts(
        steps=(("Take another model.", "equipoise select run"),),
        flags=("'x' tells sex",),
        card="model_card.html",
        columns=pd.DataFrame(
            [dict.fromkeys(("column", "role", "kind", "read as", "note"), "long" * 9)]
        ),
        settings={"seeds": 2},
        command="equipoise fit people.csv",
    )
    runs = [ComparedRun(name, curve(name), {}) for name in ("two strengths", "longer")]
    return {
        "report": frontier_page(fitted("two classes"), selection, about),
        "card": to_html(model_card(selection, about, fitted("two classes"))),
        "compare": compare_page(compare(runs, 0.9), [(r.name, SOURCE, VERSIONS) for r in runs]),
        "audit": audit(scores, y, columns, **options).to_html(),
        "audits": audit({"a": scores, "b": scores**2}, y, columns, **options).to_html(),
    }


KINDS = ("report", "card", "compare", "audit", "audits")


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_has_what_axe_calls_a_violation(pages, open_page, kind):
    package = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    axe = files(package).joinpath("axe.min.js").read_text("utf-8")
    # The rows of a table are alike, and in the dark only colors differ.
    run = """options => axe.run({ exclude: ["tbody tr:nth-child(n + 4)"] },
      { resultTypes: ["violations"], ...options }).then(({ violations }) => violations)"""
    for width in (1280, 390):
        page = open_page(pages[kind], viewport={"width": width, "height": 844})
        page.evaluate(axe)
        for scheme, only in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(run, only)
            assert [
                (each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found
            ] == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_column_is_cut_on_paper_and_no_page_scrolls_sideways(pages, open_page, kind):
    page = open_page(pages[kind], viewport={"width": 390, "height": 844})
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.emulate_media(media="print")
    # A4 within margins of one centimeter, at 96 dots an inch.
    page.set_viewport_size({"width": 718, "height": 1000})
    wide = page.eval_on_selector_all(
        "table",
        """all => all.filter(each => each.checkVisibility())
          .filter(each => Math.max(each.getBoundingClientRect().right,
            ...[...each.querySelectorAll("th, td")]
              .map(cell => cell.getBoundingClientRect().right)) > 718)
          .map(each => each.outerHTML.slice(0, 200))""",
    )
    assert wide == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_says_what_it_was_made_from_when_and_by_what(pages, kind):
    foot = re.search(r'id="source">(.*?)</div>', pages[kind], re.DOTALL)[1]
    text = unescape(re.sub("<.*?>", "", foot))
    assert re.search(
        r"SHA-256 [0-9a-f]{64}\. Made on \d{4}-\d\d-\d\d by equipoise .*[Pp]ython", text
    )
    if kind in ("report", "card", "compare"):
        said = f"Data: people.csv, SHA-256 {SOURCE.sha256}. Made on 2026-02-03 by equipoise 9.8"
        assert text.count(said) == (2 if kind == "compare" else 1)


def test_each_state_is_shown_by_words_and_symbol_with_rates_ratio_and_gap(pages, open_page):
    for kind in ("report", "card"):
        page = open_page(pages[kind])
        for verdict in every_state():
            row = page.locator(f"tr:has(th:text-is('{verdict.attribute}'))")
            assert row.get_attribute("data-verdict") == verdict.state
            badge = row.locator(".badge")
            assert badge.inner_text() == capital(verdict.words)
            mark = badge.evaluate("each => getComputedStyle(each, '::before').content")
            assert mark == f'"{SYMBOLS[verdict.state]}"'
            text = re.sub(r"\s+", " ", row.inner_text())
            found = verdict.estimate
            assert "a 12.5 % of 29, few rows b 50 % of 30 " in text
            assert "0.250 below four fifths" in text
            assert (
                f"{points(found.value)} ({points(found.low)} to {points(found.high)}), "
                f"{points(found.chance)} by chance"
            ) in text


def test_a_model_that_keeps_no_limit_is_called_so_on_page_and_card(pages):
    selection, frontier = selected("two classes"), fitted("two classes")
    said = f"No model of this run has {selection.wish} on the validation rows."
    top = unescape(re.search(r'id="nearest">(.*?)</p>', pages["report"])[1])
    assert top.startswith("<strong>Does not keep the limit.</strong>") and said in top
    assert 'id="nearest"' not in page_of("two classes")
    for nearest in (True, False):
        card = model_card(replace(selection, nearest=nearest), facts(), frontier)
        for text in (to_markdown(card), to_html(card)):
            assert ("Does not keep the limit." in text) == nearest
            assert selection.verdicts[0].words in text
        found = json.loads(to_json(card))["equipoise"]
        assert found["nearest"] is nearest
        assert [each["verdict"] for each in found["verdicts"]] == [
            each.state for each in selection.verdicts
        ]
        assert found["source"]["sha256"] == SOURCE.sha256


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_title_verdicts_and_the_small_chart_are_on_the_first_screen(open_page, size):
    page = open_page(page_of("two classes"), viewport={"width": size[0], "height": size[1]})
    places = ["h1", "#answer .verdicts tr >> nth=-1", "#overview svg >> nth=0"]
    ends = [page.locator(place).bounding_box() for place in places]
    bottoms = [box["y"] + box["height"] for box in ends]
    assert bottoms == sorted(bottoms) and bottoms[-1] <= size[1]


def test_what_was_flagged_and_what_to_do_next_come_before_the_chart(pages, open_page):
    page = open_page(pages["report"])
    tops = [
        page.locator(place).bounding_box()["y"]
        for place in ("#overview", "#next", "#flags", "#plot")
    ]
    assert tops == sorted(tops)
    assert page.inner_text(".next pre") == "equipoise select run"
    assert "'x' tells sex" in page.inner_text("section:has(#flags)")
    assert page.get_attribute("section.words a", "href") == "model_card.html"


def test_decisions_have_the_words_of_the_outcome(pages, open_page):
    page = open_page(pages["report"])
    assert "above the threshold are invited" in page.inner_text("section:has(#decisions)")
    heads = page.locator("table[data-attribute=group] thead th").all_inner_texts()
    assert "Are invited" in heads
    assert "are selected" not in page.inner_text("main").lower()


def test_beside_the_slider_stands_what_select_says_of_the_model(open_page):
    page = open_page(page_of("two classes"))
    seen = set()
    for metric, attribute in [("gap", None), ("SP", "group")]:
        choose_view(page, metric, attribute)
        least, most = (float(page.get_attribute("#limit", end)) for end in ("min", "max"))
        for limit in np.linspace(least, most, 4):
            set_slider(page, "#limit", limit)
            shown = float(page.inner_text("#limit-value").removeprefix("at most "))
            found = fitted("two classes").select(
                max_unfairness=shown, metric=metric, attribute=attribute, draws=DRAWS_FOR_MANY
            )
            if found.snapshot == selected("two classes").snapshot:
                continue  # it has more draws
            said = page.inner_text("#limit-meaning")
            assert f"this model has AUC {found.rows[0].test:.3f}" in said
            for verdict in found.verdicts:
                value = verdict.estimate.value
                number = f"{points(value)} points" if verdict.in_points else f"{value:.3f}"
                assert f"by {verdict.attribute} {number} (" in said
                assert f": {verdict.words}." in said
                seen.add(verdict.state)
    assert len(seen) >= 2


def test_the_chart_has_the_interval_the_chance_level_and_a_scale_that_fits(open_page):
    page = open_page(page_of("two classes"))
    choose_view(page, "gap", "group")
    set_slider(page, "#limit", page.get_attribute("#limit", "max"))
    limit = float(page.inner_text("#limit-value").removeprefix("at most "))
    row = next(
        row
        for row in fitted("two classes").select(max_gap=limit, attribute="group").rows
        if (row.metric, row.attribute) == ("gap", "group")
    )
    ticks = page.evaluate(
        """() => [...document.querySelectorAll("#plot svg > text")]
          .filter(each => each.getAttribute("text-anchor") === "middle")
          .map(each => [Number(each.getAttribute("x")), Number(each.textContent)])"""
    )
    (x0, v0), *_, (x1, v1) = ticks

    def value(place):
        return v0 + (float(place) - x0) * (v1 - v0) / (x1 - x0)

    bar = page.locator("#plot .tested").first
    ends = [value(bar.get_attribute(end)) for end in ("x1", "x2")]
    assert ends == pytest.approx([row.low, row.high], abs=1e-3)
    chance = page.locator("#plot .chance").get_attribute("x1")
    assert value(chance) == pytest.approx(row.chance, abs=1e-3)
    # What is drawn takes most of the width.
    marks = page.eval_on_selector_all(
        "#plot .step, #plot .tested", "all => all.map(each => each.getBoundingClientRect())"
    )
    box = page.locator("#plot svg").bounding_box()
    spread = max(each["right"] for each in marks) - min(each["left"] for each in marks)
    assert spread > 0.5 * box["width"]


def test_the_numbers_of_a_verdict_are_those_of_the_test_rows(open_page):
    page = open_page(page_of("two classes"))
    rows, selection = fitted("two classes").fitted_curve().test, selected("two classes")
    (scores,) = fitted("two classes").fitted_curve().test_scores([selection.snapshot])
    scores, column = scores[:, 0], rows.table["group"]
    groups = np.array(column.categories)[column.codes]
    decided = scores > selection.threshold
    rates = {
        f"group = {g}": (decided[groups == g].mean(), (groups == g).sum()) for g in set(groups)
    }
    _, _, fared, ratio, gap = page.locator(
        "#answer tr:has(th:text-is('group')) > *"
    ).all_inner_texts()
    shown = re.findall(r"(group = \w+) ([\d.]+) % of ([\d,]+)", fared)
    worst, best = sorted(rates, key=lambda group: rates[group][0])[:: len(rates) - 1]
    assert [each[0] for each in shown] == [worst, best]
    for name, rate, n in shown:
        assert float(rate) == pytest.approx(100 * rates[name][0], abs=0.051)
        assert int(n) == rates[name][1]
    assert float(re.search("[\\d.]+", ratio)[0]) == pytest.approx(
        rates[worst][0] / rates[best][0], abs=6e-4
    )
    # The gap is the distance of a group's scores from all others', less what chance explains.
    value, _, _, chance = (float(each) / 100 for each in re.findall(r"[\d.]+", gap))
    thresholds = np.unique(scores)
    away = {
        g: max(
            abs((scores[groups == g] > t).mean() - (scores[groups != g] > t).mean())
            for t in thresholds
        )
        for g in set(groups)
    }
    near = [abs(np.sqrt(max(0, d**2 - chance**2)) - value) for d in away.values()]
    assert min(near) < 2e-3


def test_the_card_page_has_the_numbers_of_the_markdown(pages):
    selection = selected("two classes")
    body = re.search(r'id="results">.*?<tbody>(.*?)</tbody>', pages["card"], re.DOTALL)[1]
    shown = [re.findall(r"<td.*?>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]
    assert [cells[:3] for cells in shown] == [
        [row.metric, row.attribute, f"{row.test:.4f}"] for row in selection.rows
    ]
