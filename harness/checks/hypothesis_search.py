"""Search for a conversation with Hypothesis, which draws, shrinks and remembers it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

import hypothesis
from hypothesis import core, strategies
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import Flaky, HypothesisWarning, NoSuchExample
from hypothesis.internal.conjecture import providers
from hypothesis.internal.conjecture.data import ConjectureData

Value = TypeVar("Value")


def find(
    make: Callable[[Random], Value | None],
    fails: Callable[[Value], bool],
    max_values: int,
    seed: str,
    database: Path | None,
) -> Value | None:
    """Return the smallest value of `make` that `fails`, or `None` if none of `max_values` values does.

    Hypothesis makes every choice of the random generator that `make` gets. The same `seed` gives the same values in
    every process. `None` is not counted as a value. In the folder `database`, Hypothesis keeps values that failed; the
    next search tries them first. If a value fails only sometimes, the last that failed is returned.
    """
    failed: list[Value] = []

    def noted(value: Value) -> bool:
        if not fails(value):
            return False
        failed.append(value)
        return True

    @strategies.composite
    def values(choose: Callable[[strategies.SearchStrategy[strategies.DataObject]], strategies.DataObject]) -> Value:
        value = make(_Choices(choose(strategies.data()).conjecture_data))
        return hypothesis.reject() if value is None else value

    settings = hypothesis.settings(
        max_examples=max_values,
        deadline=None,
        database=DirectoryBasedExampleDatabase(database) if database else None,
        phases=[hypothesis.Phase.reuse, hypothesis.Phase.generate, hypothesis.Phase.shrink],
        backend=_BACKEND,
        verbosity=hypothesis.Verbosity.quiet,
    )
    # Not by `hypothesis.seed`, which would turn the database off.
    core.threadlocal._hypothesis_global_random = Random(seed)  # noqa: S311, SLF001
    try:
        with warnings.catch_warnings():  # its own random generator looks unused to it after `gc.freeze`
            warnings.simplefilter("ignore", HypothesisWarning)
            return hypothesis.find(values(), noted, settings=settings, database_key=b"conversations")
    except NoSuchExample:
        return None
    except Flaky:
        return failed[-1]


class _Choices(Random):
    """A random generator whose choices Hypothesis makes, so that it can repeat and shrink them.

    They are not drawn with a strategy each, which takes twice the time.
    """

    def __init__(self, data: ConjectureData) -> None:
        super().__init__(0)  # its own state is not used
        self._data = data

    def random(self) -> float:
        """Return a number in [0, 1). Hypothesis shrinks it towards 0.999, with which no optional part is drawn."""
        return 0.999 - self._data.draw_integer(0, 999) / 1000

    def _randbelow(self, n: int) -> int:  # all methods of `Random` that choose an integer or an item call it
        return self._data.draw_integer(0, n - 1) if n > 1 else 0


class UniformProvider(providers.HypothesisProvider):
    """Draws evenly distributed integers.

    Hypothesis's own provider prefers constants that it finds in the modules of the user's project. So its values depend
    on what a process has imported, and the same seed would give other conversations in another process.
    """

    def draw_integer(self, min_value: int | None = None, max_value: int | None = None, **_: Any) -> int:
        """See `hypothesis.internal.conjecture.providers.PrimitiveProvider.draw_integer`."""
        random = cast("Random", self._random)
        return random.randint(cast("int", min_value), cast("int", max_value))


_BACKEND = "toolcall-harness"
providers.AVAILABLE_PROVIDERS[_BACKEND] = f"{__name__}.{UniformProvider.__name__}"
