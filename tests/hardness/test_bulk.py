"""Many files, large files, many keys: what they cost grows as they do, and memory does not."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cassettes.cassette_files import loads
from harness.platform.files import shipped_folder
from tests.hardness.commands import harness, within
from tests.hardness.conftest import Figure

FORMS = {"lines": "      key{}: value\n", "flow": "      key{}: [value]\n", "lists": "      key{}:\n      - value\n"}


def with_keys(number: int, form: str) -> bytes:
    head = "version: 1\ninteractions:\n- request:\n    method: POST\n    uri: http://a.invalid\n    body: ''\n"
    keys = "".join(form.format(each) for each in range(number))
    return f"{head}    headers:\n{keys}  response: null\n".encode()


def calls(data: bytes) -> int:
    """How many functions reading it calls."""
    count = 0

    def called(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(called)
    try:
        loads(data, "x.yaml")
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("form", FORMS)
def test_reading_keys_grows_with_their_number(form: str) -> None:
    assert calls(with_keys(2000, FORMS[form])) < 4.2 * calls(with_keys(500, FORMS[form]))


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_fifty_thousand_keys(form: str, tmp_path: Path, figure: Figure) -> None:
    (tmp_path / "keys.yaml").write_bytes(with_keys(50_000, FORMS[form]))
    measured = harness(tmp_path, "audit", "keys.yaml", until=within(60))

    figure(f"keys in one cassette ({form})", 50_000, "read", CPU_seconds=measured.cpu_seconds)
    assert "unknown" in measured.output.lower() or measured.code == 2
    assert measured.cpu_seconds < 2.0


def scenarios(number: int) -> Iterator[tuple[str, str]]:
    texts = [(path.stem, path.read_text()) for path in sorted(shipped_folder("scenarios").glob("*.yaml"))]
    for index in range(number):
        stem, text = texts[index % len(texts)]
        name = f"{stem}-{index}"
        yield name, re.sub(rf"^id: {stem}$", f"id: {name}", text, flags=re.MULTILINE)


@pytest.mark.long
def test_ten_thousand_scenarios(tmp_path: Path, figure: Figure) -> None:
    (tmp_path / "many").mkdir()
    for name, text in scenarios(10_000):
        (tmp_path / "many" / f"{name}.yaml").write_text(text)
    measured = harness(tmp_path, "validate", "many", until=within(600))

    figure("scenarios", 10_000, "valid", CPU_seconds=measured.cpu_seconds, MB=measured.megabytes)
    assert measured.output == "10000 scenarios are valid.\n"
    assert measured.cpu_seconds < 20.0


@pytest.mark.long
def test_a_gigabyte_of_cassettes(tmp_path: Path, figure: Figure) -> None:
    """Links to the shipped ones would be read once: each is a file of its own, some with a body of megabytes."""
    (tmp_path / "many").mkdir()
    shipped_ones = sorted(shipped_folder("cassettes").glob("*/*.yaml"))
    total = index = 0
    while total < 1 << 30:
        data = shipped_ones[index % len(shipped_ones)].read_bytes()
        if index % 4 == 0:  # a comment takes room in the file and in no value; a body does in both
            data = data.replace(b"metadata:", b"x" + b"-padding: '" + b"y" * (4 << 20) + b"'\nmetadata:", 1)
        (tmp_path / "many" / f"{index}.yaml").write_bytes(data)
        total += len(data)
        index += 1
    measured = harness(tmp_path, "audit", "many", "--report", "json:audit.json", until=within(600))

    figure("files of 1 GB together", index, "audited", CPU_seconds=measured.cpu_seconds, MB=measured.megabytes)
    assert (measured.code, "Traceback" in measured.output) == (0, False)
    assert measured.megabytes < 300.0
