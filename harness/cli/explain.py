"""`harness explain`: the meaning of an id or a word in a report, such as a fact, limit, rule, verdict or term."""

from __future__ import annotations

import difflib
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.apis import registry
from harness.apis.fact import Fact, LimitEntry
from harness.apis.limits import Limit, remedy
from harness.apis.registry import known_limits, severity
from harness.apis.response_rules import RESPONSE_RULES
from harness.checks import server_checks
from harness.checks.gateway_exchange import GatewayFact
from harness.checks.gateway_findings import FACTS, OTHERS
from harness.checks.server_checks import CHECKS
from harness.checks.server_results import BECAUSE
from harness.cli import app
from harness.cli.options import FactFiles, argument
from harness.cli.settings import fact_files, fact_options
from harness.model.errors import UsageError
from harness.model.protocols import Capability
from harness.rules.registry import all_rules
from harness.rules.rule import Rule

_WIDTH = 100

_TERMS: Mapping[str, str] = {
    "scenario": "A YAML file with prompts, tools, and what the model answers. See 'harness help scenarios'.",
    "target": "An adapter with a model: a column of the report. 'harness list targets' shows the shipped ones.",
    "variant": "How answers are delivered: whole, as one body, or streamed.",
    "cell": "One scenario, played with one target in one variant. Each cell gets a verdict.",
    "cassette": "The recorded HTTP exchanges of a cell, in vcrpy's format. See 'harness help recording'.",
    "exchange": "One HTTP request and its response.",
    "transcript": "All that playing a cell produced: messages, tool runs and exchanges. Rules read it.",
    "adapter": "The code under test: it turns canonical requests into those of an API, and answers back.",
    "api": "One wire format: anthropic, openai-chat, openai-responses or gemini.",
    "profile": "What a generation of models can do, derived from facts. A scenario may be about some profiles only.",
    "capability": "A feature that an adapter declares and a scenario requires, such as tools or vision.",
    "fact": "A documented behaviour of a provider, with models, dates and evidence. See 'harness help facts'.",
    "rule": "A check of a transcript, which reports findings. 'harness list rules' shows all.",
    "finding": "One problem, with its severity, its evidence and who is at fault. See 'harness help findings'.",
    "cause": "All findings of one rule at the same place. A report shows one of them as evidence.",
    "verdict": "How a cell ended: pass, note, warn, fail, not-applicable, inconclusive, missing, error or "
    "expected-failure.",
    "difference": "A property of the wire format that is not the same for all targets. It is no problem.",
    "reference-server": "The bundled server that answers as scenarios say and refuses what providers refuse.",
    "provenance": "Where and when the answers of a cell came from: the reference server, a provider, another server.",
    "subject": "What a scenario or a rule is about, such as id-matching or streaming. Reports call it a feature.",
    "feature": "What a scenario is about, such as id-matching or streaming: a row of the report.",
    "blame": "Who is at fault: adapter, client, provider, gateway, cassette, model, scenario or harness.",
    "recut": "A recorded stream, replayed in other chunks (--recut N). An adapter must not notice.",
    "not-observed": "The run showed nothing about this property for this target, for example since no tool was called.",
    "provocation": "A stream that no provider was recorded sending. A scenario has to ask for it.",
    "wire-reader": "The code that reads requests and responses for the rules, independently of the adapters.",
}
"""The words of the reports and the glossary of CONTRIBUTING."""

_WORDS: Mapping[str, tuple[str, str]] = {
    "pass": ("verdict", "No finding that counts. There is nothing to do."),
    "note": (
        "verdict and severity",
        "Only a convention of harness was broken, or something is worth knowing. It fails no run without --strict.",
    ),
    "warn": ("verdict", "There are warnings and no errors. Read them; the run does not fail."),
    "fail": (
        "verdict",
        (
            "At least one finding is an error. 'harness show SCENARIO' shows where. Correct it, or list it with a "
            "reason in --expected-failures."
        ),
    ),
    "not-applicable": (
        "verdict",
        (
            "The adapter or model lacks a capability that the scenario needs, or the scenario is about other models. "
            "The cell was not played."
        ),
    ),
    "inconclusive": (
        "verdict",
        "The model did not do what the check is about, so nothing is proved. --repeat tries again.",
    ),
    "missing": (
        "verdict",
        "There is no cassette for the cell, so it was not played. The report prints the command that records it.",
    ),
    "expected-failure": (
        "verdict",
        "The cell failed as an entry of --expected-failures says. An entry that no longer fails makes the run fail.",
    ),
    "error": (
        "verdict and severity",
        (
            "As a verdict: the adapter or harness broke, and nothing could be judged. As a severity: the "
            "provider refuses it, or data was lost; the cell fails."
        ),
    ),
    "warning": (
        "severity",
        "Some models only refuse it, nobody captured the refusal, or sources contradict each other.",
    ),
    "limit": ("kind of finding", "The provider refuses the request, as a fact says, or loses a part of it."),
    "loss": ("kind of finding", "Data was changed, lost, invented, or answered wrongly. It fails every adapter."),
    "convention": ("kind of finding", "A custom of harness was broken: a note, or an error with --strict."),
    "adapter": ("blame", "The code under test is at fault."),
    "client": ("blame", "The client, agent or library under test is at fault."),
    "provider": ("blame", "The provider, or the server in its place, broke its own API."),
    "cassette": ("blame", "The recording does not fit the scenario or is damaged. Record it again."),
    "model": ("blame", "The model chose to do so. Nobody is at fault."),
    "scenario": ("blame", "The scenario asks for something impossible."),
    "gateway": ("blame", "The gateway changed, lost or refused what passed through it."),
    "harness": ("blame", "A bug in harness."),
    "refused": (
        "verdict of a fact, and result at a gateway",
        (
            "The provider refuses it: an error if captured or probed and not contested. At a gateway: the client got "
            "an error."
        ),
    ),
    "preserved": ("result at a gateway", "The other end received the same."),
    "translated": ("result at a gateway", "The other end received another form with the same meaning."),
    "lost": ("result at a gateway", "The other end received something else or nothing, and nobody was informed."),
    "accepted": ("verdict of a fact", "The provider accepts it; no check may report it."),
    "behaviour": ("verdict of a fact", "How a provider or its SDK behaves, which an adapter must handle."),
    "captured": ("evidence", "A recording or the provider's own message was published."),
    "probe": ("evidence", "Someone sent the request on purpose and published the result."),
    "documents": ("evidence", "The vendor's documentation, changelog or SDK says so. That alone makes no error."),
    "report": ("evidence", "Someone reported it without the provider's message. That alone makes no error."),
}

