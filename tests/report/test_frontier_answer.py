"""What the page of a frontier says first, and what it says where little is known."""

import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from page_frontiers import SMALL, fitted, page_of, selected

from equipoise.frontier.judging import HeldOut
from equipoise.metrics import find_metric
from equipoise.report.frontier_data import SmallestGroup, grouped_rows, smallest_group
from equipoise.report.frontier_page import RunFacts, answer, frontier_page
from equipoise.report.model_card import model_card
from equipoise.report.page import json_text
from equipoise.tables import SensitiveTable
from tests.composing import composed

LONG = " ".join(["a question of a survey, exported with all its words"] * 3)


def said(selection, picked="", smallest=()):
    """Sentences and basis, without markup."""
    about = RunFacts(title="t", target="y", picked=picked)
    *sentences, basis = answer(selection, None, about, ["0", "1"], dict(smallest))
    return [re.sub("<.*?>", "", str(text)) for text in sentences], basis


@pytest.fixture(scope="module")
def small():
    """A frontier of one snapshot, whose test rows have a group of a few people."""
    random = np.random.default_rng(0)
    n = 1000
    sex = np.array(["F", "M"], dtype=object)[random.integers(0, 2, n)]
    sex[random.choice(n, 50, replace=False)] = "X"
    X = pd.DataFrame({"x": random.normal(size=n), "z": random.normal(size=n)})
    y = (X["x"] + random.normal(size=n) > 0).astype(int)
    options = SMALL | {"strengths": (0.5,), "seeds": 1, "iterations": 20, "evaluate_every": 20}
    return composed(**options).fit(X, y, sensitive_features=pd.DataFrame({LONG: sex}))


def test_unfairness_is_said_where_no_verdict_says_it():
    (_, unfair), _ = said(selected("two classes"))
    assert unfair == ""
    without = fitted("two classes").select(min_utility=0.6)
    largest = max((r for r in without.rows if r.metric == "gap"), key=lambda row: row.test)
    (_, unfair), _ = said(without)
    assert unfair.startswith(f"Its gap is largest for {largest.attribute}: {largest.test:.3f} on a")
    assert f"interval {largest.low:.3f} to {largest.high:.3f}; " in unfair.replace("\xa0", " ")
    assert unfair.endswith(f"The group that stands out most is {largest.where}.")


def test_the_best_is_said_to_be_the_best_of_the_validation_rows():
    (useful, _), _ = said(selected("two classes"))
    assert useful.endswith("); on the validation rows no model of this run did better.")


def test_how_the_model_was_picked_stands_in_the_answer():
    selection = selected("two classes")
    assert "The model was" not in said(selection)[1]
    _, basis = said(selection, picked="picked at the end of training: nothing keeps 0.1")
    assert basis.endswith(" The model was picked at the end of training: nothing keeps 0.1.")
    facts = RunFacts(title="t", picked="picked by <b>hand</b>")
    page = frontier_page(fitted("two classes"), selection, facts)
    assert "The model was picked by &lt;b&gt;hand&lt;/b&gt;." in page


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1.0, "has 1 test row: numbers about group rest on a few people."),
        (29.0, "has 29 test rows: numbers about group rest on a few people."),
        (30.0, None),
    ],
)
def test_a_group_of_a_few_people_is_named(size, words):
    _, basis = said(selected("two classes"), smallest={"group": SmallestGroup("b", size)})
    if words is None:
        assert "smallest group" not in basis
    else:
        assert basis.endswith(f" The smallest group of group, b, {words}")


def test_the_smallest_group_is_that_of_the_rows():
    sex = ["M"] * 3 + ["F"] * 2 + [None]
    table = SensitiveTable.from_data(
        {"sex": sex, "age": np.arange(6)},
        types={"sex": "discrete", "age": "continuous"},
        missing="skip",
    )
    assert smallest_group(table["sex"], np.ones(6)) == SmallestGroup("F", 2.0)
    # A group without weight has no rows to speak of.
    weights = np.array([1, 1, 0.5, 0, 0, 9])
    assert smallest_group(table["sex"], weights) == SmallestGroup("M", 2.5)
    rows = HeldOut("test", np.arange(6.0), "continuous", table, weights)
    assert [each.smallest for each in grouped_rows(rows)] == [SmallestGroup("M", 2.5), None]


def test_formulas_stand_beside_what_the_metrics_are():
    text = unescape(page_of("two classes"))
    for name in ("KS-GSP", "SP"):
        metric = find_metric(name)
        assert f'{metric.description}\n    <span class="formula">{metric.formula}.</span>' in text


