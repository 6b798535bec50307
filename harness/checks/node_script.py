"""Scripts for Node that reproduce a finding, made of the program that wraps the library."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.checks.reproduction import Reproduction, ScriptClaim
from harness.model.messages import JSON
from harness.platform.exceptions import shorten

CALL_LOG = "HARNESS_CALL_LOG"
"""Environment variable with the file to which a program writes the calls of its library."""

_MARKED = re.compile(r"^// --- calls of the library.*?\n(.*?)^// --- end ---", re.DOTALL | re.MULTILINE)
_WIDTH = 110


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A program that wraps a library of npm.

    `kind` is its argument, and `calls` are the lines of its log: the name of a function, and its arguments. `tools` are
    the results of a loop's tools, by name.
    """

    file: Path
    kind: str
    calls: Sequence[Sequence[JSON]]
    tools: Mapping[str, Sequence[JSON]]

    @property
    def source(self) -> str:
        """The lines of the program that call the library."""
        found = _MARKED.search(self.file.read_text(encoding="utf-8"))
        return "" if found is None else found[1]

    def script(self, made: Reproduction, claim: ScriptClaim, file: str) -> str:
        """Return a script that checks a claim."""
        at = made.finding.exchange
        is_loop = made.owns_loop
        chosen = 0 if is_loop or at is None else min(made.readings[at].exchange.chat or 0, len(self.calls) - 1)
        name, _, model, *given = self.calls[chosen]
        answers: list[JSON] = [[*each] for each in made.answers(0 if is_loop or at is None else at)]
        arguments = [json.dumps(model), *(_code(each) for each in given)]
        run = f", {_RUN.format(results=_code({key: [*each] for key, each in self.tools.items()}))}" if is_loop else ""
        call = f"answer = await {name}(endpoint, {', '.join(arguments)}{run});"
        if name == "stream":
            call += "\n  for await (const _ of chunks(answer));"
        return _SCRIPT.format(
            title=shorten(f"{made.subject}: {made.title}", 200),
            versions=", ".join(f"{each} {number}" for each, number in made.versions.items()),
            today=made.today,
            packages=" ".join(made.packages),
            file=file,
            kind=self.kind,
            answers=_code(answers),
            base_path=made.base_path,
            source=self.source.strip(),
            call=call,
            end=_end(made, claim),
        )


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
    if claim.subject not in values:
        return f"assert.{'equal' if claim.subject == 'no error' else 'notEqual'}(error, undefined, {says});"
    got = f'const got = {values[claim.subject]};\nconsole.log("got:", JSON.stringify(got));'
    if claim.subject == "reason":
        return f"{got}\nassert.ok({value}.includes(String(got).toLowerCase()), {says});"
    return f"{got}\nassert.{'deepEqual' if claim.is_right else 'notDeepEqual'}(got, {value}, {says});"


def _code(value: JSON, indent: int = 0) -> str:
    """Return a value as code: on one line if it fits."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(flat) + indent <= _WIDTH:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {_code(each, indent + 2)}," for key, each in value.items()]
    else:
        lines = [f"{inner}{_code(each, indent + 2)}," for each in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, *lines, " " * indent + closing])


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
const ANSWERS = {answers};
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
