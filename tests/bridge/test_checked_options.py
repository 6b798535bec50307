"""Names that code accepts among its `**options`, if it compares them with a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.bridge.clients.checked_options import accepted_options, delegate_of_options
from harness.bridge.clients.methods import method_of

KNOWN = ("temperature", "tool_choice")
DEFAULTS = {"temperature": 0.5, "seed": 1}
RESERVED = {"stream", "model"}


def refuses_others(prompt: str, **options: Any) -> object:
    unknown = set(options) - set(KNOWN)
    if unknown:
        raise TypeError(f"unknown options: {unknown}")
    return prompt, options


def refuses_at_once(prompt: str, **options: Any) -> object:
    if set(options) - {"temperature", "stop"}:
        raise TypeError("unknown option")
    return prompt, options


def refuses_each(prompt: str, **options: Any) -> object:
    for key in options:
        if key not in KNOWN:
            raise TypeError(key)
    return prompt


def compares_sets(prompt: str, **options: Any) -> object:
    if not options.keys() <= DEFAULTS.keys():
        raise ValueError("unknown option")
    return prompt


def finds_any(prompt: str, **options: Any) -> object:
    if any(key not in KNOWN for key in options):
        raise ValueError("unknown option")
    return prompt


def selects(prompt: str, **options: Any) -> object:
    return prompt, {key: value for key, value in options.items() if key in KNOWN}


def reads_each(prompt: str, **options: Any) -> object:
    body: dict[str, object] = {"prompt": prompt}
    for key in KNOWN:
        if options.get(key) is not None:
            body[key] = options[key]
    return body


class Owner:
    ALLOWED = frozenset({"temperature", "top_p"})

    def ask(self, prompt: str, **options: Any) -> object:
        if bad := [key for key in options if key not in self.ALLOWED]:
            raise TypeError(bad)
        return prompt


class Made:
    def __init__(self, **options: Any) -> None:
        if set(options) - {"api_key", "base_url"}:
            raise TypeError("unknown option")
        self.options = options


@pytest.mark.parametrize(
    ("code", "accepted"),
    [
        (refuses_others, {*KNOWN}),
        (refuses_at_once, {"temperature", "stop"}),
        (refuses_each, {*KNOWN}),
        (compares_sets, {*DEFAULTS}),
        (finds_any, {*KNOWN}),
        (selects, {*KNOWN}),
        (reads_each, {*KNOWN}),
        (Owner.ask, {"temperature", "top_p"}),
        (Owner().ask, {"temperature", "top_p"}),
        (Made, {"api_key", "base_url"}),
    ],
)
def test_the_names_of_the_list_are_accepted(code: Callable[..., object], accepted: set[str]) -> None:
    assert accepted_options(code) == accepted
    method = method_of((), code)
    assert accepted <= method.names
    assert not method.is_open


def passes_all(prompt: str, **options: Any) -> object:
    return prompt, options


def refuses_reserved(prompt: str, **options: Any) -> object:
    if set(options) & RESERVED:
        raise TypeError("reserved")
    for key in options:
        if key in RESERVED:
            raise TypeError(key)
    return prompt


def leaves_some_out(prompt: str, **options: Any) -> object:
    return prompt, {key: value for key, value in options.items() if key not in RESERVED}


def takes_some_out(prompt: str, **options: Any) -> object:
    for key in RESERVED:
        options.pop(key, None)
    return passes_all(prompt, **options)


def adds_them_all(prompt: str, **options: Any) -> object:
    body: dict[str, object] = {key: options[key] for key in KNOWN if key in options}
    body.update(options)
    return prompt, body


def has_no_options(prompt: str, stream: bool = False) -> object:
    if {prompt} - {*KNOWN}:
        raise TypeError(prompt)
    return stream


CODE_WITHOUT_LIST = (
    *(passes_all, refuses_reserved, leaves_some_out, takes_some_out, adds_them_all, has_no_options, len),
)


@pytest.mark.parametrize("code", CODE_WITHOUT_LIST)
def test_without_such_a_list_nothing_is_known(code: Callable[..., object]) -> None:
    assert accepted_options(code) == set()


def build_body(messages: list[Any], tools: list[Any] | None = None, max_tokens: int = 9, stop: object = None) -> object:
    return messages, tools, max_tokens, stop


def begins(messages: list[Any], **options: Any) -> object:
    return build_body(messages, **options)


class Passing:
    def send(self, prompt: str, **options: Any) -> object:
        return self.finish(prompt, **options)

    def finish(self, prompt: str, **options: Any) -> object:
        return begins([prompt], tools=None, **options)

    def changes(self, prompt: str, **options: Any) -> object:
        options.setdefault("stop", "END")
        return self.finish(prompt, **options)

    def hands_on(self, prompt: str, **options: Any) -> object:
        return KNOWN.index(prompt, **options)


def test_options_that_are_passed_on_are_those_of_the_function_that_gets_them() -> None:
    method = method_of(("send",), Passing().send)

    assert (method.names, method.is_open) == ({"prompt", "max_tokens", "stop"}, False)
    assert method.hints["max_tokens"] is int
    assert method_of((), begins).names == {"messages", "tools", "max_tokens", "stop"}


@pytest.mark.parametrize("function", [Passing().changes, Passing().hands_on, refuses_each, len])
def test_other_options_are_not_read_from_another_function(function: Callable[..., object]) -> None:
    assert delegate_of_options(function) is None
