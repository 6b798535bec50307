"""Compatible servers that can be the target of a run, from `servers.yaml`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from harness.apis.fact import Day, Effects
from harness.apis.profiles import ShippedTarget
from harness.documents.document import read
from harness.documents.strict_models import Strict
from harness.model.errors import FactsError

_FILE = Path(__file__).with_name("servers.yaml")


class StreamRecording(Strict):
    """Address and date of a recording that shows how a server streams."""

    date: Day
    address: str


class Server(Strict):
    """A compatible server. `dialect` lists how its responses differ from those of the API's provider."""

    name: str
    service: str = ""
    api: str
    model: str
    url: str
    keys: list[str]
    profile: Effects = Field(default_factory=Effects)
    dialect: dict[str, Any] = Field(default_factory=dict[str, Any])
    recorded: StreamRecording | None = None


@cache
def servers() -> tuple[Server, ...]:
    """Return all servers."""
    entries: Any = read(_FILE.read_bytes(), str(_FILE), FactsError).value
    return tuple(
        Server.model_validate_json(json.dumps({"service": entry["name"], **entry})) for entry in entries["servers"]
    )


def servers_of(api: str) -> tuple[Server, ...]:
    """Return the servers that speak an API."""
    return tuple(server for server in servers() if server.api == api)


def server_targets(api: str) -> tuple[ShippedTarget, ...]:
    """Return one target for each server that speaks an API. The targets use the adapter that has the same name as the
    API.
    """
    return tuple(
        ShippedTarget(
            each.name,
            api,
            api,
            each.model,
            each.service,
            each.profile.model_dump(exclude_unset=True),
            each.url,
            tuple(each.keys),
        )
        for each in servers_of(api)
    )
