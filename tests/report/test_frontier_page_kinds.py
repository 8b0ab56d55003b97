"""Pages of frontiers of every kind: nasty names, no scripts, numbers, classes, no test rows."""

import json
import re
import shlex

import numpy as np
import pytest
from page_frontiers import NASTY, fitted, page_of, selected
from page_reading import assert_table_is, cells, choose_view, chosen, number, set_slider

from equipoise import load
from equipoise.metrics import measure
from equipoise.report.frontier_page import RunFacts, frontier_page


def test_names_are_text_wherever_they_stand(open_page):
    page = open_page(page_of("nasty"))
    first = chosen(page)
    text = page.inner_text("body")
    for name in NASTY:
        assert name in text
    assert page.title() == NASTY[1] and page.inner_text("h1") == NASTY[1]
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    choose_view(page, "SP", NASTY[2])
    for end in ("min", "max"):
        set_slider(page, "#limit", page.get_attribute("#limit", end))
        if chosen(page) != first:
            assert shlex.split(page.inner_text("#select-command"))[-1] == NASTY[2]
    labels = page.eval_on_selector_all("#score-figures text", "all => all.map(e => e.textContent)")
    assert any(label.startswith(NASTY[0]) for label in labels)
    page.wait_for_timeout(50)  # an image that failed to load would have run by now


def test_without_scripts_the_answer_and_the_table_are_there(open_page):
    page = open_page(page_of("two classes"), java_script_enabled=False)
    selection = selected("two classes")
    assert_table_is(page, selection)
    assert "need JavaScript" in page.inner_text("main")
    assert page.is_hidden("#limit") and page.is_hidden("#training")
    assert page.is_visible("#answer")


def test_numbers_have_a_page_without_decisions(open_page):
    page = open_page(page_of("numbers"))
    assert_table_is(page, selected("numbers"))
    assert "of the variation of outcome" in page.inner_text("#answer")
    assert page.locator("#threshold").count() == 0
    assert page.locator("#score-figures svg").count() == 2
    assert page.inner_text("#python-lines").endswith("scores = model.predict(X)")
    set_slider(page, "#limit", page.get_attribute("#limit", "max"))
    table = fitted("numbers").table()
    assert chosen(page) == table["utility"].idxmax()


def test_several_classes_show_the_worst_one(open_page):
    page = open_page(page_of("three classes"))
    assert_table_is(page, selected("three classes"))
    assert page.inner_text("#chosen-note") == (
        "Unfairness is that of the worst of the 3 classes, each assessed by its own probability."
    )
    curve = fitted("three classes").fitted_curve()
    (scores,) = curve.test_scores([chosen(page)])
    for name in ("age", "group"):
        values = measure("gap", scores.T.copy(), curve.test.table[name]).values
        label = curve.template.classes_[np.argmax(values)]
        words = f"{name} (probability of class {label}, the worst class)"
        assert words in page.inner_text("#score-figures")
    assert page.locator("#threshold").count() == 0


def test_weights_averages_and_unknown_values_have_their_place(open_page):
    page = open_page(page_of("weights"))
    assert_table_is(page, selected("weights"))
    curve = fitted("weights").fitted_curve()
    (scores,) = curve.test_scores([chosen(page)])
    test = curve.test
    decided = scores[:, 0] > curve.snapshots.threshold[chosen(page)]
    shown = {row[0].strip(): row[1:] for row in cells(page, "table[data-attribute=group] tbody")}
    unknown = test.table["group"].missing
    assert unknown.any()
    assert number(shown["not known"][0]) == pytest.approx(test.weights[unknown].sum(), abs=0.051)
    assert number(shown["not known"][1]) == pytest.approx(
        test.weights[unknown & decided].sum(), abs=0.051
    )
    assert "average of 2 seeds" in page.content()


def test_without_test_rows_the_page_says_so(open_page, tmp_path):
    fitted("two classes").save(tmp_path / "bare.equipoise", include_test_rows=False)
    frontier = load(tmp_path / "bare.equipoise")
    selection = frontier.select(max_gap=0.5)
    page = open_page(frontier_page(frontier, selection, RunFacts(title="Bare")))
    assert_table_is(page, selection)
    assert "This run was kept without its test rows" in page.inner_text("section.words")
    assert page.locator("#score-figures, #threshold").count() == 0
    set_slider(page, "#limit", page.get_attribute("#limit", "min"))
    assert (
        chosen(page)
        == fitted("two classes").select(max_gap=float(page.get_attribute("#limit", "min"))).snapshot
    )


def test_a_loaded_frontier_has_the_same_page(tmp_path):
    fitted("numbers").save(tmp_path / "run.equipoise")
    frontier = load(tmp_path / "run.equipoise")
    limit = selected("numbers").rows[1].limit
    pages = [
        frontier_page(each, each.select(max_gap=limit), RunFacts(title="Again"))
        for each in (fitted("numbers"), frontier)
    ]
    assert pages[0] == pages[1]


def test_many_groups_keep_the_page_small():
    text = page_of("many groups")
    assert len(text.encode()) < 2e6
    assert "2 smaller groups together" in text
    assert re.search(r"\d+ of the \d+ models on some front can be chosen", text)


def test_without_scripts_the_models_and_the_numbers_of_the_selected_one_are_there(open_page):
    page = open_page(page_of("two classes"), java_script_enabled=False)
    assert page.locator("noscript").is_visible()
    assert page.locator("input:visible, select:visible, button:visible").count() == 0
    assert_table_is(page, selected("two classes"))
    text = re.search(r'id="data">(.*?)</script>', page_of("two classes"), re.DOTALL)[1]
    data = json.loads(text)
    view = data["views"][data["selected"]["view"]]
    table = fitted("two classes").table().loc[[view["snapshots"][s["step"]] for s in view["shown"]]]
    shown = cells(page, "#steps-body")
    assert [row[1] for row in shown] == [f"{value:.4f}" for value in table["utility"]]
    assert [int(row[4]) for row in shown] == table["iteration"].tolist()
    joint = data["models"][data["selected"]["model"]]["joint"]
    last = [row[-1] for row in cells(page, "#metrics-body")]
    assert last == ["–", *("–" if bound is None else f"{bound:.4f}" for bound in joint)]
    # Charts are drawn by the script alone.
    assert page.locator("svg").count() == 0
