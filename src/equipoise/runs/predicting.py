"""``equipoise predict``: a file scored with the selected model of a run."""

from __future__ import annotations

from pathlib import Path

from equipoise.estimators import Classifies, Regresses
from equipoise.runs.folder import MODEL, Run, reading
from equipoise.runs.scoring import ScoringReport, score_file
from equipoise.runs.selection_file import read_threshold


def predict_with_run(
    folder: Path,
    data: Path,
    out: Path,
    *,
    id: tuple[str, ...] | None = None,
    threshold: float | None = None,
) -> ScoringReport:
    """Score a file; id columns and threshold are those of the run unless given."""
    run, model, chosen = reading(folder, _selected)
    return score_file(
        model,
        data,
        out,
        id=run.record.options.id if id is None else id,
        threshold=chosen if threshold is None else threshold,
    )


def _selected(run: Run) -> tuple[Run, Classifies | Regresses, float | None]:
    """Return a run, its selected model and where decisions are cut."""
    threshold = read_threshold(run)
    model = run.load(MODEL)
    assert isinstance(model, Classifies | Regresses)
    return run, model, threshold
