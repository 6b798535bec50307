from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.apis import registry
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.transport import Handler
from harness.model.errors import InvalidRequest, PluginError, RateLimited
from harness.model.http import HttpRequest, HttpResponse
from harness.model.protocols import Adapter, EmbeddingProvider, Embeddings, Endpoint
from harness.results import Blame, CellResult, EmbeddingCall, Severity, Verdict
from harness.rules.rule import all_rules
from harness.runner.backends import Backend, ReferenceBackend, ReplayBackend
from harness.runner.cells import Cell
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.runner.tool_loop import run_embeddings
from harness.scenarios.schema import EmbeddingsSpec
from tests.backends import InProcess, every_target, shipped_scenarios
from tests.broken.embeddings import EMBEDDING, INDEX, SWITCHED, gives

RULES = all_rules()
MINE = ("here", "m", 2)


class Provider:
    """Makes vectors of two numbers, and fails as configured."""

    def __init__(self, raises: BaseException | None = None, vectors: Any = None) -> None:
        self.provider, self.model, self.dimensions = MINE
        self.raises = raises
        self.vectors = vectors
        self.is_closed = False

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.raises is not None:
            raise self.raises
        return self.vectors or [[1, 2.5] for _ in texts]

    def close(self) -> None:
        self.is_closed = True


