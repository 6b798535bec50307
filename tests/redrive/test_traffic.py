"""Real traffic driven again: nearly all of it agrees, and whatever does not has a reason that lies in its client."""

from __future__ import annotations

import json
from functools import cache

from harness.redrive.redrive import Redrive
from harness.redrive.result import RedriveResult
from harness.tape.read import read
from tests.traffic import FOLDERS, ROOT, needs_traffic

pytestmark = needs_traffic

CALL_OF_ITS_OWN = "the client put a call in that the model did not make"
SEARCH_REWRITTEN = "the client wrote the arguments of a server-run tool search in other words"
SEARCH_CUT = "the client gave the server's tool search an id of its own and left out its output"
NAMESPACE_ADDED = "the client gave a call a namespace that the response did not give it"
SIGNATURE_COPIED = "the client copied the signature of the first call of a batch onto the second"
STAND_IN = "the client put a stand-in where the response had no signature"
ID_LEFT_OUT = "the client left out the id that the response issued"
TEXT_ADDED = "the client put text in that the response does not have"
TEXT_FOLDED = "the recording has the client's text in other code points (NFKC)"
STATE_LOST = "the client lost the message's own state"

PYDANTIC, RUBY = "pydantic-pydantic-ai", "crmne-ruby_llm"
EXPLAINED = {
    f"anthropic-messages/{PYDANTIC}-012-test-cross-provider-capability-replay-anthropic-claude-sonne.yaml": {
        (0, 1): CALL_OF_ITS_OWN
    },
    "anthropic-messages/simonw-llm-anthropic-001-test-tools.yaml": {(0, 1): TEXT_ADDED},
    f"openai-responses/{PYDANTIC}-001-test-openai-native-tool-search-with-deferred-capability.yaml": {
        (0, 1): SEARCH_REWRITTEN,
        (2, 3): NAMESPACE_ADDED,
    },
    f"openai-responses/{PYDANTIC}-002-test-openai-native-tool-search-with-deferred-capability-gpt.yaml": {
        (0, 1): SEARCH_REWRITTEN,
        (2, 3): NAMESPACE_ADDED,
    },
    f"openai-responses/{PYDANTIC}-007-test-openai-responses-phase-streamed-on-part-start.yaml": {(0, 1): TEXT_FOLDED},
    f"openai-responses/{PYDANTIC}-014-test-openai-native-tool-search-gpt-5-6.yaml": {(0, 1): SEARCH_REWRITTEN},
    f"openai-responses/{PYDANTIC}-023-test-openai-native-tool-search-streaming.yaml": {(0, 1): SEARCH_REWRITTEN},
    f"openai-responses/{PYDANTIC}-027-test-live-tool-search-handoff-openai-to-anthropic.yaml": {
        (0, 1): SEARCH_REWRITTEN
    },
    f"openai-responses/{PYDANTIC}-030-test-openai-native-tool-search-round-trip.yaml": {(0, 1): SEARCH_CUT},
    f"gemini-generateContent/{RUBY}-002-chat-function-calling-vertexai-gemini-2-5-flash-can-handle-m.yaml": {
        (0, 1): SIGNATURE_COPIED
    },
    f"gemini-generateContent/{RUBY}-009-chat-function-calling-gemini-gemini-2-5-flash-can-use-parall.yaml": {
        (0, 1): SIGNATURE_COPIED
    },
    f"gemini-generateContent/{RUBY}-010-chat-function-calling-vertexai-gemini-2-5-flash-can-use-para.yaml": {
        (0, 1): SIGNATURE_COPIED
    },
    f"gemini-generateContent/{RUBY}-021-chat-multimodal-tool-attachments-vertexai-gemini-3-flash-pre.yaml": {
        (0, 1): ID_LEFT_OUT
    },
    f"gemini-generateContent/{RUBY}-022-chat-multimodal-tool-attachments-gemini-gemini-3-flash-previ.yaml": {
        (0, 1): ID_LEFT_OUT
    },
    f"gemini-generateContent/{RUBY}-024-chat-function-calling-thought-signatures-gemini-gemini-3-1-p.yaml": {
        (0, 1): ID_LEFT_OUT
    },
    f"gemini-generateContent/{PYDANTIC}-005-test-cross-provider-capability-replay-google-gemini-3-flash.yaml": {
        (0, 1): CALL_OF_ITS_OWN
    },
    f"gemini-generateContent/{PYDANTIC}-029-test-google-model-structured-output.yaml": {(0, 1): STAND_IN},
    f"openai-compat-chat/{PYDANTIC}-003-test-tool-use-failed-error.yaml": {(1, 2): TEXT_ADDED},
    f"openai-compat-chat/{PYDANTIC}-005-test-compatible-api-with-tool-calls-without-id.yaml": {(0, 1): STATE_LOST},
    f"openai-compat-chat/{PYDANTIC}-009-test-tool-use-failed-error-streaming.yaml": {(1, 2): TEXT_ADDED},
}
"""Cassette → pair → why the adapter's follow-up is not the client's."""


