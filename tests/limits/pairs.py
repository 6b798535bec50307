"""The pairs of the facts, as a probe sends them, and recordings of both at the server that the fact is about."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness import catalog
from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.apis.facts import Edition
from harness.apis.law import OWN, Law
from harness.apis.servers import SERVERS
from harness.apis.targets import target
from harness.apis.view import ModelStep
from harness.contract.http import HttpRequest, HttpResponse
from harness.running.probing.question import paired
from harness.scenarios.load import digest, load_file, sent_digest
from harness.tape.cassette import Cassette, Interaction, Metadata
from harness.tape.library import Library

SIDES = ("broken", "twin")

WITHOUT_ADDRESS = {server.name for server in SERVERS if not server.hosts}
"""Servers that people run where they like: no address tells them, so that a recording is not held to their facts."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What breaks a fact and its twin, as they are sent to the server that the fact is about."""

    api: Api
    fact: Fact
    model: str
    law: Law
    broken: HttpRequest
    twin: HttpRequest

    @property
    def day(self) -> dt.date:
        """A day on which the fact holds."""
        return day_of(self.fact)

    def side(self, name: str) -> HttpRequest:
        """One of `SIDES`."""
        return self.broken if name == "broken" else self.twin


def model_of(api: Api, fact: Fact) -> str:
    """A model that the fact is about; one of which little else is known, if it is about any."""
    unknown = next(each for each in ("a-model", "gpt-4.1") if re.fullmatch(api.services.models, each))
    elsewhere = (fact.service or [OWN])[0] != OWN
    pattern = (fact.models or ["a-model" if elsewhere else unknown])[0]
    plain = re.sub(r"\[!?([^\]])[^\]]*\]", r"\1", pattern).replace("*", "").replace("?", "x")
    assert fact.is_of(plain), f"{fact.id}: {plain}"
    return plain


def day_of(fact: Fact) -> dt.date:
    """A day on which the fact holds."""
    return fact.until or fact.since or dt.date(2026, 11, 22)


def law_of(api: Api, fact: Fact) -> Law:
    """What holds at the server that the fact is about, on that day."""
    profile = api.profile_for(model_of(api, fact), Edition(day_of(fact)))
    return api.services.law_of(profile, (fact.service or [OWN])[0])


def base_of(api: Api, fact: Fact) -> str:
    """A base URL of the server that the fact is about, as a client of the API takes it."""
    service = (fact.service or [OWN])[0]
    if service == OWN:
        return api.provider_url
    hosts = {name: host for host, name in api.services.hosts.items()}
    server = next((each for each in SERVERS if each.name == service), None)
    host = hosts.get(service) or next(iter(server.hosts if server else ()), "example.com")
    port = f":{server.port}" if server and server.port else ""
    return f"https://{host.lstrip('-')}{port}{server.path if server else ''}{api.base_path}"


def pair(api: Api, fact: Fact) -> Pair | None:
    """The pair of a fact; `None`: none is made of it."""
    law, model = law_of(api, fact), model_of(api, fact)
    made = paired(api, fact, model, base_of(api, fact), law)
    return made and Pair(api, fact, model, law, made.meant, made.twin)


def refused() -> Iterator[tuple[Api, Fact]]:
    """The facts that something is refused, and that say by conditions what."""
    for api in catalog.apis():
        yield from ((api, fact) for fact in api.facts.all() if fact.verdict == "refused" and fact.when)


@cache
def pairs() -> Mapping[str, Pair]:
    """All pairs, by the fact's id."""
    made = (pair(api, fact) for api, fact in refused())
    return {each.fact.id: each for each in made if each is not None}


def answered(made: Pair) -> HttpResponse:
    """What a server sends that took the request, on the day of the pair."""
    body = made.api.build(ModelStep(text="ok"), made.fact.id, made.model, made.law.profile)
    body = {name: value for name, value in body.items() if name not in ("created", "created_at")}
    at = dt.datetime.combine(made.day, dt.time(12), dt.UTC)
    headers = {"content-type": "application/json", "date": at.strftime("%a, %d %b %Y %H:%M:%S GMT")}
    return HttpResponse(200, headers, json.dumps(body).encode())


def foreign(made: Pair, side: str) -> dict[str, Any]:
    """A recording of a request that was taken, as other projects have it in vcrpy's format."""
    request, response = made.side(side), answered(made)
    return {
        "version": 1,
        "interactions": [
            {
                "request": {
                    "method": "POST",
                    "uri": request.url,
                    "headers": {name: [value] for name, value in request.headers.items()},
                    "body": request.body.decode(),
                },
                "response": {
                    "status": {"code": response.status, "message": "OK"},
                    "headers": {name: [value] for name, value in response.headers.items()},
                    "body": {"string": response.body.decode()},
                },
            }
        ],
    }


def scenario(made: Pair, side: str) -> dict[str, Any]:
    """A scenario whose text is the request to be sent."""
    name, request = f"{made.fact.id}-{side}", made.side(side)
    path = request.url.removeprefix(base_of(made.api, made.fact).rstrip("/"))
    told = {"path": path, "headers": dict(request.headers), "body": request.body.decode()}
    return {
        "version": 1,
        "id": name,
        "title": "The request that a fact is about, or its twin",
        "covers": ["tools"],
        "turns": [{"user": json.dumps(told), "model": [{"text": "ok"}]}],
    }


def record(made: Pair, side: str, file: Path, library: Library) -> None:
    """Put a cassette into its place, as one that was recorded from the server lies there."""
    loaded, request = load_file(file), made.side(side)
    shipped = made.api.targets[0]
    played = target(shipped, catalog.adapter(shipped.adapter), {shipped.name: made.model})
    metadata = Metadata(
        origin="provider",
        scenario=loaded.id,
        target=played.cassettes,
        api=made.api.name,
        adapter=made.api.name,
        variant="whole",
        model_requested=made.model,
        scenario_digest=digest(loaded),
        sent_digest=sent_digest(loaded),
        recorded_at=f"{made.day}T12:00:00Z",
    )
    library.save(Cassette((Interaction(request, answered(made)),), metadata))
