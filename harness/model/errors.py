"""The error tree. Errors carry data; `harness.cli` renders them.

HarnessError
├── UsageError                    the user's input has to change before anything can run (exit 2)
│   ├── UnknownName               an adapter, target, capability, rule or report that does not exist
│   ├── PluginError               an adapter, rule or report that cannot be loaded
│   ├── MissingDependency         the SDK of a chosen adapter is not installed
│   │   └── OutdatedDependency    the SDK is installed, but too old
│   ├── MissingKey                no API key in the environment for a provider
│   ├── FileError                 a file in strict YAML that cannot be read
│   │   ├── ScenarioError         a scenario
│   │   └── FactsError            facts
│   ├── ExpectedFailuresError     an expected-failures file that cannot be read
│   └── CassetteError             a cassette that cannot be read or written
│       ├── CassetteMissing       the cassette does not exist: inconclusive, never a pass
│       └── RecordingRefused      a recording that would replace a cassette to keep, or store a suspected secret
│           └── CassetteLocked    another process is recording the same cassette
├── ChatError                     a chat that did not end in a response
│   ├── Unsupported               the adapter declines before anything is sent
│   ├── MalformedResponse         the provider sent a response that cannot be read
│   ├── ConnectionFailed          no response arrived
│   └── ProviderError             the provider refused or failed
│       ├── InvalidRequest        400, 422 and other 4xx
│       ├── AuthenticationFailed  401
│       ├── BillingFailed         402
│       ├── PermissionDenied      403
│       ├── NotFound              404
│       ├── TimedOut              408, 504
│       ├── Conflict              409
│       ├── RequestTooLarge       413
│       ├── RateLimited           429
│       ├── Overloaded            503, 529
│       └── ServerError           other 5xx
├── InvalidValue                  an invalid argument for a class of `harness.model.messages`; also a `ValueError`
├── EmbeddingMismatch             vectors of two providers, models or lengths were about to be compared
├── IterationLimit                the tool loop reached its limit; the history is kept
└── ToolFailed                    a tool refused or failed; the model reads the text
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

DISTRIBUTION = "toolcall-harness"
"""Name of the distribution. The one named `harness` is an unrelated project."""


def install_command(extra: str) -> str:
    """Return the command that installs this package with `extra`."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


class HarnessError(Exception):
    """Root of every error that this package raises on purpose."""


class UsageError(HarnessError):
    """Invalid input from the user. `str(error)` is one paragraph with the problem, its place and a remedy."""


@dataclass
class UnknownName(UsageError):
    """An unknown name. `kind` is the kind of thing ("adapter", "capability"); `place` is where the name was found."""

    kind: str
    name: str
    known: Sequence[str]
    place: str | None = None

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        close = difflib.get_close_matches(self.name, self.known, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        known = ", ".join(sorted(self.known)) or "none"
        return f"{where}unknown {self.kind} {self.name!r}.{guess} Known: {known}."


@dataclass
class PluginError(UsageError):
    """A plug-in that cannot be used; `reason` is a sentence."""

    kind: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.name!r} cannot be used: {self.reason}"


@dataclass
class MissingDependency(UsageError):
    """An SDK that is not installed. `extra` is the pip extra that installs it."""

    adapter: str
    module: str
    extra: str

    def __str__(self) -> str:
        return (
            f"the adapter {self.adapter!r} needs the package {self.module!r}, which is not installed. "
            f"Install it with: {install_command(self.extra)} (in a checkout: pip install -e '.[{self.extra}]')"
        )


@dataclass
class OutdatedDependency(MissingDependency):
    """An SDK that is too old for its adapter: the `installed` version is lower than `at_least`."""

    at_least: str
    installed: str

    def __str__(self) -> str:
        return (
            f"the adapter {self.adapter!r} needs {self.module!r} {self.at_least} or newer, but version "
            f"{self.installed} is installed. Upgrade it with: {install_command(self.extra)} "
            f"(in a checkout: pip install -e '.[{self.extra}]')"
        )


@dataclass
class MissingKey(UsageError):
    """A missing API key. The error holds only names of variables, never a value.

    `target` is a target of a run if `is_target` is set, otherwise a provider of `harness.kit.factories`.
    """

    target: str
    variables: Sequence[str]
    is_target: bool = True

    def __str__(self) -> str:
        names = " or ".join(self.variables)
        if not self.is_target:
            return f"the provider {self.target!r} needs a key: set {names}."
        return (
            f"the target {self.target!r} needs a key to reach its provider: set {names}, "
            "or work without a key: 'harness run --mode reference' or 'harness record --from reference'."
        )


@dataclass
class FileError(UsageError):
    """A file in strict YAML that cannot be read. Lines and columns count from 1.

    `key` is the path of the key, if known. `what` names the kind of file; `form` is a sentence that describes its
    structure.
    """

    file: str
    reason: str
    line: int | None = None
    column: int | None = None
    key: str | None = None
    what: ClassVar[str] = "such a file"
    form: ClassVar[str] = ""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        at = f" at {self.key}" if self.key else ""
        return f"{place}{at}: {self.reason}"


class ScenarioError(FileError):
    """A scenario file that cannot be read."""

    what = "a scenario"
    form = "A scenario is one mapping with version, id, title, covers, turns."


class FactsError(FileError):
    """A file of facts that cannot be read."""

    what = "a file of facts"
    form = "A file of facts is one mapping with api and facts."


