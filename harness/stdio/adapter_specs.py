"""Specifications of adapters on the command line and in settings.

A specification has one of these forms:

- a plug-in name, or `package.module:attribute`
- a command: `$ node adapter.mjs`
- a tool loop: `drive@openai-chat my_module:drive`, `agent@openai-chat ./agent`
- a client without a wrapper: `client@openai-chat my_module:Client`
- a client that takes messages in the API's own format instead of OpenAI's: `native@anthropic my_module:Client`

If a client's base URL ends differently from the API's, append the ending to the API's name: `client@anthropic/v1
my_module:Client`.

If the client takes no base URL, append the URL that it uses. Its requests to that URL are redirected:
`client@openai-chat=https://api.openai.com/v1 my_module:chat`.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from harness import plugins, wrappers
from harness.apis import registry
from harness.apis.api import Api
from harness.bridge.clients.constructors import default_base_url
from harness.bridge.clients.shape_recognition import load_client
from harness.bridge.clients.shaped_client import adapter_for
from harness.model.errors import PluginError, UnknownName
from harness.model.protocols import Adapter, Loop
from harness.platform.environment import added_variables
from harness.platform.exceptions import shorten
from harness.plugins import ADAPTERS
from harness.stdio import agent_program

if TYPE_CHECKING:
    from harness.bridge.clients.sessions import SessionDrive
    from harness.model.protocols import Conversation, Drive, Endpoint, FinalCall
    from harness.stdio.loop_trials import ToolLoop

COMMAND_PREFIX = "$ "
"""Prefix of specifications that are commands. It looks like a shell prompt."""

DRIVE, AGENT = "drive", "agent"
"""Prefixes of the specifications of tool loops: `drive@openai-chat my_module:drive`, `agent@openai-chat ./agent`.

