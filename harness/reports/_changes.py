"""What has changed from one run to another, as Markdown: for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from harness.reports._comparison import Comparison, compared
from harness.reports._markdown import details, escaped, table
from harness.reports._words import count, verdict
from harness.results import Presentation, RunResult

_SHOWN = 30
"""Changes of a kind that are shown: GitHub takes 65,536 characters of a comment."""

_MARKS = {"worse": "❌ worse", "better": "✅ better"}


def render(before: RunResult, run: RunResult, presentation: Presentation) -> str:
    """The Markdown, what is worse first."""
    made = compared(run, before)
    return "\n\n".join(_blocks(before, run, made, None if presentation.verbose else _SHOWN)) + "\n"


def _blocks(before: RunResult, run: RunResult, made: Comparison, most: int | None) -> Iterator[str]:
    yield f"## harness: {made.word.lower()}"
    yield escaped(made.sentence)
    runs = (("before", before), ("now", run))
    rows = ([name, each.played_at or "", ": ".join(verdict(each))] for name, each in runs)
    yield table(["", "played", "verdict"], rows)
    if made.conditions:
        yield "**Not runs of the same:**"
        yield "\n".join(f"- {escaped(sentence)}" for sentence in made.conditions)
    for title, changes in made.sections:
        shown = changes[:most]
        told = ([_MARKS.get(each.label, each.label), each.what, each.before or "", each.now or ""] for each in shown)
        blocks = [table(["", "what", "before", "now"], told)]
        if len(changes) > len(shown):
            blocks.append(f"and {count(len(changes) - len(shown), 'more change')}")
        yield details(title, blocks)
