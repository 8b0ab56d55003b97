"""Networks and boosted trees on one page: whose snapshot a mark is, and in which words."""

import json
import re
from html import unescape

import numpy as np
import pytest
from curves import curve
from page_frontiers import fitted, page_of, selected
from page_reading import assert_table_is, cells, chosen, set_slider

from equipoise.frontier.comparison import ComparedRun, compare
from equipoise.report.compare_page import compare_page
from equipoise.report.frontier_page import RunFacts
from equipoise.report.model_card import model_card, to_markdown


def origin(frontier, number):
    """How a snapshot came about, as the page says it."""
    row = frontier.table().loc[number]
    kind = {"network": "network, ", "boosting": "boosted trees, "}[row.predictor]
    moment = "iteration" if row.predictor == "network" else "round"
    return f"{kind}strength {row.strength:g}, seed {row.seed}, {moment} {row.iteration}"


def data_of(kind):
    """What the page draws."""
    text = re.search(r'id="data"[^>]*>(.*?)</script>', page_of(kind), flags=re.DOTALL)[1]
    return json.loads(text)


def offered(kind):
    """Snapshots that can be chosen when the page opens, fairest first."""
    data = data_of(kind)
    view = data["views"][data["selected"]["view"]]
    return [view["snapshots"][each["step"]] for each in view["shown"]]


def corners(page, selector):
    """How many straight lines the outlines have."""
    texts = page.eval_on_selector_all(selector, "all => all.map(e => e.getAttribute('d'))")
    return [len(re.findall("[LH]", text)) for text in texts]


def test_marks_tables_and_words_tell_the_families_apart(open_page):
    frontier = fitted("both families")
    page = open_page(page_of("both families"))
    assert_table_is(page, selected("both families"))
    assert "(dots: networks; triangles: boosted trees)" in (
        page.inner_text("section:has(#trade-off) > p >> nth=0")
    )
    assert page.inner_text("#plot-legend ul:nth-child(2)").split("\n") == [
        "network",
        "boosted trees",
    ]
    # Every model that can be chosen, as a table and as a mark: three sides, or four.
    heads = page.locator("thead:has(#steps-unfairness) th").all_text_contents()
    assert heads[:1] + heads[2:6] == [
        "Predictor",
        "AUC",
        "Strength",
        "Seed",
        "Iteration or round",
    ]
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    rows = cells(page, "#steps-body")
    labels = page.eval_on_selector_all(
        "[role=radio]", "all => all.map(e => e.getAttribute('aria-label'))"
    )
    table = frontier.table()
    steps = offered("both families")
    families = table.loc[steps, "predictor"].tolist()
    assert set(families) == {"network", "boosting"}
    names = {"network": "network", "boosting": "boosted trees"}
    assert [row[0] for row in rows] == [names[family] for family in families]
    assert [int(row[5]) for row in rows] == table.loc[steps, "iteration"].tolist()
    assert [label.split(", ", 2)[2] for label in labels] == [origin(frontier, n) for n in steps]
    assert corners(page, "[role=radio]") == [
        {"network": 3, "boosting": 2}[family] for family in families
    ]


def test_the_chosen_model_is_told_in_the_words_of_its_family(open_page):
    frontier = fitted("both families")
    page = open_page(page_of("both families"))
    steps = offered("both families")
    families = frontier.table()["predictor"]
    for family, moment in (("network", "iteration"), ("boosting", "round")):
        place = next(k for k, number in enumerate(steps) if families[number] == family)
        page.locator("[role=radio]").nth(place).focus()
        page.keyboard.press("Enter")
        assert chosen(page) == steps[place]
        said = origin(frontier, steps[place])
        assert page.inner_text("#chosen-who").startswith(f"Snapshot {steps[place]}: {said}")
        assert said in page.inner_text("#tip")
        assert corners(page, "#plot .chosen-mark")[0] == {"network": 3, "boosting": 2}[family]
        charts = page.locator("#training-figures svg")
        assert [charts.nth(k).get_attribute("aria-label") for k in (0, 1)] == [
            f"Task loss over the {moment}s",
            f"Penalty over the {moment}s",
        ]
        assert charts.first.locator("text.title").first.text_content() == moment
        # The curve drawn is that of its own family, over its own moments.
        (estimator,) = (each for each in frontier.fitted_curve().trained if each.name == family)
        entry = data_of("both families")["entries"][frontier.table().loc[steps[place], "member"]]
        assert entry["iterations"] == estimator.history.iterations.tolist()
        member = [0.0, 0.9].index(entry["strength"])
        np.testing.assert_allclose(entry["task"], estimator.history.task[:, member], rtol=1e-5)


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_a_phone_and_a_desk(open_page, width):
    page = open_page(page_of("both families"), viewport={"width": width, "height": 844})
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_python_lines_select_either_family(open_page):
    frontier = fitted("both families")
    page = open_page(page_of("both families"))
    for end in ("min", "max"):
        set_slider(page, "#limit", page.get_attribute("#limit", end))
        call = page.inner_text("#python-lines").splitlines()[-2]
        again = eval(call.removeprefix("model = ").removesuffix(".model"), {"frontier": frontier})
        assert again.snapshot == chosen(page)
        assert again.predictor == frontier.table().loc[chosen(page), "predictor"]


