from __future__ import annotations

import pytest

from harness import catalog
from harness.apis.view import RequestView
from harness.contract.errors import RateLimited
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.protocols import ChatClient, Generation
from harness.kit.generation import ChatGeneration
from harness.running.stages import Cell
from harness.scenarios.schema import Scenario, Subject
from harness.tape.transport import Handler
from tests.stages import InProcess, every_target

SCRIPT = Scenario.model_validate(
    {
        "version": 1,
        "id": "generation",
        "title": "Two prompts, which have nothing to do with each other",
        "covers": [Subject.RESPONSES],
        "turns": [
            {"user": "first", "model": [{"text": "Ahoy: 18 °C"}]},
            {"user": "second", "model": [{"text": "Again"}]},
        ],
    }
)
TARGETS = [shipped.name for shipped in catalog.targets()]


@pytest.mark.parametrize("name", TARGETS)
def test_every_shipped_adapter_generates_text(name: str) -> None:
    target = every_target()[name]
    wire = catalog.api(target.api)
    with InProcess().stage(Cell(SCRIPT, target, "whole")) as stage:
        client = target.adapter.connect(stage.endpoint, "not-the-model")
        assert isinstance(client, ChatClient)
        provider = ChatGeneration(client, model=target.model, system="Be brief.")
        made = [provider.generate("What is it like?", max_tokens=300), provider.generate("And?")]
        client.close()

    answers = [wire.read(each.response) for each in stage.tap.exchanges if each.response is not None]
    usages = [answer.usage for answer in answers]
    assert made == [
        Generation(text, usage.input_tokens, usage.output_tokens)
        for text, usage in zip(["Ahoy: 18 °C", "Again"], usages, strict=True)
    ]
    assert all(each.input_tokens and each.output_tokens for each in made)
    views: list[RequestView] = [wire.view(each.request) for each in stage.tap.exchanges]
    assert [view.model for view in views] == [target.model, target.model]
    assert [[system.text for system in view.system] for view in views] == [["Be brief."], ["Be brief."]]
    assert [len(view.turns) for view in views] == [1, 1]
    assert views[0].settings["max_tokens"].value == 300


@pytest.mark.parametrize("name", TARGETS)
def test_a_prompt_may_name_another_model(name: str) -> None:
    target = every_target()[name]
    wire = catalog.api(target.api)
    with InProcess().stage(Cell(SCRIPT, target, "whole")) as stage:
        client = target.adapter.connect(stage.endpoint, target.model)
        assert isinstance(client, ChatClient)
        ChatGeneration(client, model=target.model).generate("What is it like?", model=f"{target.model}-mini")
        client.close()

    (exchange,) = stage.tap.exchanges
    view = wire.view(exchange.request)
    assert (view.model, view.system) == (f"{target.model}-mini", ())


@pytest.mark.parametrize("name", TARGETS)
def test_a_failure_is_the_canonical_error(name: str) -> None:
    target = every_target()[name]

    def limited(request: HttpRequest, session: Handler) -> HttpResponse:
        return catalog.api(target.api).fail(429, None, "s")

    with InProcess(limited).stage(Cell(SCRIPT, target, "whole")) as stage:
        client = target.adapter.connect(stage.endpoint, target.model)
        assert isinstance(client, ChatClient)
        with pytest.raises(RateLimited):
            ChatGeneration(client, model=target.model).generate("What is it like?")
        client.close()
