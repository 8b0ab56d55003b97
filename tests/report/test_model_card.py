"""Model cards: every number is the selection's, every field is in its place, no name breaks it."""

import json
import math
import re
from dataclasses import replace

import pytest
import yaml
from curves import NASTY, curve
from markdown_it import MarkdownIt

from equipoise import FairFrontier, load
from equipoise.report.frontier_page import RunFacts
from equipoise.report.model_card import model_card, to_json, to_markdown
from equipoise.report.page import code_block, escaped, markdown_table

SECTIONS = [
    "Model Details",
    "Uses",
    "Bias, Risks, and Limitations",
    "How to Get Started with the Model",
    "Training Details",
    "Evaluation",
    "Technical Specifications",
    "Citation",
    "Model Card Contact",
]
# Field names of the Model Card Toolkit's schema 0.0.2, level by level.
SCHEMA = {
    "model_details": {"name", "overview", "documentation", "owners", "licenses", "citations"},
    "model_parameters": {"model_architecture", "data", "input_format", "output_format"},
    "quantitative_analysis": {"performance_metrics"},
    "considerations": {
        "users",
        "use_cases",
        "limitations",
        "tradeoffs",
        "ethical_considerations",
    },
}
# What the schema has no place for.
OWN = {"verdicts", "nearest", "source"}


def facts(**changes):
    given = {
        "title": "Loans",
        "data_name": "loans.csv",
        "rows": 1000,
        "target": "repaid",
        "command": "equipoise fit loans.csv --target repaid",
        "settings": {"strengths": (0.0, 0.9)},
        "versions": {"equipoise": "0.1", "python": "3.13"},
        "device": "cpu",
    }
    return RunFacts(**(given | changes))


def card_of(kind="two strengths", **wish):
    frontier = curve(kind)
    selection = frontier.select(**(wish or {"max_gap": 1.0}))
    return selection, model_card(selection, facts(), frontier)


def tokens(text):
    """The card without its metadata, read by a CommonMark parser with tables."""
    body = text.split("\n---\n", 1)[1]
    return MarkdownIt("commonmark").enable("table").parse(body)


def tables(text):
    """Cells of every table, as a reader sees them."""
    found, inside = [], None
    for token in tokens(text):
        if token.type == "table_open":
            inside = []
        elif token.type == "tr_open":
            inside.append([])
        elif token.type == "table_close":
            found.append(inside)
            inside = None
        elif token.type == "inline" and inside is not None:
            inside[-1].append("".join(child.content for child in token.children))
    return found


def metadata(text):
    """Read the metadata as the Hub does: what is between the first two lines of dashes."""
    first, header, _ = re.split(r"^---$\n", text, maxsplit=2, flags=re.MULTILINE)
    assert first == ""
    return yaml.safe_load(header)


@pytest.mark.parametrize("kind", ["two strengths", "separation", "regression", "three classes"])
def test_every_number_is_the_selections(kind):
    selection, card = card_of(kind)
    written = json.loads(to_json(card))["quantitative_analysis"]["performance_metrics"]
    for row, metric in zip(selection.rows, written, strict=True):
        assert (metric["type"], metric.get("slice", "")) == (row.metric, row.attribute)
        interval = metric.get("confidence_interval", {})
        found = {
            "test": metric.get("value", math.nan),
            "low": interval.get("lower_bound", math.nan),
            "high": interval.get("upper_bound", math.nan),
            "chance": metric.get("chance", math.nan),
            "certificate": metric.get("certificate", math.nan),
            "validation": metric.get("validation", math.nan),
            "limit": metric.get("limit", math.nan),
        }
        expected = {name: getattr(row, name) for name in found}
        assert found == pytest.approx(expected, rel=0, abs=0, nan_ok=True)
        assert metric.get("where", "") == row.where
    text = to_markdown(card)
    listed = metadata(text)["model-index"][0]["results"][0]["metrics"]
    assert [(each["name"], each["value"]) for each in listed] == [
        (row.name, row.test) for row in selection.rows
    ]
    header, *rows = tables(text)[-1]
    assert header[:3] == ["metric", "by", "test"]
    shown = [dict(zip(header, row, strict=True)) for row in rows]
    for cells, row in zip(shown, selection.rows, strict=True):
        assert cells["test"] == f"{row.test:.4f}"
        assert cells["interval"] == f"{row.low:.4f} to {row.high:.4f}"
        assert cells["validation"] == f"{row.validation:.4f}"
        assert cells["where"] == row.where
        for head, value in (("by chance", row.chance), ("certified at most", row.certificate)):
            assert cells[head] == ("" if math.isnan(value) else f"{value:.4f}")
        assert cells["limit"] == ("" if math.isnan(row.limit) else f"at most {row.limit:g}")


