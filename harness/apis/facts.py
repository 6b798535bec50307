"""Reads files of facts, and chooses those that hold for a model on a day."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from harness.apis.bodies import parsed
from harness.apis.conditions import Asked, SchemaPlaces
from harness.apis.fact import Fact, FactFile
from harness.apis.jsonvalue import resolve
from harness.apis.limit import Limit, Violation, lesser
from harness.apis.remedies import remedy
from harness.apis.sieve import Sieve
from harness.apis.view import WireError
from harness.apis.wording import said_of
from harness.contract.errors import FactsError, UsageError
from harness.contract.http import HttpRequest
from harness.contract.model import JSON
from harness.host.file import contents
from harness.scenarios.document import MAX_BYTES, Document, read
from harness.scenarios.explain import explain, kind

_State: TypeAlias = "tuple[tuple[Path, int], ...]"
"""Files, each with when it was last changed."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about one API, in their order: those of files, which are read when they are first asked for.

    Of facts with one id the one that was read last counts, in the place of the first.
    """

    files: tuple[Path, ...] = ()

    @classmethod
    def beside(cls, module: str) -> Facts:
        """Those in `facts.yaml` beside a module, whose `__file__` this is."""
        return cls((Path(module).with_name("facts.yaml"),))

    def together(self, api: str, files: Iterable[Path]) -> Facts:
        """These and those of other files, as far as they are about the API."""
        return Facts((*self.files, *(file for file in files if _read(file)[0] == api)))

    def all(self) -> tuple[Fact, ...]:
        """All of them. Raises `FactsError`, as `facts_in` says."""
        return tuple(_by_id(self._state).values())

    def holding(self, model: str, day: dt.date) -> tuple[Fact, ...]:
        """Those about a model, on a day, at any service: the same tuple, for as long as the files stay what they are,
        since a model's facts are asked for with each of its recordings."""
        return _holding(self._state, model, day)

    def named(self, ids: Iterable[str]) -> tuple[Fact, ...]:
        """Those with these ids; of an id that there is not, nothing."""
        by_id = _by_id(self._state)
        return tuple(by_id[each] for each in ids if each in by_id)

    @property
    def _state(self) -> _State:
        return tuple((file, _changed(file)) for file in self.files)


@dataclass(frozen=True, slots=True)
class Edition:
    """Which facts are asked: those of a day (`None`: of the day on which a request was made), and of files of one's
    own, whose facts change, retire or join the shipped ones."""

    day: dt.date | None = None
    files: tuple[Path, ...] = ()

    def on(self, made: dt.date | None) -> Edition:
        """The same for a request that was made on a day, unless another day was asked for."""
        return self if self.day or made is None else Edition(made, self.files)

    def check(self, apis: Iterable[str]) -> None:
        """Whether the files can be read, and are of these APIs. Raises `FactsError`."""
        known = [*apis]
        for file in self.files:
            if (api := _read(file)[0]) not in known:
                raise FactsError(str(file), f"there is no API {api!r}. Known: {', '.join(known)}.", key="api")


SHIPPED = Edition()
"""The facts that come with this package, of the day on which a request was made."""


def today() -> dt.date:
    """The day by whose facts a request is judged that is made now."""
    return dt.datetime.now(dt.UTC).date()


def day(text: str, option: str) -> dt.date:
    """The day that an option was given. Raises `UsageError`: it is none."""
    if text == "today":
        return today()
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is no day. Write it as in 2026-07-01, or today.") from None


class Docket:
    """Facts that many requests are held to, by their conditions alone."""

    def __init__(self, facts: Iterable[Fact], schemas: SchemaPlaces) -> None:
        self.facts = tuple(facts)
        self._schemas = schemas
        self._sieve = Sieve([fact.conditions for fact in self.facts], schemas)

    def broken(self, request: HttpRequest) -> Iterator[Violation]:
        """The facts whose conditions a request meets: it is refused. Never raises; an unreadable body meets none."""
        try:
            body = parsed(request.body)
        except WireError:
            return
        asked = Asked(body, {name.lower(): value for name, value in request.headers.items()}, self._schemas)
        for number in self._sieve.passing(asked):
            fact = self.facts[number]
            pointer = fact.conditions.met(asked)
            if pointer is not None:
                value = resolve(body, pointer)
                said = said_of(fact.words, pointer, value) if fact.words else fact.says
                yield limit_of(fact).broken(said, pointer, actual=_shown(value), status=fact.status)


def limit_of(fact: Fact) -> Limit:
    """The limit that a fact with conditions is: under its own id."""
    return Limit(fact.id, fact.says, fact.id, lesser("error", [fact]), remedy=remedy(fact))


def _shown(value: JSON) -> JSON:
    return value if isinstance(value, str | int | float | bool) else None


def facts_in(path: Path) -> tuple[str, tuple[Fact, ...]]:
    """The API's name and the facts of a file.

    Raises:
        FactsError: it cannot be read, or is not what `harness.apis.fact` says: file, line, column and key.
    """
    try:
        document = read(contents(path, MAX_BYTES), str(path), FactsError)
    except FileNotFoundError:
        raise FactsError(str(path), "there is no such file.") from None
    except OSError as error:
        raise FactsError(str(path), f"cannot be read: {error.strerror}.") from None
    if not isinstance(document.value, dict):
        raise document.error((), f"a file of facts is a mapping with api and facts, not {kind(document.value)}.")
    try:
        file = FactFile.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        errors = [explain(document, details) for details in error.errors(include_url=False)]
        raise min(errors, key=lambda each: (each.line or 0, each.column or 0)) from None
    _check_ids(document, file)
    return file.api, tuple(file.facts)


def _read(path: Path) -> tuple[str, tuple[Fact, ...]]:
    """What `facts_in` says, read once for as long as the file stays what it is."""
    return _unchanged(path, _changed(path))


def _changed(path: Path) -> int:
    """When a file was last changed; of one that is not there, 0."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@cache
def _unchanged(path: Path, _changed: int) -> tuple[str, tuple[Fact, ...]]:
    return facts_in(path)


@lru_cache
def _by_id(state: _State) -> Mapping[str, Fact]:
    return {fact.id: fact for file, changed in state for fact in _unchanged(file, changed)[1]}


@lru_cache(1024)
def _holding(state: _State, model: str, day: dt.date) -> tuple[Fact, ...]:
    return tuple(fact for fact in _by_id(state).values() if fact.is_on(day) and fact.is_of(model))


def _check_ids(document: Document, file: FactFile) -> None:
    seen: dict[str, int] = {}
    for index, fact in enumerate(file.facts):
        place = ("facts", index, "id")
        if not fact.id.startswith(f"{file.api}-"):
            raise document.error(place, f"the id has to begin with the API's name, {file.api}-.")
        if fact.id in seen:
            raise document.error(place, f"the id {fact.id!r} is that of facts[{seen[fact.id]}] already.")
        seen[fact.id] = index
