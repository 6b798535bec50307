"""Model profiles, traits and terms of an API, and the opaque state that its provider issued. Also the servers that
offer the API: the provider's own, clouds, and the compatible servers of `servers.yaml`.

The format rules of an API apply at every server. The provider's other rules (a closed list of fields, the strict subset
of schemas, rules per model) do not apply at compatible servers. Checks never look at a server's address: this module
chooses the rule set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import Field

from harness.apis.fact import ChangedPrefix, Day, Fact, Mechanism, ProfileChanges, Ruling, ThinkingControl
from harness.apis.jsonvalue import parsed_object
from harness.apis.limits import Violation
from harness.apis.prefix import BoundThoughts, PrefixMismatch
from harness.apis.view import ProviderReport, RequestView, ResponseView
from harness.documents.document import read
from harness.documents.strict_models import Strict
from harness.model.errors import FactsError
from harness.model.http import HttpRequest
from harness.model.protocols import Capability

OWN = "own"
"""The service of the API's own provider."""

OTHER = "other"
"""An unknown service that speaks the API."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a service for a model.

    `service` is `OWN`, `OTHER`, or the name of a known server. `profile` is the profile of the model. If `as_own` is
    set, the service applies the rules of the API's provider in addition to its own.
    """

    profile: Profile
    service: str = OWN
    as_own: bool = False

    @property
    def is_own(self) -> bool:
        """True if the rules of the API's own provider apply, at the provider itself or at a service that shares its
        rules.
        """
        return self.service == OWN or self.as_own

    @property
    def services(self) -> frozenset[str]:
        """The services whose facts apply."""
        return frozenset({self.service, OWN} if self.is_own else {self.service})


_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Services:
    """Servers of an API.

    `hosts` maps host names, including their subdomains, to services. It has precedence over `SERVERS`. `clouds` are
    services that apply the provider's own rules. `models` is a pattern of the models that the provider serves. A local
    server with one of the models in `stand_ins` is a test double of the provider. `cloud_names` is a pattern of the
    names that clouds give to the models; its group is the provider's name.
    """

    hosts: Mapping[str, str]
    models: str = r".*"
    stand_ins: str = ""
    clouds: frozenset[str] = frozenset()
    cloud_names: str = ""

    def bare_name(self, model: str) -> str:
        """Return the provider's name for a model, without the prefix and the version suffix that a cloud adds."""
        bare = model.removeprefix("models/")
        named = re.fullmatch(self.cloud_names, bare) if self.cloud_names else None
        return named[1].replace("@", "-") if named else bare

    def provider_rules(self, profile: Profile, model: str) -> RuleSet:
        """Return the rules of the reference server, which replaces the API's provider.

        A profile with a dialect gets the rules of that compatible server. A model that the provider does not serve gets
        those of an unknown service.
        """
        return self.rules_of(profile, profile.dialect or self._for(model, OWN), model)

    def rules_at(self, profile: Profile, model: str, url: str, response: bytes = b"") -> RuleSet:
        """Return the rules of the service at an address. At the provider's own address, other providers' models get the
        rules of an unknown service. If the address is unknown, the body of a response may identify the server.
        """
        service = self._for(model, self._service_at(url))
        if service == OTHER and response:
            service = next((each.name for each in SERVERS if each.marks and re.search(each.marks, response)), OTHER)
        return self.rules_of(profile, service, model)

    def is_test_double(self, model: str, url: str) -> bool:
        """Return whether the URL belongs to a local test double of the provider, recognised by the model's name."""
        return address(url).host in _LOOPBACK and re.fullmatch(self.stand_ins, model) is not None

    def rules_of(self, profile: Profile, service: str, model: str = "") -> RuleSet:
        """Return the rules of a service by its name. A cloud applies the provider's rules to the provider's models."""
        return RuleSet(profile, service, service in self.clouds and not self._is_foreign(model))

    def _service_at(self, url: str) -> str:
        at = address(url)
        for host, service in self.hosts.items():
            if at.is_below(host):
                return service
        return next((server.name for server in SERVERS if server.is_at(at)), OTHER)

    def _for(self, model: str, service: str) -> str:
        return OTHER if service == OWN and self._is_foreign(model) else service

    def _is_foreign(self, model: str) -> bool:
        return bool(model) and re.fullmatch(self.models, model) is None


