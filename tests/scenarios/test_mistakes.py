"""Messages for mistakes in scenarios. `python -m tests.scenarios.test_mistakes` writes the golden file anew."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest

from harness.model import errors
from harness.model.errors import HarnessError
from harness.scenarios.load import problems
from harness.scenarios.match import error_name
from harness.scenarios.schema import ErrorName, FaultSpec
from tests.scenarios.files import ABSENT, BASES, CUT, FAILING, changed, scenario, written

GOLDEN = Path(__file__).parent / "golden" / "mistakes.txt"
"""Blocks of: the name of a scenario in `files.py`, its changed values by path, and the errors without file and line."""

BLOCKS = GOLDEN.read_text("utf-8").strip().split("\n\n")


def with_errors(folder: Path, block: str) -> str:
    base, *changes = [line for line in block.splitlines() if not line.startswith("  ")]
    content = BASES[base]
    for change in changes:
        path, _, value = change.partition(" = ")
        content = changed(content, path, ABSENT if value == "absent" else json.loads(value))
    found = [re.sub(r"^.*?\.yaml:\d+:\d+(?: at|:) ", "  ", str(error)) for error in problems(written(folder, content))]
    return "\n".join([base, *changes, *(found or ["  none"])])


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_mistakes_have_golden_messages(tmp_path: Path, block: str) -> None:
    assert with_errors(tmp_path, block) == block


STATUS_ERRORS = {
    400: "invalid-request",
    401: "authentication-failed",
    402: "billing-failed",
    403: "permission-denied",
    404: "not-found",
    408: "timed-out",
    409: "conflict",
    413: "request-too-large",
    422: "invalid-request",
    429: "rate-limited",
    500: "server-error",
    502: "server-error",
    503: "overloaded",
    504: "timed-out",
    529: "overloaded",
}


@pytest.mark.parametrize(
    ("fault", "explained"),
    [
        *(({"status": status}, {error}) for status, error in STATUS_ERRORS.items()),
        *(
            ({"stream_error": status}, {error, "server-error" if status >= 500 else "invalid-request"})
            for status, error in STATUS_ERRORS.items()
        ),
        *(({"body": body}, {"connection-failed", "malformed-response"}) for body in ("empty", "invalid-json", "html")),
        ({"body": "wrong-type"}, set[str]()),
        ({"connection": "cut"}, {"connection-failed", "malformed-response"}),
        ({"connection": "cut-clean"}, {"connection-failed", "malformed-response"}),
        ({"connection": "reset"}, {"connection-failed", "malformed-response"}),
        ({"connection": "slow"}, set[str]()),
    ],
)
def test_a_fault_explains_its_error_and_no_other(tmp_path: Path, fault: dict[str, Any], explained: set[str]) -> None:
    base = changed({**FAILING, "variants": ["stream"]}, "faults.0", {"answer": 1, **fault})
    for name in set(get_args(ErrorName)) - {"unsupported", "iteration-limit"}:
        reasons = [error.reason for error in problems(written(tmp_path, changed(base, "turns.0.expect.error", name)))]
        assert reasons == ([] if name in explained else [f"nothing ends the turn in {name}. Add a fault that does."])
    assert FaultSpec.model_validate(fault).fails is bool(explained)


def test_every_name_of_an_error_is_that_of_a_class() -> None:
    classes = {
        error_name(name): value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, HarnessError)
    }
    for name in get_args(ErrorName):
        assert name in classes
    assert error_name("RateLimited") == "rate-limited"


def test_a_call_that_is_cut_is_not_made(tmp_path: Path) -> None:
    step = scenario(tmp_path, CUT).turns[0].model[0]
    assert step.named_calls == (("get_weather", {"city": "Paris"}),)
    assert step.whole_calls == ()


if __name__ == "__main__":
    GOLDEN.write_text("\n\n".join(with_errors(Path(tempfile.mkdtemp()), block) for block in BLOCKS) + "\n", "utf-8")
