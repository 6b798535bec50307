"""Results of tools in the form that a method of a third-party class takes."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import Any, cast

from harness.bridge.call_log import call
from harness.bridge.clients.annotations import hints_of, is_list, item_class, members_of, own_classes_in, without_text
from harness.bridge.clients.forms import ANTHROPIC, GEMINI, RESPONSES
from harness.bridge.clients.loop_methods import is_result_class, read_results
from harness.bridge.clients.message_classes import as_annotated
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.names import CALL_PARAMETERS
from harness.bridge.clients.result_code import ResultUses, documented_uses
from harness.bridge.clients.sources import ClassSource
from harness.bridge.clients.values import jsonable, plain_fields, snake_case


def content_of_result(result: Mapping[str, Any], method: Method, hint: object, api: str, uses: ResultUses) -> object:
    """Return a result as text, or as JSON if the client serialises it or the API takes objects.

    If the result is an error and the client marks exceptions as errors, return an exception. If the annotation has a
    class for failures next to that for texts, return an instance of it.
    """
    value, kinds = cast("object", result["value"]), [*members_of(hint)]
    if result["is_error"] and takes_exceptions(method):
        return RuntimeError(result["content"])
    failures = [each for each in own_classes_in(hint) if re.search("Fail|Err", each.__name__)]
    if result["is_error"] and len(failures) == 1 and len(method_of((), failures[0]).required) == 1:
        return call(failures[0], result["content"])
    if kinds == [str]:
        return result["content"]
    is_object = kinds[:1] in ([dict], [Mapping]) or (uses.is_object and api == GEMINI.name)
    if is_object:
        return cast("object", value) if isinstance(value, dict) else {"result": value}
    is_any = (hint is Any or hint is object) and (api == GEMINI.name or "isinstance(" in method.source)
    is_tested = hint is None and api == GEMINI.name and _TESTS_OBJECT.search(method.source) is not None
    return value if is_any or is_tested or "json.dumps" in method.source else result["content"]


_TESTS_OBJECT = re.compile(r"isinstance\([^()]*\b(dict|Mapping)\b")


def takes_exceptions(method: Method) -> bool:
    """Return whether a method marks a result as an error if the result is an exception."""
    return _TESTS_EXCEPTION.search(method.source) is not None and "is_error" in method.source


_TESTS_EXCEPTION = re.compile(r"isinstance\([^()]*\b\w*(Exception|Error)\b")


@dataclass(frozen=True, slots=True)
class SubmittedResults:
    """The results of all calls in the form that a method takes, as its annotations, code or docstring show."""

    method: Method
    name: str
    code: ClassSource
    api: str

    def collect(self, results: Sequence[Mapping[str, Any]]) -> object:
        """Return the results as a dictionary by call, or as a list of tuples, values, objects, dictionaries or
        messages.
        """
        hint, uses = without_text(self.method.hints.get(self.name)), self._uses
        inner = [each for each in typing.get_args(hint) if each is not type(None)]
        is_mapping = re.match(r"(<class ')?dict|typing\.(Dict|Mapping)|collections\.abc\.Mapping", str(hint))
        if is_mapping or (uses.is_mapping and not is_list(hint)):
            key, value = inner if len(inner) == _PAIR else (None, None)
            return {self._key_in_mapping(each, key): self._content(each, value) for each in results}
        types = next((typing.get_args(each) for each in inner if typing.get_origin(each) is tuple), ())
        kind = None if types else next(filter(is_result_class, own_classes_in(hint)), None)
        if kind is None and (types or uses.names):
            return [self._tuple(each, types) for each in results]
        if kind is None and uses.attributes and not uses.keys:
            kind = self._class_with(uses.attributes)
            return [self._object(each, kind) if kind else self._any_object(each, uses.attributes) for each in results]
        if kind is not None:
            return [self._object(each, kind) for each in results]
        if uses.is_ordered and not uses.keys:
            return [self._content(each, item_class(hint)) for each in results]
        if uses.is_native and not uses.keys:
            return [self._native(each) for each in results]
        return as_annotated([self._dictionary(each) for each in results], hint)

    @property
    def have_flag(self) -> bool:
        """Return whether a result says that its tool failed, according to the code or the docstring."""
        uses, kinds = self._uses, own_classes_in(self.method.hints.get(self.name))
        names = {*uses.names, *uses.keys, *uses.attributes, *(name for each in kinds for name in hints_of(each))}
        return bool(self._flags_in_docstrings) or not names.isdisjoint(CALL_PARAMETERS["is_error"])

    @property
    def _flags_in_docstrings(self) -> list[str]:
        documented = chain.from_iterable(documented_uses(each, self.name).keys for each in self._documents)
        return [each for each in documented if _part_named(each) == "is_error"]

    @property
    def _uses(self) -> ResultUses:
        """The form of the results, according to the code or the docstring."""
        found = read_results(self.method, self.name)
        return found if found.is_known else documented_uses(self._document, self.name)

    @property
    def _document(self) -> str:
        """The docstring of the method or, if it does not mention the results, that around it."""
        own, around = self._documents
        return own if self.name in own else around

    @property
    def _documents(self) -> tuple[str, str]:
        """The docstring of the method, and the part of those of its class and module that follows its name."""
        owner, name = self.code.owner, self.method.path[0]
        whole = f"{inspect.getdoc(owner) or ''}\n{inspect.getdoc(inspect.getmodule(owner)) or ''}"
        return inspect.getdoc(getattr(owner, name, None)) or "", f"{self.name}{whole.partition(name)[2]}"

    def _content(self, result: Mapping[str, Any], hint: object) -> object:
        kinds = [each for each in own_classes_in(hint) if not {*CALL_PARAMETERS["content"]}.isdisjoint(hints_of(each))]
        if len(kinds) == 1:
            return self._object(result, kinds[0])
        uses = read_results(self.method, self.name)
        return content_of_result(result, self.method, hint, self.api, uses)

    def _key_in_mapping(self, result: Mapping[str, Any], hint: object) -> object:
        return result["name"] if self._uses.is_by_name else _key_of_call(result, hint) or result["name"]

    def _tuple(self, result: Mapping[str, Any], types: Sequence[object]) -> tuple[object, ...]:
        """Return a result as a tuple. Annotations or the names of variables show what its members are."""
        names = [snake_case(each) for each in self._uses.names]
        length = len(types) or len(names)
        known = dict(enumerate(types))
        if length == _PAIR:
            return self._first_member(result, [*names, ""][0], known.get(0)), self._content(result, known.get(1))
        parts = [_part_named(each) for each in names] if len(names) == length else []
        members = _with_usual_part(parts) or _parts_by_type(length, known)
        return tuple(
            self._first_member(result, names[place] if names else "", known.get(place))
            if part in ("call", "id")
            else self._content(result, known.get(place))
            if part == "content"
            else result[str(part)]
            for place, part in enumerate(members)
        )

    def _first_member(self, result: Mapping[str, Any], name: str, hint: object) -> object:
        """Return what identifies the call in a tuple: the call, its id or the name of its tool."""
        if own_classes_in(hint):
            return _key_of_call(result, hint)
        is_documented = not read_results(self.method, self.name).is_known and name in CALL_PARAMETERS["call"]
        if hint is None and (self._uses.call_fields or is_documented):
            return result["call"]
        return result["name" if _part_named(name) == "name" else "id"]

    def _class_with(self, attributes: Mapping[str, None]) -> type | None:
        """Return the only class in the module that has the attributes of results that the class reads."""
        found = [each for each in self.code.classes if is_result_class(each)]
        found = [each for each in found if attributes.keys() <= hints_of(each).keys()]
        return found[0] if len(found) == 1 else None

    def _any_object(self, result: Mapping[str, Any], attributes: Mapping[str, None]) -> object:
        """Return a result as the call itself with the content in one of its fields, or as an object without a class."""
        fields, call = plain_fields(result["call"]), result["call"]
        contents = [each for each in attributes if each in CALL_PARAMETERS["content"]]
        if not isinstance(call, Mapping) and attributes.keys() <= fields.keys() and contents:
            setattr(call, contents[0], self._content(result, None))
            return call
        return SimpleNamespace(**self._parts(result, attributes))

    def _dictionary(self, result: Mapping[str, Any]) -> dict[str, object]:
        """Return a result as a dictionary, with the keys that are read or are usual."""
        item = item_class(without_text(self.method.hints.get(self.name)))
        if typing.is_typeddict(item):
            return self._parts(result, hints_of(item))
        if self._uses.keys:
            return self._parts(result, {**self._uses.keys, **dict.fromkeys(self._flags_in_docstrings)})
        used = re.findall(r"[\"'](\w+)[\"']", self.method.source)
        keys = {alias: key for key, known in CALL_PARAMETERS.items() if key != "call" for alias in known}
        return self._parts(result, {alias: None for alias in keys if alias in used} or keys)

    def _parts(self, result: Mapping[str, Any], names: Mapping[str, object]) -> dict[str, object]:
        """Return the parts of a result under these names. An unknown name means the first part that has no name."""
        known = {name: _part_named(name) for name in names}
        missing = [each for each in ("content", "id") if each not in known.values()]
        found = dict[str, object]()
        for name, part in known.items():
            meant = part or (missing.pop(0) if missing else None)
            if meant == "content":
                found[name] = self._content(result, None)
            elif name == "error":
                found |= self._error(result)
            elif meant is not None:
                found[name] = result[meant]
        return found

    def _error(self, result: Mapping[str, Any]) -> dict[str, object]:
        """Return the key `error` of a result: a flag if the code sends one, or else the text of a failure."""
        is_flag = "is_error" in self.method.module
        if result["is_error"]:
            return {"error": True if is_flag else result["content"]}
        return {} if _TESTS_ERROR.search(self.method.source) else {"error": False if is_flag else None}

    def _native(self, result: Mapping[str, Any]) -> dict[str, object]:
        """Return a result as a message, or a part of one, in the API's own format."""
        if self.api == ANTHROPIC.name:
            block: dict[str, object] = {
                "type": "tool_result",
                "tool_use_id": result["id"],
                "content": result["content"],
            }
            return {**block, "is_error": True} if result["is_error"] else block
        if self.api == RESPONSES.name:
            return {"type": "function_call_output", "call_id": result["id"], "output": result["content"]}
        if self.api == GEMINI.name:
            value = jsonable(result["value"])
            response = value if isinstance(value, dict) else {"result": value}
            named = {"id": result["id"]} if result["id"] else dict[str, str]()
            return {"functionResponse": {**named, "name": result["name"], "response": response}}
        return {"role": "tool", "tool_call_id": result["id"], "content": result["content"]}

    def _object(self, result: Mapping[str, Any], kind: type) -> object:
        """Return a result as an object of a third-party class, by the names and annotations of its fields."""
        hints, given = hints_of(kind), dict[str, object]()
        for name, each in inspect.signature(kind).parameters.items():
            part, hint = _part_named(name), hints.get(name)
            if part == "content":
                given[name] = self._content(result, hint)
            elif part == "is_error" and (hint in (bool, None) or result["is_error"]):
                given[name] = result["is_error" if hint in (bool, None) else "content"]
            elif part == "call":
                given[name] = result["call"]
            elif part == "id" or (part is None and each.default is each.empty):
                given[name] = _key_of_call(result, hint)
            elif part == "name":
                given[name] = result["name"]
        return kind(**given)


