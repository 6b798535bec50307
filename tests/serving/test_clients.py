"""Real clients against `harness serve`: the official SDKs with their own tool loops, and a test runner of Node."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.serving.served import MODELS, Served, serving

PARALLEL = "call-parallel-same-tool"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_node_test_finds_a_swapped_result() -> None:
    test = Path(__file__).parent / "client.test.mjs"

    with serving(PARALLEL, "--command", f"node --test {test}") as server:
        assert server.end() == 1  # of the swapped results, not of the test, which expects them
    assert server.err == ""
    assert "result-swapped: data lost or wrong" in server.out
    assert "openai-chat/node-by-place" in server.out


NODE_DIR = os.environ.get("HARNESS_NODE_DIR")


@pytest.mark.skipif(
    not NODE_DIR, reason="HARNESS_NODE_DIR names no folder with the npm SDKs; .ci/run installs them where Node is"
)
def test_the_npm_sdks_with_their_own_loops() -> None:
    test = Path(__file__).parent / "sdks.test.mjs"

    with serving(PARALLEL, "--command", f"node --test {test}") as server:
        code = server.end()

    assert code == 0, server.out
    assert "4 pass" in server.out


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(PARALLEL) as server:
        yield server


def turn(server: Served, name: str) -> tuple[list[dict[str, Any]], str]:
    """The tools of a scenario, and what its user says first."""
    report = next(each for each in server.ask("/_harness/scenarios").json["scenarios"] if each["id"] == name)
    return report["tools"], report["turns"][0]["user"]


def answer(server: Served, name: str, tool: str, arguments: Any) -> str:
    """What a tool of a scenario says."""
    reply = server.ask(f"/_harness/{name}/any/call", {"name": tool, "arguments": arguments})
    return json.dumps(reply.json["result"]["content"])


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Closes clients: what is collected later would fail whichever test is run then."""
    with ExitStack() as stack:
        yield stack


def assert_completed(server: Served, name: str, session: str) -> None:
    report = server.report(name, session)
    assert (report["verdict"], report["findings"], report["played"]) == ("pass", [], report["script"])


def test_the_tool_runner_of_anthropic(served: Served, opened: ExitStack) -> None:
    anthropic = pytest.importorskip("anthropic")

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Current weather in a city.

        Args:
            city: City name
        """
        return answer(served, PARALLEL, "get_weather", {"city": city})

    client = opened.enter_context(closing(anthropic.Anthropic(base_url=f"{served.url}/{PARALLEL}/runner", api_key="k")))
    runner = client.beta.messages.tool_runner(
        model=MODELS["anthropic"],
        max_tokens=500,
        tools=[get_weather],
        messages=[{"role": "user", "content": turn(served, PARALLEL)[1]}],
    )

    last = runner.until_done()

    assert last.content[-1].text == "18 °C and clear in Paris, 31 °C with thunder in Tokyo."
    assert_completed(served, PARALLEL, "runner")


def test_openai_keeps_responses(served: Served, opened: ExitStack) -> None:
    openai = pytest.importorskip("openai")
    tools, user = turn(served, PARALLEL)
    client = opened.enter_context(closing(openai.OpenAI(base_url=f"{served.url}/{PARALLEL}/sdk/v1", api_key="k")))
    flat = [{"type": "function", "strict": False, **tool} for tool in tools]

    with client.responses.stream(model=MODELS["openai-responses"], input=user, tools=flat) as stream:
        first = stream.get_final_response()
    calls = [item for item in first.output if item.type == "function_call"]
    outputs = [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": answer(served, PARALLEL, call.name, json.loads(call.arguments)),
        }
        for call in calls
    ]
    last = client.responses.create(
        model=MODELS["openai-responses"], input=outputs, previous_response_id=first.id, tools=flat
    )

    assert last.output_text == "18 °C and clear in Paris, 31 °C with thunder in Tokyo."
    assert_completed(served, PARALLEL, "sdk")


def test_automatic_calls_of_google(served: Served, opened: ExitStack) -> None:
    genai = pytest.importorskip("google.genai")

    def get_weather(city: str) -> dict[str, Any]:
        """Current weather in a city."""
        report: dict[str, Any] = json.loads(answer(served, PARALLEL, "get_weather", {"city": city}))
        return report

    client = opened.enter_context(
        closing(genai.Client(api_key="k", http_options={"base_url": f"{served.url}/{PARALLEL}/automatic"}))
    )
    said = client.models.generate_content(
        model=MODELS["gemini"], contents=turn(served, PARALLEL)[1], config={"tools": [get_weather]}
    )

    assert said.text == "18 °C and clear in Paris, 31 °C with thunder in Tokyo."
    assert_completed(served, PARALLEL, "automatic")
    assert client.models.count_tokens(model=MODELS["gemini"], contents="Hello.").total_tokens > 0
