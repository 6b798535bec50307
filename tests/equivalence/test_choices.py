from __future__ import annotations

import pytest

from harness.apis.view import ChoiceView
from harness.equivalence import request_meaning
from harness.equivalence.request_meaning import is_model_name
from harness.model.messages import NamedTool, ToolChoice

TWO = ("add", "now")


def view(mode: str, name: str | None = None, allowed: tuple[str, ...] | None = None) -> ChoiceView:
    return ChoiceView(mode, "/choice", name, allowed)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("asked", "sent", "declared"),
    [
        (None, None, TWO),
        ("auto", view("auto", allowed=("now", "add")), TWO),
        ("none", view("none"), TWO),
        ("none", None, ()),
        ("required", view("required", allowed=("now", "add")), TWO),
        ("required", view("named", "add"), ("add",)),
        (NamedTool("add"), view("required"), ("add",)),
        (NamedTool("add"), view("required", allowed=("add",)), TWO),
    ],
)
def test_choices_that_let_the_model_do_the_same(
    asked: ToolChoice | None, sent: ChoiceView | None, declared: tuple[str, ...]
) -> None:
    assert request_meaning.wire_choice(sent, declared) == request_meaning.canonical_choice(asked, declared)


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (None, view("required")),
        (None, view("auto", allowed=("add",))),
        ("none", None),
        ("required", view("named", "add")),
        ("required", view("required", allowed=("add",))),
        (NamedTool("add"), view("required")),
        (NamedTool("add"), view("named", "now")),
        (None, view("other", "SOMEDAY")),
    ],
)
def test_choices_that_do_not(asked: ToolChoice | None, sent: ChoiceView | None) -> None:
    assert request_meaning.wire_choice(sent, TWO) != request_meaning.canonical_choice(asked, TWO)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (None, "auto"),
        (view("none"), "none"),
        (view("required"), "required"),
        (view("named", "add"), "named add"),
        (view("auto", allowed=("add",)), "auto among add"),
        (view("other"), "a choice of another kind"),
    ],
)
def test_a_choice_in_words(sent: ChoiceView | None, words: str) -> None:
    assert request_meaning.describe_choice(request_meaning.wire_choice(sent, TWO), TWO) == words
    meant = request_meaning.normal_choice(sent, TWO)
    assert request_meaning.wire_choice(meant, TWO) == request_meaning.wire_choice(sent, TWO)


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ("gpt-5.6", "gpt-5.6"),
        ("models/gemini-3.6-flash", "gemini-3.6-flash"),
        ("publishers/google/models/gemini-3.6-flash", "gemini-3.6-flash"),
        ("claude-opus-5-5-20260814", "claude-opus-5-5"),
        ("claude-opus-5-5@20260814", "claude-opus-5-5"),
        ("gpt-5.6-2026-08-07", "gpt-5.6"),
        ("gemini-2.5-flash-001", "gemini-2.5-flash"),
    ],
)
def test_a_model_under_another_of_its_names(sent: str, wanted: str) -> None:
    assert is_model_name(sent, wanted)


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ("gpt-5.6-mini", "gpt-5.6"),
        ("gpt-5.6-mini-2026-08-07", "gpt-5.6"),
        ("gpt-5.6", "gpt-5.6-2026-08-07"),
        ("claude-opus-5-5-latest", "claude-opus-5-5"),
        ("gemini-2.5-flash", "gemini-2.5-pro"),
    ],
)
def test_another_model(sent: str, wanted: str) -> None:
    assert not is_model_name(sent, wanted)
