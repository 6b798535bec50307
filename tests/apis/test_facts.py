from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
import pickle
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import harness
from harness.apis import fact as form
from harness.apis import registry
from harness.apis.fact import Fact
from harness.apis.fact_files import Facts, FactSelection, read_fact_file
from harness.apis.limits import Limit
from harness.apis.registry import known_limits, severity
from harness.documents.document import read
from harness.model.errors import FactsError

PACKAGE = Path(harness.__file__).parent
ROOT = Path(__file__).parent.parent.parent
SCHEMA = PACKAGE / "apis" / "facts.schema.json"
FILES = sorted(PACKAGE.glob("apis/*/*facts.yaml"))
FACTS = {fact.id: fact for api in registry.apis() for fact in api.facts.all()}
LIMITS = {limit.id: limit for limit in known_limits()}

A_FACT = """\
api: anthropic
facts:
  - id: anthropic-a-b
    verdict: refused
    says: It is refused.
    evidence:
      - {kind: captured, address: "https://example.com/1", date: 2026-09-02}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "facts.yaml"
    file.write_text(text)
    return file


def test_each_api_has_facts_and_ids_are_unique_among_facts_and_limits() -> None:
    assert sorted({file.parent.name.replace("_", "-") for file in FILES}) == sorted(registry.APIS.names())
    assert len(FACTS) == sum(len(api.facts.all()) for api in registry.apis())
    assert FACTS.keys() & LIMITS.keys() == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_editors_find_nothing_wrong_in_the_files(file: Path) -> None:
    Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(read(file.read_bytes(), file.name).value)


def test_the_shipped_schema_is_up_to_date() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == form.json_schema(), (
        "write json.dumps(harness.apis.fact.json_schema(), indent=2) to harness/apis/facts.schema.json"
    )


def test_every_limit_rests_on_facts_that_there_are() -> None:
    assert {source for limit in LIMITS.values() for source in limit.facts} - FACTS.keys() == set()


def test_every_check_that_a_fact_names_is_a_limit_that_rests_on_it() -> None:
    for fact in FACTS.values():
        if fact.check is not None:
            assert fact.check.limit in LIMITS, fact.id


def test_every_refusal_is_checked_or_has_a_reason() -> None:
    """By a limit that rests on it, or by conditions of its own; and only one that is not looked for has a reason."""
    cited = {source for limit in LIMITS.values() for source in limit.facts}
    for fact in FACTS.values():
        if fact.verdict == "refused":
            assert (fact.id in cited or bool(fact.when)) is (fact.unchecked is None), fact.id


def test_every_fact_that_is_cited_is_there() -> None:
    """In strings, comments and docstrings alike: what looks like a fact of an API of ours is one, or a limit."""
    apis = "|".join(sorted((api.name for api in registry.apis()), key=len, reverse=True))
    profiles = (profile.name for api in registry.apis() for profile in api.profiles)
    targets = (target.name for target in registry.targets())
    known = {*FACTS, *LIMITS, *profiles, *targets, "gemini-embedding-001", "gemini-embedding-2"}
    unknown: set[tuple[str, str]] = set()
    for folder in (PACKAGE, ROOT / "scenarios", ROOT / "tests"):
        for path in folder.rglob("*.py"):
            for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
                cited = re.findall(rf"(?<=[ (])(?:{apis})(?:-[a-z0-9]+){{2,}}(?=[,.:;)])", text)
                unknown.update((f"{path}:{line}", each) for each in cited if each not in known)
    assert unknown == set()


def test_nothing_that_does_not_ship_is_cited() -> None:
    gone = re.compile(r"\b(?:AN|OC|RS|GM|BC|CS)-[A-Z]?\d+\b|" + "wire" + "-facts|" + "dated" + "-facts")
    for folder in (PACKAGE, ROOT / "scenarios", ROOT / "tests"):
        for path in folder.rglob("*"):
            if path.suffix in (".py", ".yaml", ".md", ".txt", ".json") and path != Path(__file__):
                assert gone.search(path.read_text("utf-8")) is None, path


def test_a_file_is_read(tmp_path: Path) -> None:
    read = read_fact_file(written(tmp_path, A_FACT))
    api, (fact,) = read.api, read.facts
    assert (api, fact.id, fact.is_certain, fact.status) == ("anthropic", "anthropic-a-b", True, 400)
    assert fact.is_of("any model")
    assert fact.is_at(frozenset({"of nobody"}))
    assert fact.is_on(dt.date(1999, 1, 1))


WHEN = "    when:\n      - {{{}}}\n    says:"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("verdict: refused", "verdict: refuse", "4:14 at facts[0].verdict: unknown value 'refuse'. Did you mean"),
        ("says:", "sais:", "5:5 at facts[0].sais: unknown key 'sais'. Did you mean 'says'?"),
        ("    says: It is refused.\n", "", "3:5 at facts[0].says: required, but missing."),
        ("    says:", "    verdict: refused\n    says:", "5:5 at facts[0].verdict: duplicate key: line"),
        ("2026-09-02", "2026-09-31", "7:60 at facts[0].evidence[0].date: must be a day, as in 2026-09-22, not '2026"),
        (
            "https:",
            "ftp:",
            "7:26 at facts[0].evidence[0].address: must be an address that begins with https:// or http://",
        ),
        ("anthropic-a-b", "gemini-a-b", "3:9 at facts[0].id: the id must begin with the API's name, anthropic-."),
        ("captured", "seen", "7:16 at facts[0].evidence[0].kind: unknown value 'seen'."),
        (
            "    says:",
            "    until: 2026-01-01\n    since: 2026-01-02\n    says:",
            "5:5 at facts[0].until: it ends (2026",
        ),
        ("    says:", WHEN.format("at: a, is: 1, there: true"), "6:9 at facts[0].when[0]: a condition has one of is,"),
        ("    says:", WHEN.format("at: a, header: b, is: 1"), "6:9 at facts[0].when[0]: a condition has one of at,"),
        ("    says:", WHEN.format("schema: tools, there: true"), "6:9 at facts[0].when[0]: schema and keyword come"),
        ("    says:", WHEN.format("at: a, like: '('"), "6:17 at facts[0].when[0].like: not a regular expression"),
        ("api: anthropic\n", "", "1:1 at api: required, but missing."),
        (A_FACT, "", " empty. A file of facts is one mapping with api and facts."),
        (A_FACT, "- 1", "1:1: a file of facts is a mapping with api and facts, not a list."),
    ],
)
def test_an_error_in_a_fact_file_has_its_place(tmp_path: Path, old: str, new: str, error: str) -> None:
    file = written(tmp_path, A_FACT.replace(old, new, 1))
    with pytest.raises(FactsError) as raised:
        read_fact_file(file)
    assert str(raised.value).removeprefix(f"{file}:").startswith(error)


def test_an_id_is_unique(tmp_path: Path) -> None:
    again = A_FACT.partition("facts:\n")[2]
    with pytest.raises(FactsError, match=r"8:9 at facts\[1\].id: the id 'anthropic-a-b' is that of facts\[0\] already"):
        read_fact_file(written(tmp_path, A_FACT + again))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FactsError, match="there is no such file"):
        read_fact_file(tmp_path / "none.yaml")
    with pytest.raises(FactsError, match="cannot be read"):
        read_fact_file(tmp_path)


def test_facts_are_chosen_by_model_service_and_day() -> None:
    fact = Fact.model_validate_json(
        json.dumps(
            {
                "id": "a-b",
                "verdict": "refused",
                "says": "x",
                "models": ["m-1*"],
                "except_models": ["m-1-mini"],
                "service": "own",
                "since": "2026-02-01",
                "until": "2026-02-28",
                "evidence": [{"kind": "report", "address": "https://example.com", "date": "2026-02-01"}],
            }
        )
    )
    assert [fact.is_of(model) for model in ("m-1", "m-1-large", "m-1-mini", "m-2")] == [True, True, False, False]
    assert (fact.is_at(frozenset({"own"})), fact.is_at(frozenset({"other"}))) == (True, False)
    days = ("2026-01-31", "2026-02-01", "2026-02-28", "2026-03-01")
    assert [fact.is_on(dt.date.fromisoformat(day)) for day in days] == [False, True, True, False]
    assert not fact.is_certain


def test_of_two_facts_with_one_id_the_later_file_s_counts(tmp_path: Path) -> None:
    first = written(tmp_path, A_FACT)
    second = tmp_path / "more.yaml"
    second.write_text(A_FACT.replace("It is refused.", "It is not."))
    facts = Facts((first, second))
    assert [fact.says for fact in facts.all()] == ["It is not."]
    assert [fact.id for fact in facts.with_ids(["anthropic-a-b", "anthropic-c"])] == ["anthropic-a-b"]


def test_a_profile_is_made_once_for_a_day_and_anew_when_a_file_has_changed(tmp_path: Path) -> None:
    anthropic = registry.api("anthropic")
    file = written(tmp_path, A_FACT.replace("says:", "since: 2026-09-02\n    says:"))
    before, after = (FactSelection(dt.date(2026, 9, day), (file,)) for day in (1, 2))

    def said(fact_selection: FactSelection, model: str = "a-model") -> list[str]:
        return [fact.says for fact in anthropic.profile_for(model, fact_selection).facts if fact.id == "anthropic-a-b"]

    assert anthropic.profile_for("a-model", after) is anthropic.profile_for("models/a-model", after)
    assert (said(before), said(after), said(after, "claude-opus-5-5")) == ([], ["It is refused."], ["It is refused."])
    assert anthropic.profile_for("claude-opus-5-5", after).name != anthropic.profile_for("a-model", after).name
    file.write_text(A_FACT.replace("It is refused.", "It is not."))
    os.utime(file, ns=(1, 1))  # however coarse the clock of the disk
    assert (said(before), said(after)) == (["It is not."], ["It is not."])


def test_facts_that_were_held_against_requests_can_be_sent_to_a_worker() -> None:
    for fact in FACTS.values():
        assert fact.conditions is not None  # made ready
        assert pickle.loads(pickle.dumps(fact)) == fact  # noqa: S301 - our own


def test_every_limit_has_an_id_of_its_own_and_says_what_holds_and_where_from() -> None:
    assert len({limit.id for limit in known_limits()}) == len(known_limits())
    for limit in known_limits():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", limit.id)
        assert limit.sentence.endswith((".", "-"))
        assert limit.source
        assert limit.severity in ("error", "warning")


def test_a_limit_is_an_error_only_with_evidence_of_a_refusal() -> None:
    """What the evidence says already, a table does not say again."""
    facts = {fact.id: fact for api in registry.apis() for fact in api.facts.all()}
    for limit in known_limits():
        certain = any(facts[each].verdict == "refused" and facts[each].is_certain for each in limit.facts)
        assert severity(limit) == (limit.severity if certain else "warning")
        assert certain or limit.severity == "error", f"{limit.id}: leave the severity away"


def test_a_limit_of_the_facts_has_conditions_or_a_check_that_exists() -> None:
    for entry in (entry for api in registry.apis() for _, entry in api.facts.limits.values()):
        assert entry.breaches or entry.check, entry.id
        assert entry.check is None or importlib.util.find_spec(f"harness.apis.{entry.check}"), entry.id


def test_a_violation_is_its_limit_s_unless_the_check_knows_better() -> None:
    limit = Limit("a-b", "It holds.", "anthropic-required-fields")
    plain = limit.make_violation("No.", "/a")
    known = limit.make_violation("No.", "/a", severity="warning", source="anthropic-tool-name-pattern", status=413)
    assert (plain.rule, plain.severity, plain.source, plain.status) == (
        "a-b",
        "error",
        "anthropic-required-fields",
        400,
    )
    assert (known.rule, known.severity, known.source, known.status) == (
        "a-b",
        "warning",
        "anthropic-tool-name-pattern",
        413,
    )
