"""The reference server's answers in generated conversations, read by the wire reader and checked as a server's.

    python -m tests.hardness.test_scripted_answers [TARGET...] [--count N] [--seed S]

Each answer keeps the API's promises, and the reader finds the scripted text, calls and stop reason in it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.view import Provocation, ResponseView
from harness.cassettes.transport import Handler
from harness.model.http import HttpRequest, HttpResponse
from harness.reference_server.script_session import ScriptSession
from harness.runner.cells import Cell
from harness.runner.tool_loop import run_scenario
from harness.scenarios.schema import StepSpec
from tests.backends import InProcess, generated_cell, shipped_targets
from tests.broken.fault import ALL

Edit = Callable[[HttpResponse], HttpResponse]


def problems(target: str, seed: str, edit: Edit = lambda response: response) -> Iterator[str]:
    """What is wrong in the reference server's answers of one generated conversation, each changed by `edit`."""
    variant = ("whole", "stream")[int(seed.rpartition("/")[2]) % 2]
    cell = generated_cell(shipped_targets()[target], seed, variant)
    wire = registry.api(cell.target.api)
    script = [step for turn in cell.scenario.turns for step in turn.model]
    failing = {fault.answer for fault in cell.scenario.faults if fault.connection != "slow"}
    found: list[str] = []

    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        answer = cast("ScriptSession", session).answer(request)
        if answer.index is not None and answer.index not in failing:
            found.extend(_of_answer(wire, request, edit(answer.response), script[answer.index], cell))
        return answer.response

    with InProcess(provider).open_cell(cell) as environment:
        run_scenario(cell.scenario, cell.target, environment.endpoint, lambda _: None, cell.variant)
    yield from (f"{target} {seed} ({cell.variant}): {each}" for each in found)


def _of_answer(wire: Api, request: HttpRequest, response: HttpResponse, step: StepSpec, cell: Cell) -> Iterator[str]:
    check = wire.check_response
    assert check is not None
    is_broken = step.truncated and step.stop is not None
    if Provocation.EMPTY_ARGUMENTS in cell.scenario.provocations or is_broken:  # the arguments are meant to be no JSON
        check = None
    for violation in check(response, wire.view(request)) if check else ():
        yield f"{violation.rule.id}: {violation.message} {violation.pointer}"
    read = wire.read(response)
    if read.error or not read.complete:
        yield f"no whole answer: {read.error}"
    yield from _differences(read, step, cell)


def _differences(read: ResponseView, step: StepSpec, cell: Cell) -> Iterator[str]:
    if read.text != (step.text or "") and not step.raw:
        yield f"the text {read.text!r} instead of {step.text!r}"
    calls = [(call.name, call.arguments) for call in read.calls if call.malformed is None]
    if calls != [*step.whole_calls] and not step.raw:
        yield f"the calls {calls} instead of {step.whole_calls}"
    if step.stop is not None and not step.truncated and read.stop_reason is not step.stop:
        yield f"the stop reason {read.stop_reason} instead of {step.stop}"


@pytest.mark.parametrize("target", ALL)
def test_the_answers_are_as_scripted(target: str) -> None:
    assert [each for number in range(12) for each in problems(target, f"6/{number}")] == []


def test_a_wrong_answer_is_noticed() -> None:
    def without_calls(response: HttpResponse) -> HttpResponse:
        return replace(response, body=response.body.replace(b'"tool_calls": [', b'"other": ['))

    found = "\n".join(
        each for number in range(0, 12, 2) for each in problems("openai-chat", f"6/{number}", without_calls)
    )
    assert "the calls [] instead of" in found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hardness.test_scripted_answers")
    parser.add_argument("targets", nargs="*", default=ALL)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", default="0")
    options = parser.parse_args()
    failed = 0
    for target in options.targets:
        found = [each for number in range(options.count) for each in problems(target, f"{options.seed}/{number}")]
        failed += len(found)
        sys.stdout.write("\n".join([*found[:20], f"{target}: {options.count} conversations, {len(found)} problems\n"]))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
