"""The audit of real traffic: nothing accepted is flagged, and the same requests with a fault in them are."""

from __future__ import annotations

from collections import Counter
from functools import cache

from harness.audit.cassette_audit import audit
from harness.results import Audited, Blame, Kind, Outcome, RunResult, Severity
from harness.rules.registry import all_rules
from tests.traffic import FOLDERS, ROOT, needs_traffic, recorded

pytestmark = needs_traffic


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
    assert {finding.severity for finding in said} == {Severity.WARNING}
    contract = [finding for finding in said if finding.kind is not Kind.LIMIT]
    assert len(contract) < 10
    assert [finding.rule for finding in contract if finding.blame is Blame.CLIENT] == []
    limits = Counter(finding.rule for finding in said if finding.kind is Kind.LIMIT)
    # schemas that the default makes strict
    assert limits.pop("openai-responses-tool-strict-unsaid") > 0
    # facts of which there are reports only
    assert limits == {"gemini-any-mode-with-parameterless-function-refused-2-0": 2, "gemini-vertex-ids-unknown": 21}


def test_unexplained_refusals_keep_the_provider_s_words() -> None:
    """A context too long, a file behind a URL, a model that generated something else: not to be seen in a request."""
    unexplained = counted().unexplained
    assert len(unexplained) == 22
    assert {each.status for each in unexplained} == {400}
    assert all(each.words for each in unexplained)