def test_sections_and_fields_are_those_of_the_two_templates():
    _, card = card_of()
    text = to_markdown(card)
    found = tokens(text)
    titles = [
        found[place + 1].content
        for place, token in enumerate(found)
        if token.type == "heading_open" and token.tag == "h2"
    ]
    assert titles == SECTIONS
    assert list(metadata(text)) == [
        "license",
        "library_name",
        "pipeline_tag",
        "tags",
        "metrics",
        "model-index",
    ]
    assert metadata(text)["pipeline_tag"] == "tabular-classification"
    assert metadata(text)["metrics"] == ["roc_auc", "gap", "ks-gsp", "sp"]
    content = json.loads(to_json(card))
    assert content.pop("schema_version") == "0.0.2"
    assert set(content.pop("equipoise")) == OWN
    assert {name: set(part) for name, part in content.items()} == SCHEMA
    # The schema wants exactly one of identifier and custom_text.
    assert [set(each) for each in content["model_details"]["licenses"]] == [{"custom_text"}]


def test_notion_groups_and_rows_are_named():
    _, card = card_of("separation")
    assert card.overview == (
        "Scores repaid, assessed by sex, age for separation: among people of equal outcome, the "
        "score should not depend on the sensitive attributes."
    )
    assert card.attributes == ("sex (discrete: F, M)", "age (continuous)")
    assert card.training_rows == 600
    text = to_markdown(card)
    assert "\n- sex (discrete: F, M)\n- age (continuous)\n" in text
    assert (
        "loans.csv: 600 rows train, 200 pick, 200 report. Outcome: repaid. Features: income, "
        in text
    )
    assert card.output == (
        "the probability that repaid is 1; assessed as a decision: people are selected where it is "
        f"above {card.selection.threshold:.4g}"
    )
    assert card_of("regression")[1].output == "a prediction of repaid, in its own units"
    assert card_of("three classes")[1].output == "a probability of each class of repaid: 0, 1, 2"


def test_what_only_the_owner_knows_is_left_to_the_owner():
    _, card = card_of()
    fields = ("owner", "contact", "license", "users", "use_cases", "out_of_scope", "risks")
    assert card.to_fill_in == (*fields, "citation")
    text = to_markdown(card)
    assert text.count("*to be filled in by the owner: ") == 8
    assert "is marked *to be filled in by the owner* (8 fields)." in text
    assert metadata(text)["license"] == "unknown"
    filled = replace(card, **dict.fromkeys((*fields, "citation"), "* Known - | <b>"))
    text = to_markdown(filled)
    assert "to be filled in" not in text + to_json(filled)
    assert r"- **Developed by:** \* Known - \| &lt;b&gt;" in text


def test_plain_training_is_not_called_a_mitigation():
    _, card = card_of("plain training")
    assert (card.mitigation, card.method_reference) == ("none: strength 0 is plain training", "")
    assert "Mitigation for independence: none: strength 0 is plain training." in to_markdown(card)
    assert "simple random" not in to_markdown(card) + to_json(card)
    _, card = card_of(max_gap={"age": 0.18})
    assert card.mitigation == "Penalty by simple random sampling (sbp), strength 0.9"


def test_the_trade_off_is_that_of_the_table():
    selection, card = card_of(min_utility=0.6)
    table = curve().table()
    best = table.sort_values("utility").iloc[-1]
    assert best["utility"] > selection.rows[0].validation
    assert card.tradeoffs == (
        "Strength trades AUC for less dependence. On the validation rows the best AUC of all 12 "
        f"snapshots, whatever their unfairness, was {best['utility']:.4f} (strength "
        f"{best['strength']:g}); this model has {selection.rows[0].validation:.4f}.",
    )


