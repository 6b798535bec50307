"""Folder of cassettes, with one file per cell (`<scenario>/<target>[.stream].yaml`), and journals of recordings.

The old layout was `<target>/<scenario>[.stream].yaml`. Cells stored there are still replayed and recorded in place.

A recording writes each exchange to its journal before the next one begins. The journal is stored next to the cassette
and is removed when the cassette is complete. After a crash, the next recording of the cell continues from it. It also
serves as a lock between processes. Its first line contains the metadata, and each further line one exchange, as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, cast

from pydantic import ValidationError

from harness.cassettes.cassette import Cassette, Interaction, Metadata, loaded_delivery, stored_delivery
from harness.cassettes.cassette_files import dumps, read, write_file
from harness.cassettes.cassette_text import RESTORE
from harness.model.errors import CassetteError, CassetteLocked, CassetteMissing, RecordingRefused
from harness.model.http import HttpRequest, HttpResponse
from harness.platform import files
from harness.results import Variant

JOURNAL_SUFFIX = ".journal"
_PERMISSIONS = 0o600
"""Permissions of a journal, which may contain suspected secrets."""

_NOT_A_JOURNAL = "not a journal, or damaged. Delete it."


@dataclass(frozen=True, slots=True)
class UnfinishedJournal:
    """Content of an unfinished journal. Journals of earlier versions have no metadata."""

    metadata: Metadata | None
    interactions: tuple[Interaction, ...]


class Journal:
    """Open journal of the cassette at `cassette`. Its exchanges must already be redacted.

    `leftover` holds the contents of an earlier, unfinished journal.

    Raises:
        CassetteLocked: another process is recording this cassette.
        CassetteError: the earlier journal cannot be read (with `force`, it is dropped instead), or the folder cannot be
            written.
    """

    def __init__(self, cassette: Path, metadata: Metadata, *, force: bool = False) -> None:
        self.path = journal_path(cassette)
        self._metadata = metadata
        self._lock = Lock()
        with _writing(cassette, "no journal can be written next to it"):
            cassette.parent.mkdir(parents=True, exist_ok=True)
            self._handle = _open_locked(self.path, cassette)
            with contextlib.suppress(PermissionError):  # another user's
                self.path.chmod(_PERMISSIONS)
        try:
            self.leftover = _find_leftover(self.path, force=force)
            with _writing(cassette, "no journal can be written next to it"):
                if self.leftover.interactions:
                    _cut_after_last_line(self._handle)
                else:
                    self._begin()
                files.sync_folder(cassette.parent)
        except BaseException:
            os.close(self._handle)
            raise

    def append(self, interaction: Interaction) -> None:
        """Append an exchange. When this returns, it is on disk. Raises `CassetteError`."""
        with self._lock, _writing(self.path):
            end = os.fstat(self._handle).st_size
            try:
                files.write_all(self._handle, _line(_plain(interaction)))
                os.fsync(self._handle)
            except OSError:
                with contextlib.suppress(OSError):  # half a line would spoil the journal
                    os.ftruncate(self._handle, end)
                raise

    def cut(self, count: int) -> None:
        """Keep the first `count` exchanges of the earlier journal, and drop the rest. Raises `CassetteError`."""
        with self._lock, _writing(self.path):
            if not count:
                self._begin()
                return
            lines = os.pread(self._handle, os.fstat(self._handle).st_size, 0).splitlines(keepends=True)
            os.ftruncate(self._handle, sum(map(len, lines[: 1 + count])))
            os.fsync(self._handle)

    def keep_leftover(self) -> Path:
        """Save a copy of the earlier journal under a name that recordings ignore, and return its path. Raises
        `CassetteError`.
        """
        with _writing(self.path):
            data = self.path.read_bytes()
            kept, number = self.path.with_name(f"{self.path.name}.left"), 1
            while kept.exists() and kept.read_bytes() != data:
                number += 1
                kept = self.path.with_name(f"{self.path.name}.left-{number}")
            files.replace_file(kept, data, _PERMISSIONS)
        return kept

    def remove(self) -> str | None:
        """Remove the file and release the lock. Return a message if the file cannot be removed. The remaining file is
        harmless because the cassette contains all its exchanges.
        """
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            return f"{self.path} could not be removed: {error.strerror}. It is of no more use; remove it."
        finally:
            os.close(self._handle)
        return None

    def close(self) -> None:
        """Release the lock. The next recording continues from the file."""
        os.close(self._handle)

    def _begin(self) -> None:
        os.ftruncate(self._handle, 0)
        files.write_all(self._handle, _line({"metadata": self._metadata.to_dict()}))
        os.fsync(self._handle)


def journal_path(cassette: Path) -> Path:
    """Return the path of the journal of a cassette."""
    return cassette.with_name(cassette.name + JOURNAL_SUFFIX)


def leftover(cassette: Path, *, force: bool = False) -> UnfinishedJournal | None:
    """Return the contents of a cassette's unfinished journal, or `None` if there is no journal.

    Raises:
        CassetteLocked: another process is recording this cassette.
        CassetteError: the journal cannot be read (with `force`, it counts as empty instead).
    """
    path = journal_path(cassette)
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CassetteError(str(path), f"cannot be opened: {error.strerror}.") from None
    try:
        if not files.lock_file(handle):
            raise _locked_error(cassette)
        return _find_leftover(path, force=force) if _is_at(path, handle) else None
    finally:
        os.close(handle)


def read_journal(path: Path) -> UnfinishedJournal:
    """Read an unfinished journal up to the last complete line.

    Raises:
        CassetteError: the file cannot be opened, or it is not a journal.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise CassetteError(str(path), f"cannot be opened: {error.strerror}.") from None
    metadata: Metadata | None = None
    interactions: list[Interaction] = []
    for number, line in enumerate(lines[:-1], 1):  # an incomplete last line was never acknowledged
        try:
            values = cast("dict[str, Any]", json.loads(line))
            if number == 1 and "metadata" in values:
                metadata = Metadata.from_dict(values["metadata"])
            else:
                interactions.append(_interaction(values))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ValidationError):
            raise CassetteError(str(path), _NOT_A_JOURNAL, f"line {number}") from None
    return UnfinishedJournal(metadata, tuple(interactions))


