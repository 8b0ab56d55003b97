"""The page of an audit: its answer, its numbers and its figures are those of the audit."""

import json
import math
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest

from equipoise.auditing import audit
from equipoise.auditing.page import MOST_GROUPS
from equipoise.words import capital

FAST = {"draws": 30, "permutations": 99}
SCRIPT = "<script>document.title='broken'</script>"


def people(n=900, *, sex="sex", female="F"):
    random = np.random.default_rng(7)
    woman = random.integers(0, 2, n) == 1
    age = random.integers(18, 78, n)
    y = random.integers(0, 2, n)
    scores = 0.3 * random.random(n) + 0.25 * y + 0.2 * ~woman + 0.002 * (age - 18)
    return scores, y, pd.DataFrame({"age": age, sex: np.where(woman, female, "M")})


@pytest.fixture(scope="module")
def found():
    return audit(*people(), threshold=0.4, **FAST)


@pytest.fixture(scope="module")
def html(found):
    return found.to_html()


def rows_of(html, table):
    """Cells of a table's body: what is shown, and the full number behind it."""
    body = re.search(rf'<table id="{table}".*?<tbody>(.*?)</tbody>', html, flags=re.DOTALL)[1]
    rows = []
    for row in re.findall(r"<tr.*?>(.*?)</tr>", body, flags=re.DOTALL):
        cells = re.findall(r"<td([^>]*)>(.*?)</td>", row, flags=re.DOTALL)
        values = [re.search(r'data-value="(.*?)"', attributes) for attributes, _ in cells]
        rows.append(
            [
                (unescape(text), None if value is None else float(value[1]))
                for (_, text), value in zip(cells, values, strict=True)
            ]
        )
    return rows


def test_every_number_of_the_audit_is_on_the_page_in_full(found, html):
    frame = found.to_frame()
    rows = rows_of(html, "all")
    assert len(rows) == len(frame) > 60
    numbers = ["value", "low", "high", "chance", "p_value", "p_adjusted", "certificate", "n"]
    for shown, (_, row) in zip(rows, frame.iterrows(), strict=True):
        texts = [text for text, _ in shown[:4]]
        assert texts == [row["notion"], row["metric"], row["attribute"], row["group"]]
        for (text, value), name in zip(shown[4:12], numbers, strict=True):
            if np.isnan(row[name]):
                assert (text, value) == ("", None)
            else:
                assert value == row[name]
                assert text.replace(",", "").removeprefix("<= ") in (
                    f"{value:.3f}",
                    f"{value:.1f}",
                    f"{value:.2g}",
                    f"{value:.0f}",
                )


def test_a_row_for_each_attribute_has_verdict_groups_ratio_and_gap(found, html, open_page):
    page = open_page(html)
    frame = found.to_frame().set_index(["metric", "attribute", "group"]).sort_index()
    rows = page.locator("#answer .verdicts").first.locator("tbody tr")
    assert rows.count() == len(found.attributes)
    for place, attribute in enumerate(found.attributes):
        judged = found.verdicts[place]
        name, verdict, fared, ratio, gap = rows.nth(place).locator("th, td").all_inner_texts()
        row = frame.loc[("gap", attribute, "all rows")]
        rates = frame.loc[("selection rate", attribute)]["value"]
        assert (name, verdict) == (attribute, capital(judged.words))
        assert rows.nth(place).get_attribute("data-verdict") == judged.state
        shares = [float(each) for each in re.findall(r"([\d.]+) %", fared)]
        assert shares == pytest.approx([100 * rates.min(), 100 * rates.max()], abs=0.051)
        assert float(ratio.split()[0]) == pytest.approx(rates.min() / rates.max(), abs=6e-4)
        assert ("not below four fifths" in ratio) == (rates.min() / rates.max() >= 0.8)
        shown = [float(each) for each in re.findall(r"[\d.]+", gap)]
        expected = [100 * row[name] for name in ("value", "low", "high", "chance")]
        assert shown == pytest.approx(expected, abs=0.051)


def test_what_to_do_next_and_where_the_data_came_from(found, html, open_page):
    page = open_page(html)
    step = page.locator(".next")
    assert "Not within the limit (sex and age)" in step.inner_text()
    line = "FairFrontier(FairClassifier()).fit(X, y, sensitive_features=A).select(max_gap=0.1)"
    assert step.locator("pre").first.inner_text() == f"{line}.model"
    source = page.locator("#source").inner_text()
    assert found.source.sha256 in source and found.source.made in source
    assert len(found.source.sha256) == 64


def test_what_was_not_assessed_is_said():
    random = np.random.default_rng(1)
    A = {"sex": random.choice(["F", "M"], 300), "age": random.integers(18, 80, 300)}
    found = audit(random.random(300), None, A, **FAST)
    page = found.to_html()
    assert "Only independence was assessed; separation was not possible without y." in page
    assert len(found.not_assessed) > 0
    for row in found.not_assessed:
        assert row.reason in unescape(page)
    assert f"<dt>numpy</dt><dd>{np.__version__}</dd>" in page


