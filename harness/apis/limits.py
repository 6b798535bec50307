"""Limits of requests, violations of them, and the wording of refusals and remedies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import JsonValue

from harness.apis.condition import Condition
from harness.apis.fact import Fact, Ruling
from harness.apis.jsonvalue import as_list, join, resolve, type_of
from harness.model.messages import JSON

LimitSeverity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Limit:
    """A requirement on requests, with a stable kebab-case `id`.

    `sentence` states the requirement, and `source` lists the ids of its facts. A violation is an error if one of these
    facts is a certain refusal, and otherwise a warning. `severity` is an upper bound. `word` is a word that the texts
    of a request must contain, if the limit requires one. `remedy` describes how to comply.
    """

    id: str
    sentence: str
    source: str
    severity: LimitSeverity = "error"
    word: str | None = None
    remedy: str = ""

    @property
    def facts(self) -> tuple[str, ...]:
        """The ids of its facts."""
        return tuple(self.source.split(", "))

    def make_violation(  # noqa: PLR0913 - a parameter for each fact that a refusal has
        self,
        message: str,
        pointer: str,
        *,
        actual: JSON = None,
        expected: JSON = None,
        status: int = 400,
        code: str | None = None,
        severity: LimitSeverity | None = None,
        source: str | None = None,
    ) -> Violation:
        """Return a violation of this limit. `severity` and `source` replace the limit's own."""
        return Violation(
            self, message, pointer, severity or self.severity, source or self.source, actual, expected, status, code
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of a limit.

    `message` is worded like the provider's refusal, so that the reference server can send it. No code depends on its
    wording. `pointer` is the JSON pointer of the violation in the body.
    """

    limit: Limit
    message: str
    pointer: str
    severity: LimitSeverity
    source: str
    actual: JSON = None
    expected: JSON = None
    status: int = 400
    code: str | None = None

    @property
    def rule(self) -> str:
        """The id of the limit."""
        return self.limit.id


def limit_severity(severity: LimitSeverity, facts: Iterable[Fact]) -> LimitSeverity:
    """Return `severity` if one of the facts is a certain refusal, and otherwise `warning`."""
    return severity if any(fact.verdict == "refused" and fact.is_certain for fact in facts) else "warning"


def severity_of(ruling: Ruling | None) -> LimitSeverity | None:
    """Return the severity for a ruling of a model's profile, `None` for an accepted or unknown feature."""
    match ruling:
        case "refused":
            return "error"
        case "unclear":
            return "warning"
        case "taken" | None:
            return None


def limits_among(namespace: Mapping[str, object]) -> tuple[Limit, ...]:
    """Return the limits among a module's names, in their order."""
    return tuple(value for value in namespace.values() if isinstance(value, Limit))


_PATH = re.compile(r"\b([a-z_]+)((?:\[\d+\]|\.\d+)(?:\.[A-Za-z_]\w*|\[\d+\]|\.\d+)*)")
"""A location in a body as APIs write it: `messages[4].tool_calls[0].id`, `messages.92.content.0.tool_use.id`."""

_INDEX = re.compile(r"\d+(?=[\].]|$)")
_LENGTH_IN_MESSAGE = re.compile(r"(\bgot an? \w+ with length )\d+")


def adapt_words(words: str, pointer: str, value: JSON) -> str:
    """Adapt the recorded text of a refusal to this request's indices and to the length of `value`."""
    root, *rest = pointer.split("/")[1:] or [""]
    indices = [each for each in rest if each.isdecimal()]

    def at(match: re.Match[str]) -> str:
        if match[1] != root:
            return match[0]
        left = iter(indices)
        return match[1] + _INDEX.sub(lambda index: next(left, index[0]), match[2])

    adapted = _PATH.sub(at, words)
    return _LENGTH_IN_MESSAGE.sub(rf"\g<1>{len(value)}", adapted) if isinstance(value, str | list) else adapted


_STEP = re.compile(r"([^.\[\]]+)|\[[^\]]*\]")
_FIELD = re.compile(r"\{(path|parent|value|shown|type|length|model|json|repr)(?::(\^*[\w.]+))?\}")


def fill_placeholders(message: str, path: str, pointer: str, body: JSON, spelled: Callable[[str], str]) -> str:
    """Return the message of a violation with its placeholders replaced.

    `path` is the path in the condition. `pointer` is the location that met the condition, and it is shorter than the
    path if a key is absent. `{value:name}` is the value of a key below that location, and `{value:^name}` the value of
    a sibling key.
    """
    whole = full(path, pointer)

    def field(found: re.Match[str]) -> str:
        at = whole
        if found[2]:
            inside = found[2].lstrip("^")
            at = join(at.rsplit("/", up)[0] if (up := len(found[2]) - len(inside)) else at, *inside.split("."))
        if found[1] in ("path", "parent"):
            return spelled(at if found[1] == "path" else at.rpartition("/")[0])
        if found[1] == "model":
            return str(body.get("model")) if isinstance(body, dict) else ""
        return _placeholder_text(found[1], resolve(body, at) if pointer == whole else None)

    return _FIELD.sub(field, message)


def _placeholder_text(field: str, value: JSON) -> str:
    match field:
        case "shown":
            return f"'{value}'" if isinstance(value, str) else type_name(value)
        case "type":
            return type_name(value)
        case "json":
            return type(value).__name__
        case "repr":
            return repr(value)
        case "length":
            return str(len(value)) if isinstance(value, str | list) else "0"
        case _:
            return str(value)


def full(path: str, pointer: str) -> str:
    """Complete `pointer` with the remaining steps of a condition's path, and return it."""
    steps = [step[1] or "" for step in _STEP.finditer(path)]
    depth = pointer.count("/")
    return join(pointer, *steps[depth:]) if len(steps) > depth else pointer


def bracketed_path(pointer: str) -> str:
    """Return a pointer in OpenAI's spelling: `/messages/3/role` is `messages[3].role`."""
    keys = (key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:])
    return "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in keys).removeprefix(".")


