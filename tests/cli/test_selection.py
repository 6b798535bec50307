"""Expressions of -k, and which of many scenario files are read for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.selection import parse_keywords as parse
from harness.model.errors import UsageError
from tests.cli.conftest import Command

TEXT = "call-single gemini-3 id-matching tools"


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("call", True),
        ("CALL-Single", True),
        ("json", False),
        ("not json", True),
        ("not not call", True),
        ("call and json", False),
        ("call or json", True),
        ("json or call and tools", True),
        ("call or json and json", True),
        ("(call or json) and json", False),
        ("not (json or openai) and gemini", True),
        ("not json and not tools", False),
        ("call AND NOT openai", True),
    ],
)
def test_an_expression_selects_by_parts_of_names(expression: str, matches: bool) -> None:
    assert parse(expression).match(TEXT) is matches


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("", "column 1: 'and', 'or' or a word is missing"),
        ("call and", "column 9: 'and', 'or' or a word is missing"),
        ("and call", "column 1: 'and', 'or' or a word is missing"),
        ("  call)", "column 7: this parenthesis was not opened"),
        ("a and (b or c", "column 7: this parenthesis is not closed"),
        ("call json", "column 6: 'and', 'or' or a word is missing"),
        ("call (json)", "column 12: 'and', 'or' or a word is missing"),
        ("()", "column 3: 'and', 'or' or a word is missing"),
        ("(" * 500 + "call" + ")" * 500, "column 201: it is nested too deeply"),
        ("not " * 5000 + "call", "column 20005: it is nested too deeply"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_place(expression: str, place: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(expression)

    assert str(refused.value).startswith(f"-k {expression!r}: {place}. An expression consists of words")


def test_any_word_can_be_looked_for() -> None:
    assert parse("if and (lambda or \"a'b) and ünï").match("IF \"A'B Ünï")
    assert parse(" or ".join(["nothing"] * 5000) + " or call").match(TEXT)


ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def many(folder: Path) -> Path:
    """Scenarios of their own, and files that nobody can read."""
    written = (ROOT / "scenarios" / "call-single.yaml").read_text()
    place = folder / "many"
    place.mkdir()
    for name in ("one", "another"):
        (place / f"{name}.yaml").write_text(written.replace("id: call-single", f"id: {name}"))
    listed = written.replace("id: call-single", "id: in-lines").replace(
        "covers: [id-matching, tools]", "covers:\n  - tools\n  - id-matching"
    )
    assert listed.count("  - id-matching") == 1
    (place / "in-lines.yaml").write_text(listed)
    (place / "no-yaml.yaml").write_text("covers: [json-mode]\nid: [")
    return place


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("another or in-lines", 0, "PASS  4 cells"),
        ("one and openai-chat", 0, "PASS  2 cells"),
        ("yaml", 2, "no-yaml.yaml:2:"),
        ("json", 2, "no-yaml.yaml:2:"),
        ("id-matching", 2, "no-yaml.yaml:2:"),
        ("two", 2, "-k 'two' matches no cell of the chosen scenarios and targets."),
    ],
)
def test_errors_are_reported_of_files_that_may_be_chosen(
    harness: Command, many: Path, words: str, code: int, text: str
) -> None:
    outcome = harness("run", "--mode", "reference", "--target", "openai-chat", "-k", words, str(many))
    assert outcome.code == code, outcome.err
    assert text in outcome.out + outcome.err


def test_all_servers_are_those_of_the_adapters(harness: Command) -> None:
    result = harness("run", "call-single", "--adapter", "gemini", "--target", "all-servers")
    assert (result.code, "2 cells" in result.out, "vertex" in result.out) == (0, True, True)
    none = harness("run", "call-single", "--adapter", "claude-cli", "--target", "all-servers")
    assert (none.code, "all-servers: no compatible server" in none.err) == (2, True)
