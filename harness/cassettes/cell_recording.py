"""Recording of one cell: redacted, journalled, and saved only when complete.

Values of fields whose name suggests a password or key are suspected secrets. They cannot be redacted because a model or
a tool chose them and playback must repeat them. They are reported with their place instead, and the user decides
whether to store them.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.jsonvalue import join, loads_or_none
from harness.apis.view import WireError
from harness.cassettes.cassette import Cassette, Interaction, Metadata
from harness.cassettes.cassette_files import dumps, write_file
from harness.cassettes.library import CassetteLibrary, Journal, UnfinishedJournal
from harness.cassettes.player import request_key
from harness.cassettes.redact import REDACTED, Redactor
from harness.model.errors import CassetteError, RecordingRefused
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.platform.environment import is_secret_field, words

_SECRET_LAST_WORDS = frozenset(
    {"apikey", "credential", "credentials", "key", "passphrase", "passwd", "password", "pwd", "secret", "token"}
)
"""Last words of field names whose values are suspected secrets."""

_ASSIGNMENT = re.compile(
    r"(?<![A-Za-z0-9])((?:[A-Za-z]{1,20} )?[A-Za-z][A-Za-z0-9_-]{1,40})[\"']?\s{0,2}[:=]\s{0,2}[\"']?"
    r"([^\s\"'<>(){}\[\],;|]{8,128})(?![(\[{])"
)
_PLACEHOLDER = re.compile(
    r"[<$%{*]|\.\.\.|…|x{4}|\*{3}|^(?:your|my|the|some|test|dummy|fake|sample|example|placeholder|change)|example|"
    r"^[a-z_]+(?:\.[a-z_]+)+|^[./~]|://|^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$|"
    r"^(?:call|toolu|msg|resp|fc|rs|req|chatcmpl|run|thread)_|^data:",
    re.IGNORECASE,
)
"""Matches values that are not secrets, such as placeholders, ids, addresses and code."""

_SCHEMAS = frozenset({"tools", "functions", "response_format", "responseSchema", "responseJsonSchema", "parameters"})
_OPAQUE = frozenset({"signature", "thoughtSignature", "thought_signature", "encrypted_content", "data"})


@dataclass(frozen=True, slots=True)
class SuspectedSecret:
    """A suspected secret: its place, in the form that `--allow-secret` expects, and the name of its field."""

    place: str
    name: str


def suspected_secrets(
    interactions: Sequence[Interaction], wires: Sequence[Api | None], path: Path
) -> list[SuspectedSecret]:
    """Return the suspected secrets of a redacted cassette that is to be written at `path`.

    `wires` contains the API of each exchange, or `None` if the exchange is not a conversation. Repeated values are
    reported once.
    """
    found: dict[str, SuspectedSecret] = {}
    cell = "/".join(path.with_suffix("").parts[-2:])
    for at, (each, wire) in enumerate(zip(interactions, wires, strict=True)):
        if wire is None:
            continue
        for place, name, value in _values(each, wire):
            found.setdefault(value, SuspectedSecret(f"{cell} {place.format(at=at)}", name))
    return [*found.values()]


def suspected_secrets_message(found: Sequence[SuspectedSecret], allowed: Sequence[str], option: str) -> str | None:
    """Return why a cassette must not be written and how to allow it, or `None` if all suspected secrets are in allowed
    places.
    """
    left = [each for each in found if not any(fnmatchcase(each.place, pattern) for pattern in allowed)]
    if not left:
        return None
    named = "; ".join(f"{each.place} ({each.name})" for each in left[:5])
    more = f", and {len(left) - 5} more" if len(left) > 5 else ""
    return (
        f"what looks like a secret would be in it, so it was not written: {named}{more}. Take it out of what is said, "
        f"or allow its place: {option} '{left[0].place}'"
    )


def _values(interaction: Interaction, wire: Api) -> Iterator[tuple[str, str, str]]:
    for pointer, name, value in _named_strings(loads_or_none(interaction.request.body), ""):
        yield f"request {{at}} {_literal(pointer)}", name, value
    if interaction.response is None:
        return
    try:
        answer = wire.read(interaction.response)
    except WireError:
        return
    for number, call in enumerate(answer.calls):
        for pointer, name, value in _named_strings(call.arguments, ""):
            yield f"response {{at}} call {number} {_literal(pointer)}", name, value
    for name, value in _assignments(answer.text):
        yield "response {at} text", name, value


def _literal(pointer: str) -> str:
    return pointer.replace("{", "{{").replace("}", "}}")


def _named_strings(value: JSON, pointer: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    left: list[tuple[JSON, str, str]] = [(value, pointer, name)]
    while left:
        node, at, key = left.pop()
        if isinstance(node, dict):
            entries = [(each, inner) for each, inner in node.items() if each not in _SCHEMAS and each not in _OPAQUE]
            left += [(inner, join(at, each), each) for each, inner in reversed(entries)]
        elif isinstance(node, list):
            left += [(each, join(at, index), key) for index, each in reversed([*enumerate(node)])]
        elif isinstance(node, str):
            if is_secret_field(key) and words(key)[-1] in _SECRET_LAST_WORDS and _looks_secret(node, min_kinds=2):
                yield at, key, node
                continue
            inner = _json(node)
            if inner is not None:
                left.append((inner, at, key))
            else:
                yield from ((at, each, found) for each, found in _assignments(node))


def _json(text: str) -> JSON:
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of assignments in prose or code, such as `password: value` or `API_KEY=value`."""
    for match in _ASSIGNMENT.finditer(text):
        name, value = match[1], match[2].rstrip(".!?`:")
        if is_secret_field(name) and words(name)[-1] in _SECRET_LAST_WORDS and _looks_secret(value, min_kinds=3):
            yield name, value


