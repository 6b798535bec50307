"""Subjects and files that a command does not expect: the error names the way out."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.apis import registry
from harness.cassettes.loopback_server import serve
from harness.model.http import HttpRequest, HttpResponse
from harness.reports import finding_causes
from harness.results import RunResult, Severity, Verdict
from tests.cli.conftest import Command

CLIENT = '''
import json
from dataclasses import dataclass, field

import httpx2


@dataclass
class Call:
    id: str
    name: str
    arguments: str


@dataclass
class Reply:
    text: str
    tool_calls: list[Call]
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Client:
    def __init__(self, api_key, base_url="https://api.openai.com/v1", model="gpt-4o-mini"):
        self.model = model
        self.http = httpx2.Client(base_url=base_url, headers={"authorization": f"Bearer {api_key}"}, timeout=60)

    def complete(self, messages, tools=None) -> Reply:
        body = {"model": self.model, "messages": messages, **({"tools": tools} if tools else {})}
        data = self.http.post("/chat/completions", json=body).raise_for_status().json()
        message, usage = data["choices"][0]["message"], data["usage"]
        calls = [Call(each["id"], **each["function"]) for each in message.get("tool_calls") or []]
        return Reply(message["content"] or "", calls, *self.counts(usage))

    def close(self):
        self.http.close()

    def counts(self, usage):
        return usage["prompt_tokens"], usage["completion_tokens"]


class Miscounting(Client):
    def counts(self, usage):
        return usage["completion_tokens"], usage["prompt_tokens"]


class Uncounted(Client):
    def counts(self, usage):
        return ()


class OwnError(RuntimeError):
    pass


class Streaming(Client):
    def stream(self, messages, tools=None):
        body = {"model": self.model, "messages": messages, "stream": True, **({"tools": tools} if tools else {})}
        body["stream_options"] = {"include_usage": True}
        with self.http.stream("POST", "/chat/completions", json=body) as response:
            if response.status_code >= 400:
                raise OwnError(f"{response.status_code}: {response.read()}")
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        if choice["delta"].get("content"):
                            yield choice["delta"]["content"]


class Empty(Client):
    """Returns an empty call in place of one that was cut."""

    def complete(self, messages, tools=None):
        reply = super().complete(messages, tools)
        reply.tool_calls = [Call(each.id, each.name, self.read(each.arguments)) for each in reply.tool_calls]
        return reply

    def read(self, arguments):
        try:
            return json.loads(arguments)
        except ValueError:
            return {}


class Raising(Empty):
    def read(self, arguments):
        try:
            return json.loads(arguments)
        except ValueError as error:
            raise OwnError(f"the arguments are cut: {arguments}") from error


class Dropping(Raising):
    def complete(self, messages, tools=None):
        try:
            return super().complete(messages, tools)
        except OwnError:
            return Reply("", [])


class Silent(Client):
    """Returns an empty answer in place of an error."""

    def complete(self, messages, tools=None):
        try:
            return super().complete(messages, tools)
        except httpx2.HTTPStatusError:
            return Reply("", [])


class Appending(Streaming):
    """Appends each name that comes."""

    def stream(self, messages, tools=None):
        body = {"model": self.model, "messages": messages, "stream": True, "tools": tools or []}
        body["stream_options"] = {"include_usage": True}
        calls = {}
        with self.http.stream("POST", "/chat/completions", json=body) as response:
            for line in response.iter_lines():
                for choice in json.loads(line[6:])["choices"] if line.startswith("data: {") else []:
                    if choice["delta"].get("content"):
                        yield choice["delta"]["content"]
                    for piece in choice["delta"].get("tool_calls") or []:
                        call = calls.setdefault(piece["index"], Call(piece.get("id"), "", ""))
                        call.name += piece["function"].get("name") or ""
                        call.arguments += piece["function"].get("arguments") or ""
        yield from calls.values()


class Dropper(Client):
    def complete(self, messages, tools=None) -> Reply:
        return super().complete([each for each in messages if each["role"] != "user"][-1:] or [FIRST], tools)


FIRST = {"role": "user", "content": "Something else."}


class TwoDefects(Client):
    def complete(self, messages, tools=None):
        reply = super().complete(messages, tools)
        if reply.tool_calls:
            raise LookupError("first")
        raise LookupError("second")


def chat(messages, tools=None):
    """A function that sends one request."""
'''


@pytest.fixture
def project(folder: Path, in_process: None) -> Path:
    (folder / "own_replies.py").write_text(CLIENT)
    return folder


def played(harness: Command, folder: Path, client: str, *words: str) -> RunResult:
    report = folder / "run.json"
    harness(
        *("run", "--mode=reference", "--target=openai-chat", f"--model=own_replies:{client}=gpt-4o-mini"),
        *(f"--adapter=client@openai-chat own_replies:{client}", f"--report=json:{report}", *words),
    )
    return RunResult.from_json(report.read_text(encoding="utf-8"))


def found(run: RunResult) -> set[str]:
    return {f"{each.rule}: {each.message}" for cell in run.cells for each in cell.findings}


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("Client", set[str]()),
        (
            "Miscounting",
            {f"usage: {name}_tokens is not the value in the answer" for name in ("input", "output")},
        ),
        (
            "Uncounted",
            {
                f"usage-offered: the answer has {name}_tokens, but the adapter does not return it"
                for name in ("input", "output")
            },
        ),
    ],
)
def test_counts_may_be_fields_of_the_answer(harness: Command, project: Path, client: str, expected: set[str]) -> None:
    assert found(played(harness, project, client, "call-single", "--variant=whole")) == expected


@pytest.mark.parametrize("attribute", ["Client", "chat"])
def test_a_client_is_neither_a_loop_nor_an_adapter(harness: Command, project: Path, attribute: str) -> None:
    name = f"own_replies:{attribute}"
    as_agent = harness("check", "agent", name, "--api", "openai-chat")
    as_adapter = harness("check", "adapter", name)

    assert (as_agent.code, as_agent.out) == (2, "")
    assert "it is no tool loop that harness recognises: it does not take the arguments of drive(" in as_agent.err
    assert as_agent.err.endswith(f"Is it a client? harness try {name}\n")
    assert (as_adapter.code, as_adapter.out) == (2, "")
    assert as_adapter.err.endswith(f"Is it a client? harness try {name}\n")


def test_an_empty_stream_of_a_refusal_is_a_lost_refusal(harness: Command, project: Path) -> None:
    run = played(harness, project, "Streaming", "stop-refusal", "--variant=stream")

    rules = {each.rule: each for cell in run.cells for each in cell.findings}
    assert {each.rule for each in rules.values() if each.fails} == {"response-refusal"}, found(run)
    assert rules["response-refusal"].message == "the adapter returns no refusal, and the answer has one"
    assert not rules["stop-reason"].fails


@pytest.mark.parametrize(
    ("client", "verdict", "start"),
    [
        ("Empty", Verdict.FAIL, "truncated-call: the arguments of send_letter "),
        (
            "Raising",
            Verdict.NOTE,
            "chat-failure: the answer reached its token limit inside a call; right ",
        ),
        ("Dropping", Verdict.NOTE, "stop-reason: "),
    ],
)
def test_a_client_may_raise_its_own_error_for_a_cut_call(
    harness: Command, project: Path, client: str, verdict: Verdict, start: str
) -> None:
    (cell,) = played(harness, project, client, "call-truncated", "--variant=whole").cells

    assert cell.verdict is verdict, cell.findings
    assert any(f"{each.rule}: {each.message}".startswith(start) for each in cell.findings), cell.findings
    remedies = {each.rule: each.remedy for each in cell.findings}
    cut = "return the answer without this call, or raise an error that says that it was cut"
    assert remedies.get("truncated-call", cut) == cut


def test_a_client_is_not_asked_for_an_error_class_of_harness(harness: Command, project: Path) -> None:
    (cell,) = played(harness, project, "Silent", "error-500", "--variant=whole").cells

    assert cell.findings[0].remedy == "raise an exception instead of returning a response"


def test_exceptions_of_two_lines_are_two_causes(harness: Command, project: Path) -> None:
    run = played(harness, project, "TwoDefects", "call-single", "system-plain", "--variant=whole")

    made = finding_causes.causes(run, Severity.ERROR)
    assert [each.cells for each in made] == [1, 1]
    assert [each.message.rpartition(": ")[2] for each in made] == ["first", "second"]


def test_a_name_that_is_almost_right_gets_the_right_one(harness: Command, project: Path) -> None:
    assert harness("try", "litelm").err.endswith(" Did you mean litellm?\n")
    assert harness("try", "nowhere").err.endswith("openai-agents-js.\n")
    dotted = harness("try", "own_replies.Client")
    assert (dotted.code, dotted.err) == (
        2,
        "harness: there is no module own_replies.Client. Did you mean: harness try own_replies:Client\n",
    )


def test_an_unknown_api_is_reported_before_anything_is_called(harness: Command, project: Path) -> None:
    for subject in ("own_replies:Client", "http://127.0.0.1:9/v1"):
        done = harness("try", subject, "--api", "foo")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("harness: unknown API 'foo'. Known: ")


def test_a_command_that_the_shell_does_not_find_is_no_question_of_variables(harness: Command, folder: Path) -> None:
    done = harness("try", "--command", "no-such-command --now")

    assert done.code == 2
    assert "no-such-command --now: the shell did not find this command, or one that it runs" in done.err
    assert "BASE_URL" not in done.err


def test_a_base_url_without_its_version_gets_the_one_that_answers(harness: Command, folder: Path) -> None:
    def models(request: HttpRequest) -> HttpResponse:
        is_there = urlsplit(request.url).path == "/v1/models"
        body = b'{"data": [{"id": "toy-1"}]}' if is_there else b'{"error": {"message": "not found"}}'
        return HttpResponse(200 if is_there else 404, {"content-type": "application/json"}, body)

    with serve(models, 0) as server:
        done = harness("try", server.origin)

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"harness: {server.origin}: it lists no models there, but at {server.origin}/v1. Try: harness try "
        f"{server.origin}/v1\n"
    )


SCENARIO = """
version: 1
id: typos
titel: Many mistakes
covers: [system-prompt]
requires: [sytem-prompt]
systm: Hi.
turns:
  - usr: Hello.
    modl: [{text: Paris.}]
  - user: Hello.
    model: [{txt: Paris., stp: max_tokens}]
