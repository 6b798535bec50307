"""Description of a client without a wrapper: its constructor, its methods and the form of its requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from harness.bridge.clients.annotations import hints_of, item_class, own_classes
from harness.bridge.clients.constructors import TRIED_MODELS
from harness.bridge.clients.content_blocks import block_field
from harness.bridge.clients.forms import ANTHROPIC, GEMINI, OPENAI, OPENAI_APIS, PROMPT, RESPONSES, Form
from harness.bridge.clients.message_classes import lists_calls, marks_errors
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import ERROR_FLAG, METHODS, MODELS, OTHER_ERROR_FLAGS, SETTINGS, SYNONYMS, first_known
from harness.bridge.clients.signature_reading import reads_signatures
from harness.model.messages import JSON
from harness.model.protocols import Capability

STREAM_METHODS = ("stream", "stream_chat", "chat_stream", "stream_complete", "generate_stream", "astream", "iter_chat")

TEXT_CALLBACKS = ("on_text", "on_token", "on_delta", "on_chunk", "on_text_delta", "text_callback", "token_callback")
"""Names of parameters for a function that gets the texts of a stream."""

SDK_METHODS: Mapping[tuple[str, ...], tuple[Form, tuple[str, ...]]] = {
    ("chat", "completions", "create"): (OPENAI, ("chat", "completions", "stream")),
    ("messages", "create"): (ANTHROPIC, ("messages", "stream")),
    ("responses", "create"): (RESPONSES, ("responses", "stream")),
    ("models", "generate_content"): (GEMINI, ("models", "generate_content_stream")),
    ("generate_content",): (GEMINI, ("generate_content_stream",)),
}
"""Methods of the providers' SDKs, with their form and the method that streams."""

RESOURCE = "chat"
"""Attribute of a client that holds the methods for conversations, as in `client.chat.complete(messages)`."""

_WITHOUT_TOOLS = " (without tools, because no parameter is called 'tools')"

_UNUSED_TOOLS = " (without tools, because its code does not use the parameter {name!r})"


def is_sdk_method(method: Method) -> bool:
    """Return whether a method has the path of one in a provider's SDK. Such a method takes the model."""
    return method.path in SDK_METHODS and (method.is_open or first_known(MODELS, method.names) is not None)


