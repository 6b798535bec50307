"""Conversations that the callers of tool loops keep themselves, and pass to each call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from harness.bridge.clients.forms import GEMINI, OPENAI, OPENAI_APIS, RESPONSES, Form
from harness.bridge.clients.message_classes import as_annotated
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import SYNONYMS, first_known
from harness.bridge.clients.shapes import COMPARES_SYSTEM_ROLE
from harness.bridge.clients.turns import EventList
from harness.bridge.clients.values import items_of, plain_fields
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, Message


@dataclass(frozen=True, slots=True)
class CallerMessages:
    """Parameter of a tool loop for the messages of its caller. `form` has the form of these messages.

    `takes_system` is set if the first message may be the system prompt.
    """

    parameter: str
    form: Form
    takes_system: bool


def caller_messages(run: Method, api: str) -> Iterator[CallerMessages]:
    """Yield the ways in which a method or function may get its caller's messages. `api` is empty if it is not known."""
    takes_system = api in OPENAI_APIS or COMPARES_SYSTEM_ROLE.search(run.module) is not None
    for form, apis in ((GEMINI, (GEMINI.name,)), (OPENAI, ()), (RESPONSES, (RESPONSES.name,))):
        name = first_known(SYNONYMS[form.messages], run.names)
        if name is not None and (not apis or api in {"", *apis}):
            if form is not RESPONSES:
                yield CallerMessages(name, form, takes_system and form is OPENAI)
            elif name not in SYNONYMS[OPENAI.messages] and run.hints.get(name) is not str:
                yield CallerMessages(name, OPENAI, takes_system)


class CallerConversation:
    """A conversation that the caller of a tool loop keeps. The loop adds to it, or returns it with its answer."""

    def __init__(self, given: CallerMessages, run: Method, system: str | None) -> None:
        """Begin a conversation with a system prompt, which need not be given."""
        self._given, self._hint, self._system = given, run.hints.get(given.parameter), system
        self._messages, self._known = list[object](), -1

    def argument(self, turn: Message) -> dict[str, object]:
        """Return the argument for the messages, with a turn of the user as the last one.

        Raises:
            Unsupported: the loop neither added its answer nor returned it in a message.
        """
        if len(self._messages) == self._known:
            raise Unsupported(RECOGNISED_CLIENT, "a second turn", "the messages that it gets stay the same")
        system = self._system if not self._messages else None
        request = ChatRequest("", (turn,), system=system)
        said = self._given.form.arguments(request, Memory(), "", frozenset())[self._given.form.messages]
        self._messages += as_annotated(said, self._hint)
        self._known = len(self._messages)
        return {self._given.parameter: self._messages}

    def update(self, returned: object) -> None:
        """Note what the loop returned: if the messages are unchanged, it may have the whole conversation or the new
        messages.
        """
        if len(self._messages) == self._known and (found := returned_messages(returned)):
            is_whole = found[0] in self._messages[:2] and plain_fields(found[0]).get("role") != "assistant"
            self._messages = found if is_whole else [*self._messages, *found]


def returned_messages(answer: object) -> list[object]:
    """Return the messages of the conversation in an answer, for the next call. Return no messages if it has none."""
    plain = answer.items if isinstance(answer, EventList) else answer
    members = (items_of(cast("object", plain)) or []) if isinstance(plain, tuple) else [plain]
    for items in map(items_of, members):  # such as the text and the messages
        if items and all({"role", "type"} & plain_fields(each).keys() for each in items):
            return items
    fields = plain_fields(cast("object", answer))
    found = (fields[name] for name in SYNONYMS["messages"] if isinstance(fields.get(name), list))
    return cast("list[object]", next(found, None) or [])
