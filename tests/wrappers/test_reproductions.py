"""The list of causes that `python -m tests.wrappers --reproductions` reproduces."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.checks import python_script
from tests.wrappers import play, reproductions


def test_every_proof_is_a_cause_that_was_traced() -> None:
    every = reproductions.proofs()
    traced = {(each["library"], each["rule"]) for each in json.loads(play.TRACED.read_text(encoding="utf-8"))}

    assert len(every) >= 20
    assert len({each.wrapper.library for each in every}) >= 5
    assert {(each.wrapper.library, each.rule) for each in every} <= traced
    assert sum(len(each.versions) == 2 for each in every) >= 1


def test_answers_are_not_counted_as_lines_of_a_script() -> None:
    text = '"""Title"""\n\nANSWERS = [\n    1,\n]\nreceived = []\n\n\nassert received\n'

    assert reproductions.code_lines(text) == ['"""Title"""', "assert received"]


def test_a_statement_that_sets_up_a_library_comes_before_its_import() -> None:
    quiet = "litellm.suppress_debug_info = True"
    source = ["import os", "from typing import Any", "os.environ.setdefault('A', 'True')", "import litellm", quiet]

    lines = python_script._sorted_imports(["import json", *source])

    assert lines == (["import json", "import os", "from typing import Any"], [source[2], "import litellm", quiet])


CORE = """
class Message { constructor(fields) { Object.assign(this, fields); this.lc_kwargs = fields; } }
export class AIMessage extends Message { role = "assistant"; }
export class HumanMessage extends Message { role = "user"; }
export class SystemMessage extends Message { role = "system"; }
export class ToolMessage extends Message { role = "tool"; }
"""
MODEL = """
import { AIMessage } from "@langchain/core/messages";

export class ChatOpenAI {
  constructor(options) { this.options = options; }
  withConfig() { return this; }
  async invoke(messages) {
    const { model, maxTokens: max_completion_tokens, configuration } = this.options;
    const sent = messages.map(({ role, content }) => ({ role, content: CONTENT }));
    const body = JSON.stringify({ model, max_completion_tokens, messages: sent });
    const answer = await fetch(`${configuration.baseURL}/chat/completions`, { method: "POST", body });
    const { choices: [{ message, finish_reason }], usage } = await answer.json();
    const counts = { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens };
    const about = { response_metadata: { finish_reason }, usage_metadata: counts };
    return new AIMessage({ content: message.content, text: message.content, tool_calls: [], ...about });
  }
}
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_script_for_node_fails_with_the_fault_and_passes_without_it(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules" / "@langchain"
    for name, files in {"core": {"messages.js": CORE}, "openai": {"index.js": MODEL}}.items():
        (modules / name).mkdir(parents=True)
        exports = {"./messages": "./messages.js"} if name == "core" else {".": "./index.js"}
        about = {"name": f"@langchain/{name}", "version": "1.0.0", "type": "module", "exports": exports}
        (modules / name / "package.json").write_text(json.dumps(about))
        for file, text in files.items():
            (modules / name / file).write_text(text.replace("CONTENT", "content.toUpperCase()"))
    words = ["reproduce", "system-plain", "--adapter", "langchain-js-openai", "--target", "openai-chat"]
    command = [sys.executable, "-m", "harness", *words, "--model", "openai-chat=gpt-5.4"]

    done = subprocess.run(command, cwd=tmp_path, env=play.paths(), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    script = tmp_path / "reproduce_system_plain.mjs"
    assert "npm install @langchain/core@1.0.0 @langchain/openai@1.0.0" in script.read_text(encoding="utf-8")
    assert reproductions.outcome(script, Path("node")).startswith(reproductions.FAULT)
    (modules / "openai" / "index.js").write_text(MODEL.replace("CONTENT", "content"))
    assert reproductions.outcome(script, Path("node")) == reproductions.GONE
