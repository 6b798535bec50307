from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.claude_cli import API
from harness.apis.jsonvalue import loads, resolve
from harness.apis.limits import Limit
from harness.apis.view import (
    ErrorView,
    FormatView,
    ModelStep,
    OpaqueView,
    SettingView,
    SystemView,
    TextView,
    ToolView,
    WireError,
)
from harness.model.http import Command, Completed, HttpRequest, HttpResponse, from_response, to_request, to_response
from harness.model.messages import StopReason, Usage
from tests.apis import samples

PROFILE = registry.api("claude-cli").profile_for("claude-opus-5-5")
ARGV = (
    *("claude", "--print", "--output-format", "json", "--tools", "", "--strict-mcp-config", "--setting-sources", ""),
    *("--disable-slash-commands", "--no-session-persistence", "--model", "claude-opus-5-5"),
    *("--system-prompt", "Be brief."),
)
GOOD = Command(ARGV, "What is 2 + 2?", {"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1"})


def without(*options: str) -> Command:
    """The good command without these switches, or options and their values."""
    left = list(ARGV)
    for option in options:
        at = left.index(option)
        takes = option not in {"--print", "--strict-mcp-config", "--no-session-persistence"}
        del left[at : at + 1 + takes]
    return replace(GOOD, argv=tuple(left))


def with_(*more: str, command: Command = GOOD) -> Command:
    return replace(command, argv=(*command.argv, *more))


def check(command: Command) -> list[tuple[str, str]]:
    request = to_request(command)
    found = samples.violations(API, request, PROFILE)
    body = loads(request.body)
    assert all(not each.pointer or resolve(body, each.pointer) is not None for each in found)
    return [(each.severity, each.rule) for each in found]


# --- requests ---------------------------------------------------------------------------------------------------------


def test_a_run_of_claude_is_recognised_in_any_folder() -> None:
    assert API.recognises(to_request(GOOD))
    assert API.recognises(to_request(Command(("/usr/local/bin/claude", "-p"))))
    assert not API.recognises(to_request(Command(("codex", "exec"))))
    assert not API.recognises(replace(to_request(GOOD), method="POST"))
    assert not API.recognises(replace(to_request(GOOD), url="https://api.anthropic.com/claude"))


