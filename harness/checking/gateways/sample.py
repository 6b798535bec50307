"""What is played through a gateway: scenarios that say, between them, every fact that is looked at.

Most are of the shipped suite; those that ask for a setting alone, so that it is known what was refused, are in the
folder `scenarios` here, since providers of today refuse some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from harness.scenarios import suite
from harness.scenarios.load import load_paths
from harness.scenarios.schema import Scenario

FIRST = "call-not-needed"
"""What is played first: plain words, so that what fails here is the way to the upstream."""

SHIPPED = (
    FIRST,
    "system-plain",
    "system-absent",
    "system-changed",
    "call-single",
    "call-sequential",
    "call-parallel-same-tool",
    "call-results-reordered",
    "call-identical-twice",
    "call-without-parameters",
    "call-after-text",
    "call-again-next-turn",
    "call-truncated",
    "arguments-escapes",
    "arguments-floats",
    "arguments-large-integers",
    "result-error",
    "result-object",
    "result-image",
    "results-escapes",
    "history-two-turns",
    "history-long-ids",
    "choice-none",
    "choice-named",
    "choice-required",
    "json-mode",
    "json-schema",
    "json-with-tools",
    "schema-references",
    "schema-enums",
    "schema-optional",
    "image-from-user",
    "thinking-tool-loop",
    "thinking-provider-tool",
    "usage-cached-prompt",
    "stop-max-tokens",
    "stop-refusal",
    "stream-split-characters",
    "stream-cut-in-arguments",
    "stream-error-behind-text",
    "stream-error-in-arguments",
    "error-400",
    "error-503",
    "connection-cut",
)
"""The ids of shipped scenarios, in the order in which they are played."""


def own() -> Path:
    """The folder of the scenarios that only gateways are played."""
    return Path(str(resources.files("harness.checking.gateways"))) / "scenarios"


def scenarios() -> Sequence[Scenario]:
    """All that are played, in their order."""
    folder = suite.shipped("scenarios")
    return [*load_paths([folder / f"{name}.yaml" for name in SHIPPED]), *load_paths([own()])]
