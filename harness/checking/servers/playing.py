"""Plays checks: each in its variants, as often as is asked, and says how each ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Literal

from harness.checking.servers.server import Line, Server
from harness.checking.servers.talk import Check, Ended, Flaw, Inapplicable, Inconclusive, Reply, Talk, Watch
from harness.checking.servers.watching import piece
from harness.contract.errors import UsageError
from harness.contract.model import Usage
from harness.host.exceptions import located, traceback_of
from harness.results import (
    Blame,
    CellResult,
    Conversation,
    Finding,
    Kind,
    Provenance,
    Severity,
    Spending,
    Verdict,
    summed,
    worst,
)
from harness.rules.conversation import fitting, sent
from harness.running.costs import cost
from harness.scenarios.schema import Variant
from harness.tape.redact import Redactor

Outcome = Literal["judged", "inconclusive", "inapplicable"]


@dataclass(frozen=True, slots=True)
class Playing:
    """One playing of a check, and how it ended; `reason` says why it could not be judged."""

    talk: Talk
    outcome: Outcome
    reason: str = ""


def played(check: Check, server: Server, line: Line, watch: Watch, variant: Variant) -> Playing:
    """Play a check once. Raises `Enough`: no more may be sent."""
    talk = Talk(check.id, server, line, watch, stream=variant == "stream")
    try:
        check.play(talk)
    except Ended:
        pass
    except Inconclusive as reason:
        return Playing(talk, "judged" if talk.flaws else "inconclusive", str(reason))
    except Inapplicable as reason:
        return Playing(talk, "inapplicable", str(reason))
    return Playing(talk, "judged")


@dataclass(frozen=True, slots=True)
class Judge:
    """Makes cells of what was played."""

    server: Server
    provenance: Provenance
    redactor: Redactor
    price: Price | None
    room: int = 0
    """Characters that the exchanges of a cell may take in its result; 0: they are not wanted there."""

    def lacking(self, check: Check, variant: Variant, reason: str, playings: Sequence[Playing] = ()) -> CellResult:
        """The cell of a check that is not applicable, be it seen in the middle of it."""
        return self._cell(check, variant, Verdict.NOT_APPLICABLE, reason=reason, playings=playings)

    def unplayed(self, check: Check, variant: Variant, reason: str) -> CellResult:
        """The cell of a check that was not played, since its answer would be the same error."""
        return self._cell(check, variant, Verdict.INCONCLUSIVE, reason=reason)

    def broken(self, check: Check, variant: Variant, error: BaseException) -> CellResult:
        """The cell of a check that broke: a defect of the harness, whatever the server has answered."""
        cell = self._cell(check, variant, Verdict.ERROR, reason=f"{type(error).__name__}: {located(error)}")
        return replace(cell, traceback=traceback_of(error))

    def cell(self, check: Check, variant: Variant, playings: Sequence[Playing]) -> CellResult:
        """The cell of a check that was played."""
        findings = (*self._flaws(check, playings), *self._never(check, playings))
        outcomes = {each.outcome for each in playings}
        if "inapplicable" in outcomes and not findings:
            return self.lacking(check, variant, playings[0].reason, playings)
        verdict, reason = worst(findings), None
        if verdict is Verdict.PASS and "judged" not in outcomes:
            verdict, reason = Verdict.INCONCLUSIVE, playings[0].reason
        return self._cell(check, variant, verdict, findings=findings, reason=reason, playings=playings)

    def _cell(  # noqa: PLR0913 - what a cell is made of
        self,
        check: Check,
        variant: Variant,
        verdict: Verdict,
        *,
        findings: tuple[Finding, ...] = (),
        reason: str | None = None,
        playings: Sequence[Playing] = (),
    ) -> CellResult:
        replies = [reply for each in playings for reply in each.talk.replies]
        server = self.server
        served = next((reply.view.model for reply in replies if reply.view is not None and reply.view.model), None)
        spent = spending(
            (usage for each in playings for usage in each.talk.usage),
            len(replies),
            api=server.api.name,
            model=server.model,
            url=server.base_url,
            price=self.price,
        )
        return CellResult(
            scenario=check.id,
            target=server.name,
            adapter="",
            api=server.api.name,
            variant=variant,
            verdict=verdict,
            provenance=replace(self.provenance, model_served=served) if replies else None,
            findings=findings,
            reason=reason,
            exchanges=len(replies),
            conversation=self._conversation(replies) if self.room else None,
            covers=(check.subject,),
            spending=spent if replies else None,
        )

    def _conversation(self, replies: Sequence[Reply]) -> Conversation:
        """What was sent and came: of what was said nothing is known but this."""
        told = (sent(at, each.request, each.response, each.view, self.redactor) for at, each in enumerate(replies))
        return Conversation(exchanges=fitting(told, self.room))

    def _flaws(self, check: Check, playings: Sequence[Playing]) -> Iterator[Finding]:
        before = 0
        for each in playings:
            for flaw in each.talk.flaws:
                yield self._finding(check, each, flaw, before)
            before += len(each.talk.replies)

    def _finding(self, check: Check, playing: Playing, flaw: Flaw, before: int) -> Finding:
        """The finding of a flaw, in a playing that came behind so many exchanges."""
        reply, replies = flaw.reply, playing.talk.replies
        came = reply in replies
        return Finding(
            rule=check.id,
            kind=Kind.LOSS,
            severity=flaw.severity,
            blame=Blame.PROVIDER,
            message=flaw.message,
            pointer=flaw.pointer or None,
            actual=flaw.actual,
            expected=flaw.expected,
            source=self.server.sources(check.source),
            exchange=before + replies.index(reply) if came else None,
            of_response=True,
            piece=piece(reply.request, reply.response if came else None, self.redactor, flaw.pointer),
            subject=check.subject,
        )

    def _never(self, check: Check, playings: Sequence[Playing]) -> Iterator[Finding]:
        """What no single answer proves, and all of them together make likely."""
        judged = [each for each in playings if each.outcome == "judged"]
        tries = [out for each in judged for name, out in each.talk.tries if name == check.counted]
        if not check.never or not tries or any(tries):
            return
        times = f"{len(tries)} asked for" + ("; --repeat 10 tells more" if len(tries) < 10 else "")
        last = judged[-1].talk.replies[0]
        yield Finding(
            rule=check.id,
            kind=Kind.LOSS,
            severity=Severity.WARNING,
            blame=Blame.PROVIDER,
            message=f"{check.never} ({times})",
            source=self.server.sources(check.source),
            exchange=0,
            of_response=True,
            piece=piece(last.request, last.response, self.redactor),
            subject=check.subject,
        )


_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens that are read, and for a million that are written."""

    input: Decimal
    output: Decimal

    @staticmethod
    def of(text: str, place: str = "--price") -> Price:
        """The price in `IN,OUT`. Raises `UsageError`, which names the `place` of the text."""
        said = f"{place} {text!r}: it has to be two prices in US dollars for a million tokens, read and written, as in "
        said += "0.15,0.60."
        try:
            prices = [Decimal(each) for each in text.split(",")]
        except InvalidOperation:
            raise UsageError(said) from None
        if len(prices) != 2 or not all(each.is_finite() and each >= 0 for each in prices):
            raise UsageError(said)
        return Price(*prices)

    def dollars(self, usage: Usage) -> Decimal | None:
        """What an answer cost; `None`: it does not say what it took."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return (self.input * usage.input_tokens + self.output * usage.output_tokens) / _MILLION


def spending(  # noqa: PLR0913 - what was sent, and where
    usages: Iterable[Usage], requests: int, *, api: str, model: str, url: str, price: Price | None
) -> Spending:
    """What requests to a model took."""
    every = list(usages)
    prices = [cost(api, model, usage, url=url) if price is None else price.dollars(usage) for usage in every]
    known = [each for each in prices if each is not None]
    total = sum(known, Decimal(0)) if known or not prices else None
    return Spending(model, requests, summed(every), total, len(prices) - len(known))
