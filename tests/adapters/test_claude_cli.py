from __future__ import annotations

import json
from typing import Any

import pytest

from harness.adapters.claude_cli import ADAPTER
from harness.model.errors import (
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
from harness.model.http import Command, Completed
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    Image,
    JsonMode,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    Text,
    ThinkingSettings,
    Tool,
    Usage,
)
from harness.model.protocols import ChatClient, Endpoint

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
    "usage": {"input_tokens": 11, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 7},
    "modelUsage": {"claude-opus-5-5": {"inputTokens": 11, "outputTokens": 7}},
    "permission_denials": [],
}


class Stub:
    """A runner that returns or raises a given outcome."""

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


def test_keys_are_inherited_by_name_only() -> None:
    command = sent(ASKED)

    assert {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "HOME", "PATH"} <= {*command.inherited}
    assert not {*command.inherited} & {*command.environment}


def test_a_missing_system_prompt_is_sent_as_an_empty_one() -> None:
    command = sent(ChatRequest("", (Message.user("Hi"),)))

    assert command.argv[-4:] == ("--model", "claude-sonnet-5", "--system-prompt", "")
    assert "CLAUDE_CODE_MAX_OUTPUT_TOKENS" not in command.environment


def test_any_prompt_is_sent_verbatim() -> None:
    for prompt in ("  --help\n\n", "@/etc/passwd what is this?", "ultrathink", " /help", "# note", "18 °C \U0001f3d4"):
        assert sent(ChatRequest("", (Message.user(prompt),))).stdin == prompt


CONVERSATION = (Message.user("Hi"), Message(Role.ASSISTANT, (Text("Hello"),)), Message.user("And?"))


NO_FLAG = "the command line has no flag for it"
NO_KEEPALIVE = "a run takes one user message and keeps nothing of it"
REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("tool_choice", "there are no tools to choose from", {"tool_choice": "none"}),
    ("response_format", "print mode answers in text", {"response_format": JsonMode()}),
    ("thinking", "the result does not show it", {"thinking": ThinkingSettings("low")}),
    ("temperature", NO_FLAG, {"temperature": 0.0}),
    ("top_p", NO_FLAG, {"top_p": 0.5}),
    ("stop", NO_FLAG, {"stop": ("END",)}),
    ("provider_metadata", "there is no body to put fields into", {"provider_metadata": {"claude-cli": {"x": 1}}}),
    ("history", NO_KEEPALIVE, {"messages": CONVERSATION}),
    ("history", NO_KEEPALIVE, {"messages": CONVERSATION[1:2]}),
    ("Image", "a prompt is text", {"messages": (Message(Role.USER, (Text("?"), Image("image/png", b"x"))),)}),
    ("Opaque", "a prompt is text", {"messages": (Message(Role.USER, (Text("?"), Opaque("claude-cli", {}))),)}),
    ("a blank prompt", "the command needs a prompt", {"messages": (Message.user(" \n"),)}),
    ("system prompt", "it holds a null character, which no command takes", {"system": "nothing: \0"}),
    ("prompt", "it cannot be written as UTF-8: surrogates not allowed", {"messages": (Message.user("\ud83d"),)}),
    (
        "tools",
        "the command line knows only tools of its own, and they are switched off",
        {"tools": (Tool("now", "The time.", {}),)},
    ),
    (
        "a prompt that begins with '/'",
        "the command line takes it for a command of its own",
        {"messages": (Message.user("/help me"),)},
    ),
]


@pytest.mark.parametrize(("feature", "reason", "changes"), REFUSED)
def test_inexpressible_requests_are_declined(feature: str, reason: str, changes: dict[str, Any]) -> None:
    stub = Stub(printed())
    made = ADAPTER.connect(Endpoint("process://local", "", processes=stub), "claude-opus-5-5")
    assert isinstance(made, ChatClient)
    request = ChatRequest(**({"model": "", "messages": (Message.user("Hi"),)} | changes))

    with pytest.raises(Unsupported) as raised:
        made.chat(request)

    assert str(raised.value) == f"claude-cli: {feature} is not supported: {reason}"
    assert stub.commands == []


def test_an_endpoint_without_a_runner_is_refused() -> None:
    with pytest.raises(PluginError) as raised:
        ADAPTER.connect(Endpoint("process://local", ""), "claude-opus-5-5")

    assert str(raised.value) == (
        "the adapter 'claude-cli' cannot be used: it runs a command: give Endpoint.processes a runner, such as "
        "harness.kit.client.LocalRunner()."
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


# --- failures ---------------------------------------------------------------------------------------------------------

ENDED = "HTTP 500: claude ended with"
NO_RESULT = "malformed response: claude printed no result but:"
MISSING = "there is no executable 'claude' on PATH; install Claude Code, or add its folder to PATH"
UNKNOWN = "error: unknown option '--tools'"
FAILED: list[tuple[type[ChatError], str, Completed | Exception]] = [
    (AuthenticationFailed, "HTTP 401: No.", printed(1, is_error=True, api_error_status=401, result="No.")),
    (RateLimited, "HTTP 429: No.", printed(1, is_error=True, api_error_status=429, result="No.")),
    (Overloaded, "HTTP 529: No.", printed(1, is_error=True, api_error_status=529, result="No.")),
    (ServerError, "HTTP 500: odd", printed(1, is_error=True, api_error_status=99, result="odd")),
    (ServerError, "HTTP 500: Not logged in", printed(1, is_error=True, result="Not logged in")),
    (
        ServerError,
        "HTTP 500 e_1: it broke; twice",
        printed(1, subtype="e_1", result=None, errors=["it broke", "twice"]),
    ),
    (ServerError, "HTTP 500 e_2: an error without a message", printed(0, subtype="e_2", result=None)),
    (ServerError, f"{ENDED} status 1 and printed: {UNKNOWN!r}", Completed(1, "", f"{UNKNOWN}\n")),
    (ServerError, f"{ENDED} signal 9 and printed: 'nothing'", Completed(-9)),
    (ServerError, f"{ENDED} status 3 and printed: '[]'", Completed(3, "[]")),
    (ServerError, f"{ENDED} status 1 and printed: 'late'", Completed(1, printed().stdout, "late")),
    (MalformedResponse, f"{NO_RESULT} 'Four.\\n'", Completed(0, "Four.\n")),
    (MalformedResponse, f"{NO_RESULT} '{'[' * 299}", Completed(0, "[" * 100_000)),
    (MalformedResponse, f'{NO_RESULT} \'{{"type": "assistant"}}\'', Completed(0, '{"type": "assistant"}')),
    (
        MalformedResponse,
        "malformed response: no request was sent; claude printed: 'Unknown command: /x'",
        printed(num_turns=0, stop_reason=None, result="Unknown command: /x"),
    ),
    (MalformedResponse, "malformed response: the result has no text", printed(result=None)),
    (ConnectionFailed, f"connection failed: {MISSING}", FileNotFoundError(2, "No such file or directory")),
    (ConnectionFailed, "connection failed: too late", TimeoutError("too late")),
    (ConnectionFailed, "connection failed: [Errno 13] Denied", PermissionError(13, "Denied")),
]


@pytest.mark.parametrize(("kind", "text", "outcome"), FAILED)
def test_every_failure_has_its_canonical_error(
    outcome: Completed | Exception, kind: type[ChatError], text: str
) -> None:
    with pytest.raises(ChatError) as raised:
        ask(outcome)

    assert (type(raised.value), str(raised.value)) == (kind, text)
