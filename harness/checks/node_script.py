"""Scripts for Node that show a finding without harness."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from harness.checks.reproduction import Reproduction, ScriptClaim
from harness.checks.script_code import CallCode, JoinedTexts, body_code
from harness.model.messages import JSON
from harness.platform.exceptions import shorten

_WIDTH = 140
CALL_LOG = "HARNESS_CALL_LOG"
"""Environment variable with the path of the file in which a program logs its library calls."""

_MARKED = re.compile(r"^// --- calls of the library.*?\n(.*?)^// --- end ---", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A program that wraps an npm library.

    `kind` is its command-line argument. `calls` are the lines of its call log: the name of a function, followed by its
    arguments. `tools` maps the names of a loop's tools to their results.
    """

    file: Path
    kind: str
    calls: Sequence[Sequence[JSON]]
    tools: Mapping[str, Sequence[JSON]]

    def scripts(self, made: Reproduction, file: str) -> Iterator[str]:
        """Yield scripts that may show the fault, the best one first."""
        for claim in made.claims():
            for is_short in (True, False):
                yield self._script(made, claim, file, is_short=is_short)

    def _script(self, made: Reproduction, claim: ScriptClaim, file: str, *, is_short: bool) -> str:
        at = made.finding.exchange
        is_loop = made.owns_loop
        chosen = 0 if is_loop or at is None else min(made.parsed_exchanges[at].exchange.chat or 0, len(self.calls) - 1)
        name, _, model, *given = self.calls[chosen]
        given = [_without_metadata(each) for each in given] if is_short else given
        answers = [
            [*each[:2], body_code("".join(each[2]), is_short=is_short)]
            for each in made.answers(0 if is_loop else at or 0)
        ]
        arguments = [json.dumps(model), *(_code(each, 2) for each in given)]
        run = f", {_RUN.format(results=_code({key: [*each] for key, each in self.tools.items()}))}" if is_loop else ""
        call = f"answer = await {name}(endpoint, {', '.join(arguments)}{run});"
        if name == "stream":
            call += "\n  for await (const _ of chunks(answer));"
        end, answer_text = _end(made, claim), _code(answers)
        found = _MARKED.search(self.file.read_text(encoding="utf-8"))
        helpers = [line for word, line in _HELPERS.items() if f"{word}(" in answer_text]
        return _SCRIPT.format(
            title=shorten(f"{made.subject}: {made.title}", 200),
            versions=", ".join(f"{each} {number}" for each, number in made.versions.items()),
            today=made.today,
            packages=" ".join(made.packages),
            file=file,
            kind=self.kind,
            answers="\n".join([*helpers, f"const ANSWERS = {answer_text};"]),
            base_path=made.base_path,
            source=_used_parts("" if found is None else found[1].strip(), f"{call}\n{end}"),
            call=call,
            end=end,
        )


def _used_parts(source: str, text: str) -> str:
    """Return the source of a program without the functions that `text` does not need. Parts are separated by blank
    lines.
    """
    parts = source.split("\n\n")
    kept = [each for each in parts if not _FUNCTION.search(each)]
    while used := [
        each
        for each in parts
        if each not in kept and re.search(rf"\b({'|'.join(_FUNCTION.findall(each))})\(", "\n".join([text, *kept]))
    ]:
        kept += used
    return "\n\n".join(each for each in parts if each in kept)


_FUNCTION = re.compile(r"^(?:async )?function\*? (\w+)", re.MULTILINE)


