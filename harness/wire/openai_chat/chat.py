"""What the limits look at: one request body, and whose rules it is held to.

Two kinds of limits. What the format itself asks for (roles, required fields, types, names of tools, the pairing of
calls and results) holds at every server that speaks it. What OpenAI's service adds (a closed list of fields, the
strict subset of schemas, gates by model, …) is not enforced, and partly contradicted, by compatible servers: Mistral
takes tools without a `type` and `tool_choice: "any"`, others take fields of their own. Those limits hold only where
`Chat.openai` says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.http import HttpRequest
from harness.model import JSON
from harness.profiles import Profile
from harness.wire.jsonvalue import join

_OPENAI_MODEL = re.compile(r"(ft:)?(gpt-(?!oss)|chatgpt-|o\d).*")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Chat:
    """A request body with its profile. `host` is lower case, `openai` says whether OpenAI's own rules hold."""

    body: dict[str, JSON]
    profile: Profile
    host: str
    openai: bool

    @staticmethod
    def of(body: dict[str, JSON], request: HttpRequest, profile: Profile) -> Chat:
        """The chat that `request` carries in `body`."""
        host = _host(request.url)
        return Chat(body, profile, host, openai=_is_openai(host, body.get("model")))

    @property
    def messages(self) -> list[tuple[str, dict[str, JSON]]]:
        """The messages that are objects, with their pointers."""
        messages = self.body.get("messages")
        if not isinstance(messages, list):
            return []
        return [(join("/messages", i), message) for i, message in enumerate(messages) if isinstance(message, dict)]

    @property
    def tools(self) -> list[tuple[str, dict[str, JSON]]]:
        """The tools that are objects, with their pointers."""
        tools = self.body.get("tools")
        if not isinstance(tools, list):
            return []
        return [(join("/tools", i), tool) for i, tool in enumerate(tools) if isinstance(tool, dict)]


def calls_of(message: dict[str, JSON], pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """The tool calls of a message that are objects, with their pointers."""
    calls = message.get("tool_calls")
    if message.get("role") == "assistant" and isinstance(calls, list):
        for index, call in enumerate(calls):
            if isinstance(call, dict):
                yield join(pointer, "tool_calls", index), call


def param(pointer: str) -> str:
    """A pointer in OpenAI's notation: `/messages/3/role` is `messages[3].role`."""
    keys = (key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:])
    return "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in keys).removeprefix(".")


def type_name(value: JSON) -> str:
    """What OpenAI's refusals call the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"


def shown(value: JSON) -> str:
    """A value as refusals quote it: text in quotes, of anything else its type."""
    return f"'{value}'" if isinstance(value, str) else type_name(value)


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _is_openai(host: str, model: JSON) -> bool:
    """Whether the service behind a request is OpenAI's, or stands in for it.

    The reference server and the replay server are reached over the loopback, where local model servers live as well:
    hence the model has to be one of OpenAI's too. The same tells apart a proxy that was recorded under OpenAI's name.
    """
    if host not in _LOOPBACK and host != "api.openai.com" and not host.endswith(".api.openai.com"):
        return False
    return not isinstance(model, str) or _OPENAI_MODEL.fullmatch(model) is not None
