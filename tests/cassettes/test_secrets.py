"""Secrets that a test's cassette has no place for, by the kinds that people have: and what looks like them stays."""

from __future__ import annotations

import base64
import json
import random
import string
from dataclasses import replace
from urllib.parse import quote, urlencode

import pytest

from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.cassette_files import loads
from harness.cassettes.tape_player import TapePlayer
from harness.cassettes.tape_recorder import brings_tokens, redactor, text
from harness.model.errors import CassetteError
from harness.model.http import Delivery, HttpRequest, HttpResponse

CHAT = "https://api.openai.com/v1/chat/completions"
TOOL = "https://crm.example.com/v1/customers"
_RANDOM = random.Random(7)  # noqa: S311 - the same in every run
BASE62 = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
SECRET = "Zq8-vT3kLm92_xPd"


def drawn(length: int, alphabet: str = BASE62) -> str:
    return "".join(_RANDOM.choices(alphabet, k=length))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def chat(said: str) -> HttpRequest:
    body = {"model": "gpt-5.6", "messages": [{"role": "user", "content": said}]}
    return HttpRequest("POST", CHAT, {"content-type": "application/json"}, json.dumps(body).encode())


def answer(said: str) -> HttpResponse:
    message = {"role": "assistant", "content": said}
    body = {"id": "chatcmpl-1", "model": "gpt-5.6", "choices": [{"index": 0, "message": message}]}
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode())


def stored(*exchanges: tuple[HttpRequest, HttpResponse]) -> str:
    return text(Cassette(tuple(Interaction(*each) for each in exchanges)), "A note.", "a.yaml").decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("APIKEY", SECRET),
        ("OPENAI_API_KEY_2", SECRET),
        ("GITHUB_PAT", SECRET),
        ("DB_PASS", SECRET),
        ("MYSQL_PWD", SECRET),
        ("AUTH", SECRET),
        ("PGPASSWORD", SECRET),
        ("crmToken", SECRET),
        ("SENTRY_DSN", f"https://{SECRET}@o1.ingest.sentry.io/2"),
        ("SLACK_WEBHOOK_URL", f"https://hooks.slack.com/services/T1/B1/{SECRET}"),
        ("DATABASE_URL", f"postgres://app:{SECRET}@db/app"),
        ("BROKER", f"amqp://app:{quote(SECRET)}@mq"),
        ("STORAGE", f"Server=db;User=app;Password={SECRET};"),
        (
            "GCP_ACCOUNT",
            json.dumps({"type": "service_account", "private_key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}"}),
        ),
    ],
)
def test_a_secret_variable_is_recognised_by_its_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)

    assert SECRET not in stored((chat(f"use {SECRET}"), answer(f"used {SECRET}")))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/home/me/project-7"),
        ("MAX_TOKENS", "4096-tokens"),
        ("TOKENIZERS_PARALLELISM", "disabled"),
        ("AUTH_METHOD", "kerberos-5"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/keys/account.json"),
        ("POSTGRES_PASSWORD", "postgres"),
        ("HOTKEY", "control-alt-7"),
        ("HOMEPAGE", "https://example.com/project-7"),
    ],
)
def test_the_value_of_another_variable_stays(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)

    assert f"use {value} now" in stored((chat(f"use {value} now"), answer("Done.")))


HEADERS = (
    "apikey",
    "x-auth",
    "x-session-id",
    "x-credentials",
    "x-signature",
    "x-api-token",
    "cookie",
    "x-amz-security-token",
)


@pytest.mark.parametrize("name", HEADERS)
def test_a_secret_header_is_recognised_by_its_name(name: str) -> None:
    sent = replace(chat(f"use {SECRET}"), headers={name: f"sid={SECRET}" if name == "cookie" else SECRET})

    assert SECRET not in stored((sent, answer(SECRET)))


