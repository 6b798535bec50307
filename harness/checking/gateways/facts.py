"""All facts, in the order of the table: what the client says, then what the upstream says."""

from __future__ import annotations

from harness.checking.gateways import answers, declarations, failing, history, prompts, settings
from harness.checking.gateways.fact import Fact

FACTS: tuple[Fact, ...] = (
    *prompts.FACTS,
    *declarations.FACTS,
    *settings.FACTS,
    *history.FACTS,
    *answers.FACTS,
    *failing.FACTS,
)
