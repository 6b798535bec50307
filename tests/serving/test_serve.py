"""`harness serve`: its responses to clients in any language, and its judgements."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

from harness.cli.explain import topics
from tests.serving.served import KEYS, PATHS, Served, ask, first_body, next_body, process, serving

PARALLEL = "call-parallel-same-tool"
FAILING = "call-fails-then-answers"
BARE = "call-without-parameters"
APIS = sorted(PATHS)


CUT = "stream-cut-in-arguments"
SHAPED = "call-sequential"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(PARALLEL, "call-single", FAILING, BARE, CUT) as server:
        yield server


def scenario(server: Served, name: str = PARALLEL) -> dict[str, Any]:
    every = server.ask("/_harness/scenarios").json["scenarios"]
    return next(each for each in every if each["id"] == name)


def run_client(server: Served, api: str, session: str, *, swapped: bool = False) -> dict[str, Any]:
    """Run the scenario of two parallel calls with nothing but what the server tells; the last answer."""
    path = f"/{PARALLEL}/{session}{PATHS[api]}"
    body = first_body(api, scenario(server))
    answer = server.ask(path, body, KEYS[api])
    assert answer.status == 200, answer.body
    results = [call["result"]["content"] for call in server.report(PARALLEL, session)["calls"]]
    if swapped:
        results.reverse()
    last = server.ask(path, next_body(api, body, answer.json, results), KEYS[api])
    assert last.status == 200, last.body
    report: dict[str, Any] = last.json
    return report


@pytest.mark.parametrize("api", APIS)
def test_a_tool_without_parameters_has_the_form_that_every_api_accepts(served: Served, api: str) -> None:
    """The AI SDK of Vercel passes on what it is given, and `{}` would be refused."""
    (tool,) = scenario(served, BARE)["tools"]
    answer = served.ask(f"/{BARE}/bare-{api}{PATHS[api]}", first_body(api, scenario(served, BARE)), KEYS[api])

    assert tool["parameters"] == {"type": "object", "properties": {}}
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("api", APIS)
def test_a_client_without_sdk_can_run_the_described_scenario(served: Served, api: str) -> None:
    run_client(served, api, f"right-{api}")

    report = served.report(PARALLEL, f"right-{api}")
    assert (report["api"], report["verdict"], report["findings"]) == (api, "pass", [])
    assert (report["played"], report["script"], report["requests"]) == (2, 2, 2)


def test_cut_json_array_stream_is_invalid_json(served: Served) -> None:
    """Gemini's form without `alt=sse`, in the middle of an element."""
    path = f"/{CUT}/array{PATHS['gemini'].replace('generateContent', 'streamGenerateContent')}"

    answer = served.ask(path, first_body("gemini", scenario(served, CUT)), KEYS["gemini"])

    assert answer.status == 200, answer.body
    assert answer.body.startswith(b"[{")
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.body)


@pytest.mark.parametrize("api", APIS)
def test_swapped_results_are_found(served: Served, api: str) -> None:
    run_client(served, api, f"swapped-{api}", swapped=True)

    report = served.report(PARALLEL, f"swapped-{api}")
    assert report["verdict"] == "fail"
    assert {each["rule"] for each in report["findings"]} == {"result-swapped"}


_SAID = ("parameters", "settings", "arguments", "content", "actual", "expected")
"""Keys whose values are the words of a scenario or of a client."""


def _keys(value: object) -> set[str]:
    match value:
        case list():
            return {key for each in value for key in _keys(each)}
        case dict():
            return {*value, *(key for name, each in value.items() if name not in _SAID for key in _keys(each))}
        case _:
            return set()


def test_the_topic_has_exactly_the_keys_of_the_responses(served: Served) -> None:
    run_client(served, "openai-chat", "documented", swapped=True)
    call = {"name": "get_weather", "arguments": {"city": "Tokyo"}}
    paths = ("scenarios", f"{PARALLEL}/documented", f"{PARALLEL}/unused")
    report = [served.ask(f"/_harness/{path}") for path in paths]
    report += [served.ask(f"/_harness/{PARALLEL}/any/call", each) for each in (call, b"no JSON")]

    forms = topics()["serve"].partition("## Addresses for your tests")[2].partition("## How it behaves")[0]
    rare = {"raises", "way"}  # of a tool that raises, and of --recut
    assert {key for each in report for key in _keys(each.json)} | rare == set(re.findall(r'"(\w+)"', forms))


