"""The result of an audit: one table, in words, as a frame, JSON, a page and a figure."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from equipoise.auditing.inputs import AuditSettings
from equipoise.errors import needs
from equipoise.inference import Estimate
from equipoise.inference.estimate import notes
from equipoise.inference.verdict import Verdict
from equipoise.metrics.outcome import OutcomeKind
from equipoise.report.page import Source, plain
from equipoise.words import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL_ROWS = "all rows"
MISSING = "(missing)"
_PACKAGES = ("equipoise", "numpy", "pandas", "scipy", "scikit-learn", "torch")


@dataclass(frozen=True)
class AuditRow:
    """One number of an audit, and what it is about; docs/auditing.md lists its columns."""

    notion: str  # "independence" or "separation"; "" for numbers that belong to neither
    metric: str
    #: Column; "race x sex" is an intersection, "age, race, sex" all columns jointly, "" none.
    attribute: str
    group: str  # or range of a continuous attribute; "all rows" for a number about all of them
    estimate: Estimate  # the number; only tests have a p-value, the gap among them

    COLUMNS: ClassVar = (
        "notion", "metric", "attribute", "group", "value", "low", "high", "chance", "resolution",
        "p_value", "p_adjusted", "p_floor", "certificate", "where", "n", "reason", "note",
    )  # fmt: skip
    value = property(attrgetter("estimate.value"))
    low = property(attrgetter("estimate.low"))
    high = property(attrgetter("estimate.high"))
    chance = property(attrgetter("estimate.chance"))
    resolution = property(attrgetter("estimate.resolution"))
    p_value = property(attrgetter("estimate.p"))
    p_adjusted = property(attrgetter("estimate.p_adjusted"))
    p_floor = property(attrgetter("estimate.p_floor"))
    certificate = property(attrgetter("estimate.certificate"))
    where = property(attrgetter("estimate.where"))
    n = property(attrgetter("estimate.n"))
    reason = property(attrgetter("estimate.reason"))

    @property
    def note(self) -> str:
        """What else a reader must know, groups that could not be judged first."""
        unjudged = self.estimate.unjudged
        return notes(f"too few rows to judge {unjudged}" if unjudged else "", self.estimate.note)

    def columns(self) -> dict[str, Any]:
        """The row as a frame and JSON have it."""
        return {name: getattr(self, name) for name in self.COLUMNS}


@dataclass(frozen=True)
class NotAssessed:
    """A metric that is not defined for an attribute, and why."""

    metric: str
    attribute: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What `equipoise.audit` found; print it for a summary.

    Attributes
    ----------
    rows : tuple of AuditRow
        Every number: utility, then unfairness by attribute, then groups.
    not_assessed : tuple of NotAssessed
        Metrics that are not defined for an attribute, and why.
    settings : AuditSettings
    notions : tuple of str
        The notions assessed.
    n : int
        Number of scores.
    outcome : {"binary", "multiclass", "continuous"} or None
        Kind of y.
    outcome_words : str
        What y is, in words.
    threshold : float or None
        A decision is score > threshold; None: nothing is decided.
    sensitive : str
        How the sensitive columns were read, as a text table.
    attributes : tuple of str
        Names of the sensitive columns.
    histograms, bands : DataFrame
        Distribution of the score by group, and along each continuous column: what `plot` draws.
    calibration : DataFrame
        Expected and observed outcomes of each group, by tenth of the score; empty unless y is
        binary and the scores are probabilities.
    weighted : bool
        Whether rows count differently.
    crossed : str
        Name of all discrete columns crossed, such as "race x sex"; "" where they were not.
    source : Source
        Where the data came from, and their SHA-256.
    remedy, repeat : str
        What to run to train a model within the limit, and to audit more rows.
    """

    rows: tuple[AuditRow, ...]
    not_assessed: tuple[NotAssessed, ...]
    settings: AuditSettings
    notions: tuple[str, ...]
    n: int
    outcome: OutcomeKind | None
    outcome_words: str
    threshold: float | None
    sensitive: str
    attributes: tuple[str, ...]
    histograms: pd.DataFrame
    bands: pd.DataFrame
    calibration: pd.DataFrame
    weighted: bool
    crossed: str
    source: Source
    remedy: str
    repeat: str

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Whether each attribute is within the limit, notion by notion."""
        from equipoise.auditing.summary import verdicts_of

        return verdicts_of(self)

    def to_frame(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame, one number a row, columns as in `AuditRow`."""
        return pd.DataFrame([row.columns() for row in self.rows], columns=list(AuditRow.COLUMNS))

    def to_json(self) -> str:
        """All rows, what was not assessed, settings and versions as JSON; undefined is null."""
        content = {
            "verdicts": [verdict.to_document() for verdict in self.verdicts],
            "rows": [row.columns() for row in self.rows],
            "not_assessed": [asdict(row) for row in self.not_assessed],
            "n": self.n,
            "outcome": self.outcome_words,
            "notions": self.notions,
            "threshold": self.threshold,
            "sensitive_features": self.sensitive.splitlines(),
            "settings": asdict(self.settings),
            "source": asdict(self.source),
            "versions": versions(),
        }
        return plain_document(content)

    def to_html(self) -> str:
        """One self-contained page, to be written to a file: the answer, figures, all numbers.

        It opens offline in any browser, can be printed, and holds the numbers of this audit but no
        rows of the data.
        """
        from equipoise.auditing.page import audit_page

        return audit_page(self)

    def summary(self) -> str:
        """Verdicts, next steps and what they rest on, in lines of any length."""
        from equipoise.auditing.summary import summarize

        return summarize(self)

    def __str__(self) -> str:
        return wrapped(self.summary())

    def __repr__(self) -> str:
        return (
            f"<Audit of {self.n} scores by {', '.join(self.attributes)}: {len(self.rows)} numbers; "
            "print it for a summary>"
        )

    def plot(self) -> Figure:
        """Draw the score's distribution by group, and its quantiles along continuous columns."""
        with needs("matplotlib", user="plot", extra="report"):
            from equipoise.report.figures import score_figure
        return score_figure(self.histograms, self.bands, threshold=self.threshold)


def plain_document(content: object) -> str:
    """JSON for people and programs; undefined is null."""
    return json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
