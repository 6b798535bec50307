"""Reproductions of a gateway's fault: the client's requests, and a server that answers in place of the provider."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from harness.apis.jsonvalue import join, loads, parse_body, resolve
from harness.apis.view import WireError
from harness.checks.gateway_exchange import GatewayExchange
from harness.checks.gateway_findings import DETAILS, OTHER_DETAILS, DirectRun, judge_run
from harness.checks.gateway_traffic import GatewayRun, changed_run
from harness.checks.issues import provider_fact, required_headers, shell_script
from harness.checks.reproduction import (
    Reproduction,
    ScriptClaim,
    ScriptGateway,
    claims_of_place,
    differences,
    is_about_request,
    put,
    steps_of,
)
from harness.model.messages import JSON
from harness.reports.words import what_to_do
from harness.results import Exchange, Finding, FindingBody
from harness.runner.cells import Cell


@dataclass(frozen=True, slots=True)
class GatewayFault:
    """A finding of a gateway cell, with the run that shows it.

    `headers` maps the user's own headers to the environment variables that hold their values. `port` is the port that
    the gateway sends its requests to. `direct` runs the cell without the gateway.
    """

    subject: str
    cell: Cell
    run: GatewayRun
    direct: Callable[[], DirectRun]
    finding: Finding
    headers: dict[str, str]
    port: int
    today: str

    @property
    def _exchange(self) -> GatewayExchange:
        """The exchange of the finding."""
        return self.run.exchanges[self.finding.exchange or 0]

    def reproduction(self) -> Reproduction:
        """Return the contents of the reproduction."""
        exchange, way = self._exchange, self._exchange.way
        own = {id(side.exchange) for each in self.run.exchanges[: exchange.number + 1] for side in each.upstream}
        parsed = [each for each in self.run.upstream.parsed_exchanges if id(each.exchange) in own]
        direct = self.direct().requests[exchange.number :]
        finding = replace(
            self.finding,
            exchange=len(parsed) - 1 if parsed else None,
            pointer=_pointer(self.finding) or None,
            exhibits=tuple(FindingBody("", each.decode()) for each in direct[:1]),
        )
        requirements = (each.requirement for each in (*DETAILS, *OTHER_DETAILS) if each.id == finding.rule)
        requests = [each.client.exchange.request for each in self.run.exchanges[: exchange.number + 1]]
        made = Reproduction(
            subject=self.subject,
            module=None,
            packages=[],
            versions={},
            origin="",
            base_path="",
            finding=finding,
            parsed_exchanges=parsed,
            calls=[],
            results={},
            owns_loop=False,
            fact=provider_fact(finding, way.upstream.name, parsed),
            remedy=next(requirements, what_to_do(finding)),
            today=self.today,
            is_mended=self._is_mended_by_request,
            conversation=self.cell.scenario.model_dump(mode="json", by_alias=True),
        )
        gateway = ScriptGateway(
            self.port,
            way.upstream.base_url_ending,
            requests[-1].url,
            self._headers(),
            [loads(each.body) for each in requests],
        )
        return replace(made, gateway=gateway, own_claims=[*self._claims(made)])

    def curl_command(self, title: str) -> str:
        """Return a shell script that sends the client's request to the gateway."""
        request = self._exchange.client.exchange.request
        body = json.dumps(loads(request.body), indent=2, ensure_ascii=False)
        base_url = f"http://127.0.0.1:{self.port}{self._exchange.way.upstream.base_url_ending}"
        comments = [f"{self.subject}: {title}", f"Seen with {base_url} as the base URL of the gateway's provider."]
        return shell_script(comments, "curl -isSN", request.url, self._headers(), body)

    def _headers(self) -> list[str]:
        request, api = self._exchange.client.exchange.request, self._exchange.way.client
        own = [f"{name}: ${variable}" for name, variable in self.headers.items()]
        return [*required_headers(request, api, f"${api.key_variables[0]}"), *own]

    def _claims(self, made: Reproduction) -> Iterator[ScriptClaim]:
        """Yield what a script may check, the best first. The last one is that the result differs at all."""
        if not is_about_request(made.finding) or made.parsed is None:
            yield from self._of_answer()
            return
        if made.finding.rule in _ABOUT_EARLIER_REQUESTS and made.finding.pointer:
            yield ScriptClaim("unchanged", path=steps_of(made.finding.pointer))
        whole = ScriptClaim("sent", loads(made.parsed.exchange.request.body), is_right=False)
        yield from (each for each in [*made.claims(), whole] if each.is_right or self._is_wrong_value(each))

    def _is_wrong_value(self, claim: ScriptClaim) -> bool:
        """Return whether each right gateway sends another value than that of the claim.

        With the client's API, this is a value that the client did not send. It may have a wrong value from an earlier
        answer of the gateway. With another API, nothing has to be at a certain place.
        """
        way = self._exchange.way
        if way.client is not way.upstream:
            return claim.value is not None
        own = resolve(loads(self._exchange.client.exchange.request.body), join("", *claim.path))
        return own != claim.value

    def _of_answer(self) -> Iterator[ScriptClaim]:
        exchange, expected = self._exchange, self.finding.expected
        response, upstream = exchange.client.exchange.response, exchange.last
        has_error = exchange.client.response is not None and exchange.client.response.error is not None
        if has_error and (upstream is None or upstream.is_answer):
            yield ScriptClaim("no error")
        error = upstream.response.error if upstream is not None and upstream.response is not None else None
        if error is not None:
            if self.finding.rule == "gateway-retry-after":
                yield ScriptClaim("header", "retry-after")
            if error.status >= HTTPStatus.BAD_REQUEST:
                yield ScriptClaim("status", error.status)
            yield ScriptClaim("contains", error.message)
        if upstream is not None and upstream.is_cut:
            yield ScriptClaim("error")
        yield from self._of_places()
        if isinstance(expected, str) and expected.isascii():
            yield ScriptClaim("contains", expected)
        if response is not None:
            yield ScriptClaim("other", re.sub(r"\d+", "0", response.body.decode(errors="replace")))

    def _of_places(self) -> Iterator[ScriptClaim]:
        """Yield claims about the values of an answer that is not streamed."""
        exchange = self._exchange
        response, right = exchange.client.exchange.response, _right_answer(exchange)
        try:
            body = parse_body(response.body) if response is not None else None
        except WireError:
            return
        changed = (at for at, each in differences(body, right) if self._is_mended_by_answer(put(body, at, each)))
        for place in [pointer] if (pointer := _pointer(self.finding)) else changed:
            for claim in claims_of_place(self.finding, place, resolve(body, place), right):
                yield replace(claim, subject="answered")

    def _is_mended_by_request(self, body: JSON) -> bool:
        """Return whether the finding disappears if the gateway's request has this body instead."""
        last = self._exchange.last
        return last is not None and self._is_mended(partial(_with_request, last.exchange, body))

    def _is_mended_by_answer(self, body: JSON) -> bool:
        return self._is_mended(partial(_with_answer, self._exchange.client.exchange, body))

    def _is_mended(self, change: Callable[[Exchange], Exchange]) -> bool:
        judged = judge_run(changed_run(self.run, self.cell.scenario, change), self.direct)
        found = ((each.rule, each.exchange, each.message) for each in judged.findings)
        return (self.finding.rule, self.finding.exchange, self.finding.message) not in found


_ABOUT_EARLIER_REQUESTS = ("gateway-call-ids", "gateway-prefix")
"""Rules that compare a request with the one before."""


def _pointer(finding: Finding) -> str:
    """Return the pointer of a finding into what the gateway sent, or an empty text."""
    return next((each.pointer for each in finding.bodies if each.end.startswith("the gateway's")), "")


def _right_answer(exchange: GatewayExchange) -> JSON:
    """Return the answer that the gateway should have given: the upstream's, or the same answer in the client's API."""
    if exchange.way.client is not exchange.way.upstream:
        return exchange.own.body if exchange.own is not None else None
    return exchange.last.response.body if exchange.last is not None and exchange.last.response is not None else None


def _with_request(wrong: Exchange, body: JSON, exchange: Exchange) -> Exchange:
    if exchange is not wrong:
        return exchange
    return replace(exchange, request=replace(exchange.request, body=json.dumps(body).encode()))


def _with_answer(wrong: Exchange, body: JSON, exchange: Exchange) -> Exchange:
    if exchange is not wrong or exchange.response is None:
        return exchange
    return replace(exchange, response=replace(exchange.response, body=json.dumps(body).encode()))
