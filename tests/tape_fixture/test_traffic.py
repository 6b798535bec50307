"""Recordings of vcrpy from many projects are replayed unchanged: each answer byte for byte, without a finding."""

from __future__ import annotations

import httpx2

from harness.audit.cassette_audit import Audit
from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.cassette_files import read
from harness.cassettes.client_patches import intercept_requests
from harness.cassettes.tape_player import TapePlayer
from harness.cassettes.tape_recorder import redactor, request_filter, text
from harness.results import Outcome, Severity
from harness.rules.rule import all_rules
from tests.traffic import ROOT, needs_traffic

SAMPLE = 33
"""One of so many files is read: all of them take twelve seconds."""

FILES = sorted(ROOT.rglob("*.yaml"))[::SAMPLE]


@needs_traffic
def test_vcrpy_recordings_are_replayed_byte_for_byte() -> None:
    for file in FILES:
        cassette = read(file)
        player = TapePlayer(cassette, request_filter(()), redactor)
        with intercept_requests(player.handle), httpx2.Client() as client:
            for each in cassette.interactions:
                sent, recorded = each.request, each.response
                assert recorded is not None
                answer = client.request(sent.method, sent.url, content=sent.body)
                assert (answer.status_code, answer.content) == (recorded.status, recorded.body), file
        assert not player.unused, file
        assert not any(each.differences for each in player.exchanges), file
        assert text(cassette, "Taken over.", str(file))

        audit = Audit(all_rules())
        audit.add("today", Cassette(tuple(Interaction(each.request, each.response) for each in player.exchanges)))
        found = [each for cell in audit.result().cells for each in cell.findings]
        assert not [each for each in found if each.severity is Severity.ERROR and each.outcome is not Outcome.REFUSED]
