"""`harness try`: find the worst defects of a client, library, tool loop, program or server within seconds."""

from __future__ import annotations

import difflib
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Annotated

import typer

from harness import wrappers
from harness.apis import registry
from harness.checks.recognition import (
    Recognition,
    recognise,
)
from harness.cli.execution import play_check
from harness.cli.generating import generate, is_generated
from harness.cli.main import STARTED
from harness.cli.options import GenerateOptions, NoColour, argument, option
from harness.cli.outputs import private_run_file
from harness.cli.settings import EffectiveOptions, combine_options
from harness.cli.try_program import CALL_FROM_NODE, try_code, try_program
from harness.cli.try_sample import MAX_CELL_SECONDS, MODEL_PROBE, Trial
from harness.cli.try_server import try_server
from harness.model.errors import UsageError
from harness.plugins import ADAPTERS
from harness.runner.costs import models as current_models
from harness.stdio import adapter_specs


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


def try_(args: TryOptions) -> int:
    """Find the worst defects of a client, a library, a loop or a server, within about 20 seconds.

    Prints how the subject was recognised, runs a sample of the suite, and prints three defects with the wrong and the
    right value. 'harness check' runs more. Exit codes as for 'harness run'.
    """
    _check_options(args)
    if args.subject is not None and "://" in args.subject:
        return try_server(args.subject, args.api or "openai-chat", args.models or ())
    command = args.command or _script_command(str(args.subject))
    if command:
        if (code := try_program(command)) is not None:
            return code
        spec = f"{adapter_specs.COMMAND_PREFIX}{command}"
        found = Recognition(spec, "an adapter that reads and writes JSON lines")
    else:
        found = _recognise(args)
    if found.question:
        raise UsageError(found.question)
    if found.command:
        apis = found.other_apis if args.api is None else ()
        recognised = ((api, recognise(str(args.subject), api).command) for api in apis)
        others = ((api, command) for api, command in recognised if command)
        return try_code(found.command, str(args.subject), found.sentence, others)
    if args.api is not None and _api_of(found.spec) is None and wrappers.find(found.spec) is None:
        raise UsageError(f"--api {args.api}: an adapter declares its API itself. Leave the option out.")
    typer.echo(f"{args.subject or args.command}: recognised as {found.sentence}.")
    typer.echo(_correction(found.spec))
    if found.failure:
        typer.echo(_NO_REQUEST.format(failure=found.failure))
        return 1
    if is_generated(args):
        own = combine_options(args, adapters=[found.spec], models=None, api=None, ignored=[*found.ignored])
        models = _models(args, found)
        return generate(own, models[0] if models else None)
    file = private_run_file()
    options, trial = _plan(args, found, file)
    if args.api is None and not args.models:
        trial = replace(trial, other_apis=found.other_apis, plan=partial(_plan_for_api, args, file))
    code = play_check(options, MODEL_PROBE, trial.with_sample)
    typer.echo(f"More: {_check_command(found, trial.used)}")
    return code


def _plan(args: TryOptions, found: Recognition, file: str) -> tuple[EffectiveOptions, Trial]:
    """Return the options of the sample's run, whose result is written to `file`, and the run."""
    options = combine_options(
        args,
        adapters=[found.spec],
        recuts=1,
        reports=["worst", f"json:{file}"],
        targets=[found.service_target] if found.service_target else None,
        models=None,
        api=None,
        ignored=[*found.ignored],
        cell_timeout=MAX_CELL_SECONDS,
    )
    is_fixed = bool(args.models or found.model) or found.spec.startswith(adapter_specs.COMMAND_PREFIX)
    trial = Trial(
        _models(args, found),
        _known_model(found),
        is_fixed or bool(found.service_target),
        _is_loop(found.spec),
        ("harness", "reproduce", "--from", file),
        STARTED.get(time.monotonic()),
    )
    return options, trial