def adapter_of(made: EmbeddingProvider) -> Adapter:
    def never(endpoint: Endpoint, model: str) -> Any:
        raise AssertionError("no chat is asked for")

    def connect(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
        assert (model, dimensions) == ("m", 2)
        return made

    return Adapter("mine", "gemini", frozenset(), never, Embeddings("m", 768, connect))


SPEC = EmbeddingsSpec.model_validate(
    {
        "dimensions": 2,
        "texts": ["a", "b"],
        "queries": [
            {"text": "c", "indexed_with": {"provider": "there"}},
            {"text": "d", "indexed_with": {"model": "n", "dimensions": 3}},
            {"text": "e"},
        ],
    }
)


def embed_all(made: EmbeddingProvider) -> tuple[tuple[EmbeddingCall, ...], list[int]]:
    begun: list[int] = []
    return run_embeddings(SPEC, adapter_of(made), Endpoint("", ""), begun.append), begun


def test_an_index_is_made_and_queried() -> None:
    made = Provider()
    steps, begun = embed_all(made)
    asked = "these embeddings were made with 'm' of there (2 dimensions), and are now requested with 'm' of here"
    assert begun == [0, 1, 2, 3]
    assert steps[0] == EmbeddingCall(("a", "b"), MINE, ((1.0, 2.5), (1.0, 2.5)))
    assert steps[3] == EmbeddingCall(("e",), MINE, ((1.0, 2.5),))
    assert [(step.error, step.refuses, step.vectors) for step in steps[1:3]] == [("EmbeddingMismatch", True, None)] * 2
    assert steps[1].error_text is not None
    assert steps[1].error_text.startswith(asked)
    assert made.is_closed


class _MyOwn(RateLimited):
    pass


@pytest.mark.parametrize(
    ("made", "error", "text", "crashed"),
    [
        (Provider(_MyOwn(429, "slow")), "RateLimited", "HTTP 429: slow", False),
        (Provider(KeyError("data")), "KeyError", "'data'", True),
        (Provider(SystemExit(3)), "SystemExit", "3", True),
        (Provider(vectors=[["x"]]), "ValueError", "could not convert string to float: 'x'", True),
        (Provider(vectors=7), "TypeError", "'int' object is not iterable", True),
    ],
)
def test_what_a_provider_raises_is_noted_and_ends_the_cell(
    made: Provider, error: str, text: str, crashed: bool
) -> None:
    steps, begun = embed_all(made)
    assert begun == [0]
    (step,) = steps
    assert (step.traceback is not None) == crashed
    assert (step.error_text or "").partition(" (tests/")[0] == text
    assert replace(step, error_text="", traceback=None) == EmbeddingCall(
        ("a", "b"), MINE, error=error, error_text="", crashed=crashed
    )
    assert made.is_closed


def test_a_provider_that_cannot_say_what_it_is_has_crashed() -> None:
    made = Provider()
    del made.model
    ((step,), _) = embed_all(made)
    assert (step.declared, step.error, step.crashed) == (None, "AttributeError", True)


def test_an_adapter_that_declares_embeddings_has_to_have_them() -> None:
    with pytest.raises(PluginError) as raised:
        run_embeddings(SPEC, replace(adapter_of(Provider()), embeddings=None), Endpoint("", ""), print)
    assert str(raised.value) == (
        "the adapter 'mine' cannot be used: it declares the capability 'embeddings', and its `embeddings` is None."
    )


Wrap = Callable[[Adapter], Adapter]


def run(
    scenario: str, target: str, backend: Backend, wrap: Wrap | None = None, recorder: Recorder | None = None
) -> CellResult:
    chosen = every_target()[target]
    made = chosen if wrap is None else replace(chosen, adapter=wrap(chosen.adapter))
    return Run(backend, RULES, recorder=recorder)([Cell(shipped_scenarios()[scenario], made, "whole")]).cells[0]


@pytest.mark.parametrize("target", EMBEDDING)
@pytest.mark.parametrize("scenario", [INDEX, SWITCHED])
def test_what_is_recorded_is_replayed(scenario: str, target: str, tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    recorded = run(scenario, target, ReferenceBackend(), recorder=Recorder(library))
    assert (recorded.verdict, recorded.findings) == (Verdict.PASS, ())

    replayed = run(scenario, target, ReplayBackend([library]))

    assert (replayed.verdict, replayed.findings) == (Verdict.PASS, ())
    assert replayed.exchanges == recorded.exchanges > 0


@pytest.mark.parametrize("target", EMBEDDING)
def test_a_text_that_differs_from_the_recorded_one_is_reported(target: str, tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    run(INDEX, target, ReferenceBackend(), recorder=Recorder(library))

    replayed = run(INDEX, target, ReplayBackend([library]), gives(lambda texts: [text.strip() for text in texts]))

    reported = [each for each in replayed.findings if each.rule == "recorded-request"]
    assert reported
    assert {each.severity for each in reported} == {Severity.ERROR}
    assert reported[0].message.startswith("not the request that was recorded: texts[0].text: recorded ")


@pytest.mark.parametrize("target", EMBEDDING)
def test_a_failure_is_not_recorded(target: str, tmp_path: Path) -> None:
    def failing(request: HttpRequest, session: Handler) -> HttpResponse:
        return registry.api(every_target()[target].api).fail(503, None, "s")

    result = run(INDEX, target, InProcess(failing), recorder=Recorder(CassetteLibrary(tmp_path)))
    assert result.reason == "not recorded: a chat failed, and what was there before stays"
    assert list(tmp_path.rglob(f"{INDEX}*.yaml")) == []


@pytest.mark.parametrize("target", EMBEDDING)
def test_what_the_provider_does_wrong_is_not_the_adapters_fault(target: str) -> None:
    wire = registry.api(every_target()[target].api)

    def one_vector(request: HttpRequest, session: Handler) -> HttpResponse:
        assert wire.embeddings is not None
        view = wire.embeddings.view(request)
        body = wire.embeddings.build(replace(view, texts=view.texts[:1]))
        return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode())

    def broken(request: HttpRequest, session: Handler) -> HttpResponse:
        return HttpResponse(200, {"content-type": "application/json"}, b"{}")

    def busy(request: HttpRequest, session: Handler) -> HttpResponse:
        return wire.fail(503, None, "s")

    for answer in (one_vector, broken, busy):
        result = run(INDEX, target, InProcess(answer, scripted=False))
        assert "embedding-failed" in {each.rule for each in result.findings}
        assert {each.blame for each in result.findings} == {Blame.PROVIDER}, result.findings


def test_the_reference_server_refuses_what_the_provider_refuses() -> None:
    with InProcess().open_cell(Cell(shipped_scenarios()[INDEX], every_target()["openai-chat"], "whole")) as environment:
        adapter = every_target()["openai-chat"].adapter
        assert adapter.embeddings is not None
        made = adapter.embeddings.connect(environment.endpoint, "text-embedding-3-small", 1537)
        with pytest.raises(InvalidRequest) as raised:
            made.embed(["a"])
    assert "1536" in str(raised.value)
