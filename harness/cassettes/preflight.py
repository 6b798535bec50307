"""Checks before a recording: existing cassettes, their age, and other recording processes."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from harness.cassettes.cassette import Cassette, Metadata
from harness.cassettes.cassette_files import prepare
from harness.cassettes.cell_recording import answers
from harness.cassettes.library import (
    CassetteLibrary,
    Journal,
    UnfinishedJournal,
    check_free,
    is_paid,
    journal_path,
    leftover,
    recorded_on,
)
from harness.model.errors import CassetteError, CassetteLocked, UsageError
from harness.platform import files
from harness.results import Variant

_FORM = re.compile(r"([1-9][0-9]{0,4})([dw])")
_DAYS = {"d": 1, "w": 7}


def parse_max_age(text: str, place: str) -> dt.timedelta:
    """Parse a maximum age in days or weeks: `90d` or `12w`. Raises `UsageError`."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"{place} {text}: it must be a number of days or weeks, as in 90d or 12w.")
    return dt.timedelta(days=int(found[1]) * _DAYS[found[2]])


def age(recorded_at: str | None, now: dt.datetime) -> dt.timedelta | None:
    """Return the age of a recording, or `None` if it has no valid ISO 8601 time."""
    if recorded_at is None:
        return None
    try:
        at = dt.datetime.fromisoformat(recorded_at)
    except ValueError:
        return None
    return now - (at if at.tzinfo else at.replace(tzinfo=dt.UTC))


class OutdatedFilter:
    """Selects recordings to renew: those whose requests are outdated, and those older than `max_age`. `None` means no
    maximum age.
    """

    def __init__(self, max_age: dt.timedelta | None, now: dt.datetime) -> None:
        self._max_age = max_age
        self._now = now

    @staticmethod
    def by(text: str | None, place: str) -> OutdatedFilter:
        """Create the selection from an option's text, relative to the current time. Raises `UsageError`."""
        return OutdatedFilter(None if text is None else parse_max_age(text, place), dt.datetime.now(dt.UTC))

    def holds(self, present: Metadata, wanted: Metadata) -> bool:
        """Return whether a cassette is outdated. Cassettes of another model never are."""
        if present.model_requested != wanted.model_requested:
            return False
        too_old = self.too_old(present.recorded_at) is not None
        return too_old or not present.is_of(wanted.scenario_digest, wanted.sent_digest)

    def too_old(self, recorded_at: str | None) -> str | None:
        """Return a message if a recording is too old, else `None`."""
        known = age(recorded_at, self._now)
        if self._max_age is None or known is None or known <= self._max_age:
            return None
        day = (recorded_at or "")[:10]
        return f"recorded on {day}, {known.days} days ago: older than the limit of {self._max_age.days} days"

    @property
    def words(self) -> tuple[str, ...]:
        """Command-line options that make this selection."""
        return ("--stale",) if self._max_age is None else ("--stale", "--max-age", f"{self._max_age.days}d")


_NAME = ".recording.lock"
_LOCK_OFFSETS = 1 << 62
"""Number of lockable offsets in the lock file. Each cassette locks one byte, whose offset is derived from its path.
Nothing is written to the file.
"""


