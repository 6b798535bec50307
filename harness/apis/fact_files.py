"""Fact files, and the selection of facts that apply to a model on a day."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic import ValidationError

from harness.apis.fact import Breach, Example, Fact, FactFile, LimitEntry
from harness.apis.jsonvalue import keys, parse_body, resolve
from harness.apis.limits import Limit, Violation, adapt_words, fill_placeholders, full, limit_severity, remedy
from harness.apis.matching import ConditionFilter, RequestData, SchemaPlaces
from harness.apis.view import WireError
from harness.documents.document import MAX_BYTES, YamlDocument, read
from harness.documents.strict_models import describe, explain
from harness.model.errors import FactsError, UsageError
from harness.model.http import HttpRequest
from harness.model.messages import JSON
from harness.platform.files import read_file

_State: TypeAlias = "tuple[tuple[Path, int], ...]"
"""Files with their modification times."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about one API, read from files on first use.

    If several facts have the same id, the last one is used, at the position of the first.
    """

    files: tuple[Path, ...] = ()

    @classmethod
    def next_to(cls, module: str) -> Facts:
        """Return the facts in `facts.yaml` and `server-facts.yaml` next to a module, given the module's `__file__`."""
        files = (Path(module).with_name(name) for name in ("facts.yaml", "server-facts.yaml"))
        return cls(tuple(file for file in files if file.exists()))

    def extended_by(self, api: str, files: Iterable[Path]) -> Facts:
        """Return these facts together with the facts about the API in other files."""
        return Facts((*self.files, *(file for file in files if _read(file).api == api)))

    def all(self) -> tuple[Fact, ...]:
        """Return all facts. Raises `FactsError`."""
        return tuple(_by_id(self._state).values())

    def for_model(self, model: str, day: dt.date) -> tuple[Fact, ...]:
        """Return the facts that apply to a model on a day, for any service. The same tuple object is returned until a
        file changes.
        """
        return _applicable_facts(self._state, model, day)

    def with_ids(self, ids: Iterable[str]) -> tuple[Fact, ...]:
        """Return the facts with these ids; unknown ids are skipped."""
        by_id = _by_id(self._state)
        return tuple(by_id[each] for each in ids if each in by_id)

    @property
    def limits(self) -> Mapping[str, tuple[Limit, LimitEntry]]:
        """Limits by id, each with the entry that defines it."""
        return _limits(self._state)

    @property
    def bases(self) -> Mapping[str, Example]:
        """Base requests that examples extend, by name."""
        return {name: base for file in self.files for name, base in _read(file).bases.items()}

    @property
    def written(self) -> frozenset[str]:
        """The ids of facts that are implemented by limits or Python checks."""
        return _written_keys(self._state)

    @property
    def _state(self) -> _State:
        return tuple((file, _modification_time(file)) for file in self.files)


@dataclass(frozen=True, slots=True)
class FactSelection:
    """Selection of facts by day, with optional additional fact files. Without a day, the day of each request is used.

    A fact in these files replaces the built-in fact with the same id, or is added.
    """

    day: dt.date | None = None
    files: tuple[Path, ...] = ()

    def on(self, made: dt.date | None) -> FactSelection:
        """Return the selection to use for a request that was made on the day `made`. If the selection has a day, it is
        kept.
        """
        return self if self.day or made is None else FactSelection(made, self.files)

    def check(self, apis: Iterable[str]) -> None:
        """Check that each file is readable and is about one of these APIs. Raises `FactsError`."""
        known = [*apis]
        for file in self.files:
            if (api := _read(file).api) not in known:
                raise FactsError(str(file), f"there is no API {api!r}. Known: {', '.join(known)}.", key="api")


SHIPPED = FactSelection()
"""The built-in facts, on the day of each request."""


class ApiLimits:
    """The limits of an API that Python code checks, looked up by id without the API's prefix."""

    def __init__(self, facts: Facts, prefix: str) -> None:
        self._facts = facts
        self._prefix = prefix

    def __call__(self, name: str) -> Limit:
        """Return a limit by its id without the API's prefix."""
        return self._facts.limits[f"{self._prefix}-{name}"][0]

    @cached_property
    def fields(self) -> Mapping[str, Mapping[str, JSON]]:
        """Known request fields, each with a JSON Schema for its type and bounds. They are the parameters of the limit
        that rejects unknown fields.

        Fields with an empty schema are checked elsewhere.
        """
        entries = self._facts.limits.values()
        return next(cast("Any", entry.parameters) for _, entry in entries if entry.parameters is not None)


def today() -> dt.date:
    """Return the current day in UTC."""
    return dt.datetime.now(dt.UTC).date()


def parse_day(text: str, option: str) -> dt.date:
    """Parse the value of an option that names a day. Raises `UsageError`."""
    if text == "today":
        return today()
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is not a date. Write it as in 2026-07-01, or today.") from None


