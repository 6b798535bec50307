"""The examples of every entry of the facts: the judge, the reference server and `harness audit` read each alike."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.examples import JudgedExample, day_of, judge_examples
from harness.apis.fact import Fact
from harness.apis.fact_files import CompiledFacts
from harness.apis.jsonvalue import loads
from harness.apis.matching import RequestData
from harness.apis.profiles import OTHER, OWN, SERVERS
from harness.apis.registry import severity
from harness.apis.view import ModelStep, WireError
from harness.cli.main import main
from harness.model.http import HttpResponse
from harness.platform.files import shipped_folder
from harness.reference_server.script_session import ScriptSession
from harness.scenarios.load import load_file
from tests.apis.samples import resolve
from tests.once import once

SCENARIO = load_file(shipped_folder("scenarios") / "system-absent.yaml")
EMBEDDED = load_file(shipped_folder("scenarios") / "seeds-code-search-embeddings.yaml")
WITHOUT_ADDRESS = {server.name for server in SERVERS if not server.hosts}
"""Servers that people run where they like: no address tells them, so that a recording is not held to their facts."""


def base_of(api: Api, fact: Fact) -> str:
    """A base URL of the server that a fact is about, as a client of the API takes it."""
    service = (fact.service or [OWN])[0]
    if service == OWN:
        return api.provider_url
    hosts = {name: host for host, name in api.services.hosts.items()}
    server = next((each for each in SERVERS if each.name == service), None)
    host = hosts.get(service) or next(iter(server.hosts if server else ()), "example.com")
    port = f":{server.port}" if server and server.port else ""
    return f"https://{host.lstrip('-')}{port}{server.path if server else ''}{api.base_path}"


FACTS = {
    fact.id: (api, fact)
    for api in registry.apis()
    for fact in api.facts.all()
    if any(each.refuses or each.accepts for each in (fact, *fact.limits))
}
"""The facts that have examples, each with its API."""


@cache
def examples_of(fact_id: str) -> Mapping[str, JudgedExample]:
    """The examples of a fact and of its limits, by their entry and place."""
    api, fact = FACTS[fact_id]
    judged = judge_examples(api, api.facts, fact, base_url=base_of(api, fact))
    return {f"{each.id}-{each.key[-2]}-{each.key[-1]}": each for each in judged}


def examples() -> Mapping[str, JudgedExample]:
    return dict(chain.from_iterable(examples_of(each).items() for each in FACTS))


def is_huge(example: JudgedExample) -> bool:
    """Return whether a request takes seconds: those that break limits of size are sent to the judge alone."""
    return len(example.request.body) > 100_000


def recorded(example: JudgedExample) -> dict[str, Any]:
    """A recording of the request as one that was accepted, in vcrpy's format."""
    api, request = example.api, example.request
    body = api.build(ModelStep(text="ok"), example.id, "a-model", example.rule_set.profile)
    at = dt.datetime.combine(day_of(example.fact), dt.time(12), dt.UTC)
    headers = {"content-type": "application/json", "date": at.strftime("%a, %d %b %Y %H:%M:%S GMT")}
    reported = {name: value for name, value in body.items() if name not in ("created", "created_at")}
    response = HttpResponse(200, headers, json.dumps(reported).encode())
    return {
        "version": 1,
        "interactions": [
            {
                "request": {
                    "method": "POST",
                    "uri": request.url,
                    "headers": {name: [value] for name, value in request.headers.items()},
                    "body": request.body.decode(),
                },
                "response": {
                    "status": {"code": response.status, "message": "OK"},
                    "headers": {name: [value] for name, value in response.headers.items()},
                    "body": {"string": response.body.decode()},
                },
            }
        ],
    }


def audited(folder: Path) -> dict[str, dict[str, str]]:
    """By example, the limits that one audit of all reports, with their severities."""
    for name, example in examples().items():
        without = is_huge(example) or WITHOUT_ADDRESS.intersection(example.fact.service or ())
        if example.api.recognises(example.request) and not without:
            (folder / f"{name}.json").write_text(json.dumps(recorded(example)))
    with redirect_stdout(StringIO()) as shown:
        main(["audit", str(folder), "--report", "json"])
    return {
        Path(cell["scenario"]).stem: {
            found["rule"]: found["severity"] for found in cell["findings"] if found["kind"] == "limit"
        }
        for cell in json.loads(shown.getvalue())["cells"]
    }


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, str]]:
    return once(tmp_path_factory, "examples", audited)