def test_tools_can_ask_the_server_what_they_answer(served: Served) -> None:
    asked = {"name": "get_weather", "arguments": {"city": "Tokyo"}}

    reply = served.ask(f"/_harness/{PARALLEL}/any/call", asked)
    unknown = served.ask(f"/_harness/{PARALLEL}/any/call", {**asked, "arguments": {"city": "Oslo"}})
    malformed = served.ask(f"/_harness/{PARALLEL}/any/call", b"no JSON")

    assert reply.json == {"result": {"content": {"temp_c": 31, "sky": "thunder"}, "is_error": False}}
    assert (unknown.status, unknown.json["error"]["message"]) == (
        404,
        "harness: the scenario has no result of 'get_weather' for these arguments",
    )
    assert (malformed.status, malformed.json["error"]["message"]) == (
        400,
        'harness: a call is {"name": "…", "arguments": {…}}',
    )


def test_concurrent_tools_finish_in_reverse_order(served: Served) -> None:
    def call(city: str) -> str:
        served.ask(f"/_harness/{PARALLEL}/at-once/call", {"name": "get_weather", "arguments": {"city": city}})
        return city

    with ThreadPoolExecutor() as pool:
        running = [pool.submit(call, city) for city in ("Paris", "Tokyo")]

        assert [each.result() for each in as_completed(running)] == ["Tokyo", "Paris"]


def test_tool_that_fails_first_then_answers(served: Served) -> None:
    meter = {"name": "read_meter", "arguments": {"meter": "W-204"}}
    body = first_body("openai-chat", scenario(served, FAILING))
    answered: list[Any] = []
    for _ in range(3):
        answer = served.ask(f"/{FAILING}/s{PATHS['openai-chat']}", body, KEYS["openai-chat"])
        twice = [served.ask(f"/_harness/{FAILING}/s/call", meter).json["result"] for _ in range(2)]
        assert twice[0] == twice[1]  # a tool that is run again for the same call has not been called again
        answered.append(twice[0])
        said = {"error": twice[0]["content"]} if twice[0]["is_error"] else twice[0]["content"]
        body = next_body("openai-chat", body, answer.json, [said])
    served.ask(f"/{FAILING}/s{PATHS['openai-chat']}", body, KEYS["openai-chat"])

    report = served.report(FAILING, "s")
    busy = {"content": "line busy", "is_error": True}
    assert answered == [busy, busy, {"content": {"meter": "W-204", "kwh": 5183}, "is_error": False}]
    assert [call["result"] for call in report["calls"]] == answered
    assert (report["verdict"], report["findings"], report["played"]) == ("pass", [], 4)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/call-singel/1/v1/messages", "no scenario 'call-singel' is served. Did you mean 'call-single'?"),
        ("/call-single/v1/messages", "the base URL needs a session, as in {url}/call-single/1"),
        ("/call-single/1/v1/message", "no API has this path"),
        (
            "/_harness/scenario",
            (
                "there are GET /_harness/scenarios, GET /_harness/SCENARIO/SESSION and "
                "POST /_harness/SCENARIO/SESSION/call"
            ),
        ),
    ],
)
def test_a_path_that_leads_nowhere_says_where_to_go(served: Served, path: str, said: str) -> None:
    reply = served.ask(path, {})

    assert (reply.status, reply.json["error"]["message"]) == (404, f"harness: {said.format(url=served.url)}")


def test_the_end_of_the_input_ends_it_with_the_verdict(tmp_path: Path) -> None:
    report, page, archive = (tmp_path / name for name in ("run.json", "page.html", "archive.json"))
    reports = (f"--report=json:{report}", f"--report=html:{page}", f"--report=archive:{archive}")
    with serving(PARALLEL, *reports) as server:
        run_client(server, "anthropic", "good")
        run_client(server, "openai-chat", "bad", swapped=True)

        assert server.end() == 1

    assert "result-swapped: " in server.out
    assert f"Run again    harness serve {PARALLEL}" in server.out
    assert "Look" not in server.out
    assert "All answers are harness's own" in server.out
    run = json.loads(report.read_text(encoding="utf-8"))
    assert run["mode"] == "serve"
    assert {cell["target"]: cell["verdict"] for cell in run["cells"]} == {
        "anthropic/good": "pass",
        "openai-chat/bad": "fail",
    }
    assert f'href="#cell/{PARALLEL}/openai-chat%2Fbad/whole"' in page.read_text(encoding="utf-8")
    kept = json.loads(archive.read_text(encoding="utf-8"))["cells"]
    assert [len(cell["conversation"]["exchanges"]) for cell in kept] == [2, 2]


