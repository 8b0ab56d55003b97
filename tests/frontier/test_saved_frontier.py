"""A saved frontier answers as before, bit for bit; no file does anything else but be refused."""

import json
import os
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from small_frontiers import NAMES, SMALL, fitted, own_network, rows

from equipoise import FairClassifier, FairFrontier, load
from equipoise.errors import InputError
from equipoise.frontier.fitting import flat_options
from equipoise.storage import Contents, read_model_file, write_model_file
from tests.composing import composed


@pytest.fixture
def path(tmp_path):
    return tmp_path / "curve.equipoise"


def assert_same_frontier(first, second, X):
    """Every question gets the same answer, to the last bit."""
    pd.testing.assert_frame_equal(first.table(), second.table(), check_exact=True)
    pd.testing.assert_frame_equal(first.members(), second.members(), check_exact=True)
    assert (first.utility_, first.sensitive_) == (second.utility_, second.sensitive_)
    for part in ("train", "validation", "test"):
        assert np.array_equal(getattr(first.split_, part), getattr(second.split_, part))
    for part, array in vars(first.history_).items():
        np.testing.assert_array_equal(array, getattr(second.history_, part), strict=True)
    for name in ("age", "group"):
        pd.testing.assert_frame_equal(
            first.front(attribute=name), second.front(attribute=name), check_exact=True
        )
        assert first.hypervolume(attribute=name) == second.hypervolume(attribute=name)
        lines = [each.plot(attribute=name).axes[0].lines[0] for each in (first, second)]
        assert np.array_equal(lines[0].get_xydata(), lines[1].get_xydata())
    for share in (0.0, 0.5, 1.0):
        wish = {"min_utility": float(first.table()["utility"].quantile(share)), "draws": 5}
        wish["allow_useless"] = True
        one, two = first.select(**wish), second.select(**wish)
        assert str(one) == str(two)
        pd.testing.assert_frame_equal(one.to_frame(), two.to_frame(), check_exact=True)
        assert np.array_equal(one.model.predict(X), two.model.predict(X))
        assert one.model.health_ == two.model.health_
        assert one.model.get_params() == two.model.get_params()
        assert one.model.sensitive_ == two.model.sensitive_
        assert vars(one.model).keys() == vars(two.model).keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_frontier_comes_back_the_same(name, path):
    frontier, X = fitted(name), rows("regression" if "numbers" in name else "classification").X
    frontier.save(path)
    again = load(path)
    assert type(again) is FairFrontier
    assert flat_options(again) == flat_options(frontier)
    assert_same_frontier(frontier, again, X)
    again.save(path)
    assert_same_frontier(frontier, load(path), X)


def test_every_kept_model_comes_back(path):
    frontier = fitted("three classes, ensemble")
    frontier.save(path)
    again, X = load(path), rows().X
    for number in np.flatnonzero(frontier.table()["on_front"]).tolist():
        first, second = (each.fitted_curve().model(number) for each in (frontier, again))
        assert np.array_equal(first.predict_proba(X), second.predict_proba(X))


def test_a_selected_model_of_a_loaded_frontier_can_be_kept(path):
    frontier = fitted("two classes, ensemble")
    frontier.save(path)
    model = load(path).select(min_utility=0.5, draws=2).model
    model.save(path)
    assert np.array_equal(load(path).predict_proba(rows().X), model.predict_proba(rows().X))
    assert isinstance(load(path), FairClassifier)


def test_training_a_loaded_frontier_anew_gives_the_same(path):
    data, frontier = rows(), fitted("separation")
    frontier.save(path)
    again = clone(load(path)).fit(data.X, data.y, sensitive_features=data.A)
    pd.testing.assert_frame_equal(again.table(), frontier.table(), check_exact=True)


def test_a_network_of_ones_own_is_handed_over_again(path):
    frontier, X = fitted("own network"), rows().X
    frontier.save(path)
    assert_same_frontier(frontier, load(path, network=own_network), X)
    with pytest.raises(InputError, match=f"^network is required for '{re.escape(str(path))}'"):
        load(path)
    fitted("separation").save(path)
    with pytest.raises(InputError, match=r"^network must be left out for "):
        load(path, network=own_network)


