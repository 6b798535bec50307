"""Programs that call a model: their environment, and a run of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, cast
from urllib.parse import urlsplit

from harness.model.messages import JsonSchema
from harness.platform.environment import is_hidden, is_secret_variable
from harness.runner.backends import NO_KEY
from harness.stdio.protocol import PROTOCOL


def keyless_environment() -> dict[str, str]:
    """Return the environment without the variables that could lead third-party code to a provider."""
    return {name: value for name, value in os.environ.items() if not is_hidden(name)}


_MISSING_VARIABLE = re.compile(r"KeyError: '([A-Z][A-Z0-9_]+)'|\b([A-Z][A-Z0-9]*_[A-Z0-9_]*(?:KEY|TOKEN|URL|SECRET))\b")


def missing_variable(text: str) -> str | None:
    """Return the environment variable that an error message asks for, if it names one."""
    found = _MISSING_VARIABLE.search(text)
    return (found[1] or found[2]) if found else None


def variable_question(variable: str, subject: str) -> str:
    """Return the text that names a missing environment variable, and the command that sets it and tries `subject`
    again.
    """
    value = "https://api.openai.com/v1" if re.search("URL|BASE|HOST|ENDPOINT", variable) else "none"
    return f"needs the environment variable {variable}. Set it: {variable}={value} harness try {subject}"


_EXAMPLE_PROMPT = '"How much is 6 times 7?"'

_MISSING_ARGUMENT = re.compile(
    r"""
    arguments\ (?:are\ required|were\ not\ provided) | missing\ (?:\d+\ )?(?:required\ )?(?:positional\ )?
        (?:arg|argument|option|flag|parameter)s?\b
    | required\ (?:option|flag|argument)\b.*\bnot\ (?:specified|set|provided)
    | (?:not\ enough|too\ few)\ (?:[\w-]+\ )?arguments
    | (?:requires|expected|accepts|needs)\ (?:at\ least\ |exactly\ )?(?:\d+|one|an?)\ arg
    | \bno\ (?:prompt|question|query|message|arguments?)\b(?!\ on\ stdin)
    | please\ (?:provide|specify|give|supply|pass|enter)\ (?:an?|the|your|some)\ \w+
    | \b(?:prompt|question|query|message|argument)\ (?:is\ |was\ )?(?:required|missing|expected)
    | \$?\b\d:\ (?:unbound\ variable|parameter\ (?:null\ or\ )?not\ set)
    | \bargv\b(?=(?s:.*)(?:IndexError|ValueError|undefined))
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Errors of argument parsers in several languages, and of programs that read their arguments themselves."""

_USAGE = re.compile(r"(?<!token )\busage(?: of \S+)?:", re.IGNORECASE)

_FIRST_COMMAND = re.compile(r"\bCOMMAND \[ARGS\](?s:.*)^\W*Commands\b.*\n\W*([a-z][\w-]*)", re.MULTILINE)
"""Usage of a program of click or Typer that has several commands."""

_OPTIONS_WITHOUT_DASHES = re.compile(r"Missing required arguments?: ([\w, -]+)|required flag\(s\) (.+) not set")
"""Errors of yargs and of Go's cobra."""

_PROMPT_NAME = re.compile("prompt|question|query|message|input|text|ask", re.IGNORECASE)


def missing_arguments(command: str, printed: str) -> str | None:
    """Return a command with the arguments that a program lacks, if it printed that it lacks some, or its usage.

    The arguments are examples: a prompt, and the options that the error names.
    """
    found = _MISSING_ARGUMENT.search(printed)
    if found is None:
        arguments = f"{each[1]} {_EXAMPLE_PROMPT}" if (each := _FIRST_COMMAND.search(printed)) else ""
        return f"{command} {arguments or _arguments_after(command)}" if _USAGE.search(printed) else None
    start = printed.rfind("\n", 0, found.start()) + 1
    line = printed[start:].partition("\n")[0]
    separator = " --" if re.match(r"npm\s+(?:run|start|test)\b(?!.* -- )", command) else ""
    return f"{command}{separator} {' '.join(_example_arguments(line, printed)) or _EXAMPLE_PROMPT}"


