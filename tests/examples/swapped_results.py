"""Example of a broken adapter: it swaps the results of parallel calls.

Try it with `harness run --mode reference call-parallel-same-tool --adapter tests.examples.swapped_results:ADAPTER`.
"""

from dataclasses import replace

from harness.model.messages import ChatRequest, ChatResponse, Message
from harness.model.protocols import Adapter
from tests.examples import plain_http


class Client(plain_http.Client):
    def chat(self, request: ChatRequest) -> ChatResponse:
        return super().chat(replace(request, messages=tuple(map(swapped, request.messages))))


def swapped(message: Message) -> Message:
    results = message.tool_results
    if len(results) < 2:
        return message
    contents = [result.content for result in reversed(results)]
    return Message(message.role, tuple(replace(r, content=c) for r, c in zip(results, contents, strict=True)))


ADAPTER = Adapter("swapped-results", plain_http.ADAPTER.api, plain_http.ADAPTER.capabilities, Client)
