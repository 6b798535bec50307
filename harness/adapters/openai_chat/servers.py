"""Compatible servers for which this adapter changes or refuses requests that it would send to OpenAI unchanged.

`Endpoint.server` names the server. Each entry lists the facts that it is based on; `harness explain ID` shows them.
"""

from __future__ import annotations

import hashlib
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.messages import JSON

_API = "openai-chat"
_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class ServerForm:
    """Differences of a server from OpenAI.

    - `lacks`: features that it refuses: `stop`, `temperature`, `json_schema`, `json_object`, a `forced` or `named` tool
      choice, calls of `custom` tools, or parts of the type `image_url`, `file` or `input_audio`.
    - `max_tokens`: it accepts `max_tokens` instead of `max_completion_tokens`.
    - `one_system`: it accepts only one system message.
    - `reply_after_results`: it refuses a user message directly after tool results.
    - `call_id`: length of the call ids that it accepts, made of letters and digits (0: any id).
    - `text_required`: it refuses assistant messages that have neither text nor calls.
    - `reasoning_with_calls`: it requires `reasoning_content` in assistant messages with calls. The field may be empty.
    """

    lacks: frozenset[str] = frozenset()
    max_tokens: bool = False
    one_system: bool = False
    reply_after_results: bool = False
    call_id: int = 0
    text_required: bool = False
    reasoning_with_calls: bool = False


SERVERS = {
    # openai-chat-deepseek-response-format-json-schema, openai-chat-deepseek-choice-thinking-absent,
    # openai-chat-deepseek-text-only, openai-chat-deepseek-reasoning-back
    "deepseek": ServerForm(
        frozenset({"json_schema", "forced", "named", "image_url", "file", "input_audio"}), reasoning_with_calls=True
    ),
    # openai-chat-moonshot-k3-named-choice, openai-chat-moonshot-temperature-fixed-thinking-absent,
    # openai-chat-moonshot-assistant-empty
    "moonshot": ServerForm(frozenset({"named", "temperature"}), text_required=True),
    "minimax": ServerForm(one_system=True),  # openai-chat-minimax-one-system
    # openai-chat-mistral-user-after-tool, openai-chat-mistral-max-completion-tokens-refused,
    # openai-chat-mistral-call-id
    "mistral": ServerForm(max_tokens=True, reply_after_results=True, call_id=9),
    "xai": ServerForm(frozenset({"stop"})),  # openai-chat-xai-stop-refused
    "vllm": ServerForm(one_system=True),  # openai-chat-vllm-qwen-system-first
    # openai-chat-sglang-content-parts, openai-chat-vllm-qwen-system-first, openai-chat-sglang-call-type
    "sglang": ServerForm(frozenset({"file", "input_audio", "custom"}), one_system=True),
    # openai-chat-llama-cpp-content-types, openai-chat-llama-cpp-qwen-system-first
    "llama-cpp": ServerForm(frozenset({"file"}), one_system=True),
    "ollama": ServerForm(frozenset({"file", "input_audio"})),  # openai-chat-ollama-content-parts
    # openai-chat-lm-studio-choice, openai-chat-lm-studio-json-object-refused
    "lm-studio": ServerForm(frozenset({"named", "json_object"})),
}


def adapt(body: dict[str, Any], server: str) -> dict[str, Any]:
    """Return a request body in the form that a server accepts.

    Raises:
        Unsupported: the body has a feature that the server refuses, and no other form would express it.
    """
    form = SERVERS.get(server)
    if form is None:
        return body
    for name in sorted(_present(body) & form.lacks):
        raise Unsupported(_API, name, f"{server} refuses it")
    adapted = dict(body)
    if form.max_tokens and "max_completion_tokens" in adapted:
        adapted["max_tokens"] = adapted.pop("max_completion_tokens")
    if form.one_system:
        adapted["messages"] = _with_one_system_message(adapted["messages"])
    if form.reply_after_results:
        adapted["messages"] = [*_with_replies(adapted["messages"])]
    if form.call_id:
        adapted["messages"] = with_accepted_ids(adapted["messages"], server)
    if form.text_required:
        adapted["messages"] = [each for each in adapted["messages"] if not _is_empty_answer(each)]
    if form.reasoning_with_calls:
        added = {"reasoning_content": ""}
        adapted["messages"] = [added | each if each.get("tool_calls") else each for each in adapted["messages"]]
    return adapted


def with_accepted_ids(messages: list[Any], server: str | None) -> list[Any]:
    """Return messages with call ids that a server accepts, instead of those that another provider issued. Objects of an
    SDK are returned unchanged.
    """
    form = SERVERS.get(server or "", ServerForm())
    is_any = not form.call_id
    return [each if is_any or not isinstance(each, dict) else _with_ids({**each}, form.call_id) for each in messages]


def _present(body: dict[str, Any]) -> set[str]:
    """Return the features that a body uses, by the names that are used in `ServerForm.lacks`."""
    found = body.keys() & {"stop", "temperature"}
    choice: JSON = body.get("tool_choice")
    schema: dict[str, JSON] = body.get("response_format") or {}
    found |= {"named"} if isinstance(choice, dict) else {"forced"} if choice == "required" else set()
    found |= {str(schema.get("type"))}
    found |= {str(call.get("type")) for message in body["messages"] for call in message.get("tool_calls", ())}
    contents = (message["content"] for message in body["messages"] if isinstance(message.get("content"), list))
    return found.union(*({str(part["type"]) for part in content} for content in contents))


def _is_empty_answer(message: dict[str, Any]) -> bool:
    return message["role"] == "assistant" and not message.get("content") and not message.get("tool_calls")


def _with_one_system_message(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the system messages at the start of the conversation into one."""
    count = next((at for at, message in enumerate(messages) if message["role"] not in ("system", "developer")), 0)
    if count < 2:
        return messages
    text = "\n\n".join(message["content"] for message in messages[:count])
    return [{**messages[0], "content": text}, *messages[count:]]


def _with_replies(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Put a reply between tool results and the user's next message."""
    before = ""
    for message in messages:
        if before == "tool" and message["role"] == "user":
            yield {"role": "assistant", "content": "OK"}
        before = message["role"]
        yield message


def _with_ids(message: dict[str, Any], length: int) -> dict[str, Any]:
    """Replace ids that the server refuses. The same id always gets the same replacement."""
    adapted = dict(message)
    if "tool_call_id" in message:
        adapted["tool_call_id"] = _short_id(message["tool_call_id"], length)
    if "tool_calls" in message:
        adapted["tool_calls"] = [{**call, "id": _short_id(call.get("id"), length)} for call in message["tool_calls"]]
    return adapted


def _short_id(call_id: JSON, length: int) -> JSON:
    if not isinstance(call_id, str) or (len(call_id) == length and all(each in _ALPHABET for each in call_id)):
        return call_id
    digest = hashlib.sha256(call_id.encode(errors="surrogatepass")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:length])
