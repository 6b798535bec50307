"""`harness check`: an adapter or an agent through the reference suite, a server, or a gateway; and its scorecard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from harness.checking import starters
from harness.checking.adapter_check import RECUTS, AdapterCheck
from harness.cli.app import LazyGroup
from harness.cli.options import (
    AdapterCommands,
    AgentCommands,
    ExpectedFailures,
    Jobs,
    Judged,
    Options,
    Reported,
    SpokenApi,
    Targeted,
    combined,
)
from harness.cli.run import play_check
from harness.cli.settings import adapters, settings
from harness.contract.errors import UsageError


class Checks(LazyGroup):
    """The kinds of code under test. Without one it is the server or gateway that settings name, or an adapter."""

    summaries = {  # noqa: RUF012 - nothing changes it
        "adapter": "Check an adapter; the same as 'harness check TARGET'.",
        "agent": "Check a library or a program that owns its tool loop.",
        "server": "Check a server by its raw answers.",
        "gateway": "Check what a gateway makes of what passes it, seen from both ends.",
    }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the kind that is left out."""
        if args[:1] != ["--help"] and not {*args[:1]} & {*self.summaries} and (args or not ctx.resilient_parsing):
            args = [_kind(args), *args]
        return super().parse_args(ctx, args)


check = typer.Typer(
    name="check",
    cls=Checks,
    add_completion=False,
    help="Check an adapter, an agent, a server or a gateway: what holds, what breaks, and by which request.",
)


@check.callback()
def _group() -> None:
    pass


def _kind(arguments: list[str]) -> str:
    own = settings()
    named = {**dict.fromkeys(own.servers, "server"), **dict.fromkeys(own.gateways, "gateway")}
    return next((named[each] for each in arguments if each in named), "adapter")


@dataclass(frozen=True, kw_only=True)
class _SuiteOptions(Reported, Judged, Targeted):
    """The options that `check adapter` and `check agent` share."""

    everything: Annotated[
        bool, typer.Option("--all", help="The whole suite, and every target of the API; takes minutes.")
    ] = False
    jobs: Jobs = None
    expected_failures: ExpectedFailures = None


@dataclass(frozen=True, kw_only=True)
class AdapterOptions(_SuiteOptions):
    """The options of `check adapter`."""

    adapter: Annotated[
        str | None, typer.Argument(metavar="NAME|module:attribute", show_default=False, help="The adapter to check.")
    ] = None
    adapter_commands: AdapterCommands = None
    init: Annotated[
        Literal["python", "command"] | None,
        typer.Option(
            help="Write a file to begin with, my_adapter.py or my_adapter.mjs, and check nothing.", show_default=False
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AgentOptions(_SuiteOptions):
    """The options of `check agent`."""

    conversation: Annotated[
        str | None,
        typer.Argument(
            metavar="module:attribute",
            show_default=False,
            help="A function drive(endpoint, model, conversation), or a harness.Loop (harness help loops).",
        ),
    ] = None
    agents: AgentCommands = None
    api: SpokenApi = None
    init: Annotated[
        Literal["conversation", "agent"] | None,
        typer.Option(
            help="Write a file to begin with, my_loop.py or my_agent.py, and check nothing.", show_default=False
        ),
    ] = None


def adapter(typed: AdapterOptions) -> int:
    """Check an adapter against the reference server: whole, streamed, cut elsewhere, with faults, as far as declared.

    Within a minute, from a sample of the suite. Says what holds, what breaks and by which request, which capabilities
    work though undeclared, and which are declared and do not. Exit codes as for 'harness run'.
    """
    if typed.init is not None:
        return _begin(typed.init)
    return _play(typed, combined(typed, adapters=[typed.adapter] if typed.adapter else None))


def agent(typed: AgentOptions) -> int:
    """Check a library or a program that owns its tool loop, by what it sends to the reference server.

    Within a minute, as 'harness check adapter'. 'harness help loops' has more. Exit codes as for 'harness run'.
    """
    if typed.init is not None:
        return _begin(typed.init)
    return _play(typed, combined(typed, conversations=[typed.conversation] if typed.conversation else None))


def _play(typed: _SuiteOptions, options: Options) -> int:
    chosen = options.adapters or adapters(settings())
    if len(chosen) != 1:
        several = f" The project has {len(chosen)}: {', '.join(chosen)}." if chosen and not options.adapters else ""
        raise UsageError(
            "name one adapter, as package.module:ADAPTER or by --adapter-command 'node adapter.mjs'; or what owns its "
            "tool loop, by harness check agent module:drive or --agent-command './agent'. 'harness help adapters' and "
            f"'harness help loops' say what these are.{several}"
        )
    streamed = not typed.variants or "stream" in typed.variants
    how = replace(options, adapters=chosen, jobs=typed.jobs or "auto", recuts=RECUTS if streamed else 0)
    return play_check(how, AdapterCheck(typed.everything, bool(typed.targets)))


def _begin(kind: str) -> int:
    file, command = starters.write_starter(kind, Path())
    typer.echo(f"{file} is written. Check it: {command}")
    return 0
