"""``equipoise predict``: a file scored with the selected model of a run."""

from __future__ import annotations

from pathlib import Path

from equipoise.estimators import Classifies, Regresses
from equipoise.runs.folder import MODEL, SELECTION, Run
from equipoise.runs.scoring import ScoringReport, score_file
from equipoise.runs.selection_file import read_threshold


def predict_with_run(
    run: Run,
    data: Path,
    out: Path,
    *,
    id: tuple[str, ...] | None = None,
    threshold: float | None = None,
) -> ScoringReport:
    """Score a file; id columns and threshold are those of the run unless given."""
    chosen = read_threshold(run.path(SELECTION), run.path(MODEL))
    model = run.load(MODEL)
    assert isinstance(model, Classifies | Regresses)
    return score_file(
        model,
        data,
        out,
        id=run.record.options.id if id is None else id,
        threshold=chosen if threshold is None else threshold,
    )
