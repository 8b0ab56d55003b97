"""The one door to all data sets: names, arguments and their checks."""

from __future__ import annotations

import difflib
import os
from typing import get_args

from equipoise.datasets.acs import ACS_NAMES, load_acs
from equipoise.datasets.adult import load_adult
from equipoise.datasets.credit import load_credit
from equipoise.datasets.crime import load_crime
from equipoise.datasets.description import Dataset, Part, Preprocessing
from equipoise.datasets.law import load_law
from equipoise.datasets.synthetic import make_synthetic
from equipoise.errors import InputError

_NAMES = ("adult", "credit", "law", "crime", *ACS_NAMES, "synthetic")
_WITHOUT_FILE = ("adult", "crime", "synthetic")


def dataset_names() -> tuple[str, ...]:
    """Return the names ``load_dataset`` knows.

    >>> dataset_names()[:5]
    ('adult', 'credit', 'law', 'crime', 'acs_employment')
    """
    return _NAMES


def load_dataset(
    name: str,
    *,
    preprocessing: Preprocessing = "default",
    part: Part | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Load features, outcome and sensitive attributes of a public data set.

    Parameters
    ----------
    name : str
        One of ``dataset_names()``.
    preprocessing : {"default", "paper"}
        "default" keeps the columns typed (numbers, categories, missing values) and leaves out what
        leaks the outcome. "paper" reproduces the encoding of Sohn, Song and Lin (2024) exactly,
        traps included. Either way ``description.notes`` says what was done.
    part : {"train", "test", "all"}, optional
        Adult alone has parts, and there the default is "train" (32 561 rows).
    path : str or path, optional
        File or folder to look in first, for the data sets that are not bundled. After it come the
        folder named by the environment variable ``EQUIPOISE_DATA``, the user's cache folder, and
        a download where a source with a known checksum exists (credit).

    Returns
    -------
    Dataset
        ``X`` (n, p), ``y`` (n,), ``A`` (n, q), ``description`` and ``origin``.

    Raises
    ------
    InputError
        When an argument breaks a rule or a file found is not the data set it should be.
    DataNotFound
        When the data are nowhere; the message says where to put which file.

    Examples
    --------
    >>> data = load_dataset("adult")
    >>> data
    Dataset('adult', 32561 rows, 9 features, classification of 'label', sensitive age, race, sex)
    >>> data.A["sex"].cat.categories.tolist()
    ['Female', 'Male']
    """
    if name not in _NAMES:
        raise InputError(f"name must be one of {', '.join(_NAMES)}; got {name!r}{_hint(name)}")
    if preprocessing not in get_args(Preprocessing):
        raise InputError(f"preprocessing must be 'default' or 'paper', got {preprocessing!r}")
    if part is not None and name != "adult":
        raise InputError(
            f"part is for the data set 'adult' only, got {part!r} for {name!r}; leave it out"
        )
    if part is not None and part not in get_args(Part):
        raise InputError(f"part must be 'train', 'test' or 'all', got {part!r}")
    if path is not None and not isinstance(path, str | os.PathLike):
        raise InputError(f"path must name a file or folder, got {path!r}")
    if path is not None and name in _WITHOUT_FILE:
        raise InputError(
            f"path is for data sets that are not bundled, got {path!r} for {name!r}; leave it out"
        )
    match name:
        case "adult":
            return load_adult(preprocessing=preprocessing, part=part)
        case "credit":
            return load_credit(preprocessing=preprocessing, path=path)
        case "law":
            return load_law(preprocessing=preprocessing, path=path)
        case "crime":
            return load_crime(preprocessing=preprocessing)
        case "synthetic":
            if preprocessing == "paper":
                raise InputError(
                    "preprocessing must be 'default' for 'synthetic', got 'paper': the paper does "
                    "not use these data"
                )
            return make_synthetic()
        case _:
            return load_acs(name, preprocessing=preprocessing, path=path)


def _hint(name: object) -> str:
    close = difflib.get_close_matches(str(name), _NAMES, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
