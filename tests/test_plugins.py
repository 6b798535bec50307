from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from harness import plugins
from harness.apis.response_rules import Subject
from harness.model.errors import MissingDependency, PluginError, UnknownName, UsageError
from harness.model.protocols import Adapter
from harness.reports import REPORTS
from harness.results import Blame, Kind, Report
from harness.rules.rule import Rule, all_rules
from harness.stdio import adapter_specs

Plug = Callable[..., None]

MINE = Adapter("mine", "anthropic", frozenset(), lambda endpoint, model: pytest.fail("not to be connected"))
NOT_AN_ADAPTER = "text"
MY_RULE = Rule("my-rule", Subject.TOOLS, "Holds.", "us", lambda evidence: (), Kind.LOSS, "")
MY_RULES = (MY_RULE,)
TAKEN = Rule("usage", Subject.TOOLS, "Holds.", "us", lambda evidence: (), Kind.LOSS, "")
ODD_RULES = [MY_RULE, 1]


class Holder:
    adapter = MINE


HERE = __name__


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Plug:
    """Entry points of other packages, instead of those that happen to be installed."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(plugins, "entry_points_of", lambda group: EntryPoints(points).select(group=group))

    def add(group: str, name: str, value: str) -> None:
        points.append(EntryPoint(name, value, f"harness.{group}"))

    monkeypatch.setitem(sys.modules, HERE, sys.modules.get(HERE, sys.modules[__name__]))
    return add


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, name, raising=False)

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return write


def failure(error: type[UsageError], load: Callable[[], object]) -> str:
    with pytest.raises(error) as raised:
        load()
    return str(raised.value)


def test_the_built_in_adapters_are_there_under_their_names(plug: Plug) -> None:
    names = plugins.ADAPTERS.names()
    assert {"anthropic", "claude-cli", "gemini", "openai-chat", "openai-responses"} <= {*names}
    assert [adapter_specs.adapter(name).name for name in names] == names


def test_every_built_in_report_can_be_loaded(plug: Plug) -> None:
    for name in REPORTS.names():
        assert isinstance(REPORTS.load(name), Report)
        assert REPORTS.load(name).name == name


def test_an_entry_point_brings_in_an_adapter(plug: Plug) -> None:
    plug("adapters", "mine", f"{HERE}:MINE")
    assert "mine" in plugins.ADAPTERS.names()
    assert adapter_specs.adapter("mine") is MINE


def test_nothing_is_imported_before_it_is_selected(plug: Plug) -> None:
    plug("adapters", "broken", "no.such.module:ADAPTER")
    plug("adapters", "gemini", "no.such.module:ADAPTER")
    assert "broken" in plugins.ADAPTERS.names()
    assert adapter_specs.adapter("anthropic").name == "anthropic"


def test_an_unknown_adapter(plug: Plug) -> None:
    assert failure(UnknownName, lambda: adapter_specs.adapter("antropic")) == (
        f"unknown adapter 'antropic'. Did you mean 'anthropic'? Known: {', '.join(plugins.ADAPTERS.names())}."
    )


def test_an_adapter_that_exists_twice(plug: Plug) -> None:
    plug("adapters", "gemini", "theirs:ADAPTER")
    assert failure(PluginError, lambda: adapter_specs.adapter("gemini")) == (
        "the adapter 'gemini' cannot be used: "
        "it exists more than once (harness.adapters.gemini, theirs:ADAPTER); uninstall one."
    )


def test_an_entry_point_that_cannot_be_imported(plug: Plug) -> None:
    plug("adapters", "mine", "no_such_module:ADAPTER")
    plug("adapters", "other", f"{HERE}:NOBODY")
    assert failure(PluginError, lambda: adapter_specs.adapter("mine")) == (
        "the adapter 'mine' cannot be used: "
        "importing no_such_module:ADAPTER failed: ModuleNotFoundError: No module named 'no_such_module'."
    )
    assert failure(PluginError, lambda: adapter_specs.adapter("other")) == (
        f"the adapter 'other' cannot be used: importing {HERE}:NOBODY failed: "
        f"AttributeError: module '{HERE}' has no attribute 'NOBODY'."
    )


def test_an_entry_point_that_is_something_else(plug: Plug) -> None:
    plug("adapters", "mine", f"{HERE}:NOT_AN_ADAPTER")
    plug("reports", "mine", f"{HERE}:NOT_AN_ADAPTER")
    expected = "the {} 'mine' cannot be used: expected {}, got 'text'."
    assert failure(PluginError, lambda: adapter_specs.adapter("mine")) == expected.format("adapter", "Adapter")
    assert failure(PluginError, lambda: REPORTS.load("mine")) == expected.format("report", "Report")


@pytest.mark.parametrize("attribute", ["MINE", "Holder.adapter"])
def test_an_adapter_by_module_and_attribute(plug: Plug, attribute: str) -> None:
    assert adapter_specs.adapter(f"{HERE}:{attribute}") is MINE


def test_an_adapter_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lying_here.py").write_text(f"from {HERE} import MINE\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "lying_here", raising=False)
    assert adapter_specs.adapter("lying_here:MINE") is MINE


INSTALL_IT = (
    "Install it where harness is installed (the adapter runs there; with uvx and pipx run: --with NAME), or "
    "correct the import."
)
WAY_OUT = "Run from the folder that contains it, or add that folder to PYTHONPATH."


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("no_such_module:ADAPTER", f"no module 'no_such_module'. {WAY_OUT}"),
        (f"{HERE}:NOBODY", f"module '{HERE}' has no attribute 'NOBODY'."),
        (f"{HERE}:MIME", f"module '{HERE}' has no attribute 'MIME'. Did you mean MINE?"),
        ("broken_by_as:ADAPTER", "no module 'broken_by_as'. Did you mean broken_by_us?"),
        (f"{HERE}:", f"module '{HERE}' has no attribute ''."),
        (f"{HERE}:Holder.nobody", "type object 'Holder' has no attribute 'nobody'."),
        (f"{HERE}:NOT_AN_ADAPTER", "expected Adapter, got 'text'."),
        (":ADAPTER", "importing  failed: ValueError: Empty module name."),
        ("broken_by_us:ADAPTER", "importing broken_by_us failed: ZeroDivisionError: division by zero (PLACE)."),
        (
            "needs_another:ADAPTER",
            f"it imports 'not_installed_here', which is not installed (PLACE). {INSTALL_IT}",
        ),
    ],
)
def test_a_module_and_attribute_that_is_no_adapter(module: Callable[[str, str], None], spec: str, reason: str) -> None:
    module("broken_by_us", "1 / 0\n")
    module("needs_another", "import not_installed_here\n")
    text = failure(PluginError, lambda: adapter_specs.adapter(spec))
    assert re.sub(r"\([^()]*\.py, line 1\)", "(PLACE)", text) == f"the adapter {spec!r} cannot be used: {reason}"


def test_an_error_of_ours_says_it_better(module: Callable[[str, str], None]) -> None:
    module(
        "lacks_sdk",
        "from harness.model.errors import MissingDependency\nraise MissingDependency('mine', 'sdk', 'all')\n",
    )
    assert failure(MissingDependency, lambda: adapter_specs.adapter("lacks_sdk:ADAPTER")) == (
        "the adapter 'mine' needs the package 'sdk', which is not installed. "
        "Install it with: pip install 'toolcall-harness[all]' (in a checkout: pip install -e '.[all]')"
    )


def test_rules_have_ids_of_their_own(plug: Plug) -> None:
    rules = all_rules()
    assert len({rule.id for rule in rules}) == len(rules) > 40
    assert all(rule.requirement.endswith(".") and rule.source for rule in rules)


@pytest.mark.parametrize("attribute", ["MY_RULE", "MY_RULES"])
def test_an_entry_point_brings_in_rules(plug: Plug, attribute: str) -> None:
    before = len(all_rules())
    plug("rules", "mine", f"{HERE}:{attribute}")
    assert all_rules()[before:] == [MY_RULE]
    assert MY_RULE.blame is Blame.ADAPTER


def test_rules_that_cannot_be_used(plug: Plug) -> None:
    plug("rules", "mine", f"{HERE}:ODD_RULES")
    assert failure(PluginError, all_rules) == (
        "the rule module 'mine' cannot be used: it holds 1, which is not a Rule."
    )


def test_a_rule_that_exists_already(plug: Plug) -> None:
    plug("rules", "mine", f"{HERE}:TAKEN")
    assert failure(PluginError, all_rules) == (
        "the rule module 'mine' cannot be used: its rule 'usage' exists already; rename it."
    )


def test_a_rule_module_that_cannot_be_imported(plug: Plug) -> None:
    plug("rules", "mine", "no_such_module")
    assert failure(PluginError, all_rules) == (
        "the rule module 'mine' cannot be used: "
        "importing no_such_module failed: ModuleNotFoundError: No module named 'no_such_module'."
    )
