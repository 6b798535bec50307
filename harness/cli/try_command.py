"""`harness try`: find the worst defects of a client, library, tool loop, program or server within seconds."""

from __future__ import annotations

import difflib
import re
import shlex
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from harness import wrappers
from harness.apis import registry
from harness.apis.response_rules import RESPONSE_RULES
from harness.cassettes.loopback_server import serve
from harness.checks.adapter_check import AdapterCheck, PlayCells, first_target_cells
from harness.checks.recognition import (
    EndedProgram,
    Recognition,
    keyless_environment,
    missing_variable,
    program_variables,
    recognise,
    run_program,
    variable_question,
)
from harness.cli.check import GatewayOptions, ServerOptions
from harness.cli.execution import Execution, play_check
from harness.cli.generating import generate, is_generated
from harness.cli.main import STARTED, print_error
from harness.cli.options import GenerateOptions, NoColour, argument, option
from harness.cli.outputs import on_screen
from harness.cli.serve import variables_for
from harness.cli.settings import combine_options, fact_options
from harness.cli.suite_checks import accepting_model, exceeded_limit, other_models
from harness.model.errors import UsageError
from harness.model.http import HttpResponse
from harness.platform.exceptions import shorten
from harness.plugins import ADAPTERS
from harness.reports import finding_causes
from harness.reports.words import count
from harness.results import (
    Blame,
    CellResult,
    CheckResult,
    Finding,
    Kind,
    Presentation,
    RunResult,
    Severity,
    Verdict,
    verdict_of,
)
from harness.runner.cells import Cell, not_applicable
from harness.runner.costs import models as current_models
from harness.runner.serve_router import ANSWER, BASE_PATH, CUT_ANSWER, FirstAnswer, ImprovisedRouter
from harness.runner.served_session import SessionOptions
from harness.stdio import adapter_specs
from harness.stdio.workers import WorkerPool

if TYPE_CHECKING:
    from harness.cli.endpoint_checks import GatewayProbe

_SAMPLED_IDS = """
call-parallel-same-tool system-changed json-mode call-parallel-different-tools call-sequential call-after-text
system-with-tools
history-two-turns user-messages-in-order stop-max-tokens choice-named choice-required call-results-reordered
stream-parallel-long-arguments stream-provoked-interleaved-calls text-provoked-blocks settings-sampling settings-stop
json-mode-with-tools json-with-tools thinking-tool-loop thinking-budget
result-error result-boolean call-identical-twice
arguments-empty-values arguments-escapes call-without-parameters schema-optional result-long json-schema choice-none
stream-cut-in-arguments stream-split-characters error-in-tool-loop arguments-large-integers error-400
history-long-conversation usage-cached-prompt result-empty-text result-null system-multiline
image-from-user stop-refusal call-malformed body-html error-429
"""

TRIAL_SAMPLE = tuple(_SAMPLED_IDS.split())
"""Ids of the sampled scenarios. Those that reveal the most defects come first."""

STREAMED_SAMPLE = frozenset(
    [
        "call-parallel-same-tool",
        "stop-refusal",
        "usage-cached-prompt",
        "stream-split-characters",
        "stream-parallel-long-arguments",
        "stream-cut-in-arguments",
        "stream-provoked-interleaved-calls",
    ]
)
"""Ids of the scenarios that are also streamed."""


@dataclass(frozen=True, kw_only=True)
class TryOptions(GenerateOptions):
    """Options of `try`."""

    subject: Annotated[
        str | None,
        argument(
            "MODULE:ATTR|NAME|URL",
            "A client, an adapter or a tool loop in Python; a library ('harness list wrappers'); a server's URL.",
        ),
    ] = None
    command: Annotated[
        str | None,
        option("--command COMMAND", "A program that calls a model, such as 'npm test', or an adapter in any language."),
    ] = None
    api: Annotated[str | None, option("--api NAME", "API that the client or server uses, if it is not recognised.")] = (
        None
    )
    models: Annotated[list[str] | None, option("--model NAME", "Model to request.")] = None
    no_colour: NoColour = False


