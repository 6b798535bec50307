from __future__ import annotations

import json
from typing import Any

import pytest

from harness.adapters.claude_cli import ADAPTER
from harness.contract.errors import (
    AuthenticationFailed,
    ChatError,
    ConnectionFailed,
    MalformedResponse,
    Overloaded,
    PluginError,
    RateLimited,
    ServerError,
    Unsupported,
)
from harness.contract.model import (
    ChatRequest,
    ChatResponse,
    Image,
    JsonMode,
    Message,
    Opaque,
    Part,
    Refusal,
    Role,
    StopReason,
    Text,
    ThinkingSettings,
    Tool,
    Usage,
)
from harness.contract.process import Command, Completed
from harness.contract.protocols import ChatClient, Endpoint, Generation
from harness.kit.generation import ChatGeneration

ASKED = ChatRequest("claude-opus-5-5", (Message.user("What is 2 + 2?"),), system="Be brief.", max_tokens=64)
# as version 2.1.197 prints it, without the fields that say nothing here
RESULT: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "api_error_status": None,
    "num_turns": 1,
    "result": "Four: 18 °C\n",
    "stop_reason": "end_turn",
    "session_id": "55a4aea3-f316-46c8-ad3d-4e8a030bee9b",
    "total_cost_usd": 0.00025125,
    "usage": {
        "input_tokens": 11,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 5,
        "output_tokens": 7,
    },
    "modelUsage": {"claude-opus-5-5": {"inputTokens": 11, "outputTokens": 7}},
    "permission_denials": [],
}


class Stub:
    """A runner that leaves behind what it is given, or raises it."""

    def __init__(self, outcome: Completed | Exception) -> None:
        self.commands: list[Command] = []
        self._outcome = outcome

    def run(self, command: Command, timeout: float) -> Completed:
        self.commands.append(command)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def printed(status: int = 0, **changes: Any) -> Completed:
    return Completed(status, json.dumps(RESULT | changes) + "\n")


def client(outcome: Completed | Exception) -> ChatClient:
    made = ADAPTER.connect(Endpoint("process://local", "", processes=Stub(outcome)), "claude-opus-5-5")
    assert isinstance(made, ChatClient)
    return made


def ask(outcome: Completed | Exception) -> ChatResponse:
    return client(outcome).chat(ASKED)


def sent(request: ChatRequest) -> Command:
    stub = Stub(printed())
    made = ADAPTER.connect(Endpoint("process://local", "", processes=stub), "claude-sonnet-5")
    assert isinstance(made, ChatClient)
    made.chat(request)
    made.close()
    (command,) = stub.commands
    return command


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_chat_is_one_run_with_the_prompt_on_stdin() -> None:
    command = sent(ASKED)

    assert command.argv == (
        *("claude", "--print", "--output-format", "json", "--tools", "", "--strict-mcp-config"),
        *("--setting-sources", "", "--disable-slash-commands", "--no-session-persistence"),
        *("--model", "claude-opus-5-5", "--system-prompt", "Be brief."),
    )
    assert command.stdin == "What is 2 + 2?"
    assert command.environment == {
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "64",
    }


def test_keys_are_inherited_by_name_and_stand_nowhere() -> None:
    command = sent(ASKED)

    assert {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "HOME", "PATH"} <= {*command.inherited}
    assert not {*command.inherited} & {*command.environment}


def test_without_a_system_prompt_an_empty_one_keeps_the_own_one_out() -> None:
    command = sent(ChatRequest("", (Message.user("Hi"),)))

    assert command.argv[-4:] == ("--model", "claude-sonnet-5", "--system-prompt", "")
    assert "CLAUDE_CODE_MAX_OUTPUT_TOKENS" not in command.environment


def test_a_prompt_is_verbatim_whatever_it_looks_like() -> None:
    for prompt in ("  --help\n\n", "@/etc/passwd what is this?", "ultrathink", " /help", "# note", "18 °C \U0001f3d4"):
        assert sent(ChatRequest("", (Message.user(prompt),))).stdin == prompt


def test_texts_are_joined_and_what_belongs_to_another_api_is_left_out() -> None:
    parts: tuple[Part, ...] = (Text("One "), Opaque("anthropic", {"type": "x"}), Text("two"))

    assert sent(ChatRequest("", (Message(Role.USER, parts),))).stdin == "One two"


