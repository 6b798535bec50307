"""The matrix of features by libraries: `python -m tests.wrappers`.

For each library it makes a virtual environment, installs the versions that `harness.wrappers` states, plays the suite
against the reference server through each adapter, and writes `matrix.json`. A library that is given with a version
(`litellm==1.100.0`) is a row of its own. `--report matrix:PATH` writes the page from the file, and plays nothing.

`--reproductions DIR` writes the scripts of `harness reproduce` for the causes in `proof.txt`, runs each where only its
library is installed, and prints a table.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.wrappers import WRAPPERS
from tests.wrappers import page, play, reproductions


def main() -> None:
    options = _options()
    if options.reproductions is not None:
        for line in reproductions.table(options.library, options.venvs, options.reproductions):
            print(line, flush=True)  # noqa: T201 - the table
    elif options.report is None:
        wanted = options.library or [each.library for each in WRAPPERS]
        rows = [row for each in wanted for row in play.rows(each, options.venvs, options.scenario, fresh=options.fresh)]
        written = play.merged(options.json, rows)
        options.json.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        kind, _, path = options.report.partition(":")
        if kind != "matrix" or not path:
            raise SystemExit(f"--report {options.report}: expected matrix:PATH")
        Path(path).write_text(page.html(json.loads(options.json.read_text(encoding="utf-8"))), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.wrappers", description=__doc__)
    parser.add_argument("library", nargs="*", help="a library, or LIBRARY==VERSION; default: all")
    parser.add_argument("--venvs", type=Path, default=Path(".harness/wrappers"), help="folder of the environments")
    parser.add_argument("--fresh", action="store_true", help="make environments again that exist")
    parser.add_argument("--scenario", action="append", default=[], metavar="ID", help="only this one; repeatable")
    parser.add_argument("--json", type=Path, default=Path("matrix.json"), help="the file (default: %(default)s)")
    parser.add_argument("--report", metavar="matrix:PATH", help="write the page from the file, and play nothing")
    parser.add_argument("--reproductions", type=Path, metavar="DIR", help="write scripts of causes, and run them")
    return parser.parse_args()


if __name__ == "__main__":
    main()
