"""What every wire package exports as `WIRE`: one API's format as pure functions on JSON and bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.http import HttpRequest, HttpResponse
from harness.model import JSON
from harness.profiles import Profile
from harness.wire.embedding import EmbeddingFormat
from harness.wire.law import Law, Services
from harness.wire.limit import Limit, Violation
from harness.wire.view import ModelStep, RequestView, ResponseView


@dataclass(frozen=True, slots=True)
class WireFormat:
    """One API.

    `base_path`: what its SDK's base URL has behind the origin (`/v1` or nothing).
    `key_variables`: the environment variables that hold a key, in order of precedence.
    `provider_url`: base URL of the provider itself, as the SDK takes it.
    `domain`: the provider's own, with all hosts below it.
    `base_url_ending`: how the base URL of another server ends that speaks it (`/v1`, or nothing where the SDK adds it).
    `services`: who serves it, and so whose rules a request is held to.
    `limits`: the table of everything that can be violated, of its embeddings too.
    `recognises(request)`: the request is a chat of this API, by path and body.
    `view(request)`: the neutral view; raises `WireError`.
    `violations(request, law)`: what is refused or taken with a loss. Never raises: an unreadable body is one.
    `read(response)`: the neutral view of a response, an event stream folded; raises `WireError`.
    `build(step, seed, model, profile)`: the body of a response. Ids, usage and signatures are functions of `seed`.
    `build_stream(step, seed, model, profile, request)`: the same answer as a stream, in the form that `request` asks
    for: `read` folds it to what `build` says.
    `stream_of(body, seed, profile, request)`: any whole body, told as the stream that folds to it.
    `refuse(violation)`: the provider's refusal, in its own status and shape.
    `fail(status, retry_after, seed)`: the provider's failure of this status, in its own shape; it asks to wait
    `retry_after` seconds.
    `error_for(response, request)`: a refusal or a failure, as it comes to this request.
    `stream_error(status, seed, request)`: what the provider writes into a stream, in the form that `request` asks for,
    where it would have failed with `status` before the first byte.
    `model_of(request)`: the model that the request names, by body or path.
    `misheaded(request)`: what is wrong with the headers of a request that has them.
    `embeddings`: the format of its embeddings, if it has any.
    `address_variable`: the environment variable by which a command is sent elsewhere.
    """

    api: str
    base_path: str
    key_variables: tuple[str, ...]
    provider_url: str
    domain: str
    base_url_ending: str
    services: Services
    limits: tuple[Limit, ...]
    recognises: Callable[[HttpRequest], bool]
    view: Callable[[HttpRequest], RequestView]
    violations: Callable[[HttpRequest, Law], list[Violation]]
    read: Callable[[HttpResponse], ResponseView]
    build: Callable[[ModelStep, str, str, Profile], dict[str, JSON]]
    build_stream: Callable[[ModelStep, str, str, Profile, RequestView], HttpResponse]
    stream_of: Callable[[dict[str, JSON], str, Profile, RequestView], HttpResponse]
    refuse: Callable[[Violation], HttpResponse]
    fail: Callable[[int, float | None, str], HttpResponse]
    stream_error: Callable[[int, str, RequestView], bytes]
    model_of: Callable[[HttpRequest], str | None]
    error_for: Callable[[HttpResponse, HttpRequest], HttpResponse] = lambda response, _request: response
    misheaded: Callable[[HttpRequest], Violation | None] = lambda _request: None
    embeddings: EmbeddingFormat | None = None
    address_variable: str | None = None

    def is_provider(self, url: str) -> bool:
        """Whether a URL leads to the provider itself, and not to whatever else speaks its API."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
        except ValueError:  # an address that was scrubbed, as recordings have them
            return False
        return url == self.provider_url or (
            parts.scheme == "https" and (host == self.domain or host.endswith(f".{self.domain}"))
        )
