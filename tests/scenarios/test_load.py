from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.contract.errors import ScenarioError
from harness.contract.model import StopReason
from harness.contract.protocols import Capability
from harness.scenarios.load import digest, load_file, load_paths, problems, sent_digest
from harness.scenarios.schema import Scenario
from tests.scenarios.files import ABSENT, MINIMAL, WITH_TOOLS, changed, scenario, written

WHOLE = """\
# a comment
version: 1
id: whole
title: Everything that may stand in a file
covers: [tools, history]
requires:
  [
    tools, parallel-tool-calls, system-prompt, tool-choice, forced-tool-choice, json-mode, json-with-tools, vision,
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


TWICE: dict[str, Any] = {
    **changed(WITH_TOOLS, "tools.0.results", [{"error": "busy", "times": 1}, {"return": 18}]),
    "turns": [{"user": "Paris?", "model": [*[{"calls": [{"get_weather": {"city": "Paris"}}]}] * 2, {"text": "18"}]}],
}

# Each case: the base, the path that is changed, its value, and the error after the file's name and place.
MISTAKES: list[tuple[dict[str, Any], str, object, str]] = [
    (MINIMAL, "version", 2, "version: unknown version '2'. Known: 1."),
    (MINIMAL, "version", "1", "version: must be the number 1, not the text '1'."),
    (MINIMAL, "version", ABSENT, "version: required, and missing."),
    (MINIMAL, "id", "Bad Id", "id: has to match ^[a-z0-9]+(-[a-z0-9]+)*$"),
    (MINIMAL, "id", "a" * 81, "id: must have at most 80 characters."),
    (MINIMAL, "title", "", "title: must not be empty."),
    (MINIMAL, "title", 7, "title: must be a text, not 7. Quote it if a text is meant."),
    (MINIMAL, "title", True, "title: must be a text, not true. Quote it if a text is meant."),
    (MINIMAL, "title", None, "title: must be a text, not null."),
    (MINIMAL, "title", [], "title: must be a text, not a list."),
    (MINIMAL, "titel", "x", ("titel: unknown key 'titel'. Did you mean 'title'? Known: covers, embeddings, faults, "
     "history, id, max_iterations, profiles, provider_tools, provocations, requires, scripted, settings, side, "
     "system, system_from, title, tools, trim, turns, undeclared_tools, variants, version.")),
    (MINIMAL, "covers", "tools", "covers: must be a list, not the text 'tools'."),
    (MINIMAL, "covers", [], "covers: must not be empty."),
    (MINIMAL, "covers.0", "tool", ("covers[0]: unknown subject 'tool'. Did you mean 'tools'? Known: "
     "embeddings, errors, history, id-matching, json-mode, limits, requests, responses, streaming, "
     "system-prompt, tools.")),
    (MINIMAL, "requires", ["json-shema"], ("requires[0]: unknown capability 'json-shema'. Did you mean 'json-schema'? "
     "Known: audio, cache-marks, embeddings, files, forced-tool-choice, history, image-results, json-mode, "
     "json-schema, json-with-tools, parallel-tool-calls, provider-tools, retries, streaming, system-prompt, thinking, "
     "tool-choice, tools, truncation, vision.")),
    (MINIMAL, "provider_tools", {"gemeni": [{"googleSearch": {}}]}, ("provider_tools.gemeni: unknown API 'gemeni'. "
     "Did you mean 'gemini'? Known: anthropic, claude-cli, gemini, openai-chat, openai-responses.")),
    (MINIMAL, "provider_tools", {"gemini": []}, "provider_tools.gemini: must not be empty."),
    (MINIMAL, "provider_tools", {"gemini": [{"googleSearch": {}}]},
     "requires: the scenario uses 'provider-tools'. Add it here."),
    (MINIMAL, "requires", ["vision"], "requires[0]: nothing in the scenario uses 'vision'. Remove it."),
    (MINIMAL, "max_iterations", 0, "max_iterations: must be at least 1."),
    (MINIMAL, "max_iterations", 1000, "max_iterations: must be at most 100."),
    (MINIMAL, "max_iterations", 1.5, "max_iterations: must be a whole number, not 1.5."),
    (MINIMAL, "max_iterations", "3", "max_iterations: must be a whole number, not the text '3'."),
    (MINIMAL, "scripted", "yes", "scripted: must be true or false, not the text 'yes'."),
    (MINIMAL, "turns.0.expect", {"text": {"contains": "zzz"}}, ("turns[0].expect: the script itself does not meet "
     "text.contains: the text does not contain 'zzz'.")),
    (MINIMAL, "turns.0.expect", {"calls": [{"name": "look"}]}, ("turns[0].expect: the script itself does not meet "
     "calls[0].name: no call of 'look'.")),
    (MINIMAL, "turns.0.expect", {"events": ["text", "bye"]}, ("turns[0].expect.events[1]: has to match "
     "^(text|(call|result|error) [^ ]+|done( [a-z-]+)?)$")),
    (MINIMAL, "turns.0.expect", {"events": ["done"]}, ("turns[0].expect.events: the script itself does not meet it: "
     "event 0 is 'text', not 'done'.")),
    (WITH_TOOLS, "turns.0.expect", {"events": ["call get_weather", "error get_weather", "text", "done"]},
     ("turns[0].expect.events: the script itself does not meet it: event 1 is 'result get_weather', not 'error "
     "get_weather'.")),
    (MINIMAL, "tools", [{"name": "get weather"}], "tools[0].name: has to match ^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$"),
    (MINIMAL, "settings", "auto", "settings: must be a mapping, not the text 'auto'."),
    (MINIMAL, "settings", {"temperature": "hot"}, "settings.temperature: must be a number, not the text 'hot'."),
    (MINIMAL, "settings", {"tool_choice": 1}, "settings.tool_choice: must be auto, none, required or {tool: NAME}."),
    (MINIMAL, "settings", {"tool_choice": "any"}, ("settings.tool_choice: a choice is auto, none, required or {tool: "
     "NAME}: write tool_choice: required.")),
    (MINIMAL, "settings", {"tool_choice": {"name": "x"}}, ("settings.tool_choice: a choice is auto, none, required or "
     "{tool: NAME}: write tool_choice: {tool: x}.")),
    (MINIMAL, "settings", {"tool_choice": "auto"}, "settings.tool_choice: a tool choice in a scenario without tools."),
    (MINIMAL, "settings", {"response_format": "xml"}, "settings.response_format: unknown value 'xml'. Known: json."),
    (MINIMAL, "settings", {"response_format": {"json_schema": {"type": "strin"}}},
     ("settings.response_format.json_schema.type: not a JSON Schema (draft 2020-12): 'strin' is not valid under any of "
     "the given schemas.")),
    (MINIMAL, "settings", {"response_format": {"json_schema": {"$ref": "#/$defs/a"}}},
     "settings.response_format.json_schema.$ref: the reference '#/$defs/a' leads nowhere in this schema."),
    (MINIMAL, "settings", {"response_format": {"json_schema": {"$ref": "https://example.org/s"}}},
     "settings.response_format.json_schema.$ref: the reference 'https://example.org/s' leads nowhere in this schema."),
    (MINIMAL, "profiles", ["claude-opus-55"], ("profiles[0]: unknown profile 'claude-opus-55'. Did you mean "
     "'claude-opus-5-5'? Known: ")),
    (MINIMAL, "turns", [], "turns: must not be empty."),
    (MINIMAL, "turns.0", "hello", "turns[0]: must be a mapping, not the text 'hello'."),
    (MINIMAL, "turns.0.user", 5, "turns[0].user: must be a text or a list of parts."),
    (MINIMAL, "turns.0.user", [], "turns[0].user: must not be empty."),
    (MINIMAL, "turns.0.user", [{}], "turns[0].user[0]: give one of text, image, file, audio."),
    (MINIMAL, "turns.0.user", [{"text": "see", "file": {"media_type": "text/plain", "data": "aGk="}}],
     "turns[0].user[0]: give one of text, image, file, audio."),
    (MINIMAL, "turns.0.user", [{"file": {"media_type": "text/csv", "data": "aGk="}}],
     "turns[0].user[0].file.media_type: unknown media type 'text/csv'. Known: application/pdf, text/plain."),
    (MINIMAL, "turns.0.user", [{"audio": {"media_type": "audio/wave", "data": "aGk="}}],
     ("turns[0].user[0].audio.media_type: unknown media type 'audio/wave'. Did you mean 'audio/wav'? Known: audio/mp3, "
      "audio/wav.")),
    (MINIMAL, "turns.0.user", [{"file": {"media_type": "text/plain"}}],
     "turns[0].user[0].file: give data or uri, and not both."),
    (MINIMAL, "turns.0.user", [{"audio": {"media_type": "audio/wav", "data": "%"}}],
     "turns[0].user[0].audio.data: not base64."),
    (MINIMAL, "turns.0.user", [{"file": {"media_type": "text/plain", "data": "aGk="}}],
     "requires: the scenario uses 'files'. Add it here."),
    (MINIMAL, "turns.0.user", [{"audio": {"media_type": "audio/wav", "data": "aGk="}}],
     "requires: the scenario uses 'audio'. Add it here."),
    (WITH_TOOLS, "tools.0.results.0", {"parts": [{"file": {"media_type": "text/plain", "data": "aGk="}}]},
     "tools[0].results[0].parts[0].file: unknown key 'file'. Known: image, text."),
    (MINIMAL, "turns.0.user", [{"image": {"media_type": "image/png"}}],
     "turns[0].user[0].image: give data or uri, and not both."),
    (MINIMAL, "turns.0.user", [{"image": {"media_type": "image/png", "data": "%"}}],
     "turns[0].user[0].image.data: not base64."),
    (MINIMAL, "turns.0.model", [], "turns[0].model: must not be empty."),
    (MINIMAL, "turns.0.model.0", {"stop": "end_turn"}, ("turns[0].model[0]: an answer without text, calls, refusal or "
     'raw. Write text: "" for an empty one.')),
    (MINIMAL, "turns.0.model.0.stop", "length", ("turns[0].model[0].stop: unknown stop reason 'length'. Known: "
     "end_turn, error, malformed_call, max_tokens, pause, refusal, stop_sequence, tool_use, unknown.")),
    (MINIMAL, "turns.0.model.0.raw", {"openai": []}, ("turns[0].model[0].raw.openai: unknown API 'openai'. Did you "
     "mean 'openai-chat'? Known: anthropic, claude-cli, gemini, openai-chat, openai-responses.")),
    (MINIMAL, "turns.0.model.1", {"text": "more"}, ("turns[0].model[0]: an answer without calls ends the turn, and "
     "more answers follow.")),
    (MINIMAL, "turns.0.expect", {"text": {"matches": "(["}}, ("turns[0].expect.text.matches: not a regular expression: "
     "unterminated character set at position 1.")),
    (MINIMAL, "turns.0.expect", {"text": {"contains": 18}}, ("turns[0].expect.text.contains: must be a text or a list "
     "of texts.")),
    (MINIMAL, "turns.0.expect", {"error": "iteration-limit"}, ("turns[0].model[0]: an answer without calls ends the "
     "turn, and expect.error is iteration-limit.")),
    (MINIMAL, "undeclared_tools", ["x"], "undeclared_tools[0]: the model never calls 'x'."),
    (MINIMAL, "system", "Be brief.", "requires: the scenario uses 'system-prompt'. Add it here."),
    (WITH_TOOLS, "requires", ["tools", "tools"], "requires[1]: 'tools' stands here twice."),
    (WITH_TOOLS, "tools.0.parameters", {"type": "array"}, ("tools[0].parameters: the schema of a tool's arguments has "
     "type: object at its root, or is {} for a tool without any.")),
    (WITH_TOOLS, "tools.0.parameters.properties.city.pattern", "(", ("tools[0].parameters.properties.city.pattern: not "
     "a JSON Schema (draft 2020-12): '(' is not a 'regex'.")),
    (WITH_TOOLS, "tools.0.results.0", {"return": 1, "error": 2}, ("tools[0].results[0]: give exactly one of return, "
     "parts, error, raise.")),
    (WITH_TOOLS, "tools.0.results.0.return_", 1, ("tools[0].results[0].return_: unknown key 'return_'. Did you mean "
     "'return'? Known: error, parts, raise, return, times, when.")),
    (WITH_TOOLS, "tools.0.results.0.when", {"town": "Paris"}, ("tools[0].results[0].when.town: unknown argument of "
     "get_weather 'town'. Known: city.")),
    (WITH_TOOLS, "tools.0.results.2", {"when": {"city": "Rome"}, "return": 1}, ("tools[0].results[2]: never reached, "
     "since results[1] answers first.")),
    (WITH_TOOLS, "tools.1", {"name": "get_weather"}, "tools[1].name: a second tool of the name 'get_weather'."),
    (WITH_TOOLS, "undeclared_tools", ["get_weather"], "undeclared_tools[0]: the tool 'get_weather' is declared."),
    (WITH_TOOLS, "turns.0.model.0.calls.0", {"get_wether": {}}, ("turns[0].model[0].calls[0].get_wether: unknown tool "
     "'get_wether'. Did you mean 'get_weather'? Known: get_weather. If the model is meant to call it all the same, add "
     "it to undeclared_tools.")),
    (WITH_TOOLS, "turns.0.model.0.calls.0", {"a": {}, "b": {}}, ("turns[0].model[0].calls: a call is one pair {tool: "
     "arguments}.")),
    (WITH_TOOLS, "turns.0.model.0.calls.0.get_weather", {"city": 75}, ("turns[0].model[0].calls[0].get_weather.city: "
     "does not fit the parameters of 'get_weather': 75 is not of type 'string'.")),
    (WITH_TOOLS, "tools.0.results", [{"when": {"city": "Rome"}, "return": 1}],
     ("turns[0].model[0].calls[0].get_weather: 'get_weather' has no result for these arguments. Add one, or one "
     "without when.")),
    (WITH_TOOLS, "tools.0.answered_by", "client", ("tools[0].results: 'get_weather' is answered by the client. Leave "
     "its results out, or answered_by.")),
    (WITH_TOOLS, "tools.0.results.0", {"when": {"city": "Paris"}, "return": 1, "times": 0},
     "tools[0].results[0].times: must be at least 1."),
    (WITH_TOOLS, "tools.0.results.0", {"return": 1, "times": True},
     "tools[0].results[0].times: must be a whole number, not true."),
    (WITH_TOOLS, "tools.0.results", [{"return": 1, "times": 1}, {"return": 2}, {"return": 3}],
     "tools[0].results[2]: never reached, since results[1] answers first."),
    (TWICE, "tools.0.results", [{"error": "busy", "times": 1}],
     ("turns[0].model[1].calls[0].get_weather: 'get_weather' has no result for these arguments that is not used up. "
      "Add one, or one without when.")),
    (WITH_TOOLS, "tools.0.results", [{"when": {"city": "Rome"}, "return": 1, "times": 2}],
     ("turns[0].model[0].calls[0].get_weather: 'get_weather' has no result for these arguments that is not used up. "
      "Add one, or one without when.")),
    (TWICE, "turns.0.model", [{"calls": [{"get_weather": {"city": "Paris"}}] * 2}, {"text": "18"}],
     ("turns[0].model[0].calls[1].get_weather: results[0] of 'get_weather' has times, and fits an earlier call of this "
      "answer too. Put them into two answers.")),
    (WITH_TOOLS, "turns.0.expect", {"called": {"get_weather": 2}},
     ("turns[0].expect: the script itself does not meet called.get_weather: 'get_weather' is called once, not 2 "
      "times.")),
    (WITH_TOOLS, "turns.0.expect", {"called": {"get_weather": "two"}},
     "turns[0].expect.called.get_weather: must be a number or {min: …, max: …}."),
    (WITH_TOOLS, "turns.0.expect", {"called": {"get_weather": 1.5}},
     "turns[0].expect.called.get_weather: must be a whole number, not 1.5."),
    (WITH_TOOLS, "turns.0.expect", {"called": {"get_weather": {}}},
     "turns[0].expect.called.get_weather: give min, max or both."),
    (WITH_TOOLS, "turns.0.expect", {"called": {"get_weather": {"min": 2, "max": 1}}},
     "turns[0].expect.called.get_weather: min 2 is more than max 1."),
    (WITH_TOOLS, "turns.0.expect", {"called": {"get_weather": {"least": 2}}},
     "turns[0].expect.called.get_weather.least: unknown key 'least'. Known: max, min."),
    (WITH_TOOLS, "turns.0.expect", {"called": {"get_wether": {"max": 1}}},
     ("turns[0].expect.called.get_wether: unknown tool 'get_wether'. Did you mean 'get_weather'? Known: get_weather.")),
    (WITH_TOOLS, "turns.0.expect", {"not_called": ["get_wether"]},
     ("turns[0].expect.not_called[0]: unknown tool 'get_wether'. Did you mean 'get_weather'? Known: get_weather.")),
    (WITH_TOOLS, "turns.0.expect", {"not_called": ["get_weather"]},
     "turns[0].expect: the script itself does not meet not_called[0]: 'get_weather' is called once."),
    (WITH_TOOLS, "turns.0.expect", {"not_called": "get_weather"},
     "turns[0].expect.not_called: must be a list, not the text 'get_weather'."),
    (MINIMAL, "turns.0.expect", {"text": {"not_contains": ["Bye", "i"]}},
     "turns[0].expect: the script itself does not meet text.not_contains[1]: the text contains 'i'."),
    (WITH_TOOLS, "turns.0.model.0.answers", [1], ("turns[0].model[0]: answers must name each of the 1 calls once, by "
     "index from 0.")),
    (WITH_TOOLS, "turns.0.model.1", ABSENT, ("turns[0].model[0]: the turn ends in a call. Add the model's answer to "
     "the results, or ends_with_call: true.")),
    (WITH_TOOLS, "turns.0.ends_with_call", True,
     "turns[0].ends_with_call: the last answer of the turn has to call a tool."),
    (WITH_TOOLS, "max_iterations", 1, "turns[0].model: 2 answers in a turn, more than max_iterations (1)."),
    (WITH_TOOLS, "turns.0.settings", {"tool_choice": {"tool": "get_wether"}},
     "turns[0].settings.tool_choice.tool: unknown tool 'get_wether'. Did you mean 'get_weather'? Known: get_weather."),
    (WITH_TOOLS, "turns.0.settings", {"tool_choice": "none"},
     "turns[0].model[0].calls: a call though tool_choice is none."),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "value", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_key(
    tmp_path: Path, base: dict[str, Any], path: str, value: object, message: str
) -> None:
    file = written(tmp_path, changed(base, path, value))
    texts = [str(error) for error in problems(file)]
    assert all(text.startswith(f"{file}:1:") for text in texts)
    assert [text for text in texts if f" at {message}" in text], texts


def test_every_case_is_right_without_its_mistake(tmp_path: Path) -> None:
    for base in (MINIMAL, WITH_TOOLS, TWICE):
        assert problems(written(tmp_path, base)) == []


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


def test_all_mistakes_are_found_in_the_order_of_their_lines(tmp_path: Path) -> None:
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


HISTORY: dict[str, Any] = {
    **WITH_TOOLS,
    "id": "history",
    "requires": ["tools", "history"],
    "history": [
        {"role": "user", "text": "Rome?"},
        {"role": "assistant", "calls": [{"id": "a", "name": "get_weather", "arguments": {"city": "Rome"}}]},
        {"role": "user", "results": [{"call_id": "a", "content": 21}]},
        {"role": "assistant", "text": "21"},
    ],
}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("history.2.results.0.call_id", "b", "history[2].results[0].call_id: 'b' is not the id of a call in the"),
        ("history.2.results.0.call_id", "b", "history[2]: the call 'a' of the message before is not answered here."),
        ("history.2.results.1", {"call_id": "a"}, "history[2].results[1].call_id: a second result for the call 'a'."),
        ("history.1.calls.1", {"id": "a", "name": "x"}, "history[1].calls[1].id: the id 'a' is taken by an earlier"),
        ("history.3", {"role": "user", "text": "x"}, "history[3]: a history ends with an answer of the assistant"),
        ("history.0.calls", [{"id": "b", "name": "x"}], "history[0].calls: a message of the user has no calls."),
        ("history.3.results", [{"call_id": "a"}], "history[3].results: a message of the assistant has no results."),
        ("history.0", {"role": "user"}, "history[0]: an empty message."),
        ("history.0.role", "system", "history[0].role: unknown role 'system'. Known: assistant, user."),
    ],
)
def test_a_history_keeps_its_pairs(tmp_path: Path, path: str, value: object, message: str) -> None:
    assert problems(written(tmp_path, HISTORY)) == []
    texts = [str(error) for error in problems(written(tmp_path, changed(HISTORY, path, value)))]
    assert [text for text in texts if f" at {message}" in text], texts


def test_the_iteration_limit_takes_as_many_answers_as_the_bound(tmp_path: Path) -> None:
    call = {"calls": [{"get_weather": {"city": "Paris"}}]}
    limited = changed(WITH_TOOLS, "turns.0", {"user": "x", "model": [call] * 2, "expect": {"error": "iteration-limit"}})
    assert problems(written(tmp_path, {**limited, "max_iterations": 2})) == []
    [error] = problems(written(tmp_path, {**limited, "max_iterations": 3}))
    assert error.reason == "2 answers; the iteration limit is reached after max_iterations (3)."


@pytest.mark.parametrize("choice", ["required", {"tool": "get_weather"}])
def test_a_forced_choice_begins_with_a_call(tmp_path: Path, choice: object) -> None:
    content = {
        **WITH_TOOLS,
        "settings": {"tool_choice": choice},
        "requires": ["tools", "tool-choice", "forced-tool-choice"],
    }
    assert problems(written(tmp_path, content)) == []
    [error] = problems(written(tmp_path, changed(content, "turns.0.model", [{"text": "no"}])))
    assert error.key == "turns[0].model[0]"
    assert "tool_choice" in error.reason


def test_the_id_is_the_file_name(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(json.dumps(MINIMAL), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        load_file(file)
    assert str(error.value) == f"{file}:1:22 at id: the id has to be the file's name, 'other'."


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


def test_an_id_stands_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = written(tmp_path / "a", MINIMAL), written(tmp_path / "b", MINIMAL)
    with pytest.raises(ScenarioError) as error:
        load_paths([tmp_path])
    assert str(error.value) == f"{second} at id: the id 'minimal' is taken by {first}."


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


def test_comments_layout_and_key_order_do_not_change_the_digest(tmp_path: Path) -> None:
    one = digest(scenario(tmp_path, WITH_TOOLS))
    (tmp_path / "with-tools.yaml").write_text("# a comment\n" + yaml.safe_dump(WITH_TOOLS), encoding="utf-8")
    assert digest(load_file(tmp_path / "with-tools.yaml")) == one
    assert len(one) == 64


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("turns.0.user", "Rome?"),
        ("turns.0.system", None),
        ("tools.0.results.1", {"error": None}),
        ("tools.0.results.0.return.temp_c", 18.5),
        ("title", "Another"),
    ],
)
def test_content_changes_the_digest(tmp_path: Path, path: str, value: object) -> None:
    one = digest(scenario(tmp_path, WITH_TOOLS))
    assert digest(scenario(tmp_path, changed(WITH_TOOLS, path, value))) != one


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
def test_what_is_sent_has_a_digest_of_its_own(path: str, value: object, is_sent: bool) -> None:
    one = Scenario.model_validate_json(json.dumps(WITH_TOOLS))
    other = Scenario.model_validate_json(json.dumps(changed(WITH_TOOLS, path, value)))
    assert (sent_digest(one) != sent_digest(other)) is is_sent
    assert digest(one) != digest(other)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(sorted({path for base, path, _, _ in MISTAKES if base is WITH_TOOLS} | {"history", "settings"}))
SCHEMAS = st.dictionaries(
    st.sampled_from(["type", "$ref", "$id", "$defs", "properties", "items", "pattern", "$dynamicRef", "$anchor"]),
    st.sampled_from(["object", "#", "#/properties", "a:b", "", "("]) | JSON_VALUES,
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(path=PATHS, value=JSON_VALUES | SCHEMAS | SCHEMAS.map(lambda schema: {**schema, "type": "object"}))
def test_whatever_stands_in_a_file_nothing_but_a_scenario_error_comes_out(
    tmp_path: Path, path: str, value: object
) -> None:
    with contextlib.suppress(ScenarioError):
        load_file(written(tmp_path, changed(WITH_TOOLS, path, value)))


def test_a_schema_without_end_is_an_error(tmp_path: Path) -> None:
    endless = {"type": "object", "$ref": "#"}
    [error] = problems(written(tmp_path, changed(WITH_TOOLS, "tools.0.parameters", endless)))
    assert "the schema cannot be applied" in error.reason