def test_the_value_of_another_header_stays_where_it_is_repeated() -> None:
    sent = replace(chat("use application/json and trace-0123456789"), headers={"traceparent": "trace-0123456789"})

    assert "use application/json and trace-0123456789" in stored((sent, answer("Done.")))


@pytest.mark.parametrize(
    "name", ["client_secret", "refresh_token", "code", "jwt", "X-Amz-Signature", "sig", "apiKey", "X-Goog-Signature"]
)
def test_a_secret_parameter_is_recognised_by_its_name(name: str) -> None:
    sent = HttpRequest("GET", f"{TOOL}?{name}={SECRET}&limit=3")
    moved = HttpResponse(302, {"location": f"{TOOL}?{name}={SECRET}&limit=3"})

    reported = stored((sent, moved), (chat(f"use {SECRET}"), answer("Done.")))

    assert SECRET not in reported
    assert reported.count("limit=3") == 2


@pytest.mark.parametrize(
    "pair", ["page_token=CAUQAA-12345678", "code=EUR", "max_tokens=100000000", "token_type=bearer-mac"]
)
def test_another_parameter_stays(pair: str) -> None:
    assert f"?{pair}" in stored((HttpRequest("GET", f"{TOOL}?{pair}"), HttpResponse(204)))


SHAPES = {
    "Slack": f"xoxb-{drawn(12, string.digits)}-{drawn(12, string.digits)}-{drawn(24)}",
    "Slack's webhook": f"https://hooks.slack.com/services/T{drawn(8)}/B{drawn(8)}/{drawn(24)}",
    "Stripe": f"sk_live_{drawn(24)}",
    "Telegram": f"{drawn(10, string.digits)}:AA{drawn(33)}",
    "Telegram's address": f"https://api.telegram.org/bot{drawn(10, string.digits)}:AA{drawn(33)}/getMe",
    "JWT": f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded({'sub': '12'})}.{drawn(43)}",
    "PEM": f"-----BEGIN RSA PRIVATE KEY-----\n{drawn(64)}\n{drawn(64)}\n-----END RSA PRIVATE KEY-----",
    "Google": f"GOCSPX-{drawn(28)} 1//0{drawn(50)}",
    "AWS": f"ASIA{drawn(16, string.ascii_uppercase[:20] + '234567')} IQoJb3JpZ2luX2Vj{drawn(200)}",
    "SendGrid": f"SG.{drawn(22)}.{drawn(43)}",
    "a password in an address": f"postgres://app:{drawn(12)}@db.example.com/app",
    "a signed address": f"https://b.s3.amazonaws.com/a?X-Amz-Signature={drawn(64, HEX)}",
}


def pieces_of(said: str) -> list[str]:
    """What of a secret must not be there: its random parts."""
    return [
        part
        for part in said.replace("/", " ").replace("@", " ").replace("=", " ").replace(":", " ").split()
        if len(part) > 30
    ]


