"""`harness explain`: the meaning of an id or a word in a report, such as a fact, limit, rule, verdict or term.

`harness help` shows the pages in `topics/`, Markdown files whose first line is the title.
"""

from __future__ import annotations

import difflib
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.apis import registry
from harness.apis.fact import Fact, LimitEntry
from harness.apis.limits import Limit, remedy
from harness.apis.profiles import OWN, ApiTerms
from harness.apis.registry import known_limits, severity
from harness.apis.response_rules import RESPONSE_RULES
from harness.checks import server_checks
from harness.checks.gateway_exchange import GatewayDetail
from harness.checks.gateway_findings import DETAILS, OTHER_DETAILS
from harness.checks.server_checks import CHECKS
from harness.checks.server_results import RESPONSE_RULE_CONSEQUENCE
from harness.cli import app
from harness.cli.options import FactFiles, argument
from harness.cli.settings import fact_files, fact_options
from harness.model.errors import UnknownName, UsageError
from harness.platform.files import read_shipped_yaml
from harness.results import Kind, Severity
from harness.rules.rule import Rule, all_rules

_WIDTH = 100


def explain(
    topic: Annotated[
        str,
        argument(
            "ID|TOPIC", "An id or a term from a report, such as 'not observed'.", autocompletion=app.complete_rules
        ),
    ],
    *,
    files: FactFiles = None,
) -> None:
    """Explain a fact, a limit, a rule, a verdict, a capability, or any other id or term of a report."""
    for line in lines(topic, fact_options(None, fact_files(files)).files):
        typer.echo(line)


def lines(topic: str, files: Sequence[Path] = ()) -> list[str]:
    """Return the lines that explain a topic. `files` are additional fact files.

    Raises:
        UsageError: nothing has this name. The message suggests similar names.
    """
    topic = topic if ":" in topic else "-".join(topic.split())
    facts = {fact.id: fact for api in registry.apis() for fact in api.facts.extended_by(api.name, files).all()}
    limits = {limit.id: limit for limit in known_limits()}
    rules = {rule.id: rule for rule in all_rules()}
    gateways = {detail.id: detail for detail in (*DETAILS, *OTHER_DETAILS)}
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
        found += _server_rule_lines(topic)
    if topic in gateways:
        found += _gateway_check_lines(gateways[topic])
    terms, words, capabilities = _known_words().values()
    if topic.lower() in terms:
        found += [f"{topic} (term)", *_wrap(terms[topic.lower()])]
    if topic in words:
        kind, text = words[topic]
        found += [f"{topic} ({kind})", *_wrap(text)]
    if topic in capabilities:
        found += [f"{topic} (capability)", *_wrap(capabilities[topic])]
    if found:
        return found
    known = [*facts, *limits, *rules, *server_checks.RULES, *gateways, *terms, *words, *capabilities]
    close = difflib.get_close_matches(topic, dict.fromkeys(known), n=3)
    guess = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise UsageError(
        f"there is nothing to explain under {topic!r}.{guess} 'harness list rules' and 'harness list facts' list the "
        "ids."
    )


_SERVERS = {OWN: "the provider's own servers"}


@cache
def _known_words() -> dict[str, dict[str, Any]]:
    """Return the terms, the other words of reports and the capabilities, each with its explanation."""
    return read_shipped_yaml("harness.cli", "words.yaml")


def _fact(fact: Fact, limits: list[str]) -> Iterator[str]:

    services = fact.service or ("every server that speaks the API",)
    yield f"{fact.id} (fact: {fact.verdict}{', contested' if fact.contested else ''})"
    yield from _wrap(fact.says)
    yield f"  for:      {', '.join(fact.models or ['all models'])}" + (
        f"; not {', '.join(fact.except_models)}" if fact.except_models else ""
    )
    yield f"  at:       {', '.join(map(_SERVERS.get, services, services))}"
    if fact.since or fact.until:
        yield f"  known:    {fact.since or '…'} to {fact.until or 'today'}"
    if fact.words:
        yield f"  message:  {fact.words}"
    if fact.unless:
        yield f"  unless:   {fact.unless}"
    if fact.note:
        yield f"  note:     {fact.note}"
    yield from evidence(fact, "  ")
    if fact.verdict == "refused":
        yield f"  checked:  {_how_checked(fact, limits)}"
        if fact.when and not limits and not fact.check:
            yield f"  to do:    {remedy(fact)}"
        severity = (
            "an error"
            if fact.is_certain
            else ("a warning, because no refusal was captured or sources contradict each other")
        )
        yield f"  severity: {severity}"
    yield from _examples(fact)


