"""Reading and moving the page of a frontier in a browser, as its tests do."""

import math
import re

import numpy as np
import pytest


def cells(page, selector):
    """Texts of a table's rows."""
    return page.eval_on_selector_all(
        f"{selector} tr", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )


def number(text):
    return math.nan if text == "–" else float(text.replace(",", "").removesuffix(" %"))


def chosen(page):
    """Number of the snapshot that the page is about."""
    return int(re.match(r"Snapshot (\d+):", page.inner_text("#chosen-who")).group(1))


def choose_view(page, metric, attribute):
    page.select_option("#metric", label=metric)
    page.select_option("#attribute", label=attribute or "all attributes")


def set_slider(page, selector, value):
    page.eval_on_selector(
        selector,
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')) }",
        str(value),
    )


def assert_table_is(page, selection):
    """Every number of the table is the selection's, to the four decimals that are shown."""
    shown = cells(page, "#metrics-body")
    assert len(shown) == len(selection.rows)
    for row, (name, _, validation, test, interval, certificate, _) in zip(
        selection.rows, shown, strict=True
    ):
        assert name.splitlines()[0] == row.name
        low, high = interval.split(" to ") if " to " in interval else ("–", "–")
        for text, value in [
            (validation, row.validation),
            (test, row.test),
            (low, row.low),
            (high, row.high),
            (certificate, row.certificate),
        ]:
            assert number(text) == pytest.approx(value, abs=5.0001e-5, nan_ok=True)


def steps_of(frontier, metric, attribute):
    """Largest unfairness of every kept snapshot, ascending."""
    table = frontier.table().query("on_front")
    names = [f"{metric} {a}" for a in ("age", "group") if attribute in (None, a)]
    return np.sort(table[names].max(axis=1).to_numpy())
