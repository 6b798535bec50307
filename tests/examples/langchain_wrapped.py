"""LangChain as an adapter for Anthropic: a wrapper of a library with messages of its own.

Try it with `harness check tests.examples.langchain_wrapped:ANTHROPIC`, where langchain-anthropic is installed.
"""

from collections.abc import Iterator
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, message_chunk_to_message

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, StreamEvent, bridge


class Client:
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        where = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "max_retries": 0}
        self._model = ChatAnthropic(model=model, **where)
        self._memory = bridge.Memory()

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            answer = self._bound(request).invoke(self._messages(request))
        return bridge.response(told(answer, calls(answer)), request, self._memory, own=answer)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        made, whole = bridge.Chunks(request), None
        with bridge.failures():
            for chunk in self._bound(request).stream(self._messages(request)):
                whole = chunk if whole is None else whole + chunk
                pieces = [
                    {**each, "function": {"name": each["name"], "arguments": each["args"]}}
                    for each in chunk.tool_call_chunks
                ]
                yield from made.add(told(chunk, pieces, "delta"))
            made.check()
        answer = message_chunk_to_message(whole)
        yield from made.end(bridge.response(told(answer, calls(answer)), request, self._memory, own=answer))

    def close(self) -> None: ...

    def _messages(self, request: ChatRequest) -> list[Any]:
        return bridge.messages(request, self._memory, failed={"status": "error"})

    def _bound(self, request: ChatRequest) -> Any:
        settings = {"max_tokens": request.max_tokens, "temperature": request.temperature, "top_p": request.top_p}
        settings |= {"stop": list(request.stop) or None}
        given = {name: value for name, value in settings.items() if value is not None}
        return self._model.bind_tools(bridge.tools(request), **given) if request.tools else self._model.bind(**given)


def told(said: AIMessage, made: list[dict[str, Any]], name: str = "message") -> dict[str, Any]:
    """What LangChain has of an answer, or of a piece of one, in OpenAI's form."""
    about, used = said.response_metadata, said.usage_metadata
    message = {"content": said.text, "tool_calls": made, "refusal": said.additional_kwargs.get("refusal")}
    reason = about.get("finish_reason") or about.get("stop_reason")
    usage = used and {
        "prompt_tokens": used["input_tokens"],
        "completion_tokens": used["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": used.get("input_token_details", {}).get("cache_read")},
        "completion_tokens_details": {"reasoning_tokens": used.get("output_token_details", {}).get("reasoning")},
    }
    return {"choices": [{name: message, "finish_reason": reason}], "model": about.get("model_name"), "usage": usage}


def calls(answer: AIMessage) -> list[dict[str, Any]]:
    every = [*answer.tool_calls, *answer.invalid_tool_calls]
    return [{"id": call["id"], "function": {"name": call["name"], "arguments": call["args"]}} for call in every]


CAN = frozenset(
    map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "history", "truncation", "streaming"))
)
ANTHROPIC = Adapter("langchain-anthropic", "anthropic", CAN, Client)