CONVERSATION = (Message.user("Hi"), Message(Role.ASSISTANT, (Text("Hello"),)), Message.user("And?"))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"tools": (Tool("now", "The time.", {}),)},
            "tools is not supported: the command line knows only tools of its own, and they are switched off",
        ),
        ({"tool_choice": "none"}, "tool_choice is not supported: there are no tools to choose from"),
        ({"response_format": JsonMode()}, "response_format is not supported: print mode answers in text"),
        ({"thinking": ThinkingSettings("low")}, "thinking is not supported: the result does not show it"),
        ({"temperature": 0.0}, "temperature is not supported: the command line has no flag for it"),
        ({"top_p": 0.5}, "top_p is not supported: the command line has no flag for it"),
        ({"stop": ("END",)}, "stop is not supported: the command line has no flag for it"),
        (
            {"provider_metadata": {"claude-cli": {"effort": "low"}}},
            "provider_metadata is not supported: there is no body to put fields into",
        ),
        (
            {"messages": CONVERSATION},
            "history is not supported: a run takes one user message and keeps nothing of it",
        ),
        (
            {"messages": CONVERSATION[1:2]},
            "history is not supported: a run takes one user message and keeps nothing of it",
        ),
        (
            {"messages": (Message(Role.USER, (Text("?"), Image("image/png", b"x"))),)},
            "Image is not supported: a prompt is text",
        ),
        (
            {"messages": (Message(Role.USER, (Text("?"), Opaque("claude-cli", {}))),)},
            "Opaque is not supported: a prompt is text",
        ),
        (
            {"messages": (Message.user(" \n"),)},
            "a blank prompt is not supported: the command line wants to be asked something",
        ),
        (
            {"messages": (Message.user("/help me"),)},
            "a prompt that begins with '/' is not supported: the command line takes it for a command of its own",
        ),
        (
            {"messages": (Message.user("half of a pair: \ud83d"),)},
            "prompt is not supported: it cannot be written as UTF-8: surrogates not allowed",
        ),
        (
            {"system": "nothing: \0"},
            "system prompt is not supported: it holds a null character, which no command takes",
        ),
    ],
)
def test_what_it_cannot_express_is_refused_before_anything_is_run(changes: dict[str, Any], text: str) -> None:
    stub = Stub(printed())
    made = ADAPTER.connect(Endpoint("process://local", "", processes=stub), "claude-opus-5-5")
    assert isinstance(made, ChatClient)
    request = ChatRequest(**({"model": "", "messages": (Message.user("Hi"),)} | changes))

    with pytest.raises(Unsupported) as raised:
        made.chat(request)

    assert str(raised.value) == f"claude-cli: {text}"
    assert stub.commands == []


def test_an_endpoint_that_runs_nothing_is_refused_with_the_way_out() -> None:
    with pytest.raises(PluginError) as raised:
        ADAPTER.connect(Endpoint("process://local", ""), "claude-opus-5-5")

    assert str(raised.value) == (
        "the adapter 'claude-cli' cannot be used: it runs a command: give Endpoint.processes a runner, such as "
        "harness.kit.processes.LocalRunner()."
    )


# --- the answer -------------------------------------------------------------------------------------------------------


def test_an_answer_has_text_usage_stop_reason_and_model() -> None:
    assert ask(printed()) == ChatResponse(
        Message(Role.ASSISTANT, (Text("Four: 18 °C\n"),)),
        StopReason.END_TURN,
        Usage(input_tokens=19, output_tokens=7, cache_read_tokens=5, cache_write_tokens=3),
        "claude-opus-5-5",
        "end_turn",
    )


def test_an_empty_answer_is_one() -> None:
    assert ask(printed(result="")).message.parts == ()


def test_a_refusal_is_an_answer_although_the_run_fails() -> None:
    response = ask(printed(1, is_error=True, stop_reason="refusal", result="API Error: unable to respond"))

    assert response.stop_reason is StopReason.REFUSAL
    assert response.message.parts == (Refusal("API Error: unable to respond"),)


@pytest.mark.parametrize("models", [{}, {"claude-opus-5-5": {}, "claude-haiku-4-5": {}}, None])
def test_the_model_is_not_guessed(models: Any) -> None:
    assert ask(printed(modelUsage=models)).model is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("pause_turn", StopReason.PAUSE),
        ("another_day", StopReason.UNKNOWN),
        (None, StopReason.UNKNOWN),
    ],
)
def test_stop_reasons_are_those_of_the_messages_api(said: str | None, expected: StopReason) -> None:
    response = ask(printed(stop_reason=said))

    assert (response.stop_reason, response.raw_stop_reason) == (expected, said)


