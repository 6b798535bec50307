"""What the options leave open is as the project says it: `[tool.harness]` in its `pyproject.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import typer

from harness import catalog
from harness.apis.fact_files import FactSelection
from harness.checking.finding_scope import scope
from harness.cli.options import Options, edition
from harness.cli.table import aligned
from harness.contract.errors import UnknownName, UsageError
from harness.host.project import Project, project
from harness.results import Mode
from harness.rules.scope import Scope
from harness.running.cells import VARIANTS
from harness.scenarios import suite
from harness.tape.redact.address import shown
from harness.tape.survey import Outdated

CASSETTES = "cassettes"
"""The folder of one's own cassettes, unless somebody names another."""


def settings() -> Project:
    """The settings of the project that the working folder is in.

    Raises:
        UsageError: they have what they may not have, or name what is not there: file and key.
    """
    found = project(Path())
    there = _scenarios(found)
    for each in found.scenarios:
        if each not in there:
            at = found.at("scenarios")
            raise UsageError(f"{at}: there is no such file or folder, and no shipped scenario: {each}.")
    for each in found.targets:
        if each not in _targets():
            raise UnknownName("target", each, sorted(_targets()), found.at("targets"))
    for each in found.variants:
        if each not in VARIANTS:
            raise UnknownName("variant", each, VARIANTS, found.at("variants"))
    _check_subjects(found)
    return found


def _check_subjects(found: Project) -> None:
    """Whether what can be played is named as it can be. Raises `UsageError`."""
    if found.api and not (found.conversations or found.agent_commands):
        raise UsageError(f"{found.at('api')}: it says what conversations and agent-commands speak, and there are none.")
    for key, names in (("servers", found.servers), ("gateways", found.gateways)):
        for each in names:
            if each in catalog.ADAPTERS.names():
                raise UsageError(f"{found.at(key)}.{each}: an adapter has this name. Name the {key[:-1]} otherwise.")


def _scenarios(found: Project) -> list[str]:
    shipped = {file.stem for file in suite.shipped("scenarios").glob("*.yaml")} if found.scenarios else set[str]()
    return [each for each in found.scenarios if each in {*shipped, suite.SHIPPED} or Path(each).exists()]


def _targets() -> set[str]:
    return {shipped.name for shipped in catalog.targets()}


def completed(options: Options, mode: Mode, *, records: bool = False) -> Options:
    """The options, with what the project says where they say nothing. What is given takes the place of its key.

    What owns its tool loop is left out where only the reference server could answer it.

    URLs of servers hold where something is sent to them, and only there.

    Raises:
        UsageError: as `settings`.
    """
    own = settings()
    loops = [*own.conversations, *own.agent_commands] if mode != "reference" or records else []
    found = options.adapters or adapters(own, loops=not loops)
    if loops and not found:
        raise UsageError(f"{loops[0]}: {_NO_LOOP}")
    urls = tuple(f"{target}={url}" for target, url in own.base_urls.items()) if mode == "live" else ()
    return replace(
        options,
        paths=options.paths or own.scenarios or None,
        adapters=found or None,
        left_out={} if options.adapters else dict.fromkeys(loops, _NO_LOOP),
        targets=options.targets or own.targets or None,
        default_models={} if options.models else own.models,
        base_urls=options.base_urls or urls or None,
        variants=options.variants or own.variants or None,
        folder=folder(own),
        expected_failures=options.expected_failures or (own.expected_failures and str(own.expected_failures)),
        strict=bool(own.strict) if options.strict is None else options.strict,
        scope=scope_for(options.rules, options.ignored, own, edition(options.as_of, options.facts)),
        outdated=outdated_for(options.max_age, own),
        **(_pace(options, own) if mode == "live" else {}),
    )


def _pace(options: Options, own: Project) -> dict[str, list[str]]:
    """Return how fast is sent, as the options say or the project, of the targets that are played."""
    played = options.targets or own.targets
    rates, concurrency = (
        [f"{target}={value}" for target, value in each.items() if not played or target in played]
        for each in (own.rates, own.concurrency)
    )
    at_once = options.concurrency or (concurrency if options.jobs in (None, "1") else [])
    return {"rates": options.rates or rates, "concurrency": at_once}


def scope_for(rules: Sequence[str] | None, ignored: Sequence[str] | None, own: Project, by: FactSelection) -> Scope:
    """Return which findings count: as options say, or the project. Raises `UsageError`: no finding has such an id."""
    return scope(rules or (), ignored, by) if ignored else scope(rules or (), own.ignore, by, own.at("ignore"))


def outdated_for(given: str | None, own: Project) -> Outdated:
    """Which recordings are too old, as the option says, or the project. Raises `UsageError`: it is no age."""
    return Outdated.by(own.max_age, own.at("max-age")) if given is None else Outdated.by(given, "--max-age")


_NO_LOOP = "it runs its own tool loop and cannot be played from cassettes. Play it: harness run --mode reference"


def adapters(own: Project, *, loops: bool = True) -> list[str]:
    """The project's adapters, and what owns its tool loop, as options name them."""
    conversations, agents = (own.conversations, own.agent_commands) if loops else ((), ())
    return catalog.adapter_specs(
        own.adapters, own.adapter_commands, conversations, agents, api=own.api, targets=own.targets
    )


def folder(own: Project) -> str:
    """The folder of the project's cassettes."""
    return str(own.cassettes or CASSETTES)


def _rows(own: Project) -> Iterator[tuple[str, str, str]]:
    """Yield every key, with what holds and who says so: the file, or nobody. Nothing secret of a URL is shown."""
    file = own.place.partition(" at ")[0]
    for name, value in own:
        key = name.replace("_", "-")
        if key in _DEFAULTS:
            text = _shown(value, ", ")
            yield (key, text, file) if text else (key, _DEFAULTS[key], "default")
            continue
        for each, table in value.items():
            told = {part.replace("_", "-"): _shown(said, "+") for part, said in table}
            yield f"{key}.{each}", ", ".join(f"{part}={text}" for part, text in told.items() if text), file
        if not value:
            yield key, "none", "default"


def _shown(value: object, comma: str) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dict():
            return comma.join(f"{name}={shown(text)}" for name, text in cast("dict[str, str]", value).items())
        case tuple():
            return comma.join(map(str, cast("tuple[object, ...]", value)))
        case _:
            return shown(str(value)) if "://" in str(value) else str(value)


_DEFAULTS = {
    "scenarios": "the shipped ones",
    "cassettes": f"{CASSETTES}, for shipped scenarios then the shipped ones",
    "adapters": "those of the targets",
    "adapter-commands": "none",
    "conversations": "none",
    "agent-commands": "none",
    "api": "what each says itself, or the targets",
    "targets": "all that the adapters can play",
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
"""What holds where nothing is said."""


def config() -> None:
    """Show what `[tool.harness]` in `pyproject.toml` says, what holds where it says nothing, and which of it is which.

    Options of a command take the place of what stands there. 'harness help config' has all keys.
    """
    from harness.cli import check_gateway, check_server  # noqa: PLC0415 - they need the settings themselves

    own = settings()
    for name in own.servers:
        check_server.validate(name)
    for name in own.gateways:
        check_gateway.validate(name)
    for line in aligned([("KEY", "VALUE", "FROM"), *_rows(own)]):
        typer.echo(line)
