"""Plays a scenario with a broken adapter, or with the shipped one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import is_dataclass, replace

import harness.apis.view
import harness.model.errors
import harness.model.messages
import harness.results
import harness.rules.evidence
from harness.results import CellResult, Finding, Transcript
from harness.rules.evidence import Evidence
from harness.rules.rule import all_rules
from harness.runner.backends import Backend
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from harness.runner.tool_loop import run_scenario
from harness.scenarios.schema import Variant
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.broken.fault import Wrap

RULES = all_rules()


def cell(scenario: str, target: str, wrap: Wrap | None = None, variant: Variant = "whole") -> Cell:
    """A cell of the shipped adapter, or of what `wrap` makes of it."""
    shipped = shipped_targets()[target]
    chosen = shipped if wrap is None else replace(shipped, adapter=wrap(shipped.adapter))
    return Cell(shipped_scenarios()[scenario], chosen, variant)


def run_cell(
    scenario: str,
    target: str,
    wrap: Wrap | None = None,
    backend: Backend | None = None,
    *,
    variant: Variant = "whole",
    recuts: int = 0,
) -> CellResult:
    """The result of one cell, from the backend without sockets if no other is given."""
    run = Run(backend or InProcess(), RULES, recuts=recuts, strict=True)
    return run([cell(scenario, target, wrap, variant)]).cells[0]


def audited(scenario: str, target: str, wrap: Wrap | None = None) -> list[Finding]:
    """What the rules say of the exchanges alone, as of somebody else's recording."""
    one = cell(scenario, target, wrap)
    with InProcess().open_cell(one) as environment:
        run_scenario(one.scenario, one.target, environment.endpoint, lambda _: None)
    made = one.target
    exchanges = tuple(replace(exchange, chat=None) for exchange in environment.log.exchanges)
    evidence = Evidence(Transcript(made.api, made.model, made.profile, exchanges, "audit"))
    return [finding for rule in RULES for finding in rule.findings(evidence)]


_OURS = sorted(
    name
    for module in (
        harness.model.messages,
        harness.results,
        harness.apis.view,
        harness.rules.evidence,
        harness.model.errors,
    )
    for name, value in vars(module).items()
    if isinstance(value, type) and is_dataclass(value)
)
_PYTHON = re.compile(rf"\b(?:{'|'.join(_OURS)})(?:\(|')|<[A-Z]\w+\.[A-Z_]+: ")


def in_python(findings: Iterable[Finding]) -> list[str]:
    """What of the findings' texts is a structure of ours as Python writes it, and so is for nobody else."""
    texts = [json.dumps([f.message, f.actual, f.expected, f.piece], ensure_ascii=False) for f in findings]
    return [text for text in texts if _PYTHON.search(text)]


def said(findings: Iterable[Finding]) -> str:
    """Findings, one a line."""
    return "\n".join(f"{f.rule} {f.severity} {f.blame} {f.exchange} {f.pointer!r}: {f.message}" for f in findings)