@pytest.mark.parametrize("is_signalled", [True, False])
def test_a_client_that_stops_halfway_is_found_at_the_end(is_signalled: bool) -> None:
    with process(PARALLEL) as (running, url):
        report = ask(f"{url}/_harness/scenarios").json["scenarios"][0]
        ask(f"{url}/{PARALLEL}/1{PATHS['anthropic']}", first_body("anthropic", report), KEYS["anthropic"])
        assert ask(f"{url}/_harness/{PARALLEL}/1").json["verdict"] == "pass"
        if is_signalled:
            running.send_signal(signal.SIGTERM)
            running.wait(timeout=30)
        out, _ = running.communicate(timeout=30)  # which closes its input

    assert running.returncode == 1
    assert "script-unplayed" in out
    assert "the client stopped before 1 of the 2 answers of the script" in out


AGENT = """
version: 1
id: own-shell
title: An agent runs a command in its own shell
covers: [id-matching]
requires: [tools]
tools:
  - name: shell
    parameters: {type: object, properties: {command: {type: string}}, required: [command]}
    answered_by: client
turns:
  - user: Which files are here?
    model:
      - calls: [{shell: {command: ls}}]
      - text: Two.
"""


def test_any_result_of_the_clients_own_tool_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "own-shell.yaml"
    file.write_text(AGENT)
    with serving(str(file)) as server:
        body = first_body("anthropic", scenario(server, "own-shell"))
        for session in ("answered", "lost"):
            path = f"/own-shell/{session}{PATHS['anthropic']}"
            answer = server.ask(path, body, KEYS["anthropic"]).json
            onward = next_body("anthropic", body, answer, ["a.txt b.txt"])
            if session == "lost":
                onward["messages"][2]["content"][0]["tool_use_id"] = "toolu_other"
            server.ask(path, onward, KEYS["anthropic"])

        assert server.report("own-shell", "answered")["verdict"] == "pass"
        assert server.report("own-shell", "answered")["calls"][0]["result"] is None
        assert server.report("own-shell", "lost")["verdict"] == "fail"
        assert server.end() == 1


def test_nobody_asked() -> None:
    with serving(PARALLEL) as server:
        assert server.end() == 2

    assert server.err == ("harness: no client has sent a request. 'harness help serve' shows how to configure one.\n")


def test_a_port_that_is_taken(served: Served) -> None:
    port = served.url.rpartition(":")[2]

    with serving("--port", port) as other:
        pass

    assert other.end() == 2
    assert other.err == f"harness: port {port}: Address already in use. Without --port, a free port is used.\n"


CLIENT = """
import json, os, urllib.request
base = os.environ["ANTHROPIC_BASE_URL"]
assert base == os.environ["HARNESS_BASE_URL"] == os.environ["HARNESS_URL"] + "/call-single/command", base
assert os.environ["OPENAI_BASE_URL"] == base + "/v1"
body = {"model": "claude-opus-5", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi."}],
        "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}]}
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
urllib.request.urlopen(urllib.request.Request(base + "/v1/messages", json.dumps(body).encode(), headers)).read()
"""


FAILED = "harness: the command ended with exit code 3: "


@pytest.mark.parametrize(("ending", "err"), [("", ""), ("raise SystemExit(3)", FAILED)])
def test_a_command_is_run_against_it(tmp_path: Path, ending: str, err: str) -> None:
    client = tmp_path / "client.py"
    client.write_text(CLIENT + ending, encoding="utf-8")

    with serving("call-single", "--command", f"{sys.executable} {client}") as server:
        assert server.end() == 1  # it asked for the first answer only

    assert server.err.startswith(err)
    assert bool(server.err) == bool(err)
    assert "anthropic/command" in server.out


SCENARIO = """
version: 1
id: {name}
title: A client with a system prompt, a tool and two turns
covers: [tools]
requires: [system-prompt, tools, history]
system: You are terse.
system_from: {system_from}
tools:
  - name: get_weather
    parameters: {{type: object, properties: {{city: {{type: string}}}}, required: [city]}}
    results: [{{return: {{temp_c: 18}}}}]
turns:
  - user: How warm is it in Paris?
    model:
      - {{text: I will look., calls: [{{get_weather: {{city: Paris}}}}]}}
      - text: 18 °C.
  - user: Thank you.
    model: [{{text: You are welcome.}}]
"""
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("prompted")
    for system_from in ("scenario", "client"):
        text = SCENARIO.format(name=f"prompt-of-{system_from}", system_from=system_from)
        (folder / f"prompt-of-{system_from}.yaml").write_text(text, encoding="utf-8")
    with serving(*map(str, sorted(folder.iterdir())), "call-truncated") as server:
        yield server


