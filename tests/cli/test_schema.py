"""The schemas that `harness schema` prints are those of what is really read and written."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.cli.help import topics
from harness.cli.list import SCHEMAS
from harness.platform.project import Project
from harness.scenarios import suite
from tests.cli.conftest import Command


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
    scenario = yaml.safe_load((suite.shipped("scenarios") / "call-single.yaml").read_text())

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
