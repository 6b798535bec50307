"""The audit of real traffic: nothing accepted is flagged, and the same requests with a fault in them are."""

from __future__ import annotations

from collections import Counter
from functools import cache

from harness.audit.cassette_audit import audit
from harness.results import Audited, Blame, Kind, Outcome, RunResult, Severity
from harness.rules.registry import all_rules
from tests.traffic import FOLDERS, ROOT, needs_traffic, recorded

pytestmark = needs_traffic

REFUSED_FOR_THEIR_SHAPE = {
    "errors/anthropic-messages/pydantic-pydantic-ai-019-400.yaml": "anthropic-effort-xhigh-opus-4-6",
    "errors/openai-chat/pydantic-pydantic-ai-020-400.yaml": "openai-chat-web-search-options-models",
    "errors/openai-chat/pydantic-pydantic-ai-018-400.yaml": "openai-chat-system-unsupported",
    "errors/openai-chat/pydantic-pydantic-ai-019-400.yaml": "openai-chat-system-unsupported",
    "errors/openai-compat-responses/pydantic-pydantic-ai-003-400.yaml": "openai-responses-result-detached",
    "errors/openai-responses/pydantic-pydantic-ai-019-400.yaml": "openai-responses-parameter-range",
    "errors/openai-responses/pydantic-pydantic-ai-020-400.yaml": "openai-responses-reasoning-alone",
}
"""The causes of the other refusals lie outside the request's tools, system and JSON: keys, quotas, models that do not
exist or lack a feature, contexts too long, files behind URLs, and what the model generated."""


@cache
def result() -> RunResult:
    return audit([ROOT], all_rules())


def counted(run: RunResult | None = None) -> Audited:
    audited = (run or result()).audit
    assert audited is not None
    return audited


def test_every_exchange_of_the_four_apis_is_recognised_and_read() -> None:
    folders = [*FOLDERS, *(f"errors/{folder}" for folder in FOLDERS)]
    exchanges = Counter(item.api for folder in folders for item in recorded(folder))
    assert {api: counts.exchanges for api, counts in counted().apis.items() if counts.exchanges} == exchanges
    assert exchanges.total() > 900
    assert counted().unknown == 0
    assert {api: counted().apis[api].unread for api in exchanges} == dict.fromkeys(exchanges, 0)
    assert counted().skipped == ()


def test_each_folder_counts_to_the_api_that_it_speaks() -> None:
    for folder, api in FOLDERS.items():
        counts = counted(audit([ROOT / folder], [])).apis
        assert {name for name, count in counts.items() if count.exchanges} == {api}


def test_every_stream_is_read() -> None:
    found = {
        api: (counts.streamed, counts.streamed_broken) for api, counts in counted().apis.items() if counts.streamed
    }
    assert found == {"anthropic": (37, 0), "openai-chat": (85, 4), "openai-responses": (56, 0), "gemini": (50, 0)}


def test_no_accepted_request_is_flagged() -> None:
    assert sum(counts.accepted for counts in counted().apis.values()) == 896
    assert {api: counts.accepted_flagged for api, counts in counted().apis.items()} == dict.fromkeys(counted().apis, 0)


def test_what_is_said_of_accepted_requests_is_little_and_warns() -> None:
    said = [found for cell in result().cells for found in cell.findings if found.outcome is Outcome.ACCEPTED]
    assert {finding.severity for finding in said} == {Severity.WARNING}
    contract = [finding for finding in said if finding.kind is not Kind.LIMIT]
    assert len(contract) < 10
    assert [finding.rule for finding in contract if finding.blame is Blame.CLIENT] == []
    limits = Counter(finding.rule for finding in said if finding.kind is Kind.LIMIT)
    # schemas that the default makes strict
    assert limits.pop("openai-responses-tool-strict-unsaid") > 0
    # facts of which there are reports only
    assert limits == {"gemini-any-mode-with-parameterless-function-refused-2-0": 2, "gemini-vertex-ids-unknown": 21}


def test_refusals_caused_by_request_form_are_flagged() -> None:
    flagged = {
        str(found.file).removeprefix(f"{ROOT}/"): found.rule
        for cell in result().cells
        for found in cell.findings
        if found.outcome is Outcome.REFUSED and found.severity is Severity.ERROR
    }
    assert flagged == REFUSED_FOR_THEIR_SHAPE
    assert sum(counts.refused_flagged for counts in counted().apis.values()) == len(REFUSED_FOR_THEIR_SHAPE)


def test_of_refusals_that_no_rule_knows_the_words_are_kept() -> None:
    """A context too long, a file behind a URL, a model that generated something else: not to be seen in a request."""
    unexplained = counted().unexplained
    assert len(unexplained) == 22
    assert {each.status for each in unexplained} == {400}
    assert all(each.words for each in unexplained)
