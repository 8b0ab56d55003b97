"""Names of all data sets, and the function that loads them."""

from __future__ import annotations

import os
from typing import Final, get_args

from equipoise.datasets.acs import ACS_SOURCES
from equipoise.datasets.dataset import Dataset, Part, Preprocessing
from equipoise.datasets.files import GivenPath, read_source
from equipoise.datasets.public import ADULT, CREDIT, CRIME, LAW
from equipoise.datasets.synthetic import make_synthetic
from equipoise.errors import InputError, check_choice, did_you_mean

_SOURCES = {source.about.name: source for source in (ADULT, CREDIT, LAW, CRIME, *ACS_SOURCES)}
_NAMES = (*_SOURCES, "synthetic")

#: The data sets that are not bundled: what they are, and how many rows their file must have.
UNBUNDLED: Final = tuple(
    (source.about, source.rows) for source in _SOURCES.values() if not source.bundled
)


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
    path: GivenPath = None,
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
        When there is no file; the message says where to put which one.

    Examples
    --------
    >>> data = load_dataset("adult")
    >>> data
    Dataset('adult', 32561 rows, 9 features, classification of 'label', sensitive age, race, sex)
    >>> data.A["sex"].cat.categories.tolist()
    ['Female', 'Male']
    """
    _check(name, preprocessing, part, path)
    if name == "synthetic":
        return make_synthetic()
    source = _SOURCES[name]
    table, origin = read_source(source, path)
    X, y, A = source.frames(table, preprocessing)
    if name == "adult":
        rows = ["adult_train", "adult_test"] if part == "all" else [f"adult_{part or 'train'}"]
        X, y, A = X.loc[rows], y.loc[rows], A.loc[rows]
    X, y, A = X.reset_index(drop=True), y.reset_index(drop=True), A.reset_index(drop=True)
    notes = source.paper_notes if preprocessing == "paper" else source.notes
    return Dataset(X, y, A, source.about.of(X, A, notes), origin)


def _check(name: str, preprocessing: str, part: str | None, path: GivenPath) -> None:
    if name not in _NAMES:
        hint = did_you_mean(name, _NAMES)
        raise InputError(f"name must be one of {', '.join(_NAMES)}; got {name!r}{hint}")
    check_choice("preprocessing", preprocessing, get_args(Preprocessing))
    if name == "synthetic" and preprocessing == "paper":
        raise InputError(
            "preprocessing must be 'default' for 'synthetic', got 'paper': the paper does not use "
            "these data"
        )
    if part is not None and name != "adult":
        raise InputError(
            f"part is for the data set 'adult' only, got {part!r} for {name!r}; leave it out"
        )
    if part is not None:
        check_choice("part", part, get_args(Part))
        if preprocessing == "paper" and part != "train":
            raise InputError(
                f"part must be 'train' with preprocessing='paper', got {part!r}: the authors used "
                "adult.data only; preprocessing='default' offers every part"
            )
    if path is not None and not isinstance(path, str | os.PathLike):
        raise InputError(f"path must name a file or folder, got {path!r}")
    if path is not None and (name == "synthetic" or _SOURCES[name].bundled):
        raise InputError(
            f"path is for data sets that are not bundled, got {path!r} for {name!r}; leave it out"
        )
