"""`harness explain`: what an id or a word means: a fact, a limit, a rule, a verdict, a kind, a blame, a capability."""

from __future__ import annotations

import difflib
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness import catalog
from harness.apis.departure import PROMISES
from harness.apis.fact import Fact, LimitEntry
from harness.apis.limit import Limit
from harness.apis.tables import known_limits, severity
from harness.apis.wording import remedy
from harness.checking import server_checks
from harness.checking.gateway_exchange import GatewayFact
from harness.checking.gateway_findings import FACTS, OTHERS
from harness.checking.server_checks import CHECKS
from harness.checking.server_results import BECAUSE
from harness.cli import completion
from harness.cli.options import FactFiles, edition, fact_files
from harness.contract.errors import UsageError
from harness.contract.protocols import Capability
from harness.rules.rule import Rule

_WIDTH = 100

_WORDS: Mapping[str, tuple[str, str]] = {
    "pass": ("verdict", "Nothing was found, or nothing that counts. There is nothing to do."),
    "note": (
        "verdict and severity",
        ("Only customs of ours were not kept, or something is worth knowing. It fails no run; with --strict our own "
        "adapters fail for it."),
    ),
    "warn": ("verdict", "There are warnings and no errors: read them; the run does not fail for them."),
    "fail": (
        "verdict",
        ("At least one finding is an error. `harness show SCENARIO` shows where on the wire it stands; mend what is "
        "blamed, or list it with a reason in --expected-failures."),
    ),
    "not-applicable": (
        "verdict",
        "The cell needs a capability that the adapter or the model does not have, or another profile: not played.",
    ),
    "inconclusive": (
        "verdict",
        ("The model did not do what a check of a server looks at: nobody is wrong, nothing is proved. --repeat asks "
        "again."),
    ),
    "missing": (
        "verdict",
        "There is no cassette for the cell: nobody looked. The report prints the command that records it.",
    ),
    "expected-failure": (
        "verdict",
        ("It failed as a line of --expected-failures says. A line that matches nothing that fails is stale, and fails "
        "the run."),
    ),
    "error": (
        "verdict and severity",
        ("As a verdict: the adapter or the harness broke, and nothing can be said. As a severity: the provider refuses "
        "it, or information was lost; the cell fails."),
    ),
    "warning": (
        "severity",
        "It is refused by some models only, nobody has captured the refusal, or sources contradict each other.",
    ),
    "limit": ("kind of finding", "The provider refuses the request, as facts say, or takes it with a loss."),
    "loss": ("kind of finding", "Information was changed, lost, invented, or answered wrongly. Fails anybody."),
    "convention": ("kind of finding", "A custom of ours was not kept: a note, or with --strict an error of ours."),
    "adapter": ("blame", "The code under test is at fault."),
    "client": ("blame", "The client, agent or library is at fault that was served, recorded, or drives its own loop."),
    "provider": ("blame", "The provider, or the server in its place, answered with what its API does not have."),
    "cassette": ("blame", "The recording does not fit the scenario or is damaged: record it again."),
    "model": ("blame", "The model chose to; nobody is wrong."),
    "scenario": ("blame", "The scenario asks for what cannot be had."),
    "gateway": ("blame", "What stands between a client and a provider has changed, lost or refused what passed it."),
    "harness": ("blame", "A defect of this harness."),
    "refused": (
        "verdict of a fact, and fate of what passes a gateway",
        ("The provider refuses it: an error if captured or probed, and not contested. Of a gateway: the client was "
        "told no, plainly."),
    ),
    "preserved": ("fate of what passes a gateway", "The other end is told the same."),
    "translated": ("fate of what passes a gateway", "The other end is told it in another form that means the same."),
    "lost": (
        "fate of what passes a gateway",
        "The other end is told something else, or nothing, and nobody is told of it.",
    ),
    "accepted": ("verdict of a fact", "The provider takes it; no check may call it wrong."),
    "behaviour": ("verdict of a fact", "How a provider or its SDK behaves: what an adapter has to be able to read."),
    "captured": ("evidence", "The provider's own words or a recording were shown in public."),
    "probe": ("evidence", "Somebody sent it on purpose and told the result."),
    "documents": ("evidence", "The vendor's documents, changelog or SDK say so. On this alone nothing is an error."),
    "report": ("evidence", "Somebody says so, without the text. On this alone nothing is an error."),
}  # fmt: skip