def _example_arguments(line: str, printed: str) -> Iterator[str]:
    """Yield examples of the arguments that an error names: options first, as all parsers accept them there."""
    bare = _OPTIONS_WITHOUT_DASHES.search(line)
    options = re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", line)
    options = options or [f"--{each}" for each in re.findall(r"[A-Za-z][\w-]*", (bare[1] or bare[2]) if bare else "")]
    for each in options:
        yield f"{each} {_EXAMPLE_PROMPT if _PROMPT_NAME.search(each) else 'VALUE'}"
    names = [each.strip() for each in line.rpartition("are required:")[2].split(",")] if "are required:" in line else []
    if "command" in names or "cmd" in names:
        choices = re.search(r"\{(\w[\w-]*)[,}]", printed)
        yield choices[1] if choices else "COMMAND"
    if any(not each.startswith("-") for each in names) or not options:
        yield _EXAMPLE_PROMPT


def _arguments_after(command: str) -> str:
    """Return a prompt for a command without arguments, or a placeholder for one that has some."""
    with contextlib.suppress(ValueError):
        given = shlex.split(command)
        if len(given) == 1 or given[-1].endswith(_SOURCE_SUFFIXES):
            return _EXAMPLE_PROMPT
    return "ARGUMENTS"


_ELSEWHERE = re.compile(
    r"Connection ?Error|ConnectError|ENOTFOUND|ECONNREFUSED|EAI_AGAIN|getaddrinfo|fetch failed|Max retries exceeded|"
    r"Name or service not known|[Cc]ould not resolve|\b40[13]\b|Unauthorized|AuthenticationError|"
    r"(?i:(?:invalid|incorrect)[ _](?:x-)?api[ _-]key)"
)


def used_another_server(printed: str) -> bool:
    """Return whether a program reported that it did not reach its server, or that the server refused its key."""
    return _ELSEWHERE.search(printed) is not None


@dataclass(frozen=True, slots=True)
class EndedProgram:
    """A program that has ended. `note` explains an abnormal end. `is_adapter` is set if the program used the adapter
    protocol. `printed` has no control sequences. `is_stopped` is set if it exceeded its time limit.
    """

    is_adapter: bool
    printed: str
    note: str = ""
    is_stopped: bool = False


_PREFIXES = {
    "/v1": ("OPENAI", "LLM", "AI", "MODEL"),
    "": ("ANTHROPIC", "CLAUDE", "GEMINI", "GOOGLE", "GOOGLE_GENAI"),
}
"""Ending of a base URL → prefixes of the variables for it."""

_BASE_URL_NAMES = ("BASE_URL", "API_BASE", "API_BASE_URL", "API_URL", "API_ENDPOINT", "ENDPOINT")

_SOURCE_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".go", ".rb", ".rs", ".php", ".sh", ".bash")

_VARIABLE_READ = re.compile(
    r"""
    ((?:\b(?:int|float|Number|parseInt|parseFloat)\(\s*(?:os\.)?)?)          # a conversion to a number
    (?:
        (?:(?:environ|ENV)(?:\.get|\.fetch)?|[gG]etenv|process\.env|env::var) # Python, Ruby, Go, PHP, JavaScript, Rust
        (?:\.|\s*[\[(]\s*["'`])([A-Z][A-Z0-9_]*)["'`]?\s*[\])]?\s*
        (?:,|or\b|\?\?|\|\|)?
        |
        \$\{([A-Z][A-Z0-9_]*):?[-=]                                          # a shell
    )
    \s*["'`]?(https?://[^"'`\s}]+|\d[\d_.]*)?                               # the default
    """,
    re.VERBOSE,
)
"""Code that reads an environment variable, with the URL or the number that is its default."""

_PROVIDER_HOSTS = re.compile(r"openai|anthropic|googleapis|/v1\b|completions")


def program_variables(command: str, base_url: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the usual environment variables for the base URLs and keys of programs, and those that the script in a
    command reads. All point to `base_url`, without the version.

    A variable of a script is left out if it is set in `known`, if it is a number, such as a limit of tokens, or if its
    default is the URL of something else.
    """
    found = {
        f"{prefix}_{name}": base_url + ending
        for ending, prefixes in _PREFIXES.items()
        for prefix in prefixes
        for name in _BASE_URL_NAMES
    }
    found |= {f"{prefix}_API_KEY": NO_KEY for prefixes in _PREFIXES.values() for prefix in prefixes}
    reads: list[tuple[str, str, str, str]] = _VARIABLE_READ.findall(sources_of(command))
    for conversion, in_code, in_shell, default in reads:
        name = in_code or in_shell
        if conversion or default[:1].isdigit() or name in found:
            continue
        if name in known and not _PROVIDER_HOSTS.search(default):
            continue
        if re.search("KEY|TOKEN", name):
            found |= {name: NO_KEY} if is_secret_variable(name) else {}
        elif re.search("URL|BASE$|HOST|ENDPOINT", name) and (not default or _PROVIDER_HOSTS.search(default)):
            found[name] = base_url + (urlsplit(default).path.rstrip("/") if default else "/v1")
    return found


_GIVEN_KEY = re.compile(
    r"""(\b[A-Z][A-Z0-9_]*=|--[\w-]*(?:key|token|secret|password)[=\s]+)("[^"]*"|'[^']*'|[^\s;&|]+)"""
)
"""A variable or an option of a shell command, with its value."""


