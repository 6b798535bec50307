"""Effective options of a run: command-line options completed by `[tool.harness]`. Also `harness config`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

import typer

from harness import plugins
from harness.apis import registry
from harness.apis.fact_files import FactSelection, parse_day
from harness.cassettes.preflight import OutdatedFilter
from harness.cassettes.redact.secret_patterns import display_url
from harness.checks.finding_scope import scope
from harness.cli.options import RunOptions
from harness.model.errors import UnknownName, UsageError
from harness.platform.files import SHIPPED, shipped_folder
from harness.platform.project import Project, project
from harness.results import Mode
from harness.rules import EVERYTHING, Scope
from harness.runner.cells import VARIANTS
from harness.stdio import adapter_specs

_CASSETTES = "cassettes"


@dataclass(frozen=True, kw_only=True)
class EffectiveOptions(RunOptions):
    """Options of any command that runs cells, with values derived from them and from the project's settings.

    `default_models` maps targets to the project's models, including targets that do not run. `left_out` maps the
    project's adapters and agents that cannot run to the reason. `folder` contains the user's cassettes unless
    `cassettes` names another folder. The run ends after `failure_limit` failed cells. `scope` and `outdated` are the
    parsed `rules`, `ignored` and `max_age`.
    """

    failure_limit: int | None = None
    scope: Scope = EVERYTHING
    outdated: OutdatedFilter | None = None
    folder: str = _CASSETTES
    default_models: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


def combine_options(args: object, **changes: Any) -> EffectiveOptions:
    """Return the options of a command in the form that a run needs. `changes` replace or add fields.

    Adapters, commands and agents become one list of specifications for `harness.stdio.adapter_specs.adapter`.

    Raises:
        UsageError: two options contradict each other, or the project's settings are wrong.
    """
    given = {each.name: getattr(args, each.name) for each in fields(EffectiveOptions) if hasattr(args, each.name)}
    options = EffectiveOptions(**{**given, **changes})
    if options.first_failure and options.max_fail is not None:
        raise UsageError(
            f"-x: it means --maxfail 1, and --maxfail {options.max_fail} is given as well. Leave one of them out."
        )
    return replace(
        options,
        adapters=_adapters(options) or None,
        facts=fact_files(options.facts),
        failure_limit=1 if options.first_failure else options.max_fail,
    )


def _adapters(options: EffectiveOptions) -> list[str]:
    named = adapter_specs.specs(options.adapters or (), options.adapter_commands or ())
    if options.conversations or options.agents:
        named += adapter_specs.specs(
            conversations=options.conversations or (),
            agents=options.agents or (),
            api=options.api,
            targets=options.targets or (),
        )
    elif options.api is not None:
        raise UsageError(
            f"--api {options.api}: it names the API of --conversation or --agent-command, and neither is given."
        )
    return named


def complete_options(options: EffectiveOptions, mode: Mode, *, records: bool = False) -> EffectiveOptions:
    """Return the options, completed by the project's settings. Options of the command line take precedence.

    Agents with their own tool loop are left out of recordings, and of runs without the reference server. Base URLs from
    the settings apply only to live runs.

    Raises:
        UsageError: the settings are wrong, or they have only agents and these are left out.
    """
    own = settings()
    loops = [*own.conversations, *own.agent_commands] if mode != "reference" or records else []
    found = options.adapters or project_adapters(own, loops=not loops)
    if loops and not found:
        raise UsageError(f"{loops[0]}: {_NO_LOOP}")
    urls = tuple(f"{target}={url}" for target, url in own.base_urls.items()) if mode == "live" else ()
    max_age = (own.max_age, own.at("max-age")) if options.max_age is None else (options.max_age, "--max-age")
    return replace(
        options,
        paths=options.paths or own.scenarios or None,
        adapters=found or None,
        left_out={} if options.adapters else dict.fromkeys(loops, _NO_LOOP),
        targets=options.targets or own.targets or None,
        default_models={} if options.models else own.models,
        base_urls=options.base_urls or urls or None,
        variants=options.variants or own.variants or None,
        folder=str(own.cassettes or _CASSETTES),
        expected_failures=options.expected_failures or (own.expected_failures and str(own.expected_failures)),
        strict=bool(own.strict) if options.strict is None else options.strict,
        scope=scope_for(options.rules, options.ignored, own, fact_options(options.as_of, options.facts)),
        outdated=OutdatedFilter.by(*max_age),
        **(_pace(options, own) if mode == "live" else {}),
    )


_NO_LOOP = "it runs its own tool loop, so it cannot replay cassettes. Run it: harness run --mode reference"


def _pace(options: EffectiveOptions, own: Project) -> dict[str, list[str]]:
    played = options.targets or own.targets
    rates, concurrency = (
        [f"{target}={value}" for target, value in each.items() if not played or target in played]
        for each in (own.rates, own.concurrency)
    )
    at_once = options.concurrency or (concurrency if options.jobs in (None, "1") else [])
    return {"rates": options.rates or rates, "concurrency": at_once}


def scope_for(rules: Sequence[str] | None, ignored: Sequence[str] | None, own: Project, by: FactSelection) -> Scope:
    """Return the filter for findings. `ignored` defaults to the project's setting. Raises `UsageError` if an id is
    unknown.
    """
    return scope(rules or (), ignored, by) if ignored else scope(rules or (), own.ignore, by, own.at("ignore"))


def fact_files(given: Sequence[Path] | None) -> list[Path]:
    """Return the project's fact files, followed by the given ones. Raises `UsageError` if the settings are wrong."""
    return list(dict.fromkeys((*project(Path()).facts, *(given or ()))))


