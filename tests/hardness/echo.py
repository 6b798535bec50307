"""A server that stands in for a provider and gives a canary away: in the answers of scenarios, and in other places."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.apis import registry
from harness.model.http import HttpRequest, HttpResponse
from harness.reference_server.script_session import ScriptSession
from harness.scenarios.load import load_file
from harness.scenarios.schema import Scenario
from tests.hardness.canaries import Canary

TARGETS = ("anthropic", "openai-chat", "openai-responses", "gemini-3")
"""A target for each API over HTTP."""

TOOL = {"name": "lookup", "description": "Looks up.", "results": [{"when": {}, "return": "found"}]}


def scenarios(folder: Path, canary: Canary) -> dict[str, Scenario]:
    """A scenario for each place, by its id, as files in `folder`."""
    query = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    tool = {"requires": ["tools"], "tools": [{**TOOL, "parameters": query}]}
    text = f"What I know is {canary.text}, and no more."
    made: dict[str, dict[str, Any]] = {
        "request-text": {"turns": [turn(f"[request-text] Remember: {canary.text}", {"text": "I do."})]},
        "response-text": {"turns": [turn("[response-text] Say it.", {"text": text})]},
        "tool-argument": tool
        | {"turns": [turn("[tool-argument] Look up.", {"calls": [{"lookup": {"q": text}}]}, {"text": "It is found."})]},
        "error-message": {"turns": [turn("[error-message] Say it.", {"text": "No."})]},
        "response-header": {"turns": [turn("[response-header] Say it.", {"text": "It is in the header."})]},
        "malformed-line": {"turns": [turn("[malformed-line] Say it.", {"text": "It is in the line."})]},
        "frame-line": {"turns": [turn("[frame-line] Say it.", {"text": "It is beside the data."})]},
        "plain": {"turns": [turn("[plain] Say nothing.", {"text": "Nothing."})]},
    }
    for name, scenario in made.items():
        head = {"version": 1, "id": name, "title": "A canary", "covers": ["tools"]}
        (folder / f"{name}.yaml").write_text(json.dumps({**head, **scenario}))
    return {name: load_file(folder / f"{name}.yaml") for name in made}


def turn(user: str, *model: Mapping[str, Any]) -> dict[str, Any]:
    return {"user": user, "model": list(model)}


class Echo:
    """Answers for one target by the scenario that a request names."""

    def __init__(self, target: str, scenarios: Mapping[str, Scenario], canary: Canary) -> None:
        shipped = registry.target_named(target)
        self._wire = registry.api(shipped.api)
        self._begin: Callable[[str], ScriptSession] = lambda name: ScriptSession(
            scenarios[name], self._wire, shipped.model, registry.api(shipped.api).profile_for(shipped.model)
        )
        self._names = list(scenarios)
        self._canary = canary
        self._sessions: dict[str, ScriptSession] = {}

    def __call__(self, request: HttpRequest) -> HttpResponse:
        name = next(name for name in self._names if f"[{name}]".encode() in request.body)
        if name not in self._sessions or len(self._wire.view(request).turns) == 1:
            self._sessions[name] = self._begin(name)
        response = self._sessions[name](replace(request, url=request.url.partition("?")[0] + self._way(request)))
        if name == "error-message":
            return refusal(f"Incorrect API key provided: {self._canary.text}. It went to {request.url}")
        if name == "response-header":
            said = dict.fromkeys(("request-id", "x-request-id", "set-cookie", "x-debug"), self._canary.line)
            return replace(response, headers={**response.headers, **said})
        if name == "frame-line" and response.headers["content-type"].startswith("text/event-stream"):
            lines = f": {self._canary.line}\nid: {self._canary.line}\n"
            return replace(response, body=lines.encode() + response.body)
        return self._malformed(response) if name == "malformed-line" else response

    def _way(self, request: HttpRequest) -> str:
        return "?alt=sse" if "alt=sse" in request.url else ""

    def _malformed(self, response: HttpResponse) -> HttpResponse:
        """With half an event, and the other half in the next one; or, of a whole body, with its end cut off."""
        text = json.dumps(self._canary.text)[1:-1]
        half = text.find("\\", len(text) // 2) if "\\" in text[len(text) // 2 :] else len(text) // 2
        if not response.headers["content-type"].startswith("text/event-stream"):
            return replace(response, body=f'{{"output": "what came of it: {text}", "id": '.encode())
        lines = "".join(f'data: {{"delta": {{"text": "{each}\n\n' for each in (text[:half], text[half:]))
        return replace(response, body=lines.encode() + response.body)


def refusal(message: str) -> HttpResponse:
    error = {"type": "invalid_request_error", "message": message, "code": 400, "status": "INVALID_ARGUMENT"}
    body = json.dumps({"type": "error", "error": error}).encode()
    return HttpResponse(400, {"content-type": "application/json"}, body)
