"""Prompt to text by any chat adapter, for callers that need no tools and no history."""

from __future__ import annotations

from typing import Self

from harness.contract.model import ChatRequest, Message
from harness.contract.protocols import Capability, ChatClient, Generation


class ChatGeneration:
    """A `harness.contract.protocols.GenerationProvider` over a chat client, which `close` closes, as `with` does.

    `model` answers where a prompt names no other (none: the client's own); `system` stands before every prompt. `name`
    and `capabilities` are those of the client, and empty over one that does not say (an adapter's own, say).
    """

    def __init__(self, client: ChatClient, *, model: str = "", system: str | None = None) -> None:
        self.name: str = getattr(client, "name", "")
        self.capabilities: frozenset[Capability] = getattr(client, "capabilities", frozenset[Capability]())
        self._client = client
        self._model = model
        self._system = system

    def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """Answer one prompt; see `harness.contract.protocols.GenerationProvider.generate`. One prompt is one chat."""
        request = ChatRequest(
            model=model or self._model,
            messages=(Message.user(prompt),),
            system=self._system,
            max_tokens=max_tokens,
        )
        response = self._client.chat(request)
        return Generation(response.text, response.usage.input_tokens, response.usage.output_tokens)

    def close(self) -> None:
        """Close the chat client."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
