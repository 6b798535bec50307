"""`harness reproduce`: scripts that start a program, or call code with tools of its own, which `harness try` ran."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from textwrap import indent

import pytest

from harness.checks.programs import without_keys
from tests.cli.conftest import Command
from tests.cli.test_reproduce import apart, code_of, run, run_apart
from tests.cli.test_try_own_tools import AGENTS, FAILING, SENTENCE

__all__ = ["apart"]

pytestmark = pytest.mark.usefixtures("apart")

PROGRAM = """
import json
import os
import sys

import httpx2

SCHEMA = {"type": "object", "properties": {"lamp": {"type": "string"}}, "required": ["lamp"]}
TOOLS = [{"type": "function", "function": {"name": "switch", "description": "Switches a lamp.", "parameters": SCHEMA}}]
URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"


def ask(log):
    body = {"model": "gpt-5.4", "messages": log, "tools": TOOLS}
    answer = httpx2.post(URL, json=body, headers={"authorization": "Bearer none"})
    if answer.status_code >= 400:
        sys.exit("the provider refused the request")
    return answer.json()["choices"][0]


log = [{"role": "system", "content": "You switch lamps."}, {"role": "user", "content": "Switch them on."}]
while True:
    choice = ask(log)
    message = choice["message"]
    log.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        content = json.loads(call["function"]["arguments"])["lamp"] + " is on"
        log.append({"role": "tool", "tool_call_id": call["id"], "content": content})
if choice["finish_reason"] == "length":
    sys.exit("the answer was cut off")
print(message["content"])
"""

FAULTS = {
    "result-duplicate": ('call["id"]', 'message["tool_calls"][0]["id"]'),
    "loop-system": ("    log.append(message)", "    log = [each for each in log[1:]] + [message]"),
    "loop-stop-reason": ('["finish_reason"] == "length"', '["finish_reason"] == "max_tokens"'),
    "loop-history": ("    log.append(message)", '    log.append({**message, "content": message["content"] and ""})'),
    "chat-failure": ('sys.exit("the provider refused the request")', "sys.exit(0)"),
}


def with_faults(right: str, *rules: str) -> str:
    for each in rules:
        assert FAULTS[each][0] in right
        right = right.replace(*FAULTS[each])
    return right


def reproduced(harness: Command, folder: Path, commands: str, rule: str) -> str:
    """Run the command that the trial shows for a rule, and return the name of its script."""
    [shown] = (each for each in commands.split("\n\n") if f"({rule}, " in each)
    [command] = (line.partition(" see ")[2].split() for line in shown.splitlines() if " see " in line)
    done = harness(*command[1:])

    assert done.code == 0, done.out + done.err
    [written] = (line for line in done.out.splitlines() if line.startswith("Written: "))
    file = written.removeprefix("Written: ").partition(",")[0]
    assert file.endswith(".py"), done.out
    assert (folder / file).with_suffix(".md").is_file()
    assert "harness" not in code_of(folder, file)
    return file


@pytest.mark.parametrize("rules", [("result-duplicate", "loop-stop-reason"), ("loop-history", "chat-failure")])
def test_a_script_starts_a_program_and_fails_with_the_fault(
    harness: Command, folder: Path, rules: tuple[str, ...]
) -> None:
    (folder / "lamps.py").write_text(with_faults(PROGRAM, *rules))

    done = harness("try", "--command", f"{shlex.quote(sys.executable)} lamps.py")
    files = [reproduced(harness, folder, done.out, each) for each in rules]

    for each in files:
        assert run(folder, each).stderr.splitlines()[-1].startswith("AssertionError: ")
    (folder / "lamps.py").write_text(PROGRAM)
    for each in files:
        mended = run(folder, each)
        assert mended.returncode == 0, mended.stderr


def test_a_script_redirects_the_requests_of_a_program_with_a_fixed_base_url(harness: Command, folder: Path) -> None:
    fixed = PROGRAM.replace('os.environ["OPENAI_BASE_URL"] + "', '"https://api.openai.com/v1')
    (folder / "lamps.py").write_text(with_faults(fixed, "loop-system"))

    done = harness("try", "--command", f"{shlex.quote(sys.executable)} lamps.py")
    file = reproduced(harness, folder, done.out, "loop-system")

    (folder / "lamps.py").write_text(fixed)
    mended = run(folder, file)
    assert mended.returncode == 0, mended.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_script_starts_a_program_in_javascript(harness: Command, folder: Path) -> None:
    (folder / "lamps.mjs").write_text(IN_JAVASCRIPT.replace("call.id", "message.tool_calls[0].id"))

    done = harness("try", "lamps.mjs")
    file = reproduced(harness, folder, done.out, "result-duplicate")

    (folder / "lamps.mjs").write_text(IN_JAVASCRIPT)
    mended = run(folder, file)
    assert mended.returncode == 0, mended.stderr


IN_JAVASCRIPT = """
const parameters = { type: "object", properties: { lamp: { type: "string" } }, required: ["lamp"] };
const tools = [{ type: "function", function: { name: "switch", description: "Switches a lamp.", parameters } }];
const messages = [{ role: "user", content: "Switch them on." }];
for (;;) {
  const answer = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer none", "content-type": "application/json" },
    body: JSON.stringify({ model: "gpt-5.4", messages, tools }),
  });
  if (!answer.ok) throw new Error(await answer.text());
  const { message, finish_reason } = (await answer.json()).choices[0];
  messages.push(message);
  if (!message.tool_calls) {
    console.log(message.content, finish_reason);
    break;
  }
  for (const call of message.tool_calls) {
    const content = `${JSON.parse(call.function.arguments).lamp} is on`;
    messages.push({ role: "tool", tool_call_id: call.id, content });
  }
}
"""

LOOP = PROGRAM.partition("log = [")[2].partition("print(message")[0].replace("sys.exit(", "raise RuntimeError(")
AGENT = f"""{PROGRAM.partition("log = [")[0]}
class Home:
    def say(self, question):
{indent(f"log = [{LOOP}", " " * 8)}
        return message["content"]
