"""Journal of a recording. Each exchange is written to disk before the next one begins.

The journal is stored next to the cassette and is removed when the cassette is complete. After a crash, the next
recording of the cell continues from it. It also serves as a lock between processes.

The first line contains the metadata, and each further line one exchange, as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, cast

from pydantic import ValidationError

from harness.cassettes.cassette import Interaction, Metadata, loaded_delivery, stored_delivery
from harness.model.errors import CassetteError, CassetteTaken
from harness.model.http import HttpRequest, HttpResponse
from harness.platform import files

SUFFIX = ".journal"
PERMISSIONS = 0o600
"""Permissions of a journal, which may contain suspected secrets."""

_DAMAGED = "not a journal, or damaged. Delete it."


@dataclass(frozen=True, slots=True)
class Leftover:
    """Content of an unfinished journal. Journals of earlier versions have no metadata."""

    metadata: Metadata | None
    interactions: tuple[Interaction, ...]


class Journal:
    """Open journal of the cassette at `cassette`. Its exchanges must already be redacted.

    `leftover` holds the contents of an earlier, unfinished journal.

    Raises:
        CassetteTaken: another process is recording this cassette.
        CassetteError: the earlier journal cannot be read (with `force`, it is dropped instead), or the folder cannot be
            written.
    """

    def __init__(self, cassette: Path, metadata: Metadata, *, force: bool = False) -> None:
        self.path = path_of(cassette)
        self._metadata = metadata
        self._lock = Lock()
        with _writing(cassette, "no journal can be written beside it"):
            cassette.parent.mkdir(parents=True, exist_ok=True)
            self._handle = _open_locked(self.path, cassette)
            with contextlib.suppress(PermissionError):  # another user's
                self.path.chmod(PERMISSIONS)
        try:
            self.leftover = _found(self.path, force=force)
            with _writing(cassette, "no journal can be written beside it"):
                if self.leftover.interactions:
                    _cut_behind_last_line(self._handle)
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
            files.replace_file(kept, data, PERMISSIONS)
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


def path_of(cassette: Path) -> Path:
    """Return the path of the journal of a cassette."""
    return cassette.with_name(cassette.name + SUFFIX)


def leftover(cassette: Path, *, force: bool = False) -> Leftover | None:
    """Return the contents of a cassette's unfinished journal, or `None` if there is no journal.

    Raises:
        CassetteTaken: another process is recording this cassette.
        CassetteError: the journal cannot be read (with `force`, it counts as empty instead).
    """
    path = path_of(cassette)
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CassetteError(str(path), f"cannot be opened: {error.strerror}.") from None
    try:
        if not files.lock_file(handle):
            raise _taken(cassette)
        return _found(path, force=force) if _is_at(path, handle) else None
    finally:
        os.close(handle)


def read_journal(path: Path) -> Leftover:
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
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line end was never acknowledged
        try:
            values = cast("dict[str, Any]", json.loads(line))
            if number == 1 and "metadata" in values:
                metadata = Metadata.from_dict(values["metadata"])
            else:
                interactions.append(_interaction(values))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ValidationError):
            raise CassetteError(str(path), _DAMAGED, f"line {number}") from None
    return Leftover(metadata, tuple(interactions))


def _found(path: Path, *, force: bool) -> Leftover:
    try:
        return read_journal(path)
    except CassetteError:
        if force:
            return Leftover(None, ())
        raise


@contextlib.contextmanager
def _writing(file: Path, what: str = "cannot be written") -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise CassetteError(str(file), f"{what}: {error.strerror}.") from None


def _taken(cassette: Path) -> CassetteTaken:
    return CassetteTaken(str(cassette), "another process is recording it. Wait for it, or end it.")


def _open_locked(path: Path, cassette: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PERMISSIONS)
        if not files.lock_file(handle):
            os.close(handle)
            raise _taken(cassette)
        if _is_at(path, handle):
            return handle
        os.close(handle)  # its owner finished and removed it between our open and our lock


def _is_at(path: Path, handle: int) -> bool:
    """Return whether an open file is still the one at a path: its owner may have removed or replaced it."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def _cut_behind_last_line(handle: int) -> None:
    size = os.fstat(handle).st_size
    data = os.pread(handle, size, 0)
    os.ftruncate(handle, data.rfind(b"\n") + 1)


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=True).encode() + b"\n"


def _plain(interaction: Interaction) -> dict[str, Any]:
    request, response = interaction.request, interaction.response
    return {
        "request": [request.method, request.url, dict(request.headers), _stored(request.body)],
        "response": response and _plain_response(response),
    }


def _plain_response(response: HttpResponse) -> list[Any]:
    received = [response.status, dict(response.headers), _stored(response.body)]
    return [*received, stored_delivery(response.delivery)]


def _interaction(plain: dict[str, Any]) -> Interaction:
    method, url, headers, body = plain["request"]
    request = HttpRequest(method, url, headers, _loaded(body))
    if plain["response"] is None:
        return Interaction(request, None)
    status, headers, body, *delivered = plain["response"]
    return Interaction(request, HttpResponse(status, headers, _loaded(body), *map(loaded_delivery, delivered)))


def _stored(body: bytes) -> str | dict[str, str]:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def _loaded(body: str | dict[str, str]) -> bytes:
    return body.encode() if isinstance(body, str) else base64.b64decode(body["base64"])
