"""FairFrontier: strengths x seeds in one training run, then the model that is wanted."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError
from equipoise.estimators import FairClassifier, FairRegressor
from equipoise.estimators.base import FairEstimator
from equipoise.estimators.inputs import (
    checked_features,
    checked_outcome,
    read_device,
    read_seed,
    training_data,
)
from equipoise.features import FeatureEncoder, Scaling
from equipoise.frontier.criteria import criteria_for
from equipoise.frontier.curve import Curve
from equipoise.frontier.rows import HeldOut, Part, Positions, Split, rebuilt, split_rows
from equipoise.frontier.selection import ReportSettings, Selection
from equipoise.frontier.snapshots import Recorder
from equipoise.frontier.wish import read_wish
from equipoise.networks import Normalization
from equipoise.recipe import NetworkFactory
from equipoise.sensitive import Kind
from equipoise.training import History, Member
from equipoise.training.engine import HEALTH_ROWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FairFrontier(BaseEstimator):
    """The curve of utility against unfairness, from one training run; then choose a point on it.

    Trains every strength with every seed at once, looks at all of them every ``evaluate_every``
    iterations on validation rows, and keeps the weights of the snapshots on a Pareto front of
    utility (AUC, or R2) against each metric and attribute. :meth:`select` picks one by a wish and
    reports on test rows that nobody looked at before. Two classes, or a continuous outcome.

    Parameters
    ----------
    strengths : tuple of float in [0, 1)
        Weights of the penalty; 0 is plain training. The default is the paper's, with 0 and 0.95.
    seeds : int
        Members per strength; their seeds are random_state, random_state + 1, ...
    evaluate_every : int
        Iterations between snapshots.
    metrics : "default" or sequence of str
        Metrics of unfairness, of which the first is meant where none is named. Default: KS-GSP
        under independence, KS-GEO under separation, and SP or EO for two classes.
    validation, test : float or sequence of int
        Share of the rows, or positions of the rows, that pick and that report.
    task : "classification" or "regression"
        What is trained: members like :class:`FairClassifier` or like :class:`FairRegressor`.
    loss : "squared", "absolute" or "huber"
        Task loss of a regression.
    notion, method, divergence, density_ratio, hidden, network, scaling
        As for :class:`FairClassifier`.
    critic_hidden, critic_steps, critic_normalization, gradient_penalty
        As for :class:`FairClassifier`.
    optimizer, learning_rate, critic_learning_rate, momentum, schedule, iterations, batch_size
        As for :class:`FairClassifier`.
    sensitive_types, missing_sensitive, random_state, device
        As for :class:`FairClassifier`; random_state also draws validation and test rows.

    Attributes
    ----------
    split_ : positions of the train, validation and test rows.
    utility_ : "AUC" or "R2".
    sensitive_ : how each sensitive column was typed, as text.
    history_ : task loss and penalty of every member over the iterations.

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
    history_: History

    def __init__(
        self,
        *,
        strengths: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95),
        seeds: int = 5,
        evaluate_every: int = 100,
        metrics: Literal["default"] | Sequence[str] = "default",
        validation: Part = 0.2,
        test: Part = 0.2,
        task: Literal["classification", "regression"] = "classification",
        loss: Literal["squared", "absolute", "huber"] = "squared",
        notion: str = "independence",
        method: str = "sbp",
        divergence: str = "js",
        density_ratio: RatioKind = "auto",
        hidden: tuple[int, ...] = (64, 64, 64),
        network: NetworkFactory | None = None,
        scaling: Scaling = "rank",
        critic_hidden: tuple[int, ...] = (64, 64),
        critic_steps: int = 1,
        critic_normalization: Normalization = "none",
        gradient_penalty: float = 0.0,
        optimizer: Literal["adam", "sgd"] = "adam",
        learning_rate: float = 1e-3,
        critic_learning_rate: float = 3e-3,
        momentum: float = 0.2,
        schedule: Literal["decay", "constant"] = "decay",
        iterations: int = 1500,
        batch_size: int = 300,
        sensitive_types: Mapping[str, Kind] | None = None,
        missing_sensitive: Literal["error", "skip"] = "error",
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
    ) -> None:
        self.strengths = strengths
        self.seeds = seeds
        self.evaluate_every = evaluate_every
        self.metrics = metrics
        self.validation = validation
        self.test = test
        self.task = task
        self.loss = loss
        self.notion = notion
        self.method = method
        self.divergence = divergence
        self.density_ratio = density_ratio
        self.hidden = hidden
        self.network = network
        self.scaling = scaling
        self.critic_hidden = critic_hidden
        self.critic_steps = critic_steps
        self.critic_normalization = critic_normalization
        self.gradient_penalty = gradient_penalty
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.critic_learning_rate = critic_learning_rate
        self.momentum = momentum
        self.schedule = schedule
        self.iterations = iterations
        self.batch_size = batch_size
        self.sensitive_types = sensitive_types
        self.missing_sensitive = missing_sensitive
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Train all members at once and keep the snapshots on a front.

        Parameters
        ----------
        X : DataFrame (pandas, polars, pyarrow) or numeric array, (n, p)
            Features.
        y : (n,)
            Outcome: two classes, or numbers with ``task="regression"``.
        sensitive_features : DataFrame, Series, array, list or dict of columns, n rows
            Any mix of discrete and continuous attributes.
        """
        seed = read_seed(self.random_state)
        members = self._read_members(seed)
        template = self._template(seed)
        recipe = template._recipe()
        recipe = replace(recipe, training=replace(recipe.training, check_every=self.evaluate_every))
        device = read_device(self.device)
        if sensitive_features is None:
            raise InputError(
                "sensitive_features is required to judge snapshots: call "
                "fit(X, y, sensitive_features=A)"
            )
        X = checked_features(template, X, reset=True)
        y = checked_outcome(X, y)
        table = template._read_sensitive(sensitive_features, len(y))
        assert table is not None
        classes = template._read_outcome(y).classes
        if classes is not None and len(classes) > 2:
            raise InputError(
                f"y must hold two classes for a frontier, got {len(classes)}; set "
                "task='regression' for numbers, or fit a FairClassifier for each strength"
            )
        split = split_rows(len(y), validation=self.validation, test=self.test, seed=seed)
        outcome = template._read_outcome(y[split.train])
        trained_on = rebuilt(table, split.train)
        encoder = FeatureEncoder(scaling=self.scaling)
        data = training_data(
            encoder.fit_transform(_safe_indexing(X, split.train)), outcome, trained_on, None
        )

        def held_out(part: str, rows: Positions) -> HeldOut:
            x = torch.from_numpy(encoder.transform(_safe_indexing(X, rows))).double().to(device)
            return HeldOut.read(part, x, y[rows], table.take(rows), outcome)

        validation = held_out("validation", split.validation)
        test = held_out("test", split.test)
        criteria = criteria_for(self.metrics, self.notion, validation, test)
        recorder = Recorder(validation, criteria)
        trained = recipe.train(
            data.to(device),
            members,
            task=template._task(outcome),
            n_outputs=outcome.n_outputs,
            on_check=recorder,
        )
        template.encoder_ = encoder
        self.split_ = split
        self.utility_ = criteria.utility
        self.sensitive_ = table.describe()
        self.history_ = trained.history
        self._curve = Curve(
            members=members,
            trained=trained,
            snapshots=recorder.snapshots(),
            template=template,
            outcome=outcome,
            trained_on=trained_on,
            seen=data.first(HEALTH_ROWS).to(device),
            given_outcome=recipe.notion.conditions_on_outcome,
            test=test,
            validation_rows=len(split.validation),
        )
        return self

    def table(self) -> pd.DataFrame:
        """Every snapshot, judged on the validation rows, one a row.

        Columns: member, strength, seed, iteration, utility, threshold (Youden's, two classes
        only), one column for every metric and attribute such as "KS-GSP age" (NaN where
        undefined), and on_front: whether some front has it, so that its weights are kept.
        """
        return self._fitted().table()

    def members(self) -> pd.DataFrame:
        """Every member: strength, seed, snapshots on a front, and how its training ended."""
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
            ``model`` is a fitted FairClassifier or FairRegressor; print the selection for its
            report.
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

    def _fitted(self) -> Curve:
        check_is_fitted(self)
        return self._curve

    def _read_members(self, seed: int) -> tuple[Member, ...]:
        strengths = tuple(self.strengths)
        if not strengths or len(set(strengths)) < len(strengths):
            raise InputError(
                f"strengths must be distinct numbers, at least one, got {self.strengths!r}"
            )
        for name in ("seeds", "evaluate_every"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
        return tuple(
            Member(strength, seed + number)
            for number in range(self.seeds)
            for strength in strengths
        )

    def _template(self, seed: int) -> FairClassifier | FairRegressor:
        """Make the estimator whose options all members share."""
        shared = {
            name: getattr(self, name)
            for name in inspect.signature(FairEstimator).parameters
            if name not in ("strength", "random_state")
        }
        shared |= {"strength": max(self.strengths), "random_state": seed}
        if self.task == "classification":
            return FairClassifier(**shared)
        if self.task == "regression":
            return FairRegressor(loss=self.loss, **shared)
        raise InputError(f"task must be 'classification' or 'regression', got {self.task!r}")
