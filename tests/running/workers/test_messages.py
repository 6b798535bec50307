"""What a worker hands over: values of ours, copied so that rules cannot tell them from the originals."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from harness import catalog
from harness.apis.targets import targets_for
from harness.contract.model import File, StopReason, Text, ToolCall
from harness.running.cells import cells
from harness.running.run import Run
from harness.running.stages import Reference
from harness.running.workers.messages import Failed, Stopped, decode_answer, encode, plain
from harness.running.workers.pool import Workers
from tests.stages import shipped_scenarios


class Name(str):
    __slots__ = ()


class Call(ToolCall):
    pass


def test_what_occurs_twice_occurs_twice_in_the_copy() -> None:
    call = ToolCall("1", "look", {"at": [1]})

    copied: Any = plain([call, {"again": call}], "it")

    assert copied == [call, {"again": call}]
    assert copied[0] is copied[1]["again"]
    assert copied[0] is not call


def test_a_class_of_its_own_becomes_the_one_below() -> None:
    copied: Any = plain((Call(Name("1"), Name("look"), {Name("a"): True}), File("a/b", b"data")), "it")

    assert [type(part) for part in copied] == [ToolCall, File]
    assert type(copied[0].id) is str
    assert type(next(iter(copied[0].arguments))) is str
    assert copied[1].data == b"data"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [0, datetime(2026, 1, 1, tzinfo=UTC)]}, "it['a'][1] is a datetime.datetime"),
        (Text("x", {"anthropic": {"b": b"bytes"}}), "it.provider_metadata['anthropic']['b'] is a builtins.bytes"),
        ({(1, object()): 1}, "a key of it[1] is a builtins.object"),
    ],
)
def test_what_is_no_value_of_the_contract_is_named_with_its_place(value: object, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        plain(value, "it")
    assert str(raised.value) == f"{said}, which is no value of the contract (harness.contract.model)"


@pytest.mark.parametrize("answer", [Stopped(), Failed("no", "Traceback")])
def test_an_answer_is_read_as_it_was_written(answer: Stopped | Failed) -> None:
    assert decode_answer(encode(answer)) == answer


def test_a_member_of_an_enumeration_is_read_whichever_python_wrote_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.0 to 3.11.3 write the call of `getattr` that gives the member."""
    monkeypatch.setattr(StopReason, "__reduce_ex__", lambda self, _: (getattr, (StopReason, self.name)), raising=False)

    read = decode_answer(encode(Failed("no", StopReason.REFUSAL)))

    assert read == Failed("no", StopReason.REFUSAL)
    assert isinstance(read, Failed)
    assert read.traceback is StopReason.REFUSAL


@pytest.mark.parametrize(
    "data",
    [b"", b"not a pickle", pickle.dumps("a text"), pickle.dumps(Failed("no", Name("x"))), pickle.dumps(print)],
    ids=["empty", "garbage", "text", "foreign", "function"],
)
def test_nothing_but_values_of_ours_is_read(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        decode_answer(data)


@pytest.mark.parametrize("name", ["call-parallel-same-tool", "call-single"])
def test_rules_find_the_same_wherever_an_adapter_is_played(name: str) -> None:
    spec = "tests.examples.swapped_results:ADAPTER"
    scenario = shipped_scenarios()[name]
    found: list[object] = []
    with Workers(60, offline=True) as workers:
        for adapter in (catalog.adapter(spec), workers.adapter(spec)):
            run = Run(Reference(), catalog.rules())(cells([scenario], targets_for([adapter], [], {}), ["whole"]))
            found.append((run.cells, run.differences))

    assert found[0] == found[1]
