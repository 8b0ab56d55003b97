"""Numbers and pictures of docs/architecture.md, from the code.

    python tools/architecture.py measure --out docs/architecture/after.json
    python tools/architecture.py draw

``measure`` looks at the package that Python imports, so that ``PYTHONPATH`` chooses an older one.
``draw`` draws both pictures and writes the table of the page from before.json and after.json.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import pkgutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PICTURES = PAGE.with_suffix("")
#: Heading of the table in the page.
TABLE = "## Before and after\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure", help="count files, lines and what one fit passes")
    measure.add_argument("--out", type=Path, required=True, help="JSON file to write")
    commands.add_parser("draw", help="draw the pictures and write the table of the page")
    options = parser.parse_args()
    if options.command == "measure":
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(measured(), indent=1) + "\n", "utf-8")
    else:
        draw_rooms(PICTURES / "rooms.svg")
        draw_batch(PICTURES / "batch.svg")
        text, _, _ = PAGE.read_text("utf-8").partition(TABLE)
        PAGE.write_text(text + TABLE + before_and_after(), "utf-8")


def measured() -> dict[str, Any]:
    """Count files and lines of the package and of each room, and the functions that a fit calls."""
    import equipoise

    package = Path(equipoise.__file__).parent
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in package.rglob("*.py")}
    ways = {
        "FairClassifier().fit": fit_a_classifier,
        "equipoise fit": fit_on_the_command_line,
    }
    for module in pkgutil.walk_packages(equipoise.__path__, "equipoise."):
        if ".kernels" not in module.name:  # kernels need Triton; bodies of classes are no calls
            import_module(module.name)
    called = {way: functions_called(work) for way, work in ways.items()}
    git = ["git", "-C", str(package), "rev-parse", "--short", "HEAD"]
    return {
        "commit": subprocess.run(
            git, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip(),
        "python": sys.version.split()[0],
        "files": len(lengths),
        "lines": sum(lengths.values()),
        "median_lines": statistics.median(lengths.values()),
        "files_under_50_lines": sum(length < 50 for length in lengths.values()),
        "passes_through": {
            way: {"modules": len({module for module, _ in names}), "functions": len(names)}
            for way, names in called.items()
        },
        "rooms": rooms(package, lengths),
        "public_names": sorted(equipoise.__all__),
    }


def before_and_after() -> str:
    """Return the table of both measurements, with their commits."""
    before, after = (
        json.loads((PICTURES / f"{name}.json").read_text("utf-8")) for name in ("before", "after")
    )
    rows = [
        ("files in `src/equipoise`", *(each["files"] for each in (before, after))),
        ("lines", *(each["lines"] for each in (before, after))),
        ("median lines of a file", *(f"{each['median_lines']:g}" for each in (before, after))),
        ("files under 50 lines", *(each["files_under_50_lines"] for each in (before, after))),
        (
            "rooms (folders)",
            *(
                sum(room["files"] > 1 for room in each["rooms"].values())
                for each in (before, after)
            ),
        ),
    ]
    for way in after["passes_through"]:
        for what in ("modules", "functions"):
            found = (each["passes_through"][way][what] for each in (before, after))
            rows.append((f"{what} that one `{way}` passes through", *found))
    gone, new = (
        sorted(set(a) - set(b))
        for a, b in (
            (before["public_names"], after["public_names"]),
            (after["public_names"], before["public_names"]),
        )
    )
    named = [f"gone: {', '.join(gone)}" if gone else "", f"new: {', '.join(new)}" if new else ""]
    names = "; ".join(filter(None, named)) or "the same"
    lines = ["", "| | before | after |", "| --- | --- | --- |"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    lines += [
        "",
        f"Public names of `equipoise`: {names}. Before is commit {before['commit']}, after is "
        f"{after['commit']}; Python {after['python']}. One",
        "`equipoise fit` is that of a CSV file with 400 rows, report and model card included.",
    ]
    return "\n".join(lines) + "\n"


def rooms(package: Path, lengths: dict[Path, int]) -> dict[str, dict[str, Any]]:
    """Files, lines and the first line of the docstring of each folder and top-level file."""
    found = {}
    for place in sorted(package.iterdir()):
        inside = [path for path in lengths if path == place or place in path.parents]
        if not inside or place.name in ("__init__.py", "__pycache__"):
            continue
        opening = place if place.is_file() else place / "__init__.py"
        words = ast.get_docstring(ast.parse(opening.read_text("utf-8"))) or ""
        found[place.stem] = {
            "files": len(inside),
            "lines": sum(lengths[path] for path in inside),
            "words": words.splitlines()[0] if words else "",
        }
    return found


def functions_called(work: Callable[[], None]) -> list[tuple[str, str]]:
    """Module and qualified name of every function of equipoise that ``work`` calls, in order."""
    called: dict[tuple[str, str], None] = {}

    def look(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("equipoise"):
            name = frame.f_code.co_qualname
            # What runs at import is no part of the way, nor are expressions inside a function.
            if name != "<module>" and not name.rpartition(".")[2].startswith("<"):
                called[module, name] = None

    first_rows()  # loads them, which is no part of the way either
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(called)


@functools.cache
def first_rows() -> tuple[Any, Any, Any]:
    """Features, outcome and sensitive features of 400 rows."""
    from equipoise.datasets import load_dataset

    data = load_dataset("synthetic")
    return data.X.iloc[:400], data.y.iloc[:400], data.A.iloc[:400]


def fit_a_classifier() -> None:
    """A network of 20 iterations."""
    from equipoise import FairClassifier

    X, y, A = first_rows()
    FairClassifier(iterations=20, random_state=0).fit(X, y, sensitive_features=A)


def fit_on_the_command_line() -> None:
    """``equipoise fit`` of 400 rows, of two strengths and 20 iterations, in a folder of its own."""
    from equipoise.cli import main as equipoise

    X, y, A = first_rows()
    frame = X.assign(y=y, **dict(A.items()))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.csv"
        frame.to_csv(source, index=False)
        sys.argv = [
            *("equipoise", "fit", str(source), "--target", "y"),
            *("--sensitive", ",".join(A.columns), "--out", str(Path(folder) / "run")),
            *("--strengths", "0,0.5", "--seeds", "1", "--iterations", "20", "--max-gap", "0.9"),
        ]
        try:
            equipoise()
        except SystemExit as ended:
            assert not ended.code, f"equipoise fit ended with {ended.code}"


def iteration() -> list[tuple[int, str, str]]:
    """Depth, module and function of what one iteration calls; the second, when all is ready."""
    from equipoise import FairClassifier

    X, y, A = first_rows()
    seen: list[tuple[int, str, str]] = []
    steps = depth = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal steps, depth
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
        if event not in ("call", "return") or not module.startswith("equipoise"):
            return
        if name == "BatchStream.draw" and event == "call":
            steps += 1
        if name.rpartition(".")[2].startswith("<"):
            return
        if event == "call":
            if steps == 2:
                seen.append((depth, module.removeprefix("equipoise."), name))
            depth += 1
        else:
            depth -= 1

    model = FairClassifier(strength=0.5, iterations=3, random_state=0)
    sys.setprofile(look)
    try:
        model.fit(X, y, sensitive_features=A)
    finally:
        sys.setprofile(None)
    least = min(level for level, _, _ in seen)
    return [(level - least, module, name) for level, module, name in seen]


#: Rooms from what comes in to what goes out, as data flow.
FLOORS = (
    ("what comes in", ("tables", "datasets", "files", "cluster")),
    ("the paper, in four files", ("divergences", "critic", "density_ratio", "penalty")),
    ("the engine", ("networks", "training", "methods", "predictors")),
    ("numbers", ("metrics", "inference", "pareto")),
    ("what users call", ("estimators", "frontier", "auditing", "distributed")),
    ("what they keep and read", ("storage", "report", "runs", "cli")),
)


def draw_rooms(path: Path) -> None:
    """Draw each floor as a row of rooms, as wide as they have lines."""
    from matplotlib.figure import Figure

    import equipoise

    package = Path(equipoise.__file__).parent
    lengths = {each: len(each.read_text("utf-8").splitlines()) for each in package.rglob("*.py")}
    found = rooms(package, lengths)
    figure = Figure(figsize=(10, 6.2))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10), ylim=(len(FLOORS), 0))
    axes.axis("off")
    for floor, (words, names) in enumerate(FLOORS):
        axes.text(0.1, floor + 0.5, words, va="center", fontsize=10, style="italic")
        width = 7.6 / len(names)
        for place, name in enumerate(names):
            left = 2.3 + place * width
            axes.add_patch(_box(left, floor + 0.12, width - 0.12, 0.76))
            room = found[name]
            many = f"{room['files']} files, " if room["files"] > 1 else ""
            axes.text(left + 0.1, floor + 0.4, name, fontsize=11, weight="bold", va="center")
            axes.text(
                left + 0.1, floor + 0.66, f"{many}{room['lines']} lines", fontsize=8.5, va="center"
            )
        if floor:
            axes.annotate(
                "", (6.1, floor + 0.11), (6.1, floor - 0.11), arrowprops={"arrowstyle": "->"}
            )
    _save(figure, path)


def draw_batch(path: Path) -> None:
    """Draw what one training iteration calls, in order, indented by depth."""
    from matplotlib.figure import Figure

    lines = [each for each in dict.fromkeys(iteration()) if each[0] <= 5]
    figure = Figure(figsize=(10, 0.27 * len(lines) + 0.4))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10), ylim=(len(lines) + 0.3, -0.5))
    axes.axis("off")
    for row, (depth, module, name) in enumerate(lines):
        axes.text(0.2 + 0.35 * depth, row, name, fontsize=9.5, va="center")
        axes.text(9.8, row, module, fontsize=8.5, va="center", ha="right", color="#555555")
        if row % 2:
            axes.axhspan(row - 0.5, row + 0.5, color="#f2f2f2", zorder=0)
    _save(figure, path)


def _box(left: float, top: float, width: float, height: float) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (left, top),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.06",
        fc="#eef3f8",
        ec="#5b7a99",
    )


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
