"""The journal of a recording: every exchange is safe on disk before the next one begins.

It lies beside the cassette and is gone when the cassette is complete. One that is left over tells of a process that
was killed: it can be looked at, and is never used in silence. It is also the lock by which two processes do not record
the same cassette.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from threading import Lock
from typing import Any

from harness.contract.errors import CassetteError
from harness.contract.http import HttpRequest, HttpResponse
from harness.tape import delivery
from harness.tape.cassette import Interaction
from harness.tape.write import sync_folder

SUFFIX = ".journal"


class Journal:
    """The open journal of the cassette at `cassette`. Takes what is already redacted.

    Raises:
        CassetteError: another process records this cassette, one that was killed left its journal (unless
            `discard_leftover`), or the folder cannot be written.
    """

    def __init__(self, cassette: Path, *, discard_leftover: bool = False) -> None:
        self.path = cassette.with_name(cassette.name + SUFFIX)
        self._lock = Lock()
        try:
            cassette.parent.mkdir(parents=True, exist_ok=True)
            self._handle = _open_locked(self.path, str(cassette))
            if os.fstat(self._handle).st_size and not discard_leftover:
                os.close(self._handle)
                raise CassetteError(str(cassette), _leftover(self.path))
            os.ftruncate(self._handle, 0)
            sync_folder(cassette.parent)
        except OSError as error:
            raise CassetteError(str(cassette), f"no journal can be written beside it: {error.strerror}.") from None

    def append(self, interaction: Interaction) -> None:
        """Add an exchange; it is on the disk when this returns. Raises `CassetteError`."""
        line = json.dumps(_plain(interaction), ensure_ascii=True) + "\n"
        with self._lock:
            try:
                _write_all(self._handle, line.encode())
                os.fsync(self._handle)
            except OSError as error:
                raise CassetteError(str(self.path), f"cannot be written: {error.strerror}.") from None

    def remove(self) -> None:
        """Remove the file and let go of the lock."""
        self.path.unlink(missing_ok=True)
        os.close(self._handle)


def read_journal(path: Path) -> list[Interaction]:
    """The exchanges in a left-over journal, up to where its process was killed.

    Raises:
        CassetteError: it cannot be opened, or it is no journal.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise CassetteError(str(path), f"cannot be opened: {error.strerror}.") from None
    interactions: list[Interaction] = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line end was never acknowledged
        try:
            interactions.append(_interaction(json.loads(line)))
        except (ValueError, TypeError, KeyError):
            raise CassetteError(str(path), "not a journal, or damaged. Delete it.", f"line {number}") from None
    return interactions


def _open_locked(path: Path, cassette: str) -> int:
    import fcntl  # noqa: PLC0415 - cassettes can still be played where it is missing

    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and path.stat().st_ino == os.fstat(handle).st_ino:
                return handle
        except BlockingIOError:
            os.close(handle)
            raise CassetteError(cassette, "another process is recording it. Wait for it, or end it.") from None
        os.close(handle)  # its owner finished and removed it between our open and our lock


def _leftover(path: Path) -> str:
    count = len(read_journal(path))
    exchanges = "1 exchange" if count == 1 else f"{count} exchanges"
    return (
        f"a recording that was killed left {exchanges} in {path.name}. The cassette is as it was before. "
        "Look at the journal if you need it, then delete it, or record with --force."
    )


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _plain(interaction: Interaction) -> dict[str, Any]:
    request, response = interaction.request, interaction.response
    return {
        "request": [request.method, request.url, dict(request.headers), _stored(request.body)],
        "response": response and _plain_response(response),
    }


def _plain_response(response: HttpResponse) -> list[Any]:
    received = [response.status, dict(response.headers), _stored(response.body)]
    return [*received, delivery.stored(response.delivery)]


def _interaction(plain: dict[str, Any]) -> Interaction:
    method, url, headers, body = plain["request"]
    request = HttpRequest(method, url, headers, _loaded(body))
    if plain["response"] is None:
        return Interaction(request, None)
    status, headers, body, *delivered = plain["response"]
    return Interaction(request, HttpResponse(status, headers, _loaded(body), *map(delivery.loaded, delivered)))


def _stored(body: bytes) -> str | dict[str, str]:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def _loaded(body: str | dict[str, str]) -> bytes:
    return body.encode() if isinstance(body, str) else base64.b64decode(body["base64"])
