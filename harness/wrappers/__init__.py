"""Ready-made adapters and loops for third-party libraries. Each module wraps one library and imports it.

`WRAPPERS` describes the modules without importing them. See `harness help wrappers`.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from harness.model.errors import PluginError, UnknownName

APIS = {
    "OPENAI": "openai-chat",
    "RESPONSES": "openai-responses",
    "ANTHROPIC": "anthropic",
    "GEMINI": "gemini",
}
"""Maps the attributes of wrapper modules to the API of the adapter or loop that they hold."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A module of this package, described without importing it.

    - `library` is its name for users, as in `harness check litellm`.
    - `tried` lists the distributions to install, with the range of versions that were tried.
    - `imports` maps each attribute of the module to the packages that it imports. The first attribute is the default.
    """

    library: str
    kind: Literal["adapter", "loop"]
    tried: tuple[str, ...]
    imports: Mapping[str, tuple[str, ...]]

    @property
    def module(self) -> str:
        """Full name of the module."""
        return f"{__name__}.{self.library.replace('-', '_')}"

    @property
    def adapters(self) -> dict[str, str]:
        """Names of the adapters or loops, with their attributes, as in `litellm-anthropic` → `ANTHROPIC`."""
        return {f"{self.library}-{attribute.lower()}": attribute for attribute in self.imports}

    @property
    def installed(self) -> dict[str, str]:
        """Installed distributions with their versions; empty if no adapter can be used."""
        names = self.distributions if self.is_usable else ()
        return {name: number for name in names if (number := self.version(name)) is not None}

    @property
    def is_usable(self) -> bool:
        """True if everything that one of the adapters imports is installed."""
        return any(not self.missing(attribute) for attribute in self.imports)

    @property
    def distributions(self) -> list[str]:
        """Names of the distributions to install."""
        return [re.split(r"[\[<>=]", each)[0] for each in self.tried]

    def api(self, attribute: str) -> str:
        """Return the API of an adapter."""
        return APIS[attribute]

    @property
    def install(self) -> str:
        """Command that installs the library."""
        return f"pip install {' '.join(map(repr, self.tried))}"

    def missing(self, attribute: str) -> list[str]:
        """Return the packages that an adapter imports and that are not installed."""
        return [name for name in self.imports[attribute] if not _is_importable(name)]

    def version(self, distribution: str) -> str | None:
        """Return the installed version of a distribution."""
        try:
            return version(distribution)
        except PackageNotFoundError:
            return None

    def spec(self, attribute: str) -> str:
        """Return an adapter as `module:attribute`."""
        return f"{self.module}:{attribute}"


@dataclass(frozen=True, slots=True)
class NodeWrapper(Wrapper):
    """A Node program in this package. It uses the npm packages of the current folder or one of its parents."""

    @property
    def module(self) -> str:
        """Path of the program."""
        return str(Path(__file__).parent / "node" / f"{self.library.replace('-', '_')}.mjs")

    @property
    def distributions(self) -> list[str]:
        """Names of the packages to install."""
        return [each.rpartition("@")[0] for each in self.tried]

    @property
    def install(self) -> str:
        """Command that installs the library."""
        return f"npm install {' '.join(self.tried)}"

    def missing(self, attribute: str) -> list[str]:
        """Return the missing requirements of an adapter: Node, or npm packages."""
        node = [] if shutil.which("node") else ["node"]
        return node + [name for name in self.imports[attribute] if _package_file(name) is None]

    def version(self, distribution: str) -> str | None:
        """Return the installed version of a package."""
        file = _package_file(distribution)
        return None if file is None else json.loads(file.read_text(encoding="utf-8"))["version"]

    def spec(self, attribute: str) -> str:
        """Return an adapter as a command specification, such as `$ node PROGRAM openai`."""
        return f"$ {shlex.join(['node', self.module, attribute.lower()])}"


def _package_file(name: str) -> Path | None:
    here = Path.cwd()
    found = (folder / "node_modules" / name / "package.json" for folder in (here, *here.parents))
    return next((each for each in found if each.is_file()), None)


WRAPPERS = (
    Wrapper(
        "litellm",
        "adapter",
        ("litellm>=1.110,<1.111",),
        dict.fromkeys(("OPENAI", "ANTHROPIC", "GEMINI"), ("litellm",)),
    ),
    Wrapper(
        "any-llm",
        "adapter",
        ("any-llm-sdk[anthropic,openai]>=1.40,<1.41",),
        {"OPENAI": ("any_llm", "openai"), "ANTHROPIC": ("any_llm", "anthropic")},
    ),
    Wrapper(
        "langchain",
        "adapter",
        ("langchain-openai>=1.7,<1.8", "langchain-anthropic>=1.7,<1.8", "langchain-google-genai>=4.4,<4.5"),
        {
            "OPENAI": ("langchain_core", "langchain_openai"),
            "ANTHROPIC": ("langchain_core", "langchain_anthropic"),
            "GEMINI": ("langchain_core", "langchain_google_genai"),
        },
    ),
    Wrapper(
        "pydantic-ai",
        "adapter",
        ("pydantic-ai-slim[anthropic,openai]>=2.68,<2.69",),
        {
            "OPENAI": ("pydantic_ai", "openai"),
            "RESPONSES": ("pydantic_ai", "openai"),
            "ANTHROPIC": ("pydantic_ai", "anthropic"),
        },
    ),
    Wrapper(
        "haystack",
        "adapter",
        ("haystack-ai>=3.4,<3.5", "anthropic-haystack>=8.0,<8.1"),
        {"OPENAI": ("haystack",), "ANTHROPIC": ("haystack", "haystack_integrations")},
    ),
    Wrapper(
        "llama-index",
        "adapter",
        (
            "llama-index-core>=0.14.25,<0.15",
            "llama-index-llms-openai>=0.8,<0.9",
            "llama-index-llms-anthropic>=0.12,<0.13",
            "anthropic>=0.125,<1",
        ),
        {
            "OPENAI": ("llama_index", "openai"),
            "ANTHROPIC": ("llama_index", "anthropic"),
        },
    ),
    Wrapper(
        "aisuite",
        "adapter",
        ("aisuite[anthropic,openai]>=0.2,<0.3", "docstring-parser>=0.18,<0.19", "mcp>=2.3,<3"),
        {"OPENAI": ("aisuite", "openai", "docstring_parser", "mcp"), "ANTHROPIC": ("aisuite", "anthropic", "mcp")},
    ),
    Wrapper("instructor", "adapter", ("instructor>=1.17,<1.18",), {"OPENAI": ("instructor", "openai")}),
    Wrapper(
        "openai-agents",
        "loop",
        ("openai-agents>=0.24,<0.25",),
        {"RESPONSES": ("agents", "openai"), "OPENAI": ("agents", "openai")},
    ),
    Wrapper(
        "agno",
        "loop",
        ("agno>=3.1,<3.2", "openai>=3.57,<4", "anthropic>=2.14,<3"),
        {"OPENAI": ("agno", "openai"), "ANTHROPIC": ("agno", "anthropic")},
    ),
    Wrapper(
        "strands",
        "loop",
        ("strands-agents[anthropic,openai]>=1.62,<1.63",),
        {"OPENAI": ("strands", "openai"), "ANTHROPIC": ("strands", "anthropic")},
    ),
    Wrapper("smolagents", "loop", ("smolagents[openai]>=1.26,<1.27",), {"OPENAI": ("smolagents", "openai")}),
    Wrapper("google-adk", "loop", ("google-adk>=2.13,<2.14",), {"GEMINI": ("google.adk",)}),
    NodeWrapper(
        "vercel-ai",
        "adapter",
        ("ai@^6.0.326", "@ai-sdk/openai@^3.0.141", "@ai-sdk/anthropic@^3.0.140"),
        {
            "OPENAI": ("ai", "@ai-sdk/openai"),
            "RESPONSES": ("ai", "@ai-sdk/openai"),
            "ANTHROPIC": ("ai", "@ai-sdk/anthropic"),
        },
    ),
    NodeWrapper(
        "langchain-js",
        "adapter",
        ("@langchain/core@^1.4.0", "@langchain/openai@^1.5.8", "@langchain/anthropic@^1.5.11"),
        {"OPENAI": ("@langchain/core", "@langchain/openai"), "ANTHROPIC": ("@langchain/core", "@langchain/anthropic")},
    ),
    NodeWrapper(
        "openai-agents-js",
        "loop",
        ("@openai/agents@^0.20.0", "openai@^6.49.0"),
        dict.fromkeys(("RESPONSES", "OPENAI"), ("@openai/agents", "openai")),
    ),
)


def names() -> list[str]:
    """Return the names that `find` accepts."""
    return sorted({name for each in WRAPPERS for name in (each.library, *each.adapters)})


def find(name: str) -> tuple[Wrapper, str] | None:
    """Return the wrapper and attribute for a name, or `None`. The name of a library selects its first adapter."""
    for wrapper in WRAPPERS:
        for adapter, attribute in wrapper.adapters.items():
            if name in (wrapper.library, adapter):
                return wrapper, attribute
    return None


def address(name: str) -> str:
    """Return the adapter or loop with this name as `module:attribute`, or as a command for Node.

    Raises:
        UnknownName: no wrapper has this name.
        PluginError: its library is not installed.
    """
    found = find(name)
    if found is None:
        raise UnknownName("wrapper", name, names())
    wrapper, attribute = found
    if missing := wrapper.missing(attribute):
        where = "in this folder" if isinstance(wrapper, NodeWrapper) else "where harness is"
        reason = f"{', '.join(missing)} is not installed {where}. Install it: {wrapper.install}"
        raise PluginError(wrapper.kind, name, reason)
    return wrapper.spec(attribute)


def _is_importable(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is not installed
        return False
