"""`harness reproduce`: a stand-alone script that shows a finding, and the text of an issue."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from harness import wrappers
from harness.apis import registry
from harness.apis.server import long_fragments
from harness.checks.adapter_check import RECUTS
from harness.checks.generation import cause_key, causes_of, shrink_cause
from harness.checks.node_script import CALL_LOG, NodeProgram
from harness.checks.python_script import python_scripts
from harness.checks.reproduction import Reproduction, curl_command, issue_text, provider_fact
from harness.checks.script_code import CannotWrite, LacksAnswer, imported_modules
from harness.cli import execution
from harness.cli.app import complete_scenarios
from harness.cli.logged_run import log_calls, tool_result
from harness.cli.options import CellOptions, LoopOptions, NoColour, StrictOptions, option
from harness.cli.outputs import load_run
from harness.cli.settings import EffectiveOptions, combine_options, complete_options
from harness.cli.show import FinishedCell, run_selected_cell
from harness.model.errors import UsageError
from harness.model.http import HttpResponse
from harness.model.messages import JSON, ChatResponse, ToolCall
from harness.platform.environment import installed_version
from harness.reports.words import what_to_do
from harness.results import CellResult, DrivenTranscript, Finding, ReplayVariant, Severity
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.rule import all_rules
from harness.runner.cells import Cell
from harness.stdio import adapter_specs


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(StrictOptions, CellOptions, LoopOptions):
    """Options of `reproduce`."""

    cell: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            show_default=False,
            autocompletion=complete_scenarios,
            help="The scenario with the finding: a file, or the id of a shipped scenario.",
        ),
    ]
    rules: Annotated[
        list[str] | None, option("--rule ID", "Reproduce a finding of this rule. Default: the worst finding.")
    ] = None
    saved: Annotated[
        Path | None,
        option("--from RUN.json", "Take target, model, adapter and variant from a cell of this saved run."),
    ] = None
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder to write to; existing files are not overwritten.")
    ] = Path()
    copy_client: Annotated[
        bool,
        typer.Option("--copy-client", help="Copy the client's code into the script, to report a fault of its library."),
    ] = False
    no_colour: NoColour = False


def reproduce(args: ReproduceOptions) -> int:
    """Write a stand-alone script that shows a cell's worst finding, and the text of an issue to report it.

    Runs the cell against the reference server. The script needs only the library. It passes the recorded answers to the
    library, and compares what the library sends or returns. The script is first run here, and written only if it shows
    the finding. If harness cannot see how the adapter calls its library, it writes a `curl` command that sends the
    wrong request to the provider instead.

    Exit codes: 0 if a script or a `curl` command is written, 1 if only the issue is written, 2 for wrong usage.
    """
    rules = named = args.rules or []
    streamed = ["stream"] if args.variants == ["stream"] else []
    recuts = RECUTS
    if args.saved is not None:
        args, failed, recuts = _from_run(args, args.saved)
        rules = rules or failed
    any_variant = not args.variants
    options = complete_options(combine_options(args, paths=[args.cell], jobs="1", rules=None), "reference")
    with execution.environment("reference"), tempfile.TemporaryDirectory() as folder:
        log = os.environ[CALL_LOG] = str(Path(folder) / "calls.jsonl")
        smaller = partial(_smaller, rules, Path(log))
        repeated = recuts if _RECUT in rules else 0
        finished = run_selected_cell(options, "reference", any_variant=any_variant, recuts=repeated, smaller=smaller)
        finding = _finding(finished, rules)
        spec = (options.adapters or [finished.cell.target.adapter.name])[0]
        made = _reproduction(finished, finding, spec, options, copied=args.copy_client)
        program = _node_program(finished, spec, Path(log))
    name = re.sub(r"\W+", "_", "_".join(("reproduce", finished.cell.scenario.id, *streamed, *named)))
    typer.echo(f"{finding.message} ({finding.rule})")
    kind = ".py" if program is None else ".mjs"
    script, printed, reason = _first_shown(made, f"{name}{kind}", program)
    wire = registry.api(finished.cell.target.api)
    curl = "" if script or (made.calls and not made.is_agent) or program is not None else curl_command(made, wire)
    texts = {
        kind: script,
        ".sh": curl,
        ".md": issue_text(made, printed, script or curl, kind.strip(".") if script else "sh"),
    }
    written, *others = [_write(args.output / f"{name}{kind}", text) for kind, text in texts.items() if text]
    typer.echo(f"Written: {', '.join(map(str, (written, *others)))}")
    if not script:
        typer.echo(f"No script of the library's call: {reason}")
        if made.finding.rule != _RECUT:
            typer.echo(f"The requests and answers: {_show_command(finished, spec, options)}")
        return 0 if curl else 1
    runner = Path(sys.executable).name if program is None else "node"
    typer.echo(f"Run where the library is installed: {shlex.join([runner, str(written)])}")
    typer.echo(f"It was run here: {printed.splitlines()[-1]}")
    return 0


_RECUT = "stream-recut"
"""Rule about streams that arrive in other chunks."""


def _from_run(args: ReproduceOptions, file: Path) -> tuple[ReproduceOptions, list[str], int]:
    """Return the options that replay a cell of a saved run with an error or a warning, and the rules of the worst
    findings. Also return the number of other chunk boundaries with which the run repeated streams.
    """
    run = load_run(file, "--from")
    cells = [each for each in run.cells if each.scenario == args.cell and _worst(each.findings, args.rules)]
    cells = [each for each in cells if each.variant in (args.variants or [each.variant])]
    cells = [each for each in cells if each.target in (args.targets or [each.target])]
    if not cells:
        raise UsageError(f"--from {file}: it has no cell of {args.cell!r} with an error or a warning.")
    words = [*run.invocation.targets.get(cells[0].target, ("--target", cells[0].target))]
    given: dict[str, list[str]] = {each: [] for each in _NAMING}
    for name, value in zip(words[::2], words[1::2], strict=False):
        field = "agents" if name == "--agent-command" else f"{name.removeprefix('--').replace('-', '_')}s"
        if field not in given:
            raise UsageError(f"--from {file}: {name} of this run is not an option of reproduce.")
        given[field].append(value)
    provenance = cells[0].provenance
    if provenance is not None and provenance.model_requested:  # a trial runs some cells with another model
        given["models"] = [f"{(given['targets'] or [cells[0].target])[0]}={provenance.model_requested}"]
    chosen: dict[str, Any] = {name: values or None for name, values in given.items()}
    scenario = run.invocation.scenarios.get(args.cell, args.cell)
    failed = [each.rule for each in _worst(cells[0].findings, None)]
    recuts = int(next(iter(run.invocation.recut[1:]), RECUTS))
    return replace(args, cell=scenario, variants=[cells[0].variant], **chosen), failed, recuts


_NAMING = ("adapters", "adapter_commands", "conversations", "agents", "targets", "models")
"""Options of a run that name an adapter, a tool loop, a target or a model."""


def _show_command(finished: FinishedCell, spec: str, options: EffectiveOptions) -> str:
    """Return the command that shows the requests and answers of a cell."""
    given = {"--target": options.targets, "--model": options.models}
    named = [word for name, values in given.items() for each in values or () for word in (name, each)]
    words = ["--mode", "reference", "--variant", finished.cell.variant, *(options.paths or ())]
    return shlex.join(["harness", "show", *words, *adapter_specs.option_for(spec), *named])


def _worst(findings: Sequence[Finding], rules: Sequence[str] | None) -> list[Finding]:
    """Return the findings that make a cell fail, or else its warnings, without those that follow from others. With
    `rules`, consider only findings of these rules.
    """
    own = [each for each in findings if each.rule in (rules or [each.rule]) and each.accepted is None]
    found = [each for each in own if each.fails] or [each for each in own if each.severity is Severity.WARNING]
    return [each for each in found if each.follows is None] or found


def _finding(finished: FinishedCell, rules: Sequence[str]) -> Finding:
    """Return the worst finding of a cell, which is an error or a warning. With `rules`, consider only findings of these
    rules. Raises `UsageError`.
    """
    wrong = _worst(finished.result.findings, rules)
    if not wrong or finished.evidence is None:
        named = f" of the rule {' or '.join(rules)}" if rules else ""
        raise UsageError(
            f"{finished.cell.scenario.id}: this cell has no error and no warning{named}. 'harness show' prints its "
            "findings."
        )
    return wrong[0]


def _smaller(
    rules: Sequence[str], log: Path, finished: FinishedCell, run_cell: Callable[[Cell], FinishedCell]
) -> FinishedCell:
    """Return the cell, replayed with the smallest scenario found that still has the finding. That scenario must not
    cause new failures.

    A cell whose stream lost a call is not reduced: the calls that are left show how the client returns a call.
    """
    finding, cell = _finding(finished, rules), finished.cell
    key = cause_key(finding)
    if cell.variant == "stream" and finding.rule == "response-calls":
        return finished

    def result(tried: Cell) -> CellResult:
        log.unlink(missing_ok=True)  # it has the calls of one run
        return run_cell(tried).result

    with long_fragments():
        is_seen = key in causes_of(result(cell))
    with long_fragments() if is_seen else contextlib.nullcontext():
        found = shrink_cause(cell, key, result, words=False, seconds=_REDUCTION_SECONDS)
        log.unlink(missing_ok=True)
        return run_cell(replace(cell, scenario=found.scenario))


_REDUCTION_SECONDS = 8.0


def _reproduction(
    finished: FinishedCell, finding: Finding, spec: str, options: EffectiveOptions, *, copied: bool
) -> Reproduction:
    cell = finished.cell
    parsed_exchanges, recut = (
        () if finished.evidence is None else finished.evidence.parsed_exchanges,
        _recut(finished, finding),
    )
    if recut is not None:
        parsed_exchanges = _with_responses(parsed_exchanges, recut.responses)
    found = _wrapper(spec)
    logged = log_calls(cell, spec, parsed_exchanges)
    client, is_agent = _client_module(spec), adapter_specs.recognised_loop(spec) is not None
    imported = _imported_packages(client, cell.target.api) if client is not None else []
    has_own_url = adapter_specs.client_url(spec) is not None or (is_agent and not logged.takes_url)
    is_alone = copied or (client is not None and "site-packages" in str(client.__file__))
    return Reproduction(
        (_user_code(spec) or adapter_specs.option_for(spec)[1])
        if found is None
        else f"{found[0].library}-{found[1].lower()}",
        client if copied and client is not None else _module(spec),
        _packages(*found) if found is not None else imported if is_alone else [],
        _versions(found, cell.target.api, imported, logged.agent),
        logged.origin,
        _base_path(spec, registry.api(cell.target.api).base_path),
        finding,
        parsed_exchanges,
        logged.calls,
        logged.results,
        isinstance(getattr(finished.evidence, "transcript", None), DrivenTranscript),
        provider_fact(finding, cell.target.api, parsed_exchanges),
        what_to_do(finding),
        options.as_of or dt.date.today().isoformat(),  # noqa: DTZ011 - the user's day
        _redirects(logged.agent) if has_own_url else [],
        registry.api(cell.target.api).key_variables if found is None else (),
        partial(_is_mended, finished, finding),
        _response(finished, finding, recut),
        cell.scenario.model_dump(mode="json", by_alias=True),
        is_agent,
    )


def _recut(finished: FinishedCell, finding: Finding) -> ReplayVariant | None:
    """Return the variant of the streams whose result differs, as a finding of `stream-recut` reports, or `None`."""
    variants = () if finished.evidence is None else finished.evidence.transcript.replay_variants
    found = (each for each in variants if each.responses and f"({each.way})" in finding.message)
    return next(found, None) if finding.rule == _RECUT else None


def _with_responses(
    parsed_exchanges: Sequence[ParsedExchange], responses: Sequence[HttpResponse]
) -> list[ParsedExchange]:
    """Return the exchanges with other streams, which mean the same."""
    left = iter(responses)
    return [
        replace(each, exchange=replace(each.exchange, response=each.exchange.response and next(left, None)))
        for each in parsed_exchanges
    ]


def _response(finished: FinishedCell, finding: Finding, recut: ReplayVariant | None) -> ChatResponse | None:
    """Return the adapter's response for the exchange of a finding, or `None`."""
    if finished.evidence is None or finding.exchange is None:
        return None
    transcript = finished.evidence.transcript
    chat, chats = transcript.exchanges[finding.exchange].chat, transcript.chats if recut is None else recut.chats
    return chats[chat].response if chat is not None and chat < len(chats) else None