def test_the_view_names_each_fact_with_its_place() -> None:
    command = replace(GOOD, environment={"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "64"})
    view = API.view(to_request(command))

    assert view.model == "claude-opus-5-5"
    assert view.system == (SystemView("Be brief.", "--system-prompt", "/argv/14"),)
    (turn,) = view.turns
    assert (turn.role, turn.parts) == ("user", (TextView("What is 2 + 2?", "/stdin"),))
    assert view.settings == {"max_tokens": SettingView(64, "/environment/CLAUDE_CODE_MAX_OUTPUT_TOKENS")}
    assert (view.tools, view.stream, view.stateful, view.response_format) == ((), False, None, None)


def test_options_of_other_commands_are_in_the_view() -> None:
    argv = (
        *("claude", "-p", "Summarise:", "--output-format=stream-json", "--tools", "Bash,Read", "Edit", "--resume"),
        *("--append-system-prompt", "--odd", "--effort", "low", "--json-schema", '{"type": "object"}'),
    )
    view = API.view(to_request(Command(argv, "the input")))

    assert view.turns[0].parts == (TextView("Summarise:", "/argv/2"), TextView("the input", "/stdin"))
    assert view.system == (SystemView("--odd", "--append-system-prompt", "/argv/9"),)
    assert view.tools == (
        ToolView("Bash", None, None, "/argv/5", kind="built-in"),
        ToolView("Read", None, None, "/argv/5", kind="built-in"),
        ToolView("Edit", None, None, "/argv/6", kind="built-in"),
    )
    assert view.settings == {"thinking": SettingView("low", "/argv/11")}
    schema = FormatView("json-schema", "--json-schema", "/argv/13", {"type": "object"}, "/argv/13")
    assert (view.response_format, view.stream, view.stateful) == (schema, True, "--resume")


def test_the_last_value_counts_and_options_end_at_two_dashes() -> None:
    view = API.view(to_request(Command(("claude", "-p", "--model", "a", "--model=b", "--", "--model", "c"))))

    assert view.model == "b"
    assert [part.text for part in view.turns[0].parts if isinstance(part, TextView)] == ["--model", "c"]


def test_a_body_that_is_no_command_is_not_read() -> None:
    request = HttpRequest("RUN", "process://local/claude", {}, b'{"argv": []}')

    with pytest.raises(WireError, match="a command has argv, stdin, environment and inherited"):
        API.view(request)
    assert API.model_of(request) is None
    assert [each.rule for each in samples.violations(API, request, PROFILE)] == ["claude-cli-command"]


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_good_command_has_no_violation_of_any_severity() -> None:
    assert check(GOOD) == []
    assert check(replace(GOOD, stdin=" /help is what? @file")) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (with_("--frobnicate"), [("error", "claude-cli-option-unknown")]),
        (with_("-x"), [("error", "claude-cli-option-unknown")]),
        (with_("--max-turns"), [("error", "claude-cli-option-value")]),
        (without("--print"), [("error", "claude-cli-print")]),
        (without("--output-format"), [("error", "claude-cli-output-format")]),
        (with_("--output-format", "text"), [("error", "claude-cli-output-format")]),
        (with_("--output-format", "yaml"), [("error", "claude-cli-output-format")]),
        (without("--tools"), [("warning", "claude-cli-tools")]),
        (with_("--tools", "Bash", command=without("--tools")), [("warning", "claude-cli-tools")]),
        (with_("--tools=default", command=without("--tools")), [("warning", "claude-cli-tools")]),
        (with_("What is 2 + 2?", command=replace(GOOD, stdin="")), [("warning", "claude-cli-prompt-argument")]),
        (replace(GOOD, stdin=""), [("error", "claude-cli-prompt-blank")]),
        (replace(GOOD, stdin=" \n"), [("error", "claude-cli-prompt-blank")]),
        (replace(GOOD, stdin="/help me"), [("error", "claude-cli-prompt-command")]),
        (replace(GOOD, environment={}), [("warning", "claude-cli-attachments")]),
        (replace(GOOD, environment={"CLAUDE_CODE_DISABLE_ATTACHMENTS": "0"}), [("warning", "claude-cli-attachments")]),
        (without("--setting-sources"), [("warning", "claude-cli-setting-sources")]),
        (with_("--setting-sources", "user"), [("warning", "claude-cli-setting-sources")]),
        (without("--strict-mcp-config"), [("warning", "claude-cli-strict-mcp-config")]),
        (without("--no-session-persistence"), [("warning", "claude-cli-no-session-persistence")]),
        (without("--system-prompt"), [("warning", "claude-cli-system-prompt")]),
        (
            replace(GOOD, environment={**GOOD.environment, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "many"}),
            [("warning", "claude-cli-max-tokens")],
        ),
    ],
)
def test_a_fault_has_exactly_its_violations(command: Command, expected: list[tuple[str, str]]) -> None:
    assert check(command) == expected


# --- results ----------------------------------------------------------------------------------------------------------

RESULT: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "api_error_status": None,
    "num_turns": 1,
    "result": "Four: 18 °C\n",
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 11, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 7},
    "modelUsage": {"claude-opus-5-5": {}},
}


def printed(status: int = 0, **changes: Any) -> HttpResponse:
    return to_response(Completed(status, json.dumps(RESULT | changes) + "\n"))


def test_an_answer_is_read() -> None:
    view = API.read(printed())

    assert (view.parts, view.text) == ((TextView("Four: 18 °C\n", "/result"),), "Four: 18 °C\n")
    assert (view.stop_reason, view.raw_stop_reason, view.model) == (StopReason.END_TURN, "end_turn", "claude-opus-5-5")
    assert view.usage == Usage(19, 7, 5, 3)
    assert view.error is None
    assert resolve(view.body, "/result") == view.text
    assert API.read(printed(result="")).parts == ()