def _find_leftover(path: Path, *, force: bool) -> UnfinishedJournal:
    try:
        return read_journal(path)
    except CassetteError:
        if force:
            return UnfinishedJournal(None, ())
        raise


@contextlib.contextmanager
def _writing(file: Path, what: str = "cannot be written") -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise CassetteError(str(file), f"{what}: {error.strerror}.") from None


def _locked_error(cassette: Path) -> CassetteLocked:
    return CassetteLocked(str(cassette), "another process is recording it. Wait until it has finished, or stop it.")


def _open_locked(path: Path, cassette: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _PERMISSIONS)
        if not files.lock_file(handle):
            os.close(handle)
            raise _locked_error(cassette)
        if _is_at(path, handle):
            return handle
        os.close(handle)  # its owner finished and removed it between our open and our lock


def _is_at(path: Path, handle: int) -> bool:
    """Return whether an open file is still the one at a path: its owner may have removed or replaced it."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def _cut_after_last_line(handle: int) -> None:
    size = os.fstat(handle).st_size
    data = os.pread(handle, size, 0)
    os.ftruncate(handle, data.rfind(b"\n") + 1)


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=True).encode() + b"\n"


def _plain(interaction: Interaction) -> dict[str, Any]:
    request, response = interaction.request, interaction.response
    return {
        "request": [request.method, request.url, dict(request.headers), _store_body(request.body)],
        "response": response and _plain_response(response),
    }


def _plain_response(response: HttpResponse) -> list[Any]:
    received = [response.status, dict(response.headers), _store_body(response.body)]
    return [*received, stored_delivery(response.delivery)]


def _interaction(plain: dict[str, Any]) -> Interaction:
    method, url, headers, body = plain["request"]
    request = HttpRequest(method, url, headers, _load_body(body))
    if plain["response"] is None:
        return Interaction(request, None)
    status, headers, body, *delivered = plain["response"]
    return Interaction(request, HttpResponse(status, headers, _load_body(body), *map(loaded_delivery, delivered)))


def _store_body(body: bytes) -> str | dict[str, str]:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def _load_body(body: str | dict[str, str]) -> bytes:
    return body.encode() if isinstance(body, str) else base64.b64decode(body["base64"])


_MAX_NAME_CHARACTERS = 100
_REPLACE = "Record with --force to replace it, or into another folder (--cassettes DIR) to keep it."
_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*(?<!\.stream)")  # `x.stream` would be the streamed `x`
_SCENARIO = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class CassetteLibrary:
    """Cassettes under `root`. Neither names nor symbolic links can lead outside it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, target: str, scenario: str, variant: Variant) -> Path:
        """Return the path of a cell's cassette, which need not exist.

        Raises:
            CassetteError: a name is not a plain file name, a symbolic link leads out of the folder, or the cell has a
                cassette in both the current and the old layout.
        """
        for kind, name, pattern in (("target", target, _TARGET), ("scenario", scenario, _SCENARIO)):
            if not pattern.fullmatch(name) or len(name) > _MAX_NAME_CHARACTERS:
                raise CassetteError(str(self.root), f"the {kind} {name!r} cannot name a file. Give it another name.")
        ending = f"{'.stream' if variant == 'stream' else ''}.yaml"
        path = self._inside(self.root.joinpath(scenario, f"{target}{ending}"))
        if not os.path.lexists(self.root / target):
            return path
        before = self.root.joinpath(target, f"{scenario}{ending}")
        if not _is_begun(before) or not _is_of(self._inside(before), (target, scenario, variant)):
            return path
        if _is_begun(path):
            raise CassetteError(str(path), f"the same cell is also stored at {before}. Remove one of the two.")
        return before

    def _inside(self, path: Path) -> Path:
        """Return `path`, which is two levels below the root. Raises `CassetteError` if a symbolic link leads out of the
        root.
        """
        # Only a link can lead outside. To check the name for one is cheaper than to resolve all folders.
        linked = os.path.islink(path) or os.path.islink(path.parent)  # noqa: PTH114 - half the time, for each cell
        # `resolve` rejects circular links. Opening the file reports them.
        if linked and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.root)):
            raise CassetteError(str(path), "a symbolic link leads out of the cassette folder. Remove the link.")
        return path

    def load(self, target: str, scenario: str, variant: Variant) -> Cassette:
        """Load the cassette of a cell.

        Raises:
            CassetteMissing: there is none.
            CassetteError: it cannot be read, has no metadata, or belongs to another cell.
        """
        path = self.path(target, scenario, variant)
        cassette = read(path)
        if cassette.metadata is None:
            reason = "it does not say where it was recorded: not recorded by harness, or cut. Record it again."
            raise CassetteError(str(path), reason, "metadata")
        _check_place(cassette.metadata, (target, scenario, variant), path)
        return cassette

    def save(self, cassette: Cassette, *, force: bool = False) -> Path:
        """Save a cassette atomically.

        Raises:
            CassetteError: the file cannot be written, or (unless `force`) a cassette exists that was recorded with
                another model or may have been paid for.
        """
        if cassette.metadata is None:
            raise CassetteError(str(self.root), "a cassette without metadata belongs to no cell.")
        path = self.place_for(cassette.metadata, force=force)
        write_file(path, dumps(cassette, str(path)))
        return path

    def place_for(self, metadata: Metadata, *, force: bool = False) -> Path:
        """Return the path for a recording. Callers check this before they send anything, so that no paid request is
        wasted.

        Raises:
            RecordingRefused: a cassette of another model exists, or one that may have been paid for (unless `force`).
            CassetteError: the existing cassette cannot be read (unless `force`).
        """
        path = self.path(metadata.target, metadata.scenario, metadata.variant)
        present = None if force else self.present(metadata)
        if present is not None:
            check_free(path, present.metadata, metadata)
        return path

    def present(self, metadata: Metadata) -> Cassette | None:
        """Return the cassette that a recording would replace, or `None` if there is none.

        Raises:
            CassetteError: the cassette cannot be read.
        """
        path = self.path(metadata.target, metadata.scenario, metadata.variant)
        try:
            return read(path)
        except CassetteMissing:
            return None
        except CassetteError as error:  # its advice, to record again, does not help here
            reason = f"what is there cannot be read: {error.reason.removesuffix(RESTORE).strip()}"
            raise CassetteError(str(path), f"{reason} {_REPLACE}", error.place) from None

    def paths(self) -> list[Path]:
        """Return the paths of all cassettes, sorted."""
        return sorted(self.root.glob("*/*.yaml"))

    def journals(self) -> list[Path]:
        """Return the paths of all journals, which belong to running or crashed recordings."""
        return sorted(self.root.glob(f"*/*{JOURNAL_SUFFIX}"))