_CAPABILITIES: Mapping[Capability, str] = {
    Capability.SYSTEM_PROMPT: "Sends a system prompt apart from the messages.",
    Capability.TOOLS: "Declares tools, and carries calls and results.",
    Capability.PARALLEL_TOOL_CALLS: "Carries several calls in one answer, each with its result.",
    Capability.TOOL_CHOICE: "Has the model choose (auto), or not call at all (none).",
    Capability.FORCED_TOOL_CHOICE: "Has the model call some tool, or a named one.",
    Capability.JSON_MODE: "Asks for JSON without a schema.",
    Capability.JSON_SCHEMA: "Asks for an answer by a JSON schema.",
    Capability.JSON_WITH_TOOLS: "Asks for JSON while tools are declared.",
    Capability.PROVIDER_TOOLS: "Offers tools that the provider runs itself.",
    Capability.VISION: "Sends pictures.",
    Capability.IMAGE_RESULTS: "Sends pictures inside the results of tools.",
    Capability.FILES: "Sends documents of the user.",
    Capability.AUDIO: "Sends sound of the user.",
    Capability.THINKING: "Asks for reasoning, and hands it back as it came.",
    Capability.CACHE_MARKS: "Sets the cache marks that are asked for.",
    Capability.HISTORY: "Takes a conversation of several turns.",
    Capability.TRUNCATION: "Hands on what there is of an answer that reached its bound.",
    Capability.STREAMING: "Has `stream`.",
    Capability.RETRIES: "Sends a request again where the provider failed, up to five times.",
    Capability.EMBEDDINGS: "Turns texts into vectors.",
}


def explain(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="ID|TOPIC",
            show_default=False,
            autocompletion=completion.rules,
            help="An id from a report, or a word of one.",
        ),
    ],
    *,
    files: FactFiles = None,
) -> None:
    """Say what a fact, a limit, a rule, a verdict, a kind of finding, a blame or a capability is, and what to do."""
    for line in lines(topic, edition(None, fact_files(files)).files):
        typer.echo(line)


def lines(topic: str, files: Sequence[Path] = ()) -> list[str]:
    """The explanation, by the facts of these files too.

    Raises `UsageError`: there is nothing of this name; the text has what is like it.
    """
    facts = {fact.id: fact for api in catalog.apis() for fact in api.facts.together(api.name, files).all()}
    limits = {limit.id: limit for limit in known_limits()}
    rules = {rule.id: rule for rule in catalog.rules()}
    gateways = {fact.id: fact for fact in (*FACTS, *OTHERS)}
    found: list[str] = []
    if topic in facts:
        found += _fact(facts[topic], [limit.id for limit in limits.values() if topic in limit.facts])
    if topic in limits:
        found += _limit(limits[topic], facts)
        found += [
            line for fact in facts.values() for entry in fact.limits if entry.id == topic for line in _examples(entry)
        ]
    if topic in rules:
        found += _rule(rules[topic])
    if topic.startswith("server-"):
        found += _of_server(topic)
    if topic in gateways:
        found += _passing(gateways[topic])
    if topic in _WORDS:
        kind, text = _WORDS[topic]
        found += [f"{topic} ({kind})", *_wrapped(text)]
    if topic in {each.value for each in Capability}:
        found += [f"{topic} (capability)", *_wrapped(_CAPABILITIES[Capability(topic)])]
    if found:
        return found
    known = [*facts, *limits, *rules, *server_checks.RULES, *gateways, *_WORDS, *(each.value for each in Capability)]
    close = difflib.get_close_matches(topic, known, n=3)
    guess = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise UsageError(
        f"there is nothing to explain under {topic!r}.{guess} 'harness list rules' and 'harness list facts' "
        "have the ids."
    )