The API may be omitted if the loop declares it.
"""

CLIENT, NATIVE = "client", "native"
"""Prefixes of the specification of a client without a wrapper, which `harness.bridge.clients` adapts. A client gets
messages in OpenAI's format, unless it is `native`.
"""

_CLIENT = re.compile(rf"({CLIENT}|{NATIVE})@([^\s/=]+)([/=]\S*)? (.*)", re.DOTALL)

_OWNS_LOOP = re.compile(rf"({DRIVE}|{AGENT})(?:@(\S+))? (.*)", re.DOTALL)

_DRIVE = "drive(endpoint, model, conversation)"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def specs(  # noqa: PLR0913 - a parameter for each way to name one
    names: Iterable[str] = (),
    commands: Iterable[str] = (),
    conversations: Iterable[str] = (),
    agents: Iterable[str] = (),
    *,
    api: str | None = None,
    targets: Iterable[str] = (),
) -> list[str]:
    """Return specifications of adapters, commands and tool loops in the form that `adapter` accepts.

    A loop may name its API, as in `module:drive@API`. For other loops, `api` is used or, if it is not given, the API of
    the targets.

    Raises:
        UnknownName: there is no such target.
    """
    loops = [*((DRIVE, each) for each in conversations), *((AGENT, each) for each in agents)]
    if loops and api is None:
        spoken = {registry.target_named(name).api for name in targets}
        api = spoken.pop() if len(spoken) == 1 else None
    owned = (_loop_spec(kind, what, api) for kind, what in loops)
    return [*map(_unless_command, names), *(f"{COMMAND_PREFIX}{command}" for command in commands), *owned]


def _unless_command(name: str) -> str:
    """Return the command if the name belongs to a wrapper for Node, otherwise the name itself."""
    found = wrappers.find(name)
    return wrappers.address(name) if found is not None and isinstance(found[0], wrappers.NodeWrapper) else name


def _loop_spec(kind: str, what: str, api: str | None) -> str:
    if (command := _unless_command(what)) != what:
        return command
    name, at, own = what.rpartition("@") if kind == DRIVE else (what, "", "")
    name, api = (name, own) if at else (what, api)
    return f"{kind}@{api} {name}" if api else f"{kind} {name}"


def option_for(adapter: str) -> tuple[str, str]:
    """Return the command-line option and value that select an adapter. For a tool loop the API is omitted, because the
    target determines it.
    """
    if adapter.startswith(COMMAND_PREFIX):
        return "--adapter-command", adapter.removeprefix(COMMAND_PREFIX)
    kind, _, what = adapter.partition(" ")
    option = {DRIVE: "--conversation", AGENT: "--agent-command"}.get(kind.partition("@")[0])
    return (option, what) if option and what else ("--adapter", adapter)


def is_foreign(spec: str) -> bool:
    """Return whether loading this adapter would run code that is not built in."""
    return (
        spec.startswith(COMMAND_PREFIX)
        or _OWNS_LOOP.fullmatch(spec) is not None
        or ":" in spec
        or (spec not in ADAPTERS.modules() and len(plugins.entry_points_of(ADAPTERS.folder).select(name=spec)) == 1)
        or _is_wrapper(spec)
    )


def adapter(spec: str) -> Adapter:
    """Return the adapter that a specification names. Commands are not loaded here; `harness.stdio.workers` runs them.

    Raises:
        UnknownName: There is no adapter with this name, or it claims an unknown capability.
        PluginError: It cannot be imported, or is not an adapter.
    """
    client = _CLIENT.fullmatch(spec)
    if client is not None:
        return plugins.check_adapter(spec, _client(*client.groups()))
    owns_loop = _OWNS_LOOP.fullmatch(spec)
    if owns_loop is None:
        return plugins.adapter(wrappers.address(spec) if _is_wrapper(spec) else spec)
    return plugins.check_adapter(spec, _loop(*owns_loop.groups()))


def _is_wrapper(name: str) -> bool:
    """Return whether the name belongs to a ready-made wrapper and not to an adapter."""
    return wrappers.find(name) is not None and name not in ADAPTERS.names()


def _loop(kind: str, api_name: str | None, what: str) -> Adapter:
    """Return the adapter of a tool loop, which is given as a `Loop`, a function or a program's command line."""
    if kind == AGENT:
        wire = _driven_api(AGENT, api_name, what)
        made: Loop = agent_program.agent(
            what, wire.name, keys=wire.key_variables[:1], base_urls=wire.server_endpoints.variables
        )
        return made.adapter()
    if _is_wrapper(what):
        what = wrappers.address(what)
    if ":" not in what:
        raise PluginError("conversation", what, "it must be package.module:attribute.")
    value = plugins.import_attribute(what, "conversation")
    if isinstance(value, Loop):
        return value.adapter()
    module, _, attribute = what.partition(":")
    name = module.rpartition(".")[2] if attribute == "drive" else attribute
    wire = _driven_api(DRIVE, api_name, what)
    class_drive, final = _loop_with_final_call(value, wire.name)
    if class_drive is None and not callable(value):
        shown = shorten(_ADDRESS.sub("", repr(value)), 100)
        raise PluginError("conversation", what, f"it is {shown}, which is not a function {_DRIVE}.")
    if class_drive is None:
        _check_drive(cast("Callable[..., object]", value), what)
        return Loop(name, wire.name, cast("Drive", value)).adapter()
    drive = _redirected_drive(wire, class_drive, value)
    return Loop(name, wire.name, drive, class_drive.capabilities, final).adapter()


def _loop_with_final_call(value: object, api: str) -> tuple[ToolLoop | SessionDrive | None, FinalCall | None]:
    """Return the tool loop of a value, and the call that has to end each of its turns, if any. The trials that show
    them use the keys of clients. The environment then has those of the user again, such as for a recording.
    """
    from harness.stdio.loop_trials import final_call_of, loop_of  # noqa: PLC0415 - imports a server

    lacking = {name: each for name, each in client_environment().items() if name not in os.environ}
    with added_variables(lacking):
        loop = loop_of(value, api)
        return loop, None if loop is None else final_call_of(loop, api)


def _check_drive(value: Callable[..., object], what: str) -> None:
    """Raise `PluginError` if a value cannot be called as a drive, or if it is a class whose constructor needs other
    arguments. Such a class is usually a client.
    """
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # a function in C
        return
    required = [each for each in signature.parameters.values() if each.default is each.empty]
    try:
        signature.bind(*range(_DRIVE_ARGUMENTS))
        fits = not inspect.isclass(value) or len(required) == _DRIVE_ARGUMENTS
    except TypeError:
        fits = False
    if not fits:
        raise PluginError("conversation", what, f"{_NO_LOOP} harness try {what}")


_DRIVE_ARGUMENTS = 3
_NO_LOOP = f"it is no tool loop that harness recognises: it does not take the arguments of {_DRIVE}. Is it a client?"