@pytest.mark.parametrize("fact", FACTS)
def test_an_example_is_judged_answered_and_audited_as_its_entry_says(
    fact: str, audit: Mapping[str, Mapping[str, str]]
) -> None:
    for name, example in examples_of(fact).items():
        assert example.fault is None, name
        is_error = any(each.severity == "error" for each in example.found)
        if not is_huge(example):
            scenario = SCENARIO if example.api.recognises(example.request) else EMBEDDED
            session = ScriptSession(scenario, example.api, "", example.rule_set.profile, example.rule_set)
            assert (session(example.request).status >= 400) is is_error, name
        body = json.loads(example.request.body) if any(each.pointer for each in example.found) else None
        for each in example.found:
            assert each.message, name
            resolve(body, each.pointer)  # leads somewhere
        if name in audit:
            assert {*audit[name]} == {each.rule for each in example.found}, name


def test_what_only_the_provider_refuses_is_not_held_against_other_servers() -> None:
    asked = 0
    for example in examples().values():
        entry = example.api.facts.limits.get(example.id, (None, None))[1]
        if entry is not None and entry.breaches and all(breach.own for breach in entry.breaches) and not entry.check:
            rule_set = example.api.services.rules_of(example.rule_set.profile, OTHER)
            assert example.id not in {each.rule for each in example.api.judge(example.request, rule_set)}
            asked += 1
    assert asked > 50


@pytest.mark.parametrize("name", [api.name for api in registry.apis()])
def test_facts_find_together_what_each_finds_by_itself(name: str) -> None:
    """Of the examples, a third is enough: each fact is met by some and not by most."""
    api = registry.api(name)
    facts = [fact for fact in api.facts.all() if fact.when]
    together = CompiledFacts(facts, api.schema_places)
    for example in [each for each in examples().values() if each.api is api and not is_huge(each)][::3]:
        try:
            asked = RequestData(loads(example.request.body), example.request.headers, api.schema_places)
        except WireError:
            continue
        met = [fact.id for fact in facts if fact.conditions.first_match(asked) is not None]
        assert [each.rule for each in together.judge(example.request)[1]] == met, example.id


def test_a_certain_refusal_is_an_error_in_one_example_at_least() -> None:
    limits = {limit.id: severity(limit) for api in registry.apis() for limit, _ in api.facts.limits.values()}
    refused: dict[str, list[JudgedExample]] = {}
    for each in sorted(examples().values(), key=lambda example: len(example.request.body)):
        if each.refused and limits.get(each.id, "error" if each.fact.is_certain else "") == "error":
            refused.setdefault(each.id, []).append(each)
    warned = [
        name
        for name, each in refused.items()
        if not any(found.severity == "error" for example in each for found in example.found)
    ]
    assert refused
    assert warned == []


ELSEWHERE = {
    "anthropic-version",  # a header that is missing: test_limits
    "anthropic-thinking-altered",  # what was said before: test_memory
    "anthropic-thinking-signature",
    "anthropic-thinking-bound",
    "gemini-signature-corrupted",
    "openai-responses-previous-response",
}
"""Limits that no body breaks by itself."""


def test_every_entry_that_refuses_something_has_an_example() -> None:
    missing = [
        entry.id
        for api in registry.apis()
        if api.minimal_request is not None
        for fact in api.facts.all()
        for entry in (*((fact,) if fact.verdict == "refused" and fact.when else ()), *fact.limits)
        if not entry.refuses and entry.id not in ELSEWHERE
    ]
    assert missing == []


@pytest.mark.parametrize("api", [each for each in registry.apis() if each.minimal_request], ids=lambda api: api.name)
def test_the_smallest_chat_is_refused_by_no_fact_that_has_no_other_example_of_what_is_accepted(api: Api) -> None:
    for fact in api.facts.all():
        if fact.refuses and not fact.accepts:
            bare = fact.model_copy(update={"accepts": [{}], "refuses": [], "limits": []})
            assert [each.fault for each in judge_examples(api, api.facts, bare)] == [None]
