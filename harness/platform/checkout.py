"""The project in the working folder, and its commit."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

_MAX_GIT_SECONDS = 5.0


def commit(folder: Path) -> str:
    """Return the short id of the commit that is checked out, with `-dirty` if tracked files were changed. Return an
    empty string if there is none, or no git.
    """
    return _git(folder, "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*")


def project_name(folder: Path) -> str:
    """Return the name in `pyproject.toml`, or else the name of the top folder of the repository, or of the folder."""
    try:
        document: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return str(document["project"]["name"])
    except (OSError, ValueError, LookupError, TypeError):
        return Path(_git(folder, "rev-parse", "--show-toplevel") or folder.absolute()).name


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["git", *words],  # noqa: S607 - the one of the PATH
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_MAX_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
