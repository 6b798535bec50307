"""Recognition of the code that a user wants to try: an adapter, a client, a tool loop or a function, and the API that
it uses.

Third-party code is imported and called in a separate process: `python -m harness.checks.recognition`. It gets the base
URL of a probe server that rejects every request. The path of the first request identifies the API.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, redirect_stdout
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from harness import plugins
from harness.apis import registry
from harness.apis.view import CallView, ModelStep, ResultView, TextView
from harness.bridge.clients.agents import AgentDrive, FunctionDrive, recognise_agent
from harness.bridge.clients.constructors import EXAMPLE_MODELS, TRIED_MODELS, configuration_method, configured_model
from harness.bridge.clients.decorated_functions import is_decorated_object
from harness.bridge.clients.forms import ANTHROPIC, FORMS, GEMINI, OPENAI, PROMPT, RESPONSES
from harness.bridge.clients.loop_methods import looping_method
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.names import BASE_URLS, EXECUTORS, KEYS, TOOL_PARAMETERS, first_known
from harness.bridge.clients.provider_arguments import routed_providers, selectable_providers
from harness.bridge.clients.sessions import SessionDrive, recognise_session
from harness.bridge.clients.shape_recognition import load_client, recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.bridge.clients.shapes import ClientShape
from harness.bridge.clients.sources import runs_tools
from harness.checks.first_request import FirstRequest, first_request_of, is_mismatch
from harness.checks.library_search import find_clients, is_installed, question_for_library
from harness.checks.module_clients import possible_clients
from harness.checks.own_prompts import PROBE_TEXT, PROBE_TOOL, ignored_rules, own_parts_of
from harness.checks.programs import EXAMPLE_FORMAT, keyless_environment, missing_variable, variable_question
from harness.checks.single_call import single_call_command
from harness.model.errors import HarnessError, PluginError, Unsupported
from harness.model.messages import ChatRequest, Message, Role, Text, ToolCall, ToolResult
from harness.model.protocols import Adapter, Conversation, ConversationTool, Drive, Endpoint, Loop
from harness.platform.exceptions import exception_summary, origin
from harness.stdio import adapter_specs
from harness.stdio.adapter_specs import client_environment
from harness.stdio.answered_requests import BASE_PATH, continues_after_call, requests_with_steps
from harness.stdio.loop_trials import obstacle_of, possible_loops, session_of, tried_loop

_TIMEOUT_SECONDS = 90.0
"""Time limit for importing the code and for its first request."""

_LOOP_PARAMETERS = 3


@dataclass(frozen=True, slots=True)
class Recognition:
    """Result of recognising a named object. `spec` is its adapter specification, `sentence` its description.

    `ignored` names rules that a client of this shape cannot satisfy. `model` is set if a client always uses the same
    one, and `default_model` if it accepts others. If the object was not recognised, `question` explains why and may ask
    for more information. If a library raises an exception before any request is sent, `failure` describes it.
    `service_target` is the target of the compatible service that the client calls by default. `command` is set instead
    of `spec` if the code has prompts, tools or an answer format of its own: it runs the code as a program.
    `other_apis` are those of the other providers that the client can use.
    """

    spec: str = ""
    sentence: str = ""
    question: str = ""
    ignored: tuple[str, ...] = ()
    model: str | None = None
    default_model: str | None = None
    failure: str = ""
    service_target: str = ""
    command: str = ""
    other_apis: tuple[str, ...] = ()


def recognise(name: str, api: str = "") -> Recognition:
    """Recognise `package.module:attribute` in a separate process. A client for several providers gets that of `api`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recognised.json"
        command = [sys.executable, "-m", "harness.checks.recognition", name, str(file), api]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own code
                command,
                env=keyless_environment(),
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Recognition(
                question=f"{name}: importing and calling it took longer than {_TIMEOUT_SECONDS:g} seconds."
            )
        if file.exists():
            return Recognition(**json.loads(file.read_text(encoding="utf-8")))
    last = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
    return Recognition(question=f"{name}: its process ended with exit code {done.returncode}: {last}")