def _without_metadata(value: Any) -> Any:
    """Return a library's messages without the metadata that the library does not send."""
    if isinstance(value, list):
        return [_without_metadata(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    named = cast("dict[str, Any]", value)
    return {key: _without_metadata(each) for key, each in named.items() if key not in _METADATA}


_METADATA = ("additional_kwargs", "response_metadata", "usage_metadata", "invalid_tool_calls", "caller")


def _end(made: Reproduction, claim: ScriptClaim) -> str:
    says, value = json.dumps(made.says(claim)), _code(claim.value)
    at = (made.finding.exchange or 0) if made.owns_loop else "requests.length - 1"
    steps = "".join(f"?.[{json.dumps(each)}]" for each in claim.path)
    listed = "(await read(answer)).calls.map((each) => [each.name, each.input])"
    values = {
        "sent": f"requests[{at}]{steps}",
        "status": "error?.statusCode ?? error?.status",
        "runs": "runs",
        "calls": listed,
        "whole calls": listed,
        "text": "(await read(answer)).text",
        "usage": "(await read(answer)).written",
        "reason": "(await read(answer)).reason",
    }
    if claim.subject == "has":
        return f"assert.ok(JSON.stringify(requests[{at}]).includes(JSON.stringify({value}).slice(1, -1)), {says});"
    if claim.subject not in values:
        return f"assert.{'equal' if claim.subject == 'no error' else 'notEqual'}(error, undefined, {says});"
    got = f'const got = {values[claim.subject]};\nconsole.log("got:", JSON.stringify(got));'
    if claim.subject == "reason":
        return f"{got}\nassert.ok({value}.includes(String(got).toLowerCase()), {says});"
    return f"{got}\nassert.{'deepEqual' if claim.is_right else 'notDeepEqual'}(got, {value}, {says});"


def _code(value: Any, indent: int = 0) -> str:
    """Return a value as code: on one line if it fits."""
    match value:
        case JoinedTexts():
            return " + ".join(_code(each, indent) for each in value)
        case CallCode():
            opening, entries, closing = f"{_NAMES.get(value.name, value.name)}(", value.entries, ")"
        case dict():
            named = cast("dict[str, Any]", value)
            keys = (key if key.isidentifier() else json.dumps(key) for key in named)
            opening, closing = ("{ ", " }") if named else ("{", "}")
            entries = [(f"{key}: ", each) for key, each in zip(keys, named.values(), strict=True)]
        case list():
            opening, closing = "[]"
            entries = [("", each) for each in cast("list[Any]", value)]
        case _:
            return json.dumps(value, ensure_ascii=False)
    flat = opening + ", ".join(prefix + _code(each) for prefix, each in entries) + closing
    if len(flat) + indent <= _WIDTH and "\n" not in flat:
        return flat
    if len(entries) == 1:
        return f"{opening.strip()}{entries[0][0]}{_code(entries[0][1], indent)}{closing.strip()}"
    lines = [f"{' ' * (indent + 2)}{prefix}{_code(each, indent + 2)}," for prefix, each in entries]
    return "\n".join([opening.strip(), *lines, " " * indent + closing.strip()])


_NAMES = {"json.dumps": "JSON.stringify", "named_events": "namedEvents"}
"""Maps function names in Python scripts to function names in Node scripts."""

_EVENTS = 'const NAME = (...sent) => sent.map((each) => `PREFIXdata: ${JSON.stringify(each)}\\n\\n`).join("");'
_HELPERS = {
    "events": _EVENTS.replace("NAME", "events").replace("PREFIX", ""),
    "namedEvents": _EVENTS.replace("NAME", "namedEvents").replace("PREFIX", "event: ${each.type}\\n"),
}
"""Maps the names of helper functions to their code."""

_RUN = """async (name, input) => {{
    runs.push([name, input]);
    return {results}[name][runs.filter(([each]) => each === name).length - 1];
  }}"""

_SCRIPT = """// {title}
//
// Seen on {today} with {versions}.
// Run it in a folder where only the library is installed:
//
//     npm install {packages}
//     node {file}
//
// A server on 127.0.0.1 gives the answers. They come from the reference server of harness, not from a provider. The
// script ends with an AssertionError as long as the fault exists.

import assert from "node:assert/strict";
import {{ createServer }} from "node:http";

const load = (name) => import(name);
const kind = {kind!r};
{answers}
const [requests, runs] = [[], []];

const server = createServer(async (request, response) => {{
  let sent = "";
  for await (const piece of request) sent += piece;
  requests.push(JSON.parse(sent));
  const [status, headers, body] = ANSWERS[Math.min(requests.length, ANSWERS.length) - 1];
  const isCut = "content-length" in headers;
  response.writeHead(status, {{ "content-length": Buffer.byteLength(body), ...headers }});
  response.write(body, () => (isCut ? response.destroy() : response.end()));
}});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const endpoint = {{ base_url: `http://127.0.0.1:${{server.address().port}}{base_path}`, api_key: "none" }};

{source}

let answer, error;
try {{
  {call}
}} catch (raised) {{
  error = raised;
  console.log("raised:", String(raised));
}}

{end}
process.exit(0);
"""
