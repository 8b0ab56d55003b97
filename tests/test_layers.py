"""The one-way flow: a module imports only from modules above it."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "equipoise"
ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"

ORDER = (
    "errors",
    "cores",
    "words",
    "notions",
    "scales",
    "cluster",
    "pareto",
    "tables",
    "datasets",
    "networks",
    "divergences",
    "training",
    "density_ratio",
    "critic",
    "penalty",
    "methods",
    "predictors",
    "metrics",
    "inference",
    "storage",
    "estimators",
    "frontier",
    "report",
    "auditing",
    "files",
    "distributed",
    "runs",
    "cli",
)
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def layer(path: Path) -> str:
    """Name of the top-level module a file belongs to."""
    return path.parts[0].removesuffix(".py")


def imported_modules(source: str) -> Iterator[str]:
    """Full names of everything a source imports, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # Relative imports would hide where a name comes from.
            yield "." * node.level + (node.module or "")


def test_reading_imports_sees_every_form():
    source = "import a.b, c\nfrom d.e import f\ndef g():\n    from .h import i\n"
    assert list(imported_modules(source)) == ["a.b", "c", "d.e", ".h"]


def test_every_module_has_its_place():
    layers = {layer(path) for path in FILES} - {"__init__"}
    assert sorted(layers - set(ORDER)) == []


@pytest.mark.parametrize("path", [path for path in FILES if layer(path) != "__init__"], ids=str)
def test_a_module_imports_only_from_above(path):
    place = ORDER.index(layer(path))
    for name in imported_modules((PACKAGE / path).read_text("utf-8")):
        assert not name.startswith("."), f"{path} imports {name}: write the full name"
        package, _, rest = name.partition(".")
        if package == "equipoise":
            assert rest, f"{path} imports from the package itself, which is below everything"
            above = rest.split(".")[0]
            assert ORDER.index(above) <= place, f"{path} imports {above}, which is below it"


def test_what_only_we_run_is_not_shipped():
    """The package imports no experiment, benchmark or test, and the wheel has none."""
    ours = {"experiments", "benchmarks", "tests", "conftest"}
    for path in FILES:
        names = imported_modules((PACKAGE / path).read_text("utf-8"))
        assert not {name.partition(".")[0] for name in names} & ours, path
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    (where,) = project["packages"]["find"]["where"]
    packages = {path.parent.name for path in (ROOT / where).glob("*/__init__.py")}
    assert packages == {"equipoise"}
    assert {name.partition(".")[0] for name in project["package-data"]} == packages


def test_whatever_a_test_waits_for_has_a_time_limit():
    """Processes that are run, and processes that are waited for."""
    waits = {("subprocess", name) for name in ("run", "call", "check_call", "check_output")}
    endless = []
    for path in (*TESTS.rglob("*.py"), *(ROOT / "experiments" / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.func.attr
                waiting = (getattr(node.func.value, "id", None), name) in waits
                if (waiting or name in ("communicate", "wait")) and not any(
                    each.arg == "timeout" for each in node.keywords
                ):
                    endless.append(f"{path.relative_to(ROOT)}, line {node.lineno}")
    assert endless == []
