"""Signs by which a third-party loop may report that an answer is truncated, wherever in its package they are."""

from __future__ import annotations

import sys
from collections import UserDict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from harness.bridge.clients import truncation
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.returning_code import returning_code
from harness.bridge.clients.truncation import may_report_truncation
from harness.bridge.clients.turns import answer_of_turn
from harness.bridge.completions import NO_TRUNCATION
from harness.model.messages import JSON, Message
from harness.model.protocols import Conversation

AGENT = """
from . import wire


class Agent:
    def __init__(self, url):
        self.url = url

    def run(self, prompt):
        reply = wire.post(self.url, {"max_tokens": 64, "messages": [{"role": "user", "content": prompt}]})
        CODE
        return reply["choices"][0]["message"]["content"]
"""

FILTERED = """
def read(events):
    text, finish = '', None
    for each in events:
        if each.get('finish_reason'):
            finish = each['finish_reason'] or finish
    if finish is None or not finish:
        raise OSError
    return text, finish

def ask(events):
    text, finish = read(events)
    if finish in ('content_filter', 'refusal'):
        raise ValueError
    return text
"""

SILENT = {
    "no look at it": ("", ""),
    "a look at calls": ("if reply['choices'][0]['finish_reason'] == 'tool_calls': self.run_tools(reply)", ""),
    "a look at calls by get": ("if reply.get('stop_reason') != 'tool_use': pass", ""),
    "a tool": ("self.tools[reply['name']](**reply['input'])", "import httpx2\nfrom functools import partial"),
    "a tool that is a handler": ("handler = self.tools[reply['name']]; handler(**reply['input'])", ""),
    "an example of its use": ("", '"""Use it: print(answer.stop_reason)."""\ndef ask():\n    """Log print(reply)."""'),
    "a list of events": ("self.trace.append(reply['id']); self.handlers.get('answer')", ""),
    "a list of messages": ("self.log.append(reply['choices'])", ""),
    "a warning about a tool": ("wire.log.warning('tool %s failed', prompt)", ""),
    "a look at a filter": ("", FILTERED),
    "a refusal": ("if reply['choices'][0]['message'].get('refusal'): raise ValueError('refused')", ""),
}

