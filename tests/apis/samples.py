"""Requests and responses of the APIs for tests, and how to check them."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.limits import Violation
from harness.apis.registry import Profile
from harness.apis.view import ModelStep, RequestView, ResponseView
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason
from harness.scenarios.schema import Provocation

MODELS = {
    "anthropic": "claude-opus-5",
    "openai-chat": "gpt-5.5",
    "openai-responses": "gpt-6-sol",
    "gemini": "gemini-3-flash-preview",
}
STREAMS = {
    **{api: RequestView(api, model, (), (), stream=True, usage_pointer="/x") for api, model in MODELS.items()},
    "gemini as array": RequestView("gemini", MODELS["gemini"], (), (), stream=True, stream_format="json-array"),
}
"""Requests for a stream, by API. Gemini has two forms."""


# Responses


def whole(api: str, step: ModelStep, seed: str = "seed", profile: Profile | None = None) -> HttpResponse:
    """A response that is not streamed."""
    wire, profile = registry.api(api), profile or registry.api(api).profile_for(MODELS[api])
    body = wire.build(step, seed, MODELS[api], profile)
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body, ensure_ascii=False).encode())


def streamed(request: RequestView, step: ModelStep, seed: str = "seed", profile: Profile | None = None) -> HttpResponse:
    """The same response as a stream in the form that `request` asks for."""
    wire, model = registry.api(request.api), MODELS[request.api]
    return wire.build_stream(step, seed, model, profile or wire.profile_for(model), request)


def read(api: str, body: Any, status: int = 200, **headers: str) -> ResponseView:
    """A body of JSON, or as it stands, read."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return registry.api(api).read(HttpResponse(status, headers or {"content-type": "application/json"}, raw))


_TEXTS = st.text(max_size=60) | st.sampled_from(
    ['"quotes"\n\\', "18 °C — 東京 👨‍👩‍👧‍👦", "a\u2028b\u2029c\u0085d", "{}", "\r\n\r\n"]
)
_VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_CALLS = st.tuples(st.sampled_from(["get_weather", "now"]), st.dictionaries(_TEXTS, _VALUES, max_size=3))


def steps(raw: list[JSON], stops: list[StopReason]) -> st.SearchStrategy[ModelStep]:
    """Steps with texts, thinking, calls, refusals, some of the wire parts `raw`, and one of the `stops` or none.
    Their streams resemble recorded ones, or do all that no provider was recorded doing."""
    return st.builds(
        ModelStep,
        text=st.none() | _TEXTS,
        thinking=st.none() | _TEXTS,
        calls=st.lists(_CALLS, max_size=4).map(tuple),
        refusal=st.none() | _TEXTS,
        stop=st.none() | st.sampled_from(stops),
        raw=st.lists(st.sampled_from(raw), max_size=2).map(tuple),
        provocations=st.sampled_from([frozenset[Provocation](), frozenset(Provocation)]),
    )


# Requests


def violations(
    wire: Api, request: HttpRequest, profile: Profile | None = None, model: str | None = None
) -> list[Violation]:
    """The violations of a request to its own model, or to one of `profile`, at its address, as an audit judges them."""
    model = wire.model_of(request) or "" if model is None else model
    held_to = wire.profile_for(model) if profile is None else profile
    return wire.judge(request, wire.services.rules_at(held_to, model, request.url))


# JSON


def resolve(body: Any, pointer: str) -> Any:
    """Follow a pointer (RFC 6901). Raises `LookupError` where it leads nowhere."""
    for escaped in pointer.split("/")[1:]:
        key = escaped.replace("~1", "/").replace("~0", "~")
        body = body[int(key)] if isinstance(body, list) else body[key]
    return body


def without_pointers(value: Any) -> Any:
    """Return a view as plain data, without the fields that name a place."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        kept = {name: without_pointers(member) for name, member in fields.items() if "pointer" not in name}
        return type(value).__name__, kept
    if isinstance(value, tuple | list):
        return [without_pointers(member) for member in value]
    if isinstance(value, dict):
        return {name: without_pointers(member) for name, member in value.items()}
    return value


_ODD: list[Any] = [None, True, 0, 1.5, "", "x", "é", [], {}, [None], [[]], {"x": None}]


def oddities(body: Any) -> Iterator[Any]:
    """The body with each of its values in turn replaced by something odd."""
    for odd in _ODD:
        yield copy.deepcopy(odd)
    keys = range(len(body)) if isinstance(body, list) else body if isinstance(body, dict) else ()
    for key in keys:
        for value in oddities(body[key]):
            mutant = copy.copy(body)
            mutant[key] = value
            yield mutant


def paths(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all fields in a JSON value, without the numbers of list elements."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield f"{path}.{key}"
            yield from paths(member, f"{path}.{key}")
    elif isinstance(value, list):
        for member in value:
            yield from paths(member, path)


# Types of the SDKs

_NOT_SCHEMAS = frozenset({"metadata", "serialization", "ref", "schema_ref", "cls", "default"})


@cache
def strict_validator(kind: Any) -> SchemaValidator:
    """A validator of an SDK's type without lazy lists and extra keys. Call `validate_python(value, strict=True)`.

    The types themselves accept bad requests: `Iterable` fields become lazy generators, extra keys are ignored and
    integers are coerced. So the core schema is rewritten before the validator is built.
    """
    schema = dict(TypeAdapter(kind).core_schema)  # the schema of a model is built only when it is read
    return SchemaValidator(_strict(schema, {}))


def _strict(node: Any, done: dict[int, Any]) -> Any:
    if isinstance(node, list | tuple):
        return type(node)(_strict(member, done) for member in node)
    if not isinstance(node, dict):
        return node
    if id(node) in done:  # nodes are shared, and some are recursive
        return done[id(node)]
    made: dict[str, Any] = {}
    done[id(node)] = made
    for key, value in node.items():
        made[key] = value if key in _NOT_SCHEMAS else _strict(value, done)
    if made.get("type") == "generator":
        made["type"] = "list"
    if made.get("type") == "typed-dict" and made.get("extra_behavior") != "allow":
        made["extra_behavior"] = "forbid"
    return made
