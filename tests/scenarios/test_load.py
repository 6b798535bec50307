from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model.errors import ScenarioError
from harness.model.messages import StopReason
from harness.model.protocols import Capability
from harness.platform import files
from harness.scenarios.load import digest, load_file, load_paths, problems, sent_digest
from harness.scenarios.schema import Scenario
from tests.scenarios.files import MINIMAL, WITH_TOOLS, changed, scenario, written

WHOLE = """\
# a comment
version: 1
id: whole
title: Everything that may stand in a file
covers: [tools, history]
requires:
  [
    tools, parallel-tool-calls, system-prompt, tool-choice, named-tool-choice, json-mode, json-with-tools, vision,
    thinking, history
  ]
system: Be brief.
settings: {tool_choice: {tool: look}, response_format: json, thinking: {effort: low}, max_tokens: 100, stop: [END]}
tools:
  - name: look
    description: Looks.
    parameters: {type: object, properties: {at: {type: integer}}}
    results:
      - {when: {at: 9007199254740993}, parts: [{text: far}]}
      - return: null
history:
  - {role: user, text: before}
  - {role: assistant, text: looking, calls: [{id: "a:1", name: look, arguments: {at: 2}}]}
  - {role: user, results: [{call_id: "a:1", content: [1, 2.5], is_error: true}]}
  - {role: assistant, thinking: hm, text: done}
max_iterations: 4
turns:
  - user: [{text: see}, {image: {media_type: image/png, uri: "https://example.org/a.png"}}]
    model:
      - calls: [{look: {at: 9007199254740993}}, {look: {}}]
        answers: [1, 0]
      - {text: '{"no": 1}', stop: end_turn}
    expect: {text: {contains: ["no"], matches: "^..no"}, calls: [{name: look}], stop_reason: end_turn}
  - user: again
    system: null
    settings: {tool_choice: none}
    model: [{text: ""}]
"""


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "whole.yaml"
    file.write_text(WHOLE, encoding="utf-8")
    whole = load_file(file)
    assert whole.turns[0].model[0].named_calls == (("look", {"at": 9007199254740993}), ("look", {}))
    assert whole.turns[0].model[1].stop is StopReason.END_TURN
    assert Capability.VISION in whole.requires
    assert whole.tools[0].results[1].model_fields_set == {"return_"}
    assert whole.turns[1].model_fields_set >= {"system"}
    assert whole.turns[0].model_fields_set.isdisjoint({"system"})
    assert problems(file) == []


LINES = """\
version: 1
id: lines
title: Mistakes on several lines
covers: [tool]
turns:
  - user: 5
    model:
      - txt: hello
      - text: x
    expect:
      stop_reason: length
"""


def test_all_mistakes_are_found_in_order(tmp_path: Path) -> None:
    file = tmp_path / "lines.yaml"
    file.write_text(LINES, encoding="utf-8")
    assert [(error.line, error.column, error.key) for error in problems(file)] == [
        (4, 10, "covers[0]"),
        (6, 11, "turns[0].user"),
        (8, 9, "turns[0].model[0].txt"),
        (11, 20, "turns[0].expect.stop_reason"),
    ]
    with pytest.raises(ScenarioError) as error:
        load_file(file)
    assert str(error.value) == str(problems(file)[0])


