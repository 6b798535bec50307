"""Rules about embeddings: each text arrives unchanged, and its vector is returned at the same position.

The adapter may split the texts of one step into several requests. Rules read them as one list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from harness.apis.api import VectorView
from harness.apis.response_rules import Subject
from harness.apis.view import TextView
from harness.results import Blame, EmbeddingCall, EmbeddingTranscript
from harness.rules.evidence import Evidence, ParsedEmbeddingExchange
from harness.rules.rule import RuleTable, RuleViolation


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    made: EmbeddingCall
    parsed_exchanges: Sequence[ParsedEmbeddingExchange]

    @property
    def texts(self) -> list[tuple[ParsedEmbeddingExchange, TextView]]:
        return [
            (each, text)
            for each in self.parsed_exchanges
            if each.embedding_request
            for text in each.embedding_request.texts
        ]

    @property
    def vectors(self) -> list[tuple[ParsedEmbeddingExchange, VectorView]]:
        return [(each, vector) for each in self.parsed_exchanges for vector in each.vectors or ()]


def _steps(evidence: Evidence) -> Iterator[_Step]:
    transcript = evidence.transcript
    if not isinstance(transcript, EmbeddingTranscript):
        return
    for index, made in enumerate(transcript.embedded):
        parsed_exchanges = [each for each in evidence.exchanges(index) if isinstance(each, ParsedEmbeddingExchange)]
        yield _Step(f"query {index - 1}" if index else "the index", made, parsed_exchanges)


def _embedding_steps(evidence: Evidence) -> Iterator[_Step]:
    return (step for step in _steps(evidence) if not step.made.refuses)


RULES = RuleTable(Subject.EMBEDDINGS, "harness.model.protocols: EmbeddingProvider")


@RULES.add(
    "embedding-text",
    "Each text is sent once, unchanged and in order, and gets its own vector.",
    because="another text has another vector",
    remedy="send each text once, unchanged and in the order of the list",
)
def _texts(evidence: Evidence) -> Iterator[RuleViolation]:
    for step in _embedding_steps(evidence):
        if not step.parsed_exchanges:
            continue  # reported by embedding-failed
        for place, (sent, given) in enumerate(zip_longest(step.texts, step.made.texts)):
            if sent is None:
                yield step.parsed_exchanges[-1].violation(f"{step.name}: text {place} is not sent", "", None, given)
                break
            parsed, text = sent
            if given is None or text.text != given:
                what = "is sent too often" if given is None else "is not the one that was given"
                yield parsed.violation(f"{step.name}: text {place} {what}", text.pointer, text.text, given)
                break


@RULES.add(
    "embedding-vector",
    "Each text gets the vector that the provider computed for it, at the same position.",
    because="a vector in another place is compared with the wrong text",
    remedy="return the vectors in the order of the texts, by their `index` where the API has one",
)
def _vectors(evidence: Evidence) -> Iterator[RuleViolation]:
    for step in _embedding_steps(evidence):
        if step.made.vectors is None:
            continue
        came, handed = len(step.vectors), len(step.made.vectors)
        if came != handed:
            yield RuleViolation(f"{step.name}: {came} vectors received, {handed} returned", None, None, handed, came)
            continue
        for place, ((parsed, vector), given) in enumerate(zip(step.vectors, step.made.vectors, strict=True)):
            if vector.values != given:
                message = f"{step.name}: vector {place} is not the vector of its text"
                yield parsed.response_violation(message, vector.pointer, [*given[:4]], [*vector.values[:4]])
                break


@RULES.add(
    "embedding-dimensions",
    "Vectors have the declared length, and the request contains it.",
    because="vectors of another length do not fit the index",
    remedy="send the requested dimensions, and declare the length that the vectors have",
)
def _dimensions(evidence: Evidence) -> Iterator[RuleViolation]:
    scenario = evidence.transcript.scenario
    wanted = scenario.embeddings.dimensions if scenario and scenario.embeddings else None
    for step in _embedding_steps(evidence):
        if step.made.declared is None or wanted is None:
            continue
        declared = step.made.declared[2]
        if declared != wanted:
            yield RuleViolation(f"{step.name}: {wanted} dimensions were requested", None, None, declared, wanted)
        for parsed in step.parsed_exchanges:
            view = parsed.embedding_request
            if view is not None and view.dimensions != declared:
                message = f"{step.name}: the vectors are declared to have {declared} dimensions"
                yield parsed.violation(message, view.dimensions_pointer, view.dimensions, declared)
        lengths = {len(vector) for vector in step.made.vectors or ()} - {declared}
        if lengths:
            yield RuleViolation(
                f"{step.name}: some vectors do not have the declared length", None, None, min(lengths), declared
            )


@RULES.add(
    "embedding-model",
    "The requested model is the declared one.",
    because="vectors of two models cannot be compared",
    remedy="send the model that the provider object declares",
)
def _model(evidence: Evidence) -> Iterator[RuleViolation]:
    for step in _steps(evidence):
        for parsed in step.parsed_exchanges:
            view = parsed.embedding_request
            if view is not None and step.made.declared is not None and view.model != step.made.declared[1]:
                message = f"{step.name}: the vectors are declared to be of another model"
                yield parsed.violation(message, "", view.model, step.made.declared[1])


@RULES.add(
    "embedding-mismatch",
    "A query of an index that another model made is rejected before a request is sent.",
    because="comparing vectors of two models gives a meaningless result",
    remedy="compare name, model and dimensions with those of the index, and raise EmbeddingMismatch before sending",
)
def _mismatch(evidence: Evidence) -> Iterator[RuleViolation]:
    for step in _steps(evidence):
        if not step.made.refuses:
            continue
        if step.parsed_exchanges:
            message = f"{step.name}: a request was sent, although its vector cannot be compared with those of the index"
            yield step.parsed_exchanges[0].violation(message)
        elif step.made.error != "EmbeddingMismatch":
            message = f"{step.name}: the index was made by another model, but the query is not rejected"
            yield RuleViolation(message, None, None, step.made.error, "EmbeddingMismatch")


@RULES.add(
    "embedding-failed",
    "Embedding returns vectors, unless the provider fails.",
    because="the provider returned vectors, and the caller has none",
    remedy="fix the code that raised the exception: the answer contains the vectors",
)
def _failed_embeddings(evidence: Evidence) -> Iterator[RuleViolation]:
    for step in _embedding_steps(evidence):
        if step.made.error is None:
            continue
        last = step.parsed_exchanges[-1] if step.parsed_exchanges else None
        innocent = last is not None and not _is_right(last) and not evidence.is_refused(last)
        yield RuleViolation(
            f"{step.name} ended in {step.made.error}: {step.made.error_text}",
            last.index if last else None,
            "" if last else None,
            step.made.error,
            blame=Blame.PROVIDER if innocent and not step.made.crashed else None,
        )


def _is_right(parsed: ParsedEmbeddingExchange) -> bool:
    view, vectors = parsed.embedding_request, parsed.vectors
    if view is None or vectors is None or len(vectors) != len(view.texts):
        return False
    return all(view.dimensions in (None, len(vector.values)) for vector in vectors)