def _models(args: TryOptions, found: Recognition) -> list[str] | None:
    """Return the models to request, if the user, the client or its default determines them."""
    default = _known_model(found)
    return args.models or (
        [found.model] if found.model else [default] if default and default.startswith("gpt") else None
    )


def _plan_for_api(args: TryOptions, file: str, api: str) -> tuple[EffectiveOptions, Trial] | None:
    """Return the options and the run for another API of the same client, or `None` if it does not use that API."""
    found = recognise(str(args.subject), api)
    is_client = not found.question and not found.failure and _api_of(found.spec) == api
    return _plan(args, found, file) if is_client else None


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
    if question := _question_about_place(name):
        return Recognition(question=question)
    found = recognise(name, args.api or "")
    if _is_no_module(name, found) and (modules := _modules_of(name)):
        if len(modules) > 1:
            some = " or ".join(f"harness try {each}" for each in modules)
            return Recognition(question=f"{name} is a library with several modules. Which one do you use? {some}")
        name = modules[0]
        found = recognise(name, args.api or "")
    if found.question and (script := _script(name.partition(":")[0])):
        command = shlex.quote(f"python {shlex.quote(script)}")
        question = found.question.replace("'python my_program.py'", command)
        asks = " Or is it a program?" if question.endswith((".", "?")) else "; or, if it is a program:"
        hint = "" if "--command" in question else f"{asks} harness try --command {command}"
        found = replace(found, question=question + hint)
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


def _question_about_place(name: str) -> str:
    """Return a question if a name is a URL without its scheme, a folder without a package, or a path that does not
    exist.
    """
    path = name.partition(":")[0]
    if re.fullmatch(r"(localhost|\d+(\.\d+){3})(:\d+)?(/\S*)?", name):
        return f"{name}: is it a server? Then: harness try http://{name}"
    if Path(name).is_dir() and not (Path(name) / "__init__.py").is_file():
        return f"{name} is a folder. Name the file of your client in it, or its module."
    if (path.endswith((".py", ".mjs")) or "/" in path) and not Path(path).exists():
        return f"{path}: no such file in {Path.cwd()}. Name the file or the module of your client."
    if Path(path).suffix in _RUNNERS and Path(path).exists():
        return f"{name}: code in JavaScript cannot be called from Python. Instead, {CALL_FROM_NODE}"
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


def _script_command(name: str) -> str:
    """Return the command that runs a JavaScript file, or an empty string for anything else."""
    runner = _RUNNERS.get(Path(name).suffix)
    return f"{runner} {shlex.quote(name)}" if runner and Path(name).is_file() else ""


_RUNNERS = {".mjs": "node", ".cjs": "node", ".js": "node", ".ts": "npx tsx", ".mts": "npx tsx"}
"""Suffix of a file → command that runs it."""


def _check_command(found: Recognition, used: Mapping[str, str]) -> str:
    """Return the command that runs more of the suite, with the model that the sample `used` for each target."""
    option, value = adapter_specs.option_for(found.spec)
    models = [word for target, model in used.items() for word in ("--model", f"{target}={model}")]
    if option == "--conversation":
        kind, _, _ = found.spec.partition(" ")
        ignored = [word for rule in found.ignored for word in ("--ignore", rule)]
        return shlex.join(["harness", "check", "agent", value, "--api", kind.partition("@")[2], *ignored, *models])
    words = [value] if option == "--adapter" else [option, value]
    if _is_loop(found.spec):
        return shlex.join(["harness", "check", "agent", *words, *models])
    words += [word for rule in found.ignored for word in ("--ignore", rule)]
    target = found.spec.rpartition(" ")[2]
    if found.service_target:
        words += ["--target", found.service_target]
        target += f"@{found.service_target}"
    own = found.model or found.default_model
    words += models or (["--model", f"{target}={own}"] if own else [])
    return shlex.join(["harness", "check", "adapter", *words])