"""


def test_a_script_calls_code_with_tools_of_its_own(harness: Command, folder: Path) -> None:
    right = AGENT.replace('os.environ["OPENAI_BASE_URL"] + "', '"https://api.openai.com/v1').replace("sys.exit", "exit")
    rules = ("result-duplicate", "loop-stop-reason")
    (folder / "own_loop.py").write_text(with_faults(right, *rules))

    done = harness("try", "own_loop:Home")
    files = [reproduced(harness, folder, done.out, each) for each in rules]

    assert "from own_loop import Home" in (folder / files[0]).read_text()
    (folder / "own_loop.py").write_text(right)
    for each in files:
        mended = run_apart(folder, each)  # it redirects the requests of the whole process
        assert mended.returncode == 0, mended.stderr


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("OPENAI_API_KEY=sk-123 MODE=fast node a.mjs", "OPENAI_API_KEY=not-a-key MODE=fast node a.mjs"),
        ("MY_TOKEN='a b' python a.py --api-key sk-1; ls", "MY_TOKEN=not-a-key python a.py --api-key not-a-key; ls"),
        ("python a.py --max-tokens 12 key", "python a.py --max-tokens 12 key"),
    ],
)
def test_the_keys_in_a_command_are_not_kept(command: str, kept: str) -> None:
    assert without_keys(command) == kept


def test_a_conversation_without_a_finding_is_not_reproduced(harness: Command, folder: Path) -> None:
    (folder / "lamps.py").write_text(with_faults(PROGRAM, "loop-stop-reason"))
    harness("try", "--command", f"{shlex.quote(sys.executable)} lamps.py")

    done = harness("reproduce", "two-calls-1", "--from", ".harness/try.json")

    assert (done.code, done.out) == (2, "")
    assert "two-calls-1: this conversation has no error and no warning." in done.err


def test_a_script_shows_that_a_tool_of_the_code_hides_its_failure(harness: Command, folder: Path) -> None:
    hidden = AGENTS + FAILING.replace("REPORT", "'null'").replace("TOOL", SENTENCE)
    (folder / "home.py").write_text(hidden)

    done = harness("try", "home:Failing")
    file = reproduced(harness, folder, done.out, "result-changed")

    assert run_apart(folder, file).stderr.splitlines()[-1].startswith("AssertionError: a tool failed")
    (folder / "home.py").write_text(hidden.replace("'null'", "str(problem)"))
    mended = run_apart(folder, file)
    assert mended.returncode == 0, mended.stderr
