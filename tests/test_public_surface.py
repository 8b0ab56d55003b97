"""The public names: a list, documented, typed, and of one version."""

import ast
import importlib.resources
import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import equipoise

ROOT = Path(__file__).parents[1]
API = (ROOT / "docs" / "api.md").read_text("utf-8")
BOOSTING = ("FairBoostingClassifier", "FairBoostingRegressor")
ESTIMATORS = ("FairClassifier", "FairRegressor", "FairEncoder", *BOOSTING)


def section(name: str) -> str:
    """What docs/api.md says of one public name."""
    found = re.search(rf"^## `{name}`\n(.*?)(?=^## |\Z)", API, flags=re.DOTALL | re.MULTILINE)
    assert found, f"docs/api.md has no section on {name}"
    return found.group(1)


def documented_signature(name: str) -> tuple[str, ast.arguments]:
    """What is called, and its arguments, as written in docs/api.md."""
    written = re.search(r"```text\n([\w.]+)\((.*?)\)\n```", section(name), flags=re.DOTALL)
    assert written, f"the section on {name} has no signature"
    called, arguments = written.groups()
    (function,) = ast.parse(f"def f({arguments}): ...").body
    assert isinstance(function, ast.FunctionDef)
    return called, function.args


def test_public_names_are_documented():
    assert re.findall(r"^## `(\w+)`", API, flags=re.MULTILINE) != []
    assert set(re.findall(r"^## `(\w+)`", API, flags=re.MULTILINE)) == set(equipoise.__all__)


def test_the_list_is_sorted_and_complete():
    assert list(equipoise.__all__) == sorted(equipoise.__all__)
    assert dir(equipoise) == equipoise.__all__


@pytest.mark.parametrize("name", equipoise.__all__)
def test_documented_signatures_are_the_real_ones(name):
    called, written = documented_signature(name)
    target = equipoise
    for part in called.split("."):
        target = getattr(target, part)
    real = inspect.signature(target).parameters
    positional = [p.name for p in real.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    keyword_only = [p.name for p in real.values() if p.kind is p.KEYWORD_ONLY]
    assert [a.arg for a in written.args] == positional
    # Their order means nothing to a caller.
    assert sorted(a.arg for a in written.kwonlyargs) == sorted(keyword_only)
    defaults = {
        a.arg: ast.literal_eval(value)
        for a, value in zip(
            [*written.args[len(written.args) - len(written.defaults) :], *written.kwonlyargs],
            [*written.defaults, *written.kw_defaults],
            strict=True,
        )
        if value is not None  # it must be given
    }
    assert defaults == {p.name: p.default for p in real.values() if p.default is not p.empty}


@pytest.mark.parametrize("name", equipoise.__all__)
def test_public_names_have_a_docstring_with_an_example(name):
    public = getattr(equipoise, name)
    texts = [public.__doc__ or ""]
    if inspect.isclass(public):
        texts += [inspect.getdoc(member) or "" for _, member in inspect.getmembers(public)]
    assert texts[0].strip()
    assert any(">>>" in text for text in texts)


def options_in(docstring: str) -> set[str]:
    """Names on the left of a numpydoc Parameters section, lines of several names included."""
    section = re.search(r"Parameters\n-+\n(.*?)\n\n", inspect.cleandoc(docstring), flags=re.DOTALL)
    assert section
    heads = [line.split(" : ")[0] for line in section.group(1).splitlines() if line[0] != " "]
    return {name.strip() for head in heads for name in head.split(",")}


@pytest.mark.parametrize("name", [*ESTIMATORS, "FairFrontier", "SBPPenalty"])
def test_every_option_is_in_the_docstring_and_nothing_else(name):
    public = getattr(equipoise, name)
    assert options_in(public.__doc__) == set(inspect.signature(public).parameters)


@pytest.mark.parametrize("name", ["FairClassifier", "FairBoostingClassifier"])
def test_options_of_the_classifiers_are_explained_on_the_page(name):
    rows = re.findall(r"^\| (`.*?) \|", section(name), flags=re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert explained == set(inspect.signature(getattr(equipoise, name)).parameters)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_public_methods_have_docstrings(name):
    public = getattr(equipoise, name)
    own = [
        member
        for member in ("fit", "predict", "predict_proba", "transform")
        if member in dir(public)
    ]
    assert own[0] == "fit" and len(own) >= 2
    assert [member for member in own if not getattr(public, member).__doc__] == []


def test_types_and_data_are_packaged():
    package = importlib.resources.files("equipoise")
    assert package.joinpath("py.typed").is_file()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["equipoise"]


def test_one_version_everywhere():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    stated = settings["project"]["version"]
    assert version("equipoise") == stated
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [stated]
    assert re.findall(r"^license: (.*)$", citation, flags=re.MULTILINE) == [
        settings["project"]["license"]
    ]
