"""Whose rules a request is held to. It is decided here and handed down: no check looks at an address.

What the format itself asks for holds at every server that speaks it. What the provider's own service adds (a closed
list of fields, the strict subset of schemas, gates by model) is not enforced, and partly contradicted, by the servers
that are compatible with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.apis.profile import Profile
from harness.apis.servers import SERVERS, address

OWN = "own"
"""The service of the API's own provider."""

OTHER = "other"
"""A service of which no more is known here than that it speaks the API."""


@dataclass(frozen=True, slots=True)
class Law:
    """The rules of a service for a model. `service` is `OWN`, `OTHER`, or the name of a server with rules of its own.

    `profile` says what holds for the model, wherever it is served. `as_own`: the service holds requests to the rules of
    the API's own provider, and has more.
    """

    profile: Profile
    service: str = OWN
    as_own: bool = False

    @property
    def is_own(self) -> bool:
        """Whether the rules are those of the API's own provider."""
        return self.service == OWN or self.as_own

    @property
    def services(self) -> frozenset[str]:
        """The services whose facts hold."""
        return frozenset({self.service, OWN} if self.is_own else {self.service})


_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Services:
    """Who serves an API: `hosts` maps host names, with all below them, to services, before those of `SERVERS`. `clouds`
    are services that hold requests to the provider's own rules; `models` is a pattern of the models that the provider
    itself serves. A server on this machine that is asked for one of `stand_ins` is a test double of the provider."""

    hosts: Mapping[str, str]
    models: str = r".*"
    stand_ins: str = ""
    clouds: frozenset[str] = frozenset()

    def provider_law(self, profile: Profile, model: str) -> Law:
        """The law where the reference server answers, or a recording of it, which stands in for the API's own provider.

        It is that of the compatible server whose dialect the profile names, if it names one. A model that the provider
        is known not to serve is asked for elsewhere.
        """
        return self.law_of(profile, profile.dialect or self._for(model, OWN))

    def law_at(self, profile: Profile, model: str, url: str) -> Law:
        """The law at the address that was asked, or that a recording names.

        A proxy that was recorded under the provider's name is told by its model.
        """
        return self.law_of(profile, self._for(model, self._service_at(url)))

    def is_test_double(self, model: str, url: str) -> bool:
        """Return whether a server on this machine stands in for the provider, by the model that it is asked for."""
        return address(url).host in _LOOPBACK and re.fullmatch(self.stand_ins, model) is not None

    def law_of(self, profile: Profile, service: str) -> Law:
        """The law of a service, by its name."""
        return Law(profile, service, service in self.clouds)

    def _service_at(self, url: str) -> str:
        at = address(url)
        for host, service in self.hosts.items():
            if at.is_below(host):
                return service
        return next((server.name for server in SERVERS if server.is_at(at)), OTHER)

    def _for(self, model: str, service: str) -> str:
        foreign = bool(model) and re.fullmatch(self.models, model) is None
        return OTHER if service == OWN and foreign else service
