from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.errors import ExpectedFailuresError
from harness.results import Blame, CellResult, ExpectedFailure, Finding, Kind, Severity, Verdict
from harness.runner.expected_failures import Expectations, load
from harness.scenarios.schema import Variant

ENTRY = 'scenario: call-*\n  target: openai-*\n  rule: usage\n  reason: "tracked as #123"\n'

FINDABLE = ("usage", "on", "result-swapped")


def written(folder: Path, content: str | bytes) -> Path:
    file = folder / "known.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_a_file_is_read(tmp_path: Path) -> None:
    text = f"# known\n- {ENTRY}  variant: stream\n- {ENTRY.replace('#123', '012')}"
    assert load(written(tmp_path, text), FINDABLE) == [
        ExpectedFailure("call-*", "openai-*", "usage", "tracked as #123", "stream"),
        ExpectedFailure("call-*", "openai-*", "usage", "tracked as 012"),
    ]


def test_values_are_texts_whatever_yaml_would_make_of_them(tmp_path: Path) -> None:
    (entry,) = load(written(tmp_path, "- {scenario: no, target: 2.50, rule: on, reason: 2026-11-21}\n"), FINDABLE)
    assert entry == ExpectedFailure("no", "2.50", "on", "2026-11-21")


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "[]\n"])
def test_a_file_without_entries_expects_nothing(tmp_path: Path, content: str) -> None:
    assert load(written(tmp_path, content), FINDABLE) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("scenario: x\n", ":1: must be a list of entries."),
        ("\n- usage\n", ":2: an entry is a mapping of scenario, target, rule, reason, variant."),
        (
            f"- {ENTRY}- {ENTRY}  rules: x\n",
            ":9: the key 'rules' is unknown; the keys are scenario, target, rule, reason, variant.",
        ),
        (f"- {ENTRY}  variant: streamed\n", ":5: variant must be whole or stream; without it, both."),
        ("- variant: stream\n", ":1: the entry has no scenario, target, rule, reason."),
        (f"- {ENTRY}  rule: x\n", ":5: the key 'rule' is given twice."),
        ("- scenario: x\n  target: y\n", ":1: the entry has no rule, reason."),
        (
            f"- {ENTRY}- {ENTRY.replace('usage', 'usages')}",
            (
                ":5: the entry for call-* on openai-* cannot match anything: there is no rule 'usages'. The nearest "
                "id is 'usage'. 'harness list rules' and 'harness list facts' list the ids."
            ),
        ),
        (
            f"- {ENTRY.replace('usage', 'result-swop*')}",
            (
                ":1: the entry for call-* on openai-* cannot match anything: there is no rule 'result-swop*'. The "
                "nearest id is 'result-swapped'. 'harness list rules' and 'harness list facts' list the ids."
            ),
        ),
        ("- scenario: x\n  target:\n", ":2: target must be a text."),
        ("- scenario: x\n  target: '  '\n", ":2: target must be a text."),
        ("- scenario: [x]\n", ":1: scenario must be a text."),
        ("- ? [scenario]\n  : x\n", ":1: a key is one of scenario, target, rule, reason, variant."),
        ("- &a [*a]\n", ":1: an entry is a mapping of scenario, target, rule, reason, variant."),
        ("- scenario: 'x\n", ":2: not YAML: found unexpected end of stream."),
        ("- *nobody\n", ":1: not YAML: found undefined alias."),
        ("a: 1\n---\nb: 2\n", ":2: not YAML: but found another document."),
        ("- \x07\n", ": not YAML: unacceptable character #x0007: control characters are not allowed."),
        (b"\xff\xfe\x00", ": not UTF-8 text."),
        (b"\x80", ": not UTF-8 text."),
        ("[" * 1500, ":1: not a list of entries: nested too deeply."),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, content: str | bytes, text: str) -> None:
    file = written(tmp_path, content)
    with pytest.raises(ExpectedFailuresError) as raised:
        load(file, FINDABLE)
    assert str(raised.value) == f"{file}{text}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ExpectedFailuresError) as raised:
        load(tmp_path / "none.yaml", FINDABLE)
    assert str(raised.value) == f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory."
    with pytest.raises(ExpectedFailuresError) as raised:
        load(tmp_path, FINDABLE)
    assert str(raised.value) == f"{tmp_path}: cannot be read: Is a directory."


def cell(scenario: str, target: str, *rules: str, severity: Severity = Severity.ERROR) -> CellResult:
    findings = tuple(Finding(rule, Kind.LOSS, severity, Blame.ADAPTER, "no") for rule in rules)
    return CellResult(scenario, target, target, "openai-chat", "whole", Verdict.FAIL, findings=findings)


KNOWN = ExpectedFailure("call-*", "openai-*", "usage", "#1")
VARIANTS: tuple[Variant, ...] = ("whole", "stream")
STALE = (ExpectedFailure("call-*", "openai-*", "usage", "#1"),)


def _stale(expected: list[ExpectedFailure], finished: list[CellResult]) -> tuple[ExpectedFailure, ...]:
    seen = Expectations(expected)
    for cell in finished:
        seen.add(cell, played=True)
    return seen.stale


@pytest.mark.parametrize(
    ("finished", "found"),
    [
        ([cell("call-single", "openai-chat", "usage")], ()),
        ([cell("call-single", "openai-chat"), cell("call-twice", "openai-chat", "other", "usage")], ()),
        ([cell("call-single", "openai-chat")], STALE),
        ([cell("call-single", "openai-chat", "other")], STALE),
        ([cell("call-single", "openai-chat", "usage", severity=Severity.WARNING)], STALE),
        ([cell("call-single", "openai-chat"), cell("call-single", "gemini-3", "usage")], STALE),
        ([cell("call-single", "gemini-3")], ()),  # its cells were not run
        ([cell("Call-single", "openai-chat")], ()),  # case counts, on every system
        ([], ()),
    ],
)
def test_an_entry_is_stale_if_its_cells_ran_without_the_finding(
    finished: list[CellResult], found: tuple[ExpectedFailure, ...]
) -> None:
    assert _stale([KNOWN], finished) == found


@pytest.mark.parametrize(
    ("variant", "failing", "found"),
    [
        ("stream", "stream", False),
        ("stream", "whole", True),
        ("whole", "whole", False),
        ("whole", "stream", True),
        (None, "stream", False),
        (None, "whole", False),
        (None, None, True),
    ],
)
def test_an_entry_is_stale_by_the_variant_that_it_names(
    variant: Variant | None, failing: Variant | None, found: bool
) -> None:
    finished = [
        replace(cell("call-single", "openai-chat", *(["usage"] if each == failing else [])), variant=each)
        for each in VARIANTS
    ]

    left = _stale([replace(KNOWN, variant=variant)], finished)

    assert left == ((replace(STALE[0], variant=variant),) if found else ())
