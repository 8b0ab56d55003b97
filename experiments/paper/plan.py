"""Which runs the paper's tables and figures need.

A `Cell` is one training run of our engine: one method on one data set, all strengths and all splits
trained together. Tables and figures are views of cells, so that a cell is trained once however many
of them show it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal, get_args

import pandas as pd

from equipoise.errors import InputError

Scenario = Literal["I", "II", "III"]
NotionName = Literal["independence", "separation"]
#: Who chose predictor and training (`experiments.paper.training`): the paper, or this library,
#: with a network or with boosted trees.
SettingsName = Literal["paper", "equipoise", "boosting"]
#: Where the penalty sits: on the score, or on the first hidden layer (fair representation).
Place = Literal["score", "representation"]
#: "paper" picks and reports on the same fifth; "honest" picks on one fifth, reports on another.
Protocol = Literal["paper", "honest"]

#: The data the paper calls ACSEmployment cannot be had without the Census' file.
STAND_IN = "acs_employment_standin_publiccoverage"

#: Data sets of each scenario, as `load_dataset` names them.
DATASETS: Mapping[Scenario, tuple[str, ...]] = MappingProxyType(
    {"I": ("adult", "credit", "law"), "II": ("adult", "credit", STAND_IN), "III": ("crime",)}
)
#: Methods of each scenario and notion, in the paper's order.
METHODS: Mapping[tuple[Scenario, NotionName], tuple[str, ...]] = MappingProxyType(
    {
        ("I", "independence"): ("sbp", "hgr", "kde", "neu"),
        ("I", "separation"): ("sbp", "con", "hgr", "kde", "neu"),
        ("II", "independence"): ("sbp", "hgr", "neu"),
        ("II", "separation"): ("sbp", "con", "hgr", "neu"),
        ("III", "independence"): ("sbp", "hgr"),
        ("III", "separation"): ("sbp", "con", "hgr"),
    }
)
#: The notion's metrics, parity first.
METRICS: Mapping[NotionName, tuple[str, str]] = MappingProxyType(
    {"independence": ("SP", "KS-GSP"), "separation": ("EO", "KS-GEO")}
)
#: Sensitive columns of a data set: our name, the paper's name, and how it is typed.
SENSITIVE: Mapping[str, tuple[tuple[str, str, Literal["discrete", "continuous"]], ...]] = (
    MappingProxyType(
        {
            "adult": (("race", "race", "discrete"), ("age", "age", "continuous")),
            "credit": (("SEX", "gender", "discrete"), ("AGE", "age", "continuous")),
            "law": (("Race", "race", "discrete"),),
            "crime": (("racepctblack", "racepctblack", "continuous"),),
            STAND_IN: (("SEX", "gender", "discrete"), ("AGEP", "age", "continuous")),
        }
    )
)
#: How the methods are called in print.
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "sbp": "SBP",
        "sbp_nw": "SBP_NW",
        "con": "CON",
        "hgr": "HGR",
        "kde": "KDE",
        "neu": "NEU",
        "hgr_product": "HGR (product A*Y)",
        "neu_any_pair": "NEU (any A)",
        "con_plain": "CON (no covariance term)",
    }
)
#: Variants of the authors' released program, beside the method done as written.
RELEASED: Mapping[str, str] = MappingProxyType(
    {"hgr_product": "hgr", "neu_any_pair": "neu", "con_plain": "con"}
)
#: Rivals of the penalty that the library has, beside those of the paper.
OTHER_RIVALS = ("edwards_storkey", "adel", "li", "dcov", "hsic", "gdp", "icp")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training run: a method on a data set, all strengths and splits together."""

    scenario: Scenario
    dataset: str
    notion: NotionName
    method: str
    settings: SettingsName = "paper"
    place: Place = "score"
    protocol: Protocol = "paper"

    @property
    def key(self) -> str:
        """Name of its files.

        >>> Cell(scenario="I", dataset="law", notion="separation", method="hgr").key
        'I-law-separation-hgr-paper-score-paper'
        """
        return "-".join(
            (
                self.scenario,
                self.dataset,
                self.notion,
                self.method,
                self.settings,
                self.place,
                self.protocol,
            )
        )

    @property
    def sensitive(self) -> tuple[tuple[str, str, Literal["discrete", "continuous"]], ...]:
        """Sensitive columns: Scenario I has the first one of the data set, the others all."""
        columns = SENSITIVE[self.dataset]
        return columns[:1] if self.scenario == "I" else columns

    @property
    def measures(self) -> tuple[tuple[str, str], ...]:
        """Metric and attribute (as the paper names it) of every measure, by metric."""
        return tuple(
            (metric, name) for metric in METRICS[self.notion] for _, name, _ in self.sensitive
        )

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Thresholds on utility that the paper's tables have for this data set and notion.

        The stand-in takes those of ACSEmployment.
        """
        rows = published()
        dataset = "acs_employment" if self.dataset == STAND_IN else self.dataset
        here = (rows["dataset"] == dataset) & (rows["scenario"] == self.scenario)
        asked = here & rows["metric"].isin(METRICS[self.notion])
        return tuple(sorted(rows.loc[asked, "threshold"].unique().tolist()))


@dataclass(frozen=True)
class FigurePlan:
    """One figure of the paper: what it shows and which cells (under the paper's protocol) it needs.

    ``by`` is what tells the points apart: the method, or the strength.
    """

    number: int
    title: str
    scenario: Scenario
    cells: tuple[Cell, ...]
    by: Literal["method", "strength"] = "method"


def _scenario(scenario: Scenario, notion: NotionName) -> tuple[Cell, ...]:
    return tuple(
        Cell(scenario=scenario, dataset=dataset, notion=notion, method=method)
        for dataset in DATASETS[scenario]
        for method in METHODS[scenario, notion]
    )


def _of(cells: Sequence[Cell], *methods: str) -> tuple[Cell, ...]:
    """Cells of the first method, each beside the same with the other methods."""
    return tuple(
        replace(cell, method=method)
        for cell in cells
        if cell.method == methods[0]
        for method in methods
    )


def _representation(notion: NotionName) -> tuple[Cell, ...]:
    """SBP and HGR on the first hidden layer; NEU, which neutralises it, is as it always is."""
    return tuple(
        replace(cell, place="score" if cell.method == "neu" else "representation")
        for cell in _scenario("II", notion)
        if cell.method in ("sbp", "hgr", "neu")
    )


_I_SP, _I_EO = _scenario("I", "independence"), _scenario("I", "separation")
_II_SP, _II_EO = _scenario("II", "independence"), _scenario("II", "separation")
_III = _scenario("III", "independence") + _scenario("III", "separation")

#: The cells of each table of fairness numbers, under the paper's protocol and settings.
TABLES: Mapping[str, tuple[Cell, ...]] = MappingProxyType(
    {
        "table2": _I_SP,
        "table3": _II_EO,
        "table7": _I_SP,
        "table8": _I_EO,
        "table9": _I_EO,
        "table10": _II_SP,
        "table11": _II_EO,
        "table12": _III,
    }
)
#: Tables that are not about fairness numbers: training times and the toy of the density ratio.
OTHER_TABLES = ("table4", "table5", "table6")

FIGURES: Mapping[str, FigurePlan] = MappingProxyType(
    {
        f"figure{plan.number}": plan
        for plan in (
            FigurePlan(1, "Scenario I, independence", "I", _I_SP),
            FigurePlan(2, "Scenario I, separation", "I", _I_EO),
            FigurePlan(3, "Scenario II, independence", "II", _II_SP),
            FigurePlan(4, "Scenario II, separation", "II", _II_EO),
            FigurePlan(
                5, "Trade-off by strength, independence", "I", _of(_I_SP, "sbp"), "strength"
            ),
            FigurePlan(6, "Trade-off by strength, separation", "I", _of(_I_EO, "sbp"), "strength"),
            FigurePlan(7, "Scenario III", "III", _III),
            FigurePlan(8, "Effect of beta, Scenario I", "I", _of(_I_EO, "sbp", "sbp_nw")),
            FigurePlan(9, "Effect of beta, Scenario II", "II", _of(_II_EO, "sbp", "sbp_nw")),
            FigurePlan(
                10, "Fair representation, independence", "II", _representation("independence")
            ),
            FigurePlan(11, "Fair representation, separation", "II", _representation("separation")),
        )
    }
)


def _deviations() -> tuple[Cell, ...]:
    """Methods as the released program has them, where that makes a difference."""
    return tuple(
        replace(cell, method=variant)
        for variant, method in RELEASED.items()
        for cell in (*_I_SP, *_I_EO, *_II_EO, *_III)
        if cell.method == method and (variant != "hgr_product" or cell.notion == "separation")
    )


def _ours() -> tuple[Cell, ...]:
    """The penalty with this library's own settings, wherever the paper has it."""
    everywhere = (*_I_SP, *_I_EO, *_II_SP, *_II_EO, *_III)
    return tuple(replace(cell, settings="equipoise") for cell in _of(everywhere, "sbp"))


def _rivals() -> tuple[Cell, ...]:
    """Every rival in the library with the library's own settings: the honest comparison."""
    everywhere = (*_I_SP, *_I_EO, *_II_SP, *_II_EO, *_III)
    own = tuple(cell for cell in everywhere if cell.method != "sbp")
    more = tuple(
        replace(cell, method=method)
        for cell in _of(everywhere, "sbp")
        for method in OTHER_RIVALS
        if cell.dataset != STAND_IN and is_offered(method, cell)
    )
    return tuple(replace(cell, settings="equipoise", protocol="honest") for cell in (*own, *more))


def is_offered(method: str, cell: Cell) -> bool:
    """Whether the library's method can do what the cell asks for."""
    # Imported here: the registry of methods brings torch, and a plan must be cheap to read.
    from equipoise.methods import Problem, parse_method, refuse_unsupported
    from equipoise.notions import Notion
    from experiments.paper import variants  # noqa: F401, registers methods

    problem = Problem(
        notion=Notion.parse(cell.notion),
        continuous=tuple(name for name, _, kind in cell.sensitive if kind == "continuous"),
        discrete=tuple(name for name, _, kind in cell.sensitive if kind == "discrete"),
        groups=2,
        classes=None if cell.scenario == "III" else 2,
    )
    try:
        refuse_unsupported(parse_method(method), problem)
    except InputError:
        return False
    return True


def training_of(cell: Cell) -> Cell:
    """A cell whose training run is the same: NEU never looks at the notion."""
    return replace(cell, notion="separation") if cell.method in ("neu", "neu_any_pair") else cell


def in_both_protocols(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Each cell under the paper's protocol and under the honest one, without repetition."""
    protocols: tuple[Protocol, ...] = get_args(Protocol)
    return tuple(
        dict.fromkeys(replace(cell, protocol=each) for cell in cells for each in protocols)
    )


#: Groups of cells by the name that the command line knows.
STUDIES: Mapping[str, tuple[Cell, ...]] = MappingProxyType(
    {
        "scenario1": (*_I_SP, *_I_EO),
        "scenario2": (*_II_SP, *_II_EO),
        "scenario3": _III,
        "ours": _ours(),
        "rivals": _rivals(),
        "deviations": _deviations(),
    }
)


def targets() -> tuple[str, ...]:
    """Everything that can be asked for by name."""
    return (*TABLES, *OTHER_TABLES, *FIGURES, *STUDIES, "all")


def cells_of(target: str) -> tuple[Cell, ...]:
    """Cells that a target needs, each once; tables and scenarios bring our own settings along.

    >>> len(cells_of("table12"))
    14
    """
    if target not in targets():
        near = difflib.get_close_matches(str(target), targets(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"target must be one of {', '.join(targets())}, got {target!r}{hint}")
    if target in OTHER_TABLES:
        return ()
    if target in FIGURES:
        return FIGURES[target].cells
    if target in ("rivals", "deviations"):
        return STUDIES[target]
    if target == "all":
        everything = [
            cell
            for name in (*TABLES, *FIGURES, *STUDIES)
            if name != "all"
            for cell in cells_of(name)
        ]
        return tuple(dict.fromkeys(everything))
    cells = TABLES.get(target) or STUDIES[target]
    kinds = {(cell.scenario, cell.dataset, cell.notion) for cell in cells}
    ours = [c for c in STUDIES["ours"] if (c.scenario, c.dataset, c.notion) in kinds]
    return in_both_protocols((*cells, *ours))


@cache
def published() -> pd.DataFrame:
    """Every fairness number of the paper, one a row.

    Columns: table, label (of the LaTeX source), scenario, dataset, attribute, metric, method (as
    the paper writes it), utility ("auc", "mae"), threshold (on utility), mean, std, approx_zero
    (whether the paper prints "about 0").

    >>> rows = published().query("table == 'table2' and dataset == 'adult' and method == 'SBP'")
    >>> rows[["metric", "threshold", "mean"]].to_numpy().tolist()
    [['SP', 0.85, 0.001], ['KS-GSP', 0.85, 0.014]]
    """
    with (files("experiments.paper") / "published.csv").open("r", encoding="utf-8") as text:
        return pd.read_csv(text)