def _looks_secret(value: str, min_kinds: int) -> bool:
    if len(value) < 8 or len(value) > 512 or REDACTED in value or re.search(r"\s", value) or _PLACEHOLDER.search(value):
        return False
    kinds = [r"[a-z]", r"[A-Z]", r"[0-9]", r"[^A-Za-z0-9]"]
    return bool(re.search(r"[0-9]", value)) and sum(bool(re.search(kind, value)) for kind in kinds) >= min_kinds


class CellRecording:
    """Context manager that records a cell into `library`.

    Leaving it before `complete` keeps the old cassette and the journal. The next recording resumes from the journal:
    requests that are equal and in the same order get the stored responses.

    `allowed` lists places where suspected secrets may be stored. `taken` counts the exchanges resumed from the journal.
    `notes` are sentences about what happened to that journal.

    Raises:
        RecordingRefused: the cassette was recorded with another model, or may have been paid for (unless `replaces`
            or `force` is set).
        CassetteLocked: another process is recording the cassette.
        CassetteError: the existing cassette cannot be read (unless `force`), or the folder cannot be written.
    """

    def __init__(  # noqa: PLR0913 - what is recorded where, and what may be in the way
        self,
        library: CassetteLibrary,
        metadata: Metadata,
        redactor: Redactor,
        *,
        force: bool = False,
        replaces: bool = False,
        allowed: Sequence[str] = (),
    ) -> None:
        self.taken = 0
        self.notes: list[str] = []
        self._path = library.place_for(metadata, force=force or replaces)
        self._metadata = metadata
        self._redactor = redactor
        self._force = force
        self._allowed = allowed
        self._interactions: list[Interaction] = []
        self._lines = 0
        self._failure: CassetteError | None = None
        self._completed = False
        self._journal = Journal(self._path, metadata, force=force)
        self._left = deque(answers(self._journal.leftover))
        try:
            # Check again under the lock: its previous owner may have saved a cassette.
            library.place_for(metadata, force=force or replaces)
            if self._left and not _is_continued(self._journal.leftover, metadata):
                self._part()
        except CassetteError:
            if self._journal.leftover.interactions:
                self._journal.close()
            else:
                self._journal.remove()
            raise

    def earlier_response(self, request: HttpRequest) -> HttpResponse | None:
        """Return the response that an earlier recording received for this request, if it is the next one in the
        journal.

        Raises:
            CassetteError: the request differs, and the rest of the journal cannot be moved away.
        """
        if not self._left:
            return None
        if not _is_same(self._left[0][1].request, self._redactor.request(request)):
            self._part()
            return None
        return self._take().response

    def keep(self, request: HttpRequest, response: HttpResponse) -> None:
        """Add an exchange. When this returns, it is on disk, with secrets removed. Raises `CassetteError`."""
        interaction = Interaction(self._redactor.request(request), self._redactor.response(response))
        if self._left and self._left[0][1] == interaction:  # resent, with the same response as in the journal
            self._take()
            return
        if self._left and _is_answer(interaction, self._metadata.api):
            self._part()
        try:
            self._journal.append(interaction)
        except CassetteError as error:
            self._failure = error
            raise
        self._interactions.append(interaction)

    def complete(self, model_served: str | None = None) -> Cassette:
        """Write the cassette, replacing the old one.

        Raises:
            RecordingRefused: the cassette would contain a suspected secret.
            CassetteError: nothing was recorded, the cassette would contain a known secret, or the folder cannot be
                written.
        """
        if self._failure is not None:
            raise self._failure
        if not self._interactions:
            raise CassetteError(str(self._path), "no exchange was recorded, so there is no cassette to write.")
        if self._left:
            self._part()
        if self._metadata.origin != "reference":  # its answers come from the script
            wires = [registry.api(self._metadata.api)] * len(self._interactions)
            found = suspected_secrets(self._interactions, wires, self._path)
            refused = suspected_secrets_message(found, self._allowed, "--allow-secret")
            if refused is not None:
                journal = self._journal.path
                where = (
                    f"The responses so far are in {journal}, which only you may read. To delete them: rm '{journal}'"
                )
                raise RecordingRefused(str(self._path), f"{refused}. {where}.")
        begun = self._journal.leftover.metadata if self.taken else None
        recorded_at = begun.recorded_at if begun else self._metadata.recorded_at
        metadata = replace(self._metadata, model_served=model_served, recorded_at=recorded_at)
        cassette = Cassette(tuple(self._interactions), metadata)
        data = dumps(cassette, str(self._path))
        if self._redactor.finds(data):
            reason = (
                "a key of this run would be in it, so nothing was written. Please report this with the scenario's id."
            )
            raise CassetteError(str(self._path), reason)
        write_file(self._path, data)
        self._completed = True
        return cassette

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        kept = [each for each in self._interactions if _is_answer(each, self._metadata.api)]
        if self.taken:
            self.notes.append(
                f"Reused {_exchanges(self.taken, 'answered ')} of {self._path} without sending a request."
            )
        if self._completed or not (kept or self._left):
            left = self._journal.remove()
            self.notes += [left] if left else []
        else:
            self._journal.close()
            self.notes.append(
                f"{self._path} is not complete. Its responses so far ({_exchanges(len(kept) + len(self._left))}) are "
                f"in {self._journal.path.name}, and the next recording of the cell reuses them. To request them again, "
                "delete the file."
            )
        if error is None and self._failure is not None:
            raise self._failure  # an SDK may have reported it as a connection failure

    def _take(self) -> Interaction:
        self._lines, interaction = self._left.popleft()
        self._interactions.append(interaction)
        self.taken += 1
        return interaction

    def _part(self) -> None:
        """Stop resuming from the earlier journal. Its remaining exchanges are moved to another file or, with `force`,
        dropped.
        """
        unasked = len(self._left)
        try:
            kept = None if self._force else self._journal.keep_leftover()
            self._journal.cut(self._lines)
        except CassetteError as error:
            self._failure = error
            raise
        self._left.clear()
        where = "removed because of --force" if kept is None else f"kept in {kept}"
        self.notes.append(
            f"{self._path}: the responses of an unfinished recording ({_exchanges(unasked)}) were not reused, "
            f"because the requests have changed. They are {where}."
        )


