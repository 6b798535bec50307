from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from harness.apis import registry
from harness.kit.processes import LocalRunner
from harness.model.protocols import AsyncChatClient, ChatClient, Endpoint
from harness.stdio import adapter_specs


@pytest.mark.parametrize("shipped", registry.targets(), ids=lambda shipped: shipped.name)
def test_the_shipped_clients_are_synchronous_chat_clients(shipped: object) -> None:
    adapter = adapter_specs.adapter(shipped.adapter)  # type: ignore[attr-defined]
    endpoint = Endpoint("http://127.0.0.1:9", "key", processes=LocalRunner())
    client = adapter.connect(endpoint, shipped.model)  # type: ignore[attr-defined]
    try:
        assert isinstance(client, ChatClient | AsyncChatClient)
        assert not inspect.iscoroutinefunction(client.chat)
    finally:
        client.close()


def test_something_without_chat_is_no_client() -> None:
    assert not isinstance(object(), ChatClient)


def test_the_protocols_cost_no_import() -> None:
    script = (
        "import sys; before = set(sys.modules); import harness.model.protocols; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "['harness']\n"
