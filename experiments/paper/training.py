"""Train cells: sizes and settings, rows and splits, one run for all members, and its judging.

Read it from top to bottom. A cell's estimator says how its members are trained. Its data set is
split five times, and the training rows of all splits lie side by side in one table, so that members
of different splits train together. Every snapshot is judged on rows that do not train.
`run_missing` does all of that for the cells that have no result yet.
"""

from __future__ import annotations

import multiprocessing
import platform
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.datasets import Dataset, load_dataset
from equipoise.errors import ConvergenceWarning, DataNotFound, InputError
from equipoise.estimators import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairEncoder,
    FairRegressor,
)
from equipoise.estimators.fitting import (
    Fitting,
    Outcome,
    read_classes,
    read_device,
    read_numbers,
    training_data,
)
from equipoise.estimators.network import PAPER_STRENGTHS, PAPER_TRAINING
from equipoise.frontier import FairFrontier
from equipoise.frontier.judging import Criteria, HeldOut, Judge, samples_of
from equipoise.inference import bootstrap
from equipoise.methods import parse_method
from equipoise.metrics import mae
from equipoise.predictors import Inputs
from equipoise.tables import FeatureEncoder, SensitiveTable
from equipoise.training import Member, Predictor, RowSet, Supervision, Trained, TrainingData
from experiments.paper import variants  # noqa: F401, registers methods
from experiments.paper.plan import Cell, Protocol, training_of
from experiments.paper.results import CellResult, measure_column, read_results, write_result

#: Crime is trained for 1 000 epochs of five batches in the released program; the paper does not say
#: for how long anything else is trained, 20 000 iterations (`PAPER_TRAINING`) is our choice.
ITERATIONS_OF_CRIME = 5_000
#: What serves the paper's protocol, which takes the smallest of all values that a run passes: many
#: snapshots at a constant rate, and the critic of the paper's program. The honest protocol gets the
#: library's defaults as they are.
PASSING_MANY: Mapping[str, Any] = MappingProxyType(
    {
        "critic_normalization": "batch",
        "schedule": "constant",
        "iterations": PAPER_TRAINING["iterations"],
    }
)

