"""`harness probe`: asks providers whether facts about them still hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness import catalog
from harness.apis.targets import Target, targets_for
from harness.cli.live import base_urls_for
from harness.cli.options import BaseUrls, FactFiles, Models, Targets, edition, fact_files, named_values
from harness.cli.outputs import write
from harness.cli.standing import interruptible
from harness.contract.errors import UsageError
from harness.contract.protocols import Route
from harness.reports.words import count, money, plain
from harness.running.costs import price_version
from harness.running.live import LiveBackend
from harness.running.probing import FactProbe, Probe, ProbeResult, estimate_cost, fact_probes, proposal
from harness.tape.redact import Redactor
from harness.tape.redact.address import shown


def probe(  # noqa: PLR0913 - a parameter for each option
    *,
    targets: Targets = None,
    models: Models = None,
    base_urls: BaseUrls = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option("--fact", metavar="ID", help="Only this fact: 'harness list facts'. Repeatable."),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(
            "--service",
            metavar="NAME",
            show_default=False,
            help="Whose facts are asked: own (the provider's), or a service that facts name. Default: by the address, "
            "and the provider's where nobody is known there.",
        ),
    ] = None,
    max_requests: Annotated[
        int | None, typer.Option("--max-requests", metavar="N", min=1, help="Send no more than so many requests.")
    ] = None,
    written: Annotated[
        Path | None,
        typer.Option(
            "--write",
            metavar="FILE",
            show_default=False,
            help="Write what changed as a new file of facts, which --facts takes.",
        ),
    ] = None,
    facts: FactFiles = None,
) -> int:
    """Ask a provider whether facts still hold: the smallest request that each is about, and its twin, which is taken.

    It says before anything is sent how many requests that are and about what they cost. Needs keys.

    Exit codes: 1 a fact no longer holds; 2 wrong usage, or nothing could be told; 130 interrupted; else 0.
    """
    redactor = Redactor.of_run((given.partition("=")[2] for given in base_urls or ()), shaped=True)
    with interruptible(), redactor.raising():
        asked_of = _targets(targets, models, fact_files(facts))
        _check_written(written, asked_of)
        with LiveBackend(base_urls_for(base_urls, "live", asked_of)) as live:
            at = {target.name: live.address(target) for target in asked_of}
            asked = fact_probes(asked_of, at, service, chosen or ())
            if not asked:
                raise UsageError("none of the facts of these targets can be asked. 'harness list facts' shows them.")
            for target in asked_of:
                live.check(target)
            _before(asked, max_requests)
            found: list[ProbeResult] = []
            with Probe(live, max_requests) as probing:
                for each in probing(asked):
                    found.append(each)
                    for line in _lines(each, found):
                        typer.echo(redactor.text(line))
        typer.echo(_summary(found, probing.sent))
        if written is not None:
            _write(found, written, redactor)
    verdicts = {each.verdict for each in found}
    return 1 if "no longer holds" in verdicts else 0 if "holds" in verdicts else 2


def _targets(names: Sequence[str] | None, models: Sequence[str] | None, facts: Sequence[Path]) -> list[Target]:

    if not names:
        raise UsageError("--target is missing: name what is to be asked. 'harness list targets' shows them.")
    shipped = [catalog.target(name) for name in dict.fromkeys(names)]
    adapters = [catalog.adapter(name) for name in dict.fromkeys(each.adapter for each in shipped)]
    chosen = [each.name for each in shipped]
    made = targets_for(adapters, chosen, named_values("--model", models, "NAME"), edition("today", facts))
    for target in made:
        if target.adapter.route is Route.PROCESS:
            raise UsageError(f"the target {target.name!r} cannot be probed: it runs a command.")
    return made


def _check_written(path: Path | None, targets: Sequence[Target]) -> None:
    """Better known before anything is paid for."""
    if path is None:
        return
    apis = sorted({target.api for target in targets})
    if len(apis) > 1:
        raise UsageError(f"--write: a file of facts is about one API, and the targets speak {' and '.join(apis)}.")
    if path.exists():
        raise UsageError(f"--write {path}: this exists already. Name another file; --facts takes several.")
    if not path.parent.is_dir():
        raise UsageError(f"--write {path}: there is no such folder.")


def _before(asked: Sequence[FactProbe], most: int | None) -> None:
    """Say what is about to be sent."""
    requests, price, unpriced = estimate_cost(asked, most)
    source = " ".join(part for pair in price_version().items() for part in pair)
    if price is None:
        cost = "at a cost that is not known"
    else:
        cost = f"at most {money(price)}" + (f", and {unpriced} of them at a cost that is not known" if unpriced else "")
    facts = count(len({(each.target.name, each.fact.id) for each in asked}), "fact")
    typer.echo(plain(f"To be sent: at most {count(requests, 'request')} for {facts}, {cost} ({source})."), err=True)


def _lines(found: ProbeResult, so_far: Sequence[ProbeResult]) -> list[str]:
    """What is said of a fact, and before the first one of a target, of which."""
    question, target = found.question, found.question.target
    lines: list[str] = []
    if len(so_far) == 1 or so_far[-2].question.target.name != target.name:
        lines.append(f"{target.name} ({target.model}) at {shown(question.base_url)}")
    lines.append(f"  {found.verdict:15}  {question.fact.id}: {found.why}")
    if found.verdict != "holds":
        lines.append(f"    the fact: {plain(question.fact.says)}")
    if found.answer is not None and found.answer.words:
        lines.append(f"    HTTP {found.answer.status}: {plain(found.answer.words)}")
    return lines


def _summary(found: Sequence[ProbeResult], sent: int) -> str:

    of = Counter(each.verdict for each in found)
    return (
        f"{count(len(found), 'fact')}: {of['holds']} hold, {of['no longer holds']} no longer, of {of['cannot tell']} "
        f"it cannot be told. {count(sent, 'request')} sent."
    )


def _write(found: Sequence[ProbeResult], path: Path, redactor: Redactor) -> None:

    if not any(each.verdict == "no longer holds" for each in found):
        typer.echo(f"Nothing has changed, so {path} is not written.")
        return
    text = redactor.text(proposal(found[0].question.target.api, found))
    write(lambda: [text], "facts", path)
    typer.echo(f"The change of the facts is in {path}: read it, and use it with --facts {path}.")
