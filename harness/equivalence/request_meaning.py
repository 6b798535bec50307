"""Meaning of requests: their normal form, the matching of results to calls, and an outline.

The normal form does not depend on how tool choices, provider tools and model names are spelled on the wire. The outline
is the content in neutral terms, line by line, for comparing the requests of two APIs.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias

from harness.apis.jsonvalue import as_list, as_object
from harness.apis.view import (
    CallView,
    ChoiceView,
    FormatView,
    JsonView,
    MediaView,
    OpaqueView,
    PartView,
    RequestView,
    ResultView,
    SystemView,
    TextView,
    ToolView,
    TurnView,
)
from harness.equivalence.result_meaning import contains_result, core_text
from harness.equivalence.schema_changes import version_difference
from harness.model.messages import JSON, ChatRequest, JsonSchema, NamedTool, ToolCall, ToolChoice, ToolResult


@dataclass(frozen=True, slots=True)
class ChoiceMeaning:
    """The functions that a model may call, and whether it must call one.

    Different choices can have the same meaning. `required` with one tool equals naming that tool, and `ANY` with all
    names equals `required`. Without tools, no call is possible. Gemini's `VALIDATED` also checks arguments, which is
    not part of the choice.
    """

    tools: frozenset[str]
    forced: bool


def canonical_choice(choice: ToolChoice | None, declared: Iterable[str]) -> ChoiceMeaning:
    """Return the meaning of a canonical choice; `None` is `auto`."""
    every = frozenset(declared)
    if isinstance(choice, NamedTool):
        return ChoiceMeaning(frozenset({choice.name}), forced=True)
    if choice == "none":
        return ChoiceMeaning(frozenset(), forced=False)
    return ChoiceMeaning(every, forced=choice == "required")


def wire_choice(choice: ChoiceView | None, declared: Iterable[str]) -> ChoiceMeaning | None:
    """Return the meaning of a request's choice, or `None` if no canonical choice has this meaning."""
    every = frozenset(declared)
    if choice is None:
        return ChoiceMeaning(every, forced=False)
    match choice.mode:
        case "none":
            return ChoiceMeaning(frozenset(), forced=False)
        case "auto" | "required":
            return ChoiceMeaning(
                every if choice.allowed is None else frozenset(choice.allowed), choice.mode == "required"
            )
        case "named":
            return ChoiceMeaning(frozenset({choice.name or ""}), forced=True)
        case "other":
            return None


def normal_choice(choice: ChoiceView | None, declared: Iterable[str]) -> ChoiceView | None:
    """Return the normal form of a choice; `None` is `auto`."""
    every = frozenset(declared)
    reach = wire_choice(choice, every)
    if choice is None or reach is None or reach == canonical_choice("auto", every):
        return choice if reach is None else None
    if not reach.tools:
        return ChoiceView("none", choice.pointer)
    if reach.forced and len(reach.tools) == 1:
        return ChoiceView("named", choice.pointer, next(iter(reach.tools)))
    allowed = None if reach.tools == every else (*sorted(reach.tools),)
    return ChoiceView("required" if reach.forced else "auto", choice.pointer, allowed=allowed)


def describe_choice(reach: ChoiceMeaning | None, declared: Iterable[str]) -> str:
    """Describe a choice for a finding."""
    if reach is None:
        return "a choice of another kind"
    if not reach.tools:
        return "none"
    if reach.forced and len(reach.tools) == 1:
        return f"named {next(iter(reach.tools))}"
    names = "" if reach.tools == frozenset(declared) else f" among {', '.join(sorted(reach.tools))}"
    return ("required" if reach.forced else "auto") + names


_WORD_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])")
_VERSION = re.compile(r"(_preview)?(_\d{8}|_\d{4}_\d{2}_\d{2})?$")
"""Version suffix of a tool: `_20250305` at Anthropic, `_preview_2025_03_11` at OpenAI."""


def tool_family(kind: str) -> str:
    """Return the kind of a tool without its version, because libraries choose the version.

    The result is in snake case, because Protobuf JSON also accepts camel case.
    """
    return _VERSION.sub("", _WORD_BOUNDARY.sub("_", kind).lower())


