"""The rules of wording that a program can check: first words, banned words, long sentences, repeated names."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

parse = cache(ast.parse)
ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "harness").rglob("*.py"))

FIRST_WORDS = {
    *("what", "whether", "where", "who", "whose", "whom", "how", "those", "one", "of", "as", "when", "which", "if"),
    *("with", "from", "by", "and", "or", "but", "nothing", "nobody", "somebody", "anybody"),
}
"""A docstring begins with a noun phrase or an imperative, never with one of these."""

WORDS = re.compile(
    r"\b(told|heard|stands|lies|bears|kin|nobody|somebody|anybody|of ours|of none|by itself|handed on|hands on|"
    r"taken back|comes to|is over|what becomes of|is said|are said|said of)\b",
    re.IGNORECASE,
)
"""Everyday words in the place of the field's."""

MAX_SENTENCE_WORDS = 25
SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+")
SECTION = re.compile(r"\n\s*\n|\n\s*(?:Args|Raises|Returns|Yields|Attributes|Example|\S+:)")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements inside a node. `ast.walk` also walks through every expression, which takes ten times as long."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            yield each
            yield from statements(each)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every docstring of a module, those of attributes included, with its line."""
    for each in statements(tree):
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
            yield each.lineno, each.value.value.strip()


def problems(source: str) -> Iterator[str]:
    for line, text in docstrings(parse(source)):
        first = re.match(r"\W*(\w+)", text)
        if first and first[1].lower() in FIRST_WORDS:
            yield f"{line}: begins with {first[1]!r}"
        yield from (f"{line}: {found[0]!r}" for found in WORDS.finditer(text))
        for sentence in SENTENCE_END.split(SECTION.split(text)[0]):
            words = len(re.findall(r"[A-Za-z`][\w`.\-']*", sentence))
            if words > MAX_SENTENCE_WORDS:
                yield f"{line}: a sentence of {words} words"
    for number, line in enumerate(source.splitlines(), 1):
        comment = re.search(r"(?:^|\s)#\s(.*)", line)
        if comment and (found := WORDS.search(comment[1])):
            yield f"{number}: {found[0]!r} in a comment"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('"""What holds for a model."""', "1: begins with 'What'"),
        ('def f():\n    """Return the name."""\nLIMIT = 1\n"""Bytes that nobody reads."""', "4: 'nobody'"),
        ("x = 1  # as it is told", "1: 'told' in a comment"),
        ('"""' + "word " * 26 + '."""', "1: a sentence of 26 words"),
    ],
)
def test_problems_are_found(source: str, problem: str) -> None:
    assert list(problems(source)) == [problem]


def test_docstrings_and_comments_are_plain() -> None:
    assert [f"{path.relative_to(ROOT)}:{each}" for path in MODULES for each in problems(path.read_text())] == []


def alias(node: ast.AST) -> str | None:
    """The name that a statement gives to a type, such as `Key: TypeAlias = tuple[str, str]`."""
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
        return ast.unparse(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Subscript, ast.BinOp)):
        name = ast.unparse(node.targets[0])
        return name if re.fullmatch("_?[A-Z][a-z]\\w+", name) else None
    return None


def test_a_class_shares_its_name_with_no_other_class_or_type() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    classes: set[str] = set()
    for path in MODULES:
        for node in statements(parse(path.read_text())):
            name = node.name if isinstance(node, ast.ClassDef) else alias(node)
            if name is not None:
                places[name].append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}")
            if isinstance(node, ast.ClassDef):
                classes.add(node.name)

    assert {name: found for name, found in places.items() if name in classes and len(found) > 1} == {}


def test_a_file_name_occurs_once_outside_of_apis_and_adapters() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        inside = path.relative_to(ROOT / "harness")
        if inside.parts[0] not in ("apis", "adapters") and path.stem not in ("__init__", "__main__"):
            places[path.stem].append(str(inside))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


PARTICIPLE = re.compile(
    r"(?!embed$)[a-z]+[^e]ed|begun|broken|built|chosen|done|drawn|driven|found|given|gone|grown|heard|held|hidden|kept|"
    r"known|left|lost|made|met|paid|said|seen|sent|shown|shrunk|spent|spoken|taken|thought|told|written"
)


def test_no_function_is_named_by_a_participle_alone() -> None:
    """Except for `trimmed`, which is public, and the fixture that pytest knows as `tape`."""
    found: list[str] = []
    for path in MODULES:
        module = parse(path.read_text())
        for node in (module, *(each for each in statements(module) if isinstance(each, ast.ClassDef))):
            for each in node.body:
                if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and not each.decorator_list:
                    word = each.name.strip("_")
                    if PARTICIPLE.fullmatch(word) and word not in ("trimmed", "taped"):
                        found.append(f"{path.relative_to(ROOT)}:{each.lineno}: {each.name}")

    assert found == []
