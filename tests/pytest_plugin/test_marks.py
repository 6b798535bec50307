"""What cells are marked with."""

from __future__ import annotations

import pytest

from harness.apis.response_rules import Subject
from harness.model.protocols import Capability
from tests.pytest_plugin.project import configure, play, project

__all__ = ["project"]


@pytest.mark.parametrize(
    ("expression", "outcomes"),
    [
        ("harness", {"passed": 2, "failed": 2, "deselected": 1}),
        ("not harness", {"passed": 1, "deselected": 4}),
        ("harness_system_prompt", {"failed": 2, "deselected": 3}),
        ("harness and not harness_needs_system_prompt", {"passed": 2, "deselected": 3}),
        ("harness_needs_streaming and harness_history", {"passed": 1, "deselected": 4}),
        (
            "harness(variant='whole', api='openai-chat')",
            {"passed": 1, "failed": 1, "deselected": 3},
        ),
        ("harness(scenario='plain')", {"passed": 2, "deselected": 3}),
    ],
)
def test_m_selects_by_what_a_cell_is_about_and_what_it_needs(
    project: pytest.Pytester, expression: str, outcomes: dict[str, int]
) -> None:
    configure(project, harness_scenarios="scenarios")
    play(project, "--strict-markers", "-m", expression).assert_outcomes(**outcomes)


def test_all_marks_are_listed(project: pytest.Pytester) -> None:
    configure(project, harness_scenarios="scenarios")
    shown = play(project, "--markers").stdout.str()
    names = [f"harness_{subject.value}" for subject in Subject] + [f"harness_needs_{each.value}" for each in Capability]
    assert [name for name in names if f"@pytest.mark.{name.replace('-', '_')}: " not in shown] == []
    assert "@pytest.mark.harness(scenario, target, adapter, api, variant): " in shown