_LOCAL = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Host in lower case, explicit port, and path of a request."""

    host: str
    port: int | None
    path: str

    def is_below(self, host: str) -> bool:
        """Return whether the address has this host or a subdomain of it. If `host` begins with a dash, it matches any
        host name that ends with it.
        """
        return self.host == host or self.host.endswith(host if host.startswith("-") else f".{host}")


def address(url: str) -> ServerAddress:
    """Return the address of a URL. It is empty for an invalid URL, as in redacted recordings."""
    try:
        parts = urlsplit(url)
        return ServerAddress((parts.hostname or "").lower(), parts.port, parts.path)
    except ValueError:
        return ServerAddress("", None, "")


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A server or a family of servers. `hosts` are host names, including subdomains. `path` is the start of its paths,
    if one host serves several APIs. `marks` is a pattern that only its responses contain."""

    name: str
    hosts: tuple[str, ...]
    path: str = ""
    port: int | None = None
    marks: bytes = b""

    def is_at(self, where: ServerAddress) -> bool:
        """Return whether an address belongs to this server."""
        here = any(where.is_below(host) for host in self.hosts)
        return here and where.path.startswith(self.path) and self.port in (None, where.port)


SERVERS = (
    KnownServer("bedrock", ("amazonaws.com", "api.aws")),
    KnownServer("vertex", ("aiplatform.googleapis.com", "-aiplatform.googleapis.com")),
    KnownServer("gemini-openai", ("generativelanguage.googleapis.com",), "/v1beta/openai"),
    KnownServer("foundry", ("services.ai.azure.com",)),
    KnownServer("github-models", ("models.github.ai", "models.inference.ai.azure.com")),
    KnownServer("azure", ("azure.com",)),
    KnownServer("copilot", ("githubcopilot.com",)),
    KnownServer("codex", ("chatgpt.com",), "/backend-api"),
    KnownServer("openrouter", ("openrouter.ai",)),
    KnownServer("deepseek", ("api.deepseek.com",)),
    KnownServer("moonshot", ("api.moonshot.ai", "api.moonshot.cn")),
    KnownServer("kimi-coding", ("api.kimi.com",), "/coding"),
    KnownServer("minimax", ("api.minimax.io", "api.minimaxi.com")),
    KnownServer("zai", ("api.z.ai", "open.bigmodel.cn")),
    KnownServer(
        "dashscope",
        ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com", "maas.aliyuncs.com"),
    ),
    KnownServer("mistral", ("api.mistral.ai",)),
    KnownServer("groq", ("api.groq.com",)),
    KnownServer("cerebras", ("api.cerebras.ai",)),
    KnownServer("xai", ("api.x.ai",)),
    KnownServer("fireworks", ("api.fireworks.ai",)),
    KnownServer("together", ("together.xyz", "together.ai")),
    KnownServer("nvidia", ("integrate.api.nvidia.com",)),
    KnownServer("huggingface", ("router.huggingface.co",)),
    KnownServer("nous", ("inference-api.nousresearch.com",)),
    KnownServer("ark", ("volces.com",)),
    KnownServer("laozhang", ("api.laozhang.ai",)),
    KnownServer("ollama", ("ollama.com",)),
    KnownServer("ollama", _LOCAL, port=11434, marks=rb'"system_fingerprint": ?"fp_ollama"'),
    KnownServer("lm-studio", _LOCAL, port=1234),
    KnownServer("sglang", _LOCAL, port=30000, marks=rb'"matched_stop":'),
    KnownServer("vllm", (), marks=rb'"(?:kv_transfer_params|prompt_logprobs|input_messages)":|"BadRequestError"'),
    KnownServer("llama-cpp", (), marks=rb'"system_fingerprint": ?"b\d+-[0-9a-f]+"|"timings": ?\{[^{}]*"prompt_n":'),
)
"""Compatible servers and clouds, in the order of lookup: a subdomain comes before its parent domain.

Facts use their names in `service`. Local servers are recognised by their default port, if no other server uses it, or
by their responses.
"""


