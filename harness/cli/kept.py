"""Runs that were kept: the files that `--report json:` and `--report archive:` have written."""

from __future__ import annotations

from pathlib import Path

from harness.contract.errors import UsageError
from harness.host.file import contents
from harness.results import RunResult

_MOST = 256 << 20
"""Bytes of a file that are read. The archive of the shipped suite has a sixteenth of that."""


def read(path: Path, option: str = "") -> RunResult:
    """The run in a file, which an `option` named.

    Raises:
        UsageError: it cannot be read, or is no run.
    """
    named = f"{option} {path}".strip()
    try:
        data = contents(path, _MOST)
    except OSError as error:
        raise UsageError(f"{named}: cannot be read: {error.strerror}.") from None
    if len(data) > _MOST:
        raise UsageError(f"{named}: larger than {_MOST >> 20} MiB, the most that the report of a run may have.")
    try:
        return RunResult.from_json(data.decode())
    except (ValueError, RecursionError):
        raise UsageError(
            f"{named}: this is not the report of a run. 'harness run --report json:{path.name}' writes one."
        ) from None
