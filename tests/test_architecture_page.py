"""The page on architecture says what its program measured."""

import importlib.util
import json
from pathlib import Path

import equipoise

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"


def program():
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "tools/architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_that_of_the_result_files():
    found = program()
    assert PAGE.read_text("utf-8").endswith(found.TABLE + found.before_and_after())


def test_the_pictures_show_every_room():
    rooms = {name for _, names in program().FLOORS for name in names}
    folders = {path.parent.name for path in Path(equipoise.__file__).parent.glob("*/__init__.py")}
    assert folders <= rooms


def test_public_names_stayed():
    before = json.loads((PAGE.with_suffix("") / "before.json").read_text("utf-8"))
    assert set(before["public_names"]) <= set(equipoise.__all__)
