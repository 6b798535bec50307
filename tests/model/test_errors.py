from __future__ import annotations

import re

import pytest

from harness.model import errors
from harness.model.errors import (
    CassetteError,
    ConnectionFailed,
    EmbeddingMismatch,
    ExpectedFailuresError,
    HarnessError,
    InvalidValue,
    IterationLimit,
    MalformedResponse,
    MissingDependency,
    MissingKey,
    OutdatedDependency,
    PluginError,
    ProviderError,
    ScenarioError,
    UnknownName,
    Unsupported,
    provider_error,
)

TEXTS: list[tuple[HarnessError, str]] = [
    (
        UnknownName("target", "gemini3", ["gemini-3", "anthropic"]),
        "unknown target 'gemini3'. Did you mean 'gemini-3'? Known: anthropic, gemini-3.",
    ),
    (
        UnknownName("rule", "zzz", ["call-missing"], "known.yaml:3"),
        "known.yaml:3: unknown rule 'zzz'. Known: call-missing.",
    ),
    (UnknownName("report", "zzz", []), "unknown report 'zzz'. Known: none."),
    (PluginError("adapter", "mine", "it is odd."), "the adapter 'mine' cannot be used: it is odd."),
    (
        MissingDependency("gemini", "google.genai", "gemini"),
        (
            "the adapter 'gemini' needs the package 'google.genai', which is not installed. "
            "Install it with: pip install 'toolcall-harness[gemini]' (in a checkout: pip install -e '.[gemini]')"
        ),
    ),
    (
        OutdatedDependency("openai-chat", "openai", "openai", "3.0", "2.54.0"),
        (
            "the adapter 'openai-chat' needs 'openai' 3.0 or newer, but version 2.54.0 is installed. Upgrade it "
            "with: pip install 'toolcall-harness[openai]' (in a checkout: pip install -e '.[openai]')"
        ),
    ),
    (
        MissingKey("gemini-3", ["GOOGLE_API_KEY", "GEMINI_API_KEY"]),
        (
            "the target 'gemini-3' needs a key to reach its provider: set GOOGLE_API_KEY or GEMINI_API_KEY, "
            "or work without a key: 'harness run --mode reference' or 'harness record --from reference'."
        ),
    ),
    (ScenarioError("a.yaml", "no."), "a.yaml: no."),
    (ScenarioError("a.yaml", "no.", 3, 7, "turns[0].user"), "a.yaml:3:7 at turns[0].user: no."),
    (ExpectedFailuresError("known.yaml", "no."), "known.yaml: no."),
    (ExpectedFailuresError("known.yaml", "no.", 3), "known.yaml:3: no."),
    (CassetteError("c.yaml", "cut."), "c.yaml: cut."),
    (CassetteError("c.yaml", "cut.", "line 4"), "c.yaml (line 4): cut."),
    (Unsupported("mine", "JSON mode", "no field"), "mine: JSON mode is not supported: no field"),
    (MalformedResponse("no choices"), "malformed response: no choices"),
    (ConnectionFailed("reset"), "connection failed: reset"),
    (ProviderError(429, "slow down", "rate_limit"), "HTTP 429 rate_limit: slow down"),
    (ProviderError(500, "oops"), "HTTP 500: oops"),
    (
        MissingKey("gemini", ["GEMINI_API_KEY", "GOOGLE_API_KEY"], is_target=False),
        "the provider 'gemini' needs a key: set GEMINI_API_KEY or GOOGLE_API_KEY.",
    ),
    (
        EmbeddingMismatch(("gemini", "gemini-embedding-2", 768), ("openai", "text-embedding-3-small", 1536)),
        (
            "these embeddings were made with 'gemini-embedding-2' of gemini (768 dimensions), and are now requested "
            "with 'text-embedding-3-small' of openai (1536 dimensions); vectors of the two cannot be compared. "
            "Go back to that model, or embed the texts again."
        ),
    ),
    (InvalidValue("Message.role", "'x' is no role."), "Message.role: 'x' is no role."),
    (IterationLimit(3), "the model still calls tools after 3 iterations"),
    (IterationLimit(3, paused=True), "the model has paused again after 3 iterations"),
]


@pytest.mark.parametrize(("error", "text"), TEXTS)
def test_texts(error: HarnessError, text: str) -> None:
    assert str(error) == text


STATUSES = {
    400: "InvalidRequest",
    401: "AuthenticationFailed",
    402: "BillingFailed",
    403: "PermissionDenied",
    404: "NotFound",
    408: "TimedOut",
    409: "Conflict",
    413: "RequestTooLarge",
    418: "InvalidRequest",
    422: "InvalidRequest",
    429: "RateLimited",
    500: "ServerError",
    502: "ServerError",
    503: "Overloaded",
    504: "TimedOut",
    529: "Overloaded",
    599: "ServerError",
}


@pytest.mark.parametrize(("status", "name"), STATUSES.items())
def test_every_status_has_its_error(status: int, name: str) -> None:
    error = provider_error(status, "text", code="c", retry_after=1.5)
    assert type(error).__name__ == name
    assert isinstance(error, ProviderError)
    assert (error.status, error.message, error.code, error.retry_after) == (status, "text", "c", 1.5)


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn: dict[str, str] = {}
    line_of: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)(\w+)(  .*)?$", line)
        if found and isinstance(getattr(errors, found[2], None), type):
            depth = len(found[1]) // 4
            line_of[depth:] = [found[2]]
            drawn[found[2]] = line_of[depth - 1] if depth else "Exception"
    real = {
        name: value.__bases__[0].__name__
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert drawn == real
