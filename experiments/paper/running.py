"""Training one cell: every strength with every split at once, and judging all that it passed."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from equipoise.estimators.inputs import read_device
from equipoise.frontier.snapshots import Criteria, Judge
from equipoise.inference import bootstrap
from equipoise.metrics import mae
from equipoise.predictors.recipe import Inputs
from equipoise.training import Member, Predictor
from experiments.paper.files import CellResult
from experiments.paper.plan import Cell, training_of
from experiments.paper.protocols import measure_column
from experiments.paper.rows import CellRows, Part, cell_rows
from experiments.paper.settings import Size, estimator_of, strengths_of

#: (member, row) pairs evaluated at once on an accelerator, and scores judged at once.
_EVALUATED_AT_ONCE, _JUDGED_AT_ONCE = 2**20, 2**25
_PACKAGES = ("equipoise", "torch", "numpy", "pandas", "scikit-learn", "scipy")


def run_cell(cell: Cell, size: Size, *, device: str = "auto") -> CellResult:
    """Train all members of a cell together and judge every snapshot."""
    (result,) = run_cells([cell], size, device=device)
    return result


def run_cells(cells: Sequence[Cell], size: Size, *, device: str = "auto") -> list[CellResult]:
    """Train once for cells that share a training run (`training_of`), and judge for each."""
    begun = time.perf_counter()
    (cell,) = {training_of(each) for each in cells}
    estimator = estimator_of(cell, size, device)
    where = read_device(device)
    rows = cell_rows(cell, size, where)
    strengths = strengths_of(cell, size)
    members = [
        Member(strength, number, own)
        for number, own in zip(size.split_numbers, rows.ranges, strict=True)
        for strength in strengths
    ]
    recipe = estimator._recipe()
    recipe = replace(recipe, training=replace(recipe.training, check_every=size.evaluate_every))
    collected = _Scores(rows, len(strengths))
    prepared = time.perf_counter()
    trained = recipe.train(
        rows.data,
        members,
        Inputs(
            task=estimator._task(rows.outcome),
            n_outputs=rows.outcome.n_outputs,
            sensitive=rows.trained_on,
        ),
        on_check=collected,
    )
    if where.type == "cuda":
        torch.cuda.synchronize(where)
    if trained.interrupted_at:
        # A shortened run must not pass for a finished one.
        raise KeyboardInterrupt
    ended = time.perf_counter()
    record = {
        "size": asdict(size),
        "estimator": type(estimator).__name__,
        "options": _plain(estimator.get_params(deep=False)),
        "strengths": list(strengths),
        "rows": {"train": len(rows.ranges[0]), "validation": len(rows.validation.held_out[0])}
        | ({} if rows.test is None else {"test": len(rows.test.held_out[0])}),
        "stopped_members": int((trained.history.stopped_at > 0).sum()),
        "seconds": {"prepare": round(prepared - begun, 3), "train": round(ended - prepared, 3)},
        "device": device_name(where),
        "versions": {"python": platform.python_version()}
        | {p: version(p) for p in (*_PACKAGES, *_of_settings(cell))},
    }
    return [
        CellResult(each, *_judged(each, size, rows, collected, strengths), record) for each in cells
    ]


def _of_settings(cell: Cell) -> tuple[str, ...]:
    """Packages that only some settings need."""
    return ("lightgbm",) if cell.settings == "boosting" else ()


def device_name(device: torch.device) -> str:
    """Which device, in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} thread(s)"