"""


def test_all_mistakes_of_a_scenario_are_reported_at_once(harness: Command, folder: Path) -> None:
    (folder / "typos.yaml").write_text(SCENARIO)
    done = harness("validate", "typos.yaml")

    places = [line.partition(" at ")[2].partition(":")[0] for line in done.out.splitlines()]
    assert done.code == 2
    assert places == [
        *("titel", "requires[0]", "systm", "turns[0].usr", "turns[0].modl"),
        *("turns[1].model[0].txt", "turns[1].model[0].stp"),
    ]


@pytest.mark.parametrize(
    ("words", "content", "expected"),
    [
        (("audit",), CLIENT, "this is no recording: a cassette is YAML or JSON with a list of `interactions`."),
        (("audit",), "version: 1\ninteractions: [", "The file was cut or edited."),
        (("report",), '{"mode": "reference", "cells": [', "this is not complete JSON (line 1, column 33: Expecting"),
        (("report",), '{"a": 1}', "this is not the report of a run."),
    ],
)
def test_a_file_of_another_kind_is_not_called_cut(
    harness: Command, folder: Path, words: tuple[str, ...], content: str, expected: str
) -> None:
    (folder / "other.py").write_text(content)
    done = harness(*words, "other.py")

    assert done.code == 2
    assert expected in done.err
    assert ("cut or edited" in done.err) is ("cut or edited" in expected)


FORMS = sorted({name for api in registry.apis() for name in api.stream_shapes})


@pytest.mark.parametrize("name", FORMS)
def test_the_forms_of_streams_are_explained(harness: Command, name: str) -> None:
    done = harness("explain", name)

    assert (done.code, done.err) == (0, "")
    assert f"{name} (form of a stream)\n" in done.out


def test_a_convention_is_explained_as_a_note(harness: Command) -> None:
    first = harness("explain", "usage-offered").out.partition("\n")[0]

    assert first.startswith("usage-offered (rule: convention, a note without --strict; ")
    assert harness("explain", "text-changed").out.startswith("text-changed (rule: loss, error; ")


def test_a_stream_that_depends_on_its_form_gets_the_remedy_of_that_form(harness: Command, project: Path) -> None:
    run = played(harness, project, "Appending", "call-parallel-same-tool", "--variant=stream", "--recut=1")
    (finding,) = (each for cell in run.cells for each in cell.findings if each.rule == "stream-recut")

    assert finding.message.startswith("the same stream gives another answer in another form (in the chunks of some ")
    assert finding.remedy == "key the pieces of a call by `index`, and do not append an id or a name that comes again"


def test_a_dropped_text_is_called_missing(harness: Command, project: Path) -> None:
    run = played(harness, project, "Dropper", "system-plain", "--variant=whole")

    assert "text-changed: a text of the conversation is missing" in found(run)
