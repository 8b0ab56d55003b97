"""Write the tables, the sentences on results and the figure of docs/boosting.md.

``python -m experiments pages`` replaces what stands between the marks of each block and
draws the figure; what stands outside of the marks is written by hand. A test holds the page to the
kept results.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from benchmarks.page import boosting as cost
from benchmarks.page import filled
from equipoise.report.page import escaped
from equipoise.storage import write_atomically
from experiments import RESULTS, ROOT
from experiments.boosting.evidence import (
    BOOSTING,
    BOTH,
    CONSTANT,
    FAIRGBM,
    FROM_THE_CRITIC,
    GRADIENT,
    NETWORKS,
    PEERS,
    PLAIN,
    READINGS,
    Contenders,
    Evidence,
    Trials,
    better_reading,
    can_run,
    paired,
    read_evidence,
)
from experiments.paper.figures import Panel, Points, draw_panels
from experiments.paper.layout import DATA_NAMES, NOT_RUN, Shown, Text, number, shown, signed
from experiments.paper.plan import Cell, Protocol
from experiments.paper.results import CellResult, measure_column, reported_fronts, test_hypervolumes
from experiments.paper.tables import NO_SETTINGS, TRADE_OFF

PAGE = ROOT / "docs" / "boosting.md"
FIGURE = PAGE.parent / "images" / "boosting.svg"
#: Columns of the tables of areas.
SHOWN = (BOOSTING, NETWORKS, BOTH, PLAIN, GRADIENT, FAIRGBM)
#: A shortfall above this is named as large.
LARGE = 0.02


def blocks(evidence: Evidence) -> dict[str, str]:
    """Every block by the name of its mark."""
    return {
        "honest": honest(evidence),
        "paper": by_the_paper(evidence),
        "goal": goal(evidence),
        "cost": cost(),
        "trials": trials(evidence.trials),
    }


def _wide(evidence: Evidence, protocol: Protocol) -> pd.DataFrame:
    """Mean areas: a row for each trade-off, a column for each of `SHOWN`."""
    areas = evidence.areas[evidence.areas["protocol"] == protocol]
    means = areas.groupby([*TRADE_OFF, "contender"])["area"].mean()
    wide = better_reading(means.unstack("contender"))
    order = pd.MultiIndex.from_frame(
        areas[TRADE_OFF].drop_duplicates().sort_values("scenario", kind="stable")
    )
    return wide.reindex(index=order, columns=list(SHOWN))


def _about(index: Sequence[str]) -> list[str]:
    scenario, dataset, notion, metric, attribute = index
    return [scenario, DATA_NAMES[dataset], notion, f"{metric} {attribute}"]


ABOUT = ["scenario", "data", "notion", "measure"]


def area_table(evidence: Evidence, protocol: Protocol) -> Shown:
    """Mean areas, the largest in bold; a dash where a contender cannot run."""
    places = {(c.scenario, c.dataset, c.notion): c for c in evidence.of(protocol)}
    open_cells = {cell for cell, _ in evidence.missing}
    lines: list[list[str | Text]] = []
    for index, row in _wide(evidence, protocol).round(3).iterrows():
        assert isinstance(index, tuple)
        cell = places[index[:3]]
        # Nobody is the best of those who have finished.
        most = math.nan if cell in open_cells else row.max()
        lines.append([*_about(index), *(_entry(row[name], most, name, cell) for name in SHOWN)])
    return shown([*ABOUT, *SHOWN], lines, labels=len(ABOUT))


def _entry(area: float, most: float, name: str, cell: Cell) -> Text:
    if math.isnan(area):
        # Either reading of a peer's score can run where the other can.
        names = [each for each in (*PEERS, name) if each.startswith(name)]
        return Text(NOT_RUN if can_run(names[0], cell) else "-")
    return Text(number(area), area == most)


def most_in(evidence: Evidence, protocol: Protocol) -> str:
    """How often each has the largest area where all have finished, in sentences."""
    open_places = {
        (cell.scenario, cell.dataset, cell.notion)
        for cell, _ in evidence.missing
        if cell.protocol == protocol
    }
    exact = _wide(evidence, protocol)
    exact = exact[[index[:3] not in open_places for index in exact.index]]
    wide, apart = exact.round(3), exact.drop(columns=BOTH).round(3)
    counts, alone = (
        ", ".join(f"{name} in {(table[name] == table.max(axis=1)).sum()}" for name in table)
        for table in (wide, apart)
    )
    finished = " in which all runs are finished" if open_places else ""
    said = (
        f"Of {len(wide)} trade-offs{finished} the largest mean area, ties counted for all, has: "
        f"{counts}. With the two families counted only by themselves: {alone}."
    )
    if protocol == "paper":
        return said
    below = (exact[BOTH] < exact[[BOOSTING, NETWORKS]].max(axis=1)).sum()
    return (
        f"{said} In {below} both together reach less than the better family by itself, since the "
        "front is chosen on other rows than it is measured on."
    )


def against_table(evidence: Evidence, protocol: Protocol) -> Shown:
    """Fair boosting, and both families together, beside each of the others in pairs."""
    areas = evidence.areas[evidence.areas["protocol"] == protocol]
    present = set(areas["contender"])
    lines = []
    for other in (name for name in (NETWORKS, *PEERS) if name in present):
        line: list[str] = []
        for one in (name for name in (BOOSTING, BOTH) if name in present):
            mine, theirs = paired(areas, one, other)
            if not mine.size:
                line += ["-"] * 3
                continue
            differences = mine - theirs
            means = differences.mean(axis=1)
            line += [
                f"{(means > 0).sum()} of {len(means)}",
                f"{(differences > 0).sum()} of {differences.size}",
                signed(means.mean()),
            ]
        lines.append([other, *line])
    header = ["beside"]
    for one in (BOOSTING, BOTH):
        header += [f"{one}: more area in trade-offs", "in splits of them", "mean difference"]
    return shown(header, lines, labels=1)


def unfinished(evidence: Evidence, protocol: Protocol) -> list[str]:
    """What is not finished, in a sentence; none where everything is."""
    # Both readings of a mixture are missing where the mixture is.
    named = dict.fromkeys(
        f"{name.partition(', ')[0]} on {DATA_NAMES[cell.dataset]}, Scenario {cell.scenario}, "
        f"{cell.notion}"
        for cell, name in evidence.missing
        if cell.protocol == protocol
    )
    return [f"Not finished: {'; '.join(named)}."] if named else []


def _details(summary: str, content: str) -> str:
    return f"<details>\n<summary>{escaped(summary)}</summary>\n\n{content}\n\n</details>"


def _records(evidence: Evidence, protocol: Protocol) -> str:
    table = records_table(evidence, protocol).markdown()
    return _details("Device, versions and settings of everything in this table", table)


def honest(evidence: Evidence) -> str:
    """Areas on test rows."""
    parts = [
        area_table(evidence, "honest").markdown(),
        escaped(most_in(evidence, "honest")),
        *map(escaped, unfinished(evidence, "honest")),
        against_table(evidence, "honest").markdown(),
        _records(evidence, "honest"),
    ]
    return "\n\n".join(parts)


def by_the_paper(evidence: Evidence) -> str:
    """Areas on the rows that picked."""
    wide = {name: _wide(evidence, name) for name in ("paper", "honest")}
    higher = (wide["paper"] - wide["honest"]).mean()
    flattered = ", ".join(f"{name} {signed(each)}" for name, each in higher.items())
    parts = [
        escaped(most_in(evidence, "paper")),
        escaped(f"Mean area above that on test rows: {flattered}."),
        *map(escaped, unfinished(evidence, "paper")),
        _details("Areas by the paper's protocol", area_table(evidence, "paper").markdown()),
        _records(evidence, "paper"),
    ]
    return "\n\n".join(parts)


def goal(evidence: Evidence) -> str:
    """Whether the joint frontier is level with every point of every peer, and where it is not."""
    table = evidence.against_peers
    behind = table[table["level"] < table["points"]]
    level, points = int(table["level"].sum()), int(table["points"].sum())
    open_runs = unfinished(evidence, "honest")
    met = "is met as far as runs are finished" if open_runs else "is met"
    verdict = met if behind.empty else "is not met"
    sentences = [
        f"The goal {verdict}: both families together are at least level with {level} of {points} "
        f"points that peers report ({level / points:.1%}), and with all of them in "
        f"{len(table) - len(behind)} of {len(table)} pairs of a trade-off and a peer.",
    ]
    if not behind.empty:
        large = int((behind["shortfall"] > LARGE).sum())
        sentences.append(
            f"Of the {len(behind)} pairs with a point that is missed, {large} have a shortfall of "
            f"more than {LARGE:g} somewhere."
        )
    counts = {
        name: [
            len(points)
            for cell, found in evidence.of("honest").items()
            if name in found
            for metric, attribute in cell.measures
            for points in reported_fronts(found[name], f"{metric} {attribute}")
        ]
        for name in (BOTH, *PEERS)
    }
    sizes = ", ".join(
        f"{name} {sum(found) / len(found):.1f}" for name, found in counts.items() if found
    )
    sentences.append(f"Mean number of points reported in a trade-off and split: {sizes}.")
    parts = [escaped(" ".join(sentences)), peers_table(table).markdown()]
    if not behind.empty:
        parts.append(_details("Every trade-off with a point that is missed", _missed(behind)))
    return "\n\n".join(parts)


def peers_table(table: pd.DataFrame) -> Shown:
    """A row for each peer."""
    lines = []
    for peer, mine in table.groupby("peer", sort=False):
        points, everywhere = mine["points"].sum(), (mine["level"] == mine["points"]).sum()
        worst = mine.iloc[int(mine["shortfall"].argmax())]
        where = ", ".join(_about([str(worst[name]) for name in TRADE_OFF]))
        shortfall = number(worst["shortfall"])
        lines.append(
            [
                str(peer),
                f"{mine['level'].sum()} of {points}",
                f"{mine['boosting_level'].sum()} of {points}",
                f"{everywhere} of {len(mine)}",
                f"{shortfall} ({where})" if worst["shortfall"] > 0 else shortfall,
            ]
        )
    header = ["peer", "its points that both together are level with"]
    header += ["that fair boosting alone is", "trade-offs with all points", "worst shortfall"]
    return shown(header, lines, labels=1)


def _missed(behind: pd.DataFrame) -> str:
    lines = []
    for _, row in behind.iterrows():
        about = _about([str(row[name]) for name in TRADE_OFF])
        missed = f"{row['points'] - row['level']} of {row['points']}"
        lines.append([str(row["peer"]), *about, missed, number(float(row["shortfall"]))])
    header = ["peer", *ABOUT, "points missed", "worst shortfall"]
    return shown(header, lines, labels=5).markdown()


def trials(found: Trials) -> str:
    """What the trial of settings reached, best first."""
    everything, separation = found.areas(), found.areas("separation")
    means = pd.DataFrame({"all": everything.mean(), "separation": separation.mean()})
    lines: list[list[str | Text]] = []
    for config, row in means.sort_values(["all", "separation"], ascending=False).iterrows():
        areas = [Text("-") if pd.isna(each) else Text(number(each)) for each in row]
        lines.append([found.words[str(config)], *areas])
    header = ["settings", f"mean area, {len(everything)} trade-offs and splits"]
    header += [f"separation only, {len(separation)}"]
    lost = [
        f"{row.config} on {row.dataset} ({row.attributes}, {row.notion}), split {row.split}"
        for row in found.lost.itertuples()
    ]
    parts = [
        escaped(_hessian(found, everything)),
        escaped(
            f"Base: {found.about['base']}. Device: {found.about['device']}; versions: "
            f"{found.about['versions']}. Means are over what all settings have; lost to an "
            f"undefined value of a measure: {'; '.join(lost) or 'none'}."
        ),
        _details("All settings tried", shown(header, lines, labels=1).markdown()),
    ]
    return "\n\n".join(parts)


def _hessian(found: Trials, areas: pd.DataFrame) -> str:
    """Hessians from the critic beside the constant, in a sentence."""
    constant = areas[CONSTANT]
    texts = []
    for config in FROM_THE_CRITIC:
        difference = areas[config] - constant
        error = difference.std() / math.sqrt(len(difference))
        what = found.words[config].removeprefix("Hessian of the penalty: ")
        texts.append(
            f"{signed(difference.mean())} (standard error {number(error)}, more in "
            f"{(difference > 0).sum()} of {len(difference)}) for {what}"
        )
    return (
        f"Mean test area beside that of the constant ({number(float(constant.mean()))}): "
        f"{'; '.join(texts)}."
    )


def main() -> None:
    """Write page and figure."""
    evidence = read_evidence(RESULTS)
    page = filled(PAGE.read_text("utf-8"), blocks(evidence))
    PAGE.write_text(page, encoding="utf-8")
    write_picture(evidence, FIGURE)


_PROGRAMS = {program: name for name, program in PEERS.items()} | {
    "exponentiated_gradient": GRADIENT
}


def records_table(evidence: Evidence, protocol: Protocol) -> Shown:
    """A row for each contender, or for each of its runs where they differ."""
    lines = []
    for name in (BOOSTING, NETWORKS):
        results = [found[name] for found in evidence.of(protocol).values() if name in found]
        records = [result.record for result in results]
        if records:
            lines.append([name, *_where(records), _options(records)])
    for program, runs in evidence.peers.items():
        for run in runs:
            settings = _listed({key: [_text(each)] for key, each in run["settings"].items()})
            lines.append([_PROGRAMS[program], *_where([run]), settings])
    return shown(["contender", "device", "versions", "settings"], lines, labels=1)


def _where(records: Iterable[Mapping[str, Any]]) -> list[str]:
    records = list(records)
    versions = [
        ", ".join(f"{name} {number}" for name, number in record["versions"].items())
        for record in records
    ]
    return [_joined(record["device"] for record in records), _joined(versions)]


def _options(records: Iterable[Mapping[str, Any]]) -> str:
    """Every option with all its values, the commonest first."""
    values: dict[str, list[str]] = {}
    for record in records:
        size = record["size"]
        given = {
            **{name: each for name, each in record["options"].items() if name not in NO_SETTINGS},
            "strengths": record["strengths"],
            "splits": size["splits"],
            "judged every": size.get("evaluate_every"),
        }
        for name, value in given.items():
            values.setdefault(name, []).append(_text(value))
    return _listed(values)


def _listed(values: Mapping[str, Iterable[str]]) -> str:
    return ", ".join(f"{name}={_joined(found)}" for name, found in values.items())


def _joined(texts: Iterable[str]) -> str:
    return " or ".join(text for text, _ in Counter(texts).most_common())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


#: Marker and color of each contender (Okabe and Ito's palette, as the other figures).
LOOKS: Mapping[str, tuple[str, str]] = {
    BOOSTING: ("o", "#0072B2"),
    NETWORKS: ("^", "#D55E00"),
    PLAIN: ("x", "#000000"),
    GRADIENT: ("D", "#CC79A7"),
    FAIRGBM: ("v", "#009E73"),
}
#: Scenarios in the rows of the figure: with one attribute, regression among them, and with two.
_ROWS = (("I", "III"), ("II",))
_DPI = 72


def panels(evidence: Evidence) -> list[list[Panel]]:
    """A row for each notion with one attribute, then with two."""
    places = evidence.of("honest")
    rows = []
    for scenarios in _ROWS:
        for notion in ("independence", "separation"):
            chosen = {
                cell: found
                for cell, found in places.items()
                if cell.scenario in scenarios and cell.notion == notion
            }
            ordered = sorted(chosen, key=lambda cell: (cell.scenario, cell.dataset))
            rows.append(
                [
                    _panel(cell, metric, attribute, chosen[cell])
                    for cell in ordered
                    for metric, attribute in cell.measures
                    if metric.startswith("KS")
                ]
            )
    return rows


def _panel(cell: Cell, metric: str, attribute: str, contenders: Contenders) -> Panel:
    measure = measure_column(metric, attribute)
    readings = [contenders[name] for name in READINGS.values() if name in contenders]
    shown = dict(contenders)
    if readings:
        shown[GRADIENT] = max(
            readings, key=lambda result: float(test_hypervolumes(result, measure).mean())
        )
    points = tuple(
        _points(name, shown[name], measure, *look) for name, look in LOOKS.items() if name in shown
    )
    utility = "R2" if cell.scenario == "III" else "AUC"
    return Panel(f"{DATA_NAMES[cell.dataset]}, {attribute}", metric, utility, points, ())


def _points(name: str, result: CellResult, measure: str, marker: str, color: str) -> Points:
    found = np.concatenate(reported_fronts(result, measure))
    return Points(name, marker, color, found[:, 1], found[:, 0])


def write_picture(evidence: Evidence, path: Path) -> None:
    """Draw all panels into an SVG whose points are pixels, to keep it small."""
    figure = draw_panels("Scenario I and Crime, then Scenario II", panels(evidence))
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", dpi=_DPI, metadata={"Date": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
