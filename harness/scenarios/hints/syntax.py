"""What was meant where a file is no YAML."""

from __future__ import annotations

import json
import re

_KEYED = re.compile(r"(?P<before>\s*(?:- +)*(?P<key>[\w$-]+): +)(?P<text>\S.*?)\s*")
_LISTED = re.compile(r"(?P<before>\s*- +)(?P<text>\S.*?)\s*")
_SPECIAL = "@`%*&!|>{}[],#'\""
_UNFIT = ("cannot start any token", "expected alphabetic or numeric character", "expected <block end>")
_TOO_DEEP = "this line is read as more of the text above it: write it from the column on of those it belongs to."


def hint(line: str, column: int, problem: str) -> str | None:
    """What was meant by a line, in which a parser found a problem at a column from 1 on; nothing, if nobody knows."""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab, and YAML is indented by blanks: write blanks in its place."
    if "mapping values are not allowed" in problem:
        return _quoted(line, "a text that holds a colon and a blank needs quotes") if _has_colon(line) else _TOO_DEEP
    text = _text(line)
    if text and text["text"][0] in _SPECIAL and column > text.start("text") and any(each in problem for each in _UNFIT):
        return _quoted(line, f"a text that begins with {text['text'][0]} needs quotes")
    if "expected <block end>" in problem:
        return f"nothing above begins in column {column}: write this line from the column on of those it belongs to."
    return None


def _text(line: str) -> re.Match[str] | None:
    return _KEYED.fullmatch(line) or _LISTED.fullmatch(line)


def _has_colon(line: str) -> bool:
    found = _text(line)
    return found is not None and re.search(r":(?: |$)", found["text"]) is not None


def _quoted(line: str, reason: str) -> str | None:
    found = _text(line)
    if found is None:
        return None
    text = found["text"]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return f"{reason}: write {found['before'].lstrip()}{json.dumps(text, ensure_ascii=False)}."