def fact_options(as_of: str | None, files: Sequence[Path] | None) -> FactSelection:
    """Return the selection of facts for this day and with these files. Raises `UsageError` if the day is invalid or a
    file is unreadable.
    """
    made = FactSelection(None if as_of is None else parse_day(as_of, "--as-of"), tuple(files or ()))
    made.check(registry.APIS.names())
    return made


def named_values(option: str, values: Sequence[str] | None, kind: str) -> Mapping[str, str]:
    """Return the values of an option of the form `TARGET=KIND`.

    Raises:
        UsageError: a value has another form, or names its target twice.
    """
    found: dict[str, str] = {}
    for given in values or ():
        target, equals, value = given.partition("=")
        place = option if kind == "URL" else f"{option} {given!r}"  # a URL may hold a password
        if not (target and equals and value) or "://" in target:
            raise UsageError(f"{place}: it must have the form TARGET={kind}, as in {option} {_EXAMPLES[kind]}.")
        if target in found:
            raise UsageError(f"{place}: {target!r} is given twice. Each target has one {kind}.")
        found[target] = value
    return found


_EXAMPLES = {"NAME": "gemini-3=gemini-3.6-pro", "URL": "openai-chat=http://127.0.0.1:8000/v1"}


def settings() -> Project:
    """Return the settings of the project in the working folder.

    Raises:
        UsageError: a key has a wrong value, or names something that does not exist.
    """
    found = project(Path())
    shipped = {file.stem for file in shipped_folder("scenarios").glob("*.yaml")} if found.scenarios else set[str]()
    for each in found.scenarios:
        if each not in {*shipped, SHIPPED} and not Path(each).exists():
            at = found.at("scenarios")
            raise UsageError(f"{at}: there is no such file or folder, and no shipped scenario: {each}.")
    for each in found.targets:
        if each not in (known := sorted([*(one.name for one in registry.all_targets()), registry.ALL_SERVERS])):
            raise UnknownName("target", each, known, found.at("targets"))
    for each in found.variants:
        if each not in VARIANTS:
            raise UnknownName("variant", each, VARIANTS, found.at("variants"))
    _check_agents_and_endpoints(found)
    return found


def _check_agents_and_endpoints(found: Project) -> None:
    if found.api and not (found.conversations or found.agent_commands):
        raise UsageError(f"{found.at('api')}: there are no conversations or agent-commands to use it.")
    for key, names in (("servers", found.servers), ("gateways", found.gateways)):
        for each in names:
            if each in plugins.ADAPTERS.names():
                raise UsageError(f"{found.at(key)}.{each}: an adapter has this name. Name the {key[:-1]} differently.")


def project_adapters(own: Project, *, loops: bool = True) -> list[str]:
    """Return the project's adapters, and with `loops` also its agents, in the form used by options."""
    conversations, agents = (own.conversations, own.agent_commands) if loops else ((), ())
    return adapter_specs.specs(
        own.adapters, own.adapter_commands, conversations, agents, api=own.api, targets=own.targets
    )


def config() -> None:
    """Show the settings of this project, and where each value comes from.

    Settings are in the table `[tool.harness]` of `pyproject.toml`. Options of a command override them. 'harness help
    config' lists all keys.
    """
    from harness.cli import check_gateway, check_server  # noqa: PLC0415 - it needs the settings itself
    from harness.cli.list import align  # noqa: PLC0415 - the same

    own = settings()
    for name in own.servers:
        check_server.validate_server(name)
    for name in own.gateways:
        check_gateway.validate_gateway(name)
    for line in align([("KEY", "VALUE", "FROM"), *_rows(own)]):
        typer.echo(line)


def _rows(own: Project) -> Iterator[tuple[str, str, str]]:
    """Yield each key with its value and its origin. Secrets in URLs are hidden."""
    file = own.place.partition(" at ")[0]
    for name, value in own:
        key = name.replace("_", "-")
        if key in _DEFAULTS:
            text = _text(value, ", ")
            yield (key, text, file) if text else (key, _DEFAULTS[key], "default")
            continue
        for each, table in value.items():
            texts = {part.replace("_", "-"): _text(entry, "+") for part, entry in table}
            yield f"{key}.{each}", ", ".join(f"{part}={text}" for part, text in texts.items() if text), file
        if not value:
            yield key, "none", "default"


def _text(value: object, separator: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dict():
            return separator.join(f"{name}={_text(text, '')}" for name, text in cast("dict[str, str]", value).items())
        case tuple():
            return separator.join(map(str, cast("tuple[object, ...]", value)))
        case _:
            return display_url(str(value)) if "://" in str(value) else str(value)


_DEFAULTS = {
    "scenarios": "the shipped ones",
    "cassettes": f"{_CASSETTES}, for shipped scenarios then the shipped ones",
    "adapters": "those of the targets",
    "adapter-commands": "none",
    "conversations": "none",
    "agent-commands": "none",
    "api": "what each names itself, or the targets",
    "targets": "all that the adapters can run",
    "models": "those of the targets",
    "variants": "whole and stream, where the adapter can stream",
    "facts": "the shipped ones alone",
    "strict": "false",
    "base-urls": "the providers', or what the environment names",
    "expected-failures": "none",
    "ignore": "none",
    "max-age": "any",
    "rates": "as fast as answers come",
    "concurrency": "one cell after the other",
}
