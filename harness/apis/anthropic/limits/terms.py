"""What a request is judged by besides its body."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from harness.apis.anthropic.requests import is_invoked
from harness.apis.law import Law
from harness.apis.limit import Severity
from harness.apis.profile import Profile
from harness.contract.http import HttpRequest

_STRICT_VERSION = "2026-10-21"

BEDROCK = "bedrock"
"""Amazon's service. It holds the provider's models to the provider's rules, but for those of the provider's tools."""


@dataclass(frozen=True, slots=True)
class Surface:
    """What a message is judged by, whatever the model is.

    `strict_version`: the API version is 2026-10-21 or later, which refuses sampling parameters and more.
    `beta`: the request goes to the beta surface, which knows more fields.
    `betas_named`: it names betas, so that a field nobody here knows may belong to one of them.
    `own`: the provider itself answers, or a cloud that hosts its models, and not a server that is compatible with it
    and may know more.
    """

    strict_version: bool = False
    beta: bool = False
    betas_named: bool = False
    own: bool = True

    @property
    def unknown(self) -> Severity:
        """How bad a field or type is that nobody here knows (anthropic-no-extra-inputs)."""
        return "error" if self.own and not self.betas_named else "warning"


@dataclass(frozen=True, slots=True)
class Terms:
    """The profile of the model, and what the headers and the URL ask for.

    `knows_tools`: whoever answers refuses versions of the provider's tools that a model does not know, which Bedrock
    takes (anthropic-old-computer-tool).
    """

    profile: Profile
    surface: Surface
    knows_tools: bool = True


def terms_of(request: HttpRequest, law: Law) -> Terms:
    """The terms of a request. Versions are dates, so that they compare as text."""
    named = bool(request.headers.get("anthropic-beta"))
    own = law.is_own or law.service == BEDROCK
    surface = Surface(
        strict_version=request.headers.get("anthropic-version", "") >= _STRICT_VERSION,
        beta=named or ("?" in request.url and "beta" in parse_qs(urlsplit(request.url).query)),
        betas_named=named,
        own=own,
    )
    return Terms(law.profile, surface, knows_tools=law.is_own and not is_invoked(request))
