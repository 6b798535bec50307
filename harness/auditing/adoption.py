"""Cassettes of vcrpy's and pytest-recording's taken over for `@pytest.mark.tape`: what is in them, and what is wrong.

They are played as they lie. Said here is which cannot be, which hold secrets, and whose tests will be red since the
witness finds a limit broken.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from harness import catalog
from harness.apis.facts import SHIPPED, Edition
from harness.auditing.audit import Audit, files, marked
from harness.contract.errors import CassetteError
from harness.host.credentials import is_secret_header
from harness.host.files import contents
from harness.results import Severity
from harness.tape.cassette import Cassette, Interaction
from harness.tape.deck.playing import load
from harness.tape.deck.recording import text
from harness.tape.deck.storing import learned, redactor, request_as_stored, response_as_stored, spoken
from harness.tape.write import replace as put

_MARK = re.compile(rb"\bmark\.vcr\b")
_MOST = 4_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """A cassette that was found.

    `exchanges` counts those to each API and model, or host. `unplayable` says why it cannot be played. `secrets` says
    where some are. `broken` are the limits that its requests break, each with the index of the first that does. `kept`
    is where it was written without secrets, `unwritten` why it was not.
    """

    file: Path
    exchanges: Mapping[str, int]
    unplayable: str | None = None
    secrets: tuple[str, ...] = ()
    broken: tuple[tuple[str, int], ...] = ()
    kept: Path | None = None
    unwritten: str | None = None


def adopted(
    paths: Sequence[Path], to: Path | None = None, edition: Edition = SHIPPED, allowed: Sequence[str] = ()
) -> Iterator[Found]:
    """Look at cassette files, and all cassettes below folders; with `to` write each into that folder, without secrets,
    where nothing lies yet. What lies where it was found stays as it is. What looks like a secret may be written where
    that is `allowed`.

    Raises:
        CassetteError: a folder has no file that could be one.
        CassetteMissing: a path does not exist.
        FactsError: a file of facts is wrong.
    """
    roots = [path for path in paths if path.is_dir()]
    for file, named in files(paths):
        try:
            cassette = load(file)
        except CassetteError as error:
            if named or marked(file):
                yield Found(file, {}, _reason(error))
            continue
        found = _looked_at(file, cassette, edition)
        yield found if to is None or found.unplayable else _kept(found, cassette, to / _place(file, roots), allowed)


def marks(paths: Sequence[Path]) -> list[Path]:
    """The Python files in folders that mark tests with `pytest.mark.vcr`."""
    found = {file for path in paths if path.is_dir() for file in path.rglob("*.py") if _has_mark(file)}
    return sorted(found)


def _looked_at(file: Path, cassette: Cassette, edition: Edition) -> Found:
    exchanges = Counter(_whose(each) for each in cassette.interactions)
    silent = [at for at, each in enumerate(cassette.interactions) if each.response is None]
    unplayable = f"interaction {silent[0]} has no answer" if silent else None
    if not cassette.interactions:
        unplayable = "there is no exchange in it"
    return Found(file, exchanges, unplayable, tuple(_secrets(cassette)), tuple(_broken(file, cassette, edition)))


def _whose(interaction: Interaction) -> str:
    request = interaction.request
    wire = spoken(request)
    if wire is None:
        return urlsplit(request.url).netloc.rpartition("@")[2] or "nowhere"
    model = wire.model_of(request)
    return f"{wire.name} {model}" if model else wire.name


def _secrets(cassette: Cassette) -> Iterator[str]:
    """Where there are secrets: headers by name, and bodies and URLs that are others without them."""
    requests = [each.request for each in cassette.interactions]
    clean = redactor(requests, learned(cassette.interactions))
    named = Counter[str]()
    for at, each in enumerate(cassette.interactions):
        stored = request_as_stored(each.request, clean)
        answer = each.response and response_as_stored(each.request, each.response, clean)
        for side, message, kept in (("request", each.request, stored), ("response", each.response, answer)):
            if message is None or kept is None:
                continue
            named.update(f"{side} header {name}" for name, value in message.headers.items() if _tells(name, value))
            if kept.body != message.body:
                named[f"body of {side} {at}"] += 1
        if clean.url(each.request.url) != each.request.url:
            named[f"URL of request {at}"] += 1
    for name, number in named.items():
        yield f"{name} ({number})" if " header " in name and number > 1 else name


def _tells(name: str, value: str) -> bool:
    """Whether a header has a secret that nobody has written over."""
    plain = value.removeprefix("Bearer ").strip("*.<>[]() ")
    return is_secret_header(name) and len(plain) >= 8 and plain.upper() not in _WRITTEN_OVER


_WRITTEN_OVER = frozenset({"REDACTED", "FILTERED", "SCRUBBED", "DUMMY-KEY", "PLACEHOLDER", "FAKE-API-KEY", "NOT-A-KEY"})


def _broken(file: Path, cassette: Cassette, edition: Edition) -> Iterator[tuple[str, int]]:
    audit = Audit(catalog.rules(), edition)
    audit.add(str(file), cassette)
    first: dict[str, int] = {}
    for cell in audit.result().cells:
        for each in cell.findings:
            if each.severity is Severity.ERROR:
                first.setdefault(each.rule, each.index or 0)
    yield from first.items()


def _kept(found: Found, cassette: Cassette, path: Path, allowed: Sequence[str]) -> Found:
    if os.path.lexists(path):
        return replace(found, unwritten=f"{path} is there already, and stays as it is")
    note = f"Recorded by others; taken over from {found.file.name} by harness on {dt.datetime.now(dt.UTC).date()}."
    try:
        put(path, text(cassette, note, str(path), allowed, "--allow-secret"))
    except CassetteError as error:
        return replace(found, unwritten=_reason(error))
    return replace(found, kept=path)


def _place(file: Path, roots: Sequence[Path]) -> Path:
    """Where a file belongs below another folder: as it lies below the one that was named. All are YAML then."""
    inside = next((file.relative_to(root) for root in roots if file.is_relative_to(root)), Path(file.name))
    return inside.with_suffix(".yaml")


def _reason(error: CassetteError) -> str:
    return f"{error.place}: {error.reason}" if error.place else error.reason


def _has_mark(file: Path) -> bool:
    try:
        return _MARK.search(contents(file, _MOST)) is not None
    except OSError:
        return False