class CompiledFacts:
    """Conditions of facts and of limit breaches, compiled once and evaluated for many requests."""

    def __init__(
        self,
        facts: Iterable[Fact],
        schemas: SchemaPlaces,
        breaches: Iterable[tuple[Limit, Breach]] = (),
        spelled: Callable[[str], str] = str,
    ) -> None:
        self.facts = tuple(facts)
        self.breaches = tuple(breaches)
        self._schemas = schemas
        self._spelled = spelled
        conditions = [*(breach.conditions for _, breach in self.breaches), *(fact.conditions for fact in self.facts)]
        self._filter = ConditionFilter(conditions, schemas)

    def judge(self, request: HttpRequest) -> tuple[list[Violation], list[Violation]]:
        """Return the violations of limits and, separately, the violations of facts without limits. Never raises."""
        limits, refused = list[Violation](), list[Violation]()
        try:
            body = parse_body(request.body)
        except WireError:
            return limits, refused
        data = RequestData(body, {name.lower(): value for name, value in request.headers.items()}, self._schemas)
        for number in self._filter.select(data):
            if number < len(self.breaches):
                limits += (
                    self._violation(number, pointer, body)
                    for pointer in self.breaches[number][1].conditions.places(data)
                )
            else:
                fact = self.facts[number - len(self.breaches)]
                pointer = fact.conditions.first_match(data)
                if pointer is not None:
                    value = resolve(body, pointer)
                    message = adapt_words(fact.words, pointer, value) if fact.words else fact.says
                    refused.append(
                        limit_for_fact(fact).make_violation(message, pointer, actual=_scalar(value), status=fact.status)
                    )
        return limits, refused

    def _violation(self, number: int, pointer: str, body: JSON) -> Violation:
        limit, breach = self.breaches[number]
        first = breach.when[0]
        path, value, message = first.at or "", resolve(body, pointer), breach.message or limit.sentence
        if first.like is not None and isinstance(value, str) and "{found}" in message:
            found = re.fullmatch(first.like, value)
            message = message.replace("{found}", found[1] if found else "")
        if first.unknown is not None:
            value = keys(pointer)[-1]
        elif full(path, pointer) != pointer or (first.operator in ("there", "longer") and _scalar(value) is None):
            value = None
        return limit.make_violation(
            fill_placeholders(message, path, pointer, body, self._spelled),
            pointer,
            actual=value,
            expected=breach.expected,
            code=breach.code,
            severity=breach.severity,
        )


def limit_for_fact(fact: Fact) -> Limit:
    """Return the limit that corresponds to a fact with conditions. Its id is the fact's id."""
    return Limit(fact.id, fact.says, fact.id, limit_severity("error", [fact]), remedy=remedy(fact))


def limit_for_entry(fact: Fact, entry: LimitEntry) -> Limit:
    """Return the limit that an entry of a fact defines."""
    severity = "warning" if all(each.severity == "warning" for each in (entry, *entry.ways)) else "error"
    source = ", ".join((fact.id, *entry.also))
    return Limit(entry.id, entry.says, source, severity, entry.word, entry.remedy)


def _scalar(value: JSON) -> JSON:
    return value if isinstance(value, str | int | float | bool) else None


def read_fact_file(path: Path) -> FactFile:
    """Read a file of facts.

    Raises:
        FactsError: the file is unreadable or does not have the form of `harness.apis.fact`; the error names file, line,
        column and key.
    """
    try:
        document = read(read_file(path, MAX_BYTES), str(path), FactsError)
    except FileNotFoundError:
        raise FactsError(str(path), "there is no such file.") from None
    except OSError as error:
        raise FactsError(str(path), f"cannot be read: {error.strerror}.") from None
    if not isinstance(document.value, dict):
        raise document.error((), f"a file of facts is a mapping with api and facts, not {describe(document.value)}.")
    try:
        file = FactFile.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        errors = [explain(document, details) for details in error.errors(include_url=False)]
        raise min(errors, key=lambda each: (each.line or 0, each.column or 0)) from None
    _check_ids(document, file)
    return file


def _read(path: Path) -> FactFile:
    """Return the content of a fact file, cached until the file changes."""
    return _load_version(path, _modification_time(path))


def _modification_time(path: Path) -> int:
    """Return the modification time of a file, or 0 for a missing file."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@cache
def _load_version(path: Path, _changed: int) -> FactFile:
    return read_fact_file(path)


@lru_cache
def _by_id(state: _State) -> Mapping[str, Fact]:
    return {fact.id: fact for file, changed in state for fact in _load_version(file, changed).facts}


@lru_cache
def _limits(state: _State) -> Mapping[str, tuple[Limit, LimitEntry]]:
    return {entry.id: (limit_for_entry(fact, entry), entry) for fact in _by_id(state).values() for entry in fact.limits}


@lru_cache
def _written_keys(state: _State) -> frozenset[str]:
    by_limits = frozenset(source for limit, _ in _limits(state).values() for source in limit.facts)
    return by_limits.union(fact.id for fact in _by_id(state).values() if fact.check is not None)


@lru_cache(1024)
def _applicable_facts(state: _State, model: str, day: dt.date) -> tuple[Fact, ...]:
    return tuple(fact for fact in _by_id(state).values() if fact.is_on(day) and fact.is_of(model))


def _check_ids(document: YamlDocument, file: FactFile) -> None:
    seen: dict[str, int] = {}
    limits: set[str] = set()
    for index, fact in enumerate(file.facts):
        for number, limit in enumerate(fact.limits):
            if limit.id in limits:
                at = ("facts", index, "limits", number, "id")
                raise document.error(at, f"the id {limit.id!r} is already used by another limit.")
            limits.add(limit.id)
        place = ("facts", index, "id")
        if not fact.id.startswith(f"{file.api}-"):
            raise document.error(place, f"the id must begin with the API's name, {file.api}-.")
        if fact.id in seen:
            raise document.error(place, f"the id {fact.id!r} is that of facts[{seen[fact.id]}] already.")
        seen[fact.id] = index
