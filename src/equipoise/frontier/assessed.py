"""Kept snapshots beside one another: how each was trained, and what test rows say of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from equipoise.frontier.curve import Curve
from equipoise.frontier.report import ReportSettings, certificates, report
from equipoise.frontier.selection import SelectionRow
from equipoise.frontier.snapshots import Floats
from equipoise.frontier.wish import Wish
from equipoise.training import Health, History


@dataclass(frozen=True, eq=False, kw_only=True)
class Assessed:
    """One kept snapshot.

    Attributes
    ----------
    snapshot : int
        Its row in ``FairFrontier.table()``.
    threshold : float or None
        Where decisions are cut: Youden's on the validation rows; None but for two classes.
    health : Health
    history : History
        Of its member up to this moment.
    rows : tuple of SelectionRow
        Utility first, then every metric by attribute; certificates are for this snapshot alone.
    joint_certificates : ndarray of float64, shape (M,)
        Upper bounds, in the order of the metrics by attribute, that hold for all snapshots assessed
        along with this one together, so for whichever is picked by its test values; NaN where there
        is none.
    scores : ndarray of float64, shape (n, s), or None
        On the test rows; None where there are none.
    """

    snapshot: int
    threshold: float | None
    health: Health
    history: History
    rows: tuple[SelectionRow, ...]
    joint_certificates: Floats
    scores: Floats | None


def assess_snapshots(
    curve: Curve, numbers: Sequence[int], settings: ReportSettings
) -> tuple[Assessed, ...]:
    """Assess E kept snapshots on the test rows; each gets the numbers ``select`` would give it."""
    criteria = curve.snapshots.criteria
    no_limit = Wish(criteria.metrics[0], {}, -math.inf)
    picked = [curve.picked(number, no_limit) for number in numbers]
    scores = curve.test_scores(numbers)
    found = report(scores, curve.test, criteria, picked, settings)
    joint = np.full((len(numbers), len(criteria.measures)), np.nan)
    if scores is not None and curve.test is not None:
        together = replace(settings, candidates=settings.candidates * len(numbers))
        joint = certificates(scores, curve.test, criteria, together)
    models = [curve.model(number) for number in numbers]
    return tuple(
        Assessed(
            snapshot=number,
            threshold=each.threshold,
            health=model.health_,
            history=model.history_,
            rows=rows,
            joint_certificates=bounds,
            scores=None if scores is None else scores[place],
        )
        for place, (number, each, model, rows, bounds) in enumerate(
            zip(numbers, picked, models, found, joint, strict=True)
        )
    )
