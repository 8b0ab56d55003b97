"""FairClassifier, FairRegressor and FairEncoder: the estimators with a neural network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from equipoise.errors import InputError, check_choice, check_widths
from equipoise.estimators.base import Classifies, FairEstimator, Regresses
from equipoise.estimators.fitting import Outcome, learned_inputs, read_classes, read_numbers
from equipoise.methods import parse_method
from equipoise.networks import Embedding, NetworkFactory
from equipoise.notions import Notion
from equipoise.predictors.network import NetworkRecipe
from equipoise.storage import checked_target, write_atomically
from equipoise.storage.onnx import Graph, onnx_bytes
from equipoise.tables import FeatureEncoder, Scaling
from equipoise.training import OptimizerSettings, TrainingSettings

#: How every model of the paper is trained. The number of iterations is ours: the paper has none.
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
}

#: The strengths of the paper's curves, each with five seeds.
PAPER_STRENGTHS = (0.1, 0.3, 0.5, 0.7, 0.9)

#: A classifier of the paper.
PAPER_CLASSIFIER: Mapping[str, Any] = {
    **PAPER_TRAINING,
    "hidden": (64, 64, 64),
    "critic_hidden": (64, 64),
    "critic_steps": 1,
}

#: A regressor of the paper: a smaller network, and absolute error.
PAPER_REGRESSOR: Mapping[str, Any] = {
    **PAPER_TRAINING,
    "loss": "absolute",
    "hidden": (16, 16, 16),
    "critic_hidden": (16, 16),
    "critic_steps": 1,
}


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(FairEstimator):
    """Options of networks and their training; subclasses say what a network's outputs mean."""

    _paper_settings: ClassVar[Mapping[str, Any]] = PAPER_CLASSIFIER

    hidden: tuple[int, ...] = (64, 64, 64)
    scaling: Scaling = "rank"
    embedding: Embedding = "pieces"
    normalization: Literal["batch", "none"] = "none"
    critic_hidden: tuple[int, ...] = (64, 64)
    critic_steps: int = 1
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.2
    weight_decay: float = 1.0
    schedule: Literal["decay", "constant"] = "decay"
    iterations: int = 1500
    batch_size: int = 300
    device: str = "auto"

    @classmethod
    def as_in_paper(cls, **options: Any) -> Self:
        """Return a new estimator with the paper's network and training in place of the defaults.

        These are ordinary options, which ``get_params`` shows. ``options`` are set as well, and
        win over the paper's where both name one: ``as_in_paper(strength=0.9, iterations=2000)``.
        Options of the paper that the method has no use for keep their defaults.
        """
        method = parse_method(options.get("method", "sbp"))
        paper = {name: v for name, v in cls._paper_settings.items() if method.reads(name)}
        if options.get("network") is not None:  # it has layers and normalization of its own
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
        fitted on an array has one input ``X`` of float64, (rows, columns). A classifier's outputs
        are ``label``, ``probabilities`` and ``score`` (as ``decision_function``), a regressor's is
        ``prediction``, an encoder's ``representation``. Needs ``pip install equipoise[onnx]``.

        Parameters
        ----------
        path : path of a file that ends in ``.onnx``
            Replaced if it is there.
        """
        check_is_fitted(self)
        target = checked_target(path)
        if target.suffix != ".onnx":
            raise InputError(f"path must end in '.onnx', got '{target}'")
        if learned_inputs(self).columns:
            raise InputError(
                f"to_onnx cannot write a model of method={self.method!r}, which needs the "
                "sensitive features to predict; use save"
            )
        state = self.encoder_.state()
        content = onnx_bytes(
            state,
            self.predictor_,
            self._add_answers,
            named=hasattr(self, "feature_names_in_") or not state.is_numeric,
            description=f"{type(self).__name__} fitted by equipoise",
        )
        write_atomically(target, content)

    @abstractmethod
    def _add_answers(self, graph: Graph, output: str) -> None:
        """Add to an ONNX graph what is made of the network's output (rows, o)."""

    def _new_encoder(self) -> FeatureEncoder:
        return FeatureEncoder(scaling=self.scaling)

    def _recipe(self) -> NetworkRecipe:
        # An encoder has no network of the user's own; nothing else has an encoder.
        network = getattr(self, "network", None)
        if network is not None and not callable(network):
            raise InputError(
                "network must be a function (n_inputs, n_outputs) -> torch.nn.Module, "
                f"got {type(network).__name__}"
            )
        return NetworkRecipe(
            notion=Notion.parse(self.notion),
            method=self.method,
            density_ratio=self.density_ratio,
            # Decay keeps a predictor from learning its rows by heart; a critic sees new pairs
            # anyway.
            critic=self._critic(kind=self.optimizer, momentum=self.momentum, weight_decay=0.0),
            training=TrainingSettings(
                iterations=self.iterations,
                batch_size=self.batch_size,
                optimizer=OptimizerSettings(
                    kind=self.optimizer,
                    learning_rate=self.learning_rate,
                    momentum=self.momentum,
                    weight_decay=self.weight_decay,
                ),
                schedule=self.schedule,
            ),
            hidden=self.hidden,
            encoder_hidden=getattr(self, "encoder_hidden", ()),
            embedding=self.embedding,
            normalization=self.normalization,
            network=network,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class FairClassifier(Classifies, NetworkEstimator):
    """A neural-network classifier trained to keep its score from depending on sensitive features.

    It minimizes (1 - strength) * cross-entropy + strength * penalty, where the penalty is what a
    critic can tell about the sensitive features from the score (Sohn, Song and Lin 2024). The
    sensitive features may be discrete, continuous or any mix of columns; they are needed to fit,
    and to predict only by ``method="scutari"``. How much dependence remains must be measured:
    training promises nothing.

    Parameters
    ----------
    notion : "independence" or "separation"
        Statistical parity: the score's distribution is the same whatever A; or equalized odds:
        the same whatever A among rows of equal Y.
    strength : float in [0, 1)
        Weight of the penalty; 0 is plain training, and useful values often lie above 0.8.
    method : str
        The fairness method; ``equipoise.methods.METHODS`` has them all, and
        ``equipoise.methods.capability_table()`` says what each can do.
    divergence : "js", "kl", "chi2", "hellinger" or "wasserstein"
        What the critic estimates; "wasserstein" needs ``gradient_penalty=10``.
    density_ratio : "auto", "counts", "network" or "none"
        Weight beta(a', y) under separation: counted where A and Y are discrete, else learnt by a
        small network; "none" leaves it out (the paper's SBP_NW).
    hidden : tuple of int
        Widths of the predictor's [dense - batch norm - ReLU] layers; () is a linear model.
    network : callable (n_inputs, n_outputs) -> torch.nn.Module, optional
        A network of your own instead, on the scaled columns; n_outputs is 1 for two classes.
    scaling : "rank", "minmax", "standard" or "none"
        How numeric features are scaled.
    embedding : "pieces" or "none"
        "pieces" also cuts numeric features at frequent values and quantiles, so that values that
        lie close together can be told apart; "none" leaves them as they were scaled.
    normalization : "batch" or "none"
        Batch normalisation inside the predictor, or none.
    critic_hidden, critic_steps, critic_normalization, gradient_penalty
        The critic: widths, updates per predictor update (T'), "none", "batch" or "spectral",
        and weight of a penalty on its slope.
    optimizer, learning_rate, critic_learning_rate, momentum, weight_decay, schedule
        "adam" (with weight decay in the predictor) or "sgd" (with momentum); "decay" lowers the
        predictor's learning rate linearly to zero over the second half, "constant" does not.
    iterations, batch_size : int
        Number of predictor updates, and rows in each.
    sensitive_types : mapping of column name to "discrete" or "continuous", optional
        Overrides how sensitive columns are typed; ``sensitive_`` tells how they were.
    missing_sensitive : "error" or "skip"
        "skip" keeps rows with a missing sensitive value for the task and leaves them out of the
        penalty.
    random_state : int, RandomState or None
        Same integer, same weights: bit for bit on the same CPU, threads and versions.
    device : "auto", "cpu", "cuda", ...
        Where to train.
    verbose : 0 or 1
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : the labels.
    health_ : whether the critic collapsed, the score became constant or the loss blew up; in a
        model from a frontier also whether it overfits.
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

    network: NetworkFactory | None = None

    def _add_answers(self, graph: Graph, output: str) -> None:
        labels = _plain_labels(self.classes_)
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


def _plain_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels as ONNX knows them: int64, float64, booleans, or text as objects."""
    labels = np.array(classes.tolist())
    return labels.astype(object) if labels.dtype.kind == "U" else labels


@dataclass(kw_only=True, eq=False, repr=False)
class FairRegressor(Regresses, NetworkEstimator):
    """A neural-network regressor trained to keep its prediction from depending on A.

    As :class:`FairClassifier`, for a continuous outcome; Y is trained on in standard units, so
    ``strength`` means the same whatever the outcome's scale.

    Parameters
    ----------
    loss : "squared", "absolute" or "huber"
        Task loss: squared error, absolute error (the paper's), or Huber's (one standard unit).
    notion, strength, method, divergence, density_ratio, hidden, network, scaling, embedding
    normalization, critic_hidden, critic_steps, critic_normalization, gradient_penalty, optimizer
    learning_rate, critic_learning_rate, momentum, weight_decay, schedule, iterations, batch_size
    sensitive_types, missing_sensitive, random_state, device, verbose
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
    network: NetworkFactory | None = None

    def _add_answers(self, graph: Graph, output: str) -> None:
        standard = graph.add("Squeeze", output, graph.constant(np.array([1])))
        scaled = graph.add("Mul", standard, graph.constant(np.array(self.scale_)))
        prediction = graph.add("Add", scaled, graph.constant(np.array(self.center_)))
        graph.output("prediction", prediction, np.float64)


@dataclass(kw_only=True, eq=False, repr=False)
class FairEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NetworkEstimator):
    """A transformer whose output keeps what predicts Y and little of what tells A.

    A predictor is trained in two parts, encoder and head, with the penalty on the encoder's
    output instead of the score (Sohn, Song and Lin 2024, section 3.2). ``transform`` returns that
    output, for any model of yours to be trained on.

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
        Critic updates per predictor update; a representation is wider than a score and needs more.
    notion, strength, method, divergence, density_ratio, scaling, embedding, normalization
    critic_hidden, critic_normalization, gradient_penalty, optimizer, learning_rate
    critic_learning_rate, momentum, weight_decay, schedule, iterations, batch_size, sensitive_types
    missing_sensitive, random_state, device, verbose
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

    # The paper's tables have no encoder: how wide it is stays as it is here.
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

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the representation of each row, (n, encoder_hidden[-1])."""
        _, representation = self._evaluate(X)
        return representation

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return read_classes(y) if self.task == "classification" else read_numbers(y, weights)

    def _add_answers(self, graph: Graph, output: str) -> None:
        graph.output("representation", output, np.float64, self.encoder_hidden[-1])

    @property
    def _n_features_out(self) -> int:
        return self.encoder_hidden[-1]
