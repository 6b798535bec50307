"""A runner of GitHub Actions in small: the steps of a workflow or of a composite action, one after the other, as GitHub
runs them: each script in bash, with files for what it hands on, and expressions replaced where GitHub replaces them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")


@dataclass(frozen=True)
class Step:
    """What came of a step. `code` is `None` of one that was not run: somebody else's action, or one after a failure."""

    spec: Mapping[str, Any]
    code: int | None
    out: str = ""
    err: str = ""
    summary: str = ""


@dataclass
class Runner:
    """`workspace` is the checkout; `path` is searched for commands before everything else."""

    workspace: Path
    temp: Path
    path: Path
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    action: Path | None = None
    outputs: dict[str, str] = field(default_factory=dict[str, str])

    def steps(self, specs: list[dict[str, Any]]) -> list[Step]:
        """Run the steps; one behind a failure is run only if it says `always()`."""
        done: list[Step] = []
        for spec in specs:
            failed = any(step.code for step in done)
            skipped = "run" not in spec or (failed and spec.get("if") != "always()")
            done.append(Step(spec, None) if skipped else self._run(spec))
        return done

    def value(self, text: str) -> str:
        """The text with its expressions replaced."""
        known = {f"inputs.{name}": value for name, value in self.inputs.items()}
        known |= {f"steps.{name}": value for name, value in self.outputs.items()}
        return _EXPRESSION.sub(lambda match: {"github.action_path": str(self.action), **known}[match[1]], text)

    def _run(self, spec: dict[str, Any]) -> Step:
        files = {name: self.temp / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV")}
        for file in files.values():
            file.write_text("")
        script = self.temp / "script.sh"
        script.write_text(self.value(spec["run"]))
        environment = {
            "PATH": f"{self.path}:{os.environ['PATH']}",
            "HOME": str(self.temp),
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temp),
            **{name: str(file) for name, file in files.items()},
            **{name: self.value(value) for name, value in spec.get("env", {}).items()},
        }
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace / self.value(spec.get("working-directory", ".")),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"{spec.get('id')}.outputs.{name}"] = value
        return Step(spec, ran.returncode, ran.stdout, ran.stderr, files["GITHUB_STEP_SUMMARY"].read_text())