@dataclass
class ExpectedFailuresError(UsageError):
    """An expected-failures file that cannot be read."""

    file: str
    reason: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


@dataclass
class CassetteError(UsageError):
    """A cassette that cannot be read or written. `place` is a line or the index of an interaction, if known."""

    file: str
    reason: str
    place: str | None = None

    def __str__(self) -> str:
        at = f" ({self.place})" if self.place else ""
        return f"{self.file}{at}: {self.reason}"


class CassetteMissing(CassetteError):
    """A cassette that does not exist."""


class RecordingRefused(CassetteError):
    """A recording that would replace a cassette without `force`, or store a suspected secret."""


class CassetteLocked(RecordingRefused):
    """A cassette that another process is recording."""


class ChatError(HarnessError):
    """A chat that did not end in a response."""


RECOGNISED_CLIENT = "recognised client"
"""Adapter name in `Unsupported` for a client that was recognised by its methods. It has no wrapper, so its capabilities
are guesses.
"""


@dataclass
class Unsupported(ChatError):
    """A request that the adapter cannot express on its API, declined before anything is sent.

    Raised instead of dropping a setting silently, e.g. JSON mode together with tools on Gemini 2.x.
    """

    adapter: str
    feature: str
    reason: str

    def __str__(self) -> str:
        return f"{self.adapter}: {self.feature} is not supported: {self.reason}"


@dataclass
class MalformedResponse(ChatError):
    """A response that cannot be read: it is not JSON, has no choices, or is truncated."""

    reason: str
    status: int | None = None

    def __str__(self) -> str:
        return f"malformed response: {self.reason}"


@dataclass
class ConnectionFailed(ChatError):
    """No response: the connection was refused, reset, timed out or redirected. Adapters do not follow redirects."""

    reason: str

    def __str__(self) -> str:
        return f"connection failed: {self.reason}"


@dataclass
class ProviderError(ChatError):
    """An error reported by the provider.

    `status` is the HTTP status, `code` the provider's own machine-readable code and `message` its text. `retry_after`
    is the number of seconds to wait, if the provider stated it.
    """

    status: int
    message: str
    code: str | None = None
    retry_after: float | None = None

    def __str__(self) -> str:
        code = f" {self.code}" if self.code else ""
        return f"HTTP {self.status}{code}: {self.message}"


class InvalidRequest(ProviderError):
    """The request is invalid (400, 422, and other 4xx without a class of their own)."""


class AuthenticationFailed(ProviderError):
    """The key is missing or wrong (401)."""


class BillingFailed(ProviderError):
    """The account cannot pay (402)."""


class PermissionDenied(ProviderError):
    """The key does not have the permission (403)."""


class NotFound(ProviderError):
    """The model or path does not exist (404)."""


class TimedOut(ProviderError):
    """The provider timed out (408, 504)."""


class Conflict(ProviderError):
    """The request conflicts with another (409)."""


class RequestTooLarge(ProviderError):
    """The body is larger than the provider accepts (413)."""


class RateLimited(ProviderError):
    """Too many requests or tokens (429)."""


class Overloaded(ProviderError):
    """The provider has no capacity at the moment (503, 529)."""


class ServerError(ProviderError):
    """The provider failed (other 5xx)."""


_BY_STATUS: dict[int, type[ProviderError]] = {
    401: AuthenticationFailed,
    402: BillingFailed,
    403: PermissionDenied,
    404: NotFound,
    408: TimedOut,
    409: Conflict,
    413: RequestTooLarge,
    429: RateLimited,
    503: Overloaded,
    504: TimedOut,
    529: Overloaded,
}


def provider_error(
    status: int, message: str, *, code: str | None = None, retry_after: float | None = None
) -> ProviderError:
    """Return the `ProviderError` of the class for an HTTP status."""
    fallback = ServerError if status >= 500 else InvalidRequest
    return _BY_STATUS.get(status, fallback)(status, message, code, retry_after)


@dataclass
class InvalidValue(HarnessError, ValueError):
    """An invalid argument for a class of `harness.model.messages`.

    The constructor raises it, so the traceback shows the caller. `place` names the field; `reason` states the argument
    and the allowed values.
    """

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass
class EmbeddingMismatch(HarnessError):
    """A comparison of vectors from two providers, models or lengths, which would be meaningless.

    `used` describes the source of the stored vectors and `current` the source of the new ones, each as (provider,
    model, dimensions).
    """

    used: tuple[str, str, int]
    current: tuple[str, str, int]

    def __str__(self) -> str:
        used, current = (
            f"{model!r} of {provider} ({size} dimensions)" for provider, model, size in (self.used, self.current)
        )
        return (
            f"these embeddings were made with {used}, and are now requested with {current}; vectors of the two cannot "
            "be compared. Go back to that model, or embed the texts again."
        )


@dataclass
class IterationLimit(HarnessError):
    """A tool loop that did not finish within `limit` responses in one turn. The last response calls tools or, if
    `paused` is set, pauses the turn.
    """

    limit: int
    paused: bool = False

    def __str__(self) -> str:
        what = "has paused again" if self.paused else "still calls tools"
        return f"the model {what} after {self.limit} iterations"


class ToolFailed(HarnessError):
    """A failed tool of `harness.kit.workspace` or of a conversation (`harness.model.protocols`).

    `str(error)` is the reason, which the model may read. It does not contain paths outside the workspace.
    """
