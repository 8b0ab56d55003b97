"""FairFrontier: strengths x seeds in one training run, then the model that is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError
from equipoise.estimators.fitting import begin_run
from equipoise.estimators.loading import Saved, check_network, estimator_in
from equipoise.estimators.network import (
    PAPER_CLASSIFIER,
    PAPER_REGRESSOR,
    PAPER_STRENGTHS,
)
from equipoise.estimators.saving import parameters_in
from equipoise.frontier.curve import Curve, history_of
from equipoise.frontier.families import Family
from equipoise.frontier.fitting import fit_curve
from equipoise.frontier.rows import Part, Split
from equipoise.frontier.saving import contents_of, curve_in, sensitive_in, split_in
from equipoise.frontier.selection import ReportSettings, Selection, read_wish
from equipoise.networks import Embedding, NetworkFactory, Normalization
from equipoise.storage import Contents, read_model_file, refuse_contents, write_model_file
from equipoise.tables import Kind, Scaling
from equipoise.training import Callback, History
from equipoise.training.loop import gradients_on

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FairFrontier(BaseEstimator):
    """The curve of utility against unfairness, from one training run; then choose a point on it.

    Trains every strength with every seed at once, looks at all of them every ``evaluate_every``
    iterations on validation rows, and keeps the weights of the snapshots on a Pareto front of
    utility (AUC, or R2) against each metric and attribute. :meth:`select` picks one by a wish and
    reports on test rows that nobody looked at before. Two or more classes, or a continuous outcome.

    Parameters
    ----------
    strengths : tuple of float in [0, 1)
        Weights of the penalty; 0 is plain training. The default is the paper's, 0,
        and more of the fair end.
    seeds : int
        Members per strength; their seeds are random_state, random_state + 1, ...
    ensemble : bool
        Whether the average score of the members of each strength competes with its members.
    evaluate_every : int
        Iterations between snapshots.
    metrics : "default" or sequence of str
        Metrics of unfairness, of which the first is meant where none is named. Default: KS-GSP
        under independence, KS-GEO under separation, and SP or EO for two classes.
    validation, test : float or sequence of int
        Share of the rows, or positions of the rows, that pick and that report.
    predictor : "network", "boosting" or "both"
        What is trained: neural networks, boosted trees, or both families on the same rows, whose
        snapshots compete on one front. Trees need ``pip install equipoise[boosting]``.
    boosting : mapping, optional
        Options of the trees by the names of :class:`FairBoostingClassifier`, such as
        ``{"rounds": 200, "lightgbm": {"num_leaves": 15}}``.
    evaluate_every_rounds : int
        Boosting rounds between snapshots.
    task : "classification" or "regression"
        What is predicted: classes or numbers.
    loss : "squared", "absolute" or "huber"
        Task loss of a regression.
    notion, method, divergence, density_ratio, hidden, network
        As for :class:`FairClassifier`.
    scaling, embedding, normalization
        As for :class:`FairClassifier`.
    critic_hidden, critic_steps, critic_normalization, gradient_penalty
        As for :class:`FairClassifier`.
    optimizer, learning_rate, critic_learning_rate, momentum, weight_decay, schedule
        As for :class:`FairClassifier`.
    iterations, batch_size
        As for :class:`FairClassifier`.
    sensitive_types, missing_sensitive, random_state, device
        As for :class:`FairClassifier`; random_state also draws validation and test rows.
    verbose, progress_budget
        1 shows progress on standard error, with the best utility among the snapshots whose first
        metric is at most progress_budget for all attributes.

    Attributes
    ----------
    split_ : positions of the train, validation and test rows.
    utility_ : "AUC", "macro AUC" (the mean over three or more classes) or "R2".
    sensitive_ : how each sensitive column was typed, as text.
    history_ : task loss and penalty of every member over the iterations; of both families by name.

    Examples
    --------
    >>> from equipoise import load_dataset
    >>> data = load_dataset("synthetic")
    >>> frontier = FairFrontier(strengths=(0.0, 0.9), seeds=1, iterations=200, random_state=0)
    >>> frontier = frontier.fit(data.X, data.y, sensitive_features=data.A)
    >>> frontier.table()[["strength", "iteration"]].to_numpy().tolist()
    [[0.0, 100.0], [0.9, 100.0], [0.0, 200.0], [0.9, 200.0]]
    >>> model = frontier.select(max_unfairness={"group": 0.3}).model
    >>> model.predict_proba(data.X).shape == (len(data.X), 2)
    True
    """

    split_: Split
    utility_: str
    sensitive_: str
    history_: History | dict[str, History]

    def __init__(
        self,
        *,
        strengths: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98, 0.995),
        seeds: int = 5,
        ensemble: bool = False,
        evaluate_every: int = 100,
        metrics: Literal["default"] | Sequence[str] = "default",
        validation: Part = 0.2,
        test: Part = 0.2,
        predictor: Family = "network",
        boosting: Mapping[str, Any] | None = None,
        evaluate_every_rounds: int = 20,
        task: Literal["classification", "regression"] = "classification",
        loss: Literal["squared", "absolute", "huber"] = "squared",
        notion: str = "independence",
        method: str = "sbp",
        divergence: str = "js",
        density_ratio: RatioKind = "auto",
        hidden: tuple[int, ...] = (64, 64, 64),
        network: NetworkFactory | None = None,
        scaling: Scaling = "rank",
        embedding: Embedding = "pieces",
        normalization: Literal["batch", "none"] = "none",
        critic_hidden: tuple[int, ...] = (64, 64),
        critic_steps: int = 1,
        critic_normalization: Normalization = "none",
        gradient_penalty: float = 0.0,
        optimizer: Literal["adam", "sgd"] = "adam",
        learning_rate: float = 1e-3,
        critic_learning_rate: float = 3e-3,
        momentum: float = 0.2,
        weight_decay: float = 1.0,
        schedule: Literal["decay", "constant"] = "decay",
        iterations: int = 1500,
        batch_size: int = 300,
        sensitive_types: Mapping[str, Kind] | None = None,
        missing_sensitive: Literal["error", "skip"] = "error",
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        verbose: int = 0,
        progress_budget: float = 0.1,
    ) -> None:
        self.strengths = strengths
        self.seeds = seeds
        self.ensemble = ensemble
        self.evaluate_every = evaluate_every
        self.metrics = metrics
        self.validation = validation
        self.test = test
        self.predictor = predictor
        self.boosting = boosting
        self.evaluate_every_rounds = evaluate_every_rounds
        self.task = task
        self.loss = loss
        self.notion = notion
        self.method = method
        self.divergence = divergence
        self.density_ratio = density_ratio
        self.hidden = hidden
        self.network = network
        self.scaling = scaling
        self.embedding = embedding
        self.normalization = normalization
        self.critic_hidden = critic_hidden
        self.critic_steps = critic_steps
        self.critic_normalization = critic_normalization
        self.gradient_penalty = gradient_penalty
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.critic_learning_rate = critic_learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.iterations = iterations
        self.batch_size = batch_size
        self.sensitive_types = sensitive_types
        self.missing_sensitive = missing_sensitive
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.progress_budget = progress_budget

    @classmethod
    def as_in_paper(cls, **options: Any) -> Self:
        """Return a frontier with the paper's strengths, network and training.

        As :meth:`FairClassifier.as_in_paper`; with ``task="regression"`` as the regressor's.
        """
        regression = options.get("task") == "regression"
        settings = PAPER_REGRESSOR if regression else PAPER_CLASSIFIER
        return cls(**{**settings, "strengths": PAPER_STRENGTHS, **options})

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
        resume: bool = False,
        callback: Callback | None = None,
    ) -> Self:
        """Train all members at once and keep the snapshots on a front.

        Parameters
        ----------
        X : DataFrame (pandas, polars, pyarrow) or numeric array, (n, p)
            Features.
        y : (n,)
            Outcome: labels of two or more classes, or numbers with ``task="regression"``.
        sensitive_features : DataFrame, Series, array, list or dict of columns, n rows
            Any mix of discrete and continuous attributes.
        sample_weight : (n,), optional
            Weights of the rows: in training, when judging and in the report; only their ratios
            count. Rows of weight 0 are left out.
        checkpoint : path of a file, optional
            Where to keep the state of the run; needs an integer ``random_state``.
        checkpoint_every : float
            Least seconds between checkpoints, which are written at evaluations; 0 is at each one.
        resume : bool
            Go on from the checkpoint to what an uninterrupted run gives (bit for bit on one CPU);
            begin where there is none yet. A finished run is returned as it was.
        callback : callable, optional
            Receives an :class:`equipoise.training.Progress` after every evaluation; returning True
            ends training.

        Ctrl-C ends training and returns what there is, with a warning; a second one raises.
        """
        options = self.get_params(deep=False)
        with (
            gradients_on(),
            begin_run(
                options,
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                resume=resume,
                callback=callback,
            ) as run,
        ):
            fitted = fit_curve(
                options,
                type(self)().get_params(deep=False),
                X,
                y,
                sensitive_features=sensitive_features,
                sample_weight=sample_weight,
                run=run,
            )
        self._curve = fitted.curve
        self.split_ = fitted.split
        self.utility_ = fitted.curve.snapshots.criteria.utility
        self.sensitive_ = fitted.sensitive
        self.history_ = history_of(fitted.curve)
        return self

    def table(self) -> pd.DataFrame:
        """Every snapshot, judged on the validation rows, one a row.

        Columns: member, strength, seed, iteration (of trees the round), utility, threshold
        (Youden's, two classes only), one column for every metric and attribute such as "KS-GSP age"
        (NaN where undefined; of several classes the largest), and on_front: whether some front has
        it, so that its weights are kept. With ``ensemble`` there is also averaged: how many
        members' scores are averaged; averages have seed -1 and are numbered after the members.
        With both families there is also predictor, "network" or "boosting"; trees come after
        networks.
        """
        return self._fitted().table()

    def members(self) -> pd.DataFrame:
        """Every member and average: strength, seed, snapshots on a front, how training ended."""
        return self._fitted().member_table()

    def front(self, metric: str | None = None, attribute: str | None = None) -> pd.DataFrame:
        """Rows of the table on the front of utility against one metric, fairest first.

        The first metric is meant where none is named; the attribute may be left out where there is
        one.
        """
        return self._fitted().front(metric, attribute)

    def hypervolume(
        self,
        metric: str | None = None,
        attribute: str | None = None,
        *,
        most_unfairness: float = 0.3,
    ) -> float:
        """Share of the rectangle of possible trade-offs that the front reaches, in [0, 1].

        The rectangle spans utility from that of a score that knows nothing (AUC 0.5, R2 0) to 1,
        and unfairness from 0 to ``most_unfairness``.
        """
        return self._fitted().hypervolume(metric, attribute, most_unfairness)

    def select(
        self,
        *,
        max_unfairness: float | Mapping[str, float] | None = None,
        min_utility: float | None = None,
        metric: str | None = None,
        attribute: str | None = None,
        level: float = 0.95,
        draws: int = 200,
        candidates: int = 1,
    ) -> Selection:
        """Pick a snapshot on the validation rows and report on the test rows.

        With ``max_unfairness`` the best utility within it is picked; with ``min_utility`` alone the
        least unfairness (the largest over the attributes counts). Where no snapshot is within the
        limits, the error names the nearest.

        Parameters
        ----------
        max_unfairness : float or mapping of attribute to float, optional
            Limit for every attribute, or for those named.
        min_utility : float, optional
            Least AUC, or R2.
        metric : str, optional
            What the limits are on; the first metric unless named.
        attribute : str, optional
            The only attribute that counts; all do unless named.
        level, draws
            Of bootstrap intervals and certificates on the test rows.
        candidates : int
            How many selections you will compare by their reports before you take one. The test
            rows pick nothing within one selection, so 1 is right for a single one; whoever looks
            at several reports lets the test rows pick, and certificates must count that.

        Returns
        -------
        Selection
            ``model`` is a fitted FairClassifier or FairRegressor, or their counterpart of trees;
            print the selection for its report.
        """
        curve = self._fitted()
        wish = read_wish(
            curve.snapshots.criteria,
            max_unfairness=max_unfairness,
            min_utility=min_utility,
            metric=metric,
            attribute=attribute,
        )
        settings = ReportSettings(level=level, draws=draws, candidates=candidates)
        return curve.select(wish, settings)

    def plot(self, metric: str | None = None, attribute: str | None = None) -> Figure:
        """Draw utility against one metric: all snapshots, and the front. Needs matplotlib."""
        curve = self._fitted()
        column = curve.snapshots.criteria.one(metric, attribute)
        try:
            from equipoise.frontier.figure import frontier_figure
        except ModuleNotFoundError as absent:
            if absent.name is None or absent.name.split(".")[0] != "matplotlib":
                raise
            raise InputError(
                'plot needs matplotlib, which is not installed; pip install "equipoise[report]"'
            ) from None
        return frontier_figure(
            curve.table(),
            curve.front(metric, attribute),
            x=curve.snapshots.criteria.columns[column],
            utility=self.utility_,
        )

    def save(self, path: str | PathLike[str], *, include_test_rows: bool = True) -> None:
        """Write the fitted frontier to one file, for ``equipoise.load``.

        Everything that can be asked is answered the same by the loaded frontier, bit for bit. The
        file holds arrays (safetensors) and JSON, no code; it is written whole or not at all, and
        over nothing but an older model.

        Parameters
        ----------
        path : path of a file
            Ends in ``.equipoise`` by custom.
        include_test_rows : bool
            Whether outcome, sensitive columns and scores of the test rows, which are personal data,
            go into the file. Without them ``select`` picks the same but can not report.
        """
        curve = self._fitted()
        write_model_file(path, contents_of(self, curve, include_test_rows=include_test_rows))

    def _fitted(self) -> Curve:
        check_is_fitted(self)
        return self._curve


def load(
    path: str | PathLike[str], *, network: NetworkFactory | None = None
) -> Saved | FairFrontier:
    """Return the fitted estimator or frontier that ``save`` wrote to ``path``, on the CPU.

    It answers bit for bit what the saved one answered there. The file holds numbers and text
    only, so that reading one from a stranger runs no code; damage is found by a checksum.

    Parameters
    ----------
    path : path of a file
        Where ``save`` wrote to.
    network : callable (n_inputs, n_outputs) -> torch.nn.Module, optional
        The function the model was fitted with, where it was fitted with one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from equipoise import FairRegressor, load_dataset
    >>> data = load_dataset("crime")
    >>> model = FairRegressor(strength=0, iterations=20, random_state=0).fit(data.X, data.y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "crime.equipoise")
    ...     again = load(Path(folder) / "crime.equipoise")
    >>> bool((again.predict(data.X) == model.predict(data.X)).all())
    True
    """
    contents = read_model_file(path)
    try:
        if contents.document["class"] == FairFrontier.__name__:
            check_network(contents, path, network)
            return _frontier_in(contents, network)
        return estimator_in(contents, path, network)
    except InputError:
        raise
    except Exception as error:  # nothing that save wrote: somebody made this file by hand
        refuse_contents(path, error)


def _frontier_in(contents: Contents, network: NetworkFactory | None) -> FairFrontier:
    frontier = FairFrontier(**parameters_in(contents))
    if network is not None:
        frontier.network = network
    curve = curve_in(contents, network)
    frontier.split_ = split_in(contents)
    frontier.utility_ = curve.snapshots.criteria.utility
    frontier.sensitive_ = sensitive_in(contents)
    frontier.history_ = history_of(curve)
    frontier._curve = curve
    return frontier