@cache
def result() -> RedriveResult:
    with Redrive() as redrive:
        for folder in FOLDERS:
            for file in sorted((ROOT / folder).glob("*.yaml")):
                redrive.add(f"{folder}/{file.name}", read(file))
        return redrive.result()


def test_95_of_100_redrivable_pairs_agree_and_each_other_one_is_explained() -> None:
    counts = result().apis.values()
    redrivable = sum(each.pairs - sum(each.not_redrivable.values()) for each in counts)
    assert redrivable >= 457
    assert sum(each.agreeing for each in counts) >= 0.95 * redrivable
    disagreeing: dict[str, set[tuple[int, int]]] = {}
    for each in result().disagreements:
        disagreeing.setdefault(each.file, set()).add((each.i, each.j))
    assert disagreeing == {file: set(pairs) for file, pairs in EXPLAINED.items()}


def test_streamed_pairs_are_driven_through_stream_and_no_other_cut_makes_a_difference() -> None:
    streamed = {"anthropic": 16, "openai-chat": 43, "openai-responses": 28, "gemini": 28}
    assert {api: counts.streamed >= streamed[api] for api, counts in result().apis.items()} == dict.fromkeys(
        streamed, True
    )
    assert result().recuts >= 3
    assert [each for each in result().disagreements if each.kind.startswith("stream-")] == []


def test_the_kinds_of_disagreement_fit_the_reasons() -> None:
    kinds: dict[str, set[str]] = {}
    for each in result().disagreements:
        kinds.setdefault(EXPLAINED[each.file][each.i, each.j], set()).add(each.kind)
    assert kinds == {
        CALL_OF_ITS_OWN: {"call-missing", "result-order"},
        SEARCH_REWRITTEN: {"part-arguments", "part-call-id", "part-added"},
        SEARCH_CUT: {"part-call-id", "part-added"},
        NAMESPACE_ADDED: {"call-state"},
        SIGNATURE_COPIED: {"call-state"},
        STAND_IN: {"call-state"},
        ID_LEFT_OUT: {"call-id", "result-id"},
        TEXT_ADDED: {"text-missing", "part-added"},
        TEXT_FOLDED: {"text-text"},
        STATE_LOST: {"part-added"},
    }


def test_every_api_has_pairs_and_only_server_state_is_not_redrivable() -> None:
    assert {api: counts.pairs > 80 for api, counts in result().apis.items()} == dict.fromkeys(result().apis, True)
    reasons = {api: dict(counts.not_redrivable) for api, counts in result().apis.items() if counts.not_redrivable}
    assert reasons == {"openai-responses": {"previous_response_id": 2, "conversation": 1}}


def test_a_disagreement_points_into_the_follow_up() -> None:
    left_out = [each for each in result().disagreements if each.kind == "call-id"]
    assert len(left_out) == 3
    for each in left_out:
        body = json.loads(read(ROOT / each.file).interactions[each.j].request.body)
        place = body
        for token in each.pointer.split("/")[1:]:
            place = place[int(token)] if isinstance(place, list) else place[token]
        assert "id" not in place["functionCall"]
        assert each.recorded is None
        assert isinstance(each.produced, str)