def test_trees_by_themselves_have_rounds_and_no_need_of_shapes(open_page):
    page = open_page(page_of("trees"))
    assert_table_is(page, selected("trees"))
    assert page.inner_text("#chosen-who").startswith(
        f"Snapshot {chosen(page)}: {selected('trees').origin}"
    )
    assert "Every dot is one model at one moment of training (dots: boosted trees)" in (
        page.inner_text("section:has(#trade-off) > p >> nth=0")
    )
    heads = page.locator("thead:has(#steps-unfairness) th").all_text_contents()
    assert heads[1:5] == ["AUC", "Strength", "Seed", "Round"]
    assert set(corners(page, "[role=radio]")) == {3}
    assert page.locator(".shapes").count() == 0
    assert "iteration" not in page.inner_text("main")


def test_a_page_of_networks_says_nothing_of_families(open_page):
    page = open_page(page_of("two classes"))
    heads = page.locator("thead:has(#steps-unfairness) th").all_text_contents()
    assert heads[1:5] == ["AUC", "Strength", "Seed", "Iteration"]
    assert page.locator(".shapes").count() == 0
    assert page.locator("#plot-legend ul").count() == 2
    assert set(corners(page, "[role=radio]")) == {3}
    text = page.inner_text("main")
    assert "boosted" not in text and "Every dot is one model at one moment of training" in text
    assert page.inner_text("#chosen-who").startswith(f"Snapshot {chosen(page)}: strength ")


def compared(*kinds):
    return [ComparedRun(kind, curve(kind), curve(kind).get_params()) for kind in kinds]


def test_compared_runs_say_what_they_are_of():
    runs = compared("two strengths", "boosting", "both")
    page = unescape(compare_page(compare(runs)))
    names = ("two strengths (networks)", "boosting (boosted trees)")
    for name in (*names, "both (networks and boosted trees)"):
        # In the table by budget; in the table of its front once for each point.
        assert page.count(f'<th scope="row">{name}</th>') >= 2 * 6
    found = compare(runs)
    for name in ("boosting", "both"):
        for row in found.fronts["KS-GSP", "age"][name].itertuples():
            assert f"<td>{row.origin}</td></tr>" in page
            trees = row.origin.startswith("boosted trees, strength")
            assert trees == (", round " in row.origin) != (", iteration " in row.origin)
            assert trees or row.origin.startswith("network, strength")
    assert all(
        origin.startswith("strength")
        for origin in found.fronts["KS-GSP", "age"]["two strengths"]["origin"]
    )
    table = found.table
    shown = re.search(r'<table id="all".*?</table>', page, flags=re.DOTALL)[0]
    last = re.findall(r"<td>([^<]*)</td><td>[^<]*</td></tr>", shown)
    words = {"": "", "network": "network", "boosting": "boosted trees"}
    assert last == [words[family] for family in table["predictor"]]
    for row in table.itertuples():
        if row.snapshot is not None and not np.isnan(row.utility):
            (run,) = (each for each in runs if each.name == row.run)
            assert row.predictor == run.curve.owner(row.snapshot)[1].predictor


def test_compared_networks_say_nothing_of_families():
    assert "boosted" not in compare_page(compare(compared("two strengths", "longer")))


def test_a_card_of_trees_is_about_trees():
    frontier = curve("both")
    about = RunFacts(title="Loans", target="repaid")
    cards = {}
    for number in np.flatnonzero(frontier.table()["on_front"]):
        row = frontier.table().loc[number]
        worst = {name: row[f"gap {name}"] for name in ("sex", "age")}
        try:
            selection = frontier.select(max_gap=worst)
        except ValueError:
            continue
        cards[selection.predictor] = selection, model_card(selection, about, frontier)
    assert set(cards) == {"network", "boosting"}
    selection, card = cards["boosting"]
    assert card.architecture == (
        "gradient-boosted trees (LightGBM), 20 rounds at most, learning rate 0.1"
    )
    assert (
        f"(boosted trees, strength {selection.strength:g}, seed 4, round {selection.iteration})"
        in (card.choice)
    )
    assert card.output.startswith("the probability that repaid is 1; assessed as a decision")
    assert f"Model type:** {card.architecture}" in to_markdown(card).replace("\\", "")
    _, card = cards["network"]
    assert card.architecture == "fully connected network with hidden layers of 8 units"
    table = frontier.table()
    best = table.loc[table["utility"].idxmax()]
    kind = {"network": "network", "boosting": "boosted trees"}[best["predictor"]]
    assert f" ({kind}, strength {best['strength']:g}); this model has " in card.tradeoffs[0]


def test_the_data_of_a_page_name_every_family():
    families = [entry["predictor"] for entry in data_of("both families")["entries"]]
    assert families == ["network"] * 2 + ["boosting"] * 2