def tool_families(fields: JSON) -> frozenset[str]:
    """Return the families of the tools in body fields, named by `type` or by their only field (Gemini)."""
    tools = fields.get("tools") if isinstance(fields, Mapping) else None
    found: set[str] = set()
    for tool in as_list(tools):
        kind = as_object(tool).get("type")
        found |= {kind} if isinstance(kind, str) else {*tool} if isinstance(tool, dict) else set()
    return frozenset(map(tool_family, found))


_DATED = re.compile(r"([-@](\d{8}|\d{4}-\d{2}-\d{2})|-\d{3}|-preview-\d{2}-\d{2}(\d{2})?)?")
"""Date suffix of a model: `-20250929`, `-2026-03-05`, Vertex's `@20250929`, Gemini's `-001`."""


def is_model_name(wire_choice: str, wanted: str) -> bool:
    """Return whether the model name in a request is the wanted one.

    The request may add the prefix `models/`, or a date or version to an alias. It must not drop a date.
    """
    name, wanted = wire_choice.rpartition("models/")[2], wanted.rpartition("models/")[2]
    return name.startswith(wanted) and _DATED.fullmatch(name.removeprefix(wanted)) is not None


_Key: TypeAlias = tuple[str, str | None]
"""Kind of the reference from a result to its call (`id` or `name`), and the reference itself."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Calls with their results.

    `results` has the results of each call (more than one: duplicates). `orphans` has the results without an earlier
    call. Ids may repeat within a conversation; a result belongs to the first call with its id that has no result yet.
    """

    calls: tuple[CallView, ...]
    results: tuple[tuple[ResultView, ...], ...]
    orphans: tuple[ResultView, ...]
    _places: Mapping[int, int] = field(compare=False, repr=False)

    def of(self, call: CallView) -> tuple[ResultView, ...]:
        """The results of one call."""
        return self.results[self._places[id(call)]]


def pair_results(view: RequestView) -> Pairing:
    """Match the results of a request to its calls: by id if the wire has ids, otherwise by name, in order."""
    calls, orphans = list[CallView](), list[ResultView]()
    results: list[tuple[ResultView, ...]] = []
    waiting: defaultdict[_Key, deque[int]] = defaultdict(deque)
    latest: dict[_Key, int] = {}
    for part in (part for turn in view.turns for part in turn.parts):
        if isinstance(part, CallView):
            for key in (("id", part.id), ("name", part.name)):
                waiting[key].append(len(calls))
                latest[key] = len(calls)
            calls.append(part)
            results.append(())
        elif isinstance(part, ResultView):
            key = ("name", part.name) if part.call_id is None else ("id", part.call_id)
            unanswered = waiting[key]
            while unanswered and results[unanswered[0]]:
                unanswered.popleft()
            again = latest.get(key) if part.call_id is not None else None
            place = unanswered[0] if unanswered else again
            if place is None:
                orphans.append(part)
            else:
                results[place] = (*results[place], part)
    return Pairing(tuple(calls), tuple(results), tuple(orphans), {id(call): at for at, call in enumerate(calls)})


def with_ids_of(model: RequestView, view: RequestView, issued: Container[str]) -> RequestView:
    """Replace the ids in `view` that were not issued by an API with the ids in `model`, in calls and results.

    Adapters generate such ids randomly or with their own function, or send none. Only the matching of calls and results
    can be compared. A call keeps its id if it has no counterpart in `model` or if its id is ambiguous.
    """
    pairing = pair_results(view)
    ids = [call.id for call in view.calls]
    renamed: dict[int, str | None] = {}
    for call, counterpart, results in zip(pairing.calls, model.calls, pairing.results, strict=False):
        own = call.id is None or (call.id not in issued and ids.count(call.id) == 1)
        foreign = counterpart.id is None or counterpart.id not in issued
        if own and foreign and call.name == counterpart.name:
            renamed |= {id(part): counterpart.id for part in (call, *results)}
    turns = [replace(turn, parts=tuple(_rename(part, renamed) for part in turn.parts)) for turn in view.turns]
    return replace(view, turns=tuple(turns))


def _rename(part: PartView, names: dict[int, str | None]) -> PartView:
    if id(part) not in names:
        return part
    if isinstance(part, CallView):
        return replace(part, id=names[id(part)])
    return replace(part, call_id=names[id(part)]) if isinstance(part, ResultView) else part


