"""What a check plays: some fifty scenarios that show, between them, what adapters get wrong, in every variant.

The whole suite takes minutes where a library is slow to make its clients, and mostly says the same again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.contract.protocols import Capability
from harness.running.stages import Cell

RECUTS = 1
"""How often each streamed answer is cut at other places."""

SAMPLE = frozenset(
    {
        # calls and their ids
        "call-single",
        "call-after-text",
        "call-sequential",
        "call-parallel-same-tool",
        "call-identical-twice",
        "call-results-reordered",
        "call-without-parameters",
        "stream-provoked-interleaved-calls",
        "call-truncated",
        "call-malformed",
        "arguments-escapes",
        "arguments-large-integers",
        # results
        "result-error",
        "result-null",
        "result-boolean",
        "result-empty-text",
        "result-long",
        "result-image",
        "results-escapes",
        # what was said before
        "history-two-turns",
        "history-long-ids",
        "history-foreign-metadata",
        # the system prompt
        "system-plain",
        "system-absent",
        "system-changed",
        # settings
        "choice-none",
        "choice-none-behind-results",
        "choice-named",
        "json-mode",
        "json-schema",
        "json-with-tools",
        "schema-references",
        "schema-recursive",
        "schema-optional",
        "tool-description-long",
        "schema-nested-arrays",
        "image-from-user",
        "file-from-user",
        "audio-from-user",
        "thinking-tool-loop",
        "thinking-provider-tool",
        "seeds-code-generator-cache",
        "seeds-code-search-embeddings",
        # what the answer says of itself
        "stop-max-tokens",
        "stop-refusal",
        "usage-cached-prompt",
        "usage-cached-unasked",
        # streams
        "stream-split-characters",
        "stream-parallel-long-arguments",
        "stream-cut-in-arguments",
        "stream-error-behind-text",
        # failures
        "error-400",
        "error-429-retry-after",
        "error-in-tool-loop",
        "body-html",
        "connection-cut",
    }
)
"""The ids of the scenarios, by what they are here for: every subject, and every capability that can be asked for."""


def sampled(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Those of the cells that a check plays."""
    return [cell for cell in cells if cell.scenario.id in SAMPLE]


def first_target(cells: Sequence[Cell]) -> Sequence[Cell]:
    """The cells of the first target: further models of an API change little of what its adapter does."""
    first = cells[0].target.name
    return [cell for cell in cells if cell.target.name == first]


def not_played(every: Sequence[Cell], chosen: Sequence[Cell]) -> tuple[str, ...]:
    """What a check leaves out of these cells, in sentences with the way to it."""
    said: list[str] = []
    played = {cell.scenario.id for cell in chosen}
    scenarios = {cell.scenario.id: cell.scenario for cell in every if cell.scenario.id not in played}
    if scenarios and all(each.provocations for each in scenarios.values()):
        said.append(f"{len(scenarios)} scenarios, of what no provider was recorded doing: --all plays them too.")
    elif scenarios:
        subjects = Counter(each.covers[0].value for each in scenarios.values()).most_common()
        added = ", ".join(f"{subject} {count}" for subject, count in subjects)
        total = len(scenarios) + len(played)
        said.append(f"{len(scenarios)} of {total} scenarios, since this was a sample. --all adds them: {added}.")
    targets = sorted({cell.target.cassettes for cell in every} - {cell.target.cassettes for cell in chosen})
    if targets:
        said.append(f"the targets {', '.join(targets)}: --target NAME plays one.")
    if chosen and Capability.STREAMING not in chosen[0].target.adapter.capabilities:
        said.append("streamed answers: the adapter does not declare 'streaming'.")
    return tuple(said)
