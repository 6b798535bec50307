"""`harness list`: what there is, a line for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal, get_args

import typer

from harness import catalog
from harness.apis.api import known_limits, severity
from harness.apis.fact import Fact
from harness.apis.fact_files import FactSelection, today
from harness.apis.response_rules import RESPONSE_RULES
from harness.checking.gateway_findings import FACTS, OTHERS, SOURCE
from harness.checking.server_checks import CHECKS
from harness.checking.server_results import BECAUSE
from harness.cli.options import AsOf, FactFiles, MaxAge, Options, edition, fact_files
from harness.cli.table import printed
from harness.contract.errors import UsageError
from harness.results import Blame, Kind, Severity


def list_(  # noqa: PLR0913 - a parameter for each option
    what: Annotated[
        Literal["scenarios", "targets", "rules", "models", "facts", "cassettes"],
        typer.Argument(show_default=False, help="What to list."),
    ],
    *,
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="NAME", help="Only models of this target's API. Repeatable."),
    ] = None,
    apis: Annotated[
        list[str] | None, typer.Option("--api", metavar="NAME", help="Only models or facts of this API. Repeatable.")
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option("--model", metavar="NAME", help="Only facts about this model. Repeatable.")
    ] = None,
    as_of: AsOf = None,
    files: FactFiles = None,
    cassettes: Annotated[
        str | None,
        typer.Option("--cassettes", metavar="DIR", show_default=False, help="Another folder of cassettes to list."),
    ] = None,
    max_age: MaxAge = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if a cassette is anything but fresh.")] = False,
) -> int:
    """List the scenarios (the project's, or the shipped ones), the targets, the rules, the models that are known, the
    facts about providers, or the project's cassettes: fresh, stale, old, unused (no cell plays it), orphaned (no
    scenario has its name) or unreadable."""
    if what == "cassettes":
        return _cassettes(cassettes, max_age, strict=strict)
    for option, given in {"--cassettes": cassettes, "--max-age": max_age, "--strict": strict}.items():
        if given:
            raise UsageError(f"{option}: it is for 'harness list cassettes', not for {what}.")
    if what == "facts":
        rows = _facts(apis or (), models or (), edition(as_of, fact_files(files)))
    elif models or as_of or files:
        option = "--model" if models else "--as-of" if as_of else "--facts"
        raise UsageError(f"{option}: it is for 'harness list facts', not for {what}.")
    elif what == "models":
        rows = _models(targets or (), apis or ())
    elif targets or apis:
        raise UsageError(f"{'--target' if targets else '--api'}: it is for 'harness list models', not for {what}.")
    else:
        rows = {"scenarios": _scenarios, "targets": _targets, "rules": _rules}[what]()
    for line in printed(list(rows), "REQUIREMENT" if what == "rules" else ""):
        typer.echo(line)
    return 0


def _cassettes(folder: str | None, max_age: str | None, *, strict: bool) -> int:
    from harness.cli import cassettes  # noqa: PLC0415 - `harness --help` loads none of what it needs

    kept = cassettes.kept(Options(cassettes=folder, max_age=max_age))
    for line in printed([cassettes.HEADS, *cassettes.rows(kept)]):
        typer.echo(line)
    typer.echo(cassettes.summary(kept), err=True)
    return int(strict and any(each.state != "fresh" for each in kept))


def _scenarios() -> Iterator[Sequence[str]]:
    from harness.cli.selection import scenarios_of  # noqa: PLC0415 - `harness --help` loads no pydantic
    from harness.cli.settings import settings  # noqa: PLC0415 - the same
    from harness.scenarios.schema import Variant  # noqa: PLC0415 - the same

    yield "SCENARIO", "COVERS", "REQUIRES", "VARIANTS", "TITLE"
    for scenario in scenarios_of(settings().scenarios)[0]:
        requires, variants = ",".join(scenario.requires) or "-", ",".join(scenario.variants or get_args(Variant))
        yield scenario.id, ",".join(scenario.covers), requires, variants, scenario.title


def _targets() -> Iterator[Sequence[str]]:
    yield "TARGET", "ADAPTER", "API", "MODEL", "PROFILE", "KEY"
    for each in catalog.targets():
        keys = " or ".join(catalog.api(each.api).key_variables)
        yield each.name, each.adapter, each.api, each.model, catalog.api(each.api).profile_for(each.model).name, keys


def _rules() -> Iterator[Sequence[str]]:
    """The row of each. Raises `PluginError`: a rule or an API of another package cannot be used."""
    yield "RULE", "KIND", "SEVERITY", "BLAME", "SOURCE", "EVIDENCE", "REQUIREMENT", "BECAUSE"
    for rule in catalog.rules():
        yield rule.id, rule.kind, rule.severity, rule.blame, rule.source, "-", rule.requirement, rule.because
    for passing in (*FACTS, *OTHERS):
        what = Kind.LOSS, passing.severity, Blame.GATEWAY, SOURCE
        yield passing.id, *what, "-", passing.requirement, passing.because
    facts = {fact.id: fact for api in catalog.apis() for fact in api.facts.all()}
    why = next(rule.because for rule in catalog.rules() if rule.kind is Kind.LIMIT)
    for limit in known_limits():  # what the rule `limits` reports, each under an id of its own
        known = best(facts[each] for each in limit.facts if each in facts)
        yield limit.id, Kind.LIMIT, severity(limit), Blame.ADAPTER, limit.source, known, limit.sentence, why
    yield from _of_servers()


def _facts(apis: Sequence[str], models: Sequence[str], by: FactSelection) -> Iterator[Sequence[str]]:
    """Those about a model hold for it on the day; without a model they are all there are."""
    yield "FACT", "VERDICT", "SINCE", "UNTIL", "SERVICE", "EVIDENCE", "SAYS"
    for api in [catalog.api(name) for name in apis] or catalog.apis():
        for fact in api.facts.together(api.name, by.files).all():
            about = not models or (fact.is_on(by.day or today()) and any(map(fact.is_of, models)))
            if about and (by.day is None or fact.is_on(by.day)):
                verdict = f"{fact.verdict}?" if fact.contested else fact.verdict
                dates = (str(fact.since or "-"), str(fact.until or "-"))
                yield fact.id, verdict, *dates, ",".join(fact.service or ["-"]), best([fact]), fact.says


def _models(targets: Sequence[str], apis: Sequence[str]) -> Iterator[Sequence[str]]:
    from harness.running.costs import models  # noqa: PLC0415 - the same

    chosen = [catalog.target(name).api for name in targets] + list(apis) or [each.api for each in catalog.targets()]
    yield "MODEL", "API", "PROFILE", "VISION", "THINKING", "CONTEXT", "TARGET", "NOTE"
    for api in dict.fromkeys(chosen):
        for each in models(api):
            vision, thinking = _KNOWN[each.vision], _KNOWN[each.thinking]
            context, note = "?" if each.context is None else str(each.context), "deprecated" if each.deprecated else "-"
            yield each.id, api, each.profile, vision, thinking, context, ",".join(each.targets) or "-", note


_KNOWN = {True: "yes", False: "no", None: "?"}


def _of_servers() -> Iterator[Sequence[str]]:
    """What 'harness check server' judges by: what it looks at in every answer, and what it asks for."""
    how = Kind.LOSS, Severity.ERROR, Blame.PROVIDER
    for promise in RESPONSE_RULES.values():
        yield promise.id, *how, promise.source, "-", promise.sentence, BECAUSE
    for check in CHECKS.values():
        yield check.id, *how, check.source, "-", check.promise, check.because


def best(facts: Iterable[Fact]) -> str:
    """The strongest evidence of facts, and of that the newest, with its day and its address."""
    order = ("report", "documents", "probe", "captured")
    pieces = [piece for fact in facts for piece in fact.evidence]
    found = max(pieces, key=lambda piece: (order.index(piece.kind), piece.date), default=None)
    return f"{found.kind} {found.date} {found.address}" if found else "-"