_CAPABILITIES: Mapping[Capability, str] = {
    Capability.SYSTEM_PROMPT: "Sends a system prompt.",
    Capability.TOOLS: "Declares tools, and carries calls and results.",
    Capability.PARALLEL_TOOL_CALLS: "Carries several calls in one answer, each with its result.",
    Capability.TOOL_CHOICE: "Lets the model choose (auto), or forbids calls (none).",
    Capability.FORCED_TOOL_CHOICE: "Forces a call of some tool, or of a named one.",
    Capability.JSON_MODE: "Requests JSON without a schema.",
    Capability.JSON_SCHEMA: "Requests an answer that fits a JSON Schema.",
    Capability.JSON_WITH_TOOLS: "Requests JSON while tools are declared.",
    Capability.PROVIDER_TOOLS: "Offers tools that the provider runs itself.",
    Capability.VISION: "Sends pictures.",
    Capability.IMAGE_RESULTS: "Sends pictures inside the results of tools.",
    Capability.FILES: "Sends documents from the user.",
    Capability.AUDIO: "Sends audio from the user.",
    Capability.THINKING: "Requests reasoning, and sends it back unchanged.",
    Capability.CACHE_MARKS: "Sets the requested cache marks.",
    Capability.HISTORY: "Accepts a conversation of several turns.",
    Capability.TRUNCATION: "Returns the beginning of an answer that reached its limit.",
    Capability.STREAMING: "Has a method `stream`.",
    Capability.RETRIES: "Repeats a request that the provider failed to answer, up to five times.",
    Capability.EMBEDDINGS: "Turns texts into vectors.",
}


def explain(
    topic: Annotated[
        str,
        argument(
            "ID|TOPIC", "An id from a report, or a word of one. It may have spaces.", autocompletion=app.complete_rules
        ),
    ],
    *,
    files: FactFiles = None,
) -> None:
    """Explain an id or a word of a report: a fact, a limit, a rule, a verdict, a capability or any other term."""
    for line in lines(topic, fact_options(None, fact_files(files)).files):
        typer.echo(line)


def lines(topic: str, files: Sequence[Path] = ()) -> list[str]:
    """Return the explanation; `files` add facts.

    Raises:
        UsageError: nothing has this name. The message has similar ones.
    """
    topic = topic if ":" in topic else "-".join(topic.split())
    facts = {fact.id: fact for api in registry.apis() for fact in api.facts.together(api.name, files).all()}
    limits = {limit.id: limit for limit in known_limits()}
    rules = {rule.id: rule for rule in all_rules()}
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
    if topic.lower() in _TERMS:
        found += [f"{topic} (term)", *_wrapped(_TERMS[topic.lower()])]
    if topic in _WORDS:
        kind, text = _WORDS[topic]
        found += [f"{topic} ({kind})", *_wrapped(text)]
    if topic in {each.value for each in Capability}:
        found += [f"{topic} (capability)", *_wrapped(_CAPABILITIES[Capability(topic)])]
    if found:
        return found
    known = [
        *facts,
        *limits,
        *rules,
        *server_checks.RULES,
        *gateways,
        *_TERMS,
        *_WORDS,
        *(each.value for each in Capability),
    ]
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
    """Yield a line for the first example of each kind, with its difference from the API's smallest request."""
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
    """Yield a line for each piece of evidence, newest first."""
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
    """Yield the remedy, once for each API that words it differently."""
    told: dict[str, list[str]] = {}
    for api in registry.apis() if rule.remedy else ():
        told.setdefault(api.terms.fill(rule.remedy), []).append(api.name)
    for action, names in told.items():
        yield f"  to do:    {action}" + (f" ({', '.join(names)})" if len(told) > 1 else "")


def _of_server(topic: str) -> Iterator[str]:
    """Explain a promise or a check of a server."""
    if topic in RESPONSE_RULES:
        promise = RESPONSE_RULES[topic]
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