@pytest.mark.parametrize("said", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("nested", [False, True])
def test_what_has_the_shape_of_a_key_goes_from_prompts_and_results(said: str, nested: bool) -> None:
    reported = json.dumps({"result": said}) if nested else f"it is {said}, they say"
    deltas = [
        {"choices": [{"index": 0, "delta": {"content": reported[at : at + 9]}}]} for at in range(0, len(reported), 9)
    ]
    stream = "".join(f"data: {json.dumps(each)}\n\n" for each in deltas).encode()

    for response in (answer(reported), HttpResponse(200, {"content-type": "text/event-stream"}, stream, Delivery())):
        clean = stored((chat(reported), response))

        flat = clean.replace("\\n", " ").replace("\n", "")
        assert "REDACTED" in clean
        assert not [part for part in pieces_of(said) if part in flat]


BENIGN = (
    "claude-fable-5-2-20260801 and models/gemini-3-pro",
    f"toolu_01{drawn(22)} call_{drawn(24)} fc_{drawn(48, HEX)} resp_{drawn(48, HEX)}",
    "550e8400-e29b-41d4-a716-446655440000",
    f"{drawn(40, HEX)} sha256:{drawn(64, HEX)}",
    "The token is a word; a secret is kept, and the password is on the sticky note.",
    "data:image/png;base64," + base64.b64encode(_RANDOM.randbytes(20_000)).decode(),
    "https://example.com/?page_token=CAUQAA1234567890abcdef&code=EUR https://user:password@host/",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx AKIAIOSFODNN7EXAMPLE 12:34:56",
    "arn:aws:iam::123456789012:role/reader",
)


@pytest.mark.parametrize("said", BENIGN)
def test_what_only_looks_like_a_key_stays(said: str) -> None:
    clean = redactor().request(chat(said))
    assert clean.body == chat(said).body


@pytest.mark.parametrize("key", ["signature", "thoughtSignature", "encrypted_content", "data"])
def test_what_only_the_provider_can_read_stays(key: str) -> None:
    opaque = json.dumps({"contents": [{"parts": [{"text": "a", key: SHAPES["JWT"]}]}]}).encode()
    chosen = json.dumps({"messages": [{"content": [{"input": {key: SHAPES["JWT"]}}]}]}).encode()

    assert redactor().body(opaque) == opaque
    assert redactor().body(chosen) != chosen


TOKENS = {"access_token": drawn(30), "refresh_token": drawn(30), "token_type": "Bearer", "expires_in": 3600}
EXCHANGES = {
    "OAuth": (
        HttpRequest(
            "POST",
            "https://id.example.com/oauth2/token",
            {"content-type": "application/x-www-form-urlencoded"},
            urlencode({"grant_type": "refresh_token", "client_id": drawn(20), "assertion": drawn(30)}).encode(),
        ),
        HttpResponse(200, {"content-type": "application/json"}, json.dumps(TOKENS).encode()),
    ),
    "a login": (
        HttpRequest("POST", f"{TOOL}/login", {}, json.dumps({"user": drawn(12), "pin": drawn(12)}).encode()),
        HttpResponse(200, {}, json.dumps({"bearer": drawn(30), "user": {"name": drawn(20)}}).encode()),
    ),
    "STS": (
        HttpRequest(
            "POST",
            "https://sts.amazonaws.com/",
            {},
            b"Action=AssumeRole&Version=2011-06-15&RoleArn=" + drawn(30).encode(),
        ),
        HttpResponse(
            200,
            {"content-type": "text/xml"},
            f"<R><C><SecretAccessKey>{drawn(40)}</SecretAccessKey><SessionToken>{drawn(90)}</SessionToken></C></R>".encode(),
        ),
    ),
    "an answer": (
        HttpRequest("GET", f"{TOOL}/me"),
        HttpResponse(200, {}, json.dumps({"data": {"accessToken": drawn(30), "note": drawn(30)}}).encode()),
    ),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_of_an_exchange_that_brings_tokens_only_the_form_stays(name: str) -> None:
    request, response = EXCHANGES[name]
    random_parts = [part for part in _words(request.body + response.body) if len(part) >= 12 and not part.isalpha()]
    brought = random_parts[-1]

    reported = stored((request, response), (chat(f"use {brought}"), answer("Done.")))

    assert brings_tokens(Interaction(request, response))
    assert not [part for part in random_parts if part in reported]
    assert "use REDACTED" in reported
    for form in ("grant_type=refresh_token", "expires_in", "Action=AssumeRole", "SecretAccessKey"):
        assert (form in reported) == (form.encode() in request.body + response.body)


def _words(body: bytes) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in body.decode()).split()


def test_fields_of_other_services_are_recognised_by_name_and_replayed_with_any_value() -> None:
    def asked(secret: str) -> HttpRequest:
        return HttpRequest("POST", TOOL, {}, json.dumps({"apiKey": secret, "name": "Ada", "key": "name"}).encode())

    response = HttpResponse(200, {}, b'{"webhook_secret": "short", "name": "Ada"}')
    data = stored((asked(SECRET), response))

    assert SECRET not in data
    assert "short" not in data
    assert data.count("Ada") == 2
    player = TapePlayer(loads(data.encode(), "a.yaml"), lambda _: True, redactor)
    found = player.handle(asked("another"))
    assert found is not None
    assert found.status == 200
    assert player.exchanges[0].differences == ()
    assert not brings_tokens(Interaction(asked(SECRET), response))
    count = HttpRequest(
        "POST", "https://api.anthropic.com/v1/messages/count_tokens", {}, b'{"model": "claude-fable-5"}'
    )
    assert not brings_tokens(Interaction(count, HttpResponse(200, {}, b'{"input_tokens": 3}')))


def calling(arguments: object, result: object) -> tuple[HttpRequest, HttpResponse]:
    call = {"id": "call_1", "type": "function", "function": {"name": "sign_in", "arguments": json.dumps(arguments)}}
    messages = [
        {"role": "user", "content": "Sign in."},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(result)},
    ]
    again = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}
    response = {"id": "chatcmpl-1", "model": "gpt-5.6", "choices": [again]}
    body = json.dumps({"model": "gpt-5.6", "messages": messages}).encode()
    return HttpRequest("POST", CHAT, {}, body), HttpResponse(200, {}, json.dumps(response).encode())


