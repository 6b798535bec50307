"""Real traffic driven again: it agrees, and wherever its client departed from the answer, that is named."""

from __future__ import annotations

from functools import cache

from harness.audit.redrive import Redrive
from harness.cassettes.cassette_files import read
from harness.results import RedriveResult
from tests.traffic import FOLDERS, ROOT, needs_traffic

pytestmark = needs_traffic

EDITED = {
    "anthropic": {"call-added": 1, "text-added": 1},
    "openai-chat": {"part-left-out": 1, "text-added": 2},
    "openai-responses": {"part-left-out": 3, "part-rewritten": 6, "state-added": 2, "text-reworded": 1},
    "gemini": {"call-added": 1, "id-left-out": 3, "state-added": 4},
}
"""What clients changed: a call of a tool of their own; a tool search of the server in other words, or cut short; a
namespace, a copied signature or a stand-in added; an id or a message's state left out; text added, or folded (NFKC)."""


@cache
def result() -> RedriveResult:
    with Redrive() as redrive:
        for folder in FOLDERS:
            for file in sorted((ROOT / folder).glob("*.yaml")):
                redrive.add(f"{folder}/{file.name}", read(file))
        return redrive.result()


def test_carried_parts_agree_and_client_edits_are_named() -> None:
    """97 of 100 is what has to hold for recordings that nobody here has seen."""
    counts = result().apis.values()
    redrivable = sum(each.pairs - sum(each.not_redrivable.values()) for each in counts)
    assert redrivable >= 457
    assert sum(each.agreeing for each in counts) == redrivable
    assert {api: dict(each.edits) for api, each in result().apis.items()} == EDITED
    assert sum(each.edited for each in counts) == 22


def test_streamed_pairs_agree_in_every_cut() -> None:
    streamed = {"anthropic": 16, "openai-chat": 43, "openai-responses": 28, "gemini": 28}
    assert {api: counts.streamed >= streamed[api] for api, counts in result().apis.items()} == dict.fromkeys(
        streamed, True
    )
    assert result().recuts >= 3
    assert [each for each in result().disagreements if each.kind.startswith("stream-")] == []


def test_only_server_state_is_not_redrivable() -> None:
    assert {api: counts.pairs > 80 for api, counts in result().apis.items()} == dict.fromkeys(result().apis, True)
    reasons = {api: dict(counts.not_redrivable) for api, counts in result().apis.items() if counts.not_redrivable}
    assert reasons == {"openai-responses": {"previous_response_id": 2, "conversation": 1}}
