"""Prompts, tools and formats that recognised clients have of their own, and the rules that they cannot satisfy."""

from __future__ import annotations

from collections.abc import Callable

from harness.apis.view import ModelStep, RequestView, TextView
from harness.bridge.clients.forms import OPENAI, OPENAI_APIS, PROMPT
from harness.bridge.clients.shapes import ClientShape
from harness.checks.first_request import FirstRequest
from harness.model.messages import Tool
from harness.stdio.answered_requests import requests_with_steps

PROBE_TEXT = "Hello"
"""Text of the user in requests of a trial."""

PROBE_TOOL = Tool("look", "Looks around.", {"type": "object", "properties": {}})
"""Tool in requests of a trial."""


def own_parts_of(shape: ClientShape, seen: FirstRequest) -> str:
    """Return what a request has that harness did not ask for: tools, or a format of the answer. The answers of the
    suite fit neither.
    """
    if shape.needs_schema:
        return "an answer format"
    view = seen.view
    if view is None:
        return ""
    sent = {(each.name, each.description) for each in view.tools}
    ignores_options = bool(sent) and (PROBE_TOOL.name, PROBE_TOOL.description) not in sent
    ignores_options = ignores_options and shape.whole.is_open and shape.whole.tools_parameter is None
    if shape.takes("tools") and not ignores_options:
        return ""
    if view.tools:
        return "tools"
    has_format = view.response_format is not None or b'"logit_bias"' in seen.body  # an answer of few words
    return "an answer format" if has_format and shape.form is PROMPT and not shape.takes("response_format") else ""


def ignored_rules(shape: ClientShape, seen: FirstRequest, send: Callable[[str], object]) -> tuple[str, ...]:
    """Return the rules that a client cannot satisfy. `send` sends `PROBE_TEXT` to a URL."""
    view, is_prompt = seen.view, shape.form is PROMPT
    has_bare_prompt = _has_bare_prompt(view)
    is_agent = shape.form is OPENAI and view is not None and bool(view.system)
    is_agent = is_agent and (shape.is_object or not has_bare_prompt)
    has_own_system = shape.has_default_system or (is_prompt and not shape.takes("system")) or is_agent
    has_own_text = (is_prompt or is_agent) and not has_bare_prompt
    has_own_text = has_own_text or _keeps_earlier_prompts(shape, str(seen.api), send)
    loses_tools = shape.takes("tools") and "tools" not in shape.whole.names and view is not None and not view.tools
    has_no_flag = shape.form is OPENAI and seen.api not in OPENAI_APIS
    has_no_flag = has_no_flag and not (shape.marks_errors or shape.reads_error_flag)
    rules = {
        "system-when-absent": has_own_system,
        "system-verbatim": is_agent,
        "system-place": is_agent,
        "history-append-only": is_agent and not has_bare_prompt,
        "text-changed": has_own_text,
        "setting-lost": loses_tools and shape.whole.is_open,
        "setting-uninvited": is_prompt,
        "error-flag": has_no_flag,
        "tool-declaration-changed": shape.describes_functions,
        "stream-requested": shape.whole.always_streams and "stream_options" not in shape.whole.source,
    }
    return tuple(rule for rule, is_ignored in rules.items() if is_ignored)


def _has_bare_prompt(view: RequestView | None) -> bool:
    """Return whether a request has the prompt as a message of its own, without other words around it."""
    parts = [part for turn in view.turns for part in turn.parts] if view is not None else []
    return view is None or any(isinstance(part, TextView) and part.text == PROBE_TEXT for part in parts)


def _keeps_earlier_prompts(shape: ClientShape, api: str, send: Callable[[str], object]) -> bool:
    """Return whether a function adds its prompts to a conversation that its module keeps. Then each request has the
    prompts of all conversations.
    """
    if shape.form is not PROMPT or shape.whole.path:
        return False

    def send_twice(url: str) -> None:
        for _ in range(2):
            send(url)

    requests = requests_with_steps(send_twice, api, [ModelStep(text=PROBE_TEXT), ModelStep(text=PROBE_TEXT)])
    first, *others = [len(each.turns) for each in requests] or [0]
    return any(each > first for each in others)
