"""Options of `harness check`. `suite_checks`, `check_server` and `check_gateway` implement the checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

import typer

from harness.cli.app import LazyGroup, complete_scenarios
from harness.cli.options import (
    FINDINGS,
    AdapterCommands,
    AgentApi,
    AgentCommands,
    ExpectedFailures,
    GenerateOptions,
    HandsOver,
    Jobs,
    MaxRequests,
    ReportOptions,
    StrictOptions,
    TargetOptions,
    Variants,
    Words,
    argument,
    option,
)
from harness.model.errors import UsageError

GATEWAY = "The gateway and its upstreams"
MAX_WAIT_SECONDS = 3600.0
DEFAULT_WAIT_SECONDS = 60.0
DEFAULT_MAX_TOKENS = 1024


class Checks(LazyGroup):
    """Command group with one subcommand for each kind of check.

    If the kind is omitted, an argument that names a server or gateway from the settings determines it. Otherwise it is
    `adapter`.
    """

    summaries = {  # noqa: RUF012 - nothing changes it
        "adapter": "Check an adapter. This is the default: 'harness check ADAPTER'.",
        "agent": "Check a library or a program that runs its own tool loop.",
        "server": "Check the raw answers of a server.",
        "gateway": "Check what a gateway changes between its clients and its upstreams.",
    }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the kind if it is omitted."""
        if args[:1] != ["--help"] and not {*args[:1]} & {*self.summaries} and (args or not ctx.resilient_parsing):
            args = [_kind(args), *args]
        return super().parse_args(ctx, args)


check = typer.Typer(
    name="check",
    cls=Checks,
    add_completion=False,
    help="Check an adapter, an agent, a server or a gateway, and show the failures with their requests.",
)


@check.callback()
def _group() -> None:
    pass


def _kind(arguments: list[str]) -> str:
    from harness.cli.settings import settings  # noqa: PLC0415 - see `adapter`

    own = settings()
    named = {**dict.fromkeys(own.servers, "server"), **dict.fromkeys(own.gateways, "gateway")}
    return next((named[each] for each in arguments if each in named), "adapter")


@dataclass(frozen=True, kw_only=True)
class SuiteCheckOptions(GenerateOptions, TargetOptions, StrictOptions, ReportOptions):
    """Options shared by `check adapter` and `check agent`."""

    everything: Annotated[bool, option("--all", "Run the whole suite with every target of the API. Takes minutes.")] = (
        False
    )
    jobs: Jobs = None
    expected_failures: ExpectedFailures = None