def check_free(path: Path, present: Metadata | None, metadata: Metadata) -> None:
    """Raise `RecordingRefused` if a recording must not replace a cassette with metadata `present` without force."""
    model = present.model_requested if present else "an unknown model"
    if model != metadata.model_requested:
        reason = (
            f"it was recorded with {model}, not with {metadata.model_requested}. Record into another folder "
            "(--cassettes DIR) to keep both, or with --force to replace it."
        )
        raise RecordingRefused(str(path), reason)
    if present is not None and is_paid(present):
        reason = (
            f"it was recorded live{recorded_on(present)}, and may have been paid for. Record with --missing to keep "
            "it, with --force to replace it, or into another folder (--cassettes DIR) to keep both."
        )
        raise RecordingRefused(str(path), reason)


def is_paid(present: Metadata) -> bool:
    """Return whether a recording may have cost money. This holds for all recordings except those from the reference
    server.
    """
    return present.origin != "reference"


def recorded_on(present: Metadata) -> str:
    """Return " on DAY" if the recording has a date, else an empty string."""
    return f" on {present.recorded_at[:10]}" if present.recorded_at else ""


def _is_begun(path: Path) -> bool:
    return os.path.lexists(path) or journal_path(path).exists()


def _is_of(path: Path, cell: tuple[str, str, Variant]) -> bool:
    """Return whether the file at `path` belongs to `cell`, according to its metadata. A path in the old layout can be
    the path of a different cell in the current layout. Unreadable files and files without metadata count as belonging
    to `cell`.
    """
    try:
        metadata = read(path).metadata if path.exists() else read_journal(journal_path(path)).metadata
    except CassetteError:
        return True
    return metadata is None or (metadata.target, metadata.scenario, metadata.variant) == cell


def _check_place(metadata: Metadata, cell: tuple[str, str, Variant], path: Path) -> None:
    """Reject copied or renamed cassettes. Otherwise their differences would be blamed on the adapter."""
    recorded = (metadata.target, metadata.scenario, metadata.variant)
    if recorded != cell:
        reason = f"this is the recording of {metadata.scenario} ({metadata.variant}) of {metadata.target}."
        raise CassetteError(str(path), f"{reason} Put it back, or record the cell again.", "metadata")
