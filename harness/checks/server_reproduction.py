"""Reproductions of a server's fault: the request as a `curl` command, and the text of an issue."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.checks.issues import fact_parts, fold, required_headers, shell_script, short_json
from harness.checks.server_results import first_check
from harness.model.http import HttpRequest, HttpResponse
from harness.reports.words import sentence
from harness.results import Finding


@dataclass(frozen=True, slots=True)
class ServerFault:
    """A finding of a server check, with the exchange that shows it.

    `subject` is the server's URL and model. `facts` are the rules of the API's provider about such answers. `headers`
    maps the user's own headers to the environment variables that hold their values. The `response` has the status 0 if
    none arrived.
    """

    subject: str
    finding: Finding
    facts: Sequence[Fact]
    request: HttpRequest
    response: HttpResponse
    api: Api
    headers: Mapping[str, str]
    today: str

    @property
    def title(self) -> str:
        """The finding in one line, without a count of other answers that show it."""
        return " ".join(first_check(self.finding.message)[0].split())

    def script(self) -> str:
        """Return a shell script that sends the request to the server and prints the answer."""
        own = [f"{name}: ${variable}" for name, variable in self.headers.items()]
        # a server on this computer may need no key
        headers = [*required_headers(self.request, self.api, f"${{{self.api.key_variables[0]}:-none}}"), *own]
        comments = [f"{self.subject}: {self.title}", *self._values(), "The answer is printed with its headers."]
        return shell_script(comments, "curl -isSN", self.request.url, headers, _body_text(self.request.body))

    def issue(self) -> str:
        """Return the text of an issue in Markdown."""
        values = " ".join(f"{each}." for each in self._values("`"))
        parts = [
            f"# {self.subject}: {self.title}",
            f"**What happens.** {sentence(self.title)} {values}".rstrip(),
            f"**What should happen.** {sentence(self.finding.remedy)}",
        ]
        for fact in self.facts[:1]:
            parts += fact_parts(fact, "What the API's documentation says")
        parts += [
            f"**Versions.** {self.subject}. Seen on {self.today}.",
            fold("The request, as a command", "sh", self.script().rstrip()),
        ]
        if self.response.status:
            head = "\n".join(f"{name}: {value}" for name, value in self.response.headers.items())
            body = self.response.body.decode(errors="replace")
            parts.append(fold(f"The answer, HTTP {self.response.status}", "", f"{head}\n\n{body}".strip()))
        return "\n\n".join(parts) + "\n"

    def _values(self, quote: str = "") -> Iterator[str]:
        """Yield the wrong and the right value as sentences without a full stop."""
        found = self.finding
        place = f" {quote}{found.pointer}{quote}" if found.pointer else ""
        if found.actual is not None:
            yield f"Wrong is{place}: {quote}{short_json(found.actual)}{quote}"
        elif found.pointer:
            yield f"The place is{place}"
        if found.expected is not None:
            yield f"Right is: {quote}{short_json(found.expected)}{quote}"


def _body_text(body: bytes) -> str:
    """Return a request's body, with indents if it is JSON."""
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except ValueError:
        return body.decode(errors="replace")