@dataclass(frozen=True, kw_only=True)
class AdapterCheckOptions(SuiteCheckOptions):
    """Options of `check adapter`."""

    adapter: Annotated[str | None, argument("NAME|MODULE:ATTR", "The adapter to check.")] = None
    adapter_commands: AdapterCommands = None
    hand_over: HandsOver = False
    init: Annotated[
        Literal["python", "command"] | None,
        option(
            "--init KIND", "Write a template, my_adapter.py (python) or my_adapter.mjs (command), and check nothing."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AgentCheckOptions(SuiteCheckOptions):
    """Options of `check agent`."""

    conversation: Annotated[
        str | None,
        argument(
            "MODULE:ATTR", "A function drive(endpoint, model, conversation), or a harness.Loop (harness help loops)."
        ),
    ] = None
    agents: AgentCommands = None
    api: AgentApi = None
    init: Annotated[
        Literal["conversation", "agent"] | None,
        option("--init KIND", "Write a template, my_loop.py (conversation) or my_agent.py (agent), and check nothing."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(StrictOptions, ReportOptions):
    """Options shared by `check server` and `check gateway`.

    `name` is the endpoint's name in the settings, `table` the location of its settings. `from_table` holds the names of
    fields that the command line did not set. `variables` maps headers to environment variables. `show` is
    `Invocation.show` of the result.
    """

    api: Annotated[str | None, option("--api NAME", "API that the server or gateway offers to its clients.")] = None
    strict: Annotated[
        bool | None, option("--strict/--no-strict", "Warnings and broken conventions fail the check, too.", FINDINGS)
    ] = None
    words: Words = None
    variants: Variants = None
    expected_failures: ExpectedFailures = None
    headers: Annotated[
        list[str] | None,
        option(
            "--header 'NAME: VALUE'",
            "Header to send with each request. Its value is never shown or recorded. Repeatable.",
        ),
    ] = None
    url: str
    name: str | None = None
    table: str = ""
    from_table: frozenset[str] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    show: tuple[str, ...] = ()

    def place(self, key: str, option: str = "") -> str:
        """Return the name of a value for error messages: its key in the settings, or its option."""
        return f"{self.table}.{key}" if key.replace("-", "_") in self.from_table else f"--{option or key}"


@dataclass(frozen=True, kw_only=True)
class ServerOptions(EndpointOptions):
    """Options of `check server`."""

    url: Annotated[
        str,
        argument(
            "URL|NAME",
            "The server's base URL, as SDKs expect it (then --api and --model are required), or its name in the "
            "settings.",
        ),
    ]
    words: Annotated[str | None, option("-k EXPR", "Only checks that match: 'tools and not json'.")] = None
    models: Annotated[list[str] | None, option("--model NAME", "Model to request from the server.")] = None
    only: Annotated[
        list[str] | None,
        option("--only ID[,ID]", "Only these checks: ids that begin with server- in 'harness list rules'. Repeatable."),
    ] = None
    repeat: Annotated[int | None, option("--repeat N", "Send each request N times, for more precise rates.", min=1)] = (
        None
    )
    max_requests: MaxRequests = None
    max_tokens: Annotated[
        int | None,
        option("--max-tokens N", f"Maximum length of an answer in tokens. Default: {DEFAULT_MAX_TOKENS}.", min=64),
    ] = None
    price: Annotated[
        str | None,
        option(
            "--price IN,OUT", "US dollars per million input and output tokens. Default: the known price of the model."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class GatewayOptions(EndpointOptions):
    """Options of `check gateway`."""

    url: Annotated[
        str,
        argument(
            "URL|NAME",
            "The gateway's base URL, as SDKs expect it (then --api and --upstream are required), or its name in the "
            "settings.",
        ),
    ]
    paths: Annotated[
        list[str] | None,
        argument(
            "PATH",
            "Scenario files, folders of them, or ids of shipped scenarios. Default: a sample of the suite.",
            autocompletion=complete_scenarios,
        ),
    ] = None
    everything: Annotated[
        bool, option("--all", "Run all scenarios of the project, or the whole suite, instead of a sample.")
    ] = False
    upstreams: Annotated[
        list[str] | None,
        option("--upstream NAME", "API, or target, that the gateway forwards requests to. Repeatable."),
    ] = None
    upstream_port: Annotated[
        int | None,
        option(
            "--upstream-port N", "Port of the upstream on 127.0.0.1. Default: a free port.", GATEWAY, min=0, max=65535
        ),
    ] = None
    models: Annotated[
        list[str] | None,
        option("--model [UPSTREAM=]NAME", "The gateway's name for the model of an upstream. Repeatable.", GATEWAY),
    ] = None
    upstream_models: Annotated[
        list[str] | None,
        option(
            "--upstream-model [UPSTREAM=]NAME",
            "The model that the gateway requests from an upstream. Repeatable.",
            GATEWAY,
        ),
    ] = None
    command: Annotated[
        str | None,
        option(
            "--command COMMAND",
            "Command that runs the gateway during the check. HARNESS_UPSTREAM_URL in its environment is the "
            "upstream's URL.",
            GATEWAY,
        ),
    ] = None
    wait: Annotated[
        float | None,
        option(
            "--wait SECONDS",
            f"Time limit for the start of the gateway. Default: {DEFAULT_WAIT_SECONDS:g}.",
            GATEWAY,
            min=0.0,
            max=MAX_WAIT_SECONDS,
        ),
    ] = None
    cell_timeout: Annotated[
        float | None, option("--cell-timeout SECONDS", "Time limit for an answer of the gateway. Default: 60.", GATEWAY)
    ] = None


E = TypeVar("E", bound=EndpointOptions)


def saved_options(kind: type[E], words: Sequence[str]) -> E:
    """Return the options of the command `words`, which a run saved to repeat a check of a server or a gateway.

    Raises:
        UsageError: the check sent headers of the command line, whose values are not saved.
    """
    _, _, name, *given = words
    if "--header" in given:
        raise UsageError(_NO_HEADERS)
    group: Any = typer.main.get_command(check)
    with group.get_command(None, name).make_context(name, given) as context:
        return kind(**context.params)


_NO_HEADERS = (
    "--from: this check sent headers, and a saved run does not contain their values. Name their variables in the "
    "settings ('harness help servers'), check the server by its name there, and reproduce that run."
)


def adapter(args: AdapterCheckOptions) -> int:
    """Check an adapter against the reference server: whole and streamed answers, split streams, and faults.

    Runs a sample of the suite, in about a minute. Lists the causes of failures, shows the worst with its request, and
    names the capabilities that are declared wrongly. Exit codes as for 'harness run'.
    """
    from harness.cli import suite_checks  # noqa: PLC0415 - help and completion need the options alone

    if args.init is not None:
        return suite_checks.write_template(args.init)
    return suite_checks.check_suite(args, adapters=[args.adapter] if args.adapter else None)


def agent(args: AgentCheckOptions) -> int:
    """Check a library or a program with its own tool loop. It is judged by the requests that it sends to the reference
    server.

    Takes about a minute, like 'harness check adapter'. See 'harness help loops'. Exit codes as for 'harness run'.
    """
    from harness.cli import suite_checks  # noqa: PLC0415 - see `adapter`

    if args.init is not None:
        return suite_checks.write_template(args.init)
    return suite_checks.check_suite(args, conversations=[args.conversation] if args.conversation else None)


def server(args: ServerOptions) -> int:
    """Check the raw answers of a server. Prints the number of requests and their cost before it sends any.

    See 'harness help servers'. Exit codes as for 'harness run'.
    """
    from harness.cli.check_server import check_server  # noqa: PLC0415 - see `adapter`

    return check_server(args)


def gateway(args: GatewayOptions) -> int:
    """Check what a gateway changes: compare the traffic with its client and with its upstream, the reference server.

    See 'harness help gateways'. Exit codes as for 'harness run'.
    """
    from harness.cli.check_gateway import check_gateway  # noqa: PLC0415 - see `adapter`

    return check_gateway(args)
