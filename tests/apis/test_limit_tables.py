from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from harness import catalog
from harness.apis.limit import Limit
from harness.apis.tables import known_limits, severity

PACKAGE = Path(harness.__file__).parent
TABLES = sorted(PACKAGE.glob("apis/*/limits/__init__.py"))


def test_every_limit_has_an_id_of_its_own_and_says_what_holds_and_where_from() -> None:
    assert len({limit.id for limit in known_limits()}) == len(known_limits())
    for limit in known_limits():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", limit.id)
        assert limit.sentence.endswith((".", "-"))
        assert limit.source
        assert limit.severity in ("error", "warning")


def test_a_limit_is_an_error_only_where_somebody_was_seen_to_be_refused() -> None:
    """What the evidence says already, a table does not say again."""
    facts = {fact.id: fact for api in catalog.apis() for fact in api.facts.all()}
    for limit in known_limits():
        certain = any(facts[each].verdict == "refused" and facts[each].is_certain for each in limit.facts)
        assert severity(limit) == (limit.severity if certain else "warning")
        assert certain or limit.severity == "error", f"{limit.id}: leave the severity away"


def test_a_limit_of_the_facts_has_conditions_or_a_check_that_exists() -> None:
    for entry in (entry for api in catalog.apis() for _, entry in api.facts.limits.values()):
        assert entry.breaches or entry.check, entry.id
        assert entry.check is None or importlib.util.find_spec(f"harness.apis.{entry.check}"), entry.id


def names(table: Path) -> list[str]:
    tree = ast.parse(table.read_text())
    return [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id != "LIMITS"
    ]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.parent.parent.name)
def test_every_limit_of_a_table_is_used_by_a_check(table: Path) -> None:
    checks = "".join(module.read_text() for module in table.parent.parent.rglob("*.py") if module != table)
    imported = ", ".join(re.findall(r"\blimits import ([A-Z_, ]+)\n", checks))
    used = {*re.findall(r"\blimits\.([A-Z_]+)", checks), *imported.split(", ")}
    assert set(names(table)) - used == set()


def test_no_limit_and_no_violation_is_made_outside_of_the_tables() -> None:
    allowed = {PACKAGE / "apis" / "limit.py", PACKAGE / "apis" / "endpoint.py", PACKAGE / "apis" / "facts.py", *TABLES}
    allowed.add(PACKAGE / "reference" / "front.py")  # a script that is used up is told as a refusal, and is no limit
    made = [f"{path.relative_to(PACKAGE)}:{node.lineno}" for path, node in calls() if path not in allowed]
    assert made == []


def calls() -> Iterator[tuple[Path, ast.Name]]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("Limit", "Violation")
            ):
                yield path, node


def test_a_violation_is_its_limit_s_unless_the_check_knows_better() -> None:
    limit = Limit("a-b", "It holds.", "anthropic-required-fields")
    plain = limit.broken("No.", "/a")
    known = limit.broken("No.", "/a", severity="warning", source="anthropic-tool-name-pattern", status=413)
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
