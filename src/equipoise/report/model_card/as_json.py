"""A model card as JSON in the schema of Google's Model Card Toolkit."""

from __future__ import annotations

import json
import math
from typing import Any

from equipoise.frontier.selection import SelectionRow
from equipoise.report.model_card.card import ModelCard

SCHEMA_VERSION = "0.0.2"


def to_json(card: ModelCard) -> str:
    """Write the card; numbers in full, undefined ones left out.

    Beside the schema's fields a performance metric has ``certificate``, ``validation`` and
    ``limit``, where there are such, and ``note``.
    """
    sensitive = [attribute.in_words for attribute in card.attributes]
    content = {
        "schema_version": SCHEMA_VERSION,
        "model_details": {
            "name": card.name,
            "overview": card.overview,
            "documentation": f"{card.choice} {_mitigation(card)}",
            "owners": [{"name": card.owner, "contact": card.contact}],
            "licenses": [{"custom_text": card.license}],
            "citations": [{"citation": card.citation}],
        },
        "model_parameters": {
            "model_architecture": card.architecture,
            "data": [
                {
                    "name": card.data,
                    "description": f"{part}: {rows} rows",
                    "sensitive": {"sensitive_data": sensitive},
                }
                for part, rows in (
                    ("training", card.training_rows),
                    ("validation", card.validation_rows),
                    ("test", card.test_rows),
                )
            ],
            "input_format": f"a table with the columns {', '.join(card.features)}",
            "output_format": card.output,
        },
        "quantitative_analysis": {"performance_metrics": [_metric(row) for row in card.rows]},
        "considerations": {
            "users": [{"description": card.users}],
            "use_cases": [
                {"description": card.use_cases},
                {"description": f"Out of scope: {card.out_of_scope}"},
            ],
            "limitations": [{"description": text} for text in card.limitations],
            "tradeoffs": [{"description": text} for text in card.tradeoffs],
            "ethical_considerations": [
                {"name": card.risks, "mitigation_strategy": _mitigation(card)}
            ],
        },
    }
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)


def _mitigation(card: ModelCard) -> str:
    source = f" ({card.method_reference})" if card.method_reference else ""
    return f"Mitigation for {card.notion}: {card.mitigation}{source}."


def _metric(row: SelectionRow) -> dict[str, Any]:
    optional = {
        "value": row.test,
        "certificate": row.certificate,
        "validation": row.validation,
        "limit": row.limit,
    }
    found: dict[str, Any] = {"type": row.metric}
    if row.attribute:
        found["slice"] = row.attribute
    found |= {name: value for name, value in optional.items() if not math.isnan(value)}
    if not math.isnan(row.low):
        found["confidence_interval"] = {"lower_bound": row.low, "upper_bound": row.high}
    return found | ({"note": row.note} if row.note else {})