def normal_form(view: RequestView) -> RequestView:
    """Return the normal form of a request.

    Adjacent texts and adjacent entries of one role are joined. Results are in the order of their calls, reduced to the
    content that a model reads, with media at the end. System texts are joined and tools are sorted by name. Labels,
    cache marks and transport switches are left out.
    """
    pairing = pair_results(view)
    order = {id(result): place for place, results in enumerate(pairing.results) for result in results}
    runs = groupby(view.turns, key=lambda turn: turn.role)
    turns = [_turn([*run], order) for _, run in runs]
    functions = [tool.name for tool in view.tools if tool.kind == "function"]
    return replace(
        view,
        system=tuple(_system(view.system)),
        turns=tuple(turn for turn in turns if turn.parts),
        tools=tuple(sorted(map(_tool, view.tools), key=lambda tool: tool.name)),
        tool_choice=normal_choice(view.tool_choice, functions),
        stream=False,
        usage_pointer=None,
        cache_marks=None,
        stream_format="events",
    )


def _system(parts: Iterable[SystemView]) -> Iterator[SystemView]:
    for before, group in groupby(parts, key=lambda part: part.before_turn):
        same_place = [*group]
        yield SystemView("".join(part.text for part in same_place), "system", same_place[0].pointer, before)


def _turn(run: list[TurnView], order: dict[int, int]) -> TurnView:
    parts = [part for turn in run for part in turn.parts]
    results = [part for part in parts if isinstance(part, ResultView)]
    results.sort(key=lambda result: order.get(id(result), len(order)))
    media = [part for result in results for part in result.payload if isinstance(part, MediaView)]
    rest = [_without_label(part) for part in parts if not isinstance(part, ResultView)]
    ordered = (*map(_result, results), *media, *_texts_in_one(rest))
    return TurnView(run[0].role, ordered, run[0].pointer, run[0].role)


def _result(result: ResultView) -> ResultView:
    """Return the result without its format: the kind of payload, the wording of an error mark, and the place of
    media."""
    payload = tuple(part for part in result.payload if not isinstance(part, MediaView))
    core = core_text(replace(result, payload=payload))
    if core is not None:
        payload = (TextView(core, result.payload[0].pointer if result.payload else result.pointer),)
    mark = result.error_mark if result.error_mark == "flag" else None
    return replace(result, payload=payload, error_mark=mark)


def _texts_in_one(parts: list[PartView]) -> list[PartView]:
    folded: list[PartView] = []
    for part in parts:
        last = folded[-1] if folded else None
        if isinstance(part, TextView) and isinstance(last, TextView) and not (part.opaque and last.opaque):
            folded[-1] = replace(last, text=last.text + part.text, opaque=last.opaque or part.opaque)
        elif not isinstance(part, TextView) or part.text or part.opaque:
            folded.append(part)
    return folded


def _without_label(part: PartView) -> PartView:
    match part:
        case OpaqueView(raw={**fields}):
            return replace(part, raw={key: item for key, item in fields.items() if key not in part.labels})
        case CallView():
            return replace(part, item_id=None)
        case _:
            return part


def _tool(tool: ToolView) -> ToolView:
    """Return the tool in normal form: one schema for tools without arguments, and no version for a provider's tool."""
    if tool.kind != "function":
        return replace(tool, name=tool_family(tool.name), kind=tool_family(tool.kind))
    takes_none = tool.parameters in (None, {}, {"type": "object"})
    nothing: JSON = {"type": "object", "properties": {}}
    return replace(tool, parameters=nothing) if takes_none else tool


OutlineLine: TypeAlias = tuple[str, str, str]
"""A label, the value, and its pointer in the body. Two requests with the same meaning have equal labels and values."""


