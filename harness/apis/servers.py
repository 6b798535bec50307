"""Servers that speak an API which is not their own, and the clouds: their names and where they are. Data.

Facts name them as their service. Local servers are told by their default port, where it is nobody else's.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

_LOCAL = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a request went: host in lower case, port if it was named, path."""

    host: str
    port: int | None
    path: str

    def is_below(self, host: str) -> bool:
        """Whether the host is this one, or one below it; of one that begins with a dash, whether it ends so."""
        return self.host == host or self.host.endswith(host if host.startswith("-") else f".{host}")


def address(url: str) -> Address:
    """The address of a URL; nowhere, of one that was scrubbed, as recordings have them."""
    try:
        parts = urlsplit(url)
        return Address((parts.hostname or "").lower(), parts.port, parts.path)
    except ValueError:
        return Address("", None, "")


@dataclass(frozen=True, slots=True)
class Server:
    """A server, or a family of them, by its name. `hosts` are host names, with all below them; `path` is how paths
    there begin where one host serves several APIs."""

    name: str
    hosts: tuple[str, ...]
    path: str = ""
    port: int | None = None

    def is_at(self, where: Address) -> bool:
        """Whether an address is one of the server's."""
        here = any(where.is_below(host) for host in self.hosts)
        return here and where.path.startswith(self.path) and self.port in (None, where.port)


SERVERS = (
    Server("bedrock", ("amazonaws.com", "api.aws")),
    Server("vertex", ("aiplatform.googleapis.com", "-aiplatform.googleapis.com")),
    Server("gemini-openai", ("generativelanguage.googleapis.com",), "/v1beta/openai"),
    Server("foundry", ("services.ai.azure.com",)),
    Server("github-models", ("models.github.ai", "models.inference.ai.azure.com")),
    Server("azure", ("azure.com",)),
    Server("copilot", ("githubcopilot.com",)),
    Server("codex", ("chatgpt.com",), "/backend-api"),
    Server("openrouter", ("openrouter.ai",)),
    Server("deepseek", ("api.deepseek.com",)),
    Server("moonshot", ("api.moonshot.ai", "api.moonshot.cn")),
    Server("kimi-coding", ("api.kimi.com",), "/coding"),
    Server("minimax", ("api.minimax.io", "api.minimaxi.com")),
    Server("zai", ("api.z.ai", "open.bigmodel.cn")),
    Server(
        "dashscope",
        ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com", "maas.aliyuncs.com"),
    ),
    Server("mistral", ("api.mistral.ai",)),
    Server("groq", ("api.groq.com",)),
    Server("cerebras", ("api.cerebras.ai",)),
    Server("xai", ("api.x.ai",)),
    Server("fireworks", ("api.fireworks.ai",)),
    Server("together", ("api.together.xyz", "api.together.ai")),
    Server("nvidia", ("integrate.api.nvidia.com",)),
    Server("huggingface", ("router.huggingface.co",)),
    Server("nous", ("inference-api.nousresearch.com",)),
    Server("ark", ("volces.com",)),
    Server("laozhang", ("api.laozhang.ai",)),
    Server("ollama", (*_LOCAL, "ollama.com"), port=11434),
    Server("lm-studio", _LOCAL, port=1234),
    Server("vllm", ()),
    Server("sglang", ()),
    Server("llama-cpp", ()),
)
"""In the order in which they are asked: what is below another host stands before it."""
