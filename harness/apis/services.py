"""Services that serve an API, and the rules that each applies to a request.

The format of an API applies at every server. Further rules of the provider (a closed list of fields, the strict subset
of schemas, rules per model) do not apply at compatible servers. No check reads an address: the rule set is chosen here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.apis.profiles import Profile

OWN = "own"
"""The service of the API's own provider."""

OTHER = "other"
"""An unknown service that speaks the API."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a service for a model.

    `service` is `OWN`, `OTHER`, or the name of a known server. `profile` is the profile of the model. `as_own`: the
    service applies the rules of the API's provider, and its own.
    """

    profile: Profile
    service: str = OWN
    as_own: bool = False

    @property
    def is_own(self) -> bool:
        """Return whether the rules of the API's provider apply."""
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
    server with one of the models in `stand_ins` is a test double of the provider.
    """

    hosts: Mapping[str, str]
    models: str = r".*"
    stand_ins: str = ""
    clouds: frozenset[str] = frozenset()

    def provider_rules(self, profile: Profile, model: str) -> RuleSet:
        """Return the rules of the reference server, which replaces the API's provider.

        A profile with a dialect gets the rules of that compatible server. A model that the provider does not serve gets
        those of an unknown service.
        """
        return self.rules_of(profile, profile.dialect or self._for(model, OWN))

    def rules_at(self, profile: Profile, model: str, url: str) -> RuleSet:
        """Return the rules at an address. A model of another provider is at an unknown service."""
        return self.rules_of(profile, self._for(model, self._service_at(url)))

    def is_test_double(self, model: str, url: str) -> bool:
        """Return whether a local server replaces the provider, judged by its model."""
        return address(url).host in _LOOPBACK and re.fullmatch(self.stand_ins, model) is not None

    def rules_of(self, profile: Profile, service: str) -> RuleSet:
        """Return the rules of a service by its name."""
        return RuleSet(profile, service, service in self.clouds)

    def _service_at(self, url: str) -> str:
        at = address(url)
        for host, service in self.hosts.items():
            if at.is_below(host):
                return service
        return next((server.name for server in SERVERS if server.is_at(at)), OTHER)

    def _for(self, model: str, service: str) -> str:
        foreign = bool(model) and re.fullmatch(self.models, model) is None
        return OTHER if service == OWN and foreign else service


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
    if one host serves several APIs."""

    name: str
    hosts: tuple[str, ...]
    path: str = ""
    port: int | None = None

    def is_at(self, where: ServerAddress) -> bool:
        """Return whether an address is one of this server."""
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
    KnownServer("together", ("api.together.xyz", "api.together.ai")),
    KnownServer("nvidia", ("integrate.api.nvidia.com",)),
    KnownServer("huggingface", ("router.huggingface.co",)),
    KnownServer("nous", ("inference-api.nousresearch.com",)),
    KnownServer("ark", ("volces.com",)),
    KnownServer("laozhang", ("api.laozhang.ai",)),
    KnownServer("ollama", ("ollama.com",)),
    KnownServer("ollama", _LOCAL, port=11434),
    KnownServer("lm-studio", _LOCAL, port=1234),
    KnownServer("vllm", ()),
    KnownServer("sglang", ()),
    KnownServer("llama-cpp", ()),
)
"""Compatible servers and clouds, in the order of lookup: a subdomain comes before its parent domain.

Facts use their names in `service`. Local servers are recognised by their default port, if no other server uses it.
"""
