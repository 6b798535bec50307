"""Text of an issue for the library's tracker, and the `curl` command that sends a wrong request to the provider."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.apis.jsonvalue import parse_body, resolve
from harness.checks.reproduction import Reproduction, is_about_request
from harness.model.messages import JSON
from harness.platform.exceptions import shorten
from harness.reports.words import sentence
from harness.results import Finding
from harness.rules.chat_endings import meant_status
from harness.rules.evidence import ParsedExchange

_KEY_HEADERS = {"anthropic": "x-api-key: ", "gemini": "x-goog-api-key: "}
"""API → header of the key, for APIs that do not take `authorization: Bearer`."""


_PRINTED = ("raised: ", "sent: ", "returned: ", "got: ", "AssertionError: ")
"""Beginnings of the lines that a script prints itself."""

_MAX_CHARACTERS = 300


def provider_fact(finding: Finding, api: str, readings: Sequence[ParsedExchange]) -> Fact | None:
    """Return the fact on which a finding is based: its own, the first one of its limit, or what is documented about
    such responses.
    """
    at = finding.exchange
    view = readings[at].response if at is not None and at < len(readings) else None
    is_refusal = view is not None and bool(view.refusal)
    endings = _FACTS.get("response-refusal" if is_refusal else finding.rule, ())
    if finding.rule == "chat-failure" and view is not None and view.error is not None:
        status = readings[at or 0].exchange.response
        endings = ("stream-error",) if status is not None and status.status < _FIRST_ERROR else ("error-body", "errors")
    limits = (limit for limit in registry.known_limits() if limit.id == finding.rule)
    ids = [finding.rule, *(name for limit in limits for name in limit.facts), *(f"{api}-{each}" for each in endings)]
    return next((fact for name in ids for fact in registry.api(api).facts.with_ids([name])), None)


_FIRST_ERROR = 400
_FACTS = {
    "error-flag": ("result-is-error",),
    "results-split": ("results-in-one-message",),
    "stop-reason": ("stop-reasons",),
    "response-refusal": ("message-answer", "refusal-details", "stop-reasons"),
    "response-calls": ("message-answer", "stream-order", "calls-whole"),
    "response-text": ("message-answer", "stream-order", "chunks"),
    "truncated-call": ("broken-arguments", "stop-reasons"),
    "stream-cut": ("stream-cut", "stream-order", "stop-reasons"),
    "library-empty-arguments": ("no-arguments", "stream-arguments"),
    "tool-run-missing": ("no-arguments", "stream-arguments"),
    "usage": ("usage",),
}
"""Rule → ends of the ids of facts about such responses, the best first. Their beginning is the API."""


def curl_command(made: Reproduction, api: Api) -> str:
    """Return a shell script that sends the wrong request to the provider, or an empty text if none is wrong.

    The script reads the key from an environment variable.
    """
    reading = made.reading
    if reading is None or not is_about_request(made.finding):
        return ""
    request, place = reading.exchange.request, made.finding.pointer
    sent = urlsplit(request.url)
    url = urlsplit(api.provider_url)._replace(path=sent.path, query=sent.query).geturl()
    key = f"{_KEY_HEADERS.get(api.name, 'authorization: Bearer ')}${api.key_variables[0]}"
    version = request.headers.get("anthropic-version")
    given = [key, "content-type: application/json", *([f"anthropic-version: {version}"] if version else [])]
    headers = [f'-H "{each}"' for each in given]
    wrong = f"# Wrong is {place}: {_short(resolve(_body(reading), place))}\n" if place else ""
    body = json.dumps(_body(reading), indent=2, ensure_ascii=False)
    command = " \\\n    ".join([f"curl '{url}'", *headers, "--data-binary @- <<'JSON'"])
    return f"#!/bin/sh\n# {made.subject}: {made.title}\n{wrong}{command}\n{body}\nJSON\n"


def issue_text(made: Reproduction, printed: str, script: str, language: str) -> str:
    """Return the text of an issue in Markdown. `printed` is the output of the script, if there is one."""
    finding, reading = made.finding, made.reading
    number = (finding.exchange or 0) + 1
    is_request = reading is not None and is_about_request(finding)
    request = _body(reading) if reading is not None else None
    wrong = resolve(request, finding.pointer) if is_request and finding.pointer else finding.actual
    parts = [f"# {made.subject}: {made.title}"]
    place = f" `{finding.pointer}` of the request is `{_short(wrong)}`." if is_request and finding.pointer else ""
    of = f"Request {number}: " if is_request else f"Answer {number}: " if number > 1 else ""
    parts.append(f"**What happens.** {sentence(of + made.title)}{place}")
    words = isinstance(finding.expected, str) and (" " in finding.expected or finding.rule == "stop-reason")
    expected = "" if finding.expected is None or words else f" Expected: `{_short(finding.expected)}`."
    status = reading.response and reading.response.error and meant_status(reading.response.error) if reading else None
    if status is not None and finding.rule == "chat-failure":
        expected, advice = "", f"Raise an exception with the status {status}."
    else:
        advice = _REMEDIES.get(finding.rule, "")
    remedy = re.sub(r"(?i)(raise) [\w ]+? instead", r"\1 an exception instead", made.remedy)
    remedy = remedy.replace("Look at the line that is named: the", "The")
    parts.append(f"**What should happen.** {advice or remedy}{expected}")
    if made.fact is not None:
        parts.append(f"**What the provider says.** {made.fact.says}")
        parts += [f"> {made.fact.words}"] if made.fact.words else []
        parts.append("\n".join(f"- {each.kind} {each.date}: {each.address}" for each in made.fact.evidence))
    if printed:
        output = "\n".join(line for line in printed.splitlines() if line.startswith(_PRINTED))
        parts.append(f"**Output of the script below.**\n\n```\n{output}\n```")
    versions = ", ".join(f"{name} {number}" for name, number in made.versions.items()) or "not known"
    parts.append(f"**Versions.** {versions}. Seen on {made.today}, with answers of a local stub server.")
    if script:
        parts.append(_fold("The script: it needs only the library", language, script.rstrip()))
    if is_request:
        parts.append(_fold("The request", "json", json.dumps(request, indent=2, ensure_ascii=False)))
    elif reading is not None and reading.exchange.response is not None and not script:
        response = reading.exchange.response
        parts.append(_fold(f"The answer, HTTP {response.status}", "", response.body.decode(errors="replace")))
    return "\n\n".join(parts) + "\n"


_REMEDIES = {
    "library-empty-arguments": "Return `{}` as the arguments of a call without arguments.",
    "stop-reason": "Return the provider's stop reason, or one that means the same, and the text of a refusal.",
    "truncated-call": "Return no call whose arguments are cut: raise an exception, or mark the call as invalid.",
    "response-refusal": "Return the text of the refusal.",
    "issued-id-lost": "Return the id of the call as the provider sent it.",
}
"""Rule → advice for the maintainers of a library, who do not know the names of harness."""


def _body(reading: ParsedExchange) -> JSON:
    return parse_body(reading.exchange.request.body)


def _short(value: object) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), _MAX_CHARACTERS)


def _fold(title: str, language: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n```{language}\n{text}\n```\n\n</details>"
