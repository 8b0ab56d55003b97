"""The scores of a user's model: out of fold, of new rows, and on rows that recognize the model."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from equipoise.errors import InputError, check_whole
from equipoise.estimators.fitting import Positions, Rows
from equipoise.storage import Contents
from equipoise.tables import take_rows

Floats = NDArray[np.float64]
Labels = NDArray[Any]
PREFIT = "prefit"
#: Probabilities are kept this far from 0 and 1, so that their logits are finite.
_CERTAIN = 1e-9
#: Where the scores of a classifier come from, the first that it has.
_SCORING = ("predict_proba", "decision_function")
#: Rows that recognize a model, and by how much its scores may differ with other versions.
_PROBE_ROWS = 8
_TOLERANCE = 1e-6
_AS_COLUMN = "pass its scores as X, with estimator=None"


def _first_has(method: str) -> Any:
    return available_if(lambda average: hasattr(average.estimators[0], method))


class AveragedModel(BaseEstimator):
    """The mean of fitted models of one kind: of their probabilities, scores or predictions.

    It stays as it is, as a model in scikit-learn's ``FrozenEstimator`` does: ``fit`` and ``clone``
    return it unchanged.

    Parameters
    ----------
    estimators : list of fitted classifiers with the same classes, or of fitted regressors.
    """

    def __init__(self, estimators: list[Any]) -> None:
        self.estimators = estimators

    @property
    def classes_(self) -> Labels:
        """The labels of a classifier."""
        found: Labels = self.estimators[0].classes_
        return found

    def fit(self, X: Any, y: Any = None) -> Self:
        """Return the average unchanged."""
        return self

    @_first_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return mean class probabilities, (n, classes)."""
        return self._mean("predict_proba", X)

    @_first_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """Return mean scores, (n,) or (n, classes)."""
        return self._mean("decision_function", X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest mean score, or the mean prediction, (n,)."""
        if is_regressor(self):
            return self._mean("predict", X)
        scores = self._mean(_scoring_of(self), X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def _mean(self, method: str, X: Any) -> Floats:
        found: Floats = np.mean([getattr(model, method)(X) for model in self.estimators], axis=0)
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Tags:
        return get_tags(self.estimators[0])


def _scoring_of(model: Any) -> str:
    """Return the method that gives the scores of a classifier."""
    return next(each for each in _SCORING if hasattr(model, each))


def check_model(estimator: Any, cv: Any) -> None:
    """Refuse a model without scores, or one that ``cv`` does not fit, before there are any rows."""
    name = type(estimator).__name__
    if not (is_classifier(estimator) or is_regressor(estimator)):
        raise InputError(
            "estimator must be a classifier or a regressor of scikit-learn's kind, got "
            f"{name}; {_AS_COLUMN}"
        )
    if is_classifier(estimator) and not any(hasattr(estimator, each) for each in _SCORING):
        raise InputError(
            f"estimator must have scores, from {' or '.join(_SCORING)}, got {name}, which has "
            "neither; take a model that has (SVC has with probability=True), or calibrate it with "
            "sklearn.calibration.CalibratedClassifierCV"
        )
    if isinstance(cv, str) and cv == PREFIT:
        try:
            check_is_fitted(estimator)
        except (NotFittedError, TypeError):
            raise InputError(
                f"estimator must be fitted for cv='prefit', got an unfitted {name}; call its fit, "
                "or leave cv out to have it fitted"
            ) from None
    elif isinstance(cv, int | np.integer):
        check_whole("cv", cv, least=2, of=" of folds")
    elif isinstance(cv, str) or not hasattr(cv, "split"):
        raise InputError(
            "cv must be a whole number of folds, a splitter such as "
            f"sklearn.model_selection.KFold, or 'prefit', got {cv!r}; for example cv=5"
        )


def out_of_fold(
    estimator: Any, cv: Any, ensemble: bool, rows: Rows, classes: Labels | None
) -> tuple[Floats, Any]:
    """Return the scores (n, s) of training rows and the model for new rows.

    A row's score comes from a model that did not see the row, unless the model was fitted before.
    The model for new rows is the average of those of the folds: how far apart the groups' scores
    are differs from fit to fit, and one more fit would differ from what the adjuster learned on.
    """
    if isinstance(cv, str):
        return scores_of(estimator, rows.X, classes), estimator
    if rows.weights is not None and not has_fit_parameter(estimator, "sample_weight"):
        raise InputError(
            f"sample_weight must be left out for an estimator whose fit does not take it, got "
            f"weights for {type(estimator).__name__}; take another estimator, or fit it yourself "
            "and pass cv='prefit'"
        )
    scores = np.empty((len(rows), len(score_names(classes))))
    models = []
    for train, test in _folds(cv, rows, classes):
        model = _fitted(estimator, rows, train)
        scores[test] = scores_of(model, take_rows(rows.X, test), classes)
        if ensemble:
            models.append(model)
    if ensemble:
        return scores, AveragedModel(models)
    return scores, _fitted(estimator, rows, np.arange(len(rows)))


def _folds(cv: Any, rows: Rows, classes: Labels | None) -> list[tuple[Positions, Positions]]:
    """Return the rows to fit and the rows to score of each fold, all checked."""
    if isinstance(cv, int | np.integer):
        units, most = "rows", len(rows)
        kind: Any = KFold if classes is None else StratifiedKFold
        if rows.groups is not None:
            units, most = "groups among training rows", len(np.unique(rows.groups))
            kind = GroupKFold if classes is None else StratifiedGroupKFold
        if cv > most:
            raise InputError(
                f"cv must be at most the number of {units}, {most}, got {cv}; lower it"
            )
        if classes is not None:
            labels, counts = np.unique(rows.y, return_counts=True)
            if counts.min() < 2:
                _refuse_fold(cv, labels.tolist()[counts.argmin()], "one of the folds")
            cv = min(cv, int(counts.max()))
        # Shuffled, since rows are often sorted; always in the same way.
        cv = kind(cv, shuffle=True, random_state=0)
    scored = np.zeros(len(rows), dtype=np.int64)
    try:
        parts = cv.split(rows.X, rows.y, rows.groups)
        found = [(np.asarray(train), np.asarray(test)) for train, test in parts]
        fitted_on = [rows.y[train] for train, _ in found]
        for _, test in found:
            scored[test] += 1
    except (ValueError, IndexError) as error:
        raise InputError(
            f"cv must split {len(rows)} rows by X, y and the groups of a frontier, got {cv!r}, "
            f"which does not ({error}); use cv=5, or give the number of each row's fold to "
            "sklearn.model_selection.PredefinedSplit"
        ) from None
    if classes is not None:
        for number, known in enumerate(fitted_on, start=1):
            for label in np.setdiff1d(classes, known).tolist():
                _refuse_fold(cv, label, f"fold {number}")
    if not (scored == 1).all():
        row = int((scored != 1).argmax())
        raise InputError(
            f"cv must score every row once, got {cv!r}, which scores row {row} {scored[row]} "
            "times; use cv=5, or a splitter such as sklearn.model_selection.KFold"
        )
    return found


def _refuse_fold(cv: Any, label: Any, fold: str) -> NoReturn:
    raise InputError(
        f"cv must leave rows of every class to fit in each fold, got {cv!r}, with no row of class "
        f"{label!r} to fit in {fold}; use fewer folds, or leave out or join classes with few rows"
    )


def _fitted(estimator: Any, rows: Rows, positions: Positions) -> Any:
    weights = {}
    if rows.weights is not None:  # of mean 1, near which the limits of most libraries are meant
        weights["sample_weight"] = rows.weights[positions] / rows.weights.mean()
    return clone(estimator).fit(take_rows(rows.X, positions), rows.y[positions], **weights)


def scores_of(model: Any, X: Any, classes: Labels | None) -> Floats:
    """Return the scores (n, s) of a fitted model, one column or one for each of 3+ classes.

    ``classes``: labels, of two the one to score last; None for a regressor.
    """
    if classes is None:
        found = np.asarray(model.predict(X), dtype=np.float64)
        return _checked(found.reshape(len(found), -1), model, 1)
    labels = np.asarray(model.classes_).tolist()
    if sorted(labels, key=str) != sorted(classes.tolist(), key=str):
        raise InputError(
            f"estimator must have the classes of y, {classes.tolist()}, got "
            f"{type(model).__name__} with {labels}; fit it on rows of all of them"
        )
    method = _scoring_of(model)
    found = np.asarray(getattr(model, method)(X), dtype=np.float64)
    places = [labels.index(label) for label in classes.tolist()]
    if method == "predict_proba":
        found = logit(np.clip(found, _CERTAIN, 1 - _CERTAIN))
    elif found.ndim == 1:
        found = np.column_stack([-found, found])
    found = _checked(found, model, len(labels))[:, places]
    return found[:, 1:] if len(places) == 2 else found


def _checked(scores: Floats, model: Any, columns: int) -> Floats:
    name = type(model).__name__
    if scores.shape[1] != columns:
        raise InputError(
            f"estimator must have {columns} scores for each row, got {scores.shape[1]} from {name}"
            "; set decision_function_shape='ovr' if it has that option"
        )
    if not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise InputError(
            f"estimator must give finite scores, got {scores[row, column]} from {name} in row "
            f"{row}; check that row"
        )
    return scores


def score_names(classes: Labels | None) -> list[str]:
    """Return the names of the columns of scores; "score" is an output of ONNX."""
    if classes is None or len(classes) == 2:
        return ["model_score"]
    return [f"model_score_{label}" for label in classes.tolist()]


def probe_of(model: Any, X: Any, classes: Labels | None, columns: list[str] | None) -> Contents:
    """Return the scores of a fitted model on a few rows, by which a file recognizes it.

    Their columns are those of training rows X, each shuffled on its own, so that no row is about a
    person. Frames are kept in the format of Arrow. One that has no such form, as with text and
    numbers in one column, leaves no trace but the names of its ``columns``.
    """
    some = take_rows(X, np.linspace(0, len(X) - 1, _PROBE_ROWS).astype(np.intp))
    shuffle = np.random.default_rng(0)
    document = {"library": "numpy", "columns": columns, "count": some.shape[1]}
    if isinstance(some, np.ndarray):
        rows = kept = shuffle.permuted(some, axis=0)
    else:
        document["library"] = nw.get_native_namespace(some).__name__
        try:
            table = nw.from_native(some, eager_only=True).to_arrow()
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return Contents(document, {})
        for place in range(table.num_columns):
            column = table.column(place).take(pa.array(shuffle.permutation(_PROBE_ROWS)))
            table = table.set_column(place, table.field(place), column)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        kept = np.frombuffer(sink.getvalue(), dtype=np.uint8)
        rows = _frame(table, document["library"])
    return Contents(document, {"rows": kept, "scores": scores_of(model, rows, classes)})


def check_probe(probe: Contents, model: Any, classes: Labels | None) -> None:
    """Refuse a model that gives the rows of `probe_of` other scores."""
    if not probe.arrays:
        return
    rule = "estimator must be the fitted model that the adjuster was fitted with, got"
    name, remedy = type(model).__name__, "pass estimator_ of the adjuster that was saved"
    rows, scores = probe.arrays["rows"], probe.arrays["scores"]
    if (library := probe.document["library"]) != "numpy":
        with pa.ipc.open_stream(pa.py_buffer(rows.tobytes())) as reader:
            rows = _frame(reader.read_all(), library)
    try:
        found = scores_of(model, rows, classes)
    except Exception as error:  # a user's model may raise anything
        raise InputError(f"{rule} {name}, which cannot score ({error}); {remedy}") from error
    if not np.allclose(found, scores, rtol=_TOLERANCE, atol=_TOLERANCE):
        most = np.abs(found - scores).max()
        raise InputError(f"{rule} {name}, whose scores differ by up to {most:.3g}; {remedy}")


def _frame(table: pa.Table, library: Any) -> Any:
    """Return a table as a frame of pandas, polars or pyarrow."""
    return nw.from_arrow(table, backend=library).to_native()
