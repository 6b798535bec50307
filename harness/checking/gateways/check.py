"""A check of a gateway: cells played through it one after the other, and what became of each fact on its way."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from harness import catalog
from harness.apis.facts import Edition
from harness.apis.targets import Shipped, Target
from harness.catalog import versions
from harness.checking.endpoints import graded, suggestion
from harness.checking.gateways.judging import FACTS, Direct, Judged, declined, judged, unreached
from harness.checking.gateways.passage import Fact, Passage, Side, Way
from harness.checking.gateways.playing import FIRST, Door, Played, Upstream, played, saying, unsayable
from harness.contract.errors import ChatError, UsageError
from harness.host.environment import now
from harness.meaning.choices import is_named
from harness.results import (
    CellResult,
    Checked,
    Conversation,
    FactFates,
    Fate,
    Finding,
    Provenance,
    RunResult,
    Sent,
    Severity,
    Verdict,
    worst,
)
from harness.rules.conversation import fitting, room, said, sent
from harness.rules.evidence import Evidence
from harness.rules.scope import EVERYTHING, Scope
from harness.running.cells import VARIANTS, Cell, cells, not_applicable
from harness.running.expected_failures import ExpectedFailure, accepted, stale, unmatched
from harness.running.live import NO_SUCH_PATH
from harness.running.plan import Plan
from harness.running.run import Progress
from harness.scenarios.schema import Scenario, Variant
from harness.tape.redact import Redactor
from harness.tape.redact.address import shown


def told(played: Played, redactor: Redactor, most: int) -> Conversation:
    """The conversation of a cell, in about `most` characters. Its exchanges have numbers that no finding names, since
    these have the places of both bodies themselves."""
    words = said(played.chats, redactor)
    left = most - sum(len(each.text) for each in words)
    return Conversation(words, fitting(_exchanges(played, redactor), left))


def _exchanges(played: Played, redactor: Redactor) -> Iterator[Sent]:
    number = 0
    for passage in played.passages:
        ends = [("client to gateway", passage.client), *(("gateway to upstream", each) for each in passage.upstream)]
        for end, side in ends:
            number -= 1
            yield _exchange(number, end, side, redactor)


def _exchange(number: int, end: str, side: Side, redactor: Redactor) -> Sent:
    exchange = side.exchange
    shown = sent(number, exchange.request, exchange.response, side.response, redactor)
    return replace(shown, request=f"{end}: {shown.request}", chat=exchange.chat)


@dataclass(frozen=True, slots=True)
class Pair:
    """A client's API and an upstream: one column. `target` is the client, with the model name by which the gateway
    knows the upstream; `upstream` is what stands behind it, with the model that the gateway is to ask it for."""

    target: Target
    upstream: Target

    @property
    def way(self) -> Way:
        """The APIs of both ends."""
        return Way(catalog.api(self.target.api), catalog.api(self.upstream.api))


def pair(client: Shipped, upstream: Shipped, models: Mapping[str, str], asked: str, edition: Edition) -> Pair:
    """The pair of two targets. `models` are the upstreams' models by target, `asked` is the client's."""
    there = _target(upstream, models.get(upstream.name, upstream.model), edition)
    here = replace(_target(client, asked, edition), name=f"{client.api}>{upstream.name}")
    return Pair(here, there)


def _target(shipped: Shipped, model: str, edition: Edition) -> Target:
    profile = catalog.api(shipped.api).profile_for(model, edition)
    return Target(shipped.name, catalog.adapter(shipped.adapter), model, profile, shipped.name, edition)


_Done: TypeAlias = tuple[Pair, CellResult, Judged]


class GatewayCheck:
    """One check. `door` is the gateway, `upstream` the server behind it. The rest is as in a run."""

    def __init__(  # noqa: PLR0913 - what a check is made of
        self,
        door: Door,
        upstream: Upstream,
        *,
        expected: Sequence[ExpectedFailure] = (),
        redactor: Redactor | None = None,
        scope: Scope = EVERYTHING,
        conversations: bool = False,
        strict: bool = False,
    ) -> None:
        self._door = door
        self._upstream = upstream
        self._expected = expected
        self._scope = scope
        self._redactor = redactor or Redactor()
        self._conversations = conversations
        self._strict = strict
        self._room = 0
        self._direct: dict[tuple[str, str, Variant], Direct] = {}
        self._reached: set[str] = set()
        self._unreached: dict[str, str] = {}

    @staticmethod
    def cells(
        pairs: Sequence[Pair], scenarios: Sequence[Scenario], variants: Sequence[Variant] = VARIANTS
    ) -> list[tuple[Pair, Cell]]:
        """The cells, pair by pair: the first one shows whether there is a way to the upstream at all."""
        return [(each, cell) for each in pairs for cell in cells(scenarios, [each.target], variants)]

    def __call__(self, asked: Sequence[tuple[Pair, Cell]], progress: Progress = lambda _cell: None) -> RunResult:
        """Play the cells, one after the other.

        Raises:
            UsageError: the gateway cannot be reached, or reaches none of its upstreams.
        """
        started, at = time.perf_counter(), now()
        done: list[_Done] = []
        self._room = room(len(asked)) if self._conversations else 0
        pairs = len({each.target.name for each, _ in asked})
        for each, cell in asked:
            done.append((each, *self._cell(each, cell)))
            progress(done[-1][1])
            if len(self._unreached) == pairs:
                raise UsageError(f"check gateway {shown(self._door.url)}: {' '.join(self._unreached.values())}")
        results = tuple(result for _, result, _ in done)
        return RunResult(
            "reference",
            results,
            (),
            stale(
                self._expected, [each for each in results if each.verdict is not Verdict.NOT_APPLICABLE], self._scope
            ),
            versions(),
            {"seconds": round(time.perf_counter() - started, 3)},
            played_at=at,
            unmatched=unmatched(self._expected, results),
            rules=self._scope.only,
            ignored=self._scope.ignored,
            check=Checked(gateway=tuple(_table(done))),
        )

    def _cell(self, each: Pair, cell: Cell) -> tuple[CellResult, Judged]:
        result = CellResult(
            cell.scenario.id,
            each.target.name,
            each.target.adapter.name,
            each.upstream.api,
            cell.variant,
            Verdict.PASS,
            covers=tuple(subject.value for subject in cell.scenario.covers),
        )
        reason = not_applicable(cell, "reference") or unsayable(cell.scenario.id, cell.target)
        if reason is not None:
            return replace(result, verdict=Verdict.NOT_APPLICABLE, reason=reason), Judged()
        if each.target.name in self._unreached:
            reason = f"it was not played: nothing of this gateway reaches {each.upstream.name}"
            return replace(result, verdict=Verdict.INCONCLUSIVE, reason=reason), Judged()
        strays = len(self._upstream.strays)
        what = played(cell, each.way, self._door, self._upstream)
        declines = declined(what.chats)
        if declines is not None:
            return replace(result, verdict=Verdict.NOT_APPLICABLE, reason=declines), Judged()
        astray = self._astray(each, cell, what, self._upstream.strays[strays:])
        if astray is not None:
            self._unreached[each.target.name] = astray
            return self._result(result, each, what, [unreached(what.passages, astray)]), Judged()
        said = judged(what, lambda: self._directly(each, cell))
        return self._result(result, each, what, said.findings), said

    def _result(self, result: CellResult, each: Pair, what: Played, found: Sequence[Finding]) -> CellResult:
        taken, hidden = self._scope.split(found)
        findings = accepted(self._expected, result, graded(taken, strict=self._strict))
        made = replace(
            result,
            verdict=worst(findings),
            findings=findings,
            hidden=hidden,
            provenance=Provenance("reference", model_requested=each.upstream.model),
            exchanges=len(what.passages),
        )
        if made.verdict is Verdict.EXPECTED_FAILURE:
            made = replace(made, reason="; ".join(sorted({f.accepted for f in findings if f.accepted is not None})))
        crashed = next((chat for chat in what.chats if chat.crashed), None)
        if crashed is not None and not any(finding.severity is Severity.ERROR for finding in findings):
            reason = f"{crashed.error}: {crashed.error_text}"
            made = replace(made, verdict=Verdict.ERROR, reason=reason, traceback=crashed.traceback)
        made = self._redactor.result(made)
        return replace(made, conversation=told(what, self._redactor, self._room)) if self._room else made

    def _directly(self, each: Pair, cell: Cell) -> Direct:
        key = (each.upstream.name, cell.scenario.id, cell.variant)
        if key not in self._direct:
            self._direct[key] = _direct(Cell(cell.scenario, each.upstream, cell.variant))
        return self._direct[key]

    @staticmethod
    def _may_be_refused(cell: Cell, passage: Passage) -> bool:
        """The gateway may be right to refuse it: plain words have nothing to be refused for."""
        response = passage.client.exchange.response
        is_there = response is not None and response.status not in NO_SUCH_PATH
        return cell.scenario.id != FIRST and is_there and passage.is_refused

    def _astray(self, each: Pair, cell: Cell, what: Played, strays: Sequence[str]) -> str | None:
        """Why the way does not lead to the upstream, seen by the first cell of a pair, with what both ends said."""
        if each.target.name in self._reached:
            return None
        asked = [passage.asked[1].model for passage in what.passages if passage.asked is not None]
        if asked and not is_named(asked[0] or "", each.upstream.model):
            return (
                f"the gateway asks {each.upstream.name} for the model {asked[0]!r}, and not for "
                f"{each.upstream.model!r}. Mend its configuration, or say --upstream-model "
                f"{each.upstream.name}={asked[0]}."
            )
        if any(passage.upstream or self._may_be_refused(cell, passage) for passage in what.passages):
            self._reached.add(each.target.name)
            return None
        passage = what.passages[0] if what.passages else None
        response = passage.client.exchange.response if passage is not None else None
        if passage is None or response is None:
            return "the gateway does not answer. Is it up?"
        if passage.client.is_answer:
            return (
                f"the gateway answers {each.target.model!r}, and has asked the reference server nothing: "
                f"{_told(each, self._upstream.origin)}"
            )
        error = passage.client.response.error if passage.client.response is not None else None
        said = _sentence(error.message if error is not None else response.body.decode(errors="replace")[:200])
        answers = f"the gateway answers HTTP {response.status}"
        turned = next(iter(what.turned_away), None)
        if turned is not None:
            return (
                f"{answers}: {said} The upstream turns its {turned.request} away with {_sentence(turned.answer)} The "
                f"reason: {turned.reason}. {_told(each, self._upstream.origin)}"
            )
        arrived = f" What arrived at the reference server: {'; '.join(strays)}." if strays else ""
        is_lost = response.status in NO_SUCH_PATH
        meant = suggestion(each.way.client, self._door.url, passage.client.exchange.request.url) if is_lost else ""
        return (
            f"{answers}, and has asked the reference server for no chat: {said}{arrived}{meant} "
            f"{_told(each, self._upstream.origin)}"
        )


def _sentence(text: str) -> str:
    return f"{text.strip().rstrip('.') or 'without words'}."


def _told(each: Pair, origin: str) -> str:
    """What a gateway has to be told about an upstream."""
    base = origin + each.way.upstream.base_url_ending
    return (
        f"It has to lead the model name {each.target.model!r} to {each.upstream.model!r} of {each.upstream.api}, at "
        f"{base}. 'harness help gateways' shows how."
    )


def _direct(cell: Cell) -> Direct:
    if (not_applicable(cell, "reference") or unsayable(cell.scenario.id, cell.target, in_form=False)) is not None:
        return Direct(sayable=False)
    cell = replace(cell, target=saying(cell.scenario.id, cell.target))
    try:
        result, evidence = Plan(mode="reference").run([cell.target]).look(cell)
    except ChatError:
        return Direct(sayable=False)
    if result.verdict is Verdict.NOT_APPLICABLE or evidence is None:
        return Direct(sayable=False)
    return Direct(declined(evidence.transcript.chats) is None, frozenset(_violated(evidence)))


def _violated(evidence: Evidence) -> Iterator[str]:
    for reading in evidence.readings:
        yield from (violation.rule for violation in evidence.violations(reading))


def _table(done: Sequence[_Done]) -> Iterator[FactFates]:
    """What became of each fact, pair by pair; what a request said that was refused counts as refused, as far as no
    request said the same and was taken."""
    names = list(dict.fromkeys(pair.target.name for pair, _, _ in done))
    of_pair = {name: [(pair, said) for pair, _, said in done if pair.target.name == name] for name in names}
    taken = {
        name: {(fact.id, fact.said(request)) for _, said in those for request in said.taken for fact in FACTS}
        for name, those in of_pair.items()
    }
    for fact in FACTS:
        for name, those in of_pair.items():
            fates = [fate for _, said in those if (fate := _fate(fact, said, taken[name])) is not None]
            if fates:
                client, upstream = those[0][0].target.api, those[0][0].upstream.name
                numbers = {fate.value: fates.count(fate) for fate in Fate}
                yield FactFates(client, upstream, fact.name, fact.of_answer, **numbers)


def _fate(fact: Fact, said: Judged, taken: Container[tuple[str, str | bool]]) -> Fate | None:
    fate = said.fates.get(fact.id)
    values = {value for request in said.refused if (value := fact.said(request))}
    is_refused = any((fact.id, value) not in taken for value in values)
    return Fate.REFUSED if is_refused and fate is not Fate.LOST else fate
