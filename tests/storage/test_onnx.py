"""An ONNX file, run by onnxruntime, answers as the model it was made from."""

import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import NotFittedError
from tiny_models import NAMES, ROWS, TINY, fitted, labels, mixed_frame
from torch import nn

from equipoise import FairClassifier, FairRegressor, load_dataset
from equipoise.errors import InputError
from equipoise.storage.onnx import Graph, add_encoding
from equipoise.tables import FeatureEncoder
from tests.error_parts import says

TOLERANCE = 1e-5


def feed(session, X):
    """Rows as the file's inputs want them."""
    if isinstance(X, np.ndarray):
        return {"X": X}
    columns = X.to_dict("list") if isinstance(X, pd.DataFrame) else X.to_dict(as_series=False)
    columns = {str(name): values for name, values in columns.items()}
    return {
        wanted.name: np.array(["" if pd.isna(v) else str(v) for v in columns[wanted.name]], object)
        if wanted.type == "tensor(string)"
        else np.array([np.nan if pd.isna(v) else float(v) for v in columns[wanted.name]])
        for wanted in session.get_inputs()
    }


def run(content, X):
    """Outputs by name."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed(session, X)), strict=True))


def exported(model, tmp_path):
    path = tmp_path / "model.onnx"
    model.to_onnx(path)
    return path.read_bytes()


def expected(model, X):
    if hasattr(model, "transform"):
        return {"representation": model.transform(X)}
    if not hasattr(model, "predict_proba"):
        return {"prediction": model.predict(X)}
    return {
        "label": model.predict(X),
        "probabilities": model.predict_proba(X),
        "score": model.decision_function(X),
    }


def assert_same_answers(content, model, X):
    found, wanted = run(content, X), expected(model, X)
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        assert found[name].shape == values.shape
        if name == "label":
            assert found[name].tolist() == values.tolist()
        else:
            scale = 1 + np.abs(values).max()
            np.testing.assert_allclose(found[name], values, rtol=0, atol=TOLERANCE * scale)


@pytest.mark.parametrize("name", NAMES)
def test_the_file_answers_as_the_model(name, tmp_path):
    model, X = fitted(name)
    content = exported(model, tmp_path)
    assert_same_answers(content, model, X)
    assert_same_answers(content, model, X[:1])
    if isinstance(X, pd.DataFrame):
        assert_same_answers(content, model, mixed_frame(300, seed=9)[X.columns])
    elif isinstance(X, np.ndarray):
        assert_same_answers(content, model, 3 * np.random.default_rng(4).normal(size=(300, 5)))


def test_adult_within_the_stated_tolerance(tmp_path):
    train, test = load_dataset("adult"), load_dataset("adult", part="test")
    model = FairClassifier(**TINY).fit(train.X, train.y)
    found = run(exported(model, tmp_path), test.X)
    np.testing.assert_allclose(
        found["probabilities"], model.predict_proba(test.X), rtol=0, atol=TOLERANCE
    )
    np.testing.assert_array_equal(found["label"], model.predict(test.X))


@pytest.mark.filterwarnings("ignore:X has :UserWarning")
def test_what_training_did_not_see_is_encoded_the_same(tmp_path):
    model, X = fitted("two classes, pandas")
    new = X.assign(
        job="pilot",
        town="",
        grade=pd.Categorical([9] * ROWS),
        hours=np.nan,
        amount=np.linspace(-1e9, 1e9, ROWS),
    )
    content = exported(model, tmp_path)
    # "" is how the file is told of missing text; the model was fitted with missing towns.
    found, wanted = run(content, new), expected(model, new.assign(town=None))
    np.testing.assert_allclose(found["score"], wanted["score"], rtol=0, atol=TOLERANCE)
    assert len(np.unique(found["score"])) > ROWS / 2


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, 7, -2]),
        np.array([3, 7, 7], dtype=np.int8),
        np.array([1.0, 2.0, 3.0]),
        np.array(["nein", "ja", "läuft"]),
        np.array([False, True, True]),
    ],
    ids=str,
)
def test_labels_keep_their_type(classes, tmp_path):
    X = np.random.default_rng(0).normal(size=(ROWS, 2))
    model = FairClassifier(**TINY).fit(X, classes[labels()])
    content = exported(model, tmp_path)
    assert_same_answers(content, model, X)
    found = run(content, X)["label"].tolist()
    assert {type(label) for label in found} == {type(classes.tolist()[0])}


def test_rare_categories_share_a_column(tmp_path):
    X = pd.DataFrame({"code": [f"c{i}" for i in range(300)] * 2})
    model = FairRegressor(**TINY).fit(X, np.arange(600.0))
    assert_same_answers(exported(model, tmp_path), model, X)


def test_a_frame_without_text_as_names(tmp_path):
    X = pd.DataFrame({0: np.arange(60.0), 1: ["a", "b", "c"] * 20})
    model = FairRegressor(**TINY).fit(X, np.arange(60.0))
    assert_same_answers(exported(model, tmp_path), model, X)


def encoded(encoder, X):
    """The encoded matrix as onnxruntime makes it."""
    graph, state = Graph(), encoder.state()
    matrix = add_encoding(graph, state, named=not state.is_numeric)
    graph.output("matrix", matrix, np.float64, len(encoder.names_))
    return run(graph.content("encoding"), X)["matrix"]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    arrays(np.float64, (12, 2), elements=st.floats(-1e6, 1e6).map(lambda x: round(x, 3))),
    arrays(np.float64, (6, 2), elements=st.floats(-2e6, 2e6)),
    st.sampled_from(["rank", "minmax", "standard", "none"]),
)
def test_numbers_are_scaled_as_by_the_encoder(seen, new, scaling):
    encoder = FeatureEncoder(scaling=scaling).fit(seen)
    for X in (seen, new):
        np.testing.assert_allclose(encoded(encoder, X), encoder.transform(X), rtol=1e-6, atol=1e-9)


def test_ranks_of_many_values_are_interpolated_as_by_numpy():
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(9000, 1))
    encoder = FeatureEncoder().fit(X)
    assert len(encoder.state().scaler["knots_0"]) == 1999
    rows = np.concatenate([rng.lognormal(size=(500, 1)), X[:500], [[-5.0], [1e30]]])
    np.testing.assert_allclose(encoded(encoder, rows), encoder.transform(rows), rtol=1e-6)


def test_missing_numbers_are_filled_and_flagged():
    X = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, np.nan], [np.nan, 7.0]])
    encoder = FeatureEncoder(scaling="none").fit(X)
    np.testing.assert_array_equal(
        encoded(encoder, X), [[1, 6, 0, 1], [2, 5, 0, 0], [4, 6, 0, 1], [2, 7, 1, 0]]
    )


def refused(model, path):
    with pytest.raises(InputError) as error:
        model.to_onnx(path)
    assert not path.exists()
    return str(error.value)


def test_what_can_not_be_written(tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(NotFittedError):
        FairClassifier().to_onnx(path)
    model, _ = fitted("text only")
    assert refused(model, tmp_path / "model.equipoise") == (
        f"path must end in '.onnx', got '{tmp_path / 'model.equipoise'}'"
    )
    y = np.arange(60.0)

    def fit(**columns):
        return FairRegressor(**TINY).fit(pd.DataFrame(columns), y)

    assert refused(fit(text=["", None, "a"] * 20), path) == (
        "X column 'text' must not hold both empty text and missing values to be written as ONNX, "
        "which has no missing text; give one of them a name of its own and fit again"
    )
    assert refused(fit(prediction=y), path) == (
        "X must not have a column called 'prediction' to be written as ONNX, where an output has "
        "this name; rename the column and fit again"
    )
    assert refused(fit(**{"": y}), path) == (
        "X must have names for all columns to be written as ONNX, got the empty name ''; rename "
        "the column and fit again"
    )
    tiny = np.array([0.0, 5e-324, 1e-323] * 20)
    assert refused(fit(tiny=tiny), path) == (
        "X column 'tiny' must have values further apart to be written as ONNX, got neighbors "
        "between which the slope of the rank score exceeds float64; rescale the column"
    )
    X = np.stack([y, y], 1)
    own = FairRegressor(strength=0, iterations=12, early_stopping=None, network=nn.Linear)
    assert refused(own.fit(X, y), path) == (
        "to_onnx needs a built-in network, got one made by network=; export that module with "
        "torch.onnx.export, its inputs being the columns that encoder_ makes"
    )


def test_without_onnx_the_error_names_the_extra(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnx"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert refused(fitted("text only")[0], tmp_path / "model.onnx") == (
        'to_onnx needs onnx, which is not installed; pip install "equipoise[onnx]"'
    )


def test_an_older_file_of_equipoise_is_replaced_and_no_other(tmp_path):
    path = tmp_path / "model.onnx"
    fitted("representation")[0].to_onnx(path)
    assert onnx.load(path).doc_string == "FairEncoder fitted by equipoise"
    fitted("text only")[0].to_onnx(path)
    assert onnx.load(path).doc_string == (
        "FairClassifier fitted by equipoise, average of several networks"
    )
    other = onnx.load(path)
    other.producer_name = "pytorch"
    onnx.save(other, path)
    for content in (path.read_bytes(), b"", b"notes"):
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            fitted("text only")[0].to_onnx(path)
        rule = "path must be new or hold an ONNX model that equipoise wrote"
        assert says(str(error.value), rule, f"'{path}'", "another kind of file", "another name")
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]
