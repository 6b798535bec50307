"""Suspected secrets in a conversation with a model: values of fields whose name suggests a password or key.

They cannot be redacted because a model or a tool chose them and playback must repeat them. They are reported with their
place instead, and the user decides whether to store them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from harness.apis.api import Api
from harness.apis.jsonvalue import join, loads
from harness.apis.view import WireError
from harness.cassettes.cassette import Interaction
from harness.cassettes.redact import REDACTED
from harness.model.messages import JSON
from harness.platform.environment import is_secret_field, words

_LAST = frozenset(
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
class Suspect:
    """A suspected secret: its place, in the form that `--allow-secret` expects, and the name of its field."""

    place: str
    name: str


def suspects(interactions: Sequence[Interaction], wires: Sequence[Api | None], path: Path) -> list[Suspect]:
    """Return the suspected secrets of a redacted cassette that is to be written at `path`.

    `wires` contains the API of each exchange, or `None` if the exchange is not a conversation. Repeated values are
    reported once.
    """
    found: dict[str, Suspect] = {}
    cell = "/".join(path.with_suffix("").parts[-2:])
    for at, (each, wire) in enumerate(zip(interactions, wires, strict=True)):
        if wire is None:
            continue
        for place, name, value in _values(each, wire):
            found.setdefault(value, Suspect(f"{cell} {place.format(at=at)}", name))
    return [*found.values()]


def unallowed(found: Sequence[Suspect], allowed: Sequence[str], option: str) -> str | None:
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
    try:
        body = loads(interaction.request.body)
    except WireError:
        body = None
    for pointer, name, value in _within(body, ""):
        yield f"request {{at}} {_literal(pointer)}", name, value
    if interaction.response is None:
        return
    try:
        answer = wire.read(interaction.response)
    except WireError:
        return
    for number, call in enumerate(answer.calls):
        for pointer, name, value in _within(call.arguments, ""):
            yield f"response {{at}} call {number} {_literal(pointer)}", name, value
    for name, value in _assigned(answer.text):
        yield "response {at} text", name, value


def _literal(pointer: str) -> str:
    return pointer.replace("{", "{{").replace("}", "}}")


def _within(value: JSON, pointer: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    left: list[tuple[JSON, str, str]] = [(value, pointer, name)]
    while left:
        node, at, key = left.pop()
        if isinstance(node, dict):
            entries = [(each, inner) for each, inner in node.items() if each not in _SCHEMAS and each not in _OPAQUE]
            left += [(inner, join(at, each), each) for each, inner in reversed(entries)]
        elif isinstance(node, list):
            left += [(each, join(at, index), key) for index, each in reversed([*enumerate(node)])]
        elif isinstance(node, str):
            if is_secret_field(key) and words(key)[-1] in _LAST and _looks_secret(node, least=2):
                yield at, key, node
                continue
            inner = _json(node)
            if inner is not None:
                left.append((inner, at, key))
            else:
                yield from ((at, each, found) for each, found in _assigned(node))


def _json(text: str) -> JSON:
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _assigned(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of assignments in prose or code, such as `password: value` or `API_KEY=value`."""
    for match in _ASSIGNMENT.finditer(text):
        name, value = match[1], match[2].rstrip(".!?`:")
        if is_secret_field(name) and words(name)[-1] in _LAST and _looks_secret(value, least=3):
            yield name, value


def _looks_secret(value: str, least: int) -> bool:
    if len(value) < 8 or len(value) > 512 or REDACTED in value or re.search(r"\s", value) or _PLACEHOLDER.search(value):
        return False
    kinds = [r"[a-z]", r"[A-Z]", r"[0-9]", r"[^A-Za-z0-9]"]
    return bool(re.search(r"[0-9]", value)) and sum(bool(re.search(kind, value)) for kind in kinds) >= least
