"""The change of a file of facts that a probe proposes: what no longer holds ends, and what holds now begins today."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from harness.apis.fact import Fact
from harness.apis.facts import today
from harness.running.probing.answer import Told
from harness.tape.redact.address import shown

_OPPOSITE = {"refused": "accepted", "accepted": "refused"}


def proposal(api: str, found: Iterable[Told]) -> str:
    """A file of facts, for `--facts` or to be merged into the shipped one; without entries where all still hold.

    A probe has seen one model at one address: the new entries say no more, and the old ones have a note of it.
    """
    entries = [entry for each in found if each.verdict == "no longer holds" for entry in _entries(each, today())]
    head = "# Proposed by 'harness probe'. The form is that of harness/apis/facts.schema.json.\n"
    return head + yaml.safe_dump({"api": api, "facts": entries}, sort_keys=False, allow_unicode=True, width=110)


def _entries(found: Told, day: dt.date) -> Iterator[dict[str, Any]]:
    fact, question = found.question.fact, found.question
    model, url = question.target.model, shown(question.base_url)
    ended = max(fact.since or dt.date.min, day - dt.timedelta(days=1))
    seen = f"A probe of {model} on {day} found that it no longer holds; other models were not asked."
    yield _written(fact) | {"until": ended.isoformat(), "note": " ".join(filter(None, (fact.note, seen)))}
    verdict = _OPPOSITE[fact.verdict]
    new = {
        "id": f"{fact.id}-{verdict}-{day}",
        "verdict": verdict,
        "says": f"{'Taken' if verdict == 'accepted' else 'Refused'} since a probe found so: {fact.says}",
        "models": [model.removeprefix("models/")],
        "service": fact.service,
        "since": day.isoformat(),
        "words": found.answer.words if verdict == "refused" and found.answer else None,
        "status": found.answer.status if verdict == "refused" and found.answer else None,
        "evidence": [{"kind": "probe", "address": url, "date": day.isoformat()}],
        "when": _written(fact).get("when"),
        "refuses" if verdict == "refused" else "accepts": fact.accepts[:1] if verdict == "refused" else fact.refuses,
    }
    yield {key: value for key, value in new.items() if value}


def _written(fact: Fact) -> dict[str, Any]:
    return fact.model_dump(mode="json", by_alias=True, exclude_unset=True)
