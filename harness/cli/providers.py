"""`harness providers` shows SDKs, keys and capabilities. `harness probe` tests facts against a provider."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

import typer

from harness import plugins
from harness.apis import registry
from harness.apis.prices import price_version
from harness.apis.profiles import ShippedTarget
from harness.apis.registry import Target, targets_for
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import display_url
from harness.cli.execution import base_urls_for
from harness.cli.list import align
from harness.cli.options import BaseUrls, FactFiles, MaxRequests, Models, Targets, option
from harness.cli.outputs import write
from harness.cli.progress import interruptible
from harness.cli.settings import fact_files, fact_options, named_values
from harness.kit import factories
from harness.kit.factories import Provider
from harness.model import errors
from harness.model.errors import UsageError
from harness.model.protocols import Capability, Requirement, Route
from harness.platform.environment import installed_version, is_older
from harness.reports.words import count, estimate_text, plain
from harness.runner.costs import models as known_models
from harness.runner.live import LiveBackend
from harness.runner.probing import FactProbe, Probe, ProbeResult, estimate_cost, fact_probes, proposal


def providers(
    *,
    as_json: Annotated[bool, option("--json", "Print JSON, with the names of all models.")] = False,
) -> None:
    """Show which SDKs are installed, which keys are set (never a value), and what each target can do."""
    overview = _overview(os.environ)
    if as_json:
        typer.echo(json.dumps(overview, ensure_ascii=False, indent=2))
        return
    for line in _text(overview):
        typer.echo(line)


def _overview(environ: Mapping[str, str]) -> dict[str, Any]:
    chosen, problem = None, None
    try:
        chosen = factories.configured_provider(environ=environ).name
    except UsageError as error:
        problem = str(error)
    return {
        "llm_provider": chosen,
        "problem": problem,
        "providers": [_provider(each, environ) for each in factories.PROVIDERS.values()],
        "embeddings": _embeddings(environ),
        "targets": [_target(each) for each in registry.targets()],
    }


def _provider(provider: Provider, environ: Mapping[str, str]) -> dict[str, Any]:
    shipped = registry.target_named(provider.target)
    return {
        "name": provider.name,
        "target": provider.target,
        "model": factories.configured_model(provider, environ=environ),
        "requires": _requirement(plugins.adapter(shipped.adapter).requires),
        "keys": {name: bool(environ.get(name)) for name in registry.api(shipped.api).key_variables},
        "base_url": _base_url(provider, environ),
    }


def _requirement(requirement: Requirement | None) -> dict[str, Any] | None:
    """Return what an adapter requires. The version is `None` if it is not installed, and empty for a command found on
    the path.
    """
    if requirement is None:
        return None
    if requirement.extra is None:
        found = shutil.which(requirement.name) is not None
        return {"name": requirement.name, "version": "" if found else None, "at_least": None, "install": None}
    install, installed = errors.install_command(requirement.extra), installed_version(requirement.name)
    return {"name": requirement.name, "version": installed, "at_least": requirement.at_least, "install": install}


def _base_url(provider: Provider, environ: Mapping[str, str]) -> str | None:
    """Return the URL without parts that may be secret: user, password, query and tokens."""
    try:
        url = factories.configured_base_url(provider, environ=environ)
    except UsageError:
        return "set, and no URL"
    if url is None:
        return None
    parts = urlsplit(url)
    return display_url(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))


def _embeddings(environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        return {**asdict(factories.configured_embeddings(environ=environ)), "problem": None}
    except UsageError as error:
        return {"provider": None, "model": None, "dimensions": None, "problem": str(error)}


def _target(shipped: ShippedTarget) -> dict[str, Any]:
    profile = registry.api(shipped.api).profile_for(shipped.model)
    able = plugins.adapter(shipped.adapter).capabilities - profile.lacks
    return {
        **{name: getattr(shipped, name) for name in ("name", "adapter", "api", "model")},
        "profile": profile.name,
        "capabilities": {each.value: each in able for each in Capability},
        "models": [each.id for each in known_models(shipped.api)],
    }


def _text(overview: dict[str, Any]) -> Iterator[str]:
    rows = [("PROVIDER", "TARGET", "MODEL", "NEEDS", "KEY", "BASE URL")]
    for each in overview["providers"]:
        found = each["name"], each["target"], each["model"]
        rows.append((*found, _needs(each["requires"]), _keys(each["keys"]), each["base_url"] or "-"))
    yield from align(rows)
    yield ""
    yield f"LLM_PROVIDER        {overview['problem'] or overview['llm_provider']}"
    embeddings = overview["embeddings"]
    known = "{provider}: {model}, {dimensions} dimensions".format_map(embeddings)
    yield f"EMBEDDING_PROVIDER  {known if embeddings['problem'] is None else embeddings['problem']}"
    yield "MODEL               of harness.kit.factories (OPENAI_MODEL ...); 'run' and 'record' take --model TARGET=NAME"
    yield ""
    targets = overview["targets"]
    columns = [["CAPABILITY", *(capability.value for capability in Capability), "models known"]]
    for each in targets:
        able = ["yes" if able else "-" for able in each["capabilities"].values()]
        columns.append([each["name"], *able, str(len(each["models"]))])
    yield from align(list(zip(*columns, strict=True)))
    yield ""
    yield "'harness list models' shows the models, 'harness list targets' the targets, --json all of this."


def _needs(needed: dict[str, Any] | None) -> str:
    if needed is None:
        return "-"
    name, installed = needed["name"], needed["version"]
    if installed and needed["at_least"] and is_older(installed, needed["at_least"]):
        return f"{name} {installed}: too old, needs {needed['at_least']}: {needed['install']}"
    if installed is not None:
        return f"{name} {installed}" if installed else f"{name}: on the path"
    return f"{name}: not installed: {needed['install']}" if needed["install"] else f"{name}: not on the path"


def _keys(keys: dict[str, bool]) -> str:
    """Return a text that names the variables that are set or, if none is set, all variables that may hold the key."""
    present = [name for name, is_set in keys.items() if is_set]
    return f"{', '.join(present)}: set" if present else f"{' or '.join(keys)}: not set"


def probe(  # noqa: PLR0913 - a parameter for each option
    *,
    targets: Targets = None,
    models: Models = None,
    base_urls: BaseUrls = None,
    chosen: Annotated[
        list[str] | None, option("--fact ID", "Only this fact: 'harness list facts'. Repeatable.")
    ] = None,
    service: Annotated[
        str | None,
        option(
            "--service NAME",
            "Test the facts about this service, such as vllm; 'own' means the provider itself. Default: the service at "
            "the base URL.",
        ),
    ] = None,
    max_requests: MaxRequests = None,
    written: Annotated[
        Path | None, option("--write FILE", "Write the changes as a new file of facts for --facts.")
    ] = None,
    facts: FactFiles = None,
) -> int:
    """Ask a provider whether facts still hold. Needs --target, and the key of its provider.

    For each fact it sends the smallest request that violates it and, if that is refused, a similar one that does not.
    The number of requests and their maximum cost are printed before they are sent.

    Exit codes: 1 a fact no longer holds; 2 wrong usage, or no result; 130 interrupted; else 0.
    """
    redactor = Redactor.of_run((given.partition("=")[2] for given in base_urls or ()), shaped=True)
    with interruptible(), redactor.redact_exceptions():
        chosen_targets = _probed_targets(targets, models, fact_files(facts))
        _check_written(written, chosen_targets)
        with LiveBackend(base_urls_for(base_urls, "live", chosen_targets)) as live:
            at = {target.name: live.address(target) for target in chosen_targets}
            probes = fact_probes(chosen_targets, at, service, chosen or ())
            if not probes:
                raise UsageError("no fact of these targets can be probed. 'harness list facts' shows them.")
            for target in chosen_targets:
                live.check(target)
            _print_probe_forecast(probes, max_requests)
            found: list[ProbeResult] = []
            with Probe(live, max_requests) as probing:
                for each in probing(probes):
                    found.append(each)
                    for line in _lines(each, found):
                        typer.echo(redactor.text(line))
        typer.echo(_probe_summary(found, probing.sent))
        if written is not None:
            _write(found, written, redactor)
    verdicts = {each.verdict for each in found}
    return 1 if "no longer holds" in verdicts else 0 if "holds" in verdicts else 2


def _probed_targets(names: Sequence[str] | None, models: Sequence[str] | None, facts: Sequence[Path]) -> list[Target]:
    if not names:
        raise UsageError("--target is missing: name the targets to probe. 'harness list targets' shows them.")
    shipped = [registry.target_named(name) for name in dict.fromkeys(names)]
    adapters = [plugins.adapter(name) for name in dict.fromkeys(each.adapter for each in shipped)]
    chosen = [each.name for each in shipped]
    made = targets_for(adapters, chosen, named_values("--model", models, "NAME"), fact_options("today", facts))
    for target in made:
        if target.adapter.route is Route.PROCESS:
            raise UsageError(f"the target {target.name!r} cannot be probed: it runs a command.")
    return made


def _check_written(path: Path | None, targets: Sequence[Target]) -> None:
    if path is None:
        return
    apis = sorted({target.api for target in targets})
    if len(apis) > 1:
        raise UsageError(f"--write: a file of facts is about one API, and the targets speak {' and '.join(apis)}.")
    if path.exists():
        raise UsageError(f"--write {path}: this path exists. Name another file; --facts takes several.")
    if not path.parent.is_dir():
        raise UsageError(f"--write {path}: there is no such folder.")


def _print_probe_forecast(probes: Sequence[FactProbe], max_requests: int | None) -> None:
    source = " ".join(part for pair in price_version().items() for part in pair)
    facts = count(len({(each.target.name, each.fact.id) for each in probes}), "fact")
    cost = estimate_text(estimate_cost(probes, max_requests), "at most", f" for {facts}")
    typer.echo(plain(f"To be sent: {cost} ({source})."), err=True)


def _lines(found: ProbeResult, so_far: Sequence[ProbeResult]) -> list[str]:
    """Return the lines that report the result for a fact. For the first fact of a target, a line about the target comes
    first.
    """
    question, target = found.question, found.question.target
    lines: list[str] = []
    if len(so_far) == 1 or so_far[-2].question.target.name != target.name:
        lines.append(f"{target.name} ({target.model}) at {display_url(question.base_url)}")
    lines.append(f"  {found.verdict:15}  {question.fact.id}: {found.why}")
    if found.verdict != "holds":
        lines.append(f"    the fact: {plain(question.fact.says)}")
    if found.answer is not None and found.answer.words:
        lines.append(f"    HTTP {found.answer.status}: {plain(found.answer.words)}")
    return lines


def _probe_summary(found: Sequence[ProbeResult], sent: int) -> str:
    verdicts = Counter(each.verdict for each in found)
    return (
        f"{count(len(found), 'fact')}: {verdicts['holds']} hold, {verdicts['no longer holds']} no longer, "
        f"{verdicts['cannot tell']} unclear. {count(sent, 'request')} sent."
    )


def _write(found: Sequence[ProbeResult], path: Path, redactor: Redactor) -> None:
    if not any(each.verdict == "no longer holds" for each in found):
        typer.echo(f"Nothing has changed, so {path} is not written.")
        return
    text = redactor.text(proposal(found[0].question.target.api, found))
    write(lambda: [text], "facts", path)
    typer.echo(f"The changed facts are in {path}: read them, and use them with --facts {path}.")