def test_a_warning_of_the_training_stands_in_the_answer():
    frontier = composed(**(SMALL | {"strengths": (0.0,), "seeds": 1, "iterations": 20}))
    random = np.random.default_rng(0)
    X, A = pd.DataFrame({"x": np.ones(600)}), {"sex": random.choice(["F", "M"], 600)}
    frontier.fit(X, random.integers(0, 2, 600), sensitive_features=pd.DataFrame(A))
    selection = frontier.select(max_unfairness=1.0, allow_useless=True)
    (message,) = selection.model.health_.messages
    page = frontier_page(frontier, selection, RunFacts(title="t"))
    top = re.search(r'id="answer">(.*?)</div>', page, re.DOTALL)[1]
    assert f'<p class="banner"><strong>Warning.</strong> {message}</p>' in unescape(top)
    # Decisions that are all alike leave SP without a denominator: said, not shown as a number.
    assert "so the ratio has no denominator" in page


def test_one_snapshot_long_names_and_few_people(small, open_page):
    selection = small.select(max_unfairness=5.0, allow_useless=True)
    text = frontier_page(small, selection, RunFacts(title="t", target="y"))
    for width in (390, 1280):
        page = open_page(text, viewport={"width": width, "height": 844})
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) == 0
        card, select = (
            page.locator(name).bounding_box() for name in (".controls:has(#limit)", "#attribute")
        )
        assert select["x"] + select["width"] <= card["x"] + card["width"]
    assert "for the one model on this page together" in page.inner_text("main")
    assert page.inner_text("#training-figures") == (
        "There is no curve: training was checked once, at iteration 20."
    )
    # The gap names its groups, and says where they are small.
    data = json.loads(page.text_content("#data"))
    sizes = dict(zip(data["attributes"][0]["groups"], data["attributes"][0]["sizes"], strict=True))
    assert sizes["X"] < 30
    assert f"The smallest group of {LONG}, X, has {sizes['X']:g} test rows" in page.inner_text(
        "section.words"
    )
    rates = {
        row[0].splitlines()[0].removesuffix(" (few rows)"): float(row[3].removesuffix(" %"))
        for row in page.eval_on_selector_all(
            "#decision-tables tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.innerText))"
        )
    }
    high, low = max(rates, key=rates.get), min(rates, key=rates.get)
    gap = page.inner_text("#decision-tables .small >> nth=0")
    assert f" points, between {high} and {low}" in gap
    assert gap.endswith("; in so few rows, gaps arise by chance.") == ("X" in (high, low))


def test_the_page_says_which_model_the_command_uses(open_page):
    page = open_page(page_of("two classes"))
    assert page.inner_text("#use-selected") == (
        "This is the run's selected model: the command below scores with it."
    )
    page.focus("#limit")
    page.keyboard.press("Home")
    assert page.is_hidden("#use-selected")
    number = selected("two classes").snapshot
    assert page.inner_text("#use-select").startswith(
        f"The run's selected model is still another one, snapshot {number}. First select the "
        "model you chose here:"
    )


def test_words_are_announced_only_when_they_are_new(open_page):
    page = open_page(page_of("two classes"))
    page.evaluate(
        """() => {
          window.changes = 0;
          new MutationObserver((all) => { window.changes += all.length; })
            .observe(document.querySelector("[aria-live]"), { childList: true, subtree: true });
        }"""
    )
    page.click("#reset")
    assert page.evaluate("window.changes") == 0
    page.focus("#limit")
    page.keyboard.press("Home")
    assert page.evaluate("window.changes") > 0


def test_nothing_stays_folded_on_paper(open_page):
    page = open_page(page_of("two classes"))
    assert page.locator("details:not([open])").count() > 0
    page.pdf()
    assert page.locator("details:not([open])").count() == 0


def test_thresholds_of_crowded_scores_are_told_apart(open_page):
    text = page_of("two classes")
    found = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    for model in found["models"]:
        model["threshold"] = 1.25e-5
        for scores in model["scores"]:
            scores |= {"first": 0.0, "step": 1e-6, "own": 13, "inserted": True}
    crowded = re.sub(
        r'(?<=id="data">).*?(?=</script>)', json_text(found), text, count=1, flags=re.DOTALL
    )
    page = open_page(crowded)
    shown = []
    page.focus("#threshold")
    for _ in range(3):
        shown.append(page.inner_text("#threshold-value"))
        page.keyboard.press("ArrowRight")
    assert shown == [
        "score > 0.0000125 (set on validation rows)",
        "score > 0.0000130",
        "score > 0.0000140",
    ]


def test_the_point_with_the_focus_looks_so(open_page):
    page = open_page(page_of("two classes"))
    width = "getComputedStyle(document.querySelector('#plot .chosen-ring')).strokeWidth"
    assert page.evaluate(width) == "2.5px"
    page.focus("#limit")
    page.keyboard.press("Tab")  # to the button
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "radio"
    assert page.evaluate(width) == "6px"


def test_the_model_card_says_how_the_model_was_picked():
    picked = "picked at the end of training: nothing keeps 0.1"
    frontier, selection = fitted("two classes"), selected("two classes")
    with_it, without = (
        model_card(selection, RunFacts(title="t", picked=words), frontier).choice
        for words in (picked, "")
    )
    assert with_it == f"{without} The model was {picked}."
