"""What a run cost, in every report."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest

from harness.model.messages import Usage
from harness.reports import REPORTS
from harness.reports.words import money
from harness.results import Mode, Presentation, Provenance, RunResult, Spending
from tests.reports.runs import PROVIDER, REFERENCE, cell

KNOWN = Spending("a-model-1", 4, Usage(1000, 200), Decimal("0.01234"))
CHEAP = Spending("small", 1, Usage(1, 1), Decimal("0.0000004"))
UNKNOWN = Spending("my-model", 3, Usage(), None, 3)
VERSION = {"genai-prices": "0.2.3"}


def run(mode: Mode, *spent: tuple[str, Provenance | None, Spending | None]) -> RunResult:
    cells = [
        cell(f"scenario-{index}", target, provenance=provenance, spending=spending)
        for index, (target, provenance, spending) in enumerate(spent)
    ]
    return RunResult(mode, tuple(cells), versions=VERSION, cassettes="cassettes")


def lines(report: str, result: RunResult, *, verbose: bool = False) -> list[str]:
    shown = REPORTS.load(report).render(result, Presentation(width=160, verbose=verbose))
    return [line for line in shown.splitlines() if "cost" in line.lower() or "requests" in line or "request" in line]


@pytest.mark.parametrize(
    ("dollars", "words"),
    [
        ("0", "$0"),
        ("0.00001", "less than $0.0001"),
        ("0.00009999", "less than $0.0001"),
        ("0.0001", "$0.0001"),
        ("0.01234", "$0.0123"),
        ("0.5", "$0.5000"),
        ("0.99499", "$0.9950"),
        ("0.999999", "$1.00"),
        ("12.345", "$12.34"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_money_is_rounded_and_never_to_nothing(dollars: str, words: str) -> None:
    assert money(Decimal(dollars)) == words


@pytest.mark.parametrize("report", ["terminal", "markdown"])
@pytest.mark.parametrize(
    ("mode", "provenance", "beginning"),
    [
        ("live", PROVIDER, "Cost: "),
        ("record", PROVIDER, "Cost: "),
        ("replay", PROVIDER, "Cost when it was recorded: "),
        ("replay", REFERENCE, "Estimated cost at the providers, by the reference server's token counts: "),
        ("record", REFERENCE, "Estimated cost at the providers, by the reference server's token counts: "),
        ("reference", REFERENCE, "Estimated cost at the providers, by the reference server's token counts: "),
    ],
)
def test_one_line_says_what_was_paid_and_what_would_have_been(
    report: str, mode: Mode, provenance: Provenance, beginning: str
) -> None:
    result = run(mode, ("anthropic", provenance, KNOWN), ("gemini-3", provenance, KNOWN))

    found = [line.replace("\\", "") for line in lines(report, result, verbose=True)]

    assert found[0] == f"{beginning}$0.0247 for 8 requests (genai-prices 0.2.3)."
    assert bool(lines(report, result)) is (beginning == "Cost: ")


@pytest.mark.parametrize("report", ["terminal", "markdown"])
def test_what_has_no_known_price_is_named(report: str) -> None:
    result = run(
        "live", ("anthropic", PROVIDER, KNOWN), ("openai-chat", PROVIDER, UNKNOWN), ("gemini-3", PROVIDER, CHEAP)
    )

    assert lines(report, result)[0].replace("\\", "") == (
        "Cost: $0.0123 for 5 requests; not known for 3 more: openai-chat (my-model) (genai-prices 0.2.3)."
    )
    alone = run("live", ("openai-chat", PROVIDER, UNKNOWN))
    assert lines(report, alone)[0].replace("\\", "") == (
        "Cost: not known for 3 requests: openai-chat (my-model) (genai-prices 0.2.3)."
    )


def test_real_and_estimated_costs_are_not_added() -> None:
    result = run("replay", ("anthropic", PROVIDER, KNOWN), ("anthropic", REFERENCE, KNOWN))

    assert [line for line in lines("terminal", result, verbose=True) if line[0] != " "] == [
        "Cost when it was recorded: $0.0123 for 4 requests (genai-prices 0.2.3).",
        (
            "Estimated cost at the providers, by the reference server's token counts: $0.0123 for 4 requests "
            "(genai-prices 0.2.3)."
        ),
    ]


def test_junit_has_it_as_properties_before_the_cases() -> None:
    half = replace(KNOWN, dollars=Decimal("0.0000003"), unpriced=1)
    result = run("replay", ("anthropic", PROVIDER, half), ("openai-chat", REFERENCE, UNKNOWN))
    root = ET.fromstring(REPORTS.load("junit").render(result, Presentation()))  # noqa: S314 - our own XML

    def properties(target: str) -> dict[str, str]:
        suite = root.find(f"testsuite[@name='{target}']")
        assert suite is not None
        assert suite[0].tag == "properties"
        return {each.attrib["name"]: each.attrib["value"] for each in suite[0]}

    anthropic, chat = properties("anthropic"), properties("openai-chat")
    assert anthropic.pop("responses").startswith("Recorded from the provider: 1 cell of anthropic")
    assert chat.pop("responses").startswith("All answers are harness's own")
    assert anthropic == {
        "cost": "Cost when it was recorded",
        "cost.model": "a-model-1",
        "cost.requests": "4",
        "cost.requests.unpriced": "1",
        "cost.tokens.input": "1000",
        "cost.tokens.output": "200",
        "cost.dollars": "0.0000003",
    }
    assert chat == {
        "cost": "Estimated cost at the providers, by the reference server's token counts",
        "cost.model": "my-model",
        "cost.requests": "3",
        "cost.requests.unpriced": "3",
    }
