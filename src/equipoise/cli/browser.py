"""Showing a page to the person at the keyboard."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from equipoise.cli.answers import note


def open_page(path: Path) -> None:
    """Open a page in the browser; where there is none, say what to open elsewhere."""
    if not webbrowser.open(path.resolve().as_uri()):
        note(f"note: no browser was found here; open '{path}' in one yourself")
