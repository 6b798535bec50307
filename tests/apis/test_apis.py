from __future__ import annotations

import pytest

from harness.apis import registry
from harness.apis.limits import Limit
from harness.apis.view import WireError
from harness.model.errors import UnknownName
from harness.model.http import HttpRequest
from tests.apis import lawful


def test_there_are_four_apis_and_a_command_line_each_under_its_own_name() -> None:
    assert sorted(registry.APIS.names()) == ["anthropic", "claude-cli", "gemini", "openai-chat", "openai-responses"]
    assert all(registry.api(name).name == name for name in registry.APIS.names())


def test_an_unknown_api_is_named_with_its_neighbour() -> None:
    with pytest.raises(UnknownName) as raised:
        registry.api("openai-chats")
    assert str(raised.value) == (
        "unknown API 'openai-chats'. Did you mean 'openai-chat'? "
        "Known: anthropic, claude-cli, gemini, openai-chat, openai-responses."
    )


@pytest.mark.parametrize("api", registry.APIS.names())
def test_a_format_keeps_its_contract_on_a_body_that_is_none(api: str) -> None:
    wire = registry.api(api)
    profile = wire.profile_for("a-model")
    request = HttpRequest("POST", wire.provider_url + "/nowhere", {}, b"no JSON")
    assert not wire.recognises(request)
    assert any(violation.severity == "error" for violation in lawful.violations(wire, request, profile))
    with pytest.raises(WireError):
        wire.view(request)
    refusal = wire.refuse(Limit("x", "", "").broken("half of a pair: \ud83d", "", status=404))
    error = wire.read(refusal).error
    assert error is not None
    assert error.message == "half of a pair: \ud83d"
    if api != "claude-cli":  # a command line refuses by an exit status
        assert (refusal.status, error.status) == (404, 404)
