"""Packages that a reproduction names, with their versions, and the HTTP clients that it redirects."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions, requires
from types import ModuleType

from harness import wrappers
from harness.checks.script_sources import imported_modules
from harness.platform.environment import installed_version

_SDKS = {"openai-chat": "openai", "openai-responses": "openai", "anthropic": "anthropic", "gemini": "google-genai"}
_AGENT = re.compile(r"(?:python-)?([A-Za-z][\w.-]*)/(?:Python )?([\d.]+)")


def packages_of(wrapper: wrappers.Wrapper, attribute: str) -> list[str]:
    """Return the distributions of an adapter, with the versions that are installed."""
    if isinstance(wrapper, wrappers.NodeWrapper):
        return [f"{each}@{wrapper.version(each)}" for each in wrapper.imports[attribute]]
    used = {each.partition(".")[0] for each in wrapper.imports[attribute]}
    provides = packages_distributions()
    needed = {name for package in used for name in provides.get(package, [])}
    return [
        f"{each.split('>')[0].split('<')[0]}=={number}"
        for each, name in zip(wrapper.tried, wrapper.distributions, strict=True)
        if name in needed and (number := wrapper.version(name)) is not None
    ]


def imported_packages(module: ModuleType, api: str) -> list[str]:
    """Return the distributions that contain a module or, if there are none, those that it imports. They are pinned
    requirements, with the SDK's extra.
    """
    provides = packages_distributions()
    own = provides.get(module.__name__.partition(".")[0], [])
    names = own or [each for name in imported_modules(module) for each in provides.get(name, [])]
    sdk = _SDKS.get(api, "")
    needs_sdk = any(re.match(rf"{sdk}\b", each) for name in names for each in requires(name) or () if sdk)
    names += [sdk] if needs_sdk and installed_version(sdk) else []
    return [f"{each}{_sdk_extra(each, sdk)}=={installed_version(each)}" for each in dict.fromkeys(names)]


def _sdk_extra(distribution: str, sdk: str) -> str:
    """Return the extra of a distribution that installs an SDK, such as `[openai]`."""
    wanted = re.compile(rf"{re.escape(sdk)}\b[^;]*;.*extra == ['\"]([\w-]+)")
    found = filter(None, map(wanted.match, requires(distribution) or ()))
    return next((f"[{each[1]}]" for each in found), "") if sdk else ""


def versions_of(
    found: tuple[wrappers.Wrapper, str] | None, api: str, imported: Sequence[str], agent: str
) -> dict[str, str]:
    """Return the installed versions of a library and its SDK, or of a client's imports, and of Python or Node."""
    if found is not None and isinstance(found[0], wrappers.NodeWrapper):
        command = [shutil.which("node") or "node", "--version"]
        node = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
        return {**found[0].installed, "Node": node.removeprefix("v")}
    if found is None:
        packages = [re.sub(r"\[.*\]", "", each).split("==") for each in imported]
        known = dict[str, str](packages) or dict(_AGENT.findall(agent))
        return {**known, "Python": sys.version.split()[0]}
    names = [*(each.partition("==")[0].partition("[")[0] for each in packages_of(*found)), _SDKS.get(api, "")]
    known = {name: number for name in names if name and (number := installed_version(name))}
    return known | {"Python": sys.version.split()[0]}


def redirects_of(agent: str, *, is_program: bool = False) -> list[str]:
    """Return the HTTP libraries that a client with a fixed base URL may use, the most probable first. A program may use
    any of them, and a client one that is loaded.
    """
    every = ("httpx2", "httpx", "aiohttp", "urllib3", "http.client")
    loaded = [each for each in every if is_program or each in sys.modules]
    agents = {"urllib/": ["http.client"], "requests/": ["urllib3"], "/Python": loaded[:2]}  # `/Python`: SDKs
    found = next((names for text, names in agents.items() if text in agent), None)
    named = [each for each in loaded if f"{each}/" in agent]
    if found is not None or named not in ([], ["httpx2"]):  # a request without an agent gets that of httpx2 here
        return found or named
    return [*dict.fromkeys([*named, "http.client", *loaded])]
