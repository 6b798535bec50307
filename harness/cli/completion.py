"""What the shell can complete, and `harness completion`: the script by which it asks.

Asked at each press of a key: scenarios and topics are names of files, and what else is named is imported only when its
names are wanted, SDKs never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.main import COMPLETING


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish", "powershell"], typer.Argument(show_default=False, help="The shell that asks.")
    ],
) -> None:
    """Print the script that completes commands, options, scenarios, targets, models, rules and topics in a shell.

    In ~/.bashrc: eval "$(harness completion bash)"; in ~/.zshrc, after compinit: eval "$(harness completion zsh)"; for
    fish: harness completion fish >~/.config/fish/completions/harness.fish
    """
    from typer import completion as scripts  # noqa: PLC0415 - only here

    script = scripts.get_completion_script  # pyright: ignore[reportPrivateImportUsage] - it has no other name
    typer.echo(script(prog_name="harness", complete_var=COMPLETING, shell=shell))


def scenarios(incomplete: str) -> list[str]:
    """Ids of shipped scenarios, and the files and folders that begin so."""
    from harness.scenarios import suite  # noqa: PLC0415 - `harness --help` loads none of it

    ids = (file.stem for file in suite.shipped("scenarios").glob("*.yaml"))
    return [*_begun(ids, incomplete), *_paths(incomplete)]


def _paths(incomplete: str) -> Iterator[str]:
    head, slash, tail = incomplete.rpartition("/")
    try:
        found = sorted(Path(head + slash or ".").iterdir())
    except OSError:
        return
    for path in found:
        if path.name.startswith(tail) and (tail or not path.name.startswith(".")):
            name = f"{head}{slash}{path.name}"
            if path.is_dir():
                yield f"{name}/"
            elif path.suffix in (".yaml", ".yml"):
                yield name


def targets(incomplete: str) -> list[str]:
    """Names of targets."""
    from harness import catalog  # noqa: PLC0415 - `harness --help` loads none of it

    return _begun((each.name for each in catalog.targets()), incomplete)


def adapters(incomplete: str) -> list[str]:
    """Names of adapters."""
    from harness import catalog  # noqa: PLC0415 - the same

    return _begun(catalog.ADAPTERS.names(), incomplete)


def models(incomplete: str) -> list[str]:
    """`TARGET=NAME` with the models that are known of the target's API; before the sign, the targets."""
    from harness import catalog  # noqa: PLC0415 - the same
    from harness.running.costs import models as known  # noqa: PLC0415 - the same

    target, equals, _ = incomplete.partition("=")
    found = {each.name: each.api for each in catalog.targets()}
    if not equals:
        return _begun((f"{name}=" for name in found), incomplete)
    return _begun((f"{target}={each.id}" for each in known(found[target])), incomplete) if target in found else []


def rules(incomplete: str) -> list[str]:
    """Ids that findings can have."""
    from harness.running.verdicts import known_finding_ids  # noqa: PLC0415 - the same

    return _begun(known_finding_ids(), incomplete)


def topics(incomplete: str) -> list[str]:
    """Topics of the help."""
    files = (resources.files("harness.cli") / "topics").iterdir()
    return _begun((file.name.removesuffix(".md") for file in files), incomplete)


def schemas(incomplete: str) -> list[str]:
    """Names of schemas."""
    from harness.cli.schema import SCHEMAS  # noqa: PLC0415 - the same

    return _begun(SCHEMAS, incomplete)


def variants(incomplete: str) -> list[str]:
    """How answers are delivered."""
    return _begun(("whole", "stream"), incomplete)


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
