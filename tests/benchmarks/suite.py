"""The suite that the pytest-recording contender runs: a test per conversation, described by $BENCHMARK."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.benchmarks.bare import SDKS, Converse
from tests.benchmarks.conversations import Conversation

BENCHMARK: dict[str, Any] = json.loads(os.environ["BENCHMARK"])


@pytest.fixture(scope="session")
def converse() -> Converse:
    client = httpx2.Client(transport=httpx2.HTTPTransport(trust_env=False), trust_env=False)
    return SDKS[BENCHMARK["target"]](BENCHMARK["base_url"], BENCHMARK["model"], client)


@pytest.fixture(scope="session", autouse=True)
def clock(converse: Converse) -> Iterator[None]:  # which needs seconds to import the SDK
    begin = time.process_time()
    yield
    Path(BENCHMARK["clock"]).write_text(str(time.process_time() - begin))


@pytest.fixture(scope="session")
def vcr_config() -> dict[str, Any]:
    return {"match_on": ["method", "scheme", "host", "port", "path", "query", "body"]}


@pytest.fixture(scope="module")
def vcr_cassette_dir() -> str:
    return str(BENCHMARK["cassettes"])


@pytest.mark.vcr
@pytest.mark.parametrize("number", range(BENCHMARK["conversations"]))
def test_conversation(number: int, converse: Converse) -> None:
    conversation = Conversation(number)

    assert converse(conversation) == conversation.answer
