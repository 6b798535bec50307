from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path

import pytest

from harness.adapters.claude_cli import ADAPTER
from harness.cassettes.player import ExchangeLog
from harness.cassettes.transport import HandlerRunner, LoggingRunner
from harness.kit.client import LocalRunner
from harness.model.errors import ConnectionFailed, ServerError
from harness.model.http import (
    Command,
    Completed,
    Delivery,
    HttpResponse,
    from_request,
    from_response,
    to_request,
    to_response,
)
from harness.model.messages import ChatRequest, Message
from harness.model.protocols import ChatClient, Endpoint
from tests.cassettes.samples import Kept

ECHO = """
import json, os, sys
told = {"argv": sys.argv[1:], "stdin": sys.stdin.read(), "environment": dict(os.environ), "folder": os.getcwd(),
        "files": os.listdir()}
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "num_turns": 1,
                  "result": json.dumps(told), "stop_reason": "end_turn"}))
sys.stderr.write("by the way: 18 \\u00b0C")
"""
HANGS = "(echo alive; exec sleep 600) > {fifo} &\nwait"
KEY = "sk-ant-1234567890abcdefghij"


def executable(folder: Path, interpreter: str, text: str) -> None:
    script = folder / "claude"
    script.write_text(f"#!{interpreter}\n{text}", encoding="utf-8")
    script.chmod(0o755)


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


# --- the real one -----------------------------------------------------------------------------------------------------


def test_a_command_runs_without_a_shell_in_an_empty_folder_that_goes(
    bin_: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the environment it gets only what is named."""
    executable(bin_, sys.executable, ECHO)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OTHER_SECRET", "must not get there")
    argv = ("claude", "--system-prompt", "", "$HOME; `id` 'x' \"y\" * \n", "°")
    command = Command(argv, "18 °C\n\n", {"BOUND": "64"}, ("PATH", "ANTHROPIC_API_KEY", "NOT_SET"))

    completed = LocalRunner().run(command, 60)

    said = json.loads(json.loads(completed.stdout)["result"])
    assert (completed.status, completed.stderr) == (0, "by the way: 18 °C")
    assert said["argv"] == list(argv[1:])
    assert said["stdin"] == "18 °C\n\n"
    assert said["files"] == []
    assert not Path(said["folder"]).exists()
    environment = said["environment"]
    assert (environment["ANTHROPIC_API_KEY"], environment["BOUND"]) == (KEY, "64")
    assert not {"OTHER_SECRET", "NOT_SET", "HOME"} & {*environment}


def test_a_command_that_fails_leaves_its_status_behind_or_cannot_be_started(bin_: Path) -> None:
    for ending, status in (("exit 7", 7), ("kill -9 $$", -9)):
        executable(bin_, "/bin/sh", f"echo half; echo why >&2; {ending}")
        ended = LocalRunner().run(Command(("claude",), "unread", {}, ("PATH",)), 60)
        assert ended == Completed(status, "half\n", "why\n")

    (bin_ / "text").write_text("not executable")
    for argv, error in (
        (("no-such-executable",), FileNotFoundError),
        ((str(bin_ / "text"),), PermissionError),
        (("sh", "a\0b"), OSError),
    ):
        with pytest.raises(error):
            LocalRunner().run(Command(argv, "", {}, ("PATH",)), 60)


def test_a_command_that_takes_too_long_ends_with_all_that_it_started(bin_: Path) -> None:
    fifo = bin_ / "fifo"
    os.mkfifo(fifo)
    executable(bin_, "/bin/sh", HANGS.format(fifo=fifo))
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(TimeoutError, match="claude has not ended after 3 seconds"):
            LocalRunner().run(Command(("claude",), "", {}, ("PATH",)), 3)

        assert os.read(reader, 100) == b"alive\n"
        select.select([reader], [], [], 60)
        assert os.read(reader, 100) == b""  # nobody is left to write to it
    finally:
        os.close(reader)


# --- noted ------------------------------------------------------------------------------------------------------------


class Fixed:
    def __init__(self, outcome: Completed | OSError) -> None:
        self._outcome = outcome

    def run(self, command: Command, timeout: float) -> Completed:
        if isinstance(self._outcome, OSError):
            raise self._outcome
        return self._outcome


def test_a_run_is_noted_as_an_exchange_as_it_was() -> None:
    kept = Kept()
    log = ExchangeLog("process://local", "process://local", kept)
    command = Command(("claude", "--print"), f"My key is {KEY}.")

    assert LoggingRunner(Fixed(Completed(0, f"Is it {KEY}?")), log).run(command, 1) == Completed(0, f"Is it {KEY}?")

    (exchange,) = log.exchanges
    assert from_request(exchange.request) == command
    assert exchange.response is not None
    assert from_response(exchange.response) == Completed(0, f"Is it {KEY}?")
    assert [from_request(request) for request, _ in kept.exchanges] == [command]


def test_a_command_whose_answer_is_there_already_is_not_run() -> None:
    command = Command(("claude", "--print"), "What is 2 + 2?")
    known = Kept({to_request(command).body: to_response(Completed(0, "4"))})
    log = ExchangeLog("process://local", "process://local", known)

    assert LoggingRunner(Fixed(OSError("run")), log).run(command, 1) == Completed(0, "4")

    assert len(log.exchanges) == 1
    assert known.exchanges == []


def test_a_run_without_an_end_is_noted_without_a_response() -> None:
    log = ExchangeLog("process://local", "process://local")

    with pytest.raises(TimeoutError):
        LoggingRunner(Fixed(TimeoutError("late")), log).run(Command(("claude",)), 1)

    assert [exchange.response for exchange in log.exchanges] == [None]


# --- answered ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (HttpResponse(500, {}, b'{"error": {"message": "harness: nothing left"}}'), 1),
        (HttpResponse(200, {}, b'{"status": 0, "stdo'), 0),
        (HttpResponse(200, {}, b""), 0),
    ],
)
def test_an_answer_that_no_command_leaves_behind_is_its_output(response: HttpResponse, expected: int) -> None:
    assert HandlerRunner(lambda _: response).run(Command(("claude",)), 1) == Completed(expected, response.body.decode())


def test_an_answer_that_is_reset_is_no_answer() -> None:
    response = HttpResponse(200, {}, b"", Delivery(ending="reset"))

    with pytest.raises(ConnectionResetError, match="claude broke off"):
        HandlerRunner(lambda _: response).run(Command(("claude",)), 1)


def test_the_adapter_takes_an_exhausted_cassette_for_a_failure() -> None:
    runner = HandlerRunner(lambda _: HttpResponse(500, {}, b"nothing left"))
    client = ADAPTER.connect(Endpoint("process://local", "", processes=runner), "claude-opus-5-5")
    assert isinstance(client, ChatClient)

    with pytest.raises(ServerError, match="nothing left"):
        client.chat(ChatRequest("", (Message.user("Hi"),)))


def test_the_adapter_says_that_it_is_not_there() -> None:
    client = ADAPTER.connect(Endpoint("process://local", "", processes=Fixed(FileNotFoundError())), "claude-opus-5-5")
    assert isinstance(client, ChatClient)

    with pytest.raises(ConnectionFailed, match="there is no executable 'claude' on PATH"):
        client.chat(ChatRequest("", (Message.user("Hi"),)))
