"""Text generation from a prompt by any chat client, for callers that need neither tools nor a history."""

from __future__ import annotations

from harness.kit.client import AsyncClosing, Closing
from harness.model.messages import ChatRequest, ChatResponse, Message
from harness.model.protocols import AsyncChatClient, Capability, ChatClient, Generation


class _Prompted:
    """Default model, system prompt, name and capabilities.

    `model` is used for prompts that do not name a model; if it is empty, the client uses its default. `name` and
    `capabilities` are the client's. They are empty for clients without them, such as those that adapters create.
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


class ChatGeneration(_Prompted, Closing):
    """A `harness.model.protocols.GenerationProvider` that sends a prompt as one chat. `with` closes the client."""

    def __init__(self, client: ChatClient, *, model: str = "", system: str | None = None) -> None:
        super().__init__(client, model, system)
        self._client = client

    def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """See `harness.model.protocols.GenerationProvider.generate`."""
        return _generation(self._client.chat(self._request(prompt, model, max_tokens)))

    def close(self) -> None:
        """Close the chat client."""
        self._client.close()


class AsyncChatGeneration(_Prompted, AsyncClosing):
    """A `harness.model.protocols.AsyncGenerationProvider` that sends each prompt as one chat."""

    def __init__(self, client: AsyncChatClient, *, model: str = "", system: str | None = None) -> None:
        super().__init__(client, model, system)
        self._client = client

    async def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """See `harness.model.protocols.GenerationProvider.generate`."""
        return _generation(await self._client.chat(self._request(prompt, model, max_tokens)))

    async def close(self) -> None:
        """Close the chat client."""
        await self._client.close()


def _generation(response: ChatResponse) -> Generation:
    return Generation(response.text, response.usage.input_tokens, response.usage.output_tokens)