@dataclass(frozen=True, slots=True)
class TrialCheck(AdapterCheck):
    """Cell selection for `harness try`: a sample of the scenarios, each with one target of the API.

    If `target` is set, only that target is used. With `is_fixed`, no scenario gets another model.
    """

    scenarios: tuple[str, ...] = TRIAL_SAMPLE
    target: str | None = None
    is_fixed: bool = False

    def select_cells(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Select the cells to run: the sampled scenarios with whole answers, and those in `STREAMED_SAMPLE` also
        streamed.

        If possible, the target's provider assigns ids to tool calls, so that lost ids are detected. If a scenario does
        not apply to that target, another target is used. Without `is_fixed`, another model of the API may be used as
        well.
        """
        with_ids = [cell for cell in cells if cell.target.profile.call_ids]
        first = first_target_cells(with_ids or cells)
        others = [cell for cell in cells if cell.target.name != first[0].target.name]
        chosen: dict[tuple[int, str], Cell] = {}
        for cell in [*first, *others]:
            name = cell.scenario.id
            is_wanted = name in self.scenarios and (cell.variant == "whole" or name in STREAMED_SAMPLE)
            is_wanted = is_wanted and (name != "stop-refusal" or _may_refuse(cell))
            if not is_wanted or self.target not in (None, cell.target.name):
                continue
            key = self.scenarios.index(name), cell.variant
            if key not in chosen or (
                not_applicable(chosen[key], "reference") and not not_applicable(cell, "reference")
            ):
                chosen[key] = cell
        if not self.is_fixed:
            chosen = {key: _with_supporting_model(cell) for key, cell in chosen.items()}
        return [chosen[key] for key in sorted(chosen, key=_place_in_sample)]

    def report(self, every: Sequence[Cell], played: Sequence[Cell], result: RunResult, play: PlayCells) -> CheckResult:  # noqa: ARG002
        """Return an empty report, because `harness try` does not probe for undeclared capabilities."""
        return CheckResult()


def _may_refuse(cell: Cell) -> bool:
    """Return whether the client can get a refusal. OpenAI's models have a field for it in structured outputs only."""
    return not cell.target.api.startswith("openai") or "json-schema" in cell.target.adapter.capabilities


def _place_in_sample(key: tuple[int, str]) -> int:
    """Return the sort key of a scenario and a variant.

    Streamed cells come after the whole ones, except the first, because each is replayed about ten times.
    """
    index, variant = key
    if variant != "stream":
        return index
    return _FIRST_STREAM if index == 0 else index + len(TRIAL_SAMPLE)


_FIRST_STREAM = 10
"""Position of the first streamed cell in the order of the sample."""


def _with_supporting_model(cell: Cell) -> Cell:
    """Return the cell. Replace its model if the scenario does not support the model's profile, but supports another
    model of the API.

    For example, older models accept settings such as `temperature`, which reasoning models refuse.
    """
    target, profiles = cell.target, cell.scenario.profiles
    if profiles and target.profile.name not in profiles:
        for model in other_models(target.api, target.model):
            profile = registry.api(target.api).profile_for(model)
            if profile.name in profiles:
                return replace(cell, target=replace(target, model=model, profile=profile))
    return cell


_MODEL_PROBE = TrialCheck(scenarios=("call-single", "system-plain"))
"""Cells that show whether the default model accepts the requests at all."""


def try_(args: TryOptions) -> int:
    """Find the worst defects of a client, a library, a loop or a server, within about 20 seconds.

    Prints how the subject was recognised, runs a sample of the suite, and prints three defects with the wrong and the
    right value. 'harness check' runs more. Exit codes as for 'harness run'.
    """
    _check_options(args)
    if args.subject is not None and "://" in args.subject:
        return _try_server(args, args.subject)
    if args.command is not None:
        found = _try_program(args.command)
        if isinstance(found, int):
            return found
    else:
        found = _recognise(args)
    if found.question:
        raise UsageError(found.question)
    if found.command:
        code = _try_program(found.command, str(args.subject), found.sentence)
        return code if isinstance(code, int) else 1
    if args.api is not None and _api_of(found.spec) is None and wrappers.find(found.spec) is None:
        raise UsageError(f"--api {args.api}: an adapter declares its API itself. Leave the option out.")
    typer.echo(f"{args.subject or args.command}: recognised as {found.sentence}.")
    typer.echo(_correction(found.spec))
    if found.failure:
        typer.echo(_NO_REQUEST.format(failure=found.failure))
        return 1
    fixed = args.models or ([found.model] if found.model else None)
    default = _known_model(found)
    models = fixed or ([default] if default and default.startswith("gpt") else None)
    if is_generated(args):
        own = combine_options(args, adapters=[found.spec], models=None, api=None, ignored=[*found.ignored])
        return generate(own, models[0] if models else None)
    file = _private_file()
    options = combine_options(
        args,
        adapters=[found.spec],
        recuts=1,
        reports=["worst", f"json:{file}"],
        targets=[found.service_target] if found.service_target else None,
        models=None,
        api=None,
        ignored=[*found.ignored],
        cell_timeout=_MAX_CELL_SECONDS,
    )
    shows = ("harness", "reproduce", "--from", file) if not _is_loop(found.spec) else None
    is_fixed = fixed is not None or found.spec.startswith(adapter_specs.COMMAND_PREFIX) or bool(found.service_target)
    trial = _Trial(models, default, is_fixed, shows, STARTED.get(time.monotonic()))
    code = play_check(options, _MODEL_PROBE, trial.with_sample)
    typer.echo(f"More: {_check_command(found)}")
    return code


def _check_options(args: TryOptions) -> None:
    if (args.subject is None) == (args.command is None):
        raise UsageError(_QUESTION)
    if args.api is not None:
        registry.api(args.api)


def _correction(spec: str) -> str:
    """Return a line that states how to correct the recognition of an adapter, a client, a loop or a library."""
    if spec.startswith(adapter_specs.COMMAND_PREFIX):
        return "Otherwise: a program that ignores 'describe' is run with its own prompts ('harness help stdio')."
    if wrappers.find(spec) is not None:
        return "Otherwise: --api NAME, --model NAME, another name of 'harness list wrappers', or your MODULE:ATTRIBUTE."
    if re.match(f"({adapter_specs.DRIVE}|{adapter_specs.AGENT})@", spec):
        return "Otherwise: --api NAME, --model NAME, or the MODULE:CLASS.METHOD that sends one request."
    if re.match(f"({adapter_specs.CLIENT}|{adapter_specs.NATIVE})@", spec) or not spec:
        return "Otherwise: --api NAME, --model NAME, or another method, as in MODULE:CLASS.METHOD."
    return "Otherwise: the MODULE:ATTRIBUTE of another object, or --model NAME."


def _known_model(found: Recognition) -> str | None:
    """Return the client's default model, if it is a current model of its API."""
    if found.default_model is None:
        return None
    api = re.split("[@=/ ]", found.spec)[1]
    return next(
        (each.id for each in current_models(api) if each.id == found.default_model and not each.deprecated), None
    )


_NO_REQUEST = """FAIL  each call fails before a request is sent

1  {failure}
   do       Install versions of the library and its SDK that fit each other, or correct the call."""


def _private_file() -> str:
    """Return the path of the run's JSON file, which `harness reproduce` reads. Create its folder, which Git ignores."""
    folder = Path(".harness")
    folder.mkdir(exist_ok=True)
    ignoring = folder / ".gitignore"
    if not ignoring.exists():
        ignoring.write_text("*\n", encoding="utf-8")
    return str(folder / "try.json")


@dataclass(frozen=True, slots=True)
class _Trial:
    """A run of the sample. The command began at the monotonic time `started`.

    `models` are the chosen models, if any. `default` is the client's default model, if it is a current one. With
    `is_fixed`, no scenario gets another model. `shows` is the command that reports print for showing a cell; `None`
    keeps the command of the run.
    """

    models: Sequence[str] | None
    default: str | None
    is_fixed: bool
    shows: tuple[str, ...] | None
    started: float

    def with_sample(self, execution: Execution, workers: WorkerPool, result: RunResult) -> RunResult:
        """Run the sample with the chosen model, within the time limit.

        If no model was chosen and the client's first request exceeds a limit, use the client's default model or another
        one that accepts it. Only first requests count. A later one may exceed a limit because the client lost part of
        an answer, which is a defect with any model.
        """
        limits = ((each, found) for each in result.cells if (found := exceeded_limit(each)) and not found.exchange)
        cell, finding = next(limits, (None, None))
        model = self.models[0] if self.models else None
        if model is None and cell is not None and finding is not None and not execution.options.targets:
            model = self.default or accepting_model(execution, workers, cell, finding)
        options = execution.options
        target = result.cells[0].target if model is not None and result.cells else None
        if target is not None:
            options = replace(options, models=[f"{target}={model}"])
        spent = time.monotonic() - self.started
        seconds = max(_SECONDS - spent, _LEAST_SECONDS)
        check = TrialCheck(target=target, is_fixed=self.is_fixed, seconds=seconds, least_cells=_LEAST_CELLS)
        timer = threading.Timer(seconds + _EXTRA_SECONDS, workers.halt)
        timer.daemon = True
        timer.start()
        sampled = replace(execution, options=options, check=check).result(workers)
        timer.cancel()
        if sampled.unplayed:
            done = len(sampled.cells)
            total_cells = done + sampled.unplayed
            total = count(total_cells, "cell")
            late = _LATE.format(spent=spent) if seconds == _LEAST_SECONDS else ""
            typer.echo(f"The time is up: {done} of the sample's {total} were run{late}. 'harness check' runs more.")
            if done * _VERDICT_SHARE < total_cells and sampled.exit_code != 1:
                sampled = replace(sampled, stopped="too few cells were run to tell")
        lacking = sum(cell.verdict is Verdict.NOT_APPLICABLE for cell in sampled.cells)
        if self.shows and lacking > len(sampled.cells) // 2:
            typer.echo(_FEW_CELLS.format(lacking=lacking, total=count(len(sampled.cells), "cell")))
        elif lacking > len(sampled.cells) * 3 // 4:
            reasons = Counter(cell.reason for cell in sampled.cells if cell.verdict is Verdict.NOT_APPLICABLE)
            reason = reasons.most_common(1)[0][0]
            total = count(len(sampled.cells), "cell")
            typer.echo(_FEW_OF_LOOP.format(lacking=lacking, total=total, reason=reason))
        show = self.shows or sampled.invocation.show
        return replace(sampled, unplayed=0, invocation=replace(sampled.invocation, show=show))


_FEW_CELLS = (
    "{lacking} of the sample's {total} do not apply to what this method takes. To run them, name one that takes "
    "messages\nand tools, or write a function 'def chat(messages, tools=None)' that calls it."
)

_FEW_OF_LOOP = "{lacking} of the sample's {total} do not apply, most of them because of this: {reason}."

_SECONDS, _EXTRA_SECONDS = 16.5, 2.0
"""Time limit for starting cells, counted from the start of the command, and the time until a late cell is stopped."""

_LEAST_CELLS, _LEAST_SECONDS = 4, 3.0
"""Number of cells to start in any case, and the time for starting cells if loading took nearly all of it. Otherwise a
library that Python has to compile first would get no verdict.
"""

_VERDICT_SHARE = 3
"""Reciprocal of the share of cells that must have run before the sample has a verdict. The first cells reveal the most.
"""

_LATE = ", because loading took {spent:.0f} seconds (usually less the next time)"

_MAX_CELL_SECONDS = 10.0
"""Time limit for one conversation. A client that takes longer hangs."""


def _is_loop(spec: str) -> bool:
    wrapper = wrappers.find(spec)
    return adapter_specs.option_for(spec)[0] == "--conversation" or (wrapper is not None and wrapper[0].kind == "loop")


_QUESTION = (
    "name what you want to try: my_package.client:Client, a library ('harness list wrappers'), --command 'node "
    "adapter.mjs', or a URL such as http://127.0.0.1:8000/v1."
)


def _recognise(args: TryOptions) -> Recognition:
    name = str(args.subject)
    wrapper = wrappers.find(name)
    if wrapper is not None:
        name = _adapter_of(wrapper[0], args.api) if args.api is not None else name
        return Recognition(name, f"the library {wrapper[0].library}, through the wrapper {wrappers.address(name)}")
    if name in ADAPTERS.names():
        return Recognition(name, "an adapter that ships with harness or is installed as a plug-in")
    if Path(name).suffix in _RUNNERS and Path(name).is_file():
        command = shlex.join([_RUNNERS[Path(name).suffix], name])
        return Recognition(f"{adapter_specs.COMMAND_PREFIX}{command}", f"an adapter, run by {command}")
    if question := _question_about_path(name):
        return Recognition(question=question)
    found = recognise(name, args.api or "")
    if _is_no_module(name, found) and (modules := _modules_of(name)):
        if len(modules) > 1:
            some = " or ".join(f"harness try {each}" for each in modules)
            return Recognition(question=f"{name} is a library with several modules. Which one do you use? {some}")
        name = modules[0]
        found = recognise(name, args.api or "")
    if found.question and (script := _script(name.partition(":")[0])) and "--command" not in found.question:
        hint = f" Or is it a program? harness try --command {shlex.quote(f'python {shlex.quote(script)}')}"
        found = replace(found, question=found.question + hint)
    if args.api is not None and (found.question or _api_of(found.spec) not in (None, args.api)):
        kind, at, _ = found.spec.partition("@")
        is_loop = bool(at) and kind in (adapter_specs.DRIVE, adapter_specs.AGENT)
        kind, noun = (kind, "tool loop") if is_loop else (adapter_specs.CLIENT, "client")
        place = found.spec.partition(" ")[2] or name
        return Recognition(f"{kind}@{args.api} {place}", f"a {noun} of {args.api}, because of --api")
    return _with_known_name(name, found)


def _with_known_name(name: str, found: Recognition) -> Recognition:
    """Return the recognition. If there is no such module, its question names what may be meant."""
    if _is_no_module(name, found):
        return Recognition(question=_unknown_name(name))
    module, _, attribute = name.rpartition(".")
    if module and ":" not in name and f"no module {name!r}" in found.question:
        return Recognition(question=f"there is no module {name}. Did you mean: harness try {module}:{attribute}")
    return found


def _unknown_name(name: str) -> str:
    """Return the question for a name that is neither a module nor a known name, with the known name that is like it."""
    known = [*ADAPTERS.names(), *(each.library for each in wrappers.WRAPPERS)]
    close = difflib.get_close_matches(name, known, n=1)
    some = f"Name your client as MODULE:ATTRIBUTE, or one of: {', '.join(known)}."
    rest = f"Did you mean {close[0]}?" if close else some
    return f"{name} is neither a known name nor a module (a library must be installed where harness is). {rest}"


def _question_about_path(name: str) -> str:
    """Return a question if a name is a folder without a package, or a path that does not exist."""
    path = name.partition(":")[0]
    if Path(name).is_dir() and not (Path(name) / "__init__.py").is_file():
        return f"{name} is a folder. Name the file of your client in it, or its module."
    if (path.endswith(".py") or "/" in path) and not Path(path).exists():
        return f"{path}: no such file in {Path.cwd()}. Name the file or the module of your client."
    return ""


def _script(name: str) -> str:
    """Return the path of a module or file if it is written to be run as a program, or an empty string."""
    path = Path(name) if name.endswith(".py") else Path(*name.split(".")).with_suffix(".py")
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    return str(path) if re.search(r"__name__ == [\"']__main__|\bsys\.argv\b|\binput\(", source) else ""


def _is_no_module(name: str, found: Recognition) -> bool:
    return ":" not in name and f"no module {name.partition('.')[0]!r}" in found.question


def _modules_of(library: str) -> list[str]:
    """Return the public modules of an installed distribution, whose name may differ from theirs, as in `portkey-ai`."""
    try:
        known = files(library) or []
    except PackageNotFoundError:
        return []
    packages = {each.parent for each in known if each.name == "__init__.py"}
    roots = {".".join(each.parts) for each in packages if packages.isdisjoint(each.parents)}
    return sorted(each for each in roots if re.fullmatch(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", each))


def _adapter_of(wrapper: wrappers.Wrapper, api: str) -> str:
    """Return the name of the library's adapter or loop for an API."""
    known = {wrapper.api(attribute): name for name, attribute in wrapper.adapters.items()}
    if api not in known:
        raise UsageError(f"--api {api}: the wrapper of {wrapper.library} has {', '.join(known)}.")
    return known[api]


def _api_of(spec: str) -> str | None:
    """Return the API of a recognised client or loop, or `None` for an adapter, which declares its API itself."""
    found = re.match(r"\w+@([^\s/=]+)", spec)
    return found[1] if found else None


def _try_program(command: str, subject: str = "", sentence: str = "a program that calls a model") -> Recognition | int:
    """Run a command with the reference server as its provider, and return the exit code of the result.

    If the command calls Python code, `subject` is the name of that code, and `sentence` describes it.

    If the command speaks the adapter protocol, return it as an adapter instead. If the program broke off, or the server
    refused a request, run it again, because the first defect hides the others: with a server that tolerates the limits
    that were exceeded, or without parallel calls.
    """
    began = time.monotonic()
    ended, result, router = _run_program(command, is_first=not subject)
    if ended.is_adapter:
        return Recognition(f"{adapter_specs.COMMAND_PREFIX}{command}", "an adapter that reads and writes JSON lines")
    for line in _lines_to_show(ended.printed):
        print_error(f"  {line}")
    if not result.cells:
        _without_requests(command, ended)
    if result.exit_code and (ended.note or _exceeded_limits(result)):
        result = replace(result, cells=[*result.cells, *_run_again(command, result).cells])
    tolerated = _exceeded_limits(result)
    if router.has_tools and time.monotonic() - began < _LAST_START_SECONDS:
        _, other, _ = _run_program(command, "unknown tool", is_first=False, tolerated=tolerated)
        result = replace(result, cells=[*result.cells, *(each for each in other.cells if not _only_stopped(each))])
    if router.has_tools and time.monotonic() - began < _LAST_START_SECONDS:
        _, other, _ = _run_program(command, "cut call", is_first=False, tolerated=tolerated)
        result = replace(result, cells=[*result.cells, *(each for each in other.cells if _uses_cut_call(each))])
    if not (subject or ended.note) and ANSWER in ended.printed and time.monotonic() - began < _LAST_START_SECONDS:
        cut, other, _ = _run_program(command, "cut text", is_first=False, tolerated=tolerated)
        result = replace(result, cells=[*result.cells, *_without_report_of_cut(other.cells, cut, ended)])
    left = _PROGRAM_SECONDS - (time.monotonic() - began)
    if not ended.note and left > _PROGRAM_SECONDS - _LAST_START_SECONDS:
        failed, other, router = _run_program(command, "error", is_first=False, seconds=left)
        result = replace(result, cells=[*result.cells, *_after_error(other.cells, failed, ended, router.repeats)])
    conversations = count(len(result.cells), "conversation")
    typer.echo(f"{subject or command}: recognised as {sentence}; {conversations} run{ended.note}.")
    typer.echo(f"Otherwise: {_OTHERWISE_CODE if subject else _OTHERWISE_PROGRAM}")
    typer.echo(finding_causes.render(result, on_screen(Presentation())), nl=False)
    if not subject:
        typer.echo(f"More: harness serve call-single --command {shlex.quote(command)}; harness help serve")
    return result.exit_code


_OTHERWISE_PROGRAM = "for an adapter, it must respond to 'describe' ('harness help stdio')."
_OTHERWISE_CODE = "name the MODULE:CLASS.METHOD that sends messages, or a program: harness try --command COMMAND."


def _lines_to_show(printed: str) -> list[str]:
    """Return the last lines of a program's output, without the lines that Node.js prints below an error's message."""
    lines = [each for each in printed.splitlines() if each.strip() and not _BELOW_ERROR.match(each)]
    return [shorten(each, _MAX_LINE_CHARACTERS) for each in lines[-_MAX_PRINTED_LINES:]]


_BELOW_ERROR = re.compile(r"\s+at .*\d\)?$|Node\.js v\d")


def _run_again(command: str, result: RunResult) -> RunResult:
    """Return the result of a run in which the program gets further than in the one with `result`."""
    tolerated = frozenset[str]()
    for _ in range(_MAX_TOLERANT_RUNS):
        limits = _exceeded_limits(result) - tolerated
        if not limits:
            break
        tolerated |= limits
        ended, result, _ = _run_program(command, is_first=False, tolerated=tolerated)
        if not ended.note and _exceeded_limits(result) <= tolerated:
            return result
    return _run_program(command, "one call", is_first=False, tolerated=tolerated)[1]


def _only_stopped(cell: CellResult) -> bool:
    """Return whether the only defect is that the program stopped, which it may do when a tool is unknown."""
    return {each.rule for each in cell.findings} == {"script-unplayed"}


def _after_error(
    cells: Sequence[CellResult], failed: EndedProgram, ended: EndedProgram, repeats: int
) -> Iterator[CellResult]:
    """Yield the conversation whose first request failed, with findings, if the program repeated that request or did not
    report the failure.

    An exit code in `failed` counts as a report, and so does output that is missing in `ended`, the run without a
    failure. A program that got an answer to another request has nothing to report.
    """
    for cell in cells[:1]:
        findings = [_repeated_request(repeats)] if repeats else []
        if not _new_lines(failed, ended) and any(each.rule == "script-unplayed" for each in cell.findings):
            findings.append(_HIDDEN_ERROR)
        if findings:
            yield replace(cell, verdict=verdict_of(findings), findings=tuple(findings), reason=None)


def _without_report_of_cut(cells: Sequence[CellResult], cut: EndedProgram, ended: EndedProgram) -> Iterator[CellResult]:
    """Yield the conversation whose final answer was cut off, with a finding, if the program printed nothing but what
    there is of it.
    """
    usual = replace(ended, printed=ended.printed.replace(ANSWER, CUT_ANSWER))
    if CUT_ANSWER in cut.printed and not _new_lines(cut, usual):
        for cell in cells[:1]:
            yield replace(cell, verdict=verdict_of([_CUT_ANSWER_SHOWN]), findings=(_CUT_ANSWER_SHOWN,), reason=None)


_CUT_ANSWER_SHOWN = Finding(
    rule="loop-stop-reason",
    kind=Kind.LOSS,
    severity=Severity.WARNING,
    blame=Blame.CLIENT,
    message="the model's answer was cut off by max_tokens, but the program printed it like a complete one, and ended "
    "with exit code 0",
    of_response=True,
    actual=CUT_ANSWER,
    expected="a message that the answer is incomplete",
    remedy="check the stop reason of each answer, and tell the user if it is incomplete",
)


def _new_lines(other: EndedProgram, ended: EndedProgram) -> set[str]:
    """Return the lines that only the other run printed, and how it ended if it failed."""
    printed, usual = ({*map(str.strip, each.printed.splitlines())} for each in (other, ended))
    return (printed | {other.note}) - usual - {"", "undefined", "null", "None"}


_HIDDEN_ERROR = Finding(
    rule="chat-failure",
    kind=Kind.LOSS,
    severity=Severity.ERROR,
    blame=Blame.CLIENT,
    message="the provider answered with an error (status 400), but the program ended with exit code 0 and reported "
    "nothing",
    exchange=0,
    actual="exit code 0",
    expected="an error",
    of_response=True,
    remedy="check the status of each answer, and report an error with its message",
)


def _repeated_request(repeats: int) -> Finding:
    return Finding(
        rule="loop-retry",
        kind=Kind.LOSS,
        severity=Severity.WARNING,
        blame=Blame.CLIENT,
        message=f"the same request is sent {count(repeats, 'more time')} after status 400",
        exchange=0,
        remedy="retry only after 408, 409, 429 and 5xx",
    )


def _uses_cut_call(cell: CellResult) -> bool:
    """Return whether the program used a call that was cut off. It may stop, or ask the model to go on."""
    return any(each.rule in ("cut-call-run", "cut-call-answered") for each in cell.findings)


_MAX_TOLERANT_RUNS = 2

_PROGRAM_SECONDS = 20.0
"""Time limit for a program."""

_LAST_START_SECONDS = 14.0
"""Time after which a program is not run again for an unknown tool, an error, or an answer that is cut off."""


def _exceeded_limits(result: RunResult) -> frozenset[str]:
    findings = (finding for cell in result.cells for finding in cell.findings)
    return frozenset(each.rule for each in findings if each.kind is Kind.LIMIT)


def _run_program(
    command: str,
    answer: FirstAnswer = "two calls",
    *,
    is_first: bool = True,
    tolerated: frozenset[str] = frozenset(),
    seconds: float = _PROGRAM_SECONDS,
) -> tuple[EndedProgram, RunResult, ImprovisedRouter]:
    """Run a program against the reference server, for at most `seconds`."""
    terms = SessionOptions(fact_selection=fact_options(None, ()), ways=lambda _: [_in_pieces], tolerated=tolerated)
    router = ImprovisedRouter(terms, print_error, answer)
    with serve(router) as server:
        router.origin = server.origin
        own, base_url = keyless_environment(), server.origin + BASE_PATH
        environment = {**own, **program_variables(command, base_url, own), **variables_for(base_url)}
        ended = run_program(command, environment, seconds, may_be_adapter=is_first)
    return ended, router.run(), router


def _in_pieces(response: HttpResponse, _seed: str) -> tuple[HttpResponse, str]:
    """Return the response in small chunks that end inside lines and characters. Pauses between them keep the client
    from receiving several chunks at once.
    """
    body = response.body
    characters = {place + 1 for place, byte in enumerate(body) if byte >= _FIRST_BYTE_OF_SEVERAL}
    cuts = {*characters, *range(_PIECE_BYTES, len(body), _PIECE_BYTES), len(body)}
    delivery = replace(response.delivery, cuts=tuple(sorted(cuts)), pause=_PIECE_SECONDS)
    return replace(response, delivery=delivery), "in pieces"


_FIRST_BYTE_OF_SEVERAL = 0xC0
_PIECE_BYTES = 400
_PIECE_SECONDS = 0.05


def _without_requests(command: str, ended: EndedProgram) -> NoReturn:
    if ended.note.endswith(_NOT_FOUND):
        raise UsageError(f"{command}: the shell did not find this command, or one that it runs (exit code 127).")
    if ended.note and (variable := missing_variable(ended.printed)):
        raise UsageError(f"{command}: it {variable_question(variable, f'--command {shlex.quote(command)}')}")
    if ended.note and _BROKE_OFF.search(ended.printed):
        raise UsageError(f"{command}: it failed before it sent a request{ended.note}. Its last lines are above.")
    raise UsageError(
        f"{command}: it sent no request to OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GEMINI_BASE_URL, LLM_BASE_URL or a "
        f"similar variable, which pointed to the reference server{ended.note}. Which variable holds its base URL?"
    )


_NOT_FOUND = "exit code 127"
_MAX_PRINTED_LINES = 5
_MAX_LINE_CHARACTERS = 200
_BROKE_OFF = re.compile(r"^(Traceback \(most recent|\s+at \S.*:\d+\)?$)", re.MULTILINE)
"""Output of a program that ended with an exception, in Python or in Node.js."""

_RUNNERS = {".mjs": "node", ".js": "node", ".ts": "npx tsx"}
"""Suffix of a file → command that runs it."""


def _check_command(found: Recognition) -> str:
    option, value = adapter_specs.option_for(found.spec)
    if option == "--conversation":
        kind, _, _ = found.spec.partition(" ")
        ignored = [word for rule in found.ignored for word in ("--ignore", rule)]
        return shlex.join(["harness", "check", "agent", value, "--api", kind.partition("@")[2], *ignored])
    words = [value] if option == "--adapter" else [option, value]
    if _is_loop(found.spec):
        return shlex.join(["harness", "check", "agent", *words])
    words += [word for rule in found.ignored for word in ("--ignore", rule)]
    target = found.spec.rpartition(" ")[2]
    if found.service_target:
        words += ["--target", found.service_target]
        target += f"@{found.service_target}"
    words += ["--model", f"{target}={model}"] if (model := found.model or found.default_model) else []
    return shlex.join(["harness", "check", "adapter", *words])


def _try_server(args: TryOptions, url: str) -> int:
    from harness.cli.endpoint_checks import check_server, first_model, probe_gateway  # noqa: PLC0415 - only servers need it

    api = args.api or "openai-chat"
    model = args.models[0] if args.models else first_model(url)
    probe = probe_gateway(url, model or _ASSUMED_MODEL, _UPSTREAM_PORT) if api == "openai-chat" else None
    if probe is not None and probe.upstream is not None:
        return _try_gateway(url, api, model, probe)
    if probe is not None and probe.failure:
        raise UsageError(_GATEWAY_QUESTION.format(url=url, failure=probe.failure, port=_UPSTREAM_PORT))
    if model is None:
        versioned = f"{url.rstrip('/')}/v1"
        if not url.rstrip("/").endswith("/v1") and first_model(versioned) is not None:
            raise UsageError(f"{url}: it lists no models there, but at {versioned}. Try: harness try {versioned}")
        raise UsageError(f"{url}: it lists no models at {url.rstrip('/')}/models. Name one, as in --model llama-4-8b.")
    typer.echo(f"{url}: recognised as a server of {api} with the model {model}. Otherwise: --api NAME, --model NAME.")
    if api == "openai-chat":
        typer.echo(_GATEWAY_HINT.format(port=_UPSTREAM_PORT))
    code = check_server(
        ServerOptions(url=url, api=api, models=[model], reports=["worst"], only=[*_SERVER_SAMPLE, *RESPONSE_RULES])
    )
    typer.echo(f"More: {shlex.join(['harness', 'check', 'server', url, '--api', api, '--model', model])}")
    return code


def _try_gateway(url: str, api: str, model: str | None, probe: GatewayProbe) -> int:
    """Check a gateway whose upstream is the port of harness. Without a model, its client requests that of harness."""
    from harness.cli.endpoint_checks import check_gateway  # noqa: PLC0415 - only servers need it

    upstream = str(probe.upstream)
    typer.echo(f"{url}: recognised as a gateway from {api} to {upstream}, which requests 127.0.0.1:{_UPSTREAM_PORT}.")
    is_named = model is not None or probe.model != _ASSUMED_MODEL
    options = GatewayOptions(
        url=url,
        api=api,
        upstreams=[upstream],
        upstream_port=_UPSTREAM_PORT,
        models=[model or _ASSUMED_MODEL] if is_named else None,
        upstream_models=[str(probe.model)] if is_named and probe.model else None,
        reports=["worst"],
    )
    code = check_gateway(options)
    words = ["harness", "check", "gateway", url, "--api", api, "--upstream", upstream]
    words += ["--upstream-port", str(_UPSTREAM_PORT)]
    words += [word for each in options.models or () for word in ("--model", each)]
    words += [word for each in options.upstream_models or () for word in ("--upstream-model", each)]
    typer.echo(f"More: {shlex.join(words)}")
    return code


_UPSTREAM_PORT = 8791
"""Port on 127.0.0.1 where a gateway is expected to send its requests."""

_ASSUMED_MODEL = "gpt-4.1-mini"
"""Model to request from a gateway that lists none."""

_GATEWAY_HINT = (
    "If it is a gateway, start it with http://127.0.0.1:{port}/v1 (OpenAI) or http://127.0.0.1:{port} (others) as its\n"
    "provider's base URL, and try it again. Then both ends are compared."
)

_SERVER_SAMPLE = (
    *("server-text", "server-length", "server-same-calls", "server-call", "server-parallel", "server-escapes"),
    *("server-choice-required", "server-choice-none", "server-json-mode", "server-json-schema", "server-system"),
    *("server-history", "server-stop-sequence", "server-error-model", "server-error-json"),
)
"""Ids of the checks of a server. They send about 40 requests."""

_GATEWAY_QUESTION = (
    "{url}: a simple request results in {failure}. Is it a gateway that cannot reach its provider? Start it with "
    "http://127.0.0.1:{port}/v1 (OpenAI) or http://127.0.0.1:{port} (others) as its provider's base URL, for example "
    "in OPENAI_BASE_URL. Then: harness try {url}"
)