def test_usage_that_is_not_said_is_not_made_up() -> None:
    assert ask(printed(usage={})).usage == Usage()
    assert ask(printed(usage=None)).usage == Usage()


# --- failures ---------------------------------------------------------------------------------------------------------

NOT_LOGGED_IN = {"is_error": True, "result": "Not logged in · Please run /login", "stop_reason": "stop_sequence"}


@pytest.mark.parametrize(
    ("outcome", "kind", "text"),
    [
        (
            printed(1, is_error=True, api_error_status=401, result="Failed to authenticate. API Error: 401"),
            AuthenticationFailed,
            "HTTP 401: Failed to authenticate. API Error: 401",
        ),
        (
            printed(1, is_error=True, api_error_status=429, result="API Error: Request rejected (429)"),
            RateLimited,
            "HTTP 429: API Error: Request rejected (429)",
        ),
        (
            printed(1, is_error=True, api_error_status=529, result="API Error: 529 Overloaded"),
            Overloaded,
            "HTTP 529: API Error: 529 Overloaded",
        ),
        (printed(1, **NOT_LOGGED_IN), ServerError, "HTTP 500: Not logged in · Please run /login"),
        (
            printed(1, subtype="error_during_execution", result=None, errors=["it broke", "twice"]),
            ServerError,
            "HTTP 500 error_during_execution: it broke; twice",
        ),
        (
            printed(0, subtype="error_max_turns", result=None),
            ServerError,
            "HTTP 500 error_max_turns: an error without a message",
        ),
        (
            printed(1, is_error=True, api_error_status=99, result="odd"),
            ServerError,
            "HTTP 500: odd",
        ),
        (
            Completed(1, "", "error: unknown option '--tools'\n"),
            ServerError,
            "HTTP 500: claude ended with status 1 and says: \"error: unknown option '--tools'\"",
        ),
        (Completed(-9), ServerError, "HTTP 500: claude ended with signal 9 and says: 'nothing'"),
        (Completed(3, "[]"), ServerError, "HTTP 500: claude ended with status 3 and says: '[]'"),
        (
            Completed(1, printed().stdout, "late"),
            ServerError,
            "HTTP 500: claude ended with status 1 and says: 'late'",
        ),
        (
            Completed(0, "Four.\n"),
            MalformedResponse,
            "malformed response: claude has printed no result but: 'Four.\\n'",
        ),
        (
            Completed(0, "[" * 100_000),
            MalformedResponse,
            "malformed response: claude has printed no result but: '" + "[" * 299,
        ),
        (
            Completed(0, '{"type": "assistant"}'),
            MalformedResponse,
            'malformed response: claude has printed no result but: \'{"type": "assistant"}\'',
        ),
        (
            printed(num_turns=0, stop_reason=None, result="Unknown command: /x"),
            MalformedResponse,
            "malformed response: no model was asked; claude itself says: 'Unknown command: /x'",
        ),
        (printed(result=None), MalformedResponse, "malformed response: the result has no text"),
        (
            FileNotFoundError(2, "No such file or directory"),
            ConnectionFailed,
            "connection failed: there is no executable 'claude' on the path; install Claude Code, or put it there",
        ),
        (
            TimeoutError("claude has not ended after 600 seconds"),
            ConnectionFailed,
            "connection failed: claude has not ended after 600 seconds",
        ),
        (
            PermissionError(13, "Permission denied"),
            ConnectionFailed,
            "connection failed: [Errno 13] Permission denied",
        ),
    ],
)
def test_every_failure_has_its_canonical_error(
    outcome: Completed | Exception, kind: type[ChatError], text: str
) -> None:
    with pytest.raises(ChatError) as raised:
        ask(outcome)

    assert (type(raised.value), str(raised.value)) == (kind, text)


# --- generation -------------------------------------------------------------------------------------------------------


def test_it_generates_text() -> None:
    provider = ChatGeneration(client(printed()), model="claude-opus-5-5", system="Be brief.")

    assert provider.generate("What is 2 + 2?", max_tokens=64) == Generation("Four: 18 °C\n", 19, 7)
