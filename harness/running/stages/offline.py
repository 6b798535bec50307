"""Runs that must not leave this machine."""

from __future__ import annotations

from typing import Self

from harness.apis.targets import Target
from harness.host.environment import isolated
from harness.results import Provenance
from harness.running.stages.routes import Routes
from harness.tape.redact import Redactor


class Offline(Routes):
    """A run that must not leave this machine, whatever an adapter reads from its environment."""

    def provenance(self, target: Target) -> Provenance:
        """See `Stages.provenance`."""
        return Provenance("reference", model_requested=target.model)

    def redactor(self) -> Redactor:
        """See `Stages.redactor`: only a provider is sent a key, and without one there is nothing to hide."""
        return Redactor()

    def __enter__(self) -> Self:
        self.open.enter_context(isolated())
        return super().__enter__()
