from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.apis.limits import adapt_words
from harness.apis.server import ALPHANUMERIC, fragments, number, random_text, signature
from harness.apis.view import is_redacted_id
from harness.model.messages import JSON


@given(st.text(), st.text(), st.integers(0, 64), st.sampled_from([ALPHANUMERIC, "01", "abc"]))
def test_a_token_has_its_length_and_alphabet_and_repeats(seed: str, label: str, length: int, alphabet: str) -> None:
    made = random_text(seed, label, length, alphabet)
    assert len(made) == length
    assert set(made) <= set(alphabet)
    assert made == random_text(seed, label, length, alphabet)


def test_values_are_the_same_in_every_process() -> None:
    assert random_text("weather/0", "id", 24) == "LEKCQqlb7xRZjFEBWvQ4gfb3"
    assert number("weather/0", "usage", 10, 99) == 98


@given(st.text(), st.integers(-5, 5), st.integers(0, 300))
def test_a_number_is_between_its_bounds(seed: str, low: int, span: int) -> None:
    assert low <= number(seed, "usage", low, low + span) <= low + span


def test_a_seed_may_hold_half_of_a_surrogate_pair() -> None:
    assert random_text("\ud83d", "id", 8) != random_text("\ud83e", "id", 8)


@given(st.text(), st.integers(8, 200))
def test_a_signature_is_base64_of_its_length(seed: str, length: int) -> None:
    assert len(base64.b64decode(signature(seed, "thought", length), validate=True)) == length


@given(st.text(), st.text(max_size=3), st.integers(1, 9))
def test_fragments_are_the_text_in_pieces_that_are_never_empty(text: str, seed: str, longest: int) -> None:
    pieces = fragments(text, seed, "text", longest)
    assert "".join(pieces) == text
    assert all(1 <= len(piece) <= longest for piece in pieces)


@pytest.mark.parametrize("value", ["***", "call_***", "toolu_…REDACTED…", "[redacted]", "<id>", "call_SCRUBBED_1"])
def test_a_redacted_id_is_recognised(value: str) -> None:
    assert is_redacted_id(value)


@pytest.mark.parametrize(
    "value",
    ["call_1", "toolu_01A09q90qw90lq917835lq9", "functions.add:0", "fc_68a", "", "call-_.*", "chatcmpl-tool-9b1deb4d"],
)
def test_ids_of_servers_are_not_redacted_ones(value: str) -> None:
    assert not is_redacted_id(value)


TOO_LONG = "Invalid 'messages[{}].tool_calls[{}].id': string too long, but got a string with length {} instead."


@pytest.mark.parametrize(
    ("words", "pointer", "value", "reported"),
    [
        (TOO_LONG.format(4, 0, 86), "/messages/1/tool_calls/2/id", "x" * 70, TOO_LONG.format(1, 2, 70)),
        (
            "messages.92.content.0.tool_use.id: String should match pattern '^[a-z]{1,128}$'",
            "/messages/3/content/1/id",
            "a b",
            "messages.3.content.1.tool_use.id: String should match pattern '^[a-z]{1,128}$'",
        ),
        ("tools[7].type: unknown variant", "/tools/0/type", "x", "tools[0].type: unknown variant"),
        ("tools.25.custom: not supported", "/tools/2/input_schema/properties/a", {}, "tools.2.custom: not supported"),
        ("contents[1].parts[0].data: required", "/contents/2", None, "contents[2].parts[0].data: required"),
        ("messages[4]: no", "/tools/1", None, "messages[4]: no"),
        ("version 2.1.280 or newer is required.", "/model", "m", "version 2.1.280 or newer is required."),
        ("it is refused", "", None, "it is refused"),
    ],
)
def test_place_and_length_are_those_of_the_request(words: str, pointer: str, value: JSON, reported: str) -> None:
    assert adapt_words(words, pointer, value) == reported