def test_the_id_is_the_file_name(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(json.dumps(MINIMAL), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        load_file(file)
    assert str(error.value) == f"{file}:1:22 at id: the id must be the file's name, 'other'."


@pytest.mark.parametrize(
    ("text", "kind"), [("- a", "a list"), ("a", "the text 'a'"), ("---", "null"), ("12", "12"), ("true", "true")]
)
def test_the_root_is_a_mapping(tmp_path: Path, text: str, kind: str) -> None:
    file = tmp_path / "root.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=rf"a scenario is a mapping, not {kind}\."):
        load_file(file)


def test_folders_are_searched_and_scenarios_sorted(tmp_path: Path) -> None:
    inner = tmp_path / "b" / "c"
    inner.mkdir(parents=True)
    written(inner, {**MINIMAL, "id": "alpha"})
    file = written(tmp_path, {**MINIMAL, "id": "zeta"})
    (tmp_path / "mid.yml").write_text(json.dumps({**MINIMAL, "id": "mid"}), encoding="utf-8")
    (tmp_path / "README.md").write_text("no scenario", encoding="utf-8")
    assert [each.id for each in load_paths([tmp_path, file])] == ["alpha", "mid", "zeta"]


def test_an_id_is_unique(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = written(tmp_path / "a", MINIMAL), written(tmp_path / "b", MINIMAL)
    with pytest.raises(ScenarioError) as error:
        load_paths([tmp_path])
    assert str(error.value) == f"{second} at id: {first} has the id 'minimal' already."


def test_paths_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nowhere: there is no such file or folder\."):
        load_paths([tmp_path / "nowhere"])
    with pytest.raises(ScenarioError, match=r"no scenario in this folder: no file ends in \.yaml or \.yml\."):
        load_paths([tmp_path])
    with pytest.raises(ScenarioError, match=r"there is no such file\."):
        load_file(tmp_path / "nowhere.yaml")
    with pytest.raises(ScenarioError, match=r"Is a directory\."):
        load_file(tmp_path)


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(ScenarioError, match="not a file"):
        load_file(pipe)


def test_layout_does_not_change_the_digest(tmp_path: Path) -> None:
    one = digest(scenario(tmp_path, WITH_TOOLS))
    (tmp_path / "with-tools.yaml").write_text("# a comment\n" + yaml.safe_dump(WITH_TOOLS), encoding="utf-8")
    assert digest(load_file(tmp_path / "with-tools.yaml")) == one
    assert len(one) == 64


@pytest.mark.parametrize(
    ("path", "value", "is_sent"),
    [
        ("turns.0.user", "Rome?", True),
        ("turns.0.system", None, True),
        ("turns.0.settings", {"max_tokens": 9}, True),
        ("system", "Be brief.", True),
        ("settings", {"tool_choice": "required"}, True),
        ("tools.0.description", "The weather.", True),
        ("tools.0.parameters.properties.city", {}, True),
        ("tools.0.results.0.return.temp_c", 18.5, True),
        ("history", [{"role": "user", "text": "Hi."}, {"role": "assistant", "text": "Hello."}], True),
        ("max_iterations", 4, True),
        ("turns.0.model.0.answers", [0], True),
        ("title", "Another", False),
        ("covers", ["history"], False),
        ("turns.0.model.1.text", "It is 18", False),
        ("turns.0.model.0.thinking", "Paris, then.", False),
        ("turns.0.expect", {"text": {"contains": "18"}}, False),
        ("variants", ["whole"], False),
    ],
)
def test_requests_have_a_digest_of_their_own(path: str, value: object, is_sent: bool) -> None:
    one = Scenario.model_validate_json(json.dumps(WITH_TOOLS))
    other = Scenario.model_validate_json(json.dumps(changed(WITH_TOOLS, path, value)))
    assert (sent_digest(one) != sent_digest(other)) is is_sent
    assert digest(one) != digest(other)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(
    ["history", "settings", "system", "tools.0.parameters", "tools.0.results", "turns.0.expect", "turns.0.model"]
)
SCHEMAS = st.dictionaries(
    st.sampled_from(["type", "$ref", "$id", "$defs", "properties", "items", "pattern", "$dynamicRef", "$anchor"]),
    st.sampled_from(["object", "#", "#/properties", "a:b", "", "("]) | JSON_VALUES,
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(path=PATHS, value=JSON_VALUES | SCHEMAS | SCHEMAS.map(lambda schema: {**schema, "type": "object"}))
def test_any_content_loads_or_raises_a_scenario_error(tmp_path: Path, path: str, value: object) -> None:
    with contextlib.suppress(ScenarioError):
        load_file(written(tmp_path, changed(WITH_TOOLS, path, value)))


def test_an_installed_package_has_them_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "harness"
    (package / "_shipped" / "scenarios").mkdir(parents=True)
    monkeypatch.setattr(files, "_PACKAGE", package)
    assert files.shipped_folder("scenarios") == package / "_shipped" / "scenarios"
    assert files.shipped_folder("cassettes") == tmp_path / "site-packages" / "cassettes"
