"""Runs of an adapter in this process that log its calls, for `harness reproduce`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from harness import bridge
from harness.apis import registry
from harness.bridge.call_log import LoggedCall, logged_calls
from harness.cassettes.client_patches import intercept_requests
from harness.cassettes.loopback_server import serve
from harness.checks.program_redirection import service_of
from harness.checks.script_code import RawCode
from harness.checks.single_call import call_with_texts
from harness.kit.thread import failure
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import ToolCall, ToolResult
from harness.model.protocols import Endpoint
from harness.platform.environment import added_variables
from harness.rules.evidence import ParsedExchange
from harness.runner.backends import NO_KEY
from harness.runner.cells import Cell, conversation_for, with_final_calls
from harness.runner.tool_loop import run_scenario
from harness.scenarios.canonical import MissingResult, ToolFailure, UnknownTool, answer, called_before
from harness.scenarios.schema import Scenario
from harness.stdio import adapter_specs


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """Calls of an adapter, the results of a loop's tools by name, the server's address and the client's user agent."""

    calls: Sequence[LoggedCall] = ()
    results: Mapping[str, Sequence[object]] = field(default_factory=dict[str, Sequence[object]])
    origin: str = ""
    agent: str = ""

    @property
    def takes_url(self) -> bool:
        """Return whether a call got the server's address."""
        given = [value for each in self.calls for value in (*each.args, *each.kwargs.values())]
        return any(isinstance(each, str) and each.startswith(self.origin) for each in given)


def log_calls(cell: Cell, spec: str, exchanges: Sequence[ParsedExchange]) -> LoggedRun:
    """Run the adapter once more in this process, with the same answers."""
    if spec.startswith(adapter_specs.COMMAND_PREFIX):
        return LoggedRun()
    given = [each.exchange.response for each in exchanges if each.exchange.response is not None]
    sent = list[HttpRequest]()
    recorded: defaultdict[str, list[object]] = defaultdict(list)

    def respond(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        return given[min(len(sent), len(given)) - 1]

    def run_tool(call: ToolCall) -> ToolResult:
        result = tool_result(scenario, call, len(sent))
        content = result.text if as_text else result.content
        recorded[call.name].append(RawCode(f"ToolFailed({result.text!r})") if result.is_error else content)
        return result

    adapter = adapter_specs.adapter(spec)
    module = inspect.getmodule(getattr(adapter.drive, "func", adapter.drive))
    is_agent = adapter_specs.recognised_loop(spec) is not None
    as_text = module is not None and ".call(" not in inspect.getsource(module)
    scenario = with_final_calls(cell.scenario, adapter.final_call) if adapter.final_call else cell.scenario
    with serve(respond) as server, logged_calls(lambda: len(sent)) as calls, contextlib.suppress(Exception):
        endpoint = Endpoint(server.origin + registry.api(cell.target.api).base_path, NO_KEY)
        if adapter.drive is None:
            run_scenario(scenario, replace(cell.target, adapter=adapter), endpoint, lambda _: None, cell.variant)
        elif is_agent:  # which logs its calls itself
            adapter.drive(endpoint, cell.target.model, conversation_for(scenario, cell.variant, run_tool))
        else:
            conversation = conversation_for(scenario, cell.variant, run_tool)
            _drive(adapter.drive, endpoint, cell.target.model, conversation)
    results = _results_of_answers(scenario, exchanges) if is_agent else recorded
    return LoggedRun(calls, results, server.origin, _user_agent(sent))


def log_single_call(
    spec: str,
    model: str,
    texts: Sequence[str],
    variables: Callable[[str], Mapping[str, str]],
    responses: Sequence[HttpResponse],
) -> LoggedRun:
    """Call a client in this process with each text, as `call_with_texts` does, and give it these responses.

    `variables` returns the environment variables to set for the server's address. Requests to providers go to the
    server, too.
    """
    sent = list[HttpRequest]()

    def respond(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        return responses[min(len(sent), len(responses)) - 1]

    def redirect(request: HttpRequest) -> HttpResponse | None:
        return None if service_of(request.url) is None else respond(request)

    with (
        serve(respond) as server,
        logged_calls(lambda: len(sent)) as calls,
        intercept_requests(redirect),
        added_variables(variables(server.origin)),
        contextlib.suppress(Exception, SystemExit),
    ):
        call_with_texts(spec, model, server.origin, texts, calls)
    return LoggedRun(calls, {}, server.origin, _user_agent(sent))


def _user_agent(sent: Sequence[HttpRequest]) -> str:
    headers = {name.lower(): value for name, value in sent[0].headers.items()} if sent else {}
    return headers.get("user-agent", "")


def _drive(drive: Any, *arguments: object) -> None:
    function, given = (drive.func, drive.args) if isinstance(drive, functools.partial) else (drive, ())
    running = bridge.call(cast("Callable[..., object]", function), *cast("tuple[object, ...]", given), *arguments)
    if inspect.iscoroutine(running):
        asyncio.run(running)


def tool_result(scenario: Scenario, call: ToolCall, answers: int) -> ToolResult:
    """Return the scenario's result for a tool call. The model has given `answers` answers so far."""
    try:
        return answer(scenario, call, called_before(scenario, answers - 1))
    except (ToolFailure, UnknownTool, MissingResult) as raised:
        return failure(call, raised)


def _results_of_answers(scenario: Scenario, exchanges: Sequence[ParsedExchange]) -> dict[str, list[object]]:
    """Return the results of the calls in the answers, by name. Mended code also runs the calls that faulty code
    omits.
    """
    results = dict[str, list[object]]()
    for place, each in enumerate(exchanges):
        for made in each.response.calls if each.response is not None else ():
            if made.malformed is None:
                call = ToolCall(made.id or "", made.name, cast("Any", made.arguments))
                results.setdefault(made.name, []).append(tool_result(scenario, call, place + 1))
    return results
