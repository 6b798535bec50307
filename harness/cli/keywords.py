"""The expressions of `-k`: words with `and`, `or`, `not` and parentheses, each word a part of a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.contract.errors import UsageError

_TOKEN = re.compile(r"[()]|[^\s()]+")
_BINDS = {"or": 1, "and": 2, "not": 3}


@dataclass(frozen=True, slots=True)
class Keywords:
    """An expression, with its operators behind what they apply to: neither its depth nor its length is a problem."""

    postfix: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are looked for."""
        return tuple(word for word in self.postfix if word not in _BINDS)

    def match(self, text: str) -> bool:
        """Whether it holds for a text. Case does not count."""
        text = text.lower()
        stack: list[bool] = []
        for word in self.postfix:
            if word == "not":
                stack.append(not stack.pop())
            elif word in _BINDS:
                right, left = stack.pop(), stack.pop()
                stack.append((left and right) if word == "and" else (left or right))
            else:
                stack.append(word in text)
        return stack.pop()


def parse(expression: str) -> Keywords:
    """Read an expression.

    Raises:
        UsageError: it is none; says where.
    """
    return Keywords(tuple(_Parser(expression).postfix()))


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._output: list[str] = []
        self._waiting: list[tuple[str, int]] = []  # operators and parentheses, with their columns
        self._wants_word = True

    def postfix(self) -> Sequence[str]:
        for found in _TOKEN.finditer(self._expression):
            self._take(found.group().lower(), found.start() + 1)
        if self._wants_word:
            raise self._error(len(self._expression) + 1, "a word is missing at the end")
        while self._waiting:
            word, column = self._waiting.pop()
            if word == "(":
                raise self._error(column, "this parenthesis is not closed")
            self._output.append(word)
        return self._output

    def _take(self, word: str, column: int) -> None:
        opens = word in ("not", "(")
        ends = word in ("and", "or", ")")
        if self._wants_word and ends:
            raise self._error(column, f"a word has to stand before {word!r}")
        if not self._wants_word and not ends:
            raise self._error(column, f"'and' or 'or' has to stand before {word!r}")
        self._wants_word = opens or word in ("and", "or")
        if opens:
            self._waiting.append((word, column))
        elif word == ")":
            self._close(column)
        elif ends:
            self._operator(word, column)
        else:
            self._output.append(word)

    def _close(self, column: int) -> None:
        while self._waiting and self._waiting[-1][0] != "(":
            self._output.append(self._waiting.pop()[0])
        if not self._waiting:
            raise self._error(column, "this parenthesis was not opened")
        self._waiting.pop()

    def _operator(self, word: str, column: int) -> None:
        while self._waiting and _BINDS.get(self._waiting[-1][0], 0) >= _BINDS[word]:
            self._output.append(self._waiting.pop()[0])
        self._waiting.append((word, column))

    def _error(self, column: int, reason: str) -> UsageError:
        return UsageError(
            f"-k {self._expression!r}: column {column}: {reason}. "
            "An expression is made of words, 'and', 'or', 'not' and parentheses, as in \"json and not gemini\"."
        )
