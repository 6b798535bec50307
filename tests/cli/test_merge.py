"""`--shard` and `harness merge`: what several machines have run is what one would have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.model.errors import UsageError
from harness.results import RunResult
from harness.runner.cells import cells
from harness.runner.shards import Shard
from tests.backends import shipped_scenarios, shipped_targets
from tests.cli.conftest import NO_SUCH_TOOL, Command

KNOWN = """\
- {scenario: '*', target: anthropic, rule: 'anthropic-ours-no-weather', reason: known}
- {scenario: '*', target: openai-chat, rule: usage, reason: never seen}
- {scenario: nowhere, target: '*', rule: usage, reason: not run}
"""
WORDS = ("run", "--mode=reference", "call-after-text", "call-single", "json-mode", "--variant=whole", "-n1")
CHOSEN = (*WORDS, "--target=anthropic", "--target=openai-chat", "--facts=ours.yaml", "--expected-failures=known.yaml")


@pytest.fixture(scope="module")
def shard_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole run and its two shards, as JSON and as archives."""
    folder = tmp_path_factory.mktemp("shards")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("ours.yaml").write_text(NO_SUCH_TOOL)
        Path("known.yaml").write_text(KNOWN)
        for name, words in {"whole": (), "one": ("--shard=1/2",), "two": ("--shard", "2/2")}.items():
            reports = (f"--report=json:{name}.json", f"--report=archive:{name}.archive", "--report=terminal:/dev/null")
            main([*CHOSEN, *words, *reports, "--report=markdown:/dev/stdout"])
    return folder


@pytest.fixture
def shards(shard_runs: Path, folder: Path) -> Path:
    for file in shard_runs.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    del found["timing"]
    return found


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_merged_shards_are_the_whole_but_for_times(harness: Command, shards: Path, order: tuple[str, str]) -> None:
    kinds = ("json", "archive")
    codes = [
        harness("merge", *(f"{name}.{kind}" for name in order), f"--report={kind}:merged.{kind}").code for kind in kinds
    ]

    whole = RunResult.from_json((shards / "whole.json").read_text())
    assert codes == [whole.exit_code] * 2
    for kind in kinds:
        assert document(shards / f"merged.{kind}") == document(shards / f"whole.{kind}")
        ends = [without_times((shards / f"{name}.{kind}").read_text()) for name in ("whole", "merged")]
        assert ends[0] == ends[1]
    assert [(each.target, each.rule) for each in whole.stale] == [("openai-chat", "usage")]
    assert [each.scenario for each in whole.unmatched] == ["nowhere"]
    assert any(row.differs for row in whole.differences)


def without_times(text: str) -> str:
    return re.sub(r'"timing": \{.*?\n  \}', "", text, flags=re.DOTALL)


def test_a_shard_reports_only_its_part(harness: Command, shards: Path) -> None:
    runs = [RunResult.from_json((shards / f"{name}.json").read_text()) for name in ("one", "two")]

    assert [sorted({cell.scenario for cell in run.cells}) for run in runs] == [
        ["call-after-text", "json-mode"],
        ["call-single"],
    ]
    assert [(run.stale, run.unmatched) for run in runs] == [((), ())] * 2
    assert [run.part and run.part.name for run in runs] == ["1/2", "2/2"]
    assert "Shard 2/2: 'harness merge' joins all shards to one run." in harness("report", "two.json").out
    assert "Shard" not in harness("merge", "one.json", "two.json").out


Edit = Callable[[dict[str, Any]], object]
NO_END = "two.json: this shard did not finish ({}). Run it again."
NO_SHARDS = (
    "one.json and two.json are not shards of one run: their {} not the same{}. Run all shards with one version, one "
    "command line and the same files."
)

WORDS_OF: dict[str, tuple[str, str]] = {
    "missing": (
        "one.json",
        "shard 2/2 is missing: the whole needs each of the 2. 'harness run --shard 2/2 --report json:PATH' writes one.",
    ),
    "twice": (
        "one.json two.json one.archive",
        "one.json and one.archive are both shard 1/2. Name each shard once.",
    ),
    "whole": (
        "one.json whole.json",
        "whole.json: this is not a shard of a run. 'harness run --shard 1/4 --report json:whole.json' writes one.",
    ),
    "overwritten": (
        "one.json two.json --report=json:two.json",
        "--report: two.json is a shard, and would be overwritten. Name another file.",
    ),
}
"""Words of the command that are wrong, with the message."""

EDITS: dict[str, tuple[Edit, str]] = {
    "others": (
        lambda run: run["part"].update(of=3),
        "one.json is shard 1/2, and two.json is shard 2/3: these are not shards of one run.",
    ),
    "unfinished": (lambda run: run.update(stopped="interrupted"), NO_END.format("interrupted")),
    "failures": (lambda run: run.update(unplayed=3), NO_END.format("it had reached its limit of failed cells")),
    "versions": (
        lambda run: run["versions"].update({"openai": "0.1", "httpx2": "0.1"}),
        NO_SHARDS.format("versions are", " (openai, httpx2)"),
    ),
    "mode": (lambda run: run.update(mode="replay"), NO_SHARDS.format("mode is", "")),
    "scenarios": (
        lambda run: run["part"]["scenarios"].update({"call-single": "0"}),
        NO_SHARDS.format("scenarios are", " (call-single)"),
    ),
    "expected": (lambda run: run["part"].update(expected=[]), NO_SHARDS.format("expected failures are", "")),
    "facts": (lambda run: run.update(facts=[]), NO_SHARDS.format("files of facts are", "")),
    "rules": (lambda run: run.update(rules=["usage"]), NO_SHARDS.format("rules that count are", "")),
    "options": (
        lambda run: run["invocation"]["rerun"].append("--strict"),
        NO_SHARDS.format("other options are", ""),
    ),
}
"""Changes of the second shard, with the message."""


@pytest.mark.parametrize("name", [*WORDS_OF, *EDITS])
def test_what_is_not_all_shards_of_one_run_is_said(harness: Command, shards: Path, name: str) -> None:
    words, message = WORDS_OF.get(name, ("one.json two.json", ""))
    if name in EDITS:
        edit, message = EDITS[name]
        run = json.loads((shards / "two.json").read_text())
        edit(run)
        (shards / "two.json").write_text(json.dumps(run))

    outcome = harness("merge", *words.split())

    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"harness: {message}\n")


@pytest.mark.parametrize("of", [1, 3, 50])
def test_all_shards_are_all_cells_and_have_about_as_many(of: int) -> None:
    every = cells([*shipped_scenarios().values()], [*shipped_targets().values()])
    shards = [Shard(number, of).of_cells(every) for number in range(1, of + 1)]

    dealt = [(cell.scenario.id, cell.target.name, cell.variant) for shard in shards for cell in shard]
    assert len(dealt) == len(every)
    assert set(dealt) == {(cell.scenario.id, cell.target.name, cell.variant) for cell in every}
    assert max(map(len, shards)) - min(map(len, shards)) <= 2 * len(shipped_targets())
    scenarios = [{cell.scenario.id for cell in shard} for shard in shards]
    assert sum(map(len, scenarios)) == len(set[str]().union(*scenarios))
    assert list(map(list, shards)) == [[*Shard(number, of).of_cells(every)] for number in range(1, of + 1)]


@pytest.mark.parametrize("given", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/ 2", "1/1234567"])
def test_what_is_no_shard_is_said(given: str) -> None:
    with pytest.raises(UsageError, match=r"it has to have the form NUMBER/OF, from 1/OF to OF/OF, as in --shard 1/4"):
        Shard.parse(given)
