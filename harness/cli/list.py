"""`harness list` and `harness schema`, and table layout for these and other commands."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from harness.apis import registry
from harness.apis.fact import Fact
from harness.apis.fact_files import FactSelection, today
from harness.apis.profiles import OWN, servers
from harness.apis.registry import known_limits, severity
from harness.apis.response_rules import RESPONSE_RULES
from harness.checks.gateway_findings import DETAILS, OTHER_DETAILS, SOURCE
from harness.checks.server_checks import CHECKS
from harness.checks.server_results import RESPONSE_RULE_CONSEQUENCE
from harness.cli import app
from harness.cli.main import print_error
from harness.cli.options import argument, option
from harness.model.errors import UnknownName, UsageError
from harness.results import Blame, Kind, Severity
from harness.rules.rule import all_rules
from harness.wrappers import WRAPPERS

if TYPE_CHECKING:
    from harness.runner.recorder import StoredCassette

_MIN_DESCRIPTION_COLUMNS = 24


def list_(  # noqa: PLR0913 - a parameter for each option
    what: Annotated[
        Literal["scenarios", "targets", "rules", "models", "facts", "cassettes", "wrappers", "features"],
        argument("WHAT", "scenarios, targets, rules, models, facts, cassettes, wrappers or features."),
    ],
    *,
    targets: Annotated[
        list[str] | None,
        option("--target NAME", "Only models of this target's API, or only the features of this target. Repeatable."),
    ] = None,
    adapters: Annotated[
        list[str] | None, option("--adapter NAME|MODULE:ATTR", "Features of this adapter. Repeatable.")
    ] = None,
    apis: Annotated[list[str] | None, option("--api NAME", "Only models or facts of this API. Repeatable.")] = None,
    models: Annotated[list[str] | None, option("--model NAME", "Only facts about this model. Repeatable.")] = None,
    as_of: Annotated[
        str | None,
        option(
            "--as-of DAY",
            "Only facts that apply on this day: 2026-07-01, or the word today. Default: all facts; with --model, those "
            "of today.",
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        option("--facts FILE", "Also list the facts of this file. Repeatable."),
    ] = None,
    cassettes: Annotated[str | None, option("--cassettes DIR", "Folder of cassettes to list.")] = None,
    max_age: Annotated[
        str | None,
        option("--max-age AGE", "Age from which a cassette is old: 90d, 12w. Default: the setting, or none."),
    ] = None,
    strict: Annotated[bool, option("--strict", "Exit code 1 if a cassette is not fresh.")] = False,
) -> int:
    """List scenarios (the project's, or the shipped ones), targets, rules, known models or facts about providers.

    It also lists the library wrappers, the project's cassettes, or the features that each adapter supports. A cassette
    is fresh, stale, old, unused (no cell replays it), orphaned (no scenario has its name) or unreadable.
    """
    if what == "features":
        return _features(adapters, targets)
    if what == "cassettes":
        return _cassettes(cassettes, max_age, strict=strict)
    of_cassettes = {"--cassettes": cassettes, "--max-age": max_age, "--strict": strict}
    for name, given in {**of_cassettes, "--adapter": adapters}.items():
        if given:
            owner = "cassettes" if name in of_cassettes else "features"
            raise UsageError(f"{name}: it applies to 'harness list {owner}', not to {what}.")
    if what == "facts":
        from harness.cli.settings import fact_files, fact_options  # noqa: PLC0415 - other lists start faster

        rows = _facts(apis or (), models or (), fact_options(as_of, fact_files(files)))
    elif models or as_of or files:
        name = "--model" if models else "--as-of" if as_of else "--facts"
        raise UsageError(f"{name}: it applies to 'harness list facts', not to {what}.")
    elif what == "models":
        rows = _models(targets or (), apis or ())
    elif targets or apis:
        raise UsageError(f"{'--target' if targets else '--api'}: it applies to 'harness list models', not to {what}.")
    else:
        rows = {"scenarios": _scenarios, "targets": _targets, "rules": _rules, "wrappers": _wrappers}[what]()
    for line in table(list(rows), "REQUIREMENT" if what == "rules" else ""):
        typer.echo(line)
    return 0


def _features(adapters: list[str] | None, targets: list[str] | None) -> int:
    """Run the scenarios of all features against the reference server, and print which ones each adapter supports."""
    from harness.cli.execution import run_and_report  # noqa: PLC0415 - other lists start faster
    from harness.cli.options import RunOptions  # noqa: PLC0415 - other lists start faster
    from harness.cli.settings import combine_options  # noqa: PLC0415 - other lists start faster
    from harness.reports.published_reports import FEATURES  # noqa: PLC0415 - imports rich

    scenarios = [*dict.fromkeys(chain.from_iterable(FEATURES.values()))]
    options = RunOptions(paths=scenarios, adapters=adapters, targets=targets, reports=["features"])
    return run_and_report(combine_options(options), "reference")


def _cassettes(folder: str | None, max_age: str | None, *, strict: bool) -> int:
    found = _inventory(folder, max_age)
    for line in table([("CASSETTE", "STATE", "ORIGIN", "MODEL", "RECORDED", "WHY"), *map(_cassette_row, found)]):
        typer.echo(line)
    counted = Counter(str(each.state) for each in found)
    ordered = sorted(counted.items(), key=lambda item: item[0] != "fresh")
    summary = ", ".join(f"{number} {state}" for state, number in ordered) or "none"
    again = counted["stale"] or counted["old"]
    typer.echo(f"{summary}{'. To record stale and old ones again: harness record --stale' if again else ''}", err=True)
    return int(strict and any(each.state != "fresh" for each in found))


def _inventory(folder: str | None, max_age: str | None) -> list[StoredCassette]:
    """Return the cassettes of the project or of a folder with their states, fresh ones last.

    Raises:
        UsageError: the folder does not exist, or the settings are wrong.
    """
    from harness.cassettes.library import CassetteLibrary  # noqa: PLC0415 - other lists start faster
    from harness.cli.selection import scenarios_of, select  # noqa: PLC0415 - other lists start faster
    from harness.cli.settings import EffectiveOptions, complete_options  # noqa: PLC0415 - other lists start faster
    from harness.platform.environment import hidden_variables  # noqa: PLC0415 - other lists start faster
    from harness.runner.recorder import CassetteState, Inventory  # noqa: PLC0415 - other lists start faster
    from harness.runner.suite_run import CELL_SECONDS  # noqa: PLC0415 - other lists start faster
    from harness.stdio.workers import WorkerPool  # noqa: PLC0415 - other lists start faster

    options = complete_options(EffectiveOptions(cassettes=folder, max_age=max_age), "replay")
    path = Path(options.cassettes or options.folder)
    if not path.is_dir():
        raise UsageError(f"{path}: there is no such folder of cassettes. 'harness record' creates it.")
    with hidden_variables(), WorkerPool(CELL_SECONDS, offline=True) as workers:
        cells = select(options, workers).cells
    found = Inventory(cells, scenarios_of(options.paths)[0], options.outdated).of(CassetteLibrary(path))
    order = [*(state for state in CassetteState if state is not CassetteState.FRESH), CassetteState.FRESH]
    return sorted(found, key=lambda each: order.index(each.state))


def _cassette_row(cassette: StoredCassette) -> tuple[str, ...]:
    known = cassette.metadata
    about = ("-",) * 3 if known is None else (known.origin, known.model_requested, (known.recorded_at or "-")[:10])
    return str(cassette.path), cassette.state.value, *about, cassette.why or "-"


def _scenarios() -> Iterator[Sequence[str]]:
    from harness.cli.selection import scenarios_of  # noqa: PLC0415 - other lists start faster
    from harness.cli.settings import settings  # noqa: PLC0415 - other lists start faster
    from harness.scenarios.schema import Variant  # noqa: PLC0415 - other lists start faster

    yield "SCENARIO", "COVERS", "REQUIRES", "VARIANTS", "TITLE"
    for scenario in scenarios_of(settings().scenarios)[0]:
        requires, variants = ",".join(scenario.requires) or "-", ",".join(scenario.variants or get_args(Variant))
        yield scenario.id, ",".join(scenario.covers), requires, variants, scenario.title


def _targets() -> Iterator[Sequence[str]]:
    yield "TARGET", "ADAPTER", "API", "MODEL", "PROFILE", "KEY", "KNOWN"
    recorded = {each.name: each.recorded for each in servers()}
    for each in registry.all_targets():
        api = registry.api(each.api)
        profile, keys = api.target_profile(each, each.model), " or ".join(each.keys or api.key_variables)
        known = _fact_counts(api.facts.all(), each.service or OWN)
        if each.service:
            stream = recorded[each.name]
            known += f"; streams {f'recorded {stream.date}' if stream else 'not recorded'}"
        yield each.name, each.adapter, each.api, each.model, profile.name, keys, known


def _fact_counts(facts: Iterable[Fact], service: str) -> str:
    """Return a text with the number of facts about a service, grouped by the kind of their best evidence."""
    about = [fact for fact in facts if fact.service is None or service in fact.service]
    kinds = Counter(best_evidence([fact]).partition(" ")[0] for fact in about if fact.service or service == OWN)
    by_kind = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{kinds.total()} facts{f' ({by_kind})' if kinds else ''}"


def _rules() -> Iterator[Sequence[str]]:
    yield "RULE", "KIND", "SEVERITY", "BLAME", "SOURCE", "EVIDENCE", "REQUIREMENT", "BECAUSE"
    for rule in all_rules():
        yield rule.id, rule.kind, rule.severity, rule.blame, rule.source, "-", rule.requirement, rule.because
    for passing in (*DETAILS, *OTHER_DETAILS):
        what = Kind.LOSS, passing.severity, Blame.GATEWAY, SOURCE
        yield passing.id, *what, "-", passing.requirement, passing.because
    facts = {fact.id: fact for api in registry.apis() for fact in api.facts.all()}
    why = next(rule.because for rule in all_rules() if rule.id == "limits")
    for limit in known_limits():  # the rule `limits` reports each under its own id
        known = best_evidence(facts[each] for each in limit.facts if each in facts)
        yield limit.id, Kind.LIMIT, severity(limit), Blame.ADAPTER, limit.source, known, limit.sentence, why
    yield from _server_rules()


def _wrappers() -> Iterator[Sequence[str]]:
    yield "LIBRARY", "KIND", "INSTALLED", "ADAPTERS", "TRIED"
    for each in WRAPPERS:
        installed = " ".join(f"{name}={version}" for name, version in each.installed.items()) or "no"
        yield each.library, each.kind, installed, ",".join(each.adapters), " ".join(each.tried)


def _facts(apis: Sequence[str], models: Sequence[str], by: FactSelection) -> Iterator[Sequence[str]]:
    """Yield the facts that apply to a model on a given day, or all facts."""
    yield "FACT", "VERDICT", "SINCE", "UNTIL", "SERVICE", "EVIDENCE", "SAYS"
    for api in [registry.api(name) for name in apis] or registry.apis():
        for fact in api.facts.extended_by(api.name, by.files).all():
            about = not models or (fact.is_on(by.day or today()) and any(map(fact.is_of, models)))
            if about and (by.day is None or fact.is_on(by.day)):
                verdict = f"{fact.verdict}?" if fact.contested else fact.verdict
                dates = (str(fact.since or "-"), str(fact.until or "-"))
                yield fact.id, verdict, *dates, ",".join(fact.service or ["-"]), best_evidence([fact]), fact.says


def _models(targets: Sequence[str], apis: Sequence[str]) -> Iterator[Sequence[str]]:
    from harness.runner.costs import models  # noqa: PLC0415 - other lists start faster

    chosen = [*(registry.target_named(name).api for name in targets), *apis]
    chosen = chosen or [each.api for each in registry.targets()]
    yield "MODEL", "API", "PROFILE", "VISION", "THINKING", "CONTEXT", "TARGET", "NOTE"
    for api in dict.fromkeys(chosen):
        for each in models(api):
            vision, thinking = _YES_NO[each.vision], _YES_NO[each.thinking]
            context, note = "?" if each.context is None else str(each.context), "deprecated" if each.deprecated else "-"
            yield each.id, api, each.profile, vision, thinking, context, ",".join(each.targets) or "-", note


_YES_NO = {True: "yes", False: "no", None: "?"}


def _server_rules() -> Iterator[Sequence[str]]:
    how = Kind.LOSS, Severity.ERROR, Blame.PROVIDER
    for rule in RESPONSE_RULES.values():
        yield rule.id, *how, rule.source, "-", rule.sentence, RESPONSE_RULE_CONSEQUENCE
    for check in CHECKS.values():
        yield check.id, *how, check.source, "-", check.requirement, check.because


def best_evidence(facts: Iterable[Fact]) -> str:
    """Return the strongest, newest piece of evidence for the facts, with its day and address."""
    order = ("report", "documents", "source", "probe", "captured")
    pieces = [piece for fact in facts for piece in fact.evidence]
    found = max(pieces, key=lambda piece: (order.index(piece.kind), piece.date), default=None)
    return f"{found.kind} {found.date} {found.address}" if found else "-"


def table(rows: Sequence[Sequence[str]], text: str = "") -> Iterator[str]:
    """Yield the lines of a table. On a terminal, the table is fitted to the terminal's width.

    To fit, descriptions are truncated. They are in the column headed `text`, or in the last one. Columns that do not
    fit are omitted and named on standard error.
    """
    if not sys.stdout.isatty():
        yield from align(rows)
        return
    fitted, left_out = fit(rows, shutil.get_terminal_size().columns, text or rows[0][-1])
    yield from align(fitted)
    if left_out:
        print_error(f"Omitted, because the terminal is too narrow (a pipe gets all columns): {', '.join(left_out)}.")


def fit(rows: Sequence[Sequence[str]], width: int, text: str) -> tuple[list[list[str]], list[str]]:
    """Return the rows fitted to a width, and the heads of the omitted columns."""
    heads, widths = rows[0], _widths(rows)
    described = heads.index(text)
    kept = [0] if described == 0 else [0, described]
    used = widths[0] + (min(widths[described], _MIN_DESCRIPTION_COLUMNS) + 2 if described else 0)
    for column, wide in enumerate(widths):
        if column not in kept and used + wide + 2 <= width:
            kept.append(column)
            used += wide + 2
    kept.sort()
    room = width - sum(widths[column] + 2 for column in kept if column != described)
    cut = [[_cut(row[at], room) if at == described and at else row[at] for at in kept] for row in rows]
    return cut, [head for at, head in enumerate(heads) if at not in kept]


def align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows as lines with aligned columns."""
    widths = _widths(rows)
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _cut(text: str, width: int) -> str:
    width = max(width, 2)
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


@dataclass(frozen=True, slots=True)
class _Schema:
    """A JSON Schema, stored in a file next to `module` or returned by the function `json_schema` of that module."""

    about: str
    module: str
    file: str | None = None

    @property
    def path(self) -> Path | None:
        if self.file is None:
            return None
        package = importlib.import_module(self.module).__file__
        return Path(package or "").with_name(self.file).resolve()

    def text(self) -> str:
        if self.path is not None:
            return self.path.read_text(encoding="utf-8").rstrip("\n")
        made: Mapping[str, object] = importlib.import_module(self.module).json_schema()
        return json.dumps(made, indent=2, ensure_ascii=False)


SCHEMAS = {
    "scenario": _Schema("a scenario file", "harness.scenarios", "scenario.schema.json"),
    "facts": _Schema("a file of facts, for --facts", "harness.apis", "facts.schema.json"),
    "config": _Schema("[tool.harness] in pyproject.toml", "harness.platform.project"),
    "results": _Schema("what --report json writes", "harness.results.run_result"),
    "adapter-command": _Schema("the messages of --adapter-command", "harness.stdio.protocol"),
}


def schema(
    name: Annotated[
        str | None,
        argument(
            "NAME",
            "scenario, facts, config, results or adapter-command. Without a name, all are listed.",
            autocompletion=app.complete_schemas,
        ),
    ] = None,
    *,
    path: Annotated[bool, option("--path", "Print the path of the installed file instead.")] = False,
) -> None:
    """Print the JSON Schema of scenarios, facts, settings, results, or the messages of an adapter's command.

    For completion in an editor, begin a scenario with this line, where PATH is the path of the installed schema:
    # yaml-language-server: $schema=PATH
    """
    if name is None:
        rows = [(each, known.about, str(known.path or f"harness schema {each}")) for each, known in SCHEMAS.items()]
        for line in align([("SCHEMA", "OF", "WHERE"), *rows]):
            typer.echo(line)
        return
    if name not in SCHEMAS:
        raise UnknownName("schema", name, tuple(SCHEMAS))
    known = SCHEMAS[name]
    if path and known.path is None:
        raise UsageError(f"--path: no file has this schema: harness schema {name} >FILE writes one.")
    typer.echo(str(known.path) if path else known.text())