def recognise_here(name: str, api: str = "") -> Recognition:
    """Recognise `package.module:attribute` in this process. If only a module is named, look for its client."""
    os.environ.update({key: value for key, value in client_environment().items() if key not in os.environ})
    try:
        name = _with_module_name(name)
        if ":" not in name:
            return _recognise_in_module(name, api)
        value, method = load_client(name)
        if isinstance(value, Adapter):
            return Recognition(name, f"an adapter of {value.api}")
        if isinstance(value, Loop):
            return Recognition(name, f"a tool loop of {value.api}")
        if _is_drive(value):
            return _recognise_drive(name, cast("Drive", value), _signature(name, value))
        is_function = bool(method) or is_decorated_object(value)
        if not is_function and (found := _recognise_loop(name, value, api)) is not None:
            if found.question and (other := _recognise_otherwise(name, value, api)) is not None:
                return other
            return replace(_with_providers(found, value), default_model=configured_model(value))
        shape = recognise_shape(value, name, method, api)
        found = _recognise_client(name, shape, api)
        found = found if method else _of_whole_loop(name, found, looping_method(value, shape.whole), api)
        return _with_providers(found, value, shape.whole)
    except PluginError as error:
        return Recognition(question=_with_variable(name, error))
    except HarnessError as error:
        return Recognition(question=f"{name}: {error}")
    except Exception as error:  # noqa: BLE001 - the constructor of the user's client may fail in any way
        return _after_failure(name, error)


def _of_whole_loop(name: str, found: Recognition, loop: str | None, api: str) -> Recognition:
    """Return the recognition of the method `loop` if the one that was `found` has tools and is a step of it."""
    whole = recognise_here(f"{name}.{loop}", api) if found.command and loop is not None else found
    return whole if whole.command else found


def _after_failure(name: str, error: Exception) -> Recognition:
    """Return the recognition of third-party code that fails when it is created: a failure if installed libraries are
    incompatible, or else a question.
    """
    found = origin(error)
    if found.raiser.startswith("the library") and is_mismatch(found):
        failure = f"{found.raiser} raises {found.error}{found.line}: {found.text}"
        return Recognition(sentence="a client that cannot be created", failure=failure)
    return Recognition(question=_with_variable(name, error))


def _with_providers(found: Recognition, value: object, whole: Method | None = None) -> Recognition:
    """Return the recognition of a client for several providers with the name of its provider, and with the other APIs
    that it can use.
    """
    apis = re.findall(r"@([^\s/=]+)", found.spec or found.command)
    config = configuration_method(value)
    known = selectable_providers(method_of((), value)) or ({} if config is None else selectable_providers(config))
    known = known or ({} if whole is None else routed_providers(whole))
    if not apis or apis[0] not in known:
        return found
    first_apis = {provider: each for each, provider in reversed(known.items())}
    others = [each for each in known if each in first_apis.values() and known[each] != known[apis[0]]]
    chosen = getattr(known[apis[0]], "value", known[apis[0]])
    options = ", ".join(f"--api {each}" for each in others)
    note = f", with the provider {chosen!r}" + (f" (another one: {options})" if others else "")
    return replace(found, sentence=found.sentence + note, other_apis=tuple(others))


def _with_module_name(name: str) -> str:
    """Return the name of a module for a path such as `src/client.py`."""
    file, colon, attribute = name.partition(":")
    path = Path(file)
    if path.suffix != ".py":
        return name
    path = path.resolve()
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return ".".join(path.with_suffix("").parts) + colon + attribute


def _recognise_in_module(name: str, api: str) -> Recognition:
    """Recognise the only client that a module defines. If there are several, return a question that lists them."""
    try:
        members = cast("dict[str, object]", plugins.import_attribute(f"{name}:__dict__", "client"))
    except PluginError as error:
        raise PluginError("client", name, error.reason) from error
    if is_installed(name):
        return _recognise_in_library(name, api)
    clients = possible_clients(name, members, _may_be_client)
    if len(clients) == 1:
        return recognise_here(f"{name}:{clients[0]}", api)
    some = " or ".join(f"harness try {name}:{each}" for each in clients[:_MAX_NAMED])
    return Recognition(question=f"{name}: which object in it is the client? {some or f'Name it: {name}:Client'}")


