"""A limit through `harness run`: who breaks one that is certain fails, whoever breaks another is warned."""

from __future__ import annotations

import json
import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from tests.limits.adapters import sends

ROOT = Path(__file__).parents[2]
CASES = {
    "refused": ({"n": 0}, "openai-chat-parameter-range", "error"),
    "warned": ({"functions": []}, "openai-chat-legacy-functions", "warning"),
}


def command(*arguments: str) -> tuple[int, dict[str, Any]]:
    with redirect_stdout(StringIO()) as shown:
        code = main([*arguments, "--report", "json"])
    return code, json.loads(shown.getvalue())


@pytest.mark.parametrize("mode", ["reference", "replay"])
@pytest.mark.parametrize("name", ["refused", "warned"])
def test_who_breaks_a_limit_is_told_so(name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    fields, rule, severity = CASES[name]
    scenario = tmp_path / f"{name}.yaml"
    turn = {"user": f"Hello. {sends(**fields)}", "model": [{"text": "Hi."}]}
    told = {"version": 1, "id": name, "title": "A limit is broken", "covers": ["system-prompt"], "turns": [turn]}
    scenario.write_text(json.dumps(told))
    chosen = ["--target", "openai-chat", "--variant", "whole", str(scenario)]
    recorded = ["--cassettes", str(tmp_path / "cassettes")]
    command("record", "--from", "reference", *recorded, *chosen)

    more = ["--mode", "reference"] if mode == "reference" else recorded
    code, report = command("run", *more, "--adapter", "tests.limits.adapters:OPENAI_CHAT", *chosen)

    (cell,) = report["cells"]
    found = {each["rule"]: each["severity"] for each in cell["findings"] if each["kind"] == "limit"}
    assert found == {rule: severity}
    assert (code == 1) is (severity == "error")
    assert cell["verdict"] == ("fail" if severity == "error" else "warn")