@dataclass(frozen=True, slots=True)
class ClientShape:
    """The constructor and the methods of a client.

    `make` creates the client from the base URL, the key and the model. `given` maps `base_url`, `api_key` and `model`
    to the parameters of the method that accept them. `has_base_url` is unset if neither the constructor nor the method
    accepts a base URL. `model` is a model name that the constructor accepts.

    `tool_form` is the format of the tools, if it is not that of the messages. `unused_tools` is the parameter for tools
    of a function whose code does not use it.

    If `keeps_history` is set, the client stores the conversation and accepts one prompt at a time.

    `system_attribute` is the client's attribute for the system prompt, if its method has no parameter for it, and
    `default_system` the value that the constructor gives it.

    `default_settings` maps the attributes for settings of requests to the values that the constructor gives them, and
    `attribute_hints` the attributes to the annotations of the constructor.

    If the method has a parameter for the provider, it gets that of `provider_api`.

    With `is_object`, `make` returns an object of the user, or a copy that shares its HTTP client. It must stay open for
    the next conversation.
    """

    name: str
    make: Callable[[str, str, str], object]
    whole: Method
    streamed: Method | None
    form: Form
    given: Mapping[str, str]
    has_base_url: bool = True
    model: str = TRIED_MODELS[0]
    keeps_history: bool = False
    system_attribute: str | None = None
    default_system: str | None = None
    default_settings: Mapping[str, object] = field(default_factory=dict[str, object])
    attribute_hints: Mapping[str, object] = field(default_factory=dict[str, object])
    tool_form: Form | None = None
    unused_tools: str | None = None
    is_object: bool = False
    provider_api: str = ""

    def with_format(self, form: Form) -> ClientShape:
        """Return the shape of a client that gets its messages in another format. If the class of its messages has a
        list of calls, as in OpenAI's format, only the tools have the other format.
        """
        is_own = form is not OPENAI and lists_calls(self.messages_hint)
        return replace(self, tool_form=form) if is_own else replace(self, form=form)

    def for_api(self, api: str) -> ClientShape:
        """Return the shape of the client for this API.

        A client with messages in OpenAI's format may call another API itself. That API receives the client's `**params`
        unchanged. Such a client gets only the parameters that its source mentions, or that have the same name in both
        APIs.
        """
        is_openai = self.is_sdk or self.form not in (OPENAI, GEMINI) or api in OPENAI_APIS
        if is_openai or not _CALLS_ANOTHER_API.search(self.whole.module):
            return self
        streamed = None if self.streamed is None else self.streamed.without_open_parameters(api)
        return replace(self, whole=self.whole.without_open_parameters(api), streamed=streamed)

    def capabilities_for(self, api: str) -> frozenset[Capability]:
        """Return the capabilities for an API. Only that of OpenAI's responses reasons whenever it gets an effort, and
        Anthropic's gets a number of tokens.
        """
        argument = {RESPONSES.name: "effort", ANTHROPIC.name: "thinking"}.get(api)
        reasons = self.form is OPENAI and argument is not None and self.takes(argument)
        return self.capabilities | ({Capability.THINKING} if reasons else set[Capability]())

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that the parameters of the method suggest, for any API."""
        found = {
            each
            for argument, names in self.form.capabilities.items()
            if not argument or (self.takes(argument) and (argument != "thinking" or self.handles_thinking))
            for each in names
        }
        found |= {"retries"}  # the user's own HTTP client or SDK may retry
        found |= {"streaming"} if self.streamed is not None else set()
        takes_parts = self.form is not PROMPT and not own_classes(self.messages_hint)
        takes_parts = takes_parts and (self.form is not OPENAI or self.whole.reads_parts)
        takes_images = self.whole.mentions_images or self.whole.joins_parts
        found |= {"vision"} if self.is_sdk or (takes_parts and takes_images) else set()
        found |= {"json-with-tools"} if "tools" in found and {"json-mode", "json-schema"} & found else set()
        found |= {"history"} if self.keeps_history else set()
        found |= {"system-prompt"} if self.system_attribute or self.takes_system_message else set()
        return frozenset(map(Capability, found))

    @property
    def handles_thinking(self) -> bool:
        """Return whether the client is an SDK or mentions thinking. Others pass the setting on, but lose the result."""
        return self.is_sdk or not self.whole.module or "thinking" in self.whole.module

    @property
    def is_sdk(self) -> bool:
        """Return whether the method has the path of a method in a provider's SDK, so that it uses the SDK's format."""
        return is_sdk_method(self.whole)

    @property
    def passes_ids_on(self) -> bool:
        """Return whether the client is the SDK of a provider, whose caller chooses the ids of calls."""
        return self.is_sdk or (len(self.whole.path) > 1 and self.whole.path[0] == RESOURCE)

    @property
    def is_guess(self) -> bool:
        """Return whether the method was chosen only because of its parameters, not because of its name."""
        path = self.whole.path
        return bool(path) and not self.is_sdk and path[-1] not in (*METHODS, *STREAM_METHODS, "__call__")

    @property
    def needs_schema(self) -> bool:
        """Return whether the method cannot be called without a class for the answer, or takes a prompt and needs a
        schema.
        """
        needs_dictionary = first_known(SYNONYMS["json_schema"], self.whole.required) is not None
        return self.whole.format_class is not None or (self.form is PROMPT and needs_dictionary)

    @property
    def sentence(self) -> str:
        """The call that the adapter makes, as text for the user, such as `my_client:Client.chat(messages, tools)`."""
        always = [*self.given.values(), str(self.whole.parameter(self.form.messages, self.form))]
        named = [self.whole.parameter(each, self.form) for each in ("system", "config", "json_mode")]
        taken = [self.whole.parameter(each, self.form) for each in ("tools", "response_format")]
        found = dict.fromkeys([*always, *(each for each in named if each in self.whole.names), *filter(None, taken)])
        lacks = "" if self.form is PROMPT or self.takes("tools") or self.takes("config") else _WITHOUT_TOOLS
        lacks = _UNUSED_TOOLS.format(name=self.unused_tools) if self.unused_tools else lacks
        return f"{'.'.join((self.name, *self.whole.path))}({', '.join(map(str, found))}){lacks}"

    @property
    def missing_settings(self) -> list[JSON]:
        """The settings that the method has no parameter for. They are left out."""
        if self.takes("config") or self.takes("generation_config"):
            return []
        found: list[JSON] = [SETTINGS[each] for each in self.form.settings if not self.takes(each)]
        return [*found, "effort"] if self.form is ANTHROPIC and not self.takes("output_config") else found

    @property
    def marks_errors(self) -> bool:
        """Return whether the class of the client's messages can mark a result as an error."""
        return marks_errors(self.messages_hint)

    @property
    def reads_error_flag(self) -> bool:
        """Return whether the client's module reads an error flag from a dictionary. A flag of another name counts if
        the dictionary also has a role, because the error of a response has the same name.
        """
        module = self.whole.module
        others = {found[1] for found in _READS_OTHER_FLAG.finditer(module)}
        has_role = any(re.search(rf"\b{name}(?:\.get\(|\[)[\"']role[\"']", module) for name in others)
        return has_role or _READS_ERROR_FLAG.search(module) is not None

    @property
    def takes_functions(self) -> bool:
        """Return whether the method takes tools as functions by its annotation, and not also as dictionaries."""
        hint = str(self.whole.hints.get(self.whole.parameter("tools", self.form) or ""))
        return "Callable" in hint and not re.search(r"\bdict\b|\bDict\b|Mapping", hint)

    @property
    def describes_functions(self) -> bool:
        """Return whether the client makes the declarations of its tools from functions."""
        name = self.whole.parameter("tools", self.form)
        return self.takes_functions and reads_signatures(self.whole.with_imports, str(name))

    @property
    def compares_system_role(self) -> bool:
        """Return whether the client's module looks for a system prompt among the messages."""
        return COMPARES_SYSTEM_ROLE.search(self.whole.module) is not None

    @property
    def takes_system_message(self) -> bool:
        """Return whether the client takes Anthropic's messages, but the system prompt as the first of them."""
        is_elsewhere = self.is_sdk or self.takes("system") or self.system_attribute is not None
        return self.form is ANTHROPIC and not is_elsewhere and self.compares_system_role

    @property
    def messages_hint(self) -> object:
        """The annotation of the parameter for messages."""
        return self.whole.hints.get(self.whole.parameter(self.form.messages, self.form) or "")

    @property
    def lists_blocks(self) -> bool:
        """Return whether a class of the client's messages has a field of its own for a list of content blocks."""
        kinds = [item_class(self.messages_hint), *own_classes(self.messages_hint)]
        return any(block_field(hints_of(each)) is not None for each in kinds)

    @property
    def has_default_system(self) -> bool:
        """Return whether the client sends a system prompt of its own if the caller gives none."""
        return self.whole.parameter("system", self.form) in self.whole.preset or bool(self.default_system)

    @property
    def may_call_a_model(self) -> bool:
        """Return whether the client takes messages, or a prompt and a model. Other clients may send anything."""
        return self.form is not PROMPT or "model" in self.given

    def takes(self, argument: str) -> bool:
        """Return whether the method has a parameter for an argument of the client's message format, or the client an
        attribute.
        """
        return self.whole.parameter(argument, self.form) is not None or self.setting_attribute(argument) is not None

    def setting_attribute(self, argument: str) -> str | None:
        """Return the client's attribute for a setting that its method has no parameter for, or `None`."""
        if self.whole.parameter(argument, self.form) is not None or (
            argument == "thinking" and self.form not in (ANTHROPIC, OPENAI)
        ):
            return None
        return first_known(SYNONYMS.get(argument, (argument,)), frozenset(self.default_settings))


_CALLS_ANOTHER_API = re.compile(r"\.messages\.(create|stream)\b|/messages\b|[gG]enerate_?[cC]ontent")

_READS_ERROR_FLAG = re.compile(rf"get\([\"']{ERROR_FLAG}[\"']|\w\[[\"']{ERROR_FLAG}[\"']\](?!\s*=[^=])")

_READS_OTHER_FLAG = re.compile(rf"\b(\w+)(?:\.get\(|\[)[\"'](?:{'|'.join(OTHER_ERROR_FLAGS)})[\"']")

COMPARES_SYSTEM_ROLE = re.compile(r"(?:==|!=|\bin\b|\bcase\b)[^\n]{0,40}?[\"'](?:system|developer)[\"']")
"""Code that looks for a system prompt among the messages."""