def test_a_refusal_is_no_error() -> None:
    view = API.read(printed(1, is_error=True, stop_reason="refusal", result="unable to respond"))

    assert (view.error, view.stop_reason) == (None, StopReason.REFUSAL)
    assert view.parts == (OpaqueView("refusal", "unable to respond", "/result"),)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (
            printed(1, is_error=True, api_error_status=429, result="Request rejected (429)"),
            ErrorView(200, "Request rejected (429)", meant=429),
        ),
        (
            printed(1, is_error=True, result="Not logged in · Please run /login"),
            ErrorView(200, "Not logged in · Please run /login"),
        ),
        (
            printed(1, subtype="error_during_execution", result=None, errors=["it broke"]),
            ErrorView(200, "it broke", "error_during_execution"),
        ),
        (printed(1), ErrorView(200, "status 1")),
        (to_response(Completed(1, "", "error: unknown option")), ErrorView(200, "error: unknown option")),
        (to_response(Completed(-9, "half")), ErrorView(200, "half")),
        (HttpResponse(500, {}, b"nothing left"), ErrorView(500, "nothing left")),
    ],
)
def test_errors_are_read_with_their_status(response: HttpResponse, error: ErrorView) -> None:
    view = API.read(response)

    assert (view.error, view.stop_reason, view.parts) == (error, StopReason.ERROR, ())


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (HttpResponse(200, {}, b'{"status": 0'), "Expecting"),
        (HttpResponse(200, {}, b'{"status": 0}'), "the result of a command has status, stdout and stderr"),
        (to_response(Completed(0, "Four.")), "no result on stdout"),
        (to_response(Completed(0, '{"type": "assistant"}')), "no result on stdout"),
        (printed(num_turns=0, result="Unknown command: /x"), "no answer of a model"),
        (printed(result=None), "no answer of a model"),
    ],
)
def test_other_results_are_wire_errors(response: HttpResponse, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        API.read(response)


# --- answers ----------------------------------------------------------------------------------------------------------


def built(step: ModelStep, seed: str = "s/0") -> HttpResponse:
    body = API.build(step, seed, "claude-opus-5-5", PROFILE)
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode())


def test_what_is_built_is_what_is_read() -> None:
    view = API.read(built(ModelStep(text="Four: 18 °C \U0001f3d4\n")))

    assert (view.text, view.stop_reason, view.model) == (
        "Four: 18 °C \U0001f3d4\n",
        StopReason.END_TURN,
        "claude-opus-5-5",
    )
    assert view.error is None
    assert view.usage.input_tokens
    assert from_response(built(ModelStep(text="Four"))).status == 0


def test_a_refusal_and_a_cut_answer_fail_as_the_command_line_fails() -> None:
    refused, cut = built(ModelStep(refusal="I can't.")), built(ModelStep(text="half", stop=StopReason.MAX_TOKENS))

    assert [from_response(each).status for each in (refused, cut)] == [1, 1]
    assert API.read(refused).parts == (OpaqueView("refusal", "API Error: I can't.", "/result"),)
    assert API.read(cut).error == ErrorView(200, "API Error: the answer exceeded the output token maximum.")


def test_wire_fields_of_a_script_are_put_into_the_result() -> None:
    view = API.read(built(ModelStep(text="x", raw=({"stop_reason": "another_day"}, "no object"))))

    assert (view.text, view.raw_stop_reason) == ("x", "another_day")


def test_a_requested_stream_is_a_whole_result() -> None:
    request = API.view(to_request(GOOD))
    step = ModelStep(text="Four")
    streamed = API.build_stream(step, "s/0", "claude-opus-5-5", PROFILE, request)

    assert API.read(streamed) == API.read(built(step))
    assert API.stream_error(529, "s/0", request) == API.fail(529, None, "s/0").body


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_a_failure_names_the_status_of_the_provider(status: int) -> None:
    response = API.fail(status, 7.0, "s/0")

    assert from_response(response).status == 1
    assert API.read(response).error == ErrorView(200, f"API Error: {status} the provider failed.", meant=status)


def test_a_refused_command_writes_to_stderr() -> None:
    refusal = API.refuse(Limit("claude-cli-option-unknown", "", "").make_violation("error: unknown option '--x'", ""))

    assert from_response(refusal) == Completed(1, "", "error: unknown option '--x'\n")
