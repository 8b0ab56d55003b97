"""Who made the numbers of a table: device, versions and settings of every contender."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.paper.layout import Shown, shown
from experiments.paper.plan import Protocol
from experiments.peers.evidence import BOOSTING, GRADIENT, NETWORKS, PEERS, Evidence

#: Options that say nothing about how a model was trained, or differ between the cells by design.
_NO_SETTINGS = ("method", "notion", "device", "random_state", "strength", "verbose")
_PROGRAMS = {program: name for name, program in PEERS.items()} | {
    "exponentiated_gradient": GRADIENT
}


def records_table(evidence: Evidence, protocol: Protocol) -> Shown:
    """A row for each contender, or for each of its runs where they differ."""
    lines = []
    for name in (BOOSTING, NETWORKS):
        results = [found[name] for found in evidence.of(protocol).values() if name in found]
        records = [result.record for result in results]
        if records:
            lines.append([name, *_where(records), _options(records)])
    for program, runs in evidence.peers.items():
        for run in runs:
            settings = _listed({key: [_text(each)] for key, each in run["settings"].items()})
            lines.append([_PROGRAMS[program], *_where([run]), settings])
    return shown(["contender", "device", "versions", "settings"], lines, labels=1)


def _where(records: Iterable[Mapping[str, Any]]) -> list[str]:
    records = list(records)
    versions = [
        ", ".join(f"{name} {number}" for name, number in record["versions"].items())
        for record in records
    ]
    return [_joined(record["device"] for record in records), _joined(versions)]


def _options(records: Iterable[Mapping[str, Any]]) -> str:
    """Every option with all its values, the commonest first."""
    values: dict[str, list[str]] = {}
    for record in records:
        size = record["size"]
        given = {
            **{name: each for name, each in record["options"].items() if name not in _NO_SETTINGS},
            "strengths": record["strengths"],
            "splits": size["splits"],
            "judged every": size.get("evaluate_every"),
        }
        for name, value in given.items():
            values.setdefault(name, []).append(_text(value))
    return _listed(values)


def _listed(values: Mapping[str, Iterable[str]]) -> str:
    return ", ".join(f"{name}={_joined(found)}" for name, found in values.items())


def _joined(texts: Iterable[str]) -> str:
    return " or ".join(text for text, _ in Counter(texts).most_common())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
