"""Template for an adapter: OpenAI Chat over plain HTTP. It passes the check unchanged. The comments mark the place for
your library.

Check it with `harness check my_adapter:ADAPTER`.
"""

from typing import Any

import httpx2

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, bridge


class ModelClient:
    """A client of one model, which lives for one conversation.

    Keep your library's state here: `bridge.Memory` maps the harness's messages to your library's own.
    """

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        # Your library has to send every request to this base URL, and one per chat: switch its retries off, or
        # declare Capability.RETRIES.
        headers = {"authorization": f"Bearer {endpoint.api_key}"}
        self._http = httpx2.Client(base_url=endpoint.base_url, headers=headers, timeout=600)
        self._model = model

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Send one request to the model, with the whole conversation."""
        body: dict[str, Any] = {
            "model": request.model or self._model,
            # In OpenAI's form, which most libraries accept. OpenAI rejects longer ids, which other APIs issue.
            "messages": bridge.messages(request, system="developer", longest_id=64),
            "max_completion_tokens": request.max_tokens,
        }
        if request.tools:
            body |= {"tools": bridge.tools(request), "reasoning_effort": "none"}
        # Turns your library's exceptions into errors of the harness, by their HTTP status.
        with bridge.failures():
            reply = self._http.post("chat/completions", json=body)  # your library's call
            reply.raise_for_status()
            return bridge.response(reply.json(), request)  # a completion of OpenAI's form, an object or a dictionary

    def close(self) -> None:
        """Close the client."""
        self._http.close()


# Only declared capabilities are used. Declare more as they work: the check reports undeclared ones that work, and
# declared ones that do not. `streaming` needs a method `stream` (`bridge.events` makes its events).
CAN = frozenset(map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "history", "truncation")))

# The second word is the API that goes over the wire: anthropic, openai-chat, openai-responses or gemini.
ADAPTER = Adapter("my-adapter", "openai-chat", CAN, ModelClient)
