"""An adapter of Relay, on plain HTTP. It shares no code with the other modules."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator
from typing import Any

import httpx2

from harness.model.errors import ConnectionFailed, MalformedResponse, ProviderError, provider_error
from harness.model.messages import (
    JSON,
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    Opaque,
    Part,
    Refusal,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    Usage,
)
from harness.model.protocols import Adapter, Capability, Endpoint

_STOPS = {
    "done": StopReason.END_TURN,
    "calls": StopReason.TOOL_USE,
    "limit": StopReason.MAX_TOKENS,
    "stop": StopReason.STOP_SEQUENCE,
    "declined": StopReason.REFUSAL,
}
_CALLING = {"auto": "free", "none": "never", "required": "must"}
_TLS = ssl.create_default_context()
"""Shared by all clients, since reading the certificates takes longer than most conversations."""


class Client:
    """A `StreamingChatClient`."""

    def __init__(self, endpoint: Endpoint, _model: str) -> None:
        self._url = f"{endpoint.base_url}/v1/turns"
        self._headers = {"authorization": f"Bearer {endpoint.api_key}", "relay-version": "1"}
        self._http = httpx2.Client(timeout=600, trust_env=False, verify=_TLS)

    def close(self) -> None:
        self._http.close()

    def chat(self, request: ChatRequest) -> ChatResponse:
        try:
            reply = self._http.post(self._url, json=self.body(request), headers=self._headers)
            return self._answer(self._read(reply.status_code, reply.headers, reply.text))
        except httpx2.RequestError as error:
            raise ConnectionFailed(str(error)) from error

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        body = self.body(request) | {"stream": True}
        try:
            with self._http.stream("POST", self._url, json=body, headers=self._headers) as reply:
                if not reply.is_success:
                    self._read(reply.status_code, reply.headers, reply.read().decode(errors="replace"))
                yield from self._events(reply)
        except httpx2.RequestError as error:
            raise ConnectionFailed(str(error)) from error

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """The request on the wire."""
        wire: dict[str, Any] = {"model": request.model, "turns": []}
        for message in request.messages:
            by = "model" if message.role is Role.ASSISTANT else "user"
            parts = [part for each in message.parts if (part := self.part(each)) is not None]
            wire["turns"] += [{"by": by, "parts": parts}] if parts else []
        if request.system:
            wire["system"] = request.system
        if request.tools:
            wire["tools"] = [{"name": t.name, "about": t.description, "takes": t.parameters} for t in request.tools]
        match request.tool_choice:
            case NamedTool(name):
                wire["calling"] = {"tool": name}
            case str(mode):
                wire["calling"] = _CALLING[mode]
            case None:
                pass
        match request.response_format:
            case JsonSchema(schema):
                wire["answer"] = {"schema": schema}
            case JsonMode():
                wire["answer"] = {"json": True}
            case None:
                pass
        settings = {"limit": request.max_tokens, "temperature": request.temperature, "top_p": request.top_p}
        wire |= {name: value for name, value in settings.items() if value is not None}
        return wire | ({"stop": list(request.stop)} if request.stop else {})

    def part(self, part: Part) -> JSON:
        """A part on the wire, `None` if it means nothing there."""
        match part:
            case Text(text):
                return {"text": text}
            case Refusal(text):
                return {"declined": text}
            case ToolCall(call_id, name, arguments):
                return {"call": {"id": call_id, "tool": name, "arguments": json.dumps(arguments)}}
            case ToolResult(call_id, _, content):
                value = part.text if isinstance(content, tuple) else content
                return {"result": {"of": call_id, "value": value, "failed": part.is_error}}
            case Opaque("relay", raw):
                return raw
            case _:
                return None

    def _events(self, reply: httpx2.Response) -> Iterator[StreamEvent]:
        whole: dict[str, Any] = {"parts": []}
        calls = -1
        for line in _lines(reply):
            event = _object(line.removeprefix("data:")) if line.startswith("data:") else {}
            if "error" in event:
                raise _failure(event["error"])
            if "part" in event:
                if "call" in (whole["parts"] or [{}])[-1]:
                    yield ToolCallEnd(calls)
                whole["parts"].append(event["part"])
                if call := event["part"].get("call"):
                    calls += 1
                    yield ToolCallStart(calls, call["id"], call["tool"])
            elif "more" in event:
                part, text = whole["parts"][-1], event["more"]
                (holder, key) = (part["call"], "arguments") if "call" in part else (part, next(iter(part)))
                holder[key] += text
                if key == "arguments":
                    yield ArgumentsDelta(calls, text)
                elif key == "text":
                    yield TextDelta(text)
            else:
                whole |= event
        answer = self._answer(whole)
        if "call" in (whole["parts"] or [{}])[-1] and answer.stop_reason is StopReason.TOOL_USE:
            yield ToolCallEnd(calls)
        yield Finish(answer)

    def _read(self, status: int, headers: httpx2.Headers, text: str) -> dict[str, Any]:
        if 200 <= status < 300:
            return _object(text)
        try:
            said = _object(text)["error"]["message"]
        except (MalformedResponse, LookupError, TypeError):
            said = text
        milliseconds, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
        wait = float(milliseconds) / 1000 if milliseconds else float(seconds) if seconds else None
        raise provider_error(status, said, retry_after=wait)

    def _answer(self, reply: dict[str, Any]) -> ChatResponse:
        try:
            stop, used = _STOPS.get(reply["ended"], StopReason.UNKNOWN), reply["used"]
            parts: list[Part] = []
            for part in reply["parts"]:
                match part:
                    case {"text": str(text)}:
                        parts.append(Text(text))
                    case {"declined": str(text)}:
                        parts.append(Refusal(text))
                    case {"call": {"id": str(call_id), "tool": str(name), "arguments": str(text)}}:
                        try:
                            parts.append(ToolCall(call_id, name, json.loads(text)))
                        except ValueError:  # cut off: never to be made
                            stop = stop if stop is StopReason.MAX_TOKENS else StopReason.MALFORMED_CALL
                    case _:
                        parts.append(Opaque("relay", part))
            message = Message(Role.ASSISTANT, tuple(parts))
            return ChatResponse(message, stop, Usage(used["in"], used["out"]), reply.get("model"), reply["ended"])
        except (LookupError, TypeError, AttributeError) as error:
            raise MalformedResponse(f"no answer of Relay: {error!r}") from error


def _lines(reply: httpx2.Response) -> Iterator[str]:
    """The lines of an event stream end as its grammar says, and not where Unicode ends them."""
    rest = b""
    for data in reply.iter_bytes():
        *lines, rest = re.split(rb"\r\n|\n|\r", rest + data)  # one that is cut in two ends an empty line as well
        yield from (line.decode().removeprefix("\ufeff") for line in lines)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MalformedResponse(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise MalformedResponse("not an object")
    return value


def _failure(error: Any) -> ProviderError:
    return provider_error(error["status"], error["message"])


ADAPTER = Adapter(
    "relay",
    "relay",
    frozenset(
        {
            Capability.SYSTEM_PROMPT,
            Capability.TOOLS,
            Capability.PARALLEL_TOOL_CALLS,
            Capability.TOOL_CHOICE,
            Capability.FORCED_TOOL_CHOICE,
            Capability.NAMED_TOOL_CHOICE,
            Capability.JSON_MODE,
            Capability.JSON_SCHEMA,
            Capability.JSON_WITH_TOOLS,
            Capability.HISTORY,
            Capability.TRUNCATION,
            Capability.STREAMING,
        }
    ),
    Client,
)