@pytest.mark.parametrize(
    ("exchange", "place"),
    [
        (calling({}, {"user": {"password": "hunter2xyz"}}), "request 0 /messages/2/content/user/password (password)"),
        (
            calling({"api_key": "k3y-abcdef"}, {}),
            "request 0 /messages/1/tool_calls/0/function/arguments/api_key (api_key)",
        ),
        ((chat("Hi."), calling({"dbPassword": "hunter2xyz"}, {})[1]), "response 0 call 0 /dbPassword (dbPassword)"),
        ((chat("Hi."), answer("Your API key: k3Y-abcdef99.")), "response 0 text (API key)"),
        (
            (chat("set CRM_SECRET=k3Y-abcdef99"), answer("Done.")),
            "request 0 /messages/0/content (set CRM_SECRET)",
        ),
    ],
)
def test_what_looks_like_a_secret_in_a_conversation_is_refused_unless_its_place_is_allowed(
    exchange: tuple[HttpRequest, HttpResponse], place: str
) -> None:
    cassette = Cassette((Interaction(*exchange),))
    with pytest.raises(CassetteError) as refused:
        text(cassette, "A note.", "tests/cassettes/test_a/test_b.yaml")

    bare = place.partition(" (")[0]
    assert f"test_a/test_b {place}" in str(refused.value)
    assert f"--harness-allow-secret 'test_a/test_b {bare}'" in str(refused.value)
    with pytest.raises(CassetteError):
        text(cassette, "A note.", "tests/cassettes/test_a/test_b.yaml", ["test_a/test_c *"])
    for allowed in (f"test_a/test_b {bare}", "test_a/*"):
        assert text(cassette, "A note.", "tests/cassettes/test_a/test_b.yaml", [allowed])


@pytest.mark.parametrize(
    "exchange",
    [
        calling(
            {"token": "short", "key": "customer-1234567", "password": "<your-password-1>"}, {"token_count": 123456789}
        ),
        calling({"next_token": "CAUQAA12345678"}, {"key": "550e8400-e29b-41d4-a716-446655440000"}),
        calling({"secret_name": "projects/a/secrets/b1"}, {"password": "forgotten", "api_key": "sk-xxxxxxxxxxxxxxxx1"}),
        (
            chat("password: str = os.environ['PASSWORD_1'] and token: int(length_12345) and api_key=value"),
            answer("Key: yes."),
        ),
    ],
)
def test_what_is_no_secret_in_a_conversation_is_recorded(exchange: tuple[HttpRequest, HttpResponse]) -> None:
    assert stored(exchange)
