"""Location of the shipped scenarios and cassettes: inside the package in a wheel, next to it in a checkout."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_ARCHIVE = _PACKAGE / "_shipped" / "cassettes.tar.xz"

SHIPPED = "shipped"
"""Name of the set of all shipped scenarios, in settings and on the command line."""


def shipped_folder(name: str) -> Path:
    """Return the folder `scenarios` or `cassettes` that ships with the package.

    A wheel holds the cassettes as one archive. The first call unpacks it into the user's cache folder, or into a
    temporary folder if that cannot be written.
    """
    if name == "cassettes" and _ARCHIVE.is_file():
        return _unpack(_ARCHIVE)
    packed = _PACKAGE / "_shipped" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name


@cache
def _unpack(archive: Path) -> Path:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    folder = Path(caches) / "toolcall-harness" / f"cassettes-{digest}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder.parent))
    except OSError:
        fresh = Path(tempfile.mkdtemp(prefix="harness-cassettes-"))
        atexit.register(shutil.rmtree, fresh, ignore_errors=True)
        _extract(archive, fresh)
        return fresh
    _extract(archive, fresh)
    try:
        fresh.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _extract(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(folder)  # noqa: S202 - the archive is our own
