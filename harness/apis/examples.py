"""Example requests of facts, made by changing an API's minimal request.

An example maps locations in the body to values, such as `tools[0].function.name: get weather`. Missing objects and
lists are created, and `messages[]` appends an element. `{repeated: x, times: 65}` is the string `x`, repeated 65 times.
If the repeated value is not a string, the result is a list, and `#` in its strings is replaced by the element's index.

Reserved keys:

- `from` names a base in the fact file, whose changes are applied first.
- `without` lists locations to delete.
- `model` and `path` replace those of the request.
- `headers` are added to those of the request, and replace headers with the same name.
- `raw` is a text that replaces the body.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, cast

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.fact import Example, Fact
from harness.apis.fact_files import SHIPPED, Facts, FactSelection, read_fact_file
from harness.apis.limits import Violation
from harness.apis.matching import RequestData
from harness.apis.profiles import OWN, RuleSet
from harness.documents.document import MAX_BYTES, read
from harness.model.errors import FactsError, FileError
from harness.model.http import HttpRequest
from harness.model.messages import JSON
from harness.platform.files import read_file

_STEP = re.compile(r"([^.\[\]]+)|\[(-?\d*)\]")

Key: TypeAlias = "tuple[str | int, ...]"
"""Path of an example inside its fact, such as `("limits", 0, "refuses", 1)`."""


@dataclass(slots=True)
class _Made:
    body: dict[str, Any]
    model: str
    path: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    raw: str | None = None


def request_of(api: Api, bases: Mapping[str, Example], example: Example, model: str, base_url: str) -> HttpRequest:
    """Return the request of an example, without a key. Raises `ValueError` for an unknown base."""
    smallest = api.minimal_request
    made = _Made({}, model, "")
    if smallest is not None:
        made.path = smallest.path
        made.headers |= {"content-type": "application/json", **smallest.headers}
        made.body |= copy.deepcopy({**({} if "{}" in smallest.path else {"model": model}), **smallest.body})
    _change(made, bases, example)
    url = base_url.rstrip("/") + made.path.format(made.model.removeprefix("models/"))
    content = json.dumps(made.body, ensure_ascii=False) if made.raw is None else made.raw
    return HttpRequest("POST", url, made.headers, content.encode())


def _change(made: _Made, bases: Mapping[str, Example], example: Example) -> None:
    for key, value in example.items():
        match key:
            case "from":
                if value not in bases:
                    raise ValueError(f"there is no base {value!r}")
                _change(made, bases, bases[str(value)])
            case "model":
                made.model = str(value)
                made.body |= {"model": value} if "model" in made.body else {}
            case "path":
                made.path = str(value)
            case "raw":
                made.raw = str(value)
            case "headers":
                made.headers |= {name.lower(): str(each) for name, each in cast("dict[str, JSON]", value).items()}
            case "without":
                for path in cast("list[str]", value):
                    _drop(made.body, _keys(path))
            case _:
                _put(made.body, _keys(key), _repeat(value))


def _keys(path: str) -> list[str | int | None]:
    """Split a path into keys and indices. `None` means a new element at the end of a list."""
    return [step[1] or (int(step[2]) if step[2] else None) for step in _STEP.finditer(path)]


def _put(holder: Any, keys: list[str | int | None], value: Any) -> None:
    for at, key in enumerate(keys):
        last = at == len(keys) - 1
        below: Any = value if last else ({} if isinstance(keys[at + 1], str) else [])
        if isinstance(holder, list):
            members = cast("list[Any]", holder)
            position = -1 if key is None else cast("int", key)
            if key is None or position == len(members):
                members.append(below)
            elif last:
                members[position] = value
            holder = members[position]
        else:
            if last or not isinstance(holder.get(key), dict | list):
                holder[key] = below
            holder = holder[key]


def _repeat(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_repeat(each) for each in value]
    if not isinstance(value, dict) or value.keys() != {"repeated", "times"}:
        return {key: _repeat(each) for key, each in value.items()} if isinstance(value, dict) else value
    each, times = value["repeated"], cast("int", value["times"])
    if isinstance(each, str):
        return each * times
    return [json.loads(json.dumps(each).replace("#", str(number))) for number in range(times)]


def _drop(holder: Any, keys: list[str | int | None]) -> None:
    for key in keys[:-1]:
        holder = holder[key]
    del holder[keys[-1]]


def model_of(api: Api, fact: Fact) -> str:
    """Return a model name that is derived from the fact's first model pattern. If the fact has no patterns, return the
    model of the API's minimal request, or a placeholder.
    """
    own = api.minimal_request if (fact.service or [OWN])[0] == OWN else None
    pattern = (fact.models or [own.model if own else "a-model"])[0]
    return re.sub(r"\[!?([^\]])[^\]]*\]", r"\1", pattern).replace("*", "").replace("?", "x")


def day_of(fact: Fact) -> dt.date:
    """Return a date on which a fact applies."""
    return fact.until or max(fact.since or dt.date.min, *(each.date for each in fact.evidence))


def rules_of(api: Api, fact: Fact, model: str, fact_selection: FactSelection) -> RuleSet:
    """Return the rule set for a fact's examples: that of the fact's service, on a day on which the fact applies."""
    profile = api.profile_for(model, FactSelection(day_of(fact), fact_selection.files))
    return api.services.rules_of(profile, (fact.service or [OWN])[0], model)


@dataclass(frozen=True)
class JudgedExample:
    """An example with its violations. `id` is the id of its limit or its fact."""

    api: Api
    fact: Fact
    id: str
    key: Key
    refused: bool
    rule_set: RuleSet
    request: HttpRequest

    @cached_property
    def found(self) -> tuple[Violation, ...]:
        """All violations of the request."""
        of_embeddings = self.api.embeddings is not None and self.api.embeddings.recognises(self.request)
        judge = self.api.judge_embeddings if of_embeddings else self.api.judge
        return tuple(judge(self.request, self.rule_set))

    @property
    def fault(self) -> str | None:
        """The reason why the example contradicts its fact or limit, or `None`."""
        named = [each for each in self.found if self.id == each.rule or self.id in each.source.split(", ")]
        if self.refused and not named and not (self._is_met and self.found):
            return f"{self.id} does not refuse it" + (f"; {self.found[0].rule} does." if self.found else ".")
        if not self.refused and (named or (self._is_met and self.fact.verdict == "refused")):
            return f"{self.id} refuses it."
        errors = [each for each in self.found if each.severity == "error"]
        return f"{errors[0].rule} refuses it: {errors[0].message}" if errors and not self.refused else None

    @property
    def _is_met(self) -> bool:
        """Return whether the request meets the fact's own conditions. `found` may have no violation of the fact,
        because only one violation per place is reported.
        """
        try:
            body = json.loads(self.request.body)
        except ValueError:
            return False
        data = RequestData(body, self.request.headers, self.api.schema_places)
        return self.id == self.fact.id and self.fact.conditions.first_match(data) is not None


def judge_examples(
    api: Api, facts: Facts, fact: Fact, fact_selection: FactSelection = SHIPPED, base_url: str = "https://example.com"
) -> Iterator[JudgedExample]:
    """Yield the examples of a fact and of its limits. Raises `ValueError` for an unknown base."""
    entries: list[tuple[str, Key, bool, Example]] = []
    for holder, place in ((fact, ()), *((each, ("limits", at)) for at, each in enumerate(fact.limits))):
        for name, refused, examples in (("refuses", True, holder.refuses), ("accepts", False, holder.accepts)):
            entries += [(holder.id, (*place, name, at), refused, each) for at, each in enumerate(examples)]
    bases = facts.bases
    for name, key, refused, example in entries:
        model = str(example.get("model", model_of(api, fact)))
        rule_set = rules_of(api, fact, model, fact_selection)
        request = request_of(api, bases, example, model, base_url)
        yield JudgedExample(api, fact, name, key, refused, rule_set, request)


def problems(file: Path) -> list[FileError]:
    """Return all errors in a fact file. Its examples are judged only if the file itself is valid."""
    try:
        fact_selection = FactSelection(files=(file,))
        fact_selection.check(registry.APIS.names())
        found = read_fact_file(file)
    except FactsError as error:
        return [error]
    document = read(read_file(file, MAX_BYTES), str(file), FactsError)
    api = registry.api(found.api)
    facts = api.facts.extended_by(api.name, fact_selection.files)
    errors: list[FileError] = []
    for at, fact in enumerate(found.facts):
        try:
            examples = judge_examples(api, facts, fact, fact_selection)
            errors += (document.error(("facts", at, *each.key), each.fault) for each in examples if each.fault)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            errors.append(document.error(("facts", at), f"an example cannot be made: {error}."))
    return errors
