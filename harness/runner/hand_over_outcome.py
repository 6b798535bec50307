"""Outcomes of hand-overs: what became of the subject of a case in the first request of the second target."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from harness.apis.view import MediaView, OpaqueView, PartView, TextView
from harness.equivalence.result_meaning import same_medium
from harness.model.http import HttpRequest
from harness.model.messages import File, Image, Message, Opaque, Refusal, Thinking
from harness.results import Body, CellResult, HandOver, HandOverOutcome, Kind, Severity, Verdict, verdict_of
from harness.rules.call_matching import matched_calls
from harness.rules.evidence import ChatExchange, Evidence
from harness.rules.foreign_state import foreign_state
from harness.runner.cells import HandedHistory
from harness.runner.hand_over import HandOverCell, Subject

_Found: TypeAlias = tuple[HandOverOutcome, str]

_PRESERVED, _TRANSLATED, _DROPPED, _REFUSED, _LOST = HandOverOutcome


def with_hand_over(cell: HandOverCell, result: CellResult, evidence: Evidence, history: HandedHistory) -> CellResult:
    """Return the result with the outcome of its hand-over. A finding that fails the cell shows both requests."""
    if cell.case.tool_name is not None:
        result = _with_name_excused(result, evidence, cell.case.tool_name)
    found = _outcome(cell, result, evidence, history)
    if found is None:
        reason = f"the history of {cell.source.name} has no {cell.case.subject}"
        return replace(result, verdict=Verdict.NOT_APPLICABLE, reason=reason)
    outcome, reason = found
    told = HandOver(cell.source.name, cell.case.name, cell.case.subject, outcome, reason)
    sent = evidence.transcript.exchanges[0].request if evidence.transcript.exchanges else None
    bodies = (
        *_body(f"the last request to {cell.source.name}", history.last and history.last.request),
        *_body(f"the request to {cell.target.name}", sent),
    )
    findings = tuple(replace(each, bodies=bodies) if each.fails else each for each in result.findings)
    return replace(result, hand_over=told, findings=findings)


def _with_name_excused(result: CellResult, evidence: Evidence, name: str) -> CellResult:
    """Return the result with findings about the tool's name as warnings, because the caller chose it. The adapter may
    send it as it is, decline, or replace it everywhere.
    """
    about = [each for each in result.findings if each.kind is Kind.LIMIT and each.actual == name]
    excused = {"chat-refused"} if about else set[str]()
    if evidence.chat_exchanges:
        view = evidence.chat_exchanges[0].view
        if view.calls and {call.name for call in view.calls} == {tool.name for tool in view.tools} != {name}:
            excused |= {"call-missing", "tools-declared"}
    findings = tuple(
        replace(each, severity=Severity.WARNING) if each in about or each.rule in excused else each
        for each in result.findings
    )
    return replace(result, findings=findings, verdict=verdict_of(findings))


def _body(end: str, request: HttpRequest | None) -> Iterator[Body]:
    if request is not None:
        yield Body(end, request.body.decode(errors="replace"))


def _outcome(cell: HandOverCell, result: CellResult, evidence: Evidence, history: HandedHistory) -> _Found | None:
    chat = evidence.transcript.chats[0]
    failing = next((each for each in result.findings if each.fails), None)
    if failing is not None:
        return _REFUSED if evidence.answer(0) is None else _LOST, failing.message
    if chat.response is None or not evidence.chat_exchanges:
        return _REFUSED, f"{chat.error}: {chat.error_text}"
    first = _FirstRequest(evidence, evidence.chat_exchanges[0], (*history.messages, history.opening))
    found = list(_FINDERS[cell.case.subject](first))
    return next((each for outcome in reversed(HandOverOutcome) for each in found if each[0] is outcome), None)


@dataclass(frozen=True, slots=True)
class _FirstRequest:
    """The first request of the second target, and the messages that it was given.

    Each method yields the outcomes of one subject.
    """

    evidence: Evidence
    req: ChatExchange
    messages: Sequence[Message]

    @property
    def sent(self) -> list[PartView]:
        """The parts of the conversation on the wire."""
        return [part for turn in self.req.view.turns for part in turn.parts]

    def ids(self) -> Iterator[_Found]:
        for expected, call in matched_calls(self.evidence, self.req):
            if call is None or not expected.foreign:
                continue
            if call.id == expected.id:
                yield _PRESERVED, "each call and its result keep their id"
            elif call.id is None:
                yield _TRANSLATED, "calls are sent without ids: results follow in the order of their calls"
            elif not expected.id:
                yield _TRANSLATED, f"a call without an id gets {call.id!r}, and so does its result"
            else:
                yield _TRANSLATED, f"{expected.id!r} becomes {call.id!r} in the call and in its result"

    def unanswered(self) -> Iterator[_Found]:
        for expected, call in matched_calls(self.evidence, self.req):
            if not expected.foreign or expected.result is not None:
                continue
            if call is None:
                yield (
                    _DROPPED,
                    f"the call of {expected.name} is left out, because the API refuses calls without results",
                )
            elif self.evidence.pairing(self.req.view).of(call):
                yield _TRANSLATED, f"the call of {expected.name} gets a result that says that there is none"
            else:
                yield _PRESERVED, f"the call of {expected.name} is sent without a result"
        if any(isinstance(part, Opaque) for message in self.messages for part in message.parts):
            yield _DROPPED, "the call whose arguments are cut off is left out: it belongs to the other API"

    def names(self) -> Iterator[_Found]:
        sent = {call.name for call in self.req.view.calls}
        for call in (call for message in self.messages for call in message.tool_calls):
            if call.name in sent:
                yield _PRESERVED, f"the name {call.name!r} is sent as it is"
            else:
                yield _TRANSLATED, f"the name {call.name!r} is sent as {sorted(sent)}"

    def flags(self) -> Iterator[_Found]:
        for expected, call in matched_calls(self.evidence, self.req):
            results = self.evidence.pairing(self.req.view).of(call) if call is not None else ()
            if expected.foreign and expected.result is not None and expected.result.is_error and results:
                mark = results[0].error_mark
                if mark == "flag":
                    yield _PRESERVED, "the result has the API's field for errors"
                elif mark is not None:
                    yield _TRANSLATED, "the API has no field for errors: the result is sent under the key 'error'"

    def results(self) -> Iterator[_Found]:
        if any(message.tool_results for message in self.messages):
            yield _PRESERVED, "each result arrives with its call"

    def texts(self) -> Iterator[_Found]:
        if any(message.text for message in self.messages):
            yield _PRESERVED, "each text arrives as it was"

    def media(self) -> Iterator[_Found]:
        outside = [part for part in self.sent if isinstance(part, MediaView)]
        inside = [part for result in self.req.view.results for part in result.payload if isinstance(part, MediaView)]
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, Image | File):
                    yield _medium(part, outside, "the API takes no such file: its text is sent")
            for result in message.tool_results:
                for part in result.content if isinstance(result.content, tuple) else ():
                    if isinstance(part, Image | File):
                        moved = _medium(part, outside, "")[0] is _PRESERVED
                        said = "the API takes text only in results: the image follows in a message of the user"
                        yield (_TRANSLATED, said) if moved else _medium(part, inside, "the image is sent as text")

    def reasoning(self) -> Iterator[_Found]:
        opaque = json.dumps([part.raw for part in self.sent if isinstance(part, OpaqueView)], ensure_ascii=False)
        texts = "\n".join(part.text for part in self.sent if isinstance(part, TextView))
        for part in (part for message in self.messages for part in message.parts if isinstance(part, Thinking)):
            if not part.text:
                continue
            if json.dumps(part.text, ensure_ascii=False)[1:-1] in opaque:
                yield _PRESERVED, "the reasoning is sent back where it was"
            elif part.text in texts:
                yield _TRANSLATED, "the reasoning is sent as text"
            else:
                yield _DROPPED, "the reasoning is left out: it is another model's, and the API takes only its own"

    def state(self) -> Iterator[_Found]:
        body = self.req.reading.exchange.request.body.decode(errors="replace")
        for api, value in foreign_state(self.req.chat.request):
            if json.dumps(value)[1:-1] in body or value in body:
                yield _PRESERVED, "the state is sent back unchanged: it belongs to this API"
            elif api == self.req.view.api:
                yield _DROPPED, "the state belongs to this API and is left out"
            else:
                yield _DROPPED, f"state of {api} is left out: no other API can read it"

    def refusals(self) -> Iterator[_Found]:
        for part in (part for message in self.messages for part in message.parts if isinstance(part, Refusal)):
            if any(isinstance(each, TextView) and part.text in each.text for each in self.sent):
                yield _TRANSLATED, "the API has no refusals: the words are sent as text"
            elif any(
                isinstance(each, OpaqueView) and part.text in json.dumps(each.raw, ensure_ascii=False)
                for each in self.sent
            ):
                yield _PRESERVED, "the refusal is sent as a refusal"
            else:
                yield _DROPPED, "the refusal is left out"


def _medium(part: Image | File, sent: Sequence[MediaView], otherwise: str) -> _Found:
    if any(same_medium(each, part) for each in sent):
        return _PRESERVED, "the bytes arrive as they were"
    return _TRANSLATED, otherwise


_FINDERS: Mapping[Subject, Callable[[_FirstRequest], Iterator[_Found]]] = {
    "texts": _FirstRequest.texts,
    "cut answers": _FirstRequest.texts,
    "call ids": _FirstRequest.ids,
    "results": _FirstRequest.results,
    "error flags": _FirstRequest.flags,
    "media": _FirstRequest.media,
    "reasoning": _FirstRequest.reasoning,
    "opaque state": _FirstRequest.state,
    "unanswered calls": _FirstRequest.unanswered,
    "tool names": _FirstRequest.names,
    "refusals": _FirstRequest.refusals,
}
