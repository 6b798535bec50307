"""Data model of cassettes: recorded exchanges, how each response was delivered, and the origin of the recording."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, TypeGuard, cast, get_args

from pydantic import TypeAdapter

from harness.model.http import AT_ONCE, Delivery, Ending, HttpRequest, HttpResponse
from harness.results import Origin, Provenance, Variant

LONGEST_PAUSE = 3600.0
"""Maximum pause between two chunks, in seconds. Playback ignores pauses."""

_KEYS = frozenset({"cuts", "pause", "ending"})
_ENDINGS: tuple[Ending, ...] = get_args(Ending)


def stored_delivery(delivery: Delivery) -> dict[str, Any]:
    """Return the delivery properties that differ from the default, which is one piece sent at once."""
    values: dict[str, Any] = {}
    if delivery.cuts:
        values["cuts"] = list(delivery.cuts)
    if delivery.pause:
        values["pause"] = delivery.pause
    if delivery.ending != AT_ONCE.ending:
        values["ending"] = delivery.ending
    return values


def loaded_delivery(values: Any) -> Delivery:
    """Load a delivery from the form that `stored_delivery` returns.

    Raises:
        ValueError: the values are not a valid delivery.
    """
    if not is_mapping(values):
        raise ValueError("a delivery is a mapping of `cuts`, `pause` and `ending`")
    unknown = sorted(str(key) for key in values.keys() - _KEYS)
    if unknown:
        raise ValueError(f"a delivery has `cuts`, `pause` and `ending`, and no `{unknown[0][:80]}`")
    cuts: Any = values.get("cuts", [])
    if not _are_offsets(cuts):
        raise ValueError("`cuts` is not a list of whole numbers that ascend from 0 or more")
    pause: Any = values.get("pause", 0.0)
    if type(pause) not in {int, float} or not 0 <= pause <= LONGEST_PAUSE:  # NaN is neither
        raise ValueError(f"`pause` is not a number of seconds from 0 to {LONGEST_PAUSE:.0f}")
    ending: Any = values.get("ending", AT_ONCE.ending)
    if ending not in _ENDINGS:
        raise ValueError(f"`ending` is not one of {', '.join(_ENDINGS)}")
    return Delivery(tuple(cuts), float(pause), ending)


def is_mapping(value: Any) -> TypeGuard[dict[Any, Any]]:
    """Return whether a value is a `dict`, whatever its keys and values."""
    return isinstance(value, dict)


def _are_offsets(value: Any) -> TypeGuard[list[int]]:
    if not isinstance(value, list):
        return False
    cuts = cast("list[Any]", value)
    return all(type(cut) is int for cut in cuts) and all(one <= other for one, other in pairwise([0, *cuts]))


FORMAT = "harness 2"
"""`metadata.format` of cassettes that harness writes. Foreign cassettes have none."""

FORMATS = ("harness 1", FORMAT)
"""Formats that can be read. Cassettes in `harness 1` have no indented bodies."""

REFERENCE_URL = "http://reference-server.invalid"
"""URL written to reference recordings in place of the server's real address. It keeps recordings reproducible, and no
provider can have this name (RFC 6761).
"""

_NOTES: Mapping[Origin, str] = {
    "reference": "Recorded from the reference server that comes with harness, not from a provider.",
    "provider": "Recorded from the provider.",
    "server": "Recorded from {address}, not from the provider.",
}


@dataclass(frozen=True, slots=True)
class Interaction:
    """A recorded request and its response. Foreign cassettes may lack the response."""

    request: HttpRequest
    response: HttpResponse | None


@dataclass(frozen=True, slots=True)
class Metadata:
    """Origin of a cassette that harness recorded.

    `scenario_digest` is the digest of the scenario at recording time. `sent_digest` covers only the parts of the
    scenario that determine the requests; older recordings lack it. `recorded_at` is an ISO 8601 time in UTC. `versions`
    contains the SDK version. Recordings from the reference server have neither `recorded_at` nor `versions`, so that
    they are reproducible. `recorded_from` is the server's address if it is not the provider's.
    """

    origin: Origin
    scenario: str
    target: str
    api: str
    adapter: str
    variant: Variant
    model_requested: str
    scenario_digest: str
    sent_digest: str | None = None
    model_served: str | None = None
    recorded_at: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    recorded_from: str | None = None

    @property
    def note(self) -> str:
        """A sentence that describes the origin."""
        return _NOTES[self.origin].format(address=self.recorded_from)

    @property
    def provenance(self) -> Provenance:
        """The metadata that reports show."""
        return Provenance(
            self.origin,
            self.recorded_at,
            self.model_requested,
            self.model_served,
            self.versions,
            self.recorded_from,
        )

    def is_of(self, scenario_digest: str, sent_digest: str | None) -> bool:
        """Return whether a scenario with these digests still sends the recorded requests. If not, the recording is
        stale.
        """
        if self.sent_digest is None or sent_digest is None:
            return self.scenario_digest == scenario_digest
        return self.sent_digest == sent_digest

    def to_dict(self) -> dict[str, Any]:
        """Return all fields that are set, as plain values, in field order."""
        values = {each.name: getattr(self, each.name) for each in _FIELDS} | {"versions": dict(self.versions)}
        return {key: value for key, value in values.items() if value is not None and value != {}}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Metadata:
        """Create metadata from the result of `to_dict`. Raises `pydantic.ValidationError`."""
        return _METADATA.validate_python(dict(values))


_FIELDS = fields(Metadata)
_METADATA: TypeAdapter[Metadata] = TypeAdapter(Metadata)


@dataclass(frozen=True, slots=True)
class Cassette:
    """Recorded exchanges of one cell, or of a user's test. Only cassettes of cells have `metadata`."""

    interactions: tuple[Interaction, ...]
    metadata: Metadata | None = None


def checksum(metadata: Metadata, interactions: Sequence[Interaction]) -> str:
    """Return a digest that detects truncated or edited cassettes. It does not protect against deliberate tampering."""
    digest = hashlib.sha256(b"[" + _json(metadata.to_dict()) + b", [")  # in pieces: the whole is twice the cassette
    for index, each in enumerate(interactions):
        digest.update((b", " if index else b"") + _to_digest(each))
    digest.update(b"]]")
    return f"sha256:{digest.hexdigest()}"


def _json(value: object) -> bytes:
    return _SORTED_ENCODER.encode(value).encode()


_SORTED_ENCODER = json.JSONEncoder(sort_keys=True)


def _to_digest(interaction: Interaction) -> bytes:
    """Return an interaction as JSON, with its bodies in base64."""
    request, response = interaction.request, interaction.response
    sent = _with_body([request.method, request.url, dict(request.headers)], request.body)
    if response is None:
        return b"[" + sent + b", null]"
    # Only if present: the checksums of older cassettes do not cover a delivery.
    delivered = stored_delivery(response.delivery)
    received = _with_body([response.status, dict(response.headers)], response.body, *[delivered] if delivered else [])
    return b"[" + sent + b", " + received + b"]"


def _with_body(head: list[Any], body: bytes, *tail: Any) -> bytes:
    """Serialise a list with a base64 body. The body bypasses the JSON encoder because base64 needs no escaping."""
    parts = [_json(head)[:-1], b', "', base64.b64encode(body), b'"', *(b", " + _json(each) for each in tail), b"]"]
    return b"".join(parts)
