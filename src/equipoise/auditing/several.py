"""Audits of several models on the same rows, side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from equipoise.auditing.result import Audit, plain_document, versions
from equipoise.auditing.summary import NOTIONS, next_steps, opening
from equipoise.inference import Estimate
from equipoise.inference.verdict import Verdict
from equipoise.notions import Notion
from equipoise.report.page import render_page, side_by_side
from equipoise.words import listed, number, percent, wrapped


@dataclass(frozen=True, eq=False, repr=False)
class Audits(Mapping[str, Audit]):
    """What `equipoise.audit` found about several models; print it for a summary.

    A mapping from the name of a model to its `Audit`. Certificates hold for all models together.

    Attributes
    ----------
    audits : dict of str to Audit
    utility : str
        "AUC" or "R2"; "" where there is none.
    differences : tuple of Estimate
        By how much each model but the first is more useful than the first.
    """

    audits: Mapping[str, Audit]
    utility: str
    differences: tuple[Estimate, ...]

    def __getitem__(self, model: str) -> Audit:
        return self.audits[model]

    def __iter__(self) -> Iterator[str]:
        return iter(self.audits)

    def __len__(self) -> int:
        return len(self.audits)

    @property
    def first(self) -> Audit:
        """The audit that the others are compared with."""
        return next(iter(self.values()))

    def to_frame(self) -> pd.DataFrame:
        """All rows of all audits, the model first."""
        return pd.concat(
            [audit.to_frame().assign(model=name) for name, audit in self.items()],
            ignore_index=True,
        ).pipe(lambda table: table[["model", *table.columns.drop("model")]])

    def to_json(self) -> str:
        """Every audit by the name of its model, and the differences in utility."""
        # Without an outcome, or with several classes, there are no differences.
        others = list(self)[1:] if self.differences else []
        found = zip(others, self.differences, strict=True)
        return plain_document(
            {
                "models": {name: json.loads(audit.to_json()) for name, audit in self.items()},
                "utility": self.utility,
                "differences": [
                    {"model": name, "from": next(iter(self)), **_parts(each)}
                    for name, each in found
                ],
            }
        )

    def to_html(self) -> str:
        """One self-contained page: verdicts side by side. Each audit has a page of its own, too."""
        return render_page(
            "audits.html",
            scripts=(),
            data={},
            title=f"Audit of {len(self)} models by {', '.join(self.first.attributes)}",
            opening=[f"{self.first.n:,} rows.", *list(opening(self.first))[:1]],
            models=list(self),
            panels=side_by_side([audit.verdicts for audit in self.values()]),
            utilities=[_utility(audit) for audit in self.values()],
            usefulness=self.usefulness(),
            steps=[
                (name, [step.partition("\n") for step in next_steps(audit)])
                for name, audit in self.items()
            ],
            percent=percent(self.first.settings.level),
            made=[("", self.first.source, versions())],
        )

    def _rows(self, notion: Notion) -> list[tuple[str, list[Verdict]]]:
        """Attributes, with the verdict on each model."""
        found = [[v for v in audit.verdicts if v.notion == notion] for audit in self.values()]
        return [(each[0].attribute, list(each)) for each in zip(*found, strict=True)]

    def usefulness(self) -> str:
        """Which model is the most useful, or that the rows do not tell."""
        if not self.differences:
            return ""
        first, *others = self
        said = []
        for name, apart in zip(others, self.differences, strict=True):
            ends = sorted(abs(end) for end in (apart.low, apart.high))
            size = f"{number(abs(apart.value))} ({number(ends[0])} to {number(ends[1])})"
            if apart.low > 0:
                said.append(f"{name} is more useful than {first}, by {size} in {self.utility}.")
            elif apart.high < 0:
                said.append(f"{name} is less useful than {first}, by {size} in {self.utility}.")
            else:
                size = f"{number(apart.value)} ({number(apart.low)} to {number(apart.high)})"
                said.append(
                    f"{name} and {first} do not differ beyond chance in {self.utility}: {size}."
                )
        return " ".join(said)

    def summary(self) -> str:
        """Verdicts by attribute and model, in lines of any length."""
        blocks = [[f"Audit of {len(self)} models, {listed(list(self))}, on {self.first.n:,} rows"]]
        for notion in map(Notion, self.first.notions):
            lines = [NOTIONS[notion]]
            for attribute, verdicts in self._rows(notion):
                lines.append(f"  {attribute}:")
                lines += [
                    f"    {name}: {' '.join([f'{verdict.words}.', *verdict.sentences])}"
                    for name, verdict in zip(self, verdicts, strict=True)
                ]
            blocks.append(lines)
        if self.differences:
            values = [f"{name} {_utility(audit)}" for name, audit in self.items()]
            level = percent(self.first.settings.level)
            blocks.append(
                [
                    f"Utility: {', '.join(values)}.",
                    f"{self.usefulness()} Ranges in brackets are {level} intervals.",
                ]
            )
        return "\n\n".join("\n".join(block) for block in blocks)

    def __str__(self) -> str:
        return wrapped(self.summary())

    def __repr__(self) -> str:
        return f"<Audits of {listed(list(self))} on {self.first.n} rows; print it for a summary>"


def _parts(found: Estimate) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "level": found.level}


def _utility(audit: Audit) -> str:
    """Utility and its interval, in words."""
    rows = [row for row in audit.rows if not row.attribute]
    return ", ".join(f"{row.metric} {number(row.value)}" for row in rows) or "no outcome given"