def test_what_all_tests_make_doubtful_is_said(found):
    def with_gap_by_sex(**changes):
        rows = [
            replace(row, estimate=replace(row.estimate, **changes))
            if (row.attribute, row.metric) == ("sex", "gap")
            else row
            for row in found.rows
        ]
        return unescape(replace(found, rows=tuple(rows)).to_html())

    undefined = with_gap_by_sex(value=math.nan, reason="no group has 30 rows")
    assert "Too few rows to say: no group has 30 rows." in undefined
    doubtful = with_gap_by_sex(p=0.04, p_adjusted=0.2, p_floor=0.01)
    assert "in this test alone (p = 0.040)" in doubtful and "(p = 0.200)" in doubtful


def test_histograms_count_every_score(found):
    scores, _, A = people()
    html = found.to_html()
    data = re.search(r'id="data">(.*?)</script>', html)[1]
    (histogram,) = json.loads(data)["histograms"]
    assert histogram["attribute"] == "sex"
    for group, name in zip(histogram["groups"], ("F", "M"), strict=True):
        own = scores[A["sex"] == name]
        assert group["n"] == sum(group["counts"]) == len(own)
        for place, edge in list(enumerate(histogram["edges"]))[1:-1]:
            assert sum(group["counts"][place:]) == (own >= edge).sum()


def corners(path):
    """Points of an SVG path of straight lines."""
    return np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", path), float)


def test_bands_are_drawn_where_their_quantiles_are(found, html, open_page):
    bands = found.bands[found.bands["attribute"] == "age"]
    page = open_page(html)
    line, outer, inner = (
        corners(page.locator(f"[data-bands] .{name}").get_attribute("d"))
        for name in ("median", "band-outer", "band-inner")
    )
    # Places are linear in the numbers: two points of the median tell how.
    x, y = bands["position"].to_numpy(), bands["q50"].to_numpy()
    low, high = y.argmin(), y.argmax()

    def across(values):
        return line[0, 0] + (values - x[0]) * (line[-1, 0] - line[0, 0]) / (x[-1] - x[0])

    def down(values):
        step = (line[high, 1] - line[low, 1]) / (y[high] - y[low])
        return line[low, 1] + (values - y[low]) * step

    assert line[high, 1] < line[low, 1]
    np.testing.assert_allclose(line, np.column_stack([across(x), down(y)]), atol=0.1)
    for area, inside, outside in ((outer, "q10", "q90"), (inner, "q25", "q75")):
        heights = [*down(bands[outside]), *down(bands[inside])[::-1]]
        expected = np.column_stack([[*across(x), *across(x)[::-1]], heights])
        np.testing.assert_allclose(area, expected, atol=0.1)
    shown = page.eval_on_selector_all(
        "[data-attribute=age] .quantiles tbody tr",
        "rows => rows.map(row => [...row.cells].slice(2).map(cell => Number(cell.dataset.value)))",
    )
    assert shown == bands[["q10", "q25", "q50", "q75", "q90"]].to_numpy().tolist()


def test_intervals_are_drawn_where_they_are(found, html, open_page):
    page = open_page(html)
    frame = found.to_frame()
    rows = frame[(frame["metric"] == "selection rate") & (frame["attribute"] == "sex")]
    cells = page.locator("[data-axis='sex selection rate']")
    assert cells.count() == len(rows) == 2
    for place, (_, row) in enumerate(rows.iterrows()):
        box = cells.nth(place).locator("svg").bounding_box()
        bar = cells.nth(place).locator(".range").bounding_box()
        dot = cells.nth(place).locator(".value").bounding_box()
        # Rates share the axis from 0 to 1.
        assert (bar["x"] - box["x"]) / box["width"] == pytest.approx(row["low"], abs=0.02)
        assert bar["width"] / box["width"] == pytest.approx(row["high"] - row["low"], abs=0.02)
        middle = dot["x"] + dot["width"] / 2 - box["x"]
        assert middle / box["width"] == pytest.approx(row["value"], abs=0.02)


def test_of_many_groups_the_largest_are_drawn(open_page):
    random = np.random.default_rng(3)
    town = np.array([f"t{k:02d}" for k in range(20)])[
        random.integers(0, 20, 800) * (np.arange(800) > 40)
    ]
    html = audit(random.random(800), None, {"town": town}, **FAST).to_html()
    assert "The chart shows the 12 largest groups; the table has all." in html
    page = open_page(html)
    labels = page.locator("[data-strips] text.title").all_text_contents()
    drawn = re.findall(r"t\d\d", " ".join(labels))
    assert len(drawn) == MOST_GROUPS == page.locator("[data-strips] path.bars").count()
    sizes = pd.Series(town).value_counts()
    assert sizes[drawn].min() >= sizes.drop(drawn).max()
    assert drawn == sorted(drawn)
    assert page.locator("[data-attribute=town] .quantiles tbody tr").count() == 20


