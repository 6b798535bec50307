"""Agents: programs that own their tool loop.

A program reads the conversation as JSON from the first line of standard input. It writes one line per tool call and
reads the results. Results of parallel calls arrive in any order and are matched by id. When the conversation is
finished, the program exits with status 0.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, TypeAlias, cast

from harness.model.errors import PluginError, Unsupported
from harness.model.messages import JSON, ToolCall, ToolResult
from harness.model.protocols import Conversation, Endpoint, Loop
from harness.platform.exceptions import shorten
from harness.stdio.adapter_process import MAX_LINE_BYTES, BrokenCommand
from harness.stdio.protocol import DescribedConversation, DescribedTool, UserTurn, to_json

RunToolCall: TypeAlias = Callable[[ToolCall], ToolResult]

_MAX_TOOLS_AT_ONCE = 32

_MESSAGES = '{"id": …, "call": NAME, "arguments": {…}} or {"unsupported": WHAT}'


def agent(line: str, api: str, *, keys: Sequence[str], base_urls: Sequence[str]) -> Loop:
    """Return a loop that runs the program of a command line.

    `keys` and `base_urls` name the environment variables that pass the key and the API's address to the program.

    Raises:
        PluginError: There is no such program.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise PluginError("agent", line, f"not a command line: {error}.") from None
    if not words:
        raise PluginError("agent", line, "it is an empty command line.")
    if shutil.which(words[0]) is None:
        raise PluginError("agent", line, f"there is no program {words[0]!r} in this folder or on PATH.")
    named = [word for word in words if not word.startswith("-")]
    return Loop(Path(named[-1]).name, api, _AgentProgram(api, words, (*keys,), (*base_urls,)))


@dataclass(frozen=True, slots=True)
class _AgentProgram:
    """A `Drive` that starts a new process of the program for each conversation."""

    api: str
    words: list[str]
    keys: tuple[str, ...]
    base_urls: tuple[str, ...]

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> None:
        """See `harness.model.protocols.Drive`. Raises `BrokenCommand` if the program misbehaves."""
        environment = {
            **os.environ,
            **dict.fromkeys(self.keys, endpoint.api_key),
            **dict.fromkeys(self.base_urls, endpoint.base_url),
        }
        process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)  # noqa: S603 - the user's own program
        answers = _ToolResults(process)
        try:
            answers.write(
                {
                    "api": self.api,
                    "model": model,
                    "base_url": endpoint.base_url,
                    "api_key": endpoint.api_key,
                    **conversation_json(conversation),
                }
            )
            tools = {tool.name: tool.run for tool in conversation.tools}
            for line in iter(lambda: cast("Any", process.stdout).readline(MAX_LINE_BYTES), b""):
                message = _read_message(line)
                answers.add(message.get("id"), *_read_call(message, tools, self.words[0]))
            status = process.wait()
        finally:
            process.kill()
            process.wait()
            answers.close()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # input that the process has not read is lost
                    cast("Any", stream).close()
        if status:
            how = f"with exit status {status}" if status > 0 else f"by signal {-status}"
            raise BrokenCommand(f"the program ended {how}")


def conversation_json(conversation: Conversation) -> dict[str, JSON]:
    """Return a conversation as JSON. Every field is written, so that a program does not need to know the defaults."""
    described = DescribedConversation(
        turns=tuple(UserTurn(turn.text, turn.parts) for turn in conversation.turns),
        tools=tuple(DescribedTool(tool.name, tool.description, tool.parameters) for tool in conversation.tools),
        system=conversation.system,
        stream=conversation.stream,
        tool_choice=conversation.tool_choice,
        response_format=conversation.response_format,
        max_tokens=conversation.max_tokens,
        thinking=conversation.thinking,
        temperature=conversation.temperature,
        max_answers=conversation.max_answers,
    )
    every: dict[str, JSON] = {"tools": [], "stream": False, "max_answers": conversation.max_answers}
    for name in ("system", "tool_choice", "response_format", "max_tokens", "thinking", "temperature"):
        every[name] = None
    return every | cast("dict[str, JSON]", to_json(described))


class _ToolResults:
    """Thread pool that runs a program's tools in parallel and writes their results.

    After a call without an id, the next line is not read until the result is written. Nothing else identifies the call.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pool = ThreadPoolExecutor(_MAX_TOOLS_AT_ONCE)
        self._free = BoundedSemaphore(_MAX_TOOLS_AT_ONCE)
        self._writing = Lock()

    def write(self, message: Mapping[str, JSON]) -> None:
        """Write a line to the program. A program that has ended is detected later, when its exit status is read."""
        with self._writing, contextlib.suppress(BrokenPipeError):
            cast("Any", self._process.stdin).write(json.dumps(message).encode() + b"\n")
            cast("Any", self._process.stdin).flush()

    def add(self, call_id: JSON, run: RunToolCall, call: ToolCall) -> None:
        """Start a tool and write its result when it finishes. Block while the maximum number of tools is running."""
        self._free.acquire()
        running = self._pool.submit(self._answer, call_id, run, call)
        if call_id is None:
            running.result()

    def _answer(self, call_id: JSON, run: RunToolCall, call: ToolCall) -> None:
        try:
            self.write(_result_json(call_id, run(call)))
        except BaseException:
            self._process.kill()  # closing it would wait for the result
            raise
        finally:
            self._free.release()

    def close(self) -> None:
        """Wait until all running tools have finished."""
        self._pool.shutdown()


def _read_message(line: bytes) -> dict[str, JSON]:
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict) or not {"call", "unsupported"} & cast("dict[str, Any]", message).keys():
        shown = shorten(line.decode("utf-8", "replace").rstrip("\n"), 200)
        raise BrokenCommand(
            f"the program wrote a line that is not a message. A message is {_MESSAGES}: {shown!r}. Write other output "
            "to standard error"
        )
    return cast("dict[str, JSON]", message)


def _arguments(message: Mapping[str, JSON]) -> JSON:
    """Return the arguments of a call. `arguments_json` takes precedence, because it preserves numbers that the
    program's language cannot represent.
    """
    text = message.get("arguments_json")
    if not isinstance(text, str):
        return message.get("arguments", {}) if text is None else None
    try:
        return cast("JSON", json.loads(text))
    except (ValueError, RecursionError):
        return None


def _read_call(
    message: Mapping[str, JSON], tools: Mapping[str, RunToolCall], program: str
) -> tuple[RunToolCall, ToolCall]:
    if "unsupported" in message:
        raise Unsupported(program, str(message["unsupported"]), "the program says so")
    name, arguments = message["call"], _arguments(message)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise BrokenCommand(f"the program called a tool by {json.dumps(message)[:200]}, which must be {_MESSAGES}")
    if name not in tools:
        raise BrokenCommand(f"the program called the tool {name!r}, and the conversation has none of this name")
    return tools[name], ToolCall("", name, arguments)


def _result_json(call_id: JSON, result: ToolResult) -> dict[str, JSON]:
    document = cast("dict[str, JSON]", to_json(result))
    content = "parts" if "parts" in document else "content"
    return {"id": call_id, content: document[content], "text": result.text, "is_error": result.is_error}
