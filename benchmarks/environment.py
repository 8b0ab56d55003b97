"""Machine and versions of a benchmark, for its result file."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def device_name(device: str) -> str:
    """Return the name of the processor."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    """Return the versions of packages that a result may depend on."""
    return {"python": platform.python_version(), "torch": torch.__version__}


def write(name: str, document: dict[str, Any]) -> None:
    """Write one result file."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    """Read one result file."""
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return document