def converse(server: Served, name: str, session: str, *, system: str, forgets: str = "") -> list[str]:
    """Run the scenario of two turns by OpenAI Chat; `forgets` is a text of the model that is not sent back. The
    findings, as rules and messages."""
    tools = [{"type": "function", "function": tool} for tool in scenario(server, name)["tools"]]
    messages: list[Any] = [{"role": "system", "content": system}, {"role": "user", "content": "Warm in Paris?"}]

    def ask(*more: dict[str, Any]) -> Any:
        messages.extend(more)
        sent = [{**each, "content": None} if forgets and each["content"] == forgets else each for each in messages]
        sent = [each for each in sent if each["content"] or each.get("tool_calls")]
        body = {"model": "gpt-4o", "messages": sent, "tools": tools}
        answer = server.ask(f"/{name}/{session}{CHAT}", body, KEYS["openai-chat"]).json["choices"][0]["message"]
        messages.append(answer)
        return answer

    (call,) = ask()["tool_calls"]
    ask({"role": "tool", "tool_call_id": call["id"], "content": '{"temp_c": 18}'})
    ask({"role": "user", "content": "Thanks!"})
    return [f"{each['rule']}: {each['message']}" for each in server.report(name, session)["findings"]]


def test_scenario_prompt_with_reworded_turns_passes(prompted: Served) -> None:
    assert converse(prompted, "prompt-of-scenario", "right", system="Be kind. You are terse.") == []


def test_dropped_system_prompt_is_found_unless_clients_own(prompted: Served) -> None:
    found = converse(prompted, "prompt-of-scenario", "dropped", system="I am an agent.")

    assert {*found} == {"loop-system: the system prompt is nowhere in the request"}
    assert converse(prompted, "prompt-of-client", "own", system="I am an agent.") == []


@pytest.mark.parametrize("forgets", ["18 °C.", "I will look."])
def test_an_answer_that_a_client_drops_is_found(prompted: Served, forgets: str) -> None:
    session = f"forgets-{len(forgets)}"
    found = converse(prompted, "prompt-of-scenario", session, system="You are terse.", forgets=forgets)

    assert {*found} == {"loop-history: what the model wrote is not in the request"}


def test_missing_tools_are_named_with_those_that_arrived(prompted: Served) -> None:
    name = "prompt-of-client"
    tool = {"type": "function", "function": {"name": "Weather", "parameters": {"type": "object", "properties": {}}}}
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Warm in Paris?"}], "tools": [tool]}
    prompted.ask(f"/{name}/lacks{CHAT}", body, KEYS["openai-chat"])

    assert [each["message"] for each in prompted.report(name, "lacks")["findings"]] == [
        "the scenario names the tool get_weather, but the client does not declare it; the tools that arrived: Weather"
    ]


def cut_off(server: Served, session: str, onward: Callable[[dict[str, Any]], list[Any]]) -> list[str]:
    """Run the scenario whose call is cut off; `onward` makes messages of the answer. The rules of the findings."""
    body = first_body("openai-chat", scenario(server, "call-truncated"))
    path = f"/call-truncated/{session}{CHAT}"
    message = server.ask(path, body, KEYS["openai-chat"]).json["choices"][0]["message"]
    server.ask(path, {**body, "messages": [*body["messages"], *onward(message)]}, KEYS["openai-chat"])
    found = server.report("call-truncated", session)["findings"]
    return [each["rule"] for each in found]


def test_client_may_retry_after_a_truncated_call(prompted: Served) -> None:
    assert cut_off(prompted, "again", lambda _: [{"role": "user", "content": "Be shorter."}]) == []


def test_a_client_that_answers_a_call_that_was_cut_off_is_found(prompted: Served) -> None:
    def answered(message: dict[str, Any]) -> list[Any]:
        (call,) = message["tool_calls"]
        call["function"]["arguments"] = "{}"
        return [message, {"role": "tool", "tool_call_id": call["id"], "content": "no JSON"}]

    assert cut_off(prompted, "answered", answered)[0] == "cut-call-answered"


def test_a_call_that_was_cut_off_may_be_answered_with_an_error(prompted: Served) -> None:
    def answered(message: dict[str, Any]) -> list[Any]:
        (call,) = message["tool_calls"]
        return [message, {"role": "tool", "tool_call_id": call["id"], "content": '{"error": "no JSON"}'}]

    assert cut_off(prompted, "refused", answered)[0] == "cut-call-answered"
    severities = [each["severity"] for each in prompted.report("call-truncated", "refused")["findings"]]
    assert severities[0] == "note"


