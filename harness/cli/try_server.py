"""The part of `harness try` that checks a server or a gateway."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import typer

from harness.apis.response_rules import RESPONSE_RULES
from harness.cli.check import EndpointOptions, GatewayOptions, ServerOptions
from harness.cli.outputs import private_run_file
from harness.model.errors import UsageError

if TYPE_CHECKING:
    from harness.cli.check_gateway import GatewayProbe

T = TypeVar("T", bound=EndpointOptions)


def try_server(url: str, api: str, models: Sequence[str]) -> int:
    """Check a server with a sample of the checks, or a gateway whose upstream is the port of harness.

    Raises:
        UsageError: it lists no models and none is named, or it is a gateway that cannot reach its provider.
    """
    from harness.cli.check_gateway import probe_gateway  # noqa: PLC0415 - only servers need it
    from harness.cli.check_server import check_server, first_model  # noqa: PLC0415 - the same

    model = models[0] if models else first_model(url)
    probe = probe_gateway(url, model or _ASSUMED_MODEL, _UPSTREAM_PORT) if api == "openai-chat" else None
    if probe is not None and probe.upstream is not None:
        return _try_gateway(url, api, model, probe)
    if probe is not None and probe.failure:
        raise UsageError(_GATEWAY_QUESTION.format(url=url, failure=probe.failure, port=_UPSTREAM_PORT))
    if model is None:
        versioned = f"{url.rstrip('/')}/v1"
        if not url.rstrip("/").endswith("/v1") and first_model(versioned) is not None:
            raise UsageError(f"{url}: it lists no models there, but at {versioned}. Try: harness try {versioned}")
        raise UsageError(f"{url}: it lists no models at {url.rstrip('/')}/models. Name one, as in --model llama-4-8b.")
    typer.echo(f"{url}: recognised as a server of {api} with the model {model}. Otherwise: --api NAME, --model NAME.")
    if api == "openai-chat":
        typer.echo(_GATEWAY_HINT.format(port=_UPSTREAM_PORT))
    options = ServerOptions(url=url, api=api, models=[model], only=[*_SERVER_SAMPLE, *RESPONSE_RULES])
    code = check_server(_with_saved_run(options))
    typer.echo(f"More: {shlex.join(['harness', 'check', 'server', url, '--api', api, '--model', model])}")
    return code


def _try_gateway(url: str, api: str, model: str | None, probe: GatewayProbe) -> int:
    """Check a gateway whose upstream is the port of harness. Without a model, its client requests that of harness."""
    from harness.cli.check_gateway import check_gateway  # noqa: PLC0415 - only servers need it

    upstream = str(probe.upstream)
    typer.echo(f"{url}: recognised as a gateway from {api} to {upstream}, which requests 127.0.0.1:{_UPSTREAM_PORT}.")
    is_named = model is not None or probe.model != _ASSUMED_MODEL
    options = GatewayOptions(
        url=url,
        api=api,
        upstreams=[upstream],
        upstream_port=_UPSTREAM_PORT,
        models=[model or _ASSUMED_MODEL] if is_named else None,
        upstream_models=[str(probe.model)] if is_named and probe.model else None,
    )
    code = check_gateway(_with_saved_run(options))
    words = ["harness", "check", "gateway", url, "--api", api, "--upstream", upstream]
    words += ["--upstream-port", str(_UPSTREAM_PORT)]
    words += [word for each in options.models or () for word in ("--model", each)]
    words += [word for each in options.upstream_models or () for word in ("--upstream-model", each)]
    typer.echo(f"More: {shlex.join(words)}")
    return code


def _with_saved_run(options: T) -> T:
    """Return the options of a check that prints the worst defects and saves the run for `harness reproduce`."""
    file = private_run_file()
    return replace(options, reports=["worst", f"json:{file}"], show=("harness", "reproduce", "--from", file))


_UPSTREAM_PORT = 8791
"""Port on 127.0.0.1 where a gateway is expected to send its requests."""

_ASSUMED_MODEL = "gpt-4.1-mini"
"""Model to request from a gateway that lists none."""

_GATEWAY_HINT = (
    "If it is a gateway, start it with http://127.0.0.1:{port} (OpenAI: .../v1) as its provider's base URL, and try "
    "again."
)

_SERVER_SAMPLE = (
    *("server-text", "server-length", "server-same-calls", "server-call", "server-parallel", "server-escapes"),
    *("server-choice-required", "server-choice-none", "server-json-mode", "server-json-schema", "server-system"),
    *("server-history", "server-stop-sequence", "server-error-model", "server-error-json"),
)
"""Ids of the checks of a server. They send about 40 requests."""

_GATEWAY_QUESTION = (
    "{url}: a simple request results in {failure}. Is it a gateway that cannot reach its provider? Start it with "
    "http://127.0.0.1:{port}/v1 (OpenAI) or http://127.0.0.1:{port} (others) as its provider's base URL, for example "
    "in OPENAI_BASE_URL. Then: harness try {url}"
)