def answers(leftover: UnfinishedJournal) -> list[tuple[int, Interaction]]:
    """Return the successful exchanges of a journal, each with its number in the journal.

    Failed exchanges are left out because a retry may succeed.
    """
    if leftover.metadata is None:  # journals of earlier versions have no metadata
        return [*enumerate(leftover.interactions, 1)]
    api = leftover.metadata.api
    return [(number, each) for number, each in enumerate(leftover.interactions, 1) if _is_answer(each, api)]


def _is_answer(interaction: Interaction, api: str) -> bool:
    response = interaction.response
    if response is None or response.status >= 400 or response.delivery.ending != "complete":
        return False
    wire = registry.api(api)
    if wire.embeddings is not None and wire.embeddings.recognises(interaction.request):
        return True
    try:
        view = wire.read(response)
    except WireError:
        return False
    return view.error is None and view.complete


def _is_continued(leftover: UnfinishedJournal, metadata: Metadata) -> bool:
    return leftover.metadata is not None and leftover.metadata.origin == metadata.origin


def _is_same(one: HttpRequest, other: HttpRequest) -> bool:
    if (urlsplit(one.url)[:2], one.headers) != (urlsplit(other.url)[:2], other.headers):
        return False
    return request_key(one) == request_key(other)


def _exchanges(count: int, kind: str = "") -> str:
    return f"1 {kind}exchange" if count == 1 else f"{count} {kind}exchanges"