class _Scores:
    """Keeps what every member says of the rows of its split, whenever it is called."""

    def __init__(self, rows: CellRows, strengths: int) -> None:
        self._parts = [rows.validation, *([] if rows.test is None else [rows.test])]
        self._strengths = strengths
        self._units = rows.outcome.scale, rows.outcome.center
        self.iterations: list[int] = []
        self._found: list[list[Tensor]] = [[] for _ in self._parts]

    def __call__(self, iteration: int, predictor: Predictor) -> bool:
        self.iterations.append(iteration)
        for part, found in zip(self._parts, self._found, strict=True):
            found.append(self._scores(predictor, part))
        return False

    @torch.no_grad()
    def _scores(self, predictor: Predictor, part: Part) -> Tensor:
        """Scores (S, strengths, n) of every member on the rows of its split."""
        splits, n, _ = part.x.shape
        members = splits * self._strengths
        was_training = predictor.training
        predictor.eval()
        blocks = []
        for x in torch.split(part.x, max(1, _EVALUATED_AT_ONCE // members), dim=1):
            # Of one split all members see the same rows, which need not be copied.
            alike = splits == 1
            rows = x.expand(members, -1, -1) if alike else x.repeat_interleave(self._strengths, 0)
            output, _ = predictor(rows)
            blocks.append(predictor.task.score(output)[..., 0])
        predictor.train(was_training)
        scale, center = self._units
        scores = torch.cat(blocks, 1) * scale + center
        return scores.view(splits, self._strengths, n)

    def of(self, part: int, split: int) -> Tensor:
        """Scores (T * strengths, n) of one split, check by check."""
        return torch.cat([scores[split] for scores in self._found[part]])


def _judged(
    cell: Cell,
    size: Size,
    rows: CellRows,
    collected: _Scores,
    strengths: Sequence[float],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    tables, picks = [], []
    for split, number in enumerate(size.split_numbers):
        table = pd.DataFrame(
            {
                "split": np.int8(number),
                "strength": np.tile(strengths, len(collected.iterations)),
                "iteration": np.repeat(np.array(collected.iterations, np.int32), len(strengths)),
            }
        )
        measured, thresholds = measures_of(
            cell, rows.validation, split, collected.of(0, split), None
        )
        table = table.join(measured)
        if rows.test is not None:
            scores = collected.of(1, split)
            on_test, _ = measures_of(cell, rows.test, split, scores, thresholds)
            table = table.join(on_test.add_prefix("test "))
            picked = _picked(cell, size, rows.test, split, table, scores, thresholds)
            picks.append(picked.assign(split=number))
        tables.append(table)
    columns = [*_PICK_COLUMNS]
    kept = pd.concat(picks, ignore_index=True) if picks else pd.DataFrame(columns=columns)
    return pd.concat(tables, ignore_index=True), kept


def measures_of(
    cell: Cell, part: Part, split: int, scores: Tensor, thresholds: Tensor | None
) -> tuple[pd.DataFrame, Tensor]:
    """Utility and measures of scores (E, n), and where decisions were cut (E,)."""
    held_out = part.held_out[split]
    criteria = Criteria("R2" if cell.scenario == "III" else "AUC", cell.measures)
    # The paper divides the rate of A = 1 by that of A = 0.
    references = {name: 0 for _, name, kind in cell.sensitive if kind == "discrete"}
    judge = Judge(held_out, criteria, scores.device, references)
    block = max(1, _JUDGED_AT_ONCE // scores.shape[1])
    blocks = torch.split(scores.double(), block)
    cuts = [None] * len(blocks) if thresholds is None else torch.split(thresholds, block)
    found = torch.cat([judge(s[..., None], cut) for s, cut in zip(blocks, cuts, strict=True)])
    values = found.numpy()
    table = pd.DataFrame({"utility": values[:, 0]})
    if cell.scenario == "III":
        table["R2"] = values[:, 0]
        table["utility"] = np.asarray(mae(scores.double().cpu().numpy(), held_out.y))
    for number, pair in enumerate(criteria.measures):
        table[measure_column(*pair)] = values[:, 2 + number]
    return table, found[:, 1]


_PICK_COLUMNS = (
    "metric",
    "attribute",
    "threshold",
    "split",
    "strength",
    "iteration",
    "utility",
    "value",
    "test_utility",
    "test_value",
    "low",
    "high",
)


def _picked(
    cell: Cell,
    size: Size,
    part: Part,
    split: int,
    table: pd.DataFrame,
    scores: Tensor,
    cuts: Tensor,
) -> pd.DataFrame:
    """What the validation rows pick at each threshold, measured on test rows with an interval."""
    held_out = part.held_out[split]
    found: list[dict[str, Any]] = []
    for metric, attribute in cell.measures:
        column = measure_column(metric, attribute)
        for threshold in cell.thresholds:
            utility = table["utility"]
            enough = utility <= threshold if cell.scenario == "III" else utility >= threshold
            candidates = table[enough & table[column].notna()]
            if candidates.empty:
                continue
            best = int(candidates.index.to_numpy()[candidates[column].to_numpy().argmin()])
            row = table.loc[best]
            is_discrete = held_out.table[attribute].kind == "discrete"
            (interval,) = bootstrap(
                [metric],
                scores[best].double()[None],
                [held_out.table[attribute]],
                held_out.y,
                draws=size.draws,
                threshold=None if cell.scenario == "III" else float(cuts[best]),
                outcome=held_out.outcome,
                references={attribute: 0} if is_discrete else None,
            )
            found.append(
                {
                    "metric": metric,
                    "attribute": attribute,
                    "threshold": threshold,
                    "split": split,
                    "strength": float(table["strength"].to_numpy()[best]),
                    "iteration": int(table["iteration"].to_numpy()[best]),
                    "utility": row["utility"],
                    "value": row[column],
                    "test_utility": row["test utility"],
                    "test_value": interval.value,
                    "low": interval.low,
                    "high": interval.high,
                }
            )
    return pd.DataFrame(found, columns=list(_PICK_COLUMNS))


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in sorted(options.items())
    }
