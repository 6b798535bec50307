"""Faults at settings, tools, JSON mode and declined requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from harness.model.errors import Unsupported
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    JsonSchema,
    Message,
    NamedTool,
    Part,
    Role,
    Text,
    Tool,
    ToolChoice,
    ToolResult,
)
from harness.results import Severity
from tests.broken.fault import (
    FORCING,
    GEMINI,
    OPENAI,
    Expected,
    Fault,
    Table,
    Wrap,
    Wrapped,
    answers,
    asks,
    client,
    edited_message,
    edited_parts,
    posts,
    sends,
    streamed,
)
from tests.broken.places import (
    ANSWER_SCHEMA,
    ANSWERS,
    BODY,
    CHOICE,
    FORMAT,
    RESPONSE_TEXT,
    TOOL,
    Place,
    everywhere,
)


class ChangingHistory(Wrapped):
    """What it is given is changed in place: calls and results of the history lose their content."""

    def ask(self, request: ChatRequest) -> ChatRequest:
        for message in request.messages:
            for call in message.tool_calls:
                call.arguments.clear()
            for result in message.tool_results:
                cast("dict[str, Any]", result.content).clear()
        return request


def twice_versioned(path: str) -> str:
    """`/v1/v1/messages`: the client adds the version to a base URL that ends in it."""
    return f"/{path.split('/')[1]}{path}"


def _body_as_text(_api: str, body: dict[str, Any]) -> Any:
    return json.dumps(body)


_EFFORTS = {
    "anthropic": ("output_config", "effort"),
    "openai-responses": ("reasoning", "effort"),
    "gemini": ("generationConfig", "thinkingConfig", "thinkingLevel"),
}


def _without_effort(api: str, body: dict[str, Any]) -> None:
    """The model is to reason, and nobody says how much."""
    *holders, last = _EFFORTS[api]
    for each in holders:
        body = body[each]
    del body[last]


def _without_model(_api: str, body: dict[str, Any]) -> None:
    del body["model"]


def _twofold(api: str, body: dict[str, Any]) -> None:
    """Two answers are paid for, and one is thrown away."""
    if api == "gemini":
        body.setdefault("generationConfig", {})["candidateCount"] = 2
    else:
        body["n"] = 2


def tools(edit: Callable[[Tool], Tool | None]) -> Wrap:
    """Each declaration is changed on its way."""
    return asks(lambda r: replace(r, tools=tuple(new for tool in r.tools if (new := edit(tool)) is not None)))


def parameters(edit: Callable[[dict[str, Any]], Any]) -> Wrap:
    """Every schema inside the parameters of each tool is changed on its way."""
    return tools(lambda tool: replace(tool, parameters=each_schema(tool.parameters, edit)))


def choice(edit: Callable[[ChatRequest], ToolChoice | None]) -> Wrap:
    """The tool choice is changed on its way, where there are tools."""
    return asks(lambda r: replace(r, tool_choice=edit(r)) if r.tools else r)


class _StickyChoice(Wrapped):
    """A tool choice that was given once holds for ever."""

    chosen: ToolChoice | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.chosen = self.chosen or request.tool_choice
        return replace(request, tool_choice=self.chosen)


def _inlined(tool: Tool) -> Tool:
    """References are replaced by what they lead to, and by anything at all where they lead back."""
    parameters = dict(tool.parameters)
    known = parameters.pop("$defs", {})

    def inlined(node: Any, seen: frozenset[str]) -> Any:
        if isinstance(node, list):
            return [inlined(each, seen) for each in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        name = str(cast("dict[str, Any]", node).get("$ref", "")).removeprefix("#/$defs/")
        if name in known:
            return {} if name in seen else inlined(known[name], seen | {name})
        return {key: inlined(value, seen) for key, value in cast("dict[str, Any]", node).items()}

    return replace(tool, parameters=inlined(parameters, frozenset()))


def _searching(api: str, body: dict[str, Any]) -> None:
    """The model may search the web, at the caller's cost."""
    search = {"type": "web_search_20250305", "name": "web_search"} if api == "anthropic" else {"type": "web_search"}
    body["tools"] = [*body["tools"], search]


def _apart(_api: str, body: dict[str, Any]) -> None:
    """A tool of its own for each function."""
    body["tools"] = [
        {"functionDeclarations": [each]} for tool in body["tools"] for each in tool["functionDeclarations"]
    ]


