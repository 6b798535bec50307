"""The audit of real traffic: nothing accepted is flagged, and the same requests with a fault in them are."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

from harness.audit.cassette_audit import audit
from harness.results import AuditResult, Blame, Kind, Outcome, RunResult, Severity
from harness.rules.rule import all_rules
from tests.traffic import FOLDERS, ROOT, needs_traffic, recorded

pytestmark = needs_traffic

_TEST = re.compile(r"^.*-\d{3}-test-")
"""Library and number in the name of a recording."""


@cache
def result() -> RunResult:
    return audit([ROOT], all_rules())


def counted(run: RunResult | None = None) -> AuditResult:
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
    assert sum(counts.accepted for counts in counted().apis.values()) == 896
    assert sum(counts.accepted_flagged for counts in counted().apis.values()) == 0
    assert sum(counts.refused_flagged for counts in counted().apis.values()) == 7


def test_every_stream_is_read() -> None:
    found = {
        api: (counts.streamed, counts.streamed_broken) for api, counts in counted().apis.items() if counts.streamed
    }
    assert found == {"anthropic": (37, 0), "openai-chat": (85, 4), "openai-responses": (56, 0), "gemini": (50, 0)}


def test_accepted_requests_have_few_findings_which_only_warn() -> None:
    said = [found for cell in result().cells for found in cell.findings if found.outcome is Outcome.ACCEPTED]
    said = [finding for finding in said if finding.rule != "prefix-changed"]
    assert {finding.severity for finding in said} == {Severity.WARNING}
    contract = [finding for finding in said if finding.kind is not Kind.LIMIT]
    assert len(contract) < 10
    assert [finding.rule for finding in contract if finding.blame is Blame.CLIENT] == []
    limits = Counter(finding.rule for finding in said if finding.kind is Kind.LIMIT)
    # schemas that the default makes strict
    assert limits.pop("openai-responses-tool-strict-unsaid") > 0
    # facts of which there are reports only
    assert limits == {"gemini-any-mode-with-parameterless-function-refused-2-0": 2, "gemini-vertex-ids-unknown": 21}


def test_prefixes_changed_only_where_the_client_changed_them() -> None:
    found = Counter(
        (Path(found.file or "").parent.name, _TEST.sub("", Path(found.file or "").stem), found.case)
        for cell in result().cells
        for found in cell.findings
        if found.rule == "prefix-changed"
    )
    assert found == {
        # tools that a search of the client found, or that it declares late
        ("gemini-generateContent", "tool-search-eval-google", "tool-added"): 2,
        ("gemini-generateContent", "google-deferred-capability-announcement-live", "tool-added"): 1,
        ("gemini-generateContent", "cross-provider-capability-replay-google-gemini-3-flash", "tool-added"): 2,
        ("openai-chat", "tool-search-eval-openai-chat", "tool-added"): 2,
        ("openai-compat-chat", "deepseek-deferred-capability-with-thinking", "tool-added"): 1,
        ("openai-responses", "openai-deferred-capability-runs-on-model-without-native", "tool-added"): 1,
        # a prompt that was reworded in one of the two requests, probably by hand
        ("anthropic-messages", "text-plain-document-anthropic", "history"): 1,
        # the last request of a conversation without tools, and without a system prompt
        ("openai-chat", "litellm-instrumentation", "tool-missing"): 1,
        ("openai-chat", "openai-tool-call-roundtrip-wire-stable-vercel", "tool-missing"): 2,
        ("openai-compat-responses", "reused-tool-call-ids-request", "tool-missing"): 1,
        ("openai-compat-responses", "reused-tool-call-ids-request", "system"): 1,
        ("openai-compat-responses", "reused-tool-call-ids-gpt-5-5", "tool-missing"): 1,
        ("openai-compat-responses", "reused-tool-call-ids-gpt-5-5", "system"): 1,
        ("openai-responses", "responses-api", "tool-missing"): 1,
        ("openai-responses", "responses-api", "system"): 1,
    }


def test_unexplained_refusals_keep_the_provider_s_words() -> None:
    """A context too long, a file behind a URL, a model that generated something else: not to be seen in a request."""
    unexplained = counted().unexplained
    assert len(unexplained) == 22
    assert {each.status for each in unexplained} == {400}
    assert all(each.words for each in unexplained)
