"""The profiles of all APIs, each with the name of its API."""

from __future__ import annotations

from harness.apis import registry
from harness.apis.profiles import Profile

PROFILES: tuple[tuple[str, Profile], ...] = tuple(
    (api.name, profile) for api in registry.apis() for profile in api.profiles
)


def profile_named(name: str) -> Profile:
    """The one profile with this name."""
    (found,) = (profile for _, profile in PROFILES if profile.name == name)
    return found