def _is_mended(finished: FinishedCell, finding: Finding, body: JSON) -> bool:
    """Return whether the finding disappears if the wrong request has this body instead."""
    transcript, at = getattr(finished.evidence, "transcript", None), finding.exchange
    if transcript is None or at is None:
        return False
    exchange = transcript.exchanges[at]
    changed = replace(exchange, request=replace(exchange.request, body=json.dumps(body).encode()))
    exchanges = (*transcript.exchanges[:at], changed, *transcript.exchanges[at + 1 :])
    evidence = Evidence(replace(transcript, exchanges=exchanges))
    found = ((flaw.rule or rule.id, flaw.exchange) for rule in all_rules() for flaw in rule.check(evidence))
    return (finding.rule, at) not in found


def _wrapper(spec: str) -> tuple[wrappers.Wrapper, str] | None:
    """Return the wrapper that a specification names, and its attribute."""
    programs = [each for each in wrappers.WRAPPERS if isinstance(each, wrappers.NodeWrapper)]
    commands = {each.spec(attribute): (each, attribute) for each in programs for attribute in each.imports}
    return commands.get(spec) or wrappers.find(spec)


def _node_program(finished: FinishedCell, spec: str, log: Path) -> NodeProgram | None:
    """Return the program of a wrapper for Node, with the calls that it made."""
    found = _wrapper(spec)
    if found is None or not isinstance(found[0], wrappers.NodeWrapper) or not log.exists():
        return None
    calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    results: defaultdict[str, list[JSON]] = defaultdict(list)
    transcript = None if finished.evidence is None else finished.evidence.transcript
    for each in transcript.runs if isinstance(transcript, DrivenTranscript) else ():
        result = tool_result(finished.cell.scenario, ToolCall("", each.name, each.arguments), each.answers)
        results[each.name].append(f"Error: {result.text}" if result.is_error else result.text)
    return NodeProgram(Path(found[0].module), found[1].lower(), calls, results)


