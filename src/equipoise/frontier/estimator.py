"""FairFrontier: all strengths and seeds in one training run, then the model you want."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from equipoise.cluster import Engine
from equipoise.errors import InputError, check_number, needs
from equipoise.estimators.fitting import FitRun, Fits
from equipoise.estimators.network import PAPER_SEEDS, PAPER_STRENGTHS, FairClassifier
from equipoise.frontier.fitting import (
    Predicts,
    Roles,
    estimators_of,
    fit_curve,
    flat_options,
)
from equipoise.frontier.judging import UNINFORMED, ReportSettings
from equipoise.frontier.saving import (
    Saved,
    check_network,
    contents_of,
    curve_in,
    estimator_in,
    give_model,
    options_in,
)
from equipoise.frontier.selection import Selection, read_wish, select
from equipoise.frontier.snapshots import Curve, Split, members_of, table_of
from equipoise.frontier.splitting import Part
from equipoise.inference.verdict import Decisions, Favourable
from equipoise.networks import NetworkFactory
from equipoise.pareto import hypervolume
from equipoise.storage import read_model_file, refuse_contents, write_model_file
from equipoise.training import Callback, History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The default strengths: denser where unfairness falls.
STRENGTHS = (
    *(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.985),
    0.995,
)

_NO_ROLES = Roles()


class FairFrontier(Fits):
    """The curve of utility against unfairness from one training run, and any model on it.

    Trains every strength with every seed at once. During training it measures all of them on
    validation rows and keeps the snapshots on a Pareto front of utility (AUC; of regressors R2, or
    D2 absolute error) against each metric and attribute. :meth:`select` picks a snapshot within
    your limits and reports on test rows that were not used before.

    Parameters
    ----------
    estimator : estimator or list of estimators, optional
        A :class:`FairClassifier` (the default), :class:`FairRegressor`,
        :class:`FairBoostingClassifier`, :class:`FairBoostingRegressor` or :class:`FairAdjuster`,
        which fits its model to the training rows once, with its options. The
        estimators of a list, all classifiers or all regressors, train on the same rows and compete
        on one front. The frontier trains copies and sets ``strength``, ``random_state``,
        ``n_jobs`` and ``verbose`` of each. ``set_params`` replaces a list as a whole.
    strengths : tuple of float in [0, 1)
        Weights of the penalty; 0 is plain training. The default has 17, most of them above 0.7,
        where unfairness falls.
    seeds : int
        Number of members per strength; their seeds are random_state, random_state + 1, ...
    ensemble : bool
        Whether the average score of the members of each strength competes with these members.
    evaluate_every : "default", int, or a list with one of them for each estimator
        Number of iterations of a network (100 by default) or rounds of boosted trees (10) between
        snapshots.
    metrics : "default" or sequence of str
        Metrics of unfairness. Methods that get no metric use the first. The default is the gap,
        KS-GSP and, for two classes, SP; under separation it is gap given Y, KS-GEO and EO. KS-GEO
        is left out for a continuous outcome, where it is not 0 for a perfect prediction.
    validation, test : float or sequence of int
        Share or positions of the rows that pick the model, and of those that report on it.
    random_state : int, RandomState or None
        Seed of the first members; it also draws the validation and test rows.
    n_jobs : int, optional
        As for :class:`FairClassifier`.
    verbose : 0 or 1
        1 shows progress on standard error, with the best utility among the snapshots whose first
        metric is at most 0.1 for all attributes.
    engine : {"local", "ray"}
        "ray" spreads networks over the cores of a Ray cluster; every worker holds all rows. The
        results are the same up to rounding. It takes neither checkpoint nor callback, and shows no
        progress; what a lost worker trained is trained again.

    Attributes
    ----------
    split_ : positions of the training, validation and test rows.
    utility_ : "AUC", "macro AUC" (the mean over three or more classes) or "R2"; of regressors with
        ``loss="absolute"`` "D2 absolute error", the share of the absolute error explained.
    sensitive_ : how each sensitive column was typed, as text.
    history_ : task loss and penalty of every member over the iterations; with several estimators a
        mapping by name, such as "network", "boosting" or "network 2".

    Examples
    --------
    >>> from equipoise import FairClassifier, load_dataset
    >>> data = load_dataset("synthetic")
    >>> networks = FairClassifier(iterations=200)
    >>> frontier = FairFrontier(networks, strengths=(0.0, 0.9), seeds=1, random_state=0)
    >>> frontier = frontier.fit(data.X, data.y, sensitive_features=data.A)
    >>> frontier.table()[["strength", "iteration"]].to_numpy().tolist()
    [[0.0, 100.0], [0.9, 100.0], [0.0, 200.0], [0.9, 200.0]]
    >>> model = frontier.select(max_gap={"group": 0.3}).model
    >>> model.predict_proba(data.X).shape == (len(data.X), 2)
    True
    """

    split_: Split
    utility_: str
    sensitive_: str
    history_: History | dict[str, History]

    def __init__(
        self,
        estimator: Predicts | Sequence[Predicts] | None = None,
        *,
        strengths: tuple[float, ...] = STRENGTHS,
        seeds: int = 3,
        ensemble: bool = False,
        evaluate_every: Literal["default"] | int | Sequence[Literal["default"] | int] = "default",
        metrics: Literal["default"] | Sequence[str] = "default",
        validation: Part = 0.2,
        test: Part = 0.2,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: Engine = "local",
    ) -> None:
        self.estimator = estimator
        self.strengths = strengths
        self.seeds = seeds
        self.ensemble = ensemble
        self.evaluate_every = evaluate_every
        self.metrics = metrics
        self.validation = validation
        self.test = test
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    @classmethod
    def as_in_paper(
        cls, estimator: Predicts | Sequence[Predicts] | None = None, **options: Any
    ) -> Self:
        """Return a frontier with the paper's strengths, by default of the paper's classifier.

        For regression: ``FairFrontier.as_in_paper(FairRegressor.as_in_paper())``.
        """
        chosen = FairClassifier.as_in_paper() if estimator is None else estimator
        return cls(chosen, **{"strengths": PAPER_STRENGTHS, "seeds": PAPER_SEEDS, **options})

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        positive: Any = None,
        groups: Any = None,
        times: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
        resume: bool = False,
        callback: Callback | None = None,
    ) -> Self:
        """Split the rows, train all members, and keep the snapshots on a front.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As for :meth:`FairClassifier.fit`; sensitive features are required.
        positive : label of y, optional
            Of two classes, the one whose probability is the score; by default the last of the
            sorted labels.
        groups : (n,), optional
            Persons, households or other groups. Whole groups are drawn for each part, so that no
            group is in two of training, validation and test rows.
        times : (n,) numbers or dates, optional
            The latest rows are test rows, those before them validation rows; rows of the same time
            are in the same part. Not together with ``groups``.
        checkpoint, checkpoint_every, resume, callback
            As for :meth:`FairClassifier.fit`.
        """
        roles = Roles(positive=positive, groups=groups, times=times)
        with self._training(checkpoint, checkpoint_every, resume, callback) as run:
            self._fit(run, X, y, sensitive_features, sample_weight, roles)
        return self

    def _run_options(self) -> dict[str, Any]:
        return flat_options(self)

    def _fit(
        self,
        run: FitRun,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        roles: Roles = _NO_ROLES,
    ) -> None:
        self._keep(fit_curve(self, run, X, y, sensitive_features, sample_weight, roles))

    def _keep(self, curve: Curve) -> Self:
        self._curve = curve
        self.split_ = curve.split
        self.utility_ = curve.snapshots.criteria.utility
        self.sensitive_ = curve.sensitive
        histories = {each.name: each.history for each in curve.trained}
        self.history_ = histories if len(histories) > 1 else curve.trained[0].history
        return self

    def fitted_curve(self) -> Curve:
        """Return the result of training, on which all methods below rest; for internal use."""
        check_is_fitted(self)
        return self._curve

    def table(self) -> pd.DataFrame:
        """Return all snapshots with their values on the validation rows, one per row.

        Columns are member, strength, seed, iteration (of trees the round), utility, threshold
        (Youden's, for two classes only), one for every metric and attribute such as "KS-GSP age"
        (NaN if undefined, the largest of several classes), and on_front: whether the snapshot is on
        a front, so that its weights are kept. With ``ensemble`` the column averaged is the number
        of members in an average; averages have seed -1 and come after the members. With several
        estimators the column predictor is "network" or "boosting", from the second of a kind on
        "network 2"; they come in the order of the list.
        """
        curve = self.fitted_curve()
        return table_of(curve.snapshots, curve.entries)

    def members(self) -> pd.DataFrame:
        """Return all members and averages: strength, seed, snapshots on a front, and health."""
        return members_of(self.fitted_curve())

    def front(self, metric: str | None = None, attribute: str | None = None) -> pd.DataFrame:
        """Return the rows of the table on the front of utility against one metric, fairest first.

        The default is the first metric. The attribute may be left out if there is only one.
        """
        snapshots = self.fitted_curve().snapshots
        column = snapshots.criteria.one(metric, attribute)
        rows = self.table().iloc[snapshots.front([column])]
        return rows.sort_values([snapshots.criteria.columns[column], "utility"], kind="stable")

    def hypervolume(
        self,
        metric: str | None = None,
        attribute: str | None = None,
        *,
        most_unfairness: float = 0.3,
    ) -> float:
        """Return the share of the achievable trade-offs that the front reaches, in [0, 1].

        They form a rectangle: utility from that of an uninformative score (AUC 0.5, R2 and D2 0) to
        1, and unfairness from 0 to ``most_unfairness``.
        """
        snapshots = self.fitted_curve().snapshots
        check_number("most_unfairness", most_unfairness, "must be positive", lambda most: most > 0)
        column = snapshots.criteria.one(metric, attribute)
        front = snapshots.front([column])
        costs = np.column_stack([-snapshots.utility[front], snapshots.unfairness[front, column]])
        least = UNINFORMED[snapshots.criteria.utility]
        return hypervolume(costs, (-least, most_unfairness)) / ((1 - least) * most_unfairness)

    def select(
        self,
        *,
        max_gap: float | Mapping[str, float] | None = None,
        max_unfairness: float | Mapping[str, float] | None = None,
        min_utility: float | None = None,
        metric: str | None = None,
        attribute: str | None = None,
        level: float = 0.95,
        draws: int = 200,
        candidates: int = 1,
        favourable: Favourable = "high",
        decision: str = "",
        allow_nearest: bool = False,
        allow_useless: bool = False,
    ) -> Selection:
        """Pick a snapshot on the validation rows and report on it on the test rows.

        With a limit on unfairness it picks the best utility; with ``min_utility`` alone, the least
        unfairness (the largest over the attributes). Snapshots that are no better than chance on
        the validation rows are not picked. If no snapshot is within the limits, the error
        (``equipoise.errors.NoSuchModel``) names the nearest.

        Parameters
        ----------
        max_gap : float or mapping of attribute to float, optional
            Limit on the gap, in [0, 1], for all attributes or for those in the mapping. The gap is
            the largest difference between a group and all others, beyond chance, at any threshold.
        max_unfairness : float or mapping of attribute to float, optional
            Limit on ``metric`` instead of the gap.
        min_utility : float, optional
            Least AUC, R2 or D2 absolute error, whichever is ``utility_``.
        metric : str, optional
            Metric of the limits; by default the first.
        attribute : str, optional
            The only attribute that counts; by default all do.
        level, draws
            Level of intervals and certificates on the test rows, and draws of the bootstrap.
        candidates : int
            Number of selections whose reports you compare before you take one. The test rows then
            help to pick, so certificates must hold for all of them.
        favourable : {"high", "low"}
            Which scores are good for the person they are about; decides who counts as worst off.
        decision : str
            What a positive decision means, for sentences: "are invited". By default "are selected",
            or "are flagged" where a low score is favourable.
        allow_nearest : bool
            Whether to take the nearest snapshot if none is within the limits: the one whose largest
            excess over a limit is smallest. The limits stay as they were asked for.
        allow_useless : bool
            Whether to pick also among snapshots that are no better than chance.

        Returns
        -------
        Selection
            Its ``model`` is a fitted estimator of the class that was trained. Print the selection
            to read its report.
        """
        curve = self.fitted_curve()
        wish = read_wish(
            curve.snapshots.criteria,
            max_gap=max_gap,
            max_unfairness=max_unfairness,
            min_utility=min_utility,
            metric=metric,
            attribute=attribute,
            allow_nearest=allow_nearest,
            allow_useless=allow_useless,
        )
        settings = ReportSettings(
            level=level,
            draws=draws,
            candidates=candidates,
            decisions=Decisions(favourable, decision),
        )
        return select(curve, wish, settings)

    def plot(self, metric: str | None = None, attribute: str | None = None) -> Figure:
        """Plot utility against one metric, for all snapshots and the front. Needs matplotlib."""
        curve = self.fitted_curve()
        column = curve.snapshots.criteria.one(metric, attribute)
        with needs("matplotlib", user="plot", extra="report"):
            from matplotlib.figure import Figure
        table, front = self.table(), self.front(metric, attribute)
        x, strengths = curve.snapshots.criteria.columns[column], sorted(set(table["strength"]))
        figure = Figure(figsize=(6.4, 4.8), layout="constrained")
        axes = figure.add_subplot()
        # Stronger penalties are darker.
        for number, strength in enumerate(strengths):
            rows = table[table["strength"] == strength]
            shade = f"{0.85 - 0.5 * number / max(1, len(strengths) - 1):.2f}"
            label = f"strength {strength:g}"
            axes.scatter(rows[x], rows["utility"], s=10, color=shade, label=label, zorder=2)
        axes.step(front[x], front["utility"], "ko-", where="post", ms=4, label="front", zorder=3)
        axes.set_xlabel(f"{x} (validation rows; 0 is fair)")
        axes.set_ylabel(f"{self.utility_} (validation rows)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
        return figure

    def save(self, path: str | PathLike[str], *, include_test_rows: bool = True) -> None:
        """Write the fitted frontier to one file, for ``equipoise.load``.

        All methods of the loaded frontier return the same, bit for bit. The file holds arrays
        (safetensors) and JSON, no code. It is written completely or not at all, and replaces only a
        file that holds a model.

        Parameters
        ----------
        path : path of a file
            By convention it ends in ``.equipoise``.
        include_test_rows : bool
            Whether the file holds outcome, sensitive columns and scores of the test rows, which are
            personal data. Without them ``select`` picks the same models, but cannot report.
        """
        curve = self.fitted_curve()
        write_model_file(path, contents_of(self, curve, include_test_rows=include_test_rows))


def load(
    path: str | PathLike[str], *, network: NetworkFactory | None = None, estimator: Any = None
) -> Saved | FairFrontier:
    """Return the fitted estimator or frontier that ``save`` wrote to ``path``, on the CPU.

    Its predictions are those of the saved one on a CPU, bit for bit. The file holds only numbers
    and text, so that loading a stranger's file runs no code. A checksum detects damage.

    Parameters
    ----------
    path : path of a file
        The file that ``save`` wrote.
    network : callable (n_inputs, n_outputs) -> torch.nn.Module, optional
        The network function, if the model was fitted with one.
    estimator : fitted classifier or regressor, optional
        The model whose scores a :class:`FairAdjuster` adjusts, its ``estimator_``: a file does not
        hold it. Without it the loaded adjuster takes scores in place of X, the logits of
        probabilities, ``decision_function`` or predictions that the model gives.

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
        check_network(contents, path, network)
        if contents.document["class"] != FairFrontier.__name__:
            model = estimator_in(contents, network)
            if estimator is not None:
                give_model([model], estimator, path)
            return model
        curve = curve_in(contents, network)
        options = options_in(contents, network)
        if estimator is not None:
            give_model([each.template for each in curve.trained], estimator, path)
            for each in estimators_of(options["estimator"]):
                each.set_params(estimator=estimator, cv="prefit")
        return FairFrontier(**options)._keep(curve)
    except InputError:
        raise
    except Exception as error:  # the file was made or changed by hand
        refuse_contents(path, error)