_MAX_NAMED = 5


def _recognise_in_library(name: str, api: str) -> Recognition:
    """Recognise the only client of an installed library. If there are several or none, return a question."""
    clients = find_clients(name)
    found = recognise_here(next(iter(clients)), api) if len(clients) == 1 else Recognition(question=name)
    return Recognition(question=question_for_library(name, clients)) if found.question else found


def _may_be_client(value: object, name: str) -> bool:
    if isinstance(value, Adapter | Loop) or _is_drive(value):
        return True
    try:
        recognise_shape(value, name)
    except Exception:  # noqa: BLE001 - it may be anything
        return False
    return True


def _with_variable(name: str, error: Exception) -> str:
    """Return the reason of an error. If an environment variable is missing, return the command that sets it instead."""
    reason = str(error) if isinstance(error, PluginError) else f"{name} failed: {exception_summary(error)}."
    if (variable := missing_variable(reason)) is not None:
        return f"{name} {variable_question(variable, name)}"
    return reason if isinstance(error, PluginError) else f"{reason} {_CREATE_IT}"


_CREATE_IT = (
    "Write a function 'def chat(messages, tools=None)' that creates it, calls it and returns its answer, and name that "
    "function."
)


def _is_drive(value: object) -> bool:
    if not inspect.isfunction(value):
        return False
    given = inspect.signature(value).parameters.values()
    required = [each for each in given if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    names = frozenset(each.name for each in required)
    makes_client = all(first_known(known, names) for known in (BASE_URLS, KEYS))
    runs_tools = bool(names & TOOL_PARAMETERS) or any(map(EXECUTORS.fullmatch, names))
    return len(required) == _LOOP_PARAMETERS and "messages" not in names and not makes_client and not runs_tools


def _recognise_loop(name: str, value: object, api: str) -> Recognition | None:
    """Recognise a class or function that runs tools, or that keeps its history. Return `None` for other values."""
    sessions = recognise_session, session_of, api or OPENAI.name
    for recognise_drive, make_drive, first_api in ((recognise_agent, recognise_agent, api), sessions):
        drive = recognise_drive(value, first_api)
        if drive is None:
            continue
        found = _recognise_with_tool(name, drive, lambda api, make=make_drive: cast("Drive", make(value, api)))
        if found is not None:
            return found if isinstance(drive, SessionDrive) else _recognise_tried(name, value, found, api) or found
    return _recognise_tried(name, value, Recognition(), api)


def _recognise_tried(name: str, value: object, found: Recognition, api: str) -> Recognition | None:
    """Recognise a class or function whose way to get tools is shown by a trial: a tool that it gets arrives in its
    request and is run. Return `None` if no way passes the trial. `found` is the result of a first attempt.
    """
    api = re.split("[@ ]", found.spec)[1] if found.spec else api or _api_of_loops(value)
    drive = tried_loop(value, api) if api else None
    if drive is None:
        return None
    made = _recognise_drive(name, drive, f"{name.partition(':')[2]}, {drive.sentence}")
    return None if made.question else replace(made, ignored=drive.ignored)


def _api_of_loops(value: object) -> str:
    """Return the API that a class or function calls which may be a tool loop, or an empty text."""
    conversation = Conversation(turns=(_GREETING,))
    for drive in islice(possible_loops(value, ""), _MAX_LOOPS):
        seen = first_request_of(lambda url, drive=drive: drive(Endpoint(url, "no-key"), TRIED_MODELS[0], conversation))
        if seen.api is not None:
            return seen.api
    return ""


_MAX_LOOPS = 40


def _recognise_with_tool(
    name: str, drive: AgentDrive | FunctionDrive | SessionDrive, make_drive: Callable[[str], Drive]
) -> Recognition | None:
    """Recognise a class or function that is a tool loop. If it gets a tool and does not declare it, return a question.

    A function that gets its tools as an argument may also be a client, and so `None` is returned unless it runs them.
    """
    found = replace(_recognise_drive(name, drive, f"{name.partition(':')[2]}, {drive.sentence}"), ignored=drive.ignored)
    may_be_client = not isinstance(drive, SessionDrive) and drive.may_be_client
    if found.question:
        is_made = not isinstance(drive, FunctionDrive) and not drive.maker.is_class
        return None if may_be_client or is_made else found
    api = re.split("[@ ]", found.spec)[1]
    drive_with_tool = make_drive(api)

    def send(url: str) -> object:
        return drive_with_tool(Endpoint(url, "no-key"), TRIED_MODELS[0], _ONE_TOOL)

    if may_be_client:
        return found if continues_after_call(send, api, PROBE_TOOL.name) else None
    seen = first_request_of(send)
    if b'"look"' in seen.body or Unsupported.__name__ in seen.reason:
        reason = obstacle_of(drive_with_tool, api) if isinstance(drive_with_tool, SessionDrive) else ""
        return Recognition(question=_NOT_DRIVEN.format(name=name, reason=reason)) if reason else found
    lost = _LOST_TOOL.format(reason=f": {seen.reason}" if seen.reason else ".")
    return Recognition(question=_NO_TOOL.format(name=name, reason=lost))


_NO_TOOL = (
    "{name} looks like a tool loop, but how it gets its tools is not clear.{reason} Write a loop of about ten lines "
    "that gives it its tools: harness help loops."
)

_NOT_DRIVEN = (
    "{name} looks like a tool loop whose caller runs the tools, but {reason}. Write a loop of about ten lines that "
    "runs the tools: harness help loops."
)

_LOST_TOOL = " A tool that it got did not arrive in its request{reason}"


def _recognise_otherwise(name: str, value: object, api: str) -> Recognition | None:
    """Recognise a client that takes messages, or code with tools of its own that only looks like a loop for those of
    its caller. Return `None` if it is neither, or if it cannot be called.
    """
    try:
        shape = recognise_shape(value, name, "", api)
    except Exception:  # noqa: BLE001 - the user's constructor may fail in any way
        return None
    found = _of_whole_loop(name, _recognise_client(name, shape, api), looping_method(value, shape.whole), api)
    return found if found.command or (found.spec and shape.form is not PROMPT) else None


def _recognise_drive(name: str, drive: Drive, shown: str) -> Recognition:
    """Recognise a tool loop. If it requests a model of its own instead of the given one, that model is returned."""
    conversation = Conversation(turns=(_GREETING,))
    seen = first_request_of(lambda url: drive(Endpoint(url, "no-key"), TRIED_MODELS[0], conversation))
    if seen.api is not None and _is_beyond_harness(drive, seen):
        return Recognition(question=f"{name} has tools of its own, or calls a service of its own.")
    if seen.api is None:
        return Recognition(question=f"{name} looks like a tool loop, but {seen.reason} Name its API by --api.")
    is_own = seen.model is not None and seen.model.rpartition("/")[2] != TRIED_MODELS[0]
    own_model = seen.model if is_own else None
    return Recognition(f"drive@{seen.api} {name}", f"a tool loop of {seen.api}: {shown}", model=own_model)


def _is_beyond_harness(drive: Drive, seen: FirstRequest) -> bool:
    """Return whether an object of the user declares tools of its own, or calls another service than the provider of its
    API. So may an object that a function of the user made.
    """
    if not isinstance(drive, AgentDrive | SessionDrive) or drive.maker.is_class:
        return False
    provider = urlsplit(registry.api(str(seen.api)).provider_url).netloc
    is_elsewhere = seen.path.startswith("http") and urlsplit(seen.path).netloc != provider
    return is_elsewhere or (seen.view is not None and bool(seen.view.tools))


def _recognise_client(name: str, shape: ClientShape, api: str) -> Recognition:
    """Determine the API and the message format of a client by sending it a request in each format. If the user named
    `api`, the client is one of its provider.
    """
    seen, tried = FirstRequest(None), [shape]
    if not shape.is_sdk and shape.form is OPENAI:
        tried = [shape.with_format(form) for form in (OPENAI, ANTHROPIC, GEMINI, RESPONSES)]
    names = [shape.model] if shape.model != TRIED_MODELS[0] else TRIED_MODELS
    is_for_other_api = api in EXAMPLE_MODELS and _family(shape.model) in {*map(_family, EXAMPLE_MODELS.values())}
    is_for_other_api = is_for_other_api and _family(shape.model) != _family(EXAMPLE_MODELS[api])
    names = [EXAMPLE_MODELS[api]] if is_for_other_api or api in routed_providers(shape.whole) else names
    shapes = [replace(each, model=model) for model in names for each in tried]
    for each, base in ((each, base) for each in shapes for base in (BASE_PATH, "")):
        if each.model != names[0] and not re.search("model|provider", seen.reason, re.IGNORECASE):
            break
        found = first_request_of(lambda url, each=each: _send(each, url), base)
        seen = found if seen.api is None and not seen.reason else seen
        if found.api is not None and not _is_passed_through(each, found):
            seen, shape = found, _format_with_calls(each, found.api, base)
            break
    if seen.api is None and seen.failure and not shape.is_guess and not shape.takes_functions:
        return Recognition(sentence=f"a client, called as {shape.sentence}", failure=seen.failure)
    if question := _client_question(name, shape, seen):
        return Recognition(question=question)
    own_parts = own_parts_of(shape, seen)
    if not own_parts and _runs_own_loop(shape):
        return Recognition(question=_NO_TOOL.format(name=name, reason=""))
    shape = shape.for_api(str(seen.api))
    format_name = (shape.tool_form or shape.form).name
    is_usual = format_name not in FOREIGN_FORMS or format_name == RESPONSES.name
    is_own = shape.is_sdk or (is_usual and shape.form is tried[0].form)
    kind = adapter_specs.CLIENT if is_own else adapter_specs.NATIVE
    target, redirects = f"={seen.path}", f", with its requests to {seen.path} redirected"
    if not seen.path.startswith("http"):
        target, redirects = "" if seen.path == registry.api(seen.api).base_path else seen.path or "/", ""
    ignored = ignored_rules(shape, seen, lambda url: _send(shape, url))
    own = f"{' with tools' if shape.tool_form else ''} in the API's own format" if kind == adapter_specs.NATIVE else ""
    service_target = "" if api else _service_target(shape, seen)
    at = f" at {service_target}, which it calls by default" if service_target else ""
    sentence = f"a client of {seen.api}{at}, called as {shape.sentence}{own}{redirects}"
    model = None if seen.model == shape.model else seen.model
    default = shape.model if shape.model != TRIED_MODELS[0] else None
    spec = f"{kind}@{seen.api}{target} {name}"
    if own_parts:
        called = replace(shape, whole=replace(shape.whole, is_open=False)).sentence
        sentence = f"code of {seen.api} with {own_parts} of its own, called as {called} and run as a program"
        known = default or _model_in_code(shape.whole.with_imports, str(seen.api)) or shape.model
        return Recognition(sentence=sentence, command=single_call_command(spec, known))
    return Recognition(spec, sentence, "", ignored, model, default, service_target=service_target)


def _client_question(name: str, shape: ClientShape, seen: FirstRequest) -> str:
    """Return a question if the client sent no request, lost the text that it was given, or runs its tools."""
    if seen.api is not None:
        is_guess = shape.whole.prompt_record is not None or (shape.is_guess and shape.form is not PROMPT)
        is_lost = is_guess and PROBE_TEXT.lower().encode() not in seen.body.lower()
        may_run = shape.describes_functions or (shape.takes("tools") and runs_tools(shape.whole.called_source))
        if may_run and continues_after_call(lambda url: _send(shape, url), seen.api, PROBE_TOOL.name):
            return (_RUNS_TOOLS if shape.describes_functions else _RAN_TOOL).format(name=name)
        return _which_method(name, shape) if is_lost else ""
    if shape.takes_functions:
        return _RUNS_TOOLS.format(name=name)
    if shape.is_guess and not name.endswith(f".{'.'.join(shape.whole.path)}"):
        raised = re.match(r"it sent no request( \(.*\))\.", seen.reason)
        return _which_method(name, shape, raised[1] if raised else "")
    return f"{name} looks like a client, but {seen.reason}"


def _which_method(name: str, shape: ClientShape, raised: str = "") -> str:
    """Return the question for a client of which a method was called that did not send the conversation. `raised` is the
    exception in parentheses, if there was one.
    """
    return _WHICH_METHOD.format(name=name, called=shape.sentence.partition(" (")[0], raised=raised)


def _runs_own_loop(shape: ClientShape) -> bool:
    """Return whether a method that takes only a prompt belongs to a class that reads calls and runs them."""
    takes_only_prompt = shape.form is PROMPT and not shape.takes("tools")
    source = shape.whole.class_source
    return takes_only_prompt and runs_tools(source) and _READS_CALLS.search(source) is not None


_READS_CALLS = re.compile(r"tool_calls|tool_use|function_?call", re.IGNORECASE)
"""Code that reads the calls of an answer, in any of the formats."""


def _service_target(shape: ClientShape, seen: FirstRequest) -> str:
    """Return the target of the compatible service that a client calls without a base URL, or an empty string."""
    at_default = seen
    if shape.has_base_url and not seen.path.startswith("http"):
        if not seen.is_intercepted:
            return ""
        try:
            at_default = first_request_of(lambda _: _send(shape, ""))
        except PluginError:  # its constructor needs a base URL
            return ""
    if at_default.api != seen.api or seen.api is None or not at_default.path.startswith("http"):
        return ""
    wire = registry.api(seen.api)
    service = wire.services.rules_at(wire.profile_for(""), "", at_default.path).service
    found = (each for each in registry.all_targets() if (each.api, each.service) == (seen.api, service))
    return next((each.name for each in found), "")


_RUNS_TOOLS = (
    "{name} takes functions as tools. Does it run them itself? If so, name a program that uses it: harness try "
    "--command 'python my_program.py', or write a loop of about ten lines: harness help loops. If not, write a "
    "function 'def chat(messages, tools=None)' that calls it and returns its answer, and name that function."
)

_RAN_TOOL = (
    "{name} sends another request after a call of a tool, so it runs its tools itself. How does it get them? Write a "
    "loop of about ten lines that calls it: harness help loops. Or name a program that uses it: harness try --command "
    "'python my_program.py'."
)

_WHICH_METHOD = (
    "{name}: which of its methods sends a conversation? {called} does not{raised}. Name it, as in MODULE:CLASS.METHOD. "
    "Or write a function 'def chat(messages, tools=None)' that calls it and returns its answer, and name that "
    "function. If it runs tools itself, name a program that uses it: harness try --command 'python my_program.py'."
)

FOREIGN_FORMS = (ANTHROPIC.name, GEMINI.name, RESPONSES.name)
"""Message formats other than that of OpenAI Chat."""

_GREETING = Message(Role.USER, (Text(PROBE_TEXT),))
_ONE_TOOL = Conversation(
    turns=(_GREETING,),
    tools=(ConversationTool("look", "Looks around.", PROBE_TOOL.parameters, lambda _: ToolResult("", "look", "")),),
)


def _model_in_code(source: str, api: str) -> str:
    """Return the first model of an API that code names, or else an example. A plug-in's API has no example."""
    example = EXAMPLE_MODELS.get(api, "")
    names = re.findall(r"[\"']((?:gpt|claude|gemini)-[\w.-]*\d[\w.-]*)[\"']", source)
    return next((each for each in names if _family(each) == _family(example)), example)


def _family(model: str) -> str:
    """Return the first word of a model's name, such as `gpt`."""
    return model.partition("-")[0]


_EARLIER_TURN = (_GREETING, Message(Role.ASSISTANT, (Text(PROBE_TEXT),)), _GREETING)

_ANSWERED_CALL = (
    _GREETING,
    Message(Role.ASSISTANT, (ToolCall("call_1", PROBE_TOOL.name, {}),)),
    Message(Role.USER, (ToolResult("call_1", PROBE_TOOL.name, "Nothing."),)),
)


def _send(shape: ClientShape, url: str, messages: tuple[Message, ...] = (_GREETING,)) -> None:
    tools = (PROBE_TOOL,) if shape.takes("tools") else ()
    response_format = EXAMPLE_FORMAT if shape.needs_schema else None
    request = ChatRequest(shape.model, messages, tools=tools, response_format=response_format)
    client = ShapedClient(shape, Endpoint(url, "no-key"), shape.model)
    try:
        client.chat(request)
    except Unsupported:
        if not tools or not shape.whole.is_open:
            raise
        client.chat(replace(request, tools=()))  # its `**options` need not include tools
    finally:
        client.close()


def _format_with_calls(shape: ClientShape, api: str, base: str) -> ClientShape:
    """Return the shape of a client with the message format in which a call and its result arrive in its request: that
    of OpenAI or that of its API. If neither arrives, the shape is unchanged.
    """
    if shape.form is PROMPT and shape.whole.text_or_list is not None and not shape.keeps_history:
        own = replace(shape, form=FORMS[api])
        return own if _sends_earlier_turns(own, api) else shape
    is_of_api = shape.is_sdk or shape.form is not OPENAI or api not in FOREIGN_FORMS
    if is_of_api or not shape.takes("tools") or _READS_TOOL_ROLE.search(shape.whole.module):
        return shape
    formats = [shape, shape.with_format(FORMS[api])]
    if shape.lists_blocks and api == ANTHROPIC.name:  # as OpenAI's messages, the results would be apart
        formats.reverse()
    return next((each for each in formats if _sends_calls(each, base)), shape)


_READS_TOOL_ROLE = re.compile(r"(?:[!=]=|\bin\b|\bcase\b)[^\n]{0,30}[\"']tool[\"']")
"""Code that converts results which are messages of their own, as in OpenAI's format."""


def _sends_calls(shape: ClientShape, base: str) -> bool:
    """Return whether the request of a client has the call and the result of a conversation that it is given."""
    sent = first_request_of(lambda url: _send(shape, url, _ANSWERED_CALL), base)
    turns = sent.view.turns if sent.view is not None else ()
    kinds = {type(part) for turn in turns for part in turn.parts}
    return {CallView, ResultView} <= kinds


def _sends_earlier_turns(shape: ClientShape, api: str) -> bool:
    """Return whether the request of a client has the turns of a conversation that it is given, and no earlier ones."""
    turns = _ANSWERED_CALL if shape.takes("tools") else _EARLIER_TURN
    request = ChatRequest(shape.model, (_GREETING,), tools=(PROBE_TOOL,) if shape.takes("tools") else ())

    def send_both(url: str) -> None:
        with closing(ShapedClient(shape, Endpoint(url, "no-key"), shape.model)) as client:
            client.chat(request)
            client.chat(replace(request, messages=turns))

    requests = requests_with_steps(send_both, api, [ModelStep(text=PROBE_TEXT)])
    sent = [[type(part) for turn in request.turns for part in turn.parts] for request in requests]
    expected = [TextView, CallView, ResultView] if request.tools else [TextView] * len(turns)
    return sent[1:] == [expected]


def _is_passed_through(shape: ClientShape, seen: FirstRequest) -> bool:
    """Return whether a client passed its messages on unchanged, although the API has another format."""
    form = shape.tool_form or shape.form
    if form.name in FOREIGN_FORMS and not shape.is_sdk:
        return form.name != seen.api
    if shape.form is not OPENAI or seen.api == OPENAI.name:
        return False
    if seen.api == GEMINI.name and not re.search(rb'"contents"\s*:\s*\[\s*\{[^\]}]*"parts"\s*:\s*\[\s*\{', seen.body):
        return True
    return bool(re.search(rb'"function"\s*:', seen.body))


def _signature(name: str, value: object) -> str:
    return f"{name.partition(':')[2]}{inspect.signature(cast('Callable[..., Any]', value))}"


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):
        found = recognise_here(sys.argv[1], sys.argv[3])
    Path(sys.argv[2]).write_text(json.dumps(asdict(found)), encoding="utf-8")