@dataclass(frozen=True, slots=True)
class _Given:
    """Schemas and results that the caller gave. `results` maps pointers in the body to the texts of the given results
    that the request contains.
    """

    schemas: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    response_schema: JSON = None
    results: Mapping[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def of(view: RequestView, given: ChatRequest | None) -> _Given:
        if given is None:
            return _Given()
        parts = [part for message in given.messages for part in message.parts]
        numbers = {part.id: number for number, part in enumerate(each for each in parts if isinstance(each, ToolCall))}
        results = {numbers.get(part.call_id): part for part in parts if isinstance(part, ToolResult)}
        arrived = {
            part.pointer: results[number].text
            for number, found in enumerate(pair_results(view).results)
            for part in found
            if number in results and contains_result(part, results[number], view) and not _has_media(part)
        }
        wanted = given.response_format
        schemas: dict[str, JSON] = {tool.name: tool.parameters for tool in given.tools}
        return _Given(schemas, wanted.schema if isinstance(wanted, JsonSchema) else None, arrived)


def _has_media(result: ResultView) -> bool:
    return any(isinstance(part, MediaView) for part in result.payload)


def outline(view: RequestView, given: ChatRequest | None = None) -> Iterator[OutlineLine]:
    """Yield the lines of a request.

    Calls are numbered, because ids differ between APIs. `given` is the caller's request. Schemas and results that are
    equivalent to the given ones are shown as given.
    """
    request, caller_values = normal_form(view), _Given.of(view, given)
    pairing = pair_results(request)
    numbers = {id(call): number for number, call in enumerate(pairing.calls, 1)}
    numbers |= {id(each): number for number, found in enumerate(pairing.results, 1) for each in found}
    for part in request.system:
        place = f", before message {part.before_turn + 1}" if part.before_turn else ""
        yield f"system prompt{place}", part.text, part.pointer
    for at, turn in enumerate(request.turns, 1):
        for each in turn.parts:
            label, value = _part(each, numbers.get(id(each)))
            result = caller_values.results.get(each.pointer) if isinstance(each, ResultView) else None
            yield f"message {at} ({turn.role}): {label}", value if result is None else result, each.pointer
    for tool in request.tools:
        yield from _tool_lines(tool, caller_values.schemas)
    if request.tool_choice is not None:
        yield "tool choice", _choice(request.tool_choice), request.tool_choice.pointer
    if request.response_format is not None:
        yield from _format(request.response_format, caller_values.response_schema)
    for name, setting in sorted(request.settings.items()):
        yield name, _text(setting.value), setting.pointer
    if request.effort is not None and request.effort.pointer not in {
        each.pointer for each in request.settings.values()
    }:
        yield "reasoning effort", _text(request.effort.value), request.effort.pointer
    if request.stateful is not None:
        yield "state kept by the server", request.stateful, f"/{request.stateful}"


def _part(part: PartView | JsonView, number: int | None) -> tuple[str, str]:
    match part:
        case TextView():
            return "text", part.text
        case CallView():
            return f"call {number} of {part.name}", _text(part.arguments) if part.malformed is None else part.malformed
        case ResultView():
            mark = ", marked as an error" if part.error_mark else ""
            of = f"result of call {number}" if number is not None else "result of no call"
            return f"{of}{mark}", "\n".join(_part(each, None)[1] for each in part.payload)
        case MediaView():
            where = part.uri if part.data is None else f"{len(part.data)} bytes"
            return "media", f"{part.media_type or 'of no type'}, {where}"
        case JsonView():
            return "JSON", _text(part.value)
        case OpaqueView():
            return part.kind, "(only this API has such a part)" if part.returns else _text(part.raw)


def _tool_lines(tool: ToolView, schemas: Mapping[str, JSON]) -> Iterator[OutlineLine]:
    if tool.kind != "function":
        yield f"tool {tool.name}", f"of the provider: {tool.kind}", tool.pointer
        return
    yield f"tool {tool.name}: description", tool.description or "", tool.pointer
    yield f"tool {tool.name}: parameters", _schema(tool, tool.parameters, schemas.get(tool.name)), tool.pointer


def _format(wanted: FormatView, given: JSON) -> Iterator[OutlineLine]:
    yield "response format", wanted.kind, wanted.pointer
    if wanted.schema is not None:
        yield "response format: schema", _schema(wanted, wanted.schema, given), wanted.schema_pointer


def _schema(owner: ToolView | FormatView, schema: JSON, given: JSON) -> str:
    same = given is not None and version_difference(given, schema, "json-schema", owner.dialect) is None
    return _text(given if same else schema)


def _choice(choice: ChoiceView) -> str:
    allowed = f", of {', '.join(choice.allowed)}" if choice.allowed is not None else ""
    return f"{choice.name or choice.mode}{allowed}"


def _text(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
