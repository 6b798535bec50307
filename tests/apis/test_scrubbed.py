from __future__ import annotations

import pytest

from harness.apis.view import is_redacted_id


@pytest.mark.parametrize("value", ["***", "call_***", "toolu_…REDACTED…", "[redacted]", "<id>", "call_SCRUBBED_1"])
def test_what_somebody_wrote_over_an_id_is_seen(value: str) -> None:
    assert is_redacted_id(value)


@pytest.mark.parametrize(
    "value",
    ["call_1", "toolu_01A09q90qw90lq917835lq9", "functions.add:0", "fc_68a", "", "call-_.*", "chatcmpl-tool-9b1deb4d"],
)
def test_no_id_that_a_server_gives_is_taken_for_one(value: str) -> None:
    assert not is_redacted_id(value)
