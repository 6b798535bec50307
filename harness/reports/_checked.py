"""What a check says beside its cells, in sentences: the same for every report that people read."""

from __future__ import annotations

from collections.abc import Iterator

from harness.reports._words import count
from harness.results import Checked


def sentences(checked: Checked) -> Iterator[tuple[str, str]]:
    """What there is to say, each with what it is about: what works undeclared, what is declared and does not work, what
    a server's model did, what was not played."""
    if checked.model_note:
        yield "Model", checked.model_note
    for tried in checked.broken:
        of = count(tried.played, "cell")
        said = f"{tried.capability} ({tried.target}): none of {of} passed. Mend it, or do not declare it."
        yield "Declared, and does not work", said
    for tried in checked.undeclared:
        of = count(tried.played, "cell")
        said = f"{tried.capability} ({tried.target}): {tried.worked} of {of} passed. Declare it, and it is checked."
        yield "Works, though undeclared", said
    for rate in checked.rates:
        said = (
            f"{rate.name}: {rate.hits} of {rate.played} ({rate.share:.0%}; between {rate.low:.0%} and {rate.high:.0%})"
        )
        yield "How often, which is no verdict (95 % interval; --repeat N narrows it)", said
    for sentence in checked.not_played:
        yield "Not played", sentence
