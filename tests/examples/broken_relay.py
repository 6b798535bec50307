"""Adapters of Relay with a fault each."""

from collections.abc import Callable
from dataclasses import replace

from relay.adapter import ADAPTER, Client

from harness.model.messages import ChatRequest, Message, ToolResult
from harness.model.protocols import Adapter

Results = tuple[ToolResult, ...]


def swapped(results: Results) -> Results:
    """Each result goes to the next call."""
    ids = [result.call_id for result in results]
    return tuple(replace(result, call_id=call_id) for result, call_id in zip(results, ids[1:] + ids[:1], strict=True))


def with_fault(name: str, fault: Callable[[Results], Results]) -> Adapter:
    class Faulty(Client):
        def body(self, request: ChatRequest) -> dict[str, object]:
            messages = [
                Message(message.role, fault(message.tool_results)) if message.tool_results else message
                for message in request.messages
            ]
            return super().body(replace(request, messages=tuple(messages)))

    return replace(ADAPTER, name=name, connect=Faulty)


SWAPPED = with_fault("swapped", swapped)
FORGETFUL = with_fault("forgetful", lambda results: results[:-1])
