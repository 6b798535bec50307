"""Servers and gateways that a project names: `[tool.harness.servers.NAME]`, `[tool.harness.gateways.NAME]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from harness.contract.errors import UsageError
from harness.host.setting import (
    Key,
    checked,
    is_filled_list,
    is_list,
    is_seconds,
    is_switch,
    is_table,
    is_text,
    is_whole,
)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)

LONGEST_WAIT = 3600.0
"""Seconds that a gateway may take to start, at the most."""

FileOf = Callable[[str, str], Path]
"""The file that a key names: the key with its place, and what it says. Raises `UsageError`: there is none."""


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server, with what stands for the options of a check of one. `place` names its table in errors; what it does not
    say is empty, or `None`."""

    place: str
    url: str
    api: str
    model: str
    max_tokens: int | None = None
    max_requests: int | None = None
    repeat: int | None = None
    price: str | None = None
    only: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    expected_failures: Path | None = None
    strict: bool | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class NamedGateway:
    """A gateway, with what stands for the options of a check of one, as `NamedServer`. `models` and `upstream_models`
    are by the names of upstreams."""

    place: str
    url: str
    api: str
    upstreams: tuple[str, ...]
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    upstream_models: Mapping[str, str] = field(default_factory=dict[str, str])
    upstream_port: int | None = None
    command: str | None = None
    wait: float | None = None
    variants: tuple[str, ...] = ()
    expected_failures: Path | None = None
    strict: bool | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


_API = Key(is_text, "the API that it speaks", '"openai-chat"', needed=True)
_VARIANTS = Key(is_list, "a list of variants", '["whole", "stream"]')
_EXPECTED = Key(is_text, "a file", '"known-failures.yaml"')
_HEADERS = Key(is_table, "a table of variables of the environment by header", '{x-team-key = "TEAM_KEY"}')
_STRICT = Key(is_switch, "true or false", "true")
_COUNT = is_whole(1)

SERVER_KEYS = {
    "url": Key(is_text, "its base URL", '"http://127.0.0.1:8000/v1"', needed=True),
    "api": _API,
    "model": Key(is_text, "one of its models", '"llama-4-8b"', needed=True),
    "max-tokens": Key(is_whole(64), "a whole number from 64 on", "2048"),
    "max-requests": Key(_COUNT, "a whole number from 1 on", "200"),
    "repeat": Key(_COUNT, "a whole number from 1 on", "3"),
    "price": Key(is_text, "US dollars for a million tokens, read and written", '"0.15,0.60"'),
    "only": Key(is_list, "a list of checks", '["server-call"]'),
    "variants": _VARIANTS,
    "expected-failures": _EXPECTED,
    "strict": _STRICT,
    "headers": _HEADERS,
}
"""The keys of a server's table."""

GATEWAY_KEYS = {
    "url": Key(is_text, "its base URL", '"http://127.0.0.1:4000/v1"', needed=True),
    "api": _API,
    "upstreams": Key(is_filled_list, "a list of what stands behind it", '["anthropic", "gemini"]', needed=True),
    "models": Key(is_table, "a table of its names of models by upstream", '{anthropic = "claude"}'),
    "upstream-models": Key(is_table, "a table of models by upstream", '{anthropic = "claude-opus-5"}'),
    "upstream-port": Key(is_whole(0, 65535), "a port", "5555"),
    "command": Key(is_text, "a command", '"litellm --config litellm.yaml --port 4000"'),
    "wait": Key(is_seconds(LONGEST_WAIT), f"seconds, up to {LONGEST_WAIT:g}", "120"),
    "variants": _VARIANTS,
    "expected-failures": _EXPECTED,
    "strict": _STRICT,
    "headers": _HEADERS,
}
"""The keys of a gateway's table."""


def server(name: str, table: Mapping[str, Any], place: str, file: FileOf) -> NamedServer:
    """The server of a table. Raises `UsageError`: the name or the table is none."""
    return NamedServer(place, **_values(name, table, SERVER_KEYS, place, file))


def gateway(name: str, table: Mapping[str, Any], place: str, file: FileOf) -> NamedGateway:
    """The gateway of a table. Raises `UsageError`: the name or the table is none."""
    return NamedGateway(place, **_values(name, table, GATEWAY_KEYS, place, file))


def _values(name: str, table: Mapping[str, Any], keys: Mapping[str, Key], place: str, file: FileOf) -> dict[str, Any]:
    """What a table says, by the fields of its class."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{place}: its name has to be of small letters, digits, '-', '.' and '_', as in local-llama.")
    checked(table, keys, place)
    values = {key: tuple(cast("list[str]", value)) if is_list(value) else value for key, value in table.items()}
    if "expected-failures" in table:
        values["expected-failures"] = file(f"{place}.expected-failures", table["expected-failures"])
    return {key.replace("-", "_"): value for key, value in values.items()}