def _first_shown(made: Reproduction, file: str, program: NodeProgram | None) -> tuple[str, str, str]:
    """Run the possible scripts. Return the first one that shows the finding, with its output, or else the reason why
    there is none.
    """
    if not made.calls and program is None and made.owns_loop:
        return "", "", "for programs, harness writes none."
    if not made.calls and program is None:
        return "", "", f"how {made.subject} calls its library is not known ('harness help try')."
    reason = ""
    try:
        for script in program.scripts(made, file) if program is not None else python_scripts(made, file):
            beside = None if program is None else Path.cwd()  # Node looks for packages in the folders above a script
            with tempfile.TemporaryDirectory(dir=beside) as folder:
                (Path(folder) / file).write_text(script, encoding="utf-8")
                printed = _output(Path(folder) / file)
            last = printed.splitlines()[-1]
            if last.startswith("AssertionError") and (shown := _with_exception(script, printed, made.finding)):
                return shown, printed, ""
            reason = reason or f"without harness, the fault is not seen. The last line of the script's output: {last}"
    except CannotWrite as unknown:
        reason = f"an argument of the library's call cannot be written as code: {unknown}."
    except LacksAnswer:
        reason = "the client returns nothing that a script could send back with the state that is lost."
    return "", "", reason or "the finding has no value that a script could compare."


