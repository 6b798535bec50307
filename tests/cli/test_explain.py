from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from harness.apis import registry
from harness.apis.fact import EvidenceKind
from harness.apis.fact import Verdict as FactVerdict
from harness.apis.registry import known_limits
from harness.cli.explain import lines
from harness.model.protocols import Capability
from harness.results import Blame, Kind, Severity, Verdict
from harness.rules.registry import all_rules
from tests.cli.conftest import Command

GOLDEN = """\
anthropic-choice-forced (limit: error)
  No call is forced on models that choose by themselves.
  to do:    send `tool_choice` auto or none: the model takes no forced call; `harness show` has the place
  rests on: anthropic-no-forced-choice: A tool choice of the type `any` or `tool` is refused, on messages and on \
count_tokens; auto and none are fine.
"""


def test_a_limit_is_explained_with_its_evidence(harness: Command) -> None:
    outcome = harness("explain", "anthropic-choice-forced")
    assert outcome.code == 0
    assert outcome.out.startswith(GOLDEN)
    assert "    captured 2026-09-02  https://github.com/can1357/oh-my-pi/issues/12939\n" in outcome.out


def test_a_fact_is_explained_with_its_evidence(harness: Command) -> None:
    out = harness("explain", "anthropic-no-forced-choice").out
    assert "(fact: refused)" in out
    assert "  for:      claude-opus-5-5*, " in out
    assert "  known:    2026-09-01 to today\n" in out
    assert "  checked:  by anthropic-choice-forced\n  it is:    an error\n" in out


def test_everything_that_a_report_names_is_explained() -> None:
    words = (*Verdict, *Kind, *Blame, *Severity, *Capability, *get_args(FactVerdict), *get_args(EvidenceKind))
    facts = (fact.id for api in registry.apis() for fact in api.facts.all())
    ids = (*facts, *(limit.id for limit in known_limits()), *(rule.id for rule in all_rules()))
    for topic in (*words, *ids):
        assert len(lines(str(topic))) > 1, topic


def test_every_term_is_explained() -> None:
    contributing = (Path(__file__).parent.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    glossary = re.findall(
        r"^\| ([\w ]+) \|", contributing.partition("## Glossary")[2].partition("\n## ")[0], re.MULTILINE
    )

    assert 10 < len(glossary) <= 21  # with the head of the table
    for term in (*glossary[1:], "subject", "blame", "recut", "not observed", "not applicable"):
        assert len(lines(term)) > 1, term


def test_what_is_like_it_is_named(harness: Command) -> None:
    outcome = harness("explain", "anthropic-choice-forcd")
    assert outcome.code == 2
    assert (
        "there is nothing to explain under 'anthropic-choice-forcd'. Did you mean 'anthropic-choice-forced'"
        in outcome.err
    )


@pytest.mark.parametrize(
    ("options", "listed", "left_out"),
    [
        (["--model", "claude-opus-5-5"], "anthropic-no-forced-choice", "anthropic-fable-5-no-forced-choice"),
        (["--model=claude-opus-5-5", "--as-of=2026-08-01"], "anthropic-four-cache-marks", "anthropic-no-forced-choice"),
        (["--api", "gemini"], "gemini-mixed-tools-refused", "anthropic-no-forced-choice"),
        (["--as-of", "2026-07-01"], "anthropic-fable-5-no-forced-choice", "anthropic-fable-5-forced-choice-taken"),
    ],
)  # fmt: skip
def test_facts_are_listed_by_api_model_and_day(
    harness: Command, options: list[str], listed: str, left_out: str
) -> None:
    ids = [line.split()[0] for line in harness("list", "facts", *options).out.splitlines()]
    assert listed in ids
    assert left_out not in ids


def test_a_day_that_is_none_is_named(harness: Command) -> None:
    outcome = harness("list", "facts", "--as-of", "july")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--as-of: 'july' is no day. Write it as in 2026-07-01, or today." in outcome.err
    assert (
        "--as-of: it applies to 'harness list facts', not to rules" in harness("list", "rules", "--as-of", "today").err
    )