_ARTICLES = {"array": "an array", "object": "an object", "null": "null"}


def type_name(value: JSON) -> str:
    """Return the JSON type of a value as refusals name it: `an array`, `a string`."""
    name = type_of(value)
    return _ARTICLES.get(name, f"a {name}")


_OR_LEAVE_OUT = ", or leave it out"

_NEEDED = frozenset({"role", "type", "model", "name"})
"""Keys that are required in their object."""

_SCHEMAS = {
    "tools": "the schemas of tools",
    "strict-tools": "the schemas of strict tools",
    "response": "the schema of the answer",
}


_REMEDIES = {
    "is": "send {place} other than {values}, or leave it out",
    "in": "send {place} other than {values}, or leave it out",
    "out": "send {place} as {values}, or leave it out",
    "not_in": "send {place} as {values}",
    "over": "send at most {values} for {place}",
    "under": "send at least {values} for {place}",
    "longer": "keep {place} to a length of {values}",
    "like": "write {place} so that it does not match {values}",
    "unlike": "write {place} so that it matches {values}",
    "not_kind": "send {place} as {values}",
    "kind": "send {place} as another JSON type than {values}, or leave it out",
    "members": "take each value of the type {values} out of {place}",
    "every": "send one {place} that is not {values}",
    "repeated": "give each {place} a value of its own",
    "beside": "leave out what is next to {place}, but for {values}",
    "unknown": "leave the field out, because the server does not know it",
    "only": "send {place} other than {values}",
    "empty": "send {place} with something in it",
    "outside": "use in {place} only what {values} has",
    "bytes": "keep {place} to {values} bytes of JSON",
    "pixels": "send images with sides of at most {values} pixels",
    "deeper": "nest at most {values} levels of objects and arrays in {place}",
    "shared": "leave out {values} next to {place}",
}
"""Maps each operator of a condition to a change after which the request no longer meets the condition."""


def remedy(fact: Fact) -> str:
    """Return a remedy that is derived from the first condition of a fact, or an empty string if the fact has no
    conditions.
    """
    if not fact.when:
        return ""
    first = fact.when[0]
    place = _place(first)
    if first.there is not None or first.longer == 0:
        return f"send {place}" if first.there is False else f"leave out {place}"
    several = isinstance(first.operand, list) and first.operator != "is"
    sentence = _REMEDIES[first.operator].format(
        place=place, values=_list_values(first.operand if several else [first.operand])
    )
    return sentence.removesuffix(_OR_LEAVE_OUT) if (first.at or "").rpartition(".")[2] in _NEEDED else sentence


def _place(condition: Condition) -> str:
    if condition.header is not None:
        return f"the header `{condition.header}`"
    if condition.schemas is not None:
        return f"`{condition.keyword}` in {'the root of ' if condition.root else ''}{_SCHEMAS[condition.schemas]}"
    return f"`{condition.at}`"


def _code_text(value: JsonValue) -> str:
    if isinstance(value, float) and value.is_integer():
        return f"`{value:.0f}`"
    return f"`{value}`" if value and isinstance(value, str) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _list_values(value: JsonValue) -> str:
    values = as_list(value)
    *others, last = dict.fromkeys(map(_code_text, values)) or ["none"]
    return f"{', '.join(others)} or {last}" if others else last
