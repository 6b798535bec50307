"""What a request is judged by besides its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from harness.http import HttpRequest
from harness.profiles import Profile

_STRICT_VERSION = "2026-10-21"


@dataclass(frozen=True, slots=True)
class Terms:
    """The profile of the model, and what the headers and the URL ask for.

    `strict_version`: the API version is 2026-10-21 or later, which refuses sampling parameters and more.
    `beta`: the request goes to the beta surface, which knows more fields.
    `betas_named`: it names betas, so that a field nobody here knows may belong to one of them.
    """

    profile: Profile
    strict_version: bool = False
    beta: bool = False
    betas_named: bool = False

    @property
    def unknown(self) -> Literal["error", "warning"]:
        """How bad a field or type is that nobody here knows (AN-22)."""
        return "warning" if self.betas_named else "error"


def terms_of(request: HttpRequest, profile: Profile) -> Terms:
    """The terms of a request. Versions are dates, so that they compare as text."""
    named = bool(request.headers.get("anthropic-beta"))
    return Terms(
        profile=profile,
        strict_version=request.headers.get("anthropic-version", "") >= _STRICT_VERSION,
        beta=named or "beta" in parse_qs(urlsplit(request.url).query),
        betas_named=named,
    )
