"""The errors and warnings equipoise raises on purpose."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning


class InputError(ValueError):
    """An argument breaks a rule; the message names argument, rule, value and remedy."""


class DataNotFound(FileNotFoundError):
    """A data set is neither bundled nor found; the message says where to put which file."""


class ConvergenceWarning(_SklearnConvergenceWarning):
    """Training ended in a state a person should look at; the message says which and what to do."""
