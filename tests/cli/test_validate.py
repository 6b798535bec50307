from __future__ import annotations

from pathlib import Path

from harness.scenarios.suite import shipped
from tests.cli.conftest import Command

GOOD = "version: 1\nid: {id}\ntitle: Fine\ncovers: [tools]\nturns: [{{user: Hi., model: [{{text: Hello.}}]}}]\n"


def test_the_shipped_scenarios_are_valid(harness: Command) -> None:
    outcome = harness("validate")

    number = len(list(shipped("scenarios").glob("*.yaml")))
    assert outcome.code == 0
    assert outcome.out == f"{number} scenarios are valid.\n"


def test_one_scenario_is_valid(harness: Command, folder: Path) -> None:
    (folder / "fine.yaml").write_text(GOOD.format(id="fine"))

    assert harness("validate", "fine.yaml").out == "1 scenario is valid.\n"


def test_every_problem_of_every_file_is_shown_with_its_place(harness: Command, folder: Path) -> None:
    for name in ("first", "second"):
        text = GOOD.format(id=name).replace("covers: [tools]", "covers: [tolls]\nrequires: [magic]")
        (folder / f"{name}.yaml").write_text(text)
    (folder / "third.yaml").write_text("version: [\n")

    outcome = harness("validate", "first.yaml", "second.yaml", "third.yaml")

    lines = outcome.out.splitlines()
    assert outcome.code == 2
    assert outcome.err == "5 problems in 3 scenarios.\n"
    assert [line.split(": unknown")[0] for line in lines[:4]] == [
        "first.yaml:4:10 at covers[0]",
        "first.yaml:5:12 at requires[0]",
        "second.yaml:4:10 at covers[0]",
        "second.yaml:5:12 at requires[0]",
    ]
    assert lines[4].startswith("third.yaml:2:")


def test_an_id_belongs_to_one_file(harness: Command, folder: Path) -> None:
    for place in ("one", "two"):
        (folder / place).mkdir()
        (folder / place / "same.yaml").write_text(GOOD.format(id="same"))

    outcome = harness("validate", "one", "two")

    assert outcome.code == 2
    assert outcome.out == "two/same.yaml: the id 'same' is taken by one/same.yaml.\n"


def test_a_path_that_is_not_there_is_an_error(harness: Command) -> None:
    outcome = harness("validate", "nowhere.yaml")

    assert (outcome.code, outcome.err) == (2, "harness: nowhere.yaml: there is no such file or folder.\n")


FACTS = """api: openai-chat
facts:
  - id: openai-chat-no-seed
    verdict: refused
    says: "No seeds."
    evidence: [{{kind: probe, date: 2026-11-01, address: "https://example.com"}}]
    when:
      - {{at: seed, there: true}}
    refuses: [{refuses}]
    accepts: [{accepts}]
  - id: openai-chat-users
    verdict: refused
    says: "Users are even."
    evidence: [{{kind: probe, date: 2026-11-01, address: "https://example.com"}}]
    limits:
      - id: openai-chat-no-odd-user
        says: The user is even.
        message: "'{{path}}' is odd, not {{type}}: {{value}}."
        when:
          - {{at: user, like: '.*[13579]'}}
        refuses: [{{user: u1}}]
"""


def test_files_of_facts_are_checked_by_their_examples(harness: Command, folder: Path) -> None:
    (folder / "facts.yaml").write_text(FACTS.format(refuses="{seed: 1, user: u2}", accepts="{user: u2}"))

    outcome = harness("validate", "--facts", "facts.yaml")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "1 file of facts: every example holds.\n"


def test_an_example_that_is_not_what_it_says_is_a_problem(harness: Command, folder: Path) -> None:
    (folder / "facts.yaml").write_text(FACTS.format(refuses="{seed: 1}, {user: u2}", accepts="{seed: 2}, {user: u3}"))
    (folder / "base.yaml").write_text(FACTS.format(refuses="{from: nothing}", accepts="{}"))

    outcome = harness("validate", "--facts", "facts.yaml", "--facts", "base.yaml")

    assert outcome.code == 2
    assert outcome.out.splitlines() == [
        "facts.yaml:9:26 at facts[0].refuses[1]: openai-chat-no-seed does not refuse it.",
        "facts.yaml:10:15 at facts[0].accepts[0]: openai-chat-no-seed refuses it.",
        "facts.yaml:10:26 at facts[0].accepts[1]: openai-chat-no-odd-user refuses it: 'user' is odd, not a string: u3.",
        "base.yaml:3:5 at facts[0]: an example cannot be made: there is no base 'nothing'.",
    ]
