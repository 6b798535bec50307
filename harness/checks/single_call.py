"""A single call of recognised code, as a program. `harness try` runs it for code with tools or an answer format of its
own, which the answers of the suite do not fit.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any, cast

from harness.apis import registry
from harness.bridge.call_log import BoundMethod, LoggedCall, logged_calls
from harness.bridge.clients.answer_fields import text_of_fields
from harness.bridge.clients.shaped_client import ShapedClient
from harness.bridge.clients.truncation import may_report_filter, may_report_truncation
from harness.bridge.clients.turns import jsonable_or_text
from harness.bridge.clients.user_answers import declined_questions
from harness.checks.own_failures import FAILURES_FILE, recorded_failures
from harness.checks.programs import (
    DESCRIBE,
    EXAMPLE_FORMAT,
    EXAMPLE_INPUT,
    RETURNED_CALLS,
    RETURNED_ONLY_TEXT,
    RETURNED_TEXT,
    RETURNED_WITHOUT_FILTER,
)
from harness.model.errors import ChatError, MalformedResponse, Unsupported
from harness.model.messages import ChatRequest, ChatResponse, Message, Role, Text
from harness.model.protocols import Capability, Endpoint
from harness.runner.backends import NO_KEY
from harness.stdio import adapter_specs


def single_call_command(spec: str, model: str) -> str:
    """Return the command that runs `call_once`."""
    return shlex.join([sys.executable, "-m", "harness.checks.single_call", spec, model])


def called_object(command: str) -> tuple[str, str] | None:
    """Return the specification and the model in a command that runs `call_once`, or `None` for another command."""
    words = shlex.split(command) if " -m harness.checks.single_call " in command else []
    return (words[3], words[4]) if words else None


def call_once(spec: str, model: str) -> None:
    """Call a recognised client once with a text, and print what it returns. Its base URL is that of the environment.

    If standard input has the questions of a user, the client is called with each of them instead. A line below a text,
    or an object with one, says so, and whether an application can learn nothing more about the answer. Another line
    reports that the caller gets calls of tools, and so has to continue the conversation.
    """
    base_url = os.environ["ANTHROPIC_BASE_URL"]  # the only one without a version
    lines = sys.stdin.read().splitlines()
    with logged_calls(lambda: 0) as calls, recorded_failures(os.environ.get(FAILURES_FILE)):
        last = call_with_texts(spec, model, base_url, [] if lines == [DESCRIBE] else lines, calls)
    if last.tool_calls:
        sys.stdout.write(f"{RETURNED_CALLS}\n")
    _print_result(calls[-1], last.text)


def call_with_texts(spec: str, model: str, origin: str, texts: Sequence[str], calls: Sequence[LoggedCall]) -> Message:
    """Call a recognised client with each text, or once with `EXAMPLE_INPUT`, and return its last answer. `origin` is
    its base URL without the API's path.

    An answer with calls is the last one, because the caller would have to send their results first. `calls` are the
    logged calls. If one returned something that is no answer of a model, the next text follows.
    """
    adapter = adapter_specs.adapter(spec)
    client = adapter.connect(Endpoint(origin + registry.api(adapter.api).base_path, NO_KEY), model)
    if isinstance(client, ShapedClient):
        client.reuse_for_prompts()
    response_format = EXAMPLE_FORMAT if Capability.JSON_SCHEMA in adapter.capabilities else None
    messages: list[Message] = []
    for text in texts or [EXAMPLE_INPUT]:
        messages.append(Message(Role.USER, (Text(text),)))
        try:
            with declined_questions():
                answer = client.chat(ChatRequest(model, tuple(messages), response_format=response_format))
        except MalformedResponse:  # it need not be an answer of a model
            if not calls or _returned_by(calls[-1]) is None:
                raise
            messages.append(Message(Role.ASSISTANT, ()))
            continue
        except Unsupported:
            if len(messages) == 1:
                raise
            break  # each of its calls is a conversation
        except ChatError as error:
            raise error.__cause__ or error from None  # the exception of the user's code
        messages.append(cast("ChatResponse", answer).message)
        if messages[-1].tool_calls:
            break
    return messages[-1]


def _print_result(call: LoggedCall, text: str) -> None:
    """Print what a call returned, and lines about it. Of a stream of other pieces than texts, print the whole `text`
    of the answer and the pieces without a text.
    """
    returned: Any = _returned_by(call)
    has_text = isinstance(returned, str) or bool(text_of_fields(returned))
    if call.is_stream and not isinstance(returned, str):
        has_text = bool(text)
        sys.stdout.writelines(f"{each}\n" for each in (text, *returned) if each is text or not text_of_fields(each))
    else:
        sys.stdout.write(f"{returned}\n")
    if has_text:
        function = call.function
        owner = function.client if isinstance(function, BoundMethod) else function
        module = str(getattr(owner, "__module__", ""))
        objects = (returned, owner)
        is_silent = not may_report_truncation(jsonable_or_text(returned), objects, module, has_returned=True)
        about_end = RETURNED_ONLY_TEXT if is_silent else ""
        about_end += RETURNED_WITHOUT_FILTER if is_silent and not may_report_filter(module) else ""
        sys.stdout.write(f"{RETURNED_TEXT}{about_end}\n")


def _returned_by(call: LoggedCall) -> object:
    """Return what a call returned. The pieces of a stream are joined if they are texts."""
    if not call.is_stream:
        return call.awaited if call.is_awaited else call.result
    texts = [each for each in call.pieces if isinstance(each, str)]
    return "".join(texts) if len(texts) == len(call.pieces) else call.pieces


if __name__ == "__main__":
    call_once(*sys.argv[1:])