def test_without_test_rows_it_picks_the_same_and_says_that_it_can_not_report(path):
    frontier = fitted("two classes, ensemble")
    frontier.save(path)
    whole = path.stat().st_size
    frontier.save(path, include_test_rows=False)
    assert not [name for name in read_model_file(path).arrays if name.startswith("test")]
    assert path.stat().st_size < whole
    again = load(path)
    pd.testing.assert_frame_equal(again.table(), frontier.table(), check_exact=True)
    first, second = (each.select(min_utility=0.5, draws=2) for each in (frontier, again))
    assert (first.snapshot, first.test_rows, second.test_rows) == (second.snapshot, 300, 0)
    assert np.array_equal(first.model.predict(rows().X), second.model.predict(rows().X))
    frames = [each.to_frame() for each in (first, second)]
    assert frames[0]["validation"].tolist() == frames[1]["validation"].tolist()
    assert frames[1][["test", "low", "high", "chance", "certificate"]].isna().all(axis=None)
    assert second.holds_on_test is None
    said = " ".join(str(second).split())
    assert "There are no test rows any more." in said
    assert f": AUC {second.rows[0].validation:.4f} on validation rows, limit: at least 0.5" in said
    assert "test rows, used neither" not in said and "certificate" not in said.lower()
    again.save(path)  # what is gone stays gone
    assert load(path).select(min_utility=0.5).test_rows == 0


def test_the_file_holds_no_features_and_no_training_rows(path):
    frontier, data = fitted("two classes, ensemble"), rows()
    frontier.save(path)
    arrays = read_model_file(path).arrays
    # Per row there are, beside positions: outcome, scores and sensitive columns of test rows.
    long = {name for name, array in arrays.items() if len(array.shape) and len(array) == 300}
    kept = np.flatnonzero(frontier.table()["on_front"]).tolist()
    scores = {f"test_scores.{number}" for number in kept}
    assert long == scores | {
        *("split.validation", "split.test", "test.y"),
        *("test.values.0", "test.scores.0", "test.codes.1"),
    }
    positions = frontier.split_.test
    assert np.array_equal(arrays["test.values.0"], data.A["age"].iloc[positions])
    # Scaling by ranks keeps knots of the features, as in any saved model; nothing else is as long.
    longest = max(len(a) for n, a in arrays.items() if a.ndim and not n.startswith("template."))
    assert longest == len(frontier.split_.train) == len(arrays["split.train"])


def test_categories_of_every_type_come_back(path):
    data = rows()
    people = {
        "age": pd.cut(data.A["age"], 3),  # intervals
        "group": data.A["group"].map({"a": True, "b": False, "c": True}),
    }
    frontier = composed(**{**SMALL, "seeds": 1, "iterations": 10})
    frontier.fit(data.X, data.y, sensitive_features=pd.DataFrame(people))
    frontier.save(path)
    assert_same_frontier(frontier, load(path), data.X)


def test_positions_as_an_array_come_back(path):
    data = rows()
    options = {"validation": np.arange(100), "test": range(100, 250, 1), "metrics": ["KS-GSP"]}
    frontier = composed(**{**SMALL, "seeds": 1, "iterations": 10, **options})
    frontier.fit(data.X, data.y, sensitive_features=data.A)
    frontier.save(path)
    again = load(path)
    assert np.array_equal(again.validation, np.arange(100)) and again.test == range(100, 250)
    assert_same_frontier(frontier, again, data.X)


def test_what_can_not_be_saved(path):
    with pytest.raises(NotFittedError):
        FairFrontier().save(path)

    class Own(FairFrontier):
        pass

    data = rows()
    own = Own(FairClassifier(hidden=(8,), iterations=10), strengths=(0.0,), seeds=1)
    own.fit(data.X, data.y, sensitive_features=data.A)
    with pytest.raises(InputError, match=r"^save writes the estimators of equipoise, got Own, a "):
        own.save(path)
    path.write_text("notes")
    with pytest.raises(InputError, match=r"^path must be new or hold a model that equi"):
        fitted("separation").save(path)
    assert path.read_text() == "notes"


