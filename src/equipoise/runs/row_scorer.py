"""Score the rows of one frame as a file has them; say of each row that has no score why."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from equipoise.errors import InputError
from equipoise.estimators import Classifies, Regresses
from equipoise.estimators.attributes import learned_inputs
from equipoise.files.expected import as_expected, shown
from equipoise.files.roles import check_columns, nearest
from equipoise.files.writer import PROBLEM
from equipoise.runs.score_tally import ScoreTally
from equipoise.tables import EncoderState, TreeEncoderState
from equipoise.tables.attribute_inputs import Learned
from equipoise.tables.columns import Family, whole

#: Rows that are scored at a time: hidden layers of a network need far more room than the rows.
_ROWS_AT_ONCE = 8_192


@dataclass(frozen=True, eq=False)
class RowScorer:
    """A fitted model, what it expects of a file, and what is written for a row."""

    model: Classifies | Regresses
    state: EncoderState | TreeEncoderState
    attributes: dict[str, Family]
    learned: tuple[Learned, ...]
    outputs: tuple[str, ...]
    threshold: float | None

    @classmethod
    def of(cls, model: Any, threshold: float | None) -> RowScorer:
        """Look at what a fitted model expects; refuse one that can not score files."""
        if not isinstance(model, Classifies | Regresses):
            raise InputError(
                "model must be a fair classifier or regressor, of networks or of boosted trees, "
                f"got {type(model).__name__}"
            )
        check_is_fitted(model)
        if threshold is not None and not np.isfinite(threshold):
            raise InputError(f"threshold must be a finite number, got {threshold}")
        state = model.encoder_.state()
        if not hasattr(model, "feature_names_in_"):
            raise InputError(
                "model must have been fitted on a frame to score a file, got one fitted on an "
                "array, which does not know its columns by name; fit it on a DataFrame"
            )
        outputs: tuple[str, ...] = ("score",)
        if isinstance(model, Classifies) and len(model.classes_) > 2:
            outputs = tuple(f"score_{label}" for label in model.classes_)
            if threshold is not None:
                raise InputError(
                    f"threshold must be left out for {len(outputs)} classes, got {threshold}; the "
                    "scores of all classes are written"
                )
        learned = learned_inputs(model).columns
        attributes = {column[0]: _attribute_family(column) for column in learned}
        return cls(model, state, attributes, learned, outputs, threshold)

    @property
    def names(self) -> list[str]:
        """Columns of the file that the model reads."""
        features = list(self.state.families)
        return [*features, *(name for name in self.attributes if name not in features)]

    def check_columns(self, names: Sequence[str], keep: Sequence[str]) -> None:
        """Refuse a file without a column that is needed, and id columns named as outputs are."""
        check_columns("id", keep, names)
        written = [*self.outputs, *(["decision"] if self.threshold is not None else []), PROBLEM]
        taken = [name for name in keep if name in written]
        if taken:
            raise InputError(
                f"id must not name a column {taken[0]!r}, which is written here; rename it in the "
                "data"
            )
        known = set(names)
        absent = [name for name in self.names if name not in known]
        if absent:
            listed = ", ".join(map(repr, absent[:5])) + (", ..." if len(absent) > 5 else "")
            raise InputError(
                f"the data must have the {len(self.names)} columns that the model reads, but "
                f"{listed} {'is' if len(absent) == 1 else 'are'} missing; "
                f"{nearest(absent[0], names)}"
            )

    def score(self, frame: pd.DataFrame, tally: ScoreTally) -> dict[str, pd.Series[Any]]:
        """Return what is written for the rows of a frame, by column."""
        reasons: dict[int, list[str]] = {}
        features = self._expected(frame, self.state.families, reasons)
        attributes = self._expected(frame, self.attributes, reasons)
        self._check_attributes(attributes, reasons)
        usable = np.setdiff1d(np.arange(len(frame)), np.array(sorted(reasons), dtype=np.int64))
        scores = np.full((len(frame), len(self.outputs)), np.nan)
        for start in range(0, len(usable), _ROWS_AT_ONCE):
            part = usable[start : start + _ROWS_AT_ONCE]
            self._fill(scores, part, features, attributes, reasons)
        tally.count(features[np.isfinite(scores).all(axis=1)])
        return self._written(scores, reasons)

    def _written(
        self, scores: NDArray[np.float64], reasons: dict[int, list[str]]
    ) -> dict[str, pd.Series[Any]]:
        columns: dict[str, pd.Series[Any]] = {
            name: pd.Series(scores[:, place]) for place, name in enumerate(self.outputs)
        }
        why = np.full(len(scores), None, dtype=object)
        for row, texts in reasons.items():
            why[row] = "; ".join(texts)
        known = pd.Series(why, dtype="str").isna()
        if self.threshold is not None:
            above = pd.Series(scores[:, 0] > self.threshold).astype("Int8")
            columns["decision"] = above.where(known)
        columns[PROBLEM] = pd.Series(why, dtype="str")
        return columns

    def _expected(
        self, frame: pd.DataFrame, families: Mapping[str, Family], reasons: dict[int, list[str]]
    ) -> pd.DataFrame:
        columns = {}
        for name, family in families.items():
            read = as_expected(frame[name], name, family)
            columns[name] = read.values
            for row, why in read.reasons.items():
                reasons.setdefault(row, []).append(why)
        return pd.DataFrame(columns, index=range(len(frame)))

    def _check_attributes(self, attributes: pd.DataFrame, reasons: dict[int, list[str]]) -> None:
        """A method that needs sensitive features to predict knows nothing of others."""
        for name, kind, categories, *_ in self.learned:
            values = attributes[name]
            missing = np.flatnonzero(values.isna())
            for row in missing:
                reasons.setdefault(int(row), [f"sensitive {name!r} must be known to predict"])
            if kind == "discrete":
                unseen = np.flatnonzero(values.notna() & ~values.isin(list(categories)))
                rule = f"sensitive {name!r} must be a category seen at fit, got "
                for row in unseen:
                    reasons.setdefault(int(row), []).append(rule + shown(_level(values[row])))

    def _fill(
        self,
        scores: NDArray[np.float64],
        rows: NDArray[np.int64],
        features: pd.DataFrame,
        attributes: pd.DataFrame,
        reasons: dict[int, list[str]],
    ) -> None:
        """Score these rows; halve them where the model refuses, until the row is found."""
        given = attributes.iloc[rows] if self.attributes else None
        try:
            found = self._predict(features.iloc[rows], given)
        except InputError as error:
            if len(rows) == 1:
                reasons[int(rows[0])] = [str(error)]
                return
            for half in np.array_split(rows, 2):
                self._fill(scores, half, features, attributes, reasons)
            return
        finite = np.isfinite(found).all(axis=1)
        scores[rows[finite]] = found[finite]
        for row, score in zip(rows[~finite], found[~finite], strict=True):
            worst = score[~np.isfinite(score)][0]
            reasons[int(row)] = [
                f"the score of the model must be a finite number, got {worst}; a value of this row "
                "may lie far from all that it was trained on"
            ]

    def _predict(self, X: pd.DataFrame, attributes: pd.DataFrame | None) -> NDArray[np.float64]:
        with warnings.catch_warnings():
            # What these warn of, `ScoreTally` counts over the whole file.
            warnings.filterwarnings("ignore", "X has (missing values|categories)", UserWarning)
            if isinstance(self.model, Regresses):
                return self.model.predict(X, sensitive_features=attributes)[:, None]
            probabilities = self.model.predict_proba(X, sensitive_features=attributes)
            return probabilities if len(self.outputs) > 1 else probabilities[:, 1:]


def _attribute_family(learned: Learned) -> Family:
    _, kind, categories, *_ = learned
    if kind == "continuous" or all(isinstance(each, int | float) for each in categories):
        return "boolean" if all(isinstance(each, bool) for each in categories or (1,)) else "number"
    return "text"


def _level(value: Any) -> Any:
    """A category by its own name: 7, not 7.0."""
    return whole(float(value)) if isinstance(value, float) else value
