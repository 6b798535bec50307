"""The project and the commit that a run names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.platform.project import commit, project_name


def test_a_repository_has_a_commit_and_says_that_files_were_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        known = ["-c", "user.name=x", "-c", "user.email=x@example.invalid", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *known, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "code.py").write_text("1\n")
    git("add", ".")
    git("commit", "-q", "-m", "x")
    clean = commit(tmp_path)
    (tmp_path / "code.py").write_text("2\n")

    assert git("rev-parse", "HEAD").startswith(clean)
    assert len(clean) == 10
    assert commit(tmp_path) == f"{clean}-dirty"
    assert project_name(tmp_path) == tmp_path.name


@pytest.mark.parametrize(
    ("text", "name"), [('[project]\nname = "my-app"\n', "my-app"), ("[tool.x]\n", None), ("= no TOML", None)]
)
def test_a_project_has_the_name_that_it_gives_itself_or_that_of_its_folder(
    tmp_path: Path, text: str, name: str | None
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)

    assert project_name(tmp_path) == (name or tmp_path.name)


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert (commit(tmp_path), project_name(tmp_path)) == ("", tmp_path.name)
