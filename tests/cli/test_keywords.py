from __future__ import annotations

import pytest

from harness.cli.keywords import parse
from harness.contract.errors import UsageError

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
        ("", "column 1: a word is missing at the end"),
        ("call and", "column 9: a word is missing at the end"),
        ("and call", "column 1: a word has to stand before 'and'"),
        ("call or )", "column 9: a word has to stand before ')'"),
        ("call)", "column 5: this parenthesis was not opened"),
        ("a and (b or c", "column 7: this parenthesis is not closed"),
        ("call json", "column 6: 'and' or 'or' has to stand before 'json'"),
        ("call not json", "column 6: 'and' or 'or' has to stand before 'not'"),
        ("()", "column 2: a word has to stand before ')'"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_place(expression: str, place: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(expression)

    assert str(refused.value).startswith(f"-k {expression!r}: {place}. An expression is made of words")


def test_no_depth_is_too_deep() -> None:
    assert parse("(" * 5000 + "not " * 5000 + "call" + ")" * 5000).match(TEXT)
