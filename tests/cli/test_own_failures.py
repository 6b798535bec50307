"""Exceptions of the user's code that a trial records, and results that hide them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from harness.checks.own_failures import failures_in, recorded_failures
from harness.cli.try_other_runs import _is_empty
from harness.model.messages import JSON

CODE = """
import json


def tool(lamp):
    BODY


def dispatch(lamp):
    try:
        return tool(lamp)
    except Exception:
        return None
"""


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("raise ValueError(f'there is no {lamp}')", ["there is no lamp"]),
        ("return {}[lamp]", ["KeyError: 'lamp'"]),
        ("raise LookupError(lamp)", ["LookupError: lamp"]),
        ("return {}.get(lamp)", []),
        ("try:\n        return {}[lamp]\n    except KeyError:\n        return None", []),
        ("try:\n        raise LookupError(lamp)\n    except LookupError:\n        return None", []),
    ],
    ids=["sentence", "leaves", "without a sentence", "none", "handled", "raised and handled"],
)
def test_exceptions_count_that_say_something_or_leave_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, texts: list[str]
) -> None:
    (tmp_path / "own_lamps.py").write_text(CODE.replace("BODY", body))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_lamps", raising=False)
    dispatch = importlib.import_module("own_lamps").dispatch
    file = tmp_path / "failures"
    traced = sys.gettrace()

    with recorded_failures(str(file)):
        dispatch("lamp")
    sys.settrace(traced)

    assert [each.text for each in failures_in(file)] == texts


EMPTY: list[JSON] = ["", "null", "None", "[]", '{"result": null}', None, [], {"output": ""}]
FULL: list[JSON] = ["done", "0", '{"result": 0}', '[""]', {"a": None, "b": None}, False, 0]


def test_a_result_without_content_is_empty() -> None:
    assert [each for each in EMPTY if not _is_empty(each)] == []
    assert [each for each in FULL if _is_empty(each)] == []
