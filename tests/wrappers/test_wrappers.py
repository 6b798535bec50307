"""The ready-made wrappers: named without being imported, short, and run with a stub of a library."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from harness import plugins, wrappers
from harness.cli.main import main
from harness.model.errors import PluginError
from harness.results import RunResult, Verdict
from harness.stdio import adapter_specs
from harness.wrappers import WRAPPERS, NodeWrapper, Wrapper
from tests.cli.conftest import without_workers

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PYTHON = [each for each in WRAPPERS if not isinstance(each, NodeWrapper)]
NODE = [each for each in WRAPPERS if isinstance(each, NodeWrapper)]
MODULES = {each.library: Path(f"{ROOT / each.module.replace('.', '/')}.py") for each in PYTHON}
PROGRAMS = {each.library: Path(each.module) for each in NODE}
LONG = {"langchain", "pydantic-ai", "haystack", "llama-index"}
"""Libraries with messages of their own."""

EVERY = [(each, attribute) for each in PYTHON for attribute in each.imports]
OF_NODE = [(each, attribute) for each in NODE for attribute in each.imports]


def test_the_registry_lists_every_module() -> None:
    folder = ROOT / "harness" / "wrappers"

    assert sorted(MODULES.values()) == sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    assert sorted(PROGRAMS.values()) == sorted(each for each in (folder / "node").iterdir() if each.name != "stdio.mjs")
    assert len(wrappers.names()) == len(WRAPPERS) + len(EVERY) + len(OF_NODE)
    assert not set(wrappers.names()) & set(plugins.ADAPTERS.names())


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=[each.library for each in WRAPPERS])
def test_both_ends_of_the_tried_versions_are_stated(wrapper: Wrapper) -> None:
    both_ends = r"\^\d+\.\d+\.\d+" if isinstance(wrapper, NodeWrapper) else r">=\d+\.\d+[\d.]*,<\d+[\d.]*"

    for requirement, name in zip(wrapper.tried, wrapper.distributions, strict=True):
        assert requirement.startswith(name)
        assert re.search(f"{both_ends}$", requirement), requirement


@pytest.mark.parametrize("library", MODULES)
def test_a_wrapper_is_short(library: str) -> None:
    source = MODULES[library].read_text(encoding="utf-8")
    _docstring, *body = ast.parse(source).body
    rest = [each for each in body if not isinstance(each, ast.Import | ast.ImportFrom)]
    lines = [line for each in rest for line in source.splitlines()[each.lineno - 1 : each.end_lineno] if line.strip()]

    assert len(lines) <= (120 if library in LONG else 40)


@pytest.mark.parametrize("library", PROGRAMS)
def test_a_program_for_node_is_short(library: str) -> None:
    lines = [line.strip() for line in PROGRAMS[library].read_text(encoding="utf-8").splitlines()]
    code = [line for line in lines if line and not line.startswith(("//", "import "))]

    assert len(code) <= 120


@pytest.mark.parametrize(("wrapper", "attribute"), OF_NODE, ids=[f"{w.library}-{a}" for w, a in OF_NODE])
def test_a_package_that_is_not_installed_is_one_clear_line(
    wrapper: NodeWrapper, attribute: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"{wrapper.library}-{attribute.lower()}"

    with pytest.raises(PluginError) as raised:
        adapter_specs.specs([name])

    assert str(raised.value).endswith(f"is not installed in this folder. Install it: {wrapper.install}")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_program_for_node_is_named_by_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, version in {"ai": "6.1.0", "@ai-sdk/anthropic": "3.0.2"}.items():
        (tmp_path / "node_modules" / package).mkdir(parents=True)
        (tmp_path / "node_modules" / package / "package.json").write_text(json.dumps({"version": version}))
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    wrapper = next(each for each in NODE if each.library == "vercel-ai")

    (spec,) = adapter_specs.specs(["vercel-ai-anthropic"])

    assert spec == f"$ node {wrapper.module} anthropic"
    assert adapter_specs.specs(conversations=["vercel-ai-anthropic"]) == [spec]
    assert wrapper.installed == {"ai": "6.1.0", "@ai-sdk/anthropic": "3.0.2"}


@pytest.mark.parametrize(("wrapper", "attribute"), EVERY, ids=[f"{w.library}-{a}" for w, a in EVERY])
def test_a_library_that_is_not_installed_is_one_clear_line(wrapper: Wrapper, attribute: str) -> None:
    missing = wrapper.missing(attribute)
    if not missing:
        found = adapter_specs.adapter(f"{wrapper.module}:{attribute}")
        assert (found.api, found.drive is not None) == (wrapper.api(attribute), wrapper.kind == "loop")
        return
    name = f"{wrapper.library}-{attribute.lower()}"

    with pytest.raises(PluginError) as raised:
        adapter_specs.adapter(name)

    assert str(raised.value) == (
        f"the {wrapper.kind} {name!r} cannot be used: {', '.join(missing)} is not installed where harness is. "
        f"Install it: {wrapper.install}"
    )


STUB = """
import json, urllib.request

def completion(model, *, api_base, api_key, num_retries, max_retries, **fields):
    assert not fields.pop("stream", False) and "stream_options" not in fields, "this stub cannot stream"
    fields["max_completion_tokens"] = fields.pop("max_tokens")
    body = json.dumps({"model": model.partition("/")[2], **fields}).encode()
    heads = {"content-type": "application/json", "authorization": f"Bearer {api_key}"}
    sent = urllib.request.Request(f"{api_base}/chat/completions", body, heads)
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)

def stream_chunk_builder(chunks):
    raise AssertionError("this stub cannot stream")
"""


@pytest.mark.skipif(find_spec("litellm") is not None, reason="the real library is installed: tests.wrappers plays it")
def test_a_wrapper_runs_by_its_name_if_its_library_is_importable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_workers(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("litellm", "harness.wrappers.litellm"):  # what has loaded the stub goes with this test
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        del sys.modules[name]
    (tmp_path / "litellm.py").write_text(STUB, encoding="utf-8")
    few = ("call-parallel-same-tool", "history-two-turns", "history-long-ids", "system-plain")
    words = ["--mode=reference", "--variant=whole", "--target=openai-chat", "--model=openai-chat=gpt-5.4"]

    main(["run", *few, *words, "--adapter", "litellm", "--report=json:run.json"])

    cells = RunResult.from_json(Path("run.json").read_text(encoding="utf-8")).cells
    assert {each.scenario: each.verdict for each in cells} == dict.fromkeys(sorted(few), Verdict.PASS)
    assert {each.target for each in cells} == {"litellm-openai"}