def _with_exception(script: str, printed: str, finding: Finding) -> str:
    """Return the script, extended to re-raise any exception whose type differs from the one in its output.

    A script that printed no exception is unchanged. Return an empty text if the exception is probably a fault of the
    script itself.
    """
    raised = re.search(r"^raised: (\w+)\(", printed, re.MULTILINE)
    check = re.search(r"^assert (error is None|received),", script, re.MULTILINE)
    if check is None or raised is None:
        return script
    name = raised[1]
    if name in _SCRIPT_FAULTS and name not in finding.message:
        return ""
    failed = "error is not None" if check[1] == "error is None" else "not received"
    other = f"if {failed} and type(error).__name__ != {name!r}:\n    raise error\n"
    return script[: check.start()] + other + script[check.start() :]


_SCRIPT_FAULTS = ("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "TypeError", "IndexError")
"""Exceptions that a bug in the script itself may cause."""


def _module(spec: str) -> ModuleType | None:
    """Return the module of a wrapper or a third-party adapter, or `None` for anything else."""
    found = _wrapper(spec)
    name = spec.rsplit(maxsplit=1)[-1].partition(":")[0] if found is None else found[0].module
    is_own = found is not None or (":" in spec and _user_code(spec) is None)
    return import_module(name) if is_own and not spec.startswith("$") else None


def _packages(wrapper: wrappers.Wrapper, attribute: str) -> list[str]:
    """Return the distributions of an adapter, with the versions that are installed."""
    if isinstance(wrapper, wrappers.NodeWrapper):
        return [f"{each}@{wrapper.version(each)}" for each in wrapper.imports[attribute]]
    used = {each.partition(".")[0] for each in wrapper.imports[attribute]}
    provides = packages_distributions()
    needed = {name for package in used for name in provides.get(package, [])}
    return [
        f"{each.split('>')[0].split('<')[0]}=={number}"
        for each, name in zip(wrapper.tried, wrapper.distributions, strict=True)
        if name in needed and (number := wrapper.version(name)) is not None
    ]


_SDKS = {"openai-chat": "openai", "openai-responses": "openai", "anthropic": "anthropic", "gemini": "google-genai"}
_AGENT = re.compile(r"(?:python-)?([A-Za-z][\w.-]*)/(?:Python )?([\d.]+)")


def _user_code(spec: str) -> str | None:
    """Return the client or the agent that harness recognises, as `module:attribute`, or `None` for anything else."""
    return adapter_specs.client_of(spec) or adapter_specs.recognised_loop(spec)


def _client_module(spec: str) -> ModuleType | None:
    """Return the module of a client or an agent in Python that harness recognises."""
    client = _user_code(spec)
    return import_module(client.partition(":")[0]) if client is not None else None


def _imported_packages(module: ModuleType, api: str) -> list[str]:
    """Return the distributions that contain a module or, if there are none, those that it imports. They are pinned
    requirements, with the SDK's extra.
    """
    provides = packages_distributions()
    own = provides.get(module.__name__.partition(".")[0], [])
    names = own or [each for name in imported_modules(module) for each in provides.get(name, [])]
    sdk = _SDKS.get(api, "")
    needs_sdk = any(re.match(rf"{sdk}\b", each) for name in names for each in requires(name) or () if sdk)
    names += [sdk] if needs_sdk and installed_version(sdk) else []
    return [f"{each}{_sdk_extra(each, sdk)}=={installed_version(each)}" for each in dict.fromkeys(names)]


def _sdk_extra(distribution: str, sdk: str) -> str:
    """Return the extra of a distribution that installs an SDK, such as `[openai]`."""
    wanted = re.compile(rf"{re.escape(sdk)}\b[^;]*;.*extra == ['\"]([\w-]+)")
    found = filter(None, map(wanted.match, requires(distribution) or ()))
    return next((f"[{each[1]}]" for each in found), "") if sdk else ""


def _versions(
    found: tuple[wrappers.Wrapper, str] | None, api: str, imported: Sequence[str], agent: str
) -> dict[str, str]:
    """Return the installed versions of a library and its SDK, or of a client's imports, and of Python or Node."""
    if found is not None and isinstance(found[0], wrappers.NodeWrapper):
        command = [shutil.which("node") or "node", "--version"]
        node = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
        return {**found[0].installed, "Node": node.removeprefix("v")}
    if found is None:
        packages = [re.sub(r"\[.*\]", "", each).split("==") for each in imported]
        known = dict[str, str](packages) or dict(_AGENT.findall(agent))
        return {**known, "Python": sys.version.split()[0]}
    names = [*(each.partition("==")[0].partition("[")[0] for each in _packages(*found)), _SDKS.get(api, "")]
    known = {name: number for name in names if name and (number := installed_version(name))}
    return known | {"Python": sys.version.split()[0]}


def _base_path(spec: str, own: str) -> str:
    path, url = adapter_specs.client_path(spec), adapter_specs.client_url(spec)
    if url is not None:
        return own if urlsplit(url).path else ""
    return own if path is None else path.rstrip("/")


def _redirects(agent: str) -> list[str]:
    """Return the HTTP libraries that a client with a fixed base URL may use, the most probable first."""
    loaded = [each for each in ("httpx2", "httpx", "aiohttp", "urllib3", "http.client") if each in sys.modules]
    agents = {"urllib/": ["http.client"], "requests/": ["urllib3"], "/Python": loaded[:2]}  # `/Python`: SDKs
    found = next((names for text, names in agents.items() if text in agent), None)
    named = [each for each in loaded if f"{each}/" in agent]
    if found is not None or named not in ([], ["httpx2"]):  # a request without an agent gets that of httpx2 here
        return found or named
    return [*dict.fromkeys([*named, "http.client", *loaded])]


def _output(script: Path) -> str:
    """Run a script and return its output, without the lines of a traceback."""
    nowhere = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9")  # no provider is reached by mistake
    environment = {
        **os.environ,
        **nowhere,
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
    }
    is_node = script.suffix == ".mjs"
    command = ["node", str(script)] if is_node else [sys.executable, script.name]
    try:
        done = subprocess.run(  # noqa: S603 - a file that was just written
            command,
            cwd=script.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_TIMEOUT_SECONDS:g} seconds."
    lines = done.stderr.strip().splitlines() or [""]
    failed = (f"AssertionError: {each.partition(': ')[2]}" for each in lines if each.startswith("AssertionError"))
    ended = next(failed, lines[-1]) if done.returncode else "the script ended normally"
    return f"{done.stdout.strip()}\n{ended}".strip()


_TIMEOUT_SECONDS = 60.0


def _write(file: Path, text: str) -> Path:
    if file.exists():
        raise UsageError(f"{file}: it exists. Remove it, or name another folder by --output.")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