def _redirected_drive(wire: Api, drive: Drive, value: object) -> Drive:
    """Return a drive for a class that may take neither a base URL nor a key.

    It then reads both from the environment, and its requests to the provider are redirected. Its default base URL shows
    how a base URL must end.
    """
    provider_url = "://".join(urlsplit(wire.provider_url)[:2])
    default = urlsplit(default_base_url(value, provider_url)).path.rstrip("/")
    is_longer = default.startswith(wire.base_path)

    def redirected(endpoint: Endpoint, model: str, conversation: Conversation) -> object:
        _set_client_environment()
        base_url = endpoint.base_url + default.removeprefix(wire.base_path) if is_longer else endpoint.base_url
        with _redirection(wire, wire.provider_url, endpoint.base_url):
            return drive(replace(endpoint, base_url=base_url), model, conversation)

    return redirected


def _set_client_environment() -> None:
    for name, value in client_environment().items():
        os.environ.setdefault(name, value)


def _redirection(wire: Api, own: str, base_url: str) -> AbstractContextManager[None]:
    """Return a context in which requests to a client's own base URL go to the API's `base_url`."""
    from harness.cassettes.redirection import redirect_requests  # noqa: PLC0415 - imports an HTTP client

    return redirect_requests(own, base_url if urlsplit(own).path else _root(wire, base_url))


def _root(wire: Api, base_url: str) -> str:
    return base_url.removesuffix(wire.base_path).rstrip("/")


def client_of(spec: str) -> str | None:
    """Return the client that a specification names as `module:attribute`, or `None` if it names something else."""
    client = _CLIENT.fullmatch(spec)
    return None if client is None else client[4]


def recognised_loop(spec: str) -> str | None:
    """Return the class, function or object that a specification names as `module:attribute`, if harness recognises it
    as a tool loop. Return `None` if the specification names something else.
    """
    owns_loop = _OWNS_LOOP.fullmatch(spec)
    if owns_loop is None or owns_loop[1] != DRIVE or _is_wrapper(owns_loop[3]):
        return None
    return owns_loop[3] if getattr(adapter(spec).drive, "__module__", None) == __name__ else None


def client_path(spec: str) -> str | None:
    """Return the base URL path in a client's specification, or `None` if the client uses its API's path."""
    client = _CLIENT.fullmatch(spec)
    return None if client is None or str(client[3]).startswith("=") else client[3]


def client_url(spec: str) -> str | None:
    """Return a client's own base URL in its specification, or `None` if the client takes a base URL."""
    client = _CLIENT.fullmatch(spec)
    return client[3][1:] if client is not None and str(client[3]).startswith("=") else None


PRIVACY_VARIABLES = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OTEL_SDK_DISABLED": "true", "DO_NOT_TRACK": "1"}
"""Environment variables that keep LiteLLM from fetching its prices from the network, and libraries from reporting their
use to their makers.
"""


def client_environment() -> dict[str, str]:
    """Return environment variables that clients read: placeholders for keys, the APIs' own base URLs, and
    `PRIVACY_VARIABLES`.
    """
    found = {**PRIVACY_VARIABLES}
    for wire in registry.apis():
        if wire.provider_url.startswith("http"):
            found |= dict.fromkeys(wire.key_variables, "no-key")
            found |= dict.fromkeys(wire.server_endpoints.variables, wire.provider_url)
    return found


def _client(kind: str, api: str, place: str | None, what: str) -> Adapter:
    wire, own = registry.api(api), place.removeprefix("=") if place and place.startswith("=") else None

    def base_url(given: str) -> str:
        return own or (given if place is None else _root(wire, given) + place.rstrip("/"))

    def redirection(given: str) -> AbstractContextManager[None]:
        return nullcontext() if own is None else _redirection(wire, own, given)

    _set_client_environment()
    value, method = load_client(what)
    form = api if kind == NATIVE else None
    return adapter_for(value, what, api, base_url, method=method, form=form, redirected=redirection)


def _driven_api(kind: str, name: str | None, what: str) -> Api:
    known = [each.name for each in registry.apis() if each.provider_url.startswith("http")]
    if name is None:
        kind_name = "agent" if kind == AGENT else "conversation"
        example = f" In settings: '{what}@{known[0]}'." if kind == DRIVE else ""
        reason = f"its API is not known. Name it with --api NAME: {', '.join(known)}; or by --target.{example}"
        raise PluginError(kind_name, what, reason)
    if name not in known:
        raise UnknownName("API", name, known)
    return registry.api(name)
