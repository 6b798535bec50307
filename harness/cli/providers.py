"""`harness providers`: what is installed and configured, and what each target can do. No value of a key is shown."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, TypedDict
from urllib.parse import urlsplit, urlunsplit

import typer

from harness import catalog
from harness.apis.targets import ShippedTarget
from harness.cli.table import aligned
from harness.contract import distribution
from harness.contract.errors import UsageError
from harness.contract.protocols import Capability, Requirement
from harness.host.environment import is_older
from harness.kit import factories
from harness.kit.factories import Provider
from harness.running.costs import models
from harness.tape.redact.address import shown


class _Needed(TypedDict):
    """What an adapter needs. `version` is `None` where it is not installed; a command on the path has an empty one."""

    name: str
    version: str | None
    at_least: str | None
    install: str | None


class _Provider(TypedDict):
    name: str
    target: str
    model: str
    requires: _Needed | None
    keys: dict[str, bool]
    base_url: str | None


class _Embeddings(TypedDict):
    provider: str | None
    model: str | None
    dimensions: int | None
    problem: str | None


class _Target(TypedDict):
    name: str
    adapter: str
    api: str
    model: str
    profile: str
    capabilities: dict[str, bool]
    models: list[str]


class _Overview(TypedDict):
    llm_provider: str | None
    problem: str | None
    providers: list[_Provider]
    embeddings: _Embeddings
    targets: list[_Target]


def providers(
    *, as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON, with the names of all models.")] = False
) -> None:
    """Show which SDKs are installed, which keys are set (never a value), who embeds, and what each target can do."""
    overview = _overview(os.environ)
    if as_json:
        typer.echo(json.dumps(overview, ensure_ascii=False, indent=2))
        return
    for line in _text(overview):
        typer.echo(line)


def _overview(environ: Mapping[str, str]) -> _Overview:

    chosen: str | None = None
    problem: str | None = None
    try:
        chosen = factories.configured_provider(environ=environ).name
    except UsageError as error:
        problem = str(error)
    return {
        "llm_provider": chosen,
        "problem": problem,
        "providers": [_provider(each, environ) for each in factories.PROVIDERS.values()],
        "embeddings": _embeddings(environ),
        "targets": [_target(each) for each in catalog.targets()],
    }


def _provider(provider: Provider, environ: Mapping[str, str]) -> _Provider:

    shipped = catalog.target(provider.target)
    return {
        "name": provider.name,
        "target": provider.target,
        "model": factories.configured_model(provider, environ=environ),
        "requires": _needed(catalog.adapter(shipped.adapter).requires),
        "keys": {name: bool(environ.get(name)) for name in catalog.api(shipped.api).key_variables},
        "base_url": _base_url(provider, environ),
    }


def _needed(requirement: Requirement | None) -> _Needed | None:
    if requirement is None:
        return None
    if requirement.extra is None:
        found = shutil.which(requirement.name) is not None
        return {"name": requirement.name, "version": "" if found else None, "at_least": None, "install": None}
    install = distribution.install(requirement.extra)
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        installed = None
    return {"name": requirement.name, "version": installed, "at_least": requirement.at_least, "install": install}


def _base_url(provider: Provider, environ: Mapping[str, str]) -> str | None:
    """The URL without what may be a secret in it: user and password, what follows a question mark, and tokens."""
    try:
        url = factories.configured_base_url(provider, environ=environ)
    except UsageError:
        return "set, and no URL"
    if url is None:
        return None
    parts = urlsplit(url)
    return shown(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))


def _embeddings(environ: Mapping[str, str]) -> _Embeddings:

    try:
        record = factories.configured_embeddings(environ=environ)
    except UsageError as error:
        return {"provider": None, "model": None, "dimensions": None, "problem": str(error)}
    return {"provider": record.provider, "model": record.model, "dimensions": record.dimensions, "problem": None}


def _target(shipped: ShippedTarget) -> _Target:

    profile = catalog.api(shipped.api).profile_for(shipped.model)
    able = catalog.adapter(shipped.adapter).capabilities - profile.lacks
    return {
        "name": shipped.name,
        "adapter": shipped.adapter,
        "api": shipped.api,
        "model": shipped.model,
        "profile": profile.name,
        "capabilities": {each.value: each in able for each in Capability},
        "models": [each.id for each in models(shipped.api)],
    }


def _text(overview: _Overview) -> Iterator[str]:
    yield from aligned(list(_provider_rows(overview)))
    yield ""
    yield f"LLM_PROVIDER        {overview['problem'] or overview['llm_provider']}"
    yield f"EMBEDDING_PROVIDER  {_embeddings_text(overview)}"
    yield "MODEL               of harness.kit.factories (OPENAI_MODEL ...); 'run' and 'record' take --model TARGET=NAME"
    yield ""
    yield from aligned(list(_target_rows(overview["targets"])))
    yield ""
    yield "'harness list models' shows the models, 'harness list targets' the targets, --json all of this."


def _provider_rows(overview: _Overview) -> Iterator[Sequence[str]]:
    yield "PROVIDER", "TARGET", "MODEL", "NEEDS", "KEY", "BASE URL"
    for each in overview["providers"]:
        base_url = each["base_url"] or "-"
        yield each["name"], each["target"], each["model"], _needs(each["requires"]), _keys(each), base_url


def _needs(needed: _Needed | None) -> str:

    if needed is None:
        return "-"
    name, installed = needed["name"], needed["version"]
    if installed and needed["at_least"] and is_older(installed, needed["at_least"]):
        return f"{name} {installed}: too old, needs {needed['at_least']}: {needed['install']}"
    if installed is not None:
        return f"{name} {installed}" if installed else f"{name}: on the path"
    return f"{name}: not installed: {needed['install']}" if needed["install"] else f"{name}: not on the path"


def _keys(provider: _Provider) -> str:
    """The variables that are set; if none is, all of them, of which one would do."""
    present = [name for name, is_set in provider["keys"].items() if is_set]
    if present:
        return f"{', '.join(present)}: set"
    return f"{' or '.join(provider['keys'])}: not set"


def _embeddings_text(overview: _Overview) -> str:
    found = overview["embeddings"]
    if found["problem"] is not None:
        return found["problem"]
    return f"{found['provider']}: {found['model']}, {found['dimensions']} dimensions"


def _target_rows(targets: Sequence[_Target]) -> Iterator[Sequence[str]]:
    yield "CAPABILITY", *(each["name"] for each in targets)
    for capability in targets[0]["capabilities"]:
        yield capability, *("yes" if each["capabilities"][capability] else "-" for each in targets)
    yield "models known", *(str(len(each["models"])) for each in targets)