Sampling = Literal["any", "default", "refused", "unclear"]
"""Accepted values of temperature and similar settings: any, only the default, or none. `unclear` means that a refusal
is not certain.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """Capabilities of the models of an API whose full name matches the pattern `models`.

    A profile is data, not code. The first matching profile of an API applies. The last one matches every name and
    claims little, so that nothing is refused for an unknown model. Facts change profiles.

    `call_ids`: the API issues ids for tool calls (`None`: only in some responses).

    `prefill`: whether a request may end with an assistant turn (anthropic-no-prefill, gemini-no-model-turn-last).

    `sampling`: accepted values of temperature and similar settings (openai-chat-max-completion-tokens,
    anthropic-default-sampling-only, openai-responses-no-temperature).

    `system_in_messages`: whether a system turn may occur in the middle of the conversation
    (anthropic-system-in-messages, anthropic-system-not-first, anthropic-system-directive,
    anthropic-sonnet-5-system-role, anthropic-system-role-unknown).

    `thought_signatures`: whether calls have signatures, and whether they must be sent back (gemini-thought-signature).

    `thinking`: the setting that controls reasoning (anthropic-thinking-form, gemini-level-or-budget).

    `thinking_types`: whether each type of thinking is accepted (anthropic-no-thinking-budget,
    anthropic-fable-always-thinks, anthropic-opus-5-5-always-thinks, anthropic-sonnet-5-5-always-thinks), or each level
    (gemini-no-levels, gemini-no-minimal-level).

    `thinking_up_to_high`: types of thinking that are refused with an effort above high
    (anthropic-opus-5-disabled-up-to-high, anthropic-between-tools-up-to-high, anthropic-haiku-5-5-thinking).

    `tool_types`: whether each version of the provider's own tools is accepted at the provider's own service
    (anthropic-old-computer-tool).

    `tools_want_no_reasoning`: function tools are refused unless reasoning is off (openai-chat-tools-want-no-reasoning).

    `tools_want_effort_none`: function tools are refused if the request has no effort
    (openai-chat-tools-want-effort-none).

    `reasons_by_default`: the model reasons unless the request disables it (openai-chat-tools-want-no-reasoning).

    `strict_requests`: the provider's servers refuse unknown parameters and ids that are not in their own format
    (openai-responses-input, openai-responses-call-form).

    `results_adjacent`: no message may come between a call and its result. This is unverified for OpenAI. DeepSeek's
    Responses endpoint refuses it (a recorded 400, and the reports in ranxianglei/billion-context#766).

    `trailing_places`: places of system text that the provider adds after the conversation
    (openai-responses-gpt-6-2-instructions-last).

    `reply_after_results`: an assistant message must come between tool results and the user's next message
    (openai-chat-mistral-user-after-tool).

    `strict_pairing`: all results of a step must be in one turn and have the names of their calls
    (gemini-function-response-form, gemini-responses-counted).

    `mixed_tools`: whether a server tool may be combined with functions at the Developer API without the setting that
    permits it (gemini-mixed-tools-refused).

    `json_mode`, `json_schema`, `json_with_tools`: availability of each (anthropic-output-format, openai-chat-word-json,
    openai-responses-word-json, gemini-json-output).

    `lacks`: capabilities that no adapter has with these models: tools on Chat (openai-chat-tools-want-no-reasoning), a
    forced choice (anthropic-no-forced-choice).

    `changed_prefix`: treatment of reasoning that is sent back after a changed prefix. The request is refused, or it is
    refused for accounts that opted in or were created recently (anthropic-thinking-bound-to-prefix,
    anthropic-fable-5-2-prefix-check-every-account), or the reasoning is dropped
    (openai-responses-gpt-6-2-reasoning-dropped). `None` means that only the prompt cache is lost.

    `prefix_settings`: pointers to settings that belong to the prefix (openai-responses-gpt-6-2-reasoning-dropped).

    `first_thoughts_may_leave`: the first reasoning of a conversation may be left out without changing the prefix of the
    rest (anthropic-first-thinking-may-leave).

    `facts`: all facts about the model on the selected day, at any service.

    `dialect`: name of the dialect of a compatible server that the reference server imitates.
    """

    name: str
    models: str
    call_ids: bool | None = True
    prefill: Ruling | None = "taken"
    sampling: Sampling = "any"
    system_in_messages: Ruling | None = None
    thought_signatures: Literal["required", "optional", "none"] = "none"
    thinking: ThinkingControl = "none"
    thinking_types: Mapping[str, Ruling] = field(default_factory=dict[str, Ruling])
    thinking_up_to_high: frozenset[str] = frozenset()
    tool_types: Mapping[str, Ruling] = field(default_factory=dict[str, Ruling])
    tools_want_no_reasoning: bool = False
    tools_want_effort_none: bool = False
    reasons_by_default: bool = False
    strict_requests: bool = False
    results_adjacent: bool = False
    trailing_places: frozenset[str] = frozenset()
    reply_after_results: bool = False
    strict_pairing: bool = False
    mixed_tools: Ruling | None = None
    json_mode: Mechanism = "native"
    json_schema: Mechanism = "native"
    json_with_tools: Mechanism = "native"
    lacks: frozenset[Capability] = frozenset()
    changed_prefix: ChangedPrefix | None = None
    prefix_settings: frozenset[str] = frozenset()
    first_thoughts_may_leave: bool = False
    dialect: str | None = None
    facts: tuple[Fact, ...] = field(default=(), compare=False, repr=False)


def matching(profiles: Sequence[Profile], model: str) -> Profile:
    """Return the profile of a model. Gemini's prefix `models/` is ignored."""
    bare = model.removeprefix("models/")
    return next(profile for profile in profiles if re.fullmatch(profile.models, bare, re.DOTALL))


def derive_profile(generation: Profile, facts: Sequence[Fact]) -> Profile:
    """Return a generation's profile with the changes that facts make to it. Later facts override earlier ones.

    If a fact is uncertain, its `refused` and `default` become `unclear`.
    """
    found: dict[str, Any] = {}
    for fact in facts:
        for name in fact.profile.model_fields_set if fact.profile else ():
            value: Any = getattr(fact.profile, name)
            before = found.get(name, getattr(generation, name))
            found[name] = _merge(before, value, certain=fact.is_certain)
    return replace(generation, facts=tuple(facts), **found)


def _merge(before: Any, value: Any, *, certain: bool) -> Any:
    if isinstance(value, list):
        return frozenset[Any](before).union(cast("list[Any]", value))
    if isinstance(value, dict):
        new = cast("dict[str, Any]", value)
        return {**before, **{key: _ruling(each, certain=certain) for key, each in new.items()}}
    return _ruling(value, certain=certain)


def _ruling(value: Any, *, certain: bool) -> Any:
    return "unclear" if not certain and value in ("refused", "default") else value


@dataclass(frozen=True, slots=True)
class ShippedTarget:
    """A built-in target. Its adapter is not loaded.

    `service` is set for a target of a compatible server: the rules of this service apply, and there are no recordings.
    `profile` has the fields in which the model's profile differs at this server. `url` and `keys` replace the address
    and the key variables of the API's provider.
    """

    name: str
    adapter: str
    api: str
    model: str
    service: str | None = None
    profile: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    url: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiTerms:
    """Terms of one API that replace placeholders in remedies. The defaults fit any API.

    `results` is the location of a turn's results. `failed` marks the result of a failed tool. `state` is the state that
    must be sent back unchanged. `end` marks the end of a complete stream.
    """

    system: str = "the field of the API that is made for it"
    call: str = "a call"
    call_id: str = "the id of the call"
    arguments: str = "the arguments of the call"
    result: str = "a result"
    result_id: str = "the result's field for the id"
    results: str = "the turn right after the calls"
    failed: str = "the error message"
    tools: str = "the tool declarations"
    parameters: str = "the schema of the tool's parameters"
    choice: str = "the field for the tool choice"
    json: str = "the API's field for JSON output"
    state: str = "the opaque state of the answer"
    stop: str = "the stop reason"
    usage: str = "the token counts"
    stream: str = "the API's field for streaming"
    end: str = "the event that ends the stream"

    def fill(self, remedy: str) -> str:
        """Replace placeholders such as `{system}` in a remedy by this API's terms."""
        return remedy.format_map(asdict(self)) if "{" in remedy else remedy


Framing: TypeAlias = Literal["byte-order-mark", "comments"]
"""Legal contents of an event stream besides its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties in which an API differs from the others.

    `calls_apart`: a message has separate fields for its text and its calls, without an order between them.

    `flags_errors`: a result has a field that marks a failed tool. In the other APIs the model gets only the error's
    text.

    `ids_optional`: a call may be sent back without an id. The other APIs refuse it (anthropic-call-fields,
    openai-chat-call-form, openai-responses-call-form).

    `one_turn_for_results`: results of parallel calls should be in one turn. If they are spread over several turns, the
    API accepts them, but the model learns not to call tools in parallel. The other APIs refuse this
    (gemini-responses-counted), or each result is a separate entry.

    `stop_reason_may_end`: the official SDK accepts a stream that has a stop reason but lacks its last event
    (anthropic-stream-cut-unnoticed).

    `counts_when_asked`: a stream reports its token counts only on request (openai-chat-stream-usage).

    `schema_by_tool`: released libraries request a JSON schema by forcing a tool call.

    `files_are_pdf`: files in user messages must be PDF; the text of other files is sent as a text part
    (openai-chat-file-inline-pdf).

    `strict_by_default`: a tool without `strict` is strict if its schema permits it (openai-responses-strict-default).

    `unread_framings`: framings that occur in no recorded stream and that the official SDK cannot read.
    """

    calls_apart: bool = False
    flags_errors: bool = False
    ids_optional: bool = False
    one_turn_for_results: bool = False
    stop_reason_may_end: bool = False
    counts_when_asked: bool = False
    schema_by_tool: bool = False
    files_are_pdf: bool = False
    strict_by_default: bool = False
    unread_framings: frozenset[Framing] = frozenset()


class IssuedState:
    """The opaque state that an API has issued in one conversation. This base class accepts every request.

    `foreign` is set if the conversation begins with a history, which may contain state that was not issued in this
    conversation. `profile` is the profile of the model. `mismatches` lists the reasoning in the last request whose
    prefix has changed since it was issued. It stays empty if the profile has no `changed_prefix`.
    """

    def __init__(self, *, foreign: bool, profile: Profile | None = None) -> None:
        self.foreign = foreign
        self.profile = profile
        self.mismatches: list[PrefixMismatch] = []
        self._bound = BoundThoughts()

    def receive(self, request: RequestView, sent: HttpRequest) -> None:
        """Check the reasoning in a request. Reasoning whose prefix has changed since it was issued is stored in
        `mismatches`.
        """
        profile = self.profile
        if profile is not None and profile.changed_prefix is not None:
            self.mismatches = self._bound.receive(
                request,
                parsed_object(sent.body),
                settings=profile.prefix_settings,
                trailing=profile.trailing_places,
                may_leave=profile.first_thoughts_may_leave,
            )

    def note(self, response: ResponseView) -> None:
        """Record the state in a response to the last request."""
        self._bound.issue(response.parts)

    def objection(self, request: RequestView) -> Violation | None:  # noqa: ARG002 - others look at it
        """Return a violation if a request sends issued state back in altered form."""
        return None

    def reports(self) -> tuple[ProviderReport, ...]:
        """Return the reports on the last request that the next response contains, such as dropped reasoning or a cache
        miss.
        """
        return ()


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
    profile: ProfileChanges = Field(default_factory=ProfileChanges)
    dialect: dict[str, Any] = Field(default_factory=dict[str, Any])
    recorded: StreamRecording | None = None

    @property
    def has_refusals(self) -> bool:
        """Return whether the server's messages have a field for refusals."""
        return "message.refusal" not in self.dialect.get("without", ())


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


def server_of(api: str, service: str | None) -> Server | None:
    """Return the server that speaks an API as a service, or `None` if no server is known by that name."""
    return next((each for each in servers_of(api) if each.service == service), None)


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
