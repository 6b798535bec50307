"""What a scenario has no words for, and a client says all the same: fields of its own API, files, other forms."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import httpx2

from harness import catalog
from harness.apis.api import Api, ClientForm
from harness.apis.targets import Target
from harness.contract.model import JSON, ChatRequest, File, Message, Part, Tool
from harness.contract.protocols import Endpoint

Told = TypeVar("Told", ChatRequest, Tool)

_PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


@dataclass(frozen=True, slots=True)
class Extra:
    """What is added to each request: `fields` of the client's API, to each tool its `tool_fields`, and `parts` to what
    the user said first; or the `form` that its body gets (`Api.client_forms`)."""

    fields: Callable[[Api], Mapping[str, JSON]] = lambda _api: {}
    tool_fields: Callable[[Api], Mapping[str, JSON]] = lambda _api: {}
    parts: tuple[Part, ...] = ()
    form: str = ""


EXTRAS: Mapping[str, Extra] = {
    "gateway-one-call": Extra(lambda api: api.one_call),
    "gateway-strict-tool": Extra(tool_fields=lambda api: api.strict_tool),
    "gateway-file": Extra(parts=(File("application/pdf", _PDF),)),
    "gateway-system-turn": Extra(form="system-turn"),
    "gateway-system-blocks": Extra(form="system-blocks"),
    "gateway-text-before-result": Extra(form="text-before-result"),
}
"""By the id of the scenario that wants it said."""


def unsayable(scenario: str, target: Target, *, in_form: bool = True) -> str | None:
    """Why a target's API cannot say what is added, if it cannot. A form is the client's own, and not `in_form` what it
    says can be said without it."""
    extra = EXTRAS.get(scenario)
    api = catalog.api(target.api)
    if extra is None or extra.parts or extra.fields(api) or extra.tool_fields(api) or extra.form in api.client_forms:
        return None
    if extra.form:
        return None if not in_form else f"clients of {target.api} have no such form"
    return f"the API {target.api} has no field for it"


def saying(scenario: str, target: Target) -> Target:
    """The target, of which each request says what is added in a scenario."""
    extra = EXTRAS.get(scenario)
    if extra is None:
        return target

    def connect(endpoint: Endpoint, model: str) -> Any:
        form = catalog.api(target.api).client_forms.get(extra.form)
        if form is not None:
            rewriting = httpx2.Client(transport=_Rewriting(cast("httpx2.Client", endpoint.http_client), form))
            return target.adapter.connect(replace(endpoint, http_client=rewriting), model)
        return _Client(target.adapter.connect(endpoint, model), catalog.api(target.api), extra)

    return replace(target, adapter=replace(target.adapter, connect=connect))


class _Rewriting(httpx2.BaseTransport):
    """Sends each request in another form."""

    def __init__(self, inner: httpx2.Client, form: ClientForm) -> None:
        self._inner, self._form = inner, form

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        self._form(body)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        sent = self._inner.build_request(request.method, request.url, headers=headers, content=json.dumps(body))
        return self._inner.send(sent, stream=True)


class _Client:
    """A client that says more than it is asked to."""

    def __init__(self, client: object, api: Api, extra: Extra) -> None:
        self._client = cast("Any", client)
        self._api = api.name
        self._fields, self._tool_fields = dict(extra.fields(api)), dict(extra.tool_fields(api))
        self._parts = extra.parts

    def chat(self, request: ChatRequest) -> Any:
        return self._client.chat(self._said(request))

    def stream(self, request: ChatRequest) -> Any:
        return self._client.stream(self._said(request))

    def close(self) -> Any:
        return self._client.close()

    def _said(self, request: ChatRequest) -> ChatRequest:
        first, *rest = request.messages
        return replace(
            request,
            messages=(Message(first.role, (*self._parts, *first.parts)), *rest),
            tools=tuple(self._with(tool, self._tool_fields) for tool in request.tools),
            provider_metadata=self._with(request, self._fields).provider_metadata,
        )

    def _with(self, value: Told, fields: Mapping[str, JSON]) -> Told:
        """A request or a tool with these fields of the API."""
        if not fields:
            return value
        return replace(value, provider_metadata={**value.provider_metadata, self._api: dict(fields)})
