"""`harness validate`, and the schemas of what is read and written."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.cli.explain import topics
from harness.cli.list import SCHEMAS
from harness.platform.files import shipped_folder
from harness.platform.project import Project
from tests.cli.conftest import Command

GOOD = "version: 1\nid: {id}\ntitle: Fine\ncovers: [tools]\nturns: [{{user: Hi., model: [{{text: Hello.}}]}}]\n"


def test_the_shipped_scenarios_are_valid(harness: Command) -> None:
    outcome = harness("validate")

    number = len(list(shipped_folder("scenarios").glob("*.yaml")))
    assert outcome.code == 0
    assert outcome.out == f"{number} scenarios are valid.\n"


def test_every_problem_of_every_file_is_shown_with_its_place(harness: Command, folder: Path) -> None:
    for name in ("first", "second"):
        text = GOOD.format(id=name).replace("covers: [tools]", "covers: [tolls]\nrequires: [magic]")
        (folder / f"{name}.yaml").write_text(text)
    (folder / "third.yaml").write_text("version: [\n")

    outcome = harness("validate", "first.yaml", "second.yaml", "third.yaml")

    lines = outcome.out.splitlines()
    assert outcome.code == 2
    assert outcome.err == "5 problems in 3 scenarios.\n"
    assert [line.split(": unknown")[0] for line in lines[:4]] == [
        "first.yaml:4:10 at covers[0]",
        "first.yaml:5:12 at requires[0]",
        "second.yaml:4:10 at covers[0]",
        "second.yaml:5:12 at requires[0]",
    ]
    assert lines[4].startswith("third.yaml:2:")


def test_an_id_belongs_to_one_file(harness: Command, folder: Path) -> None:
    for place in ("one", "two"):
        (folder / place).mkdir()
        (folder / place / "same.yaml").write_text(GOOD.format(id="same"))

    outcome = harness("validate", "one", "two")

    assert outcome.code == 2
    assert outcome.out == "two/same.yaml: the id 'same' is already used by one/same.yaml.\n"


FACTS = """api: openai-chat
facts:
  - id: openai-chat-no-seed
    verdict: refused
    says: "No seeds."
    evidence: [{{kind: probe, date: 2026-11-01, address: "https://example.com"}}]
    when:
      - {{at: seed, there: true}}
    refuses: [{refuses}]
    accepts: [{accepts}]
  - id: openai-chat-users
    verdict: refused
    says: "Users are even."
    evidence: [{{kind: probe, date: 2026-11-01, address: "https://example.com"}}]
    limits:
      - id: openai-chat-no-odd-user
        says: The user is even.
        message: "'{{path}}' is odd, not {{type}}: {{value}}."
        when:
          - {{at: user, like: '.*[13579]'}}
        refuses: [{{user: u1}}]
"""


def test_files_of_facts_are_checked_by_their_examples(harness: Command, folder: Path) -> None:
    (folder / "facts.yaml").write_text(FACTS.format(refuses="{seed: 1, user: u2}", accepts="{user: u2}"))

    outcome = harness("validate", "--facts", "facts.yaml")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "1 file of facts: every example holds.\n"


def test_an_example_that_is_not_what_it_says_is_a_problem(harness: Command, folder: Path) -> None:
    (folder / "facts.yaml").write_text(FACTS.format(refuses="{seed: 1}, {user: u2}", accepts="{seed: 2}, {user: u3}"))
    (folder / "base.yaml").write_text(FACTS.format(refuses="{from: nothing}", accepts="{}"))

    outcome = harness("validate", "--facts", "facts.yaml", "--facts", "base.yaml")

    assert outcome.code == 2
    assert outcome.out.splitlines() == [
        "facts.yaml:9:26 at facts[0].refuses[1]: openai-chat-no-seed does not refuse it.",
        "facts.yaml:10:15 at facts[0].accepts[0]: openai-chat-no-seed refuses it.",
        "facts.yaml:10:26 at facts[0].accepts[1]: openai-chat-no-odd-user refuses it: 'user' is odd, not a string: u3.",
        "base.yaml:3:5 at facts[0]: an example cannot be made: there is no base 'nothing'.",
    ]


def schema(harness: Command, name: str) -> Draft202012Validator:
    outcome = harness("schema", name)
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def test_all_are_listed_with_where_they_are(harness: Command) -> None:
    rows = [re.split(r"  +", line) for line in harness("schema").out.splitlines()]

    assert rows[0] == ["SCHEMA", "OF", "WHERE"]
    assert [row[0] for row in rows[1:]] == list(SCHEMAS)
    for name, _, where in rows[1:]:
        if where != f"harness schema {name}":
            assert Path(where).read_text() == harness("schema", name).out
            assert harness("schema", name, "--path").out == f"{where}\n"


def test_a_scenario_and_facts_are_as_their_schemas_say(harness: Command) -> None:
    scenario = yaml.safe_load((shipped_folder("scenarios") / "call-single.yaml").read_text())

    assert schema(harness, "scenario").is_valid(scenario)
    assert not schema(harness, "scenario").is_valid({**scenario, "titel": "x"})
    assert not schema(harness, "facts").is_valid(scenario)
    assert "chat" in harness("schema", "adapter-command").out


def test_the_settings_that_are_shown_are_as_their_schema_says(harness: Command) -> None:
    described = schema(harness, "config")
    block = re.search(r"^```toml\n(.*?)^```", topics()["config"], re.MULTILINE | re.DOTALL)
    assert block is not None
    shown = tomllib.loads(block[1])
    table = shown["tool"]["harness"]

    assert set(described.schema["properties"]) == {field.alias for field in Project.model_fields.values()}  # type: ignore[index]
    assert [error.message for error in described.iter_errors(table)] == []
    for wrong in ({"strict": "yes"}, {"targets": "gemini-3"}, {"target": []}, {"servers": {"a": {"url": "x"}}}):
        assert not described.is_valid({**table, **wrong}), wrong


@pytest.mark.parametrize("report", ["json", "archive"])
def test_results_are_as_their_schema_says(harness: Command, folder: Path, report: str) -> None:
    assert folder.is_dir()
    described = schema(harness, "results")

    run = json.loads(harness("run", "call-single", "json-mode", f"--report={report}").out)

    assert [error.message for error in described.iter_errors(run)] == []
    assert not described.is_valid({**run, "finished": "yes"})
    assert not described.is_valid({**run, "sumary": {}})
    assert not described.is_valid({key: value for key, value in run.items() if key != "cells"})
