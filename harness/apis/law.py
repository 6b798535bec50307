"""Whose rules a request is held to. It is decided here and handed down: no check looks at an address.

What the format itself asks for holds at every server that speaks it. What the provider's own service adds (a closed
list of fields, the strict subset of schemas, gates by model) is not enforced, and partly contradicted, by the servers
that are compatible with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.apis.profile import Profile

OWN = "own"
"""The service of the API's own provider."""

OTHER = "other"
"""A service of which no more is known here than that it speaks the API."""


@dataclass(frozen=True, slots=True)
class Law:
    """The rules of a service for a model. `service` is `OWN`, `OTHER`, or the name of a server with rules of its own.

    `profile` says what holds for the model, wherever it is served.
    """

    profile: Profile
    service: str = OWN

    @property
    def is_own(self) -> bool:
        """Whether the rules are those of the API's own provider."""
        return self.service == OWN


@dataclass(frozen=True, slots=True)
class Services:
    """Who serves an API: `hosts` maps host names, with all below them, to services; `models` is a pattern of the models
    that the provider itself serves."""

    hosts: Mapping[str, str]
    models: str = r".*"

    def provider_law(self, profile: Profile, model: str) -> Law:
        """The law where the reference server answers, or a recording of it, which stands in for the API's own provider.

        It is that of the compatible server whose dialect the profile names, if it names one. A model that the provider
        is known not to serve is asked for elsewhere.
        """
        return Law(profile, profile.dialect or self._for(model, OWN))

    def law_at(self, profile: Profile, model: str, url: str) -> Law:
        """The law at the address that was asked, or that a recording names.

        A proxy that was recorded under the provider's name is told by its model.
        """
        host = _host(url)
        known = (name for at, name in self.hosts.items() if host == at or host.endswith(f".{at}"))
        return Law(profile, self._for(model, next(known, OTHER)))

    def _for(self, model: str, service: str) -> str:
        foreign = bool(model) and re.fullmatch(self.models, model) is None
        return OTHER if service == OWN and foreign else service


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:  # an address that was scrubbed, as recordings have them
        return ""
