import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress

import pytest

from harness.apis import registry
from harness.apis.registry import targets_for
from harness.apis.view import ModelStep
from harness.cassettes.library import CassetteLibrary
from harness.model.http import HttpRequest
from harness.model.messages import ChatRequest, Finish, Message, StreamEvent, TextDelta
from harness.model.protocols import AsyncStreamingChatClient, Endpoint, Route
from harness.platform.files import shipped_folder
from harness.results import RunResult, Verdict
from harness.rules.rule import all_rules
from harness.runner.backends import Backend, ReferenceBackend, ReplayBackend
from harness.runner.cells import cells
from harness.runner.suite_run import Run
from harness.scenarios.load import load_paths
from harness.scenarios.schema import Variant
from tests.examples import async_sdk

TARGETS = {"anthropic": async_sdk.ANTHROPIC, "openai-chat": async_sdk.OPENAI_CHAT}
FINE = (Verdict.PASS, Verdict.NOTE, Verdict.NOT_APPLICABLE)

every_adapter = pytest.mark.parametrize("target", TARGETS)


def run(target: str, backend: Backend, variants: Sequence[Variant] = ("whole", "stream")) -> RunResult:
    """Run every sixteenth scenario: the shipped adapters, whose readers these are, run all."""
    scenarios = load_paths([shipped_folder("scenarios")])[::16]
    return Run(backend, all_rules())(cells(scenarios, targets_for([TARGETS[target]], [target], {}), variants))


def unclean(result: RunResult) -> list[tuple[str, str, str, list[str]]]:
    return [
        (cell.scenario, cell.variant, cell.reason or "", [finding.message for finding in cell.findings])
        for cell in result.cells
        if cell.verdict not in FINE
    ]


@every_adapter
def test_it_passes_a_sample_whole_and_streamed(target: str) -> None:
    result = run(target, ReferenceBackend())

    assert unclean(result) == []
    passed = [cell.variant for cell in result.cells if cell.verdict is Verdict.PASS]
    assert min(passed.count("whole"), passed.count("stream")) > 5


@every_adapter
def test_shipped_streams_replay_through_it(target: str) -> None:
    result = run(target, ReplayBackend([CassetteLibrary(shipped_folder("cassettes"))]), ["stream"])

    assert unclean(result) == []
    assert len([cell for cell in result.cells if cell.verdict is Verdict.PASS]) > 5


def test_other_cuts_of_a_stream_make_no_difference() -> None:
    scenarios = [
        scenario for scenario in load_paths([shipped_folder("scenarios")]) if scenario.id == "call-parallel-same-tool"
    ]
    chosen = cells(scenarios, targets_for([async_sdk.OPENAI_CHAT], ["openai-chat"], {}), ["stream"])

    result = Run(ReferenceBackend(), all_rules(), recuts=3)(chosen)

    assert unclean(result) == []
    assert [cell.recuts for cell in result.cells] == [3 + len(registry.api("openai-chat").stream_shapes)]


Served = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]


def answer(api: str, model: str, head: bytes, body: bytes) -> bytes:
    """Return the reference server's response to a streamed request."""
    wire = registry.api(api)
    path = head.split()[1].decode()
    request = wire.view(HttpRequest("POST", f"http://127.0.0.1{path}", {"content-type": "application/json"}, body))
    assert request.stream
    step = ModelStep(text="one two three four five six seven eight nine ten", calls=(("weather", {"city": "Paris"}),))
    return wire.build_stream(step, "seed", model, registry.api(api).profile_for(model), request).body


@asynccontextmanager
async def connected(target: str, serve: Served) -> AsyncIterator[async_sdk.Client]:
    """A client of a server that answers one request by `serve`, which is given the whole answer."""
    adapter = TARGETS[target]
    (chosen,) = targets_for([adapter], [target], {})

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:] if line)
        body = await reader.readexactly(int(lines[b"content-length"]))
        whole = answer(adapter.api, chosen.model, head, body)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            await serve(writer, whole)
        finally:
            writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        version = "" if adapter.api == "anthropic" else "/v1"
        client = adapter.connect(Endpoint(f"http://127.0.0.1:{port}{version}", "no-key"), chosen.model)
        assert isinstance(client, AsyncStreamingChatClient)
        assert isinstance(client, async_sdk.Client)
        try:
            yield client
        finally:
            await client.close()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def ask(target: str) -> ChatRequest:
    (chosen,) = targets_for([TARGETS[target]], [target], {})
    return ChatRequest(chosen.model, (Message.user("Count to ten."),), max_tokens=100)


@every_adapter
def test_events_arrive_with_the_bytes(target: str) -> None:
    """The second half of the answer is sent once text of the first half has come out of the adapter."""

    async def converse() -> list[StreamEvent]:
        heard = asyncio.Event()

        async def serve(writer: asyncio.StreamWriter, whole: bytes) -> None:
            middle = len(whole) // 2
            writer.write(chunk(whole[:middle]))
            await heard.wait()
            writer.write(chunk(whole[middle:]) + chunk(b""))

        seen: list[StreamEvent] = []
        async with connected(target, serve) as client, asyncio.timeout(60):
            async for event in client.stream(ask(target)):
                seen.append(event)
                if isinstance(event, TextDelta):
                    heard.set()
        return seen

    *before, last = asyncio.run(converse())
    assert isinstance(last, Finish)
    assert last.response.text == "one two three four five six seven eight nine ten"
    assert [call.arguments for call in last.response.tool_calls] == [{"city": "Paris"}]
    assert sum(isinstance(event, TextDelta) for event in before) > 1


@every_adapter
def test_leaving_a_stream_closes_the_connection(target: str) -> None:
    async def converse() -> None:
        left = asyncio.Event()

        async def serve(writer: asyncio.StreamWriter, whole: bytes) -> None:
            writer.write(chunk(whole[: len(whole) // 2]))
            with suppress(ConnectionError):
                while not writer.is_closing():
                    await writer.drain()
                    await asyncio.sleep(0.01)
                    writer.write(chunk(b": still there\n\n"))
            left.set()

        async with connected(target, serve) as client, asyncio.timeout(60):
            async with aclosing(client.stream(ask(target))) as events:
                await anext(events)
                assert not left.is_set()
            await left.wait()

    asyncio.run(converse())


def test_they_run_on_loopback() -> None:
    assert {adapter.route for adapter in TARGETS.values()} == {Route.LOOPBACK}
