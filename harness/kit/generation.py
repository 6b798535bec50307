"""Prompt to text by any chat adapter, for callers that need no tools and no history."""

from __future__ import annotations

from typing import Self

from harness.contract.model import ChatRequest, ChatResponse, Message
from harness.contract.protocols import AsyncChatClient, Capability, ChatClient, Generation


class _Prompted:
    """What is asked, and what comes of an answer.

    `model` answers where a prompt names no other (none: the client's own); `system` stands before every prompt. `name`
    and `capabilities` are those of the client, and empty over one that does not say (an adapter's own, say).
    """

    def __init__(self, client: ChatClient | AsyncChatClient, model: str, system: str | None) -> None:
        self.name: str = getattr(client, "name", "")
        self.capabilities: frozenset[Capability] = getattr(client, "capabilities", frozenset[Capability]())
        self._model = model
        self._system = system

    def _request(self, prompt: str, model: str | None, max_tokens: int | None) -> ChatRequest:
        return ChatRequest(
            model=model or self._model,
            messages=(Message.user(prompt),),
            system=self._system,
            max_tokens=max_tokens,
        )


class ChatGeneration(_Prompted):
    """A `harness.contract.protocols.GenerationProvider` over a chat client, which `close` closes, as `with` does."""

    def __init__(self, client: ChatClient, *, model: str = "", system: str | None = None) -> None:
        super().__init__(client, model, system)
        self._client = client

    def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """Answer one prompt; see `harness.contract.protocols.GenerationProvider.generate`. One prompt is one chat."""
        return _generation(self._client.chat(self._request(prompt, model, max_tokens)))

    def close(self) -> None:
        """Close the chat client."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncChatGeneration(_Prompted):
    """`ChatGeneration` for asynchronous callers: a `harness.contract.protocols.AsyncGenerationProvider`, closed by
    `async with`."""

    def __init__(self, client: AsyncChatClient, *, model: str = "", system: str | None = None) -> None:
        super().__init__(client, model, system)
        self._client = client

    async def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """Answer one prompt; see `ChatGeneration.generate`."""
        return _generation(await self._client.chat(self._request(prompt, model, max_tokens)))

    async def close(self) -> None:
        """Close the chat client."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


def _generation(response: ChatResponse) -> Generation:
    return Generation(response.text, response.usage.input_tokens, response.usage.output_tokens)