def _examples(entry: Fact | LimitEntry) -> Iterator[str]:
    """Yield the first refused and the first accepted example, each as a change to the API's smallest request."""
    for name, examples in (("refuses", entry.refuses), ("accepts", entry.accepts)):
        if examples:
            yield f"  {name}:  {json.dumps(examples[0], ensure_ascii=False)}"


def _how_checked(fact: Fact, limits: list[str]) -> str:
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
    yield from _wrap(limit.sentence)
    yield f"  to do:    {limit.remedy or 'change the request accordingly'}; `harness show` has the place"
    for source in limit.facts:
        if source in facts:
            yield f"  rests on: {source}: {facts[source].says}"
            yield from evidence(facts[source], "    ")
        else:
            yield f"  rests on: {source}"


def _rule(rule: Rule) -> Iterator[str]:
    is_note = rule.kind is Kind.CONVENTION and rule.severity is Severity.ERROR
    degree = "a note without --strict" if is_note else rule.severity
    yield f"{rule.id} (rule: {rule.kind}, {degree}; feature: {rule.subject}; at fault: {rule.blame})"
    yield from _wrap(rule.requirement)
    yield f"  why:      {rule.because}"
    yield from _remedies(rule)
    yield f"  source:   {rule.source}"


def _remedies(rule: Rule) -> Iterator[str]:
    """Yield the remedy, once for each API that words it differently."""
    remedies: dict[str, list[str]] = {}
    default = ApiTerms()
    for api in registry.apis() if rule.remedy else ():
        action = api.terms.fill(rule.remedy)
        if api.terms.call != default.call or action != default.fill(rule.remedy):  # else it has no tool calls
            remedies.setdefault(action, []).append(api.name)
    for action, names in remedies.items():
        yield f"  to do:    {action}" + (f" ({', '.join(names)})" if len(remedies) > 1 else "")


def _server_rule_lines(topic: str) -> Iterator[str]:
    if topic in RESPONSE_RULES:
        rule = RESPONSE_RULES[topic]
        yield f"{topic} (rule for every server response; feature: {rule.subject}; at fault: provider)"
        yield from _wrap(rule.sentence)
        yield "  applies:  to every answer"
        yield f"  why:      {RESPONSE_RULE_CONSEQUENCE}"
        yield f"  source:   {rule.source}"
    if topic in CHECKS:
        check = CHECKS[topic]
        yield f"{topic} (server check; feature: {check.subject}; at fault: provider)"
        yield from _wrap(check.requirement)
        yield f"  sends:    {check.sends}"
        yield f"  why:      {check.because}"
        yield f"  source:   {check.source}"
        if check.never:
            yield "  severity: a warning if no answer shows it, an error if the server refuses the request"


def _gateway_check_lines(fact: GatewayDetail) -> Iterator[str]:
    yield f"{fact.id} (gateway check: {fact.name}; at fault: gateway)"
    yield from _wrap(fact.requirement)
    yield f"  why:      {fact.because}"
    yield "  source:   harness help gateways"


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


_MAX_WIDTH = 100


def help_(
    topic: Annotated[
        str | None, argument("TOPIC", "A topic; without one, all are listed.", autocompletion=app.complete_topics)
    ] = None,
) -> None:
    """Explain one of the topics, or list them."""
    found = topics()
    if topic is None:
        width = max(map(len, found))
        typer.echo("Usage: harness help TOPIC\n")
        for name, text in found.items():
            title = text.splitlines()[0].removeprefix("# ").replace("`", "")
            typer.echo(f"  {name:{width}}  {title}")
    elif topic not in found:
        raise UnknownName("topic", topic, list(found))
    elif sys.stdout.isatty():
        render(found[topic])
    else:
        typer.echo(found[topic], nl=False)


def topics() -> dict[str, str]:
    """Return the Markdown of each topic by name."""
    files = (resources.files("harness.cli") / "topics").iterdir()
    texts = {file.name.removesuffix(".md"): file.read_text(encoding="utf-8") for file in files}
    return dict(sorted(texts.items()))


def render(text: str) -> None:
    """Render Markdown with headings, tables and code for a terminal."""
    from rich.console import Console  # noqa: PLC0415 - slow to import, and needed for terminals only
    from rich.markdown import Markdown  # noqa: PLC0415 - see above

    text = re.sub(r"\[(\w+)\]\((\w+)\.md\)", r"\1 (`harness help \2`)", text)
    width = min(shutil.get_terminal_size().columns, _MAX_WIDTH)
    Console(width=width).print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