def schemas(edit: Callable[[dict[str, Any]], Any]) -> Wrap:
    """Every schema inside the response schema is changed on its way."""

    def ask(request: ChatRequest) -> ChatRequest:
        wanted = request.response_format
        if not isinstance(wanted, JsonSchema):
            return request
        return replace(request, response_format=replace(wanted, schema=each_schema(wanted.schema, edit)))

    return asks(ask)


def _turned(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(reversed(value.items())) if key == "properties" else value for key, value in schema.items()}


def each_schema(schema: Any, edit: Callable[[dict[str, Any]], Any]) -> Any:
    """A schema with `edit` applied to each object in it, inner ones first."""
    if isinstance(schema, dict):
        inner = {key: each_schema(item, edit) for key, item in cast("dict[str, Any]", schema).items()}
        return edit(inner)
    if isinstance(schema, list):
        return [each_schema(item, edit) for item in cast("list[Any]", schema)]
    return schema


def without(*keywords: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda schema: {key: item for key, item in schema.items() if key not in keywords}


def not_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The null is dropped from the types and from the choices."""
    types, choices = schema.get("type"), schema.get("anyOf")
    if isinstance(choices, list):
        return next(choice for choice in cast("list[dict[str, Any]]", choices) if choice != {"type": "null"})
    if isinstance(types, list):
        return {**schema, "type": next(name for name in cast("list[str]", types) if name != "null")}
    return schema


def all_required(schema: dict[str, Any]) -> dict[str, Any]:
    """Every property is required, and none is nullable for it."""
    properties = schema.get("properties")
    return {**schema, "required": list(properties)} if schema.get("type") == "object" and properties else schema


def texts(edit: Callable[[str], str]) -> Callable[[ChatResponse], ChatResponse]:
    def edited(part: Part) -> Part:
        return replace(part, text=edit(part.text)) if isinstance(part, Text) else part

    return lambda response: replace(response, message=edited_message(response.message, edited))


def _fenced(text: str) -> str:
    return f"```json\n{text}\n```" if text.startswith(("{", "[")) else text


def _prefilled(request: ChatRequest) -> ChatRequest:
    """The beginning of the answer, put into the model's mouth."""
    if request.response_format is None:
        return request
    return replace(request, messages=(*request.messages, Message(Role.ASSISTANT, (Text("{"),))))


def _without_instruction(_api: str, body: dict[str, Any]) -> None:
    body.pop("system", None)


def declines(what: str, is_asked: Callable[[ChatRequest], bool]) -> Wrap:
    """Says no to the requests of a kind, before anything is sent."""

    class Declining(Wrapped):
        def ask(self, request: ChatRequest) -> ChatRequest:
            if is_asked(request):
                raise Unsupported("broken", what, "nobody has written it")
            return request

    return client(Declining)


def _forced(_api: str, body: dict[str, Any]) -> None:
    body["tool_choice"] = {"type": "any"}


class _Forgetful(Wrapped):
    """Takes old reads out of the context as a whole, where they were to be shortened."""

    def ask(self, request: ChatRequest) -> ChatRequest:
        said = [message for message in request.messages if message.role is Role.USER and message.text]
        return edited_parts(request, _without_reads) if len(said) > 1 else request


def _without_reads(part: Part) -> Part | None:
    return None if isinstance(part, ToolResult) and part.name == "read_file" else part


FAULTS: Table = {
    Expected("anthropic-choice-forced", Place("/tool_choice", None, None, None), 0): [
        Fault("forced-choice-on-a-model-that-refuses-it", "choice-auto", sends(_forced), ("anthropic",))
    ],
    Expected("declared-and-declined", None, None): [
        Fault("json-prefilled-in-vain", "json-mode", asks(_prefilled), ("anthropic",)),
        streamed(
            "result-declined",
            "call-single",
            declines("a result", lambda r: any(message.tool_results for message in r.messages)),
        ),
    ],
    Expected("exchange-unreadable", BODY, 0): [Fault("body-encoded-twice", "system-plain", sends(_body_as_text))],
    Expected("gemini-functions-apart", everywhere(r"/tools/1"), 0, severity=Severity.WARNING): [
        Fault("functions-declared-apart", "call-parallel-different-tools", sends(_apart), GEMINI)
    ],
    Expected("json-answer", RESPONSE_TEXT, 0): [Fault("json-mode-fenced", "json-mode", answers(texts(_fenced)))],
    Expected("json-mode-ignored", BODY, 0): [
        Fault("json-mode-without-its-word", "json-mode-unmentioned", sends(_without_instruction), ("anthropic",)),
    ],
    Expected("json-mode-uninvited", FORMAT, 0): [
        Fault(
            "json-always",
            "json-mode-for-one-turn",
            asks(
                lambda r: replace(
                    r, response_format=JsonSchema({"type": "object", "properties": {}, "additionalProperties": False})
                )
            ),
        )
    ],
    Expected("json-schema-changed", ANSWER_SCHEMA, 0): [
        Fault(
            "json-schema-inner-required-dropped",
            "json-schema-nested",
            schemas(lambda s: {**s, "required": s["required"][:1]} if "required" in s else s),
        ),
        Fault("json-schema-all-required", "json-schema-optional", schemas(all_required)),
    ],
    Expected("json-schema-changed", ANSWER_SCHEMA, 0, severity=Severity.WARNING): [
        Fault("json-schema-sorted", "json-schema", schemas(_turned))
    ],
    Expected("model-named", BODY, 0): [
        Fault("another-model", "system-plain", asks(lambda r: replace(r, model=f"{r.model}-latest"))),
        Fault("no-model", "system-plain", sends(_without_model), ("openai-responses",)),
    ],
    Expected("path-unknown", BODY, 0): [
        Fault("version-missing", "call-not-needed", posts(lambda path: path.removeprefix("/v1")), OPENAI)
    ],
    Expected("request-changed-in-place", None): [Fault("history-in-place", "call-single", client(ChangingHistory))],
    Expected("request-unexpected", BODY): [
        Fault("request-beyond-the-script", "call-not-needed", sends(lambda *_: None, times=2))
    ],
    Expected("call-missing", BODY, 3): [  # the shipped adapters leave out calls without results
        Fault("trimmed-results-dropped", "seeds-code-generator-trim", client(_Forgetful))
    ],
    Expected("setting-lost", BODY, 0): [
        Fault(
            "effort-dropped",
            "thinking-tool-loop",
            sends(_without_effort),
            ("anthropic", "openai-responses", "gemini-3"),
        )
    ],
    Expected("setting-uninvited", ANSWERS, 0): [
        Fault(
            "several-answers-asked-for", "call-not-needed", sends(_twofold), ("openai-chat", "gemini-3", "gemini-2.5")
        )
    ],
    Expected("tool-choice", BODY, 0): [
        Fault("choice-always-auto", "choice-required", choice(lambda _: "auto"), FORCING),
    ],
    Expected("tool-choice", CHOICE, 0): [
        Fault(
            "choice-named-as-required",
            "choice-named",
            choice(lambda r: "required" if isinstance(r.tool_choice, NamedTool) else r.tool_choice),
            FORCING,
        )
    ],
    Expected("tool-choice", CHOICE): [Fault("choice-sticky", "choice-for-one-turn", client(_StickyChoice), FORCING)],
    Expected("tool-declaration-changed", TOOL, 0): [
        Fault("description-dropped", "call-single", tools(lambda t: replace(t, description=""))),
        Fault(
            "parameters-invented",
            "call-without-parameters",
            tools(
                lambda t: (
                    t
                    if t.parameters
                    else replace(t, parameters={"type": "object", "properties": {"reason": {"type": "string"}}})
                )
            ),
        ),
        Fault("schema-default-dropped", "schema-optional", parameters(without("default")), ("anthropic", *OPENAI)),
        Fault("schema-enum-dropped", "schema-enums", parameters(without("enum"))),
        Fault("schema-inlined-as-far-as-it-goes", "schema-recursive", tools(_inlined), ("anthropic", *OPENAI)),
        Fault("schema-null-dropped", "schema-nullable", parameters(not_nullable)),
    ],
    Expected("tools-declared", BODY, 0): [
        Fault("tools-not-declared", "call-not-needed", asks(lambda r: replace(r, tools=(), tool_choice=None))),
    ],
    Expected("tools-declared", TOOL, 0): [
        Fault("provider-tool-added", "call-not-needed", sends(_searching), ("anthropic", "openai-responses"))
    ],
}
