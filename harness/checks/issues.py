"""Texts of issues, and shell scripts that send a request with `curl`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.apis.jsonvalue import parse_body, resolve
from harness.checks.reproduction import Reproduction, is_about_request
from harness.model.http import HttpRequest
from harness.model.messages import JSON
from harness.platform.exceptions import shorten
from harness.reports.words import sentence
from harness.results import Finding
from harness.rules.chat_endings import meant_status
from harness.rules.evidence import ParsedExchange

_PRINTED = ("raised: ", "sent: ", "returned: ", "got: ", "AssertionError: ")
"""Beginnings of the lines that a script prints itself."""

_MAX_CHARACTERS = 300


def provider_fact(finding: Finding, api: str, parsed_exchanges: Sequence[ParsedExchange]) -> Fact | None:
    """Return the fact on which a finding is based. This is the fact with its id, the first fact of its limit, or a fact
    about such responses.
    """
    at = finding.exchange
    view = parsed_exchanges[at].response if at is not None and at < len(parsed_exchanges) else None
    is_refusal = view is not None and bool(view.refusal)
    endings = _FACTS.get("response-refusal" if is_refusal else finding.rule, ())
    if finding.rule == "chat-failure" and view is not None and view.error is not None:
        status = parsed_exchanges[at or 0].exchange.response
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
"""Rule → endings of the ids of facts about such responses, the best one first. The API's name precedes the ending."""


def curl_command(made: Reproduction, api: Api) -> str:
    """Return a shell script that sends the wrong request to the provider, or an empty string if the finding is not
    about a request.

    The script reads the key from an environment variable.
    """
    parsed = made.parsed
    if parsed is None or not is_about_request(made.finding):
        return ""
    request, place = parsed.exchange.request, made.finding.pointer
    sent = urlsplit(request.url)
    url = urlsplit(api.provider_url)._replace(path=sent.path, query=sent.query).geturl()
    wrong = [f"Wrong is {place}: {short_json(resolve(_body(parsed), place))}"] if place else []
    body = json.dumps(_body(parsed), indent=2, ensure_ascii=False)
    headers = required_headers(request, api, f"${api.key_variables[0]}")
    return shell_script([f"{made.subject}: {made.title}", *wrong], "curl", url, headers, body)


def shell_script(comments: Iterable[str], curl: str, url: str, headers: Iterable[str], body: str) -> str:
    """Return a shell script with comments that sends a body with `curl`, the command and its options. The headers may
    name environment variables. Quotes in the URL are encoded, so that it cannot end there.
    """
    lines = "".join(f"# {' '.join(each.split())}\n" for each in comments)
    quoted = url.replace("'", "%27")
    command = " \\\n    ".join(
        [f"{curl} '{quoted}'", *(f'-H "{each}"' for each in headers), "--data-binary @- <<'JSON'"]
    )
    return f"#!/bin/sh\n{lines}{command}\n{body}\nJSON\n"


def required_headers(request: HttpRequest, api: Api, key: str) -> list[str]:
    """Return the lines of the headers that an API over HTTP requires, with the values of a request and this key."""
    minimal = api.minimal_request
    if minimal is None:
        return []
    own = {name: request.headers.get(name, value) for name, value in minimal.headers.items()}
    bare = replace(request, headers={"content-type": "application/json", **own})
    return [f"{name}: {value}" for name, value in minimal.with_key(bare, key).headers.items()]


def issue_text(made: Reproduction, printed: str, script: str, language: str) -> str:
    """Return the text of an issue in Markdown. `printed` is the output of the script, if there is one."""
    finding, parsed = made.finding, made.parsed
    number = (finding.exchange or 0) + 1
    is_request = parsed is not None and is_about_request(finding)
    request = _body(parsed) if parsed is not None else None
    wrong = resolve(request, finding.pointer) if is_request and finding.pointer else finding.actual
    parts = [f"# {made.subject}: {made.title}"]
    place = f" `{finding.pointer}` of the request is `{short_json(wrong)}`." if is_request and finding.pointer else ""
    of = f"Request {number}: " if is_request else f"Answer {number}: " if number > 1 else ""
    words = isinstance(finding.expected, str) and (" " in finding.expected or finding.rule == "stop-reason")
    right = made.lost_text if is_request and made.lost_text else None if words else finding.expected
    expected = "" if right is None else f" Expected: `{short_json(right)}`."
    is_shown = not is_request and finding.actual is not None and expected
    returned = f" Returned: `{short_json(finding.actual)}`." if is_shown else ""
    parts.append(f"**What happens.** {sentence(of + made.title)}{place}{returned}")
    status = parsed.response and parsed.response.error and meant_status(parsed.response.error) if parsed else None
    if status is not None and finding.rule == "chat-failure":
        expected, advice = "", f"Raise an exception with the status {status}."
    else:
        advice = _REMEDIES.get(finding.rule, "")
    remedy = re.sub(r"(?i)(raise) [\w ]+? instead", r"\1 an exception instead", made.remedy)
    remedy = remedy.replace("Look at the line that is named: the", "The")
    parts.append(f"**What should happen.** {advice or remedy}{expected}")
    if made.fact is not None:
        parts += fact_parts(made.fact, "What the provider says")
    if printed:
        output = "\n".join(line for line in printed.splitlines() if line.startswith(_PRINTED))
        parts.append(f"**Output of the script below.**\n\n```\n{output}\n```")
    versions = ", ".join(f"{name} {number}" for name, number in made.versions.items()) or "not known"
    parts.append(f"**Versions.** {versions}. Seen on {made.today}, with answers of a local stub server.")
    if script:
        needed = "needs the gateway" if made.gateway is not None else "needs only the library"
        title = "The command" if language == "sh" else f"The script: it {needed}"
        parts.append(fold(title, language, script.rstrip()))
    if is_request:
        name = "The request" if made.gateway is None else "The gateway's request"
        parts.append(fold(name, "json", json.dumps(request, indent=2, ensure_ascii=False)))
    elif parsed is not None and parsed.exchange.response is not None and not script:
        response = parsed.exchange.response
        parts.append(fold(f"The answer, HTTP {response.status}", "", response.body.decode(errors="replace")))
    return "\n\n".join(parts) + "\n"


_REMEDIES = {
    "library-empty-arguments": "Return `{}` as the arguments of a call without arguments.",
    "stop-reason": "Return the provider's stop reason, or one that means the same, and the text of a refusal.",
    "truncated-call": "Return no call whose arguments are cut: raise an exception, or mark the call as invalid.",
    "response-refusal": "Return the text of the refusal.",
    "issued-id-lost": "Return the id of the call as the provider sent it.",
}
"""Rule → advice for the maintainers of a library, without the terms of harness."""


def _body(parsed: ParsedExchange) -> JSON:
    return parse_body(parsed.exchange.request.body)


def fact_parts(fact: Fact, heading: str) -> list[str]:
    """Return the parts of an issue that state a fact: what it says, the provider's words, and its evidence."""
    words = [f"> {fact.words}"] if fact.words else []
    evidence = "\n".join(f"- {each.kind} {each.date}: {each.address}" for each in fact.evidence)
    return [f"**{heading}.** {fact.says}", *words, evidence]


def short_json(value: object) -> str:
    """Return a value as JSON, shortened for a line of text."""
    return shorten(json.dumps(value, ensure_ascii=False), _MAX_CHARACTERS)


def fold(title: str, language: str, text: str) -> str:
    """Return a code block in Markdown that is folded below its title."""
    return f"<details><summary>{title}</summary>\n\n```{language}\n{text}\n```\n\n</details>"