def test_a_tool_that_runs_for_a_call_that_was_cut_off_is_found(prompted: Served) -> None:
    def ran(_: dict[str, Any]) -> list[Any]:
        call = {"name": "send_letter", "arguments": {"to": "the harbour master"}}
        prompted.ask("/_harness/call-truncated/ran/call", call)
        return [{"role": "user", "content": "Is it sent?"}]

    assert cut_off(prompted, "ran", ran) == ["cut-call-run"]


def test_path_without_version_suggests_the_base_url(prompted: Served) -> None:
    body = first_body("openai-chat", scenario(prompted, "call-truncated"))
    chat = prompted.ask("/call-truncated/bare/chat/completions", body, KEYS["openai-chat"])
    messages = prompted.ask("/call-truncated/bare/messages", body, KEYS["anthropic"])

    assert (chat.status, messages.status) == (404, 404)
    assert "(is /v1 missing at the end of the base URL?)" in chat.json["error"]["message"]
    base = f"{prompted.url}/call-truncated/bare/v1"
    assert messages.json["error"]["message"].endswith(
        f"Is /v1 missing at the end of the client's base URL? With {base} it is anthropic"
    )


def calls_of(stream: bytes) -> list[dict[str, Any]]:
    """The calls of a stream of OpenAI Chat, put together by their index."""
    calls: dict[int, dict[str, Any]] = {}
    lines = re.split(r"\r\n|\r|\n", stream.decode("utf-8-sig"))
    for line in (each.removeprefix("data:").strip() for each in lines if each.startswith("data:")):
        choices = json.loads(line)["choices"] if line != "[DONE]" else []
        for piece in [piece for choice in choices for piece in choice["delta"].get("tool_calls") or []]:
            call = calls.setdefault(piece["index"], {"id": "", "name": "", "arguments": ""})
            call["id"] = piece.get("id") or call["id"]
            call["name"] = piece["function"].get("name") or call["name"]
            call["arguments"] += piece["function"].get("arguments") or ""
    return [calls[index] for index in sorted(calls)]


def test_streams_of_a_session_vary_in_form_not_content() -> None:
    with serving(SHAPED, "--recut", "8") as server:
        body: dict[str, Any] = {**first_body("openai-chat", scenario(server, SHAPED)), "stream": True}
        found: list[tuple[str, Any]] = []
        for _ in range(3):
            reply = server.ask(f"/{SHAPED}/one{CHAT}", body, KEYS["openai-chat"])
            (call,) = calls_of(reply.body)
            found.append((call["name"], json.loads(call["arguments"])))
            function = {key: call[key] for key in ("name", "arguments")}
            asked = {"role": "assistant", "tool_calls": [{"id": call["id"], "type": "function", "function": function}]}
            (*_, report) = server.report(SHAPED, "one")["calls"]
            content = json.dumps(report["result"]["content"])
            result = {"role": "tool", "tool_call_id": call["id"], "content": content}
            body = {**body, "messages": [*body["messages"], asked, result]}
        report = server.report(SHAPED, "one")

    assert found == [
        ("find_customer", {"email": "ada@example.com"}),
        ("last_order", {"customer": "C-2209"}),
        ("track_parcel", {"parcel": "RR48-119"}),
    ]
    assert report["findings"] == []
    ways = [each["way"] for each in report["streamed"]]
    assert len({*ways}) == 3
    assert [each.startswith("in the chunks of some servers, ") for each in ways] == [True, False, True]


@pytest.mark.parametrize("again", [False, True])
def test_call_of_a_broken_stream_needs_a_retry_first(served: Served, again: bool) -> None:
    path, body = f"/{CUT}/broken-{again}{CHAT}", first_body("openai-chat", scenario(served, CUT))
    broken = served.ask(path, {**body, "stream": True}, KEYS["openai-chat"])
    if again:
        served.ask(path, {**body, "stream": True}, KEYS["openai-chat"])
    call_id = re.findall(rb"call_\w{24}", broken.body)[0].decode()
    arguments = json.dumps({"heading": "Footbridge closed"})
    call = {"id": call_id, "type": "function", "function": {"name": "post_notice", "arguments": arguments}}
    result = {"role": "tool", "tool_call_id": call_id, "content": '{"notice": 44}'}
    messages = [*body["messages"], {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    served.ask(path, {**body, "messages": messages}, KEYS["openai-chat"])

    found = [each["rule"] for each in served.report(CUT, f"broken-{again}")["findings"]]
    assert ("cut-call-answered" in found) is not again
