"""Frontiers of trees and networks on file: what comes back is the same, or is refused."""

import re
import sys

import numpy as np
import pytest
from family_frontiers import assert_same, fitted, kept_numbers
from small_frontiers import own_network, rows

from equipoise import FairBoostingClassifier, load
from equipoise.errors import InputError
from equipoise.frontier.fitting import flat_options
from equipoise.storage import Contents, read_model_file, write_model_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "curve.equipoise"


@pytest.mark.parametrize("name", ["boosting", "both", "three classes", "numbers, weights"])
def test_a_frontier_comes_back_the_same(name, path):
    frontier = fitted(name)
    frontier.save(path)
    again = load(path)
    assert flat_options(again) == flat_options(frontier)
    assert_same(frontier, again)
    for number in frontier.fitted_curve().snapshots.weights:
        one, two = (each.fitted_curve().model(number).health_ for each in (frontier, again))
        assert one == two
    wish = {"min_utility": float(frontier.table()["utility"].median()), "draws": 2}
    assert str(frontier.select(**wish)) == str(again.select(**wish))
    again.save(path)
    assert_same(frontier, load(path))


def test_trees_without_test_rows_are_picked_the_same(path):
    frontier = fitted("boosting")
    frontier.save(path, include_test_rows=False)
    assert not [name for name in read_model_file(path).arrays if name.startswith("test")]
    again = load(path)
    assert_same(frontier, again)
    chosen = again.select(min_utility=0.5)
    assert chosen.test_rows == 0 and chosen.snapshot == frontier.select(min_utility=0.5).snapshot


def test_a_selected_model_of_trees_can_be_kept(path):
    frontier, X = fitted("boosting"), rows().X
    frontier.save(path)
    for each in (frontier, load(path)):
        for number in kept_numbers(each, "boosting"):
            model = each.fitted_curve().model(number)
            model.save(path)
            again = load(path)
            assert type(again) is FairBoostingClassifier
            assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_the_file_holds_the_trees_that_are_needed_and_no_more(path):
    frontier = fitted("boosting")
    frontier.save(path)
    arrays = read_model_file(path).arrays
    snapshots = frontier.fitted_curve().snapshots
    needed = {}
    for number in kept_numbers(frontier, "boosting"):
        for member in frontier.fitted_curve().owner(number)[1].members:
            rounds = int(snapshots.iteration[number])
            needed[member] = max(rounds, needed.get(member, 0))
    texts = {
        int(name.rpartition(".")[2]): array.tobytes().decode("ascii")
        for name, array in arrays.items()
        if "trees." in name
    }
    assert {member: text.count("\nTree=") for member, text in texts.items()} == needed


def test_a_network_of_ones_own_beside_trees_is_handed_over_again(path):
    frontier = fitted("own network")
    assert {
        frontier.fitted_curve().owner(n)[0].name for n in frontier.fitted_curve().snapshots.weights
    } == {
        "network",
        "boosting",
    }
    frontier.save(path)
    assert_same(frontier, load(path, network=own_network))
    with pytest.raises(InputError, match=f"^network is required for '{re.escape(str(path))}'"):
        load(path)


def test_trees_are_not_loaded_without_lightgbm(path, monkeypatch):
    fitted("both").save(path)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    message = "a model of boosted trees needs lightgbm, which is not installed; "
    message += 'pip install "equipoise[boosting]"'
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        load(path)


def test_a_file_with_damaged_trees_is_refused(path):
    frontier = fitted("both")
    frontier.save(path)
    made = read_model_file(path)
    name = next(name for name in made.arrays if "trees." in name)
    text = made.arrays[name].tobytes().decode("ascii")
    last = text.count("\nTree=") - 1
    fewer = re.sub(rf"(?s)Tree={last}\n.*?(?=end of trees)", "", text)
    fewer = re.sub(r"(?m)^(tree_sizes=.*) \d+$", r"\1", fewer)
    for damaged, said in (
        (text[: len(text) // 2], "ValueError: a text of boosted trees is wrong about "),
        (fewer, f"ValueError: there are fewer than {last + 1} rounds of trees"),
    ):
        arrays = {**made.arrays, name: np.frombuffer(damaged.encode("ascii"), np.uint8)}
        write_model_file(path, Contents(made.document, arrays))
        start = f"path must name a model written by save, got '{path}', whose checksum is right "
        start += f"but whose contents are not a model ({said}"
        with pytest.raises(InputError, match=f"^{re.escape(start)}"):
            load(path)
    others = {key: array for key, array in made.arrays.items() if key != name}
    write_model_file(path, Contents(made.document, others))
    with pytest.raises(InputError, match=r"whose contents are not a model \(KeyError: "):
        load(path)
    # Each strand, the part of the file for one estimator, must belong to its estimator.
    network, trees = made.document["strands"]
    for strands in (
        [trees, network],
        [network],
        [{**network, "predictor": "boosting"}, trees],
        [network, {**trees, "predictor": "network"}],
        [network, {**trees, "template": network["template"]}],
    ):
        write_model_file(path, Contents({**made.document, "strands": strands}, made.arrays))
        with pytest.raises(InputError, match="whose contents are not a model"):
            load(path)