def test_a_failing_disk_leaves_the_older_file(path, monkeypatch):
    fitted("separation").save(path)

    def full(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        fitted("two classes, ensemble").save(path)
    monkeypatch.undo()
    assert flat_options(load(path)) == flat_options(fitted("separation"))
    assert list(path.parent.iterdir()) == [path]


def refusal(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        load(path)
    return str(refused.value)


def test_truncations_and_flipped_bits_are_noticed(path):
    fitted("separation").save(path)
    content = path.read_bytes()
    random = np.random.default_rng(0)
    damaged = re.compile(
        r"path must name (an undamaged model, got '.*', whose checksum does not match its \d+ "
        r"bytes|a model written by save, got '.*', which is another kind of file or whose "
        r"beginning is damaged); copy it again or save the model again"
    )
    for size in [0, 1, 8, len(content) - 1, *random.integers(0, len(content), 60).tolist()]:
        assert damaged.fullmatch(refusal(path, content[:size])), size
    for place in [0, 7, len(content) - 1, *random.integers(0, len(content), 60).tolist()]:
        changed = bytearray(content)
        changed[place] ^= 1 << int(random.integers(8))
        assert damaged.fullmatch(refusal(path, bytes(changed))), place


def test_another_format_version_is_refused(path, monkeypatch):
    monkeypatch.setattr("equipoise.storage.model_file.FORMAT_VERSION", "0")
    fitted("separation").save(path)
    monkeypatch.undo()
    message = f"path must name a model of format version 1, got version '0' in '{path}'; load it "
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        load(path)


def test_hand_made_contents_are_refused(path):
    frontier = fitted("two classes, ensemble")
    frontier.save(path)
    made = read_model_file(path)

    def refused(document, arrays, what):
        write_model_file(path, Contents(document, arrays))
        with pytest.raises(InputError) as found:
            load(path)
        start = f"path must name a model written by save, got '{path}', whose checksum is right but"
        assert str(found.value).startswith((start, "network is required")), what

    write_model_file(path, made)
    load(path)  # what is written again unchanged is fine
    options, rest = made.document["parameters"], made.document["rest"]
    (strand,) = made.document["strands"]
    template, members = strand["template"], strand["rest"]
    for changes in (
        {"class": "os.system"},
        {"class": "FairClassifier"},
        {"parameters": {**options, "unknown": 1}},
        {"parameters": {**options, "strengths": {"object": "os.system"}}},
        {"own_network": True},
        {"strands": []},
        {"strands": [strand, strand]},
        {"strands": [{**strand, "template": {**template, "class": "FairEncoder"}}]},
        {"strands": [{**strand, "template": {**template, "class": "FairFrontier"}}]},
        {"strands": [{**strand, "task": "anything"}]},
        {"strands": [{**strand, "predictor": "anything"}]},
        {"strands": [{**strand, "rest": {**members, "entries": []}}]},
        {"strands": [{**strand, "rest": {**members, "member_health": []}}]},
        {"rest": {**rest, "measures": []}},
        {"rest": {**rest, "health": []}},
        {"test": {}},
        {"test": {**made.document["test"], "columns": []}},
        {"test": {**made.document["test"], "outcome": "anything"}},
    ):
        refused({**made.document, **changes}, made.arrays, changes)
    for name in made.document:
        if name != "test":
            fewer = {key: value for key, value in made.document.items() if key != name}
            refused(fewer, made.arrays, name)
    for name in strand:
        fewer = {key: value for key, value in strand.items() if key != name}
        refused({**made.document, "strands": [fewer]}, made.arrays, name)
    twice = {name.replace("strand0.", "strand1."): array for name, array in made.arrays.items()}
    twice = {name: array for name, array in twice.items() if "kept_weights" not in name}
    document = {**made.document, "strands": [strand, strand]}
    refused(document, {**made.arrays, **twice}, "a family that is there twice")
    # The file has what is needed and nothing else: no array can go or be cut.
    for name, array in made.arrays.items():
        others = {key: value for key, value in made.arrays.items() if key != name}
        if not name.endswith("scores.0"):  # ranks of a continuous column can be found again
            refused(made.document, others, name)
        named = name.removeprefix("strand0.")
        if not named.startswith(("template.", "history.", "split.", "prototype.")):
            refused(made.document, {**others, name: array[:-1]}, name)


def test_the_document_is_json_and_the_arrays_are_plain(path):
    fitted("numbers, weights").save(path)
    contents = read_model_file(path)
    assert json.loads(json.dumps(contents.document)) == contents.document
    assert {array.dtype.kind for array in contents.arrays.values()} <= set("bif")