def test_names_are_text_wherever_they_stand():
    scores, y, A = people(400, sex=SCRIPT, female="</script><!--")
    html = audit(scores, y, A, **FAST).to_html()
    assert SCRIPT not in html
    assert "</script><!--" not in html
    assert html.count("<script") == 2
    assert unescape(re.search(r"<title>(.*?)</title>", html)[1]) == (
        f"Audit of 400 scores by age, {SCRIPT}"
    )


def test_a_page_of_numbers_without_decisions():
    random = np.random.default_rng(2)
    y = random.normal(size=500)
    A = {"age": random.integers(20, 60, 500)}
    found = audit(y + random.normal(size=500), y, A, **FAST)
    html = found.to_html()
    assert "Dashed: the threshold" not in html
    assert 'data-strips="' not in html
    assert '<th scope="col">mean error</th>' in html


def test_the_slider_counts_scores_exactly(found, html, open_page):
    page = open_page(html)
    scores, _, A = people()
    edges = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])["histograms"][0]["edges"]
    slider = page.locator("[data-attribute=sex] input[type=range]")
    nearest = int(np.argmin(np.abs(np.array(edges) - found.threshold)))
    assert slider.input_value() == str(nearest)
    for place in (1, 13, len(edges) - 2):
        slider.fill(str(place))
        shown = page.locator("[data-attribute=sex] td.counted").all()
        for output, group in zip(shown, ("F", "M"), strict=True):
            share = (scores[A["sex"] == group] >= edges[place]).mean()
            assert float(output.get_attribute("data-value")) == share
            assert output.inner_text() == f"{100 * share:.1f} %"
        for words in page.locator("[data-attribute=sex] output.edge").all_inner_texts():
            assert float(words) == pytest.approx(edges[place], rel=1e-3)
    # Beyond the outermost edges bars hold more than their own width: the slider ends before.
    assert (slider.get_attribute("min"), slider.get_attribute("max")) == ("1", "39")
    slider.fill("1")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert slider.input_value() == "2"


def test_numbers_can_be_found_and_sorted(found, html, open_page):
    page = open_page(html)
    rows = page.locator("#all tbody tr")
    total = len(found.rows)
    assert page.locator("#shown").inner_text() == f"{total} of {total} numbers"
    page.fill("#find", "ks-gsp age")
    assert page.locator("#shown").inner_text() == f"1 of {total} numbers"
    page.fill("#find", "")
    page.select_option("#notion", "separation")
    frame = found.to_frame()
    kept = (frame["notion"] == "separation").sum()
    assert page.locator("#shown").inner_text() == f"{kept} of {total} numbers"
    assert rows.locator("visible=true").count() == kept
    heading = page.locator("#all thead th", has_text=re.compile("^value"))

    def order():
        return page.eval_on_selector_all(
            "#all tbody tr", "rows => rows.map(row => row.cells[4].dataset.value ?? null)"
        )

    defined = sorted(frame["value"].dropna())
    undefined = [None] * int(frame["value"].isna().sum())
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    up = order()
    assert [None if v is None else float(v) for v in up] == [*defined, *undefined]
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert [None if v is None else float(v) for v in order()] == [*defined[::-1], *undefined]


def test_names_cannot_become_markup_in_a_browser(open_page):
    scores, y, A = people(400, sex=SCRIPT, female="<img src=x onerror=document.title='broken'>")
    page = open_page(audit(scores, y, A, **FAST).to_html())
    assert page.title() == f"Audit of 400 scores by age, {SCRIPT}"
    assert page.locator("h2", has_text=SCRIPT).first.inner_text() == SCRIPT
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_follows_the_color_scheme(html, open_page, scheme):
    page = open_page(html, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
    assert brightness > 200 if scheme == "light" else brightness < 60


def test_on_paper_every_number_is_there_and_no_control(html, open_page):
    page = open_page(html)
    page.emulate_media(media="print")
    assert page.locator("input:visible, select:visible").count() == 0
    box = page.locator("#all").evaluate("table => table.parentElement.scrollHeight")
    assert page.locator("#all").evaluate("table => table.parentElement.clientHeight") >= box - 1


def test_without_scripts_everything_but_the_controls_is_there(html, open_page):
    page = open_page(html, java_script_enabled=False)
    assert page.locator("input:visible, select:visible").count() == 0
    assert page.locator("#answer p").count() == 3
    assert page.locator("noscript").is_visible()
    # The numbers of each chart are in its table, and nothing is folded away.
    assert page.locator("figure .quantiles:visible").count() == 2
    assert page.locator("details:not([open])").count() == 0
