"""Values come back from JSON equal and of the same type."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.storage import from_json, to_json
from tests.error_parts import says

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.booleans(), inner, max_size=3)
    ),
    max_leaves=8,
)


def round_trip(value):
    return from_json(json.loads(json.dumps(to_json(value, argument="value"), allow_nan=False)))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(VALUES)
def test_plain_values_come_back(value):
    # repr tells NaN, -0.0, tuples and key types apart where == does not.
    assert repr(round_trip(value)) == repr(value)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, -2], dtype=np.int16),
        np.array([2**64 - 1], dtype=np.uint64),
        np.array([0.1, np.nan, -np.inf, -0.0]),
        np.array([0.1, 3e38], dtype=np.float32),
        np.array([True, False]),
        np.array(["a", ""], dtype="<U9"),
        np.array(["a", None, 1.5], dtype=object),
        np.array(["a", "longer than the others"], dtype=np.dtypes.StringDType()),
        np.array([], dtype=float),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_come_back(array):
    np.testing.assert_array_equal(round_trip(array), array, strict=True)


@pytest.mark.parametrize("value", [object(), 1j, b"bytes", {1}, np.zeros((2, 2)), len])
def test_other_values_are_refused_by_name(value):
    with pytest.raises(InputError) as refused:
        to_json([value], argument="hidden")
    assert says(
        str(refused.value),
        "hidden",
        "be a plain value (number",
        f"{type(value).__name__}",
        "replace it with set_params before",
    )
