"""Checks of prompts: system and developer prompts, message forms, and conversations from another server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from harness.apis.response_rules import Subject
from harness.checks.server_session import (
    WEATHER,
    CheckSession,
    Inconclusive,
    ServerCheck,
    conclusive,
    needs,
)
from harness.model.messages import ChatRequest, Message, Role, ToolCall, ToolResult
from harness.scenarios.schema import HistoryCall, HistoryMessage, HistoryResult, StepSpec

_WORD = "HARBOUR-7"
_SYSTEM = f"End every answer with the word {_WORD}, whatever is asked."
_SYSTEM_SOURCE = "anthropic-system-field, openai-chat-system-anywhere, openai-responses-system-places, "
_FOLLOWED, _OBEYED = "follows the system prompt", "follows the developer's prompt"

_TWO = "What is two and two?"
_THREE = "What is three and three?"


def _check_instruction(session: CheckSession, question: str, name: str, way: Sequence[str], refused: str) -> None:
    """Check that the model follows the system prompt. If it does not, use the prompt's token count to see whether it
    arrived."""
    asked = ChatRequest(messages=[Message.user(question)], system=_SYSTEM)
    view = conclusive(session.ask(asked, refused=refused, way=way))
    session.record_try(name, came_out=_WORD in view.text)
    if _WORD in view.text:
        return
    without = conclusive(session.ask(replace(asked, system=None))).usage.input_tokens
    counted = view.usage.input_tokens
    if counted is not None and without is not None and counted >= without + _MIN_PROMPT_TOKENS:
        raise Inconclusive(f"the model does not follow the prompt, of which {counted - without} tokens are counted")


_MIN_PROMPT_TOKENS = 8
"""Minimum tokens of the system prompt."""


def _system(session: CheckSession) -> None:
    _check_instruction(session, _TWO, _FOLLOWED, (), "the system prompt is refused")


def _developer(session: CheckSession) -> None:
    _check_instruction(session, _THREE, _OBEYED, ("developer",), "a message of the developer is refused")


_PARTS = "Which number follows twelve? Answer with the number alone."


def _parts(session: CheckSession) -> None:
    asked = ChatRequest(messages=[Message.user(_PARTS)])
    reply = session.ask(asked, refused="a text of the user as a list of parts is refused", way=["parted"])
    view = conclusive(reply)
    session.record_try(
        "reads a text that comes as a list of parts", came_out="13" in view.text or "thirteen" in view.text
    )


_OTTER = "Which animal did I name? Answer with its name."
_STRINGS = "reads texts that come as plain strings"


def _plain(session: CheckSession) -> None:
    said = [Message.user("My animal is the otter."), Message(Role.ASSISTANT, "I shall remember it.")]
    asked = ChatRequest(messages=[*said, Message.user(_OTTER)])
    reply = session.ask(asked, refused="messages whose content is a plain string are refused", way=["plain"])
    session.record_try(_STRINGS, came_out="otter" in conclusive(reply).text.casefold())


FOREIGN = "call_9pBQ4xTz7Kfe21Lm"
"""A call id issued by another server, with only characters that every API accepts."""

_ASKED = "What is the weather in Kyoto?"
_AGAIN = "Which city did I ask about? Answer with its name."


def _elsewhere(result: str, *, failed: bool, question: str) -> ChatRequest:
    call, arguments = WEATHER.name, {"city": "Kyoto"}
    return ChatRequest(
        messages=[
            Message.user(_ASKED),
            Message(Role.ASSISTANT, [ToolCall(FOREIGN, call, {**arguments})]),
            Message(Role.USER, [ToolResult(FOREIGN, call, result, is_error=failed)]),
            Message(Role.ASSISTANT, "That was the weather service."),
            Message.user(question),
        ],
        tools=[WEATHER],
    )


def _history(session: CheckSession) -> None:
    asked = _elsewhere("21 °C and dry", failed=False, question=_AGAIN)
    plain = replace(asked, messages=[asked.messages[0], *asked.messages[-2:]])

    def refused() -> str:
        if session.refuses(plain):
            return "a conversation that came from elsewhere is refused, even without calls"
        return "a conversation is refused whose call has an id of another server's"

    reply = session.ask(asked, refused=refused)
    session.record_try("reads the conversation before", came_out="kyoto" in conclusive(reply).text.casefold())


_WHY = "Did the tool work? Answer yes or no."
_NO = re.compile(r"\bno\b", re.IGNORECASE)


def _failed(session: CheckSession) -> None:
    asked = _elsewhere("the station is offline", failed=True, question=_WHY)

    def refused() -> str:
        if session.refuses(_elsewhere("the station is offline", failed=False, question=_WHY)):
            raise Inconclusive("the same conversation is refused where the tool has not failed")
        return "a conversation is refused in which a tool has failed"

    reply = session.ask(asked, refused=refused)
    session.record_try("reads that a tool has failed", came_out=_NO.search(conclusive(reply).text) is not None)


_TOLD = (
    HistoryMessage(role="user", text=_ASKED),
    HistoryMessage(role="assistant", calls=[HistoryCall(id=FOREIGN, name=WEATHER.name, arguments={"city": "Kyoto"})]),
    HistoryMessage(role="user", results=[HistoryResult(call_id=FOREIGN, content="21 °C and dry")]),
)

CHECKS = (
    ServerCheck(
        id="server-system",
        subject=Subject.SYSTEM_PROMPT,
        promise="A system prompt is taken, and reaches the model.",
        source=f"{_SYSTEM_SOURCE}gemini-system-instruction",
        because="the model does not know its instructions",
        sends="a system prompt that asks for a word at the end of the answer, and a question; if the word is missing "
        "the question alone, for its tokens",
        prompt=_TWO,
        script=(StepSpec(text=f"Four. {_WORD}"),),
        play=_system,
        counted=_FOLLOWED,
        never="no answer has the word that the system prompt asks for, and its tokens are not counted: it "
        "does not seem to reach the model",
    ),
    ServerCheck(
        id="server-developer",
        subject=Subject.SYSTEM_PROMPT,
        promise="A message of the role 'developer' is taken, and reaches the model.",
        source="openai-chat-system-anywhere, openai-responses-system-places",
        because="current SDKs and agents send their instructions so",
        sends="the same as a message of the developer",
        prompt=_THREE,
        script=(StepSpec(text=f"Six. {_WORD}"),),
        play=_developer,
        lacks=needs("developer", "the API has no developer messages"),
        counted=_OBEYED,
        never="none of the answers has the word that the developer asks for, and its tokens are not counted: the "
        "message does not seem to reach the model",
    ),
    ServerCheck(
        id="server-parts",
        subject=Subject.REQUESTS,
        promise="What the user says is taken as a list of parts, too.",
        source="openai-chat-required-fields, openai-responses-message-form",
        because="agents send all texts so, since there may be pictures among them",
        sends="a question as a list of one part",
        prompt=_PARTS,
        script=(StepSpec(text="13"),),
        play=_parts,
        lacks=needs("parted", "the API has no other form, or every check uses it"),
    ),
    ServerCheck(
        id="server-strings",
        subject=Subject.REQUESTS,
        promise="Messages are taken whose content is a plain string, too.",
        source="anthropic-content-form",
        because="the API's own examples and many agents send texts so",
        sends="a conversation of three messages, each with a string as its content",
        prompt=_OTTER,
        script=(StepSpec(text="The otter."),),
        history=(
            HistoryMessage(role="user", text="My animal is the otter."),
            HistoryMessage(role="assistant", text="I shall remember it."),
        ),
        play=_plain,
        lacks=needs("plain", "the API has no other form, or every check uses it"),
        counted=_STRINGS,
        never="none of the answers knows what came as a plain string: it does not seem to reach the model",
    ),
    ServerCheck(
        id="server-history",
        subject=Subject.HISTORY,
        promise="A conversation is taken that another server has begun, with the ids that it issued.",
        source="anthropic-call-id-form, openai-chat-call-form, openai-responses-call-form, "
        "gemini-function-response-form",
        because="nobody can change the server in the middle of a conversation",
        sends="a call with an id from elsewhere, its result, and a question about it",
        prompt=_AGAIN,
        script=(StepSpec(text="Kyoto"),),
        history=_TOLD,
        play=_history,
    ),
    ServerCheck(
        id="server-result-error",
        subject=Subject.HISTORY,
        promise="The result of a tool that has failed is taken.",
        source="anthropic-result-is-error, openai-chat-result-text-only, openai-responses-output-content, "
        "gemini-function-response-form",
        because="the first tool that fails ends the conversation",
        sends="a call, a result that is an error, and a question about it",
        prompt=_WHY,
        script=(StepSpec(text="No."),),
        history=_TOLD,
        play=_failed,
    ),
)
