"""A model card as Markdown with YAML metadata, as Hugging Face reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from equipoise.frontier.selection import SelectionRow
from equipoise.report.markdown import code_block, escaped, front_matter, table
from equipoise.report.model_card.card import TO_FILL_IN, ModelCard

#: Names of utilities among Hugging Face's metrics; measures of unfairness have none there.
_METRIC_TYPES = {"AUC": "roc_auc", "macro AUC": "roc_auc", "R2": "r_squared"}


def to_markdown(card: ModelCard) -> str:
    """Write the card; numbers to four digits in the text and in full in the metadata."""
    return "\n\n".join([front_matter(_metadata(card)), *_sections(card)]) + "\n"


def _metadata(card: ModelCard) -> dict[str, object]:
    measured = [row for row in card.rows if not math.isnan(row.test)]
    results = [
        {
            "task": {"type": card.task},
            "dataset": {"type": "tabular", "name": card.data, "split": "test"},
            "metrics": [
                {"type": _metric_type(row), "name": row.name, "value": row.test} for row in measured
            ],
        }
    ]
    found: dict[str, object] = {
        # The Hub refuses names of licences that it does not know; the owner's own words are below.
        "license": "unknown",
        "library_name": "equipoise",
        "pipeline_tag": card.task,
        "tags": ["fairness", card.notion, "tabular"],
        "metrics": list(dict.fromkeys(map(_metric_type, card.rows))),
    }
    return found | ({"model-index": [{"name": card.name, "results": results}]} if measured else {})


def _metric_type(row: SelectionRow) -> str:
    return _METRIC_TYPES.get(row.metric, row.metric.lower())


def _sections(card: ModelCard) -> Iterator[str]:
    yield f"# Model Card for {escaped(card.name)}"
    yield escaped(card.overview)
    if card.to_fill_in:
        yield (
            "> Written by equipoise from the record of a run. What only the owner of the model can "
            f"say is marked *{TO_FILL_IN}* ({len(card.to_fill_in)} fields)."
        )
    yield "## Model Details"
    yield "### Model Description"
    yield _facts(
        {
            "Developed by": card.owner,
            "Model type": card.architecture,
            "License": card.license,
            "Notion of fairness": f"{card.notion}: {card.notion_meaning}",
            "Mitigation": card.mitigation,
            "Output": card.output,
        }
    )
    yield escaped(card.choice)
    yield "## Uses"
    yield _facts({"Users": card.users})
    yield "### Direct Use"
    yield _said(card.use_cases)
    yield "### Out-of-Scope Use"
    yield _said(card.out_of_scope)
    yield "## Bias, Risks, and Limitations"
    yield _said(card.risks)
    yield _bullets(card.limitations)
    yield "### Trade-offs"
    yield _bullets(card.tradeoffs)
    yield "## How to Get Started with the Model"
    if card.deploy_command:
        yield code_block(card.deploy_command, "sh")
    yield code_block("\n".join(card.python), "python")
    yield "## Training Details"
    yield "### Training Data"
    yield (
        f"{escaped(card.data)}: {card.training_rows:,} rows train, {card.validation_rows:,} pick, "
        f"{card.test_rows:,} report. Outcome: {escaped(card.target)}. Features: "
        f"{escaped(', '.join(card.features))}."
    )
    yield "### Training Procedure"
    source = f": {card.method_reference}" if card.method_reference else ""
    yield escaped(f"Mitigation for {card.notion}: {card.mitigation}{source}.")
    if card.settings:
        yield table(["setting", "value"], [[str(k), str(v)] for k, v in card.settings.items()])
    yield "## Evaluation"
    yield "### Testing Data, Factors & Metrics"
    yield _about_testing(card)
    if card.attributes:
        yield _bullets([attribute.in_words for attribute in card.attributes])
    yield "### Results"
    yield _results(card)
    yield "## Technical Specifications"
    yield "### Model Architecture and Objective"
    yield escaped(f"{card.architecture}; objective: task loss and penalty for {card.notion}.")
    yield "### Compute Infrastructure"
    software = {str(name): str(version) for name, version in card.versions.items()}
    yield _facts({"Hardware": card.device or "not recorded", **software})
    if card.command:
        yield "Made by:"
        yield code_block(card.command, "sh")
    yield "## Citation"
    yield _said(card.citation)
    yield "## Model Card Contact"
    yield _said(card.contact)


def _about_testing(card: ModelCard) -> str:
    if card.test_rows == 0:
        return "The run was kept without its test rows, so there are validation values only."
    return (
        f"{card.test_rows:,} rows that neither trained nor picked the model; intervals and "
        f"certificates at {100 * card.level:g} %. Unfairness is 0 for a score that satisfies "
        f"{card.notion}. Assessed by:"
    )


def _results(card: ModelCard) -> str:
    """Every row of the selection's report."""
    header = ["metric", "by", "test", "interval", "certified at most", "validation", "wished"]
    noted = any(row.note for row in card.rows)
    rows = []
    for row in card.rows:
        interval = "" if math.isnan(row.low) else f"{_number(row.low)} to {_number(row.high)}"
        wished = f"at {'most' if row.attribute else 'least'} {row.limit:g}"
        cells = [
            row.metric,
            row.attribute,
            _number(row.test),
            interval,
            _number(row.certificate),
            _number(row.validation),
            "" if math.isnan(row.limit) else wished,
        ]
        rows.append([*cells, row.note] if noted else cells)
    return table([*header, "note"] if noted else header, rows)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _facts(facts: dict[str, str]) -> str:
    return "\n".join(f"- **{escaped(name)}:** {_said(value)}" for name, value in facts.items())


def _said(text: str) -> str:
    """A field of the owner's, in italics while it is a placeholder."""
    return f"*{escaped(text)}*" if text.startswith(TO_FILL_IN) else escaped(text)


def _bullets(texts: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"- {escaped(text)}" for text in texts)
