"""Errors and warnings checked by their parts, in order: argument, rule, value, remedy."""

import re

import pytest

from equipoise.errors import InputError


def refused(*parts: str):
    return pytest.raises(InputError, match=_in_order(parts))


def warned(*parts: str):
    return pytest.warns(UserWarning, match=_in_order(parts))


def _in_order(parts: tuple[str, ...]) -> str:
    return "(?s)" + ".*".join(re.escape(part) for part in parts)
