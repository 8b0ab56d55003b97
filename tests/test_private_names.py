"""No room calls another's private names, and nobody calls those of other packages."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "equipoise"
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
#: What the standard library documents with an underscore: named tuples have no other names.
DOCUMENTED = {"_asdict", "_fields", "_make", "_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_"


def room(path: Path) -> str:
    """The folder under the package that a file is in, or the file itself."""
    return path.parts[0]


def defined(tree: ast.AST) -> Iterator[str]:
    """Private names that a source defines: functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and private name of everything a source takes from another object or module."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                parts = [*module.split("."), *(alias.name for alias in names)]
                yield from ((node.lineno, part) for part in parts if is_private(part))
            case ast.Attribute(value=value, attr=name) if is_private(name):
                if not (isinstance(value, ast.Name) and value.id in ("self", "cls")):
                    yield node.lineno, name


def test_reading_private_names_sees_every_form():
    source = "from a._b import _c, d\nself._e\nx._f\nx.__dict__\ny().z._g = 1\n"
    assert [name for _, name in used(ast.parse(source))] == ["_b", "_c", "_f", "_g"]


@pytest.fixture(scope="module")
def own_names():
    names: dict[str, set[str]] = {}
    for path in FILES:
        tree = ast.parse((PACKAGE / path).read_text("utf-8"))
        names.setdefault(room(path), set()).update(filter(is_private, defined(tree)))
    return names


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_module_calls_private_names_of_its_own_room_only(path, own_names):
    tree = ast.parse((PACKAGE / path).read_text("utf-8"))
    allowed = own_names[room(path)] | DOCUMENTED
    assert [f"line {line}: {name}" for line, name in used(tree) if name not in allowed] == []


def test_no_two_classes_have_the_same_name():
    places = {}
    for path in FILES:
        for node in ast.walk(ast.parse((PACKAGE / path).read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
