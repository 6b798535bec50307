"""What the limits look at: one request body, and the law that it is held to.

What the format itself asks for (roles, required fields, types, names of tools, the pairing of calls and results) holds
at every server that speaks it. What OpenAI's service adds (a closed list of fields, the strict subset of schemas, gates
by model, …) is not enforced, and partly contradicted, by compatible servers: Mistral takes tools without a `type` and
`tool_choice: "any"`, others take fields of their own. Those limits hold only where `Chat.openai` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.apis.jsonvalue import join
from harness.apis.law import Law
from harness.apis.profile import Profile
from harness.contract.model import JSON

MISTRAL = "mistral"
"""Mistral's service, which has limits of its own."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A request body, and the law that it is held to."""

    body: dict[str, JSON]
    law: Law

    @property
    def openai(self) -> bool:
        """Whether OpenAI's own rules hold."""
        return self.law.is_own

    @property
    def profile(self) -> Profile:
        """What holds for the model."""
        return self.law.profile

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