Estimator = (
    FairClassifier | FairRegressor | FairBoostingClassifier | FairBoostingRegressor | FairEncoder
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a reproduction is; None leaves what the cell's settings say.

    splits: replications, each with rows and seed of its own; first: number of the first of them.
    rows: the most rows of a data set, drawn at random. draws: of bootstrap intervals under the
    honest protocol. pace: by what the paper's learning rate is multiplied, so that few iterations
    of plain descent get somewhere.
    """

    name: Literal["full", "quick"]
    splits: int
    strengths: tuple[float, ...] | None
    iterations: int | None
    evaluate_every: int
    rows: int | None
    draws: int
    pace: float = 1.0
    first: int = 0

    @property
    def split_numbers(self) -> range:
        """Numbers of the splits, which are their seeds, too."""
        return range(self.first, self.first + self.splits)


FULL = Size(
    name="full",
    splits=5,
    strengths=None,
    iterations=None,
    evaluate_every=100,
    rows=None,
    draws=200,
)
#: Two minutes a table on two cores: shows the shape, not the numbers.
QUICK = Size(
    name="quick",
    splits=2,
    strengths=(0.1, 0.5, 0.9),
    iterations=100,
    evaluate_every=20,
    rows=6_000,
    draws=50,
    pace=10.0,
)


def estimator_of(cell: Cell, size: Size, device: str) -> Estimator:
    """The estimator whose options all members of a cell share."""
    if cell.settings == "boosting":
        return _boosting_of(cell, size)
    kinds: dict[tuple[str, str], type[Estimator]] = {
        ("III", "score"): FairRegressor,
        ("I", "score"): FairClassifier,
        ("II", "score"): FairClassifier,
        ("II", "representation"): FairEncoder,
    }
    if (cell.scenario, cell.place) not in kinds:
        raise InputError(
            f"a penalty on the {cell.place} is planned for no cell of Scenario {cell.scenario}, "
            f"got {cell.key}"
        )
    kind = kinds[cell.scenario, cell.place]
    options: dict[str, Any] = {
        "method": cell.method,
        "notion": cell.notion,
        "device": device,
        "random_state": 0,
    }
    as_published = cell.settings == "paper"
    if not as_published and cell.protocol == "paper":
        options |= PASSING_MANY
    if not as_published and kind is FairRegressor:
        # Table 12 is about the absolute error, so that is what is trained.
        options["loss"] = "absolute"
    if cell.scenario == "III" and (as_published or cell.protocol == "paper"):
        options["iterations"] = ITERATIONS_OF_CRIME
    if size.iterations is not None:
        options["iterations"] = size.iterations
    if as_published:
        options["learning_rate"] = size.pace * PAPER_TRAINING["learning_rate"]
        if parse_method(cell.method).reads("critic_learning_rate"):
            options["critic_learning_rate"] = options["learning_rate"]
        return kind.as_in_paper(**options)
    return kind(**options)


def _boosting_of(cell: Cell, size: Size) -> FairBoostingClassifier | FairBoostingRegressor:
    """Boosted trees as they are by default, under both protocols."""
    options: dict[str, Any] = {"method": cell.method, "notion": cell.notion, "random_state": 0}
    if size.iterations is not None:
        options["rounds"] = size.iterations
    return (
        FairBoostingRegressor(**options)
        if cell.scenario == "III"
        else FairBoostingClassifier(**options)
    )


def strengths_of(cell: Cell, size: Size) -> tuple[float, ...]:
    """Strengths of the cell's members."""
    if size.strengths is not None:
        return size.strengths
    if cell.settings == "paper":
        return PAPER_STRENGTHS
    defaults: tuple[float, ...] = FairFrontier().strengths
    return defaults


Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of the rows that train, pick and report (none under the paper's protocol)."""

    train: Positions
    validation: Positions
    test: Positions


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that do not train, of all splits: encoded (S, n, p), and what they are judged by."""

    x: Tensor
    held_out: tuple[HeldOut, ...]


@dataclass(frozen=True, eq=False)
class CellRows:
    """Everything a cell trains and is judged on.

    data: training rows of all splits. ranges: rows of each split among them. trained_on: the table
    behind ``data.attribute``. outcome: of the training rows. validation, test: None for no test.
    """

    data: TrainingData
    ranges: tuple[tuple[int, ...], ...]
    trained_on: SensitiveTable
    outcome: Outcome
    validation: Part
    test: Part | None


def split_rows(n: int, protocol: Protocol, number: int) -> Split:
    """Split n rows at random: four fifths and one, or three fifths, one and one.

    >>> split = split_rows(10, "honest", 0)
    >>> len(split.train), len(split.validation), len(split.test)
    (6, 2, 2)
    """
    order = np.random.default_rng([number, n]).permutation(n)
    fifth = n // 5
    test = fifth if protocol == "honest" else 0
    return Split(order[fifth + test :], order[:fifth], order[fifth : fifth + test])


def cell_rows(cell: Cell, size: Size, device: torch.device) -> CellRows:
    """Load, split and encode the rows of a cell."""
    data = load_dataset(cell.dataset, preprocessing="paper")
    chosen = np.arange(len(data.y))
    if size.rows is not None and len(chosen) > size.rows:
        chosen = np.random.default_rng(0).permutation(len(chosen))[: size.rows]
    splits = [split_rows(len(chosen), cell.protocol, number) for number in size.split_numbers]
    table = _sensitive(cell, data, chosen)
    y = data.y.to_numpy()[chosen]
    frame = data.X.iloc[chosen]
    outcome = _outcome(cell, np.concatenate([y[split.train] for split in splits]))
    train, validation, test = _encoded(cell, frame, splits)
    trained_on = table.take(np.concatenate([split.train for split in splits]))

    def part(name: str, x: list[NDArray[Any]], rows: Sequence[Positions]) -> Part:
        held_out = tuple(HeldOut.read(name, y[r], table.take(r), None, outcome) for r in rows)
        return Part(torch.from_numpy(np.stack(x)).to(device), held_out)

    each = len(splits[0].train)
    return CellRows(
        data=training_data(np.concatenate(train), outcome, trained_on, None).to(device),
        ranges=tuple(tuple(range(k * each, (k + 1) * each)) for k in range(len(splits))),
        trained_on=trained_on,
        outcome=outcome,
        validation=part("validation", validation, [split.validation for split in splits]),
        test=part("test", test, [split.test for split in splits])
        if cell.protocol == "honest"
        else None,
    )


def _sensitive(cell: Cell, data: Dataset, chosen: Positions) -> SensitiveTable:
    """The scenario's sensitive columns, under the paper's names."""
    columns = {name: data.A[column].to_numpy()[chosen] for column, name, _ in cell.sensitive}
    return SensitiveTable.from_data(columns, types={name: kind for _, name, kind in cell.sensitive})


def _outcome(cell: Cell, y: NDArray[Any]) -> Outcome:
    if cell.scenario != "III":
        return read_classes(y)
    if cell.settings != "paper":
        return read_numbers(y, own_units=cell.settings == "boosting")
    # In the paper's own units, on which the balance of loss and penalty depends.
    values = y.astype(np.float32)
    return Outcome(values, values[:, None])


def _encoded(cell: Cell, frame: Any, splits: Sequence[Split]) -> tuple[list[NDArray[Any]], ...]:
    """Features of training, validation and test rows, each by split."""
    parts: tuple[list[NDArray[Any]], ...] = ([], [], [])
    for split in splits:
        rows = split.train, split.validation, split.test
        if cell.settings == "boosting":
            # Every column is numeric here, and trees read numbers as they are.
            x = frame.to_numpy(np.float64)
            encoded = [x[r] for r in rows]
        elif cell.settings == "paper":
            # The authors scaled all rows before they split; the loader has done so.
            x = frame.to_numpy(np.float32)
            encoded = [x[r] for r in rows]
        else:
            encoder = FeatureEncoder(scaling="rank").fit(frame.iloc[split.train])
            encoded = [
                encoder.transform(frame.iloc[r]) if len(r) else np.empty((0, 0), np.float32)
                for r in rows
            ]
        for kept, found in zip(parts, encoded, strict=True):
            kept.append(found)
    return parts


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
        Member(strength, number, RowSet(own))
        for number, own in zip(size.split_numbers, rows.ranges, strict=True)
        for strength in strengths
    ]
    collected = _Scores(rows, len(strengths))
    prepared = time.perf_counter()
    trained = train_members(
        estimator, rows, members, on_check=collected, check_every=size.evaluate_every
    )
    if where.type == "cuda":
        torch.cuda.synchronize(where)
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


def train_members(
    estimator: Estimator,
    rows: CellRows,
    members: Sequence[Member],
    *,
    on_check: Callable[[int, Predictor], bool] | None = None,
    check_every: int | None = None,
    supervision: Supervision | None = None,
) -> Trained:
    """Train members together, as the estimator's options say."""
    recipe = Fitting(estimator).recipe
    if check_every is not None:
        recipe = replace(recipe, training=replace(recipe.training, check_every=check_every))
    loss = estimator.get_params().get("loss")
    inputs = Inputs(
        task="binary" if loss is None else loss,
        n_outputs=rows.outcome.n_outputs,
    )
    trained = recipe.train(rows.data, members, inputs, on_check=on_check, supervision=supervision)
    if trained.interrupted_at:
        # A shortened run must not pass for a finished one.
        raise KeyboardInterrupt
    return trained


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
    samples = samples_of(held_out, scores.device)
    for name, reference in references.items():
        samples[name] = samples[name].scored.against(held_out.table[name], reference)
    judge = Judge(samples, criteria)
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


#: Is told of every cell that ended: its key, seconds of training, and why it was left out ("" for
#: a cell that is there).
Told = Callable[[str, float, str], None]


def run_missing(
    cells: Sequence[Cell],
    size: Size,
    folder: Path,
    *,
    device: str = "auto",
    workers: int = 1,
    told: Told | None = None,
) -> None:
    """Train the cells that have no result in ``folder`` yet, and write what they gave.

    A killed run is begun again by the same call: finished cells are not trained again. A data set
    that is not to be had leaves its cells out. Results of another size are refused, not mixed.
    """
    finished = read_results(folder, cells)
    for result in finished.values():
        found = result.record["size"]["name"]
        if found != size.name:
            raise InputError(
                f"'{folder}' holds results of a {found} run, got a {size.name} one; choose another "
                "folder, or the same size"
            )
    groups: dict[Cell, list[Cell]] = {}
    for cell in cells:
        if cell not in finished:
            groups.setdefault(training_of(cell), []).append(cell)
    told = told or (lambda key, seconds, problem: None)
    if workers == 1:
        for group in groups.values():
            _tell(told, group, *_run_group(group, size, folder, device))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread) as pool:
        running = {
            pool.submit(_run_group, group, size, folder, device): group for group in groups.values()
        }
        try:
            for done in as_completed(running):
                _tell(told, running[done], *done.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_thread() -> None:
    torch.set_num_threads(1)


def _run_group(group: Sequence[Cell], size: Size, folder: Path, device: str) -> tuple[float, str]:
    """Train and write; return seconds of training and what kept it from that."""
    with warnings.catch_warnings():
        # Members that stop are counted in the record, and health is not what tables are about.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            results = run_cells(group, size, device=device)
        except DataNotFound as missing:
            return 0.0, str(missing)
    for result in results:
        write_result(folder, result)
    return float(results[0].record["seconds"]["train"]), ""


def _tell(told: Told, group: Sequence[Cell], seconds: float, problem: str) -> None:
    for cell in group:
        told(cell.key, seconds, problem)