_TESTS_ERROR = re.compile(r"[\"']error[\"'] (not )?in ")

_PAIR = 2

_MEMBERS = ("id", "name", "content", "is_error")
"""Parts of a result in a tuple of more than two, if the code does not name them."""


def _with_usual_part(parts: Sequence[str | None]) -> list[str]:
    """Return the parts of a result that the members of a tuple are, of which one may be unknown. It is the id, or else
    the content. Return `[]` if more are unknown.
    """
    missing = next((each for each in ("id", "content") if each not in parts), "name")
    return [each or missing for each in parts] if list(parts).count(None) <= 1 else []


def _parts_by_type(length: int, types: Mapping[int, object]) -> list[str]:
    """Return the usual parts of a result in a tuple of this length. A member that is `bool` marks an error."""
    flags = [place for place, each in types.items() if each is bool]
    if len(flags) != 1:
        return [*_MEMBERS[:length]]
    others = iter(("id", "content") if length == len(_MEMBERS) - 1 else _MEMBERS)
    return ["is_error" if place in flags else next(others) for place in range(length)]


def _part_named(name: str) -> str | None:
    """Return the part of a result that the name of a parameter, field, key or variable means."""
    return next((key for key, known in CALL_PARAMETERS.items() if snake_case(name) in known), None)


def _key_of_call(result: Mapping[str, Any], hint: object) -> object:
    """Return the value by which the client identifies a call.

    It is the id, unless an annotation names the class of the call or of one of its fields. A call of Gemini may have no
    id.
    """
    kinds = tuple(own_classes_in(hint))
    made = result["call"]
    fields = (getattr(made, name, None) for name in hints_of(cast("object", type(made))))
    own = [each for each in (made, *fields) if kinds and isinstance(each, kinds)]
    return own[0] if own else result["id"]