REPORTING = {
    "an exception of another module": ("wire.check(reply)", "def check(reply): assert reply['status'] == 'completed'"),
    "a property of another module": ("", "class Reply:\n    whole = property(lambda self: self.raw['finish_reason'])"),
    "a comparison with the usual word": ("if reply['choices'][0]['finish_reason'] != 'stop': raise ValueError", ""),
    "a variable that is passed on": ("", "def read(raw):\n    why = raw.get('stop_reason')\n    return make(raw, why)"),
    "a variable of another name": ("", "def read(raw):\n    why = raw['stop_reason']\n    return raw, why"),
    "a field for it": ("", "class Reply:\n    stop_reason: str"),
    "a warning about the answer": ("wire.log.warning('short: %s', reply)", ""),
    "a log of the whole reply": ("wire.log.debug('got %s', reply)", ""),
    "a log in another module": ("", "import logging\ndef note(data): logging.info('%s', data)"),
    "an event": ("wire.bus.emit('answer', reply)", ""),
    "a callback": ("self.on_answer(reply)", ""),
    "a handler": ("self.handlers['answer'](reply)", ""),
    "a hook in a list": ("for hook in self.hooks: hook(reply)", ""),
    "a file": ("wire.save(reply)", ""),
    "a word of the stop reason": ("", "ENDS = {'length': 'cut'}"),
    "a constant of the SDK": ("", "def is_whole(reason, types): return reason != types.FinishReason.MAX_TOKENS"),
    "a library": ("", "import typer"),
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    def write(code: str, wire: str) -> str:
        folder = tmp_path / "quietdesk"
        folder.mkdir()
        (folder / "__init__.py").write_text("from .agent import Agent\n")
        (folder / "agent.py").write_text(AGENT.replace("CODE", code or "pass"))
        (folder / "wire.py").write_text(f"{wire}\n\ndef post(url, body): ...\n")
        __import__("quietdesk")
        return "quietdesk.agent"

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    for each in [each for each in sys.modules if each.partition(".")[0] == "quietdesk"]:
        del sys.modules[each]
    truncation._code_may_report.cache_clear()


@pytest.mark.parametrize(("code", "wire"), SILENT.values(), ids=SILENT)
def test_a_package_that_never_looks_at_the_stop_reason_is_silent(
    package: Callable[[str, str], str], code: str, wire: str
) -> None:
    assert not may_report_truncation("The first", ["The first", SimpleNamespace(url="u")], package(code, wire))


@pytest.mark.parametrize(("code", "wire"), REPORTING.values(), ids=REPORTING)
def test_any_module_of_a_package_may_report_it(package: Callable[[str, str], str], code: str, wire: str) -> None:
    assert may_report_truncation("The first", ["The first", SimpleNamespace(url="u")], package(code, wire))


@pytest.mark.parametrize(("code", "is_silent"), [("", True), ("wire.bus.emit('answer', reply)", False)])
def test_the_answer_of_a_turn_says_whether_anything_shows_it(
    package: Callable[[str, str], str], code: str, is_silent: bool
) -> None:
    agent = sys.modules[package(code, "")].Agent("u")
    turn = Message("user", "When does it open?")

    answer = answer_of_turn(
        "The first", turn, Conversation(turns=(turn,)), "openai-chat", method_of(("run",), agent.run), agent
    )

    assert answer is not None
    assert (NO_TRUNCATION in answer.reported) == is_silent


def test_a_flag_that_the_answer_is_whole_counts_whatever_the_code_may_do(package: Callable[[str, str], str]) -> None:
    module = package("status in ('completed', 'incomplete')", "")

    assert may_report_truncation({"text": "The first"}, [], module)
    assert not may_report_truncation({"text": "The first", "complete": True}, [], module)
    assert may_report_truncation({"text": "The first", "complete": True}, [{"status": "incomplete"}], module)


BROKEN_OFF = """
class Failed(Exception):
    \"\"\"A class that has only a docstring.\"\"\"

def look(notes, reply, path):
    if reply["finish_reason"] == "length":
        raise Failed
    notes.write(path.replace("a", "b"))
"""


@pytest.mark.parametrize(("instead", "is_silent"), [("raise Failed", True), ("return False", False)])
def test_code_that_returned_raised_no_exception(
    package: Callable[[str, str], str], instead: str, is_silent: bool
) -> None:
    module = package("", BROKEN_OFF.replace("raise Failed", instead))

    assert may_report_truncation("The first", [], module, has_returned=True) != is_silent


def test_a_module_in_the_same_folder_may_report_it(tmp_path: Path, package: Callable[[str, str], str]) -> None:
    module = package("", "")
    assert not may_report_truncation("The first", [], module)
    (tmp_path / "listener_beside.py").write_text("def look(reply): return reply['finish_reason']\n")
    __import__("listener_beside")

    truncation._code_may_report.cache_clear()
    assert may_report_truncation("The first", [], module)
    del sys.modules["listener_beside"]


def test_code_that_is_not_known_may_report_it() -> None:
    assert may_report_truncation("The first", [], "no_such_module_here")


class Pool(UserDict[str, object]):
    """A container that permits no iteration, as that of urllib3."""

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError


class Reading:
    """An object whose attributes cannot be listed."""

    @property
    def __dict__(self) -> dict[str, object]:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError("closed")


@pytest.mark.parametrize(("kept", "is_reported"), [(Pool(length=7), False), (Reading(), True)])
def test_an_object_may_permit_no_reading(package: Callable[[str, str], str], kept: object, is_reported: bool) -> None:
    assert may_report_truncation("The first", [SimpleNamespace(pool=kept)], package("", "")) == is_reported


class Ending(Enum):
    MAX_TOKENS = 2
    LENGTH = "length"


class NamedEnding(NamedTuple):
    text: str
    how: str


class Slotted:
    __slots__ = ("_raw",)

    def __init__(self, raw: object) -> None:
        self._raw = raw


@pytest.mark.parametrize(
    "kept",
    [
        {"choices": [{"finish_reason": "length"}]},
        deque([SimpleNamespace(status="incomplete")]),
        b'{"choices":[{"finish_reason":"length"}]}',
        Slotted(Ending.LENGTH),
        NamedEnding("The first", "length"),
        {"note": SimpleNamespace(_private=["max_tokens"]).__dict__},
    ],
)
def test_an_object_may_hold_the_stop_reason(package: Callable[[str, str], str], kept: object) -> None:
    client = SimpleNamespace(url="u", history=[kept])
    client.itself = client

    assert may_report_truncation("The first", [client], package("", ""))


@pytest.mark.parametrize(
    ("returned", "is_reported"),
    [
        ("The first", False),
        ({"text": "The first", "id": "resp_1", "calls": [], "tokens": 7}, False),
        ([{"type": "text", "text": "The first"}], False),
        ({"text": "The first", "is_cut": True}, True),
        ({"text": "The first", "ended": False}, True),
        (["The first", False], True),
        ({"text": "The first", "complete": False}, True),
        ({"text": "The first", "complete": True}, False),
        ({"text": "The first", "truncated": False, "is_complete": True}, False),
        ({"text": "The first", "complete": True, "status": "partial"}, True),
        ({"text": "The first", "outcome": "partial"}, True),
        ([{"type": "text", "text": "The first"}, {"type": "end_of_budget"}], True),
    ],
)
def test_a_returned_value_may_report_it(package: Callable[[str, str], str], returned: JSON, is_reported: bool) -> None:
    settings: dict[str, Any] = {"max_tokens": 64, "body": '{"max_tokens": 64}'}

    assert may_report_truncation(returned, [SimpleNamespace(**settings)], package("", "")) == is_reported


RAISING = {
    "a comparison with the usual word": (
        "if reply['choices'][0]['finish_reason'] != 'stop': raise ValueError(reply)",
        "",
    ),
    "a condition of another kind": ("if not reply: pass\n        elif reply['stop'] == 'length': raise ValueError", ""),
    "a case": (
        "",
        "def read(raw):\n    match raw['stop_reason']:\n        case 'max_tokens':\n            raise OSError",
    ),
    "a handler": ("", "def read(raw):\n    try: return raw()\n    except Truncated:\n        raise OSError from None"),
    "an exception": ("", "class Incomplete(RuntimeError): pass"),
    "an assertion": ("assert reply['status'] == 'completed'", ""),
    "a text about a tool": ("self.last = reply['id'] + ' (the output is truncated)'", ""),
}
NOTING = {
    "a condition": ("if reply['stop_reason'] == 'length': self.cut = True", ""),
    "another branch": (
        "if not reply: raise OSError\n        elif reply['stop_reason'] == 'length': self.cut = True",
        "",
    ),
    "a caught exception": ("", "def read(raw):\n    try: return raw()\n    except Incomplete: return ''"),
    "a log": ("wire.log.info('the answer is truncated')", ""),
}


@pytest.mark.parametrize(("code", "wire"), [*RAISING.values(), *NOTING.values()], ids=[*RAISING, *NOTING])
def test_exceptions_are_no_report_of_an_answer_that_is_returned(
    package: Callable[[str, str], str], code: str, wire: str
) -> None:
    module = package(code, wire)

    assert may_report_truncation("The first", [], module)
    assert may_report_truncation("The first", [], module, has_returned=True) == ((code, wire) in NOTING.values())


def test_code_that_cannot_be_parsed_is_unchanged() -> None:
    assert returning_code("print 'stop_reason'") == "print 'stop_reason'"