def without_keys(command: str) -> str:
    """Return a shell command with a placeholder for each key that it sets: the reference server needs none."""

    def shown(found: re.Match[str]) -> str:
        is_key = found[1].startswith("--") or is_secret_variable(found[1].removesuffix("="))
        return f"{found[1]}{NO_KEY}" if is_key else found[0]

    return _GIVEN_KEY.sub(shown, command)


def variables_read(source: str, names: Iterable[str]) -> list[str]:
    """Return those of the environment variables that a source mentions, or all if the source is unknown."""
    return [each for each in names if not source or re.search(rf"\b{each}\b", source)]


def sources_of(command: str) -> str:
    """Return the source of the scripts that a command names. It is empty if it names none."""
    with contextlib.suppress(ValueError, OSError):
        files = [Path(word) for word in shlex.split(command) if word.endswith(_SOURCE_SUFFIXES)]
        return "\n".join(each.read_text(encoding="utf-8", errors="replace") for each in files if each.is_file())
    return ""


DESCRIBE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "describe", "params": {"protocol": PROTOCOL}})
"""First message of the adapter protocol."""


def run_program(
    command: str,
    environment: Mapping[str, str],
    seconds: float,
    *,
    may_be_adapter: bool = True,
    lines: Sequence[str] = (DESCRIBE,),
) -> EndedProgram:
    """Run a shell command until it ends, for at most `seconds`.

    Its standard input receives `lines`. Programs without input ignore them. If the program may be an adapter, the input
    is closed only after its first output.
    """
    process = subprocess.Popen(  # noqa: S602 - the user's own
        command,
        shell=True,
        env=dict(environment),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    printed: list[str] = []
    printed_once = Event()
    parsed = Thread(target=_collect, args=(process, printed, printed_once), daemon=True)
    parsed.start()
    note, is_stopped = "", False
    with contextlib.suppress(OSError), cast("IO[str]", process.stdin) as given:  # it may have ended already
        given.write("".join(f"{line}\n" for line in lines))
        given.flush()
        printed_once.wait(
            min(seconds, _INPUT_SECONDS) if may_be_adapter else 0.0
        )  # an adapter ends with its input, and must answer before
    try:
        process.wait(seconds)
        note = f", then it ended with exit code {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        note, is_stopped = f", then it was stopped after {seconds:.0f} seconds", True
    parsed.join(_INPUT_SECONDS)
    printed_text = _CONTROL_SEQUENCE.sub("", "".join(printed))
    return EndedProgram(any(map(_is_description, printed)), printed_text, note, is_stopped)


_CONTROL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
"""Colours, movements of the cursor and links in the output for a terminal."""


def _collect(process: subprocess.Popen[str], lines: list[str], printed_once: Event) -> None:
    with cast("IO[str]", process.stdout) as printed:
        for line in printed:
            lines.append(line)
            printed_once.set()
    printed_once.set()


def _is_description(line: str) -> bool:
    try:
        message: Any = json.loads(line)
        return "capabilities" in message["result"]
    except (ValueError, LookupError, TypeError):
        return False


_INPUT_SECONDS = 5.0
"""Maximum time to wait for a program's first line of output before its standard input is closed."""


RETURNED_TEXT = "harness: the call returned a text"

RETURNED_ONLY_TEXT = ", and nothing tells whether it is truncated"
"""End of the line after `RETURNED_TEXT`, if it is true."""

RETURNED_WITHOUT_FILTER = ", or blocked by a filter"
"""End of the line after `RETURNED_ONLY_TEXT`, if it is true."""

RETURNED_CALLS = "harness: the call returned calls of tools"

EXAMPLE_INPUT = "Crème brûlée for 4: heat 1½ cups of cream, add 5 yolks and 80 g of sugar. Then bake it at 150 °C."
"""Text that code with prompts of its own is called with."""

EXAMPLE_FORMAT = JsonSchema(
    {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "course": {"type": "string", "enum": ["starter", "main", "dessert"]},
        },
        "required": ["title", "course"],
        "additionalProperties": False,
    },
    "recipe",
)
"""Schema for code that needs one."""
