"""Requests judged by the law at their address, as an audit judges them."""

from __future__ import annotations

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.limits import Violation
from harness.apis.profiles import Profile
from harness.model.http import HttpRequest


def violations(
    wire: Api, request: HttpRequest, profile: Profile | None = None, model: str | None = None
) -> list[Violation]:
    """What is refused of a request to its own model, or to one of `profile`, at the address that it goes to."""
    model = wire.model_of(request) or "" if model is None else model
    held_to = registry.api(wire.name).profile_for(model) if profile is None else profile
    return wire.judge(request, wire.services.rules_at(held_to, model, request.url))
