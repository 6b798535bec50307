"""What the options leave open is as the project says it: `[tool.harness]` in its `pyproject.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import cast

from harness import catalog
from harness.apis.facts import Edition
from harness.checking.scopes import scope
from harness.cli.days import edition
from harness.cli.options import Options
from harness.cli.sending import Sending
from harness.contract.errors import UnknownName, UsageError
from harness.host.project import Project, project
from harness.host.subjects import NamedGateway, NamedServer
from harness.results import Mode
from harness.rules.scope import Scope
from harness.running.cells import VARIANTS
from harness.scenarios import suite
from harness.tape.redact.address import shown
from harness.tape.survey import Outdated

CASSETTES = "cassettes"
"""The folder of one's own cassettes, unless somebody names another."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the table, what holds, and who says so: a file, or nobody (`default`)."""

    key: str
    value: str
    origin: str


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
        sending=_sending(options, own) if mode == "live" else options.sending,
    )


def _sending(options: Options, own: Project) -> Sending:
    """How fast is sent: as options say, or the project, of the targets that are played."""
    played = options.targets or own.targets
    rates, concurrency = (
        tuple(f"{target}={value}" for target, value in each.items() if not played or target in played)
        for each in (own.rates, own.concurrency)
    )
    typed = options.sending
    at_once = typed.concurrency or (concurrency if options.jobs in (None, "1") else ())
    return replace(typed, rates=typed.rates or rates, concurrency=at_once)


def scope_for(rules: Sequence[str], ignored: Sequence[str], own: Project, by: Edition) -> Scope:
    """Which findings count: as options say, or the project. Raises `UsageError`: no finding has such an id."""
    return scope(rules, ignored, by) if ignored else scope(rules, own.ignore, by, own.at("ignore"))


def outdated_for(given: str | None, own: Project) -> Outdated:
    """Which recordings are too old, as the option says, or the project. Raises `UsageError`: it is no age."""
    return Outdated.by(own.max_age, own.at("max-age")) if given is None else Outdated.by(given, "--max-age")


_NO_LOOP = "it runs its own tool loop and cannot be played from cassettes. Play it: harness run --mode reference"


def adapters(own: Project, *, loops: bool = True) -> list[str]:
    """The project's adapters, and what owns its tool loop, as options name them."""
    conversations, agents = (own.conversations, own.agent_commands) if loops else ((), ())
    return catalog.adapters_of(
        own.adapters, own.adapter_commands, conversations, agents, api=own.api, targets=own.targets
    )


def folder(own: Project) -> str:
    """The folder of the project's cassettes."""
    return str(own.cassettes or CASSETTES)


def told(own: Project) -> list[Setting]:
    """Every key, with what holds."""
    said = {
        "scenarios": own.scenarios,
        "cassettes": (str(own.cassettes),) if own.cassettes else (),
        "adapters": own.adapters,
        "adapter-commands": own.adapter_commands,
        "conversations": own.conversations,
        "agent-commands": own.agent_commands,
        "api": (own.api,) if own.api else (),
        "targets": own.targets,
        "models": _pairs(own.models.items()),
        "variants": own.variants,
        "facts": tuple(map(str, own.facts)),
        "strict": () if own.strict is None else (str(own.strict).lower(),),
        "base-urls": _pairs((target, shown(url)) for target, url in own.base_urls.items()),
        "expected-failures": (str(own.expected_failures),) if own.expected_failures else (),
        "ignore": own.ignore,
        "max-age": (own.max_age,) if own.max_age else (),
        "rates": _pairs(own.rates.items()),
        "concurrency": _pairs(own.concurrency.items()),
    }
    file = own.place.partition(" at ")[0]
    named = {"servers": own.servers, "gateways": own.gateways}
    return [
        *(Setting(key, ", ".join(said[key]) or _DEFAULTS[key], file if said[key] else "default") for key in said),
        *(Setting(key, "none", "default") for key, each in named.items() if not each),
        *(
            Setting(f"{key}.{name}", ", ".join(_fields(each)), file)
            for key, every in named.items()
            for name, each in every.items()
        ),
    ]


def _fields(named: NamedServer | NamedGateway) -> Iterator[str]:
    """What a server or a gateway says, key by key. Nothing secret of its URL is shown."""
    for field in fields(named):
        value = getattr(named, field.name)
        if field.name == "place" or value in (None, (), {}):
            continue
        if field.name == "url":
            value = shown(value)
        if isinstance(value, bool):
            value = str(value).lower()
        if isinstance(value, Mapping):
            value = _pairs(cast("Mapping[str, str]", value).items())
        if isinstance(value, tuple):
            value = "+".join(cast("tuple[str, ...]", value))
        yield f"{field.name.replace('_', '-')}={value}"


def _pairs(items: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in items)


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
