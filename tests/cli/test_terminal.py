"""Tables as a terminal of any width shows them, and as files and pipes get them."""

import fcntl
import os
import pty
import re
import struct
import termios
import threading

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people import equipoise

from equipoise.cli.commands import app
from equipoise.cli.running import run
from equipoise.datasets import dataset_names
from equipoise.tables.printing import as_text


def on_terminal(width, *arguments):
    """What a command prints to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    pieces = []

    def read():
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # closed on the other side
                return
            if not piece:
                return
            pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with pytest.MonkeyPatch.context() as patch, os.fdopen(theirs, "w") as screen:
        patch.setattr("sys.stdout", screen)
        assert run(app, list(arguments)) == 0
        screen.flush()
    reader.join(timeout=60)
    os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("kind", ["dumb", "xterm-256color"])
def test_a_table_keeps_within_the_terminal_and_loses_nothing(width, kind, monkeypatch):
    monkeypatch.setenv("TERM", kind)
    shown = on_terminal(width, "datasets")
    table, _, rest = shown.partition("\n\nequipoise datasets NAME")
    assert rest and "\x1b" not in shown
    assert max(map(len, table.splitlines())) <= width
    for name in dataset_names():
        assert re.search(rf"^(name: )?{re.escape(name)}\b", table, flags=re.MULTILINE)
    piped = equipoise("datasets").out
    words = set(re.findall(r"\w+", table))
    assert words >= set(re.findall(r"\w+", piped.partition("\n\n")[0]))


def test_a_pipe_gets_one_line_for_each_row():
    lines = equipoise("datasets").out.partition("\n\n")[0].splitlines()
    assert len(lines) == 1 + len(dataset_names())
    assert lines[0].split("  ")[0] == "name"


CELLS = st.one_of(st.text(max_size=12), st.floats(), st.integers(-99, 99), st.none())


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4), width=st.integers(8, 90)
)
def test_any_table_is_plain_text_within_the_width(rows, width):
    text = as_text(pd.DataFrame(rows, columns=["a", "[b]", "c d"]), width=width)
    assert all(line.isprintable() for line in text.splitlines())
    wide = as_text(pd.DataFrame(rows, columns=["a", "[b]", "c d"]))
    assert wide.count("\n") == len(rows)
    if text.isascii():
        assert max(map(len, text.splitlines())) <= width
