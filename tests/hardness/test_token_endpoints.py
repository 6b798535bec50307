"""Exchanges with token endpoints in a test's cassette: their values are gone, and those of other services stay."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from random import Random
from urllib.parse import urlencode

import pytest

from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.tape_recorder import text
from harness.model.http import HttpRequest, HttpResponse
from tests.hardness.canaries import BASE62

ENDPOINTS = (
    "https://id.example.com/oauth2/token",
    "https://login.microsoftonline.com/common/oauth2/v2.0/token",
    "https://oauth2.googleapis.com/token",
    "https://crm.example.com/login",
    "https://sts.amazonaws.com/",
    "https://auth.example.com/api/session",
)
GRANTS = ("refresh_token", "authorization_code", "client_credentials", "password", "device_code")
ASKED = ("client_id", "client_assertion", "code", "code_verifier", "device", "pin", "assertion", "subject_token")
BROUGHT = ("access_token", "refresh_token", "id_token", "bearer", "ticket", "note", "session", "device_secret")
ENCODERS: tuple[Callable[[Mapping[str, str]], bytes], ...] = (
    lambda fields: urlencode(fields).encode(),
    lambda fields: json.dumps(fields).encode(),
    lambda fields: json.dumps({"data": {"items": [fields]}}).encode(),
    lambda fields: f"<R>{''.join(f'<{name}>{value}</{name}>' for name, value in fields.items())}</R>".encode(),
)


def exchange(random: Random) -> tuple[Interaction, list[str], str]:
    """Return an exchange of one token endpoint, every random value in it, and a token that it brings."""

    def drawn(names: tuple[str, ...]) -> dict[str, str]:
        chosen = random.sample(names, random.randint(1, 4))
        return {name: "".join(random.choices(BASE62, k=random.randint(12, 60))) for name in chosen}

    asked, brought = drawn(ASKED), drawn(BROUGHT)
    request_body = ENCODERS[random.randrange(2)]({"grant_type": random.choice(GRANTS), **asked})
    response_body = random.choice(ENCODERS)({"token_type": "Bearer", **brought})
    return (
        Interaction(
            HttpRequest("POST", random.choice(ENDPOINTS), {}, request_body), HttpResponse(200, {}, response_body)
        ),
        [*asked.values(), *brought.values()],
        next((value for value in brought.values() if len(value) >= 24 and not value.isalpha()), "no token"),
    )


def leaks(seed: int) -> list[str]:
    interaction, values, token = exchange(Random(seed))  # noqa: S311 - the same in every run
    later = {"messages": [{"role": "user", "content": f"Use {token}."}], "model": "gpt-5.6"}
    chat = HttpRequest("POST", "https://api.openai.com/v1/chat/completions", {}, json.dumps(later).encode())
    made = text(Cassette((interaction, Interaction(chat, HttpResponse(200, {}, b"{}")))), "A note.", "a.yaml").decode()
    assert "POST" in made, "the exchange itself is stored"
    return [f"seed {seed}: {value} of {interaction.request.url}" for value in values if value in made]


def test_30_exchanges_of_token_endpoints_keep_only_their_form() -> None:
    assert [leak for seed in range(30) for leak in leaks(seed)] == []


@pytest.mark.long
def test_2000_exchanges_of_token_endpoints_keep_only_their_form(capsys: pytest.CaptureFixture[str]) -> None:
    found = [leak for seed in range(2000) for leak in leaks(seed)]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join([f"2000 exchanges with token endpoints: {len(found)} leaks", *found]) + "\n")
    assert found == []


@pytest.mark.parametrize("path", ["/v1/customers", "/v1/tokenizers", "/blog/oauth2-explained"])
def test_an_exchange_with_another_service_stays_whole(path: str) -> None:
    request = HttpRequest("POST", f"https://crm.example.com{path}", {}, b'{"customer": "Zq8vT3kLm92xPdAb41"}')
    response = HttpResponse(200, {}, b'{"order": "Kd83jfLw02mQvBn6yHs"}')
    made = text(Cassette((Interaction(request, response),)), "A note.", "a.yaml").decode()
    assert "Zq8vT3kLm92xPdAb41" in made
    assert "Kd83jfLw02mQvBn6yHs" in made