@pytest.mark.parametrize(
    "wish",
    [
        {"max_gap": 1.0},
        {"max_gap": {"sex": 1.0, "age": 0.9}},
        {"max_unfairness": {"age": 0.9}, "metric": "SP"},
        {"max_gap": 1.0, "min_utility": 0.55, "attribute": "sex"},
        {"min_utility": 0.6, "metric": "SP"},
        {"min_utility": 0.6, "attribute": "age"},
    ],
    ids=str,
)
def test_the_python_lines_make_the_same_selection(wish, tmp_path):
    frontier = curve()
    selection = frontier.select(**wish)
    path = tmp_path / "frontier.equipoise"
    frontier.save(path)
    lines = ("from equipoise import load", f"frontier = load({str(path)!r})")
    card = model_card(selection, facts(python_lines=lines), frontier)
    *_, last = card.python
    assert last.startswith("model = frontier.select(") and last.endswith(").model")
    again = eval(last.removeprefix("model = ").removesuffix(".model"), {"frontier": load(path)})
    assert (again.snapshot, again.wish, again.aim) == (
        selection.snapshot,
        selection.wish,
        selection.aim,
    )


def test_without_test_rows_the_card_says_so(tmp_path):
    curve().save(tmp_path / "bare.equipoise", include_test_rows=False)
    frontier = load(tmp_path / "bare.equipoise")
    assert isinstance(frontier, FairFrontier)
    card = model_card(frontier.select(max_gap=1.0), facts(), frontier)
    text = to_markdown(card)
    assert "model-index" not in metadata(text)
    assert "The run was kept without its test rows, so there are validation values only." in text
    assert card.limitations[0].startswith("The run was kept without its test rows.")
    written = json.loads(to_json(card))["quantitative_analysis"]["performance_metrics"]
    assert [set(each) & {"value", "confidence_interval"} for each in written] == [set()] * 7


def test_no_name_breaks_a_card():
    frontier = curve("nasty")
    selection = frontier.select(max_gap=1.0)
    about = facts(
        title=f"{NASTY}\n---\nlicense: mit",
        data_name="---",
        target="* [y](http://x)",
        settings={"a|b": "`c`\n# d"},
        command="equipoise fit '```'",
    )
    card = model_card(selection, about, frontier)
    text = to_markdown(card)
    read = metadata(text)
    assert read["license"] == "unknown"
    assert read["model-index"][0]["name"] == f"{NASTY} --- license: mit"
    assert read["model-index"][0]["results"][0]["dataset"]["name"] == "---"
    names = [each["name"] for each in read["model-index"][0]["results"][0]["metrics"]]
    assert f"gap by {NASTY}" in names
    found = tokens(text)
    inline = [child for token in found for child in token.children or ()]
    assert {token.type for token in found} & {"html_block", "hr"} == set()
    assert {child.type for child in inline} & {"html_inline", "link_open", "code_inline"} == set()
    settings, results = tables(text)
    assert settings == [["setting", "value"], ["a|b", "`c` # d"]]
    assert [row[1] for row in results[1:]] == ["", *[NASTY, "age"] * 3]
    assert [token.content for token in found if token.type == "fence"][-1] == (
        "equipoise fit '```'\n"
    )
    assert json.loads(to_json(card))["quantitative_analysis"]["performance_metrics"][1][
        "slice"
    ] == (NASTY)


@pytest.mark.parametrize(
    "text",
    ["---", "- a", "1. a", "+", "# a", "===", "a\nb", "\\|", "&lt;", "$x$", "![a](b)", "12)"],
)
def test_escaped_text_is_a_paragraph_of_just_that_text(text):
    opened, inline, closed = MarkdownIt("commonmark").enable("table").parse(escaped(text))
    assert (opened.type, closed.type) == ("paragraph_open", "paragraph_close")
    assert "".join(child.content for child in inline.children) == " ".join(text.split())
    cell = tables("---\n\n---\n" + markdown_table(["x"], [[text]]))[0][1][0]
    assert cell == " ".join(text.split())


def test_code_stays_within_its_fence():
    assert code_block("a\n````\nb", "sh") == "`````sh\na\n````\nb\n`````"
