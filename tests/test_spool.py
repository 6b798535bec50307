"""A long run, whose results leave memory, reads as a short one."""

from __future__ import annotations

import errno
import gc
import os
import tracemalloc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from tempfile import SpooledTemporaryFile

import pytest

from harness import catalog
from harness.contract.errors import HarnessError
from harness.reports.html.data import _Pile, _Pool
from harness.results import Presentation, Provenance, RunResult, Spool
from harness.results.spool import ROOM
from tests.reports import runs

REPORTS = sorted(catalog.REPORTS.names())


def spooled(run: RunResult, order: Sequence[int] | None = None) -> RunResult:
    spool = Spool(len(run.cells), room=0)
    for at in order or range(len(run.cells)):
        spool.put(at, run.cells[at])
    return replace(run, cells=spool.cells)


@pytest.mark.parametrize("make", [runs.red, runs.two_causes, runs.hostile, runs.talking, runs.with_many_skipped])
@pytest.mark.parametrize("name", REPORTS)
def test_every_report_of_it_is_the_same(name: str, make: object) -> None:
    assert callable(make)
    run: RunResult = make()
    report, presentation = catalog.REPORTS.load(name), Presentation()

    made = report.render(spooled(run), presentation)

    assert made == report.render(run, presentation)
    assert "".join(report.made(run, presentation)) == made


def test_cells_stand_in_their_order_whichever_is_done_first() -> None:
    run = runs.talking()

    back = spooled(run, order=list(reversed(range(len(run.cells)))))

    assert isinstance(back.cells, Spool)
    assert back == run
    assert [*back.cells] == [*run.cells]
    assert back.cells[-1] == run.cells[-1]
    assert [*back.cells[1:]] == [*run.cells[1:]]


def test_only_the_cells_that_are_done_are_there() -> None:
    run = runs.red()
    spool = Spool(len(run.cells), room=0)
    spool.put(2, run.cells[2])
    spool.put(0, run.cells[0])

    assert [*spool] == [run.cells[0], run.cells[2]]
    assert (len(spool), spool[1]) == (2, run.cells[2])


def test_evidence_leaves_memory_and_what_cells_have_in_common_is_there_once() -> None:
    spool = Spool(ROOM + 1)
    spool.put(0, runs.failed())
    covers = ["id-matching"]
    for at in range(1, 3):
        origin = Provenance("provider", model_served="one" * 2, versions={"openai": "1"})
        spool.put(at, runs.cell(provenance=origin, covers=tuple(covers)))

    assert spool[0].findings == runs.failed().findings
    assert spool[0].findings[0] is not spool[0].findings[0]
    assert spool[1] is spool[1]
    assert spool[1].provenance is spool[2].provenance
    assert spool[1].covers is spool[2].covers


def test_what_fits_into_memory_is_a_plain_tuple() -> None:
    spool = Spool(ROOM)
    spool.put(0, runs.failed())
    assert spool.cells == (runs.failed(),)
    assert type(spool.cells) is tuple


def test_conversations_are_read_by_who_wants_them_alone() -> None:
    spool = spooled(runs.talking()).cells
    assert isinstance(spool, Spool)
    assert any(cell.conversation for cell in spool)
    assert not any(cell.conversation for cell in spool.bare())


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_does_not_hold_all_findings_in_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.reports.html.data._KNOWN", 50_000)
    monkeypatch.setattr("harness.reports.html.data._ROOM", 50_000)
    assert "".join(catalog.REPORTS.load(name).made(runs.red(), Presentation()))  # what it imports is not counted
    spool = Spool(200, room=0)
    for at in range(200):
        spool.put(at, runs.failed(f"case-{at}", "anthropic", runs.finding(actual=f"{at} " * 5_000)))
    run, report = RunResult("replay", spool.cells), catalog.REPORTS.load(name)
    tracemalloc.start()
    try:
        written = sum(len(piece) for piece in report.made(run, Presentation()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert written > 10
    assert peak < 1_000_000  # all findings together have four


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spool = Spool(1, room=0)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(HarnessError, match=r"results cannot be kept in /.*: No space left on device\. TMPDIR names"):
        spool.put(0, runs.failed())


def test_its_file_ends_with_it() -> None:
    ended: list[bool] = []
    spool = Spool(1, room=0)
    bare = spool.bare()
    assert spool._file is not None
    weakref.finalize(spool._file, ended.append, True)
    del spool
    gc.collect()
    assert not ended
    del bare
    gc.collect()
    assert ended


def test_what_the_page_knows_again_has_no_more_room_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.reports.html.data._KNOWN", 200_000)
    with SpooledTemporaryFile[bytes](1_000) as texts, SpooledTemporaryFile[bytes](1_000) as bodies:
        pool = _Pool(_Pile(texts), _Pile(bodies))
        tracemalloc.start()
        try:
            for at in range(10_000):
                pool.text(f"{at}")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 400_000  # with what each text takes beside its characters, which alone are 40,000