class CassetteLock:
    """Lock on the cassettes at `paths` below `root`. It is held until it is released or the process ends.

    If the system does not support such locks, nothing is locked.

    Raises:
        CassetteLocked: another process holds the lock on one of them.
    """

    def __init__(self, root: Path, paths: Iterable[Path]) -> None:
        self._path = root / _NAME
        self._handle: int | None = None
        places = {_offset(path.relative_to(root)): path for path in paths}
        try:
            import fcntl  # noqa: PLC0415 - not on every system
        except ImportError:
            return
        self._fcntl: Any = fcntl
        self._folders = [each for each in (root, *root.parents) if not each.exists()]
        with contextlib.suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            while self._handle is None and places:
                self._handle = self._lock_file(places)

    def release(self) -> None:
        """Release the lock."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        with contextlib.suppress(OSError):
            self._fcntl.lockf(handle, self._fcntl.LOCK_EX | self._fcntl.LOCK_NB)  # no other process holds a lock
            self._path.unlink()
        os.close(handle)
        for folder in self._folders:
            with contextlib.suppress(OSError):  # the folder has cassettes now
                folder.rmdir()

    def _lock_file(self, places: dict[int, Path]) -> int | None:
        """Return the handle of the locked file, or `None` if the file was removed meanwhile. Locking in a fixed order
        prevents deadlocks.
        """
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            for offset, path in sorted(places.items()):
                self._lock(handle, offset, path)
            if self._path.exists() and self._path.stat().st_ino == os.fstat(handle).st_ino:
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        return None

    def _lock(self, handle: int, offset: int, path: Path) -> None:
        try:
            self._fcntl.lockf(handle, self._fcntl.LOCK_EX | self._fcntl.LOCK_NB, 1, offset)
        except (BlockingIOError, PermissionError):
            reason = (
                "another process is recording it, so nothing was sent for any cell. Wait until it has finished, "
                "or stop it."
            )
            raise CassetteLocked(str(path), reason) from None


def _offset(path: Path) -> int:
    return int.from_bytes(hashlib.sha256(path.as_posix().encode()).digest()[:8]) % _LOCK_OFFSETS


_NAMED = 3
"""Maximum number of cells named in an error message."""

Place: TypeAlias = tuple[str, str, Variant]
"""Target, scenario and variant of a recording."""


@dataclass(slots=True)
class Preflight:
    """Result of the checks.

    `fresh` contains recordings that `--missing` or `--stale` skips, `outdated` those to be replaced. `held` contains
    the reasons why other recordings are not made. `notes` are sentences about journals that were found.
    """

    fresh: set[Place] = field(default_factory=set[Place])
    outdated: set[Place] = field(default_factory=set[Place])
    held: dict[Place, str] = field(default_factory=dict[Place, str])
    notes: list[str] = field(default_factory=list[str])


def place_of(metadata: Metadata) -> Place:
    """Return target, scenario and variant of a recording."""
    return metadata.target, metadata.scenario, metadata.variant


def preflight(
    library: CassetteLibrary,
    wanted: Iterable[Metadata],
    *,
    force: bool = False,
    missing: bool = False,
    outdated: OutdatedFilter | None = None,
) -> Preflight:
    """Check the `wanted` recordings. With `missing`, skip those whose cassette is fresh. With `outdated`, select only
    those whose cassette is outdated.

    Leftover files of crashed recordings are removed if they contain nothing useful.

    Raises:
        CassetteError: one cell cannot be recorded, because its cassette must not be overwritten or another process is
            recording it.
        UsageError: several cells cannot be recorded.
    """
    prepare()
    found, problems, every = Preflight(), list[CassetteError](), list(wanted)
    for metadata in every:
        try:
            if outdated is None or _is_outdated(library, metadata, found, outdated):
                _inspect_place(library, metadata, found, force=force, missing=missing)
        except CassetteError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        named = " ".join(str(problem) for problem in problems[:_NAMED])
        more = f" {len(problems) - _NAMED} more cannot be recorded either." if len(problems) > _NAMED else ""
        raise UsageError(
            f"{len(problems)} of {len(every)} cells cannot be recorded, so nothing was sent for any. {named}{more}"
        )
    return found


def _is_outdated(library: CassetteLibrary, metadata: Metadata, found: Preflight, outdated: OutdatedFilter) -> bool:
    """Return whether an existing cassette is outdated, and note the result in `found`. Raises `CassetteError`."""
    present = library.present(metadata)
    standing = present.metadata if present else None
    if standing is not None and outdated.holds(standing, metadata):
        found.outdated.add(place_of(metadata))
        return True
    found.fresh.add(place_of(metadata))
    return False


def _inspect_place(
    library: CassetteLibrary, metadata: Metadata, found: Preflight, *, force: bool, missing: bool
) -> None:
    path = library.path(*place_of(metadata))
    files.remove_leftovers(path.parent)
    left = leftover(path, force=force)
    present = None
    if left is not None or missing or not force:
        try:
            present = library.present(metadata)
        except CassetteError:
            if not force:
                raise
    unsaved = _unsaved_count(left, present)
    if left is not None and not unsaved:
        _clear(path, metadata, left, found)
    standing = present.metadata if present else None
    if missing and standing is not None and _is_fresh(standing, metadata):
        found.fresh.add(place_of(metadata))
        if unsaved:
            found.notes.append(
                f"{journal_path(path)} has {_exchanges(unsaved)} of an unfinished recording. It is kept, but not used, "
                f"because {path.name} is fresh. To continue it, record with --force and without --missing."
            )
        return
    if missing and standing is not None and is_paid(standing) and not force:
        found.held[place_of(metadata)] = (
            f"not recorded: the cassette was recorded live{recorded_on(standing)}, before the scenario or the model "
            "changed, and may have been paid for. --force replaces it."
        )
        return
    if present is not None and not force and place_of(metadata) not in found.outdated:
        check_free(path, standing, metadata)
    if unsaved:
        found.notes.append(
            f"{journal_path(path)} has {_exchanges(unsaved)} of an unfinished recording. They are used where "
            "the adapter sends the same requests again."
        )


def _unsaved_count(left: UnfinishedJournal | None, present: Cassette | None) -> int:
    saved = present.interactions if present else ()
    return sum(each not in saved for _, each in answers(left)) if left is not None else 0


def _clear(path: Path, metadata: Metadata, left: UnfinishedJournal, found: Preflight) -> None:
    """Remove a journal without useful content. Its process was killed before the first response, or after it had saved
    the cassette.
    """
    kept = Journal(path, metadata, force=True).remove()
    if kept:
        found.notes.append(kept)
    elif answers(left):
        found.notes.append(
            f"{journal_path(path)} was left by a recording that was killed after its cassette was complete. It had "
            "nothing that the cassette does not have, and was removed."
        )


def _is_fresh(present: Metadata, metadata: Metadata) -> bool:
    same_model = present.model_requested == metadata.model_requested
    same_place = metadata.origin in ("reference", present.origin)
    return same_model and same_place and present.is_of(metadata.scenario_digest, metadata.sent_digest)


def _exchanges(count: int) -> str:
    return "1 answered exchange" if count == 1 else f"{count} answered exchanges"