def _fact(fact: Fact, limits: list[str]) -> Iterator[str]:

    yield f"{fact.id} (fact: {fact.verdict}{', contested' if fact.contested else ''})"
    yield from _wrapped(fact.says)
    yield f"  for:      {', '.join(fact.models or ['all models'])}" + (
        f"; not {', '.join(fact.except_models)}" if fact.except_models else ""
    )
    yield f"  at:       {', '.join(fact.service or ['every server that speaks the API'])}"
    if fact.since or fact.until:
        yield f"  known:    {fact.since or '…'} to {fact.until or 'today'}"
    if fact.words:
        yield f"  words:    {fact.words}"
    if fact.unless:
        yield f"  unless:   {fact.unless}"
    if fact.note:
        yield f"  note:     {fact.note}"
    yield from evidence(fact, "  ")
    if fact.verdict == "refused":
        yield f"  checked:  {_checked(fact, limits)}"
        if fact.when and not limits and not fact.check:
            yield f"  to do:    {remedy(fact)}"
        severity = "an error" if fact.is_certain else "a warning: nobody captured it, or sources contradict each other"
        yield f"  it is:    {severity}"
    yield from _examples(fact)


def _examples(entry: Fact | LimitEntry) -> Iterator[str]:
    """A line for the first example of each kind: what differs from the smallest request of the API."""
    for name, examples in (("refuses", entry.refuses), ("accepts", entry.accepts)):
        if examples:
            yield f"  {name}:  {json.dumps(examples[0], ensure_ascii=False)}"


def _checked(fact: Fact, limits: list[str]) -> str:
    if limits:
        return f"by {', '.join(limits)}"
    if fact.check:
        return f"by {fact.check.limit}"
    return "by its conditions" if fact.when else f"by nothing: {fact.unchecked or 'it has no conditions'}"


def evidence(fact: Fact, indent: str) -> Iterator[str]:
    """A line for each piece of evidence, newest first."""
    for each in sorted(fact.evidence, key=lambda piece: piece.date, reverse=True):
        yield f"{indent}{each.kind} {each.date}  {each.address}"


def _limit(limit: Limit, facts: Mapping[str, Fact]) -> Iterator[str]:

    yield f"{limit.id} (limit: {severity(limit)})"
    yield from _wrapped(limit.sentence)
    yield f"  to do:    {limit.remedy or 'keep to it in what the adapter sends'}; `harness show` has the place"
    for source in limit.facts:
        if source in facts:
            yield f"  rests on: {source}: {facts[source].says}"
            yield from evidence(facts[source], "    ")
        else:
            yield f"  rests on: {source}"


def _rule(rule: Rule) -> Iterator[str]:
    yield f"{rule.id} (rule: {rule.kind}, {rule.severity}; subject {rule.subject}; blame {rule.blame})"
    yield from _wrapped(rule.requirement)
    yield f"  because:  {rule.because}"
    yield from _remedies(rule)
    yield f"  source:   {rule.source}"


def _remedies(rule: Rule) -> Iterator[str]:
    """The remedy, once for each API that has other words for it."""
    told: dict[str, list[str]] = {}
    for api in catalog.apis() if rule.remedy else ():
        told.setdefault(api.terms.fill(rule.remedy), []).append(api.name)
    for action, names in told.items():
        yield f"  to do:    {action}" + (f" ({', '.join(names)})" if len(told) > 1 else "")


def _of_server(topic: str) -> Iterator[str]:
    """What 'harness check server' judges by."""
    if topic in PROMISES:
        promise = PROMISES[topic]
        yield f"{topic} (promise of a server; subject {promise.subject}; blame provider)"
        yield from _wrapped(promise.sentence)
        yield "  seen in:  every answer, whatever it was asked for"
        yield f"  because:  {BECAUSE}"
        yield f"  source:   {promise.source}"
    if topic in CHECKS:
        check = CHECKS[topic]
        yield f"{topic} (check of a server; subject {check.subject}; blame provider)"
        yield from _wrapped(check.promise)
        yield f"  sends:    {check.sends}"
        yield f"  because:  {check.because}"
        yield f"  source:   {check.source}"
        if check.never:
            yield "  it is:    a warning where it never comes out; an error where it is refused"


def _passing(fact: GatewayFact) -> Iterator[str]:
    yield f"{fact.id} (what a gateway is held to: {fact.name}; blame gateway)"
    yield from _wrapped(fact.requirement)
    yield f"  because:  {fact.because}"
    yield "  source:   harness help gateways"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
