"""FairClassifier, FairRegressor and FairEncoder: the estimators with a neural network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from equipoise.errors import InputError, check_choice, check_number, check_widths
from equipoise.estimators.base import Classifies, FairEstimator, Regresses
from equipoise.estimators.fitting import Outcome, learned_inputs, read_classes, read_numbers
from equipoise.methods import parse_method
from equipoise.networks import Embedding, NetworkFactory
from equipoise.notions import Notion
from equipoise.predictors.network import NetworkRecipe
from equipoise.storage import checked_target, write_atomically
from equipoise.storage.atomic import claim
from equipoise.storage.onnx import Graph, is_own_onnx, onnx_bytes
from equipoise.tables import FeatureEncoder, Scaling
from equipoise.training import OptimizerSettings, TrainingSettings

#: How every model of the paper is trained. The paper does not give the number of iterations.
PAPER_TRAINING: Mapping[str, Any] = {
    "method": "sbp",
    "divergence": "js",
    "scaling": "minmax",
    "embedding": "none",
    "normalization": "batch",
    "critic_normalization": "batch",
    "gradient_penalty": 0.0,
    "optimizer": "sgd",
    "learning_rate": 0.005,
    "critic_learning_rate": 0.005,
    "momentum": 0.2,
    "weight_decay": 0.0,
    "schedule": "constant",
    "iterations": 20_000,
    "batch_size": 300,
    "early_stopping": None,
}

#: ``batch_size="auto"`` cuts the rows into this many batches, of sizes within these limits. On few
#: rows, small batches keep a network from overfitting.
BATCHES, SMALLEST_BATCH, LARGEST_BATCH = 25, 64, 300

#: The strengths of the paper's curves, each with five seeds.
PAPER_STRENGTHS = (0.1, 0.3, 0.5, 0.7, 0.9)
PAPER_SEEDS = 5

#: A classifier of the paper.
PAPER_CLASSIFIER: Mapping[str, Any] = {
    **PAPER_TRAINING,
    "linear_path": False,
    "hidden": (64, 64, 64),
    "critic_hidden": (64, 64),
    "critic_steps": 1,
    "members": 1,
}

#: A regressor of the paper: a smaller network, and absolute error.
PAPER_REGRESSOR: Mapping[str, Any] = {
    **PAPER_TRAINING,
    "linear_path": False,
    "loss": "absolute",
    "hidden": (16, 16, 16),
    "critic_hidden": (16, 16),
    "critic_steps": 1,
    "members": 1,
}


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(FairEstimator):
    """Options of networks and their training; subclasses say what the outputs mean."""

    _paper_settings: ClassVar[Mapping[str, Any]] = PAPER_CLASSIFIER
    # An average of many helps most on few rows, where batches are small and each member is fast.
    _members_by_rows = ((5_000, 2), (2_500, 4), (0, 8))

    hidden: tuple[int, ...] = (64, 64, 64)
    scaling: Scaling = "rank"
    embedding: Embedding = "pieces"
    normalization: Literal["batch", "none"] = "none"
    critic_hidden: tuple[int, ...] = (64, 64)
    critic_steps: int = 1
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.2
    weight_decay: float = 2.0
    schedule: Literal["decay", "constant"] = "decay"
    iterations: int = 1500
    epochs: float | None = None
    batch_size: int | Literal["auto"] = "auto"
    early_stopping: int | None = 400
    device: str = "auto"

    @classmethod
    def as_in_paper(cls, **options: Any) -> Self:
        """Return a new estimator with the paper's network and training in place of the defaults.

        These are ordinary options, which ``get_params`` shows. ``options`` override the paper's:
        ``as_in_paper(strength=0.9, iterations=2000)``. Options of the paper that the method does
        not use keep their defaults.
        """
        method = parse_method(options.get("method", "sbp"))
        paper = {name: v for name, v in cls._paper_settings.items() if method.reads(name)}
        if options.get("network") is not None:  # it brings its own layers and normalization
            paper = {n: v for n, v in paper.items() if n not in ("hidden", "normalization")}
        return cls(**{**paper, **options})

    @property
    def family(self) -> str:
        """Name of the family of predictors."""
        return "network"

    def to_onnx(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator, with the encoding of its inputs, as an ONNX file.

        A model fitted on a frame has one input (rows,) for each column, by its name: float64 for
        numbers and booleans, NaN where missing; text for categories, "" where missing. A model
        fitted on an array has one input ``X`` of float64, (rows, columns). With
        ``sensitive_at_prediction`` every sensitive column is a further input by its name, or
        ``sensitive.NAME`` if a feature has the same name; all discrete ones are text. The graph
        cannot refuse what ``predict`` refuses: a missing number becomes the median, and an unknown
        category none. A classifier's outputs
        are ``label``, ``probabilities`` and ``score`` (as ``decision_function``), a regressor's is
        ``prediction``, an encoder's ``representation``. Needs ``pip install equipoise[onnx]``.

        Parameters
        ----------
        path : path of a file that ends in ``.onnx``
            An older file that equipoise wrote is replaced, and nothing else ever.
        """
        check_is_fitted(self)
        target = checked_target(path)
        if target.suffix != ".onnx":
            raise InputError(f"path must end in '.onnx', got '{target}'")
        foreign = None if is_own_onnx(target) else "is another kind of file"
        claim(target, "an ONNX model", foreign=foreign, overwrite=True, argument="path")
        inputs = learned_inputs(self)
        if inputs.columns and inputs.encoder is None:
            raise InputError(
                f"to_onnx cannot write a model of method={self.method!r}, which needs the "
                "sensitive features to predict; use save"
            )
        state = self.encoder_.state()
        content = onnx_bytes(
            state,
            None if inputs.encoder is None else inputs.encoder.state(),
            self.predictor_,
            self._add_answers,
            named=hasattr(self, "feature_names_in_") or not state.is_numeric,
            description=f"{type(self).__name__} fitted by equipoise",
        )
        write_atomically(target, content)

    @abstractmethod
    def _add_answers(self, graph: Graph, output: str) -> None:
        """Add the predictions to an ONNX graph, from the network's output (rows, o)."""

    def _new_encoder(self) -> FeatureEncoder:
        return FeatureEncoder(scaling=self.scaling)

    def _for_rows(self, training: TrainingSettings, n: int, trained_on: int) -> TrainingSettings:
        batch_size = training.batch_size
        if self.batch_size == "auto":
            batch_size = min(max(n // BATCHES, SMALLEST_BATCH), LARGEST_BATCH)
        iterations = training.iterations
        if self.epochs is not None:
            batches = max(1, trained_on // batch_size)
            iterations = min(iterations, ceil(self.epochs * batches))
        return replace(training, batch_size=batch_size, iterations=iterations)

    def _recipe(self) -> NetworkRecipe:
        if self.epochs is not None:
            rule, remedy = "must be positive", "; None sets no limit besides iterations"
            check_number("epochs", self.epochs, rule, lambda epochs: epochs > 0, remedy)
        if isinstance(self.batch_size, str):
            remedy = "; or pass a whole number of at least 2"
            check_choice("batch_size", self.batch_size, ("auto",), remedy)
        network = getattr(self, "network", None)  # not an option of an encoder
        if network is not None and not callable(network):
            raise InputError(
                "network must be a function (n_inputs, n_outputs) -> torch.nn.Module, "
                f"got {type(network).__name__}"
            )
        return NetworkRecipe(
            notion=Notion.parse(self.notion),
            method=self.method,
            density_ratio=self.density_ratio,
            # Weight decay keeps a predictor from memorizing its rows; a critic sees new pairs in
            # every batch.
            critic=self._critic(kind=self.optimizer, momentum=self.momentum, weight_decay=0.0),
            training=TrainingSettings(
                iterations=self.iterations,
                batch_size=LARGEST_BATCH if self.batch_size == "auto" else self.batch_size,
                optimizer=OptimizerSettings(
                    kind=self.optimizer,
                    learning_rate=self.learning_rate,
                    momentum=self.momentum,
                    weight_decay=self.weight_decay,
                ),
                schedule=self.schedule,
                patience=self.early_stopping,
            ),
            hidden=self.hidden,
            encoder_hidden=getattr(self, "encoder_hidden", ()),
            embedding=self.embedding,
            linear_path=getattr(self, "linear_path", False),  # not an option of an encoder
            normalization=self.normalization,
            network=network,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class FairClassifier(Classifies, NetworkEstimator):
    """A neural-network classifier whose score is trained to depend little on sensitive features.

    It minimizes (1 - strength) * cross-entropy + strength * penalty. The penalty measures how well
    a critic can tell the sensitive features from the score (Sohn, Song and Lin 2024). Sensitive
    features may be discrete, continuous or any mix of columns. They are needed to fit; only
    ``sensitive_at_prediction=True`` and ``method="scutari"`` need them to predict. Measure how much
    dependence remains: training promises nothing.

    Parameters
    ----------
    notion : "independence" or "separation"
        Independence (statistical parity): the score has the same distribution for every value of A.
        Separation (equalized odds): the same holds among rows of equal Y.
    strength : float in [0, 1)
        Weight of the penalty; 0 is plain training, and useful values are often above 0.8.
    method : str
        The fairness method, a key of ``equipoise.methods.METHODS``;
        ``equipoise.methods.capability_table()`` says what each can do.
    divergence : "js", "kl", "chi2", "hellinger" or "wasserstein"
        The divergence that the critic estimates; "wasserstein" needs ``gradient_penalty=10``.
    density_ratio : "auto", "counts", "network" or "none"
        The weight beta(a', y) under separation. "auto" counts rows if A and Y are discrete, and
        else trains a small network; "none" leaves the weight out (the paper's SBP_NW).
    hidden : tuple of int
        Widths of the predictor's [dense - batch norm - ReLU] layers; () is a linear model.
    network : callable (n_inputs, n_outputs) -> torch.nn.Module, optional
        A network of your own instead, on the scaled columns; n_outputs is 1 for two classes.
    scaling : "rank", "minmax", "standard" or "none"
        How numeric features are scaled.
    embedding : "pieces" or "none"
        "pieces" also cuts numeric features at frequent values and quantiles, so that the network
        can distinguish values that are close together; "none" only scales them.
    linear_path : bool
        Whether a network with strength 0 also has a linear model of its inputs. Training starts
        from logistic or ridge regression, which the layers correct.
    normalization : "batch" or "none"
        Batch normalization in the predictor, or none.
    critic_hidden, critic_steps, critic_normalization, gradient_penalty
        The critic: widths of its layers, updates per predictor update (T'), "none", "batch" or
        "spectral" normalization, and weight of the penalty on its gradient.
    optimizer, learning_rate, critic_learning_rate, momentum, weight_decay, schedule
        "adam" (with weight decay in the predictor) or "sgd" (with momentum). "decay" lowers the
        predictor's learning rate linearly to zero over the second half of training; "constant"
        does not.
    iterations : int
        Most predictor updates.
    epochs : float, optional
        Most passes over the training rows; training ends at the first of both limits.
    batch_size : int or "auto"
        Number of rows in an update; "auto" takes a 25th of the rows, at least 64 and at most 300.
    early_stopping : int, optional
        Each network sets a part of the rows aside and stops after this many iterations in which
        (1 - strength) * task + strength * penalty did not improve on them; it keeps its best
        weights. With a penalty it trains to the end and keeps its best weights: they settle only
        while the learning rate falls. None trains on all rows to the end.
    members : int or "auto"
        Number of networks that are trained; the score is their average. Each sets other rows aside.
        "auto" trains eight; four from 2 500 rows on, and two from 5 000 rows on.
    sensitive_types : mapping of column name to "discrete" or "continuous", optional
        Overrides how sensitive columns are typed; ``sensitive_`` tells how they were.
    missing_sensitive : "error" or "skip"
        "skip" uses rows with a missing sensitive value for the task, but not for the penalty.
    sensitive_at_prediction : bool
        Whether the score may see the sensitive features. ``predict`` and its kin then need them.
        Law or policy may forbid it.
    random_state : int, RandomState or None
        The same integer gives the same weights, bit for bit on the same CPU with the same number of
        threads and the same versions.
    device : "auto", "cpu", "cuda", ...
        Where to train.
    n_jobs : int, optional
        Number of threads that train parts of the members on a CPU; -1 is all cores. By default it
        is the number of threads of torch (``OMP_NUM_THREADS``), at most the cores that this process
        may use. Results are the same up to rounding.
    verbose : 0 or 1
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : the labels.
    health_ : whether the critic collapsed, the score became constant or the loss was not finite;
        for a model from a frontier also whether it overfits.
    history_ : task loss and penalty over the iterations.
    sensitive_ : how each sensitive column was typed, as text.
    encoder_, predictor_ : the fitted feature encoding and network.

    Examples
    --------
    >>> from equipoise import FairClassifier, load_dataset
    >>> data = load_dataset("synthetic")
    >>> model = FairClassifier(strength=0.9, iterations=200, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.A)
    >>> model.predict_proba(data.X).shape == (len(data.X), 2)
    True
    """

    members: int | Literal["auto"] = "auto"
    linear_path: bool = True
    network: NetworkFactory | None = None

    def _add_answers(self, graph: Graph, output: str) -> None:
        add_classes(graph, output, self.classes_)


@dataclass(kw_only=True, eq=False, repr=False)
class FairRegressor(Regresses, NetworkEstimator):
    """A neural-network regressor whose prediction is trained to depend little on A.

    Like :class:`FairClassifier`, for a continuous outcome. The network is trained on standardized
    Y, so ``strength`` means the same for any units of Y.

    Parameters
    ----------
    loss : "squared", "absolute" or "huber"
        Task loss: squared error, absolute error (the paper's), or Huber's loss with its threshold
        at one standard deviation of Y. ``health_`` and frontiers measure utility by R2, and with
        "absolute" by the share of the absolute error explained (D2 absolute error).
    notion, strength, method, divergence, density_ratio, hidden, network, scaling, embedding
    linear_path, normalization, critic_hidden, critic_steps, critic_normalization, gradient_penalty
    optimizer, learning_rate, critic_learning_rate, momentum, weight_decay, schedule, iterations
    epochs, batch_size, early_stopping, members, sensitive_types, missing_sensitive
    sensitive_at_prediction, random_state, device, n_jobs, verbose
        All as for :class:`FairClassifier`.

    Examples
    --------
    >>> from equipoise import FairRegressor, load_dataset
    >>> data = load_dataset("crime")
    >>> model = FairRegressor(strength=0.5, iterations=200, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.A)
    >>> model.predict(data.X).shape == (len(data.X),)
    True
    """

    _paper_settings = PAPER_REGRESSOR

    loss: Literal["squared", "absolute", "huber"] = "squared"
    members: int | Literal["auto"] = "auto"
    linear_path: bool = True
    network: NetworkFactory | None = None

    def _add_answers(self, graph: Graph, output: str) -> None:
        add_number(graph, output, self.center_, self.scale_)


@dataclass(kw_only=True, eq=False, repr=False)
class FairEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NetworkEstimator):
    """A transformer whose output predicts Y but reveals little about A.

    It trains an encoder and a head that predicts Y, with the penalty on the encoder's output
    instead of the score (Sohn, Song and Lin 2024, section 3.2). ``transform`` returns that output,
    on which you can train any model.

    Parameters
    ----------
    task : "classification" or "regression"
        What Y is; regression uses the squared error.
    encoder_hidden : tuple of int
        Widths of the encoder's [dense - batch norm - ReLU] layers; the last is the number of
        columns ``transform`` returns.
    hidden : tuple of int
        Widths of the head's layers.
    critic_steps : int
        Critic updates per predictor update; a representation needs more of them than a score.
    notion, strength, method, divergence, density_ratio, scaling, embedding, normalization
    critic_hidden, critic_normalization, gradient_penalty, optimizer, learning_rate
    critic_learning_rate, momentum, weight_decay, schedule, iterations, epochs, batch_size
    early_stopping, sensitive_types, missing_sensitive, sensitive_at_prediction, random_state
    device, n_jobs, verbose
        All as for :class:`FairClassifier`.

    Examples
    --------
    >>> from equipoise import FairEncoder, load_dataset
    >>> data = load_dataset("synthetic")
    >>> encoder = FairEncoder(strength=0.9, encoder_hidden=(8,), iterations=50, random_state=0)
    >>> encoder = encoder.fit(data.X, data.y, sensitive_features=data.A)
    >>> encoder.transform(data.X).shape == (len(data.X), 8)
    True
    """

    # `fit_transform` needs one answer for both: what `fit` requests. It passes them on itself.
    __metadata_request__transform: ClassVar = {"sensitive_features": UNUSED}
    # The paper's tables have no encoder, so its widths stay at their defaults.
    _paper_settings = PAPER_TRAINING

    task: Literal["classification", "regression"] = "classification"
    encoder_hidden: tuple[int, ...] = (64,)
    hidden: tuple[int, ...] = (64, 64)
    normalization: Literal["batch", "none"] = "batch"
    critic_steps: int = 5

    def _recipe(self) -> NetworkRecipe:
        check_choice("task", self.task, ("classification", "regression"))
        if not check_widths("encoder_hidden", self.encoder_hidden):
            raise InputError("encoder_hidden must name at least one width, got ()")
        return super()._recipe()

    def transform(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return the representation of each row, (n, encoder_hidden[-1])."""
        _, representation = self._evaluate(X, sensitive_features)
        return representation

    def fit_transform(self, X: Any, y: Any, **arguments: Any) -> NDArray[np.float64]:
        """Fit with the ``arguments`` of `fit`, and return the representation of the same rows."""
        attributes = arguments.get("sensitive_features") if self.sensitive_at_prediction else None
        return self.fit(X, y, **arguments).transform(X, sensitive_features=attributes)

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return read_classes(y) if self.task == "classification" else read_numbers(y, weights)

    def _add_answers(self, graph: Graph, output: str) -> None:
        graph.output("representation", output, np.float64, self.encoder_hidden[-1])

    @property
    def _n_features_out(self) -> int:
        return self.encoder_hidden[-1]


def add_classes(graph: Graph, output: str, classes: NDArray[Any]) -> None:
    """Add the outputs of a classifier to an ONNX graph."""
    # ONNX has int64, float64, booleans, and text as objects.
    labels = np.array(classes.tolist())
    labels = labels.astype(object) if labels.dtype.kind == "U" else labels
    count = len(labels)
    if count == 2:
        score = graph.add("Squeeze", output, graph.constant(np.array([1])))
        positive = graph.add("Greater", score, graph.constant(np.array(0.0)))
        chosen = graph.cast(positive, np.int64)
        both = graph.add("Concat", graph.add("Neg", output), output, axis=1)
        probabilities = graph.add("Sigmoid", both)
    else:
        score = output
        chosen = graph.add("ArgMax", score, axis=1, keepdims=0)
        probabilities = graph.add("Softmax", score, axis=1)
    label = graph.add("Gather", graph.constant(labels), chosen)
    graph.output("label", label, labels.dtype.type)
    graph.output("probabilities", probabilities, np.float64, count)
    graph.output("score", score, np.float64, None if count == 2 else count)


def add_number(graph: Graph, output: str, center: float, scale: float) -> None:
    """Add the output of a regressor to an ONNX graph."""
    standard = graph.add("Squeeze", output, graph.constant(np.array([1])))
    scaled = graph.add("Mul", standard, graph.constant(np.array(scale)))
    prediction = graph.add("Add", scaled, graph.constant(np.array(center)))
    graph.output("prediction", prediction, np.float64)
