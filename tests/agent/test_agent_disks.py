"""The agent whose state directory is a small real disk: full or read-only, before an order and while it runs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import trio
from conditions import until
from disks import KIB, PAGE, Disk, apart
from signed_orders import NOW_MS

from subord.agent.journal import KEEP_MS, Journal, JournalError
from subord.agent.revoked import RevokedList
from subord.core.carriage.documents import Documents
from subord.core.carriage.engine.causes import CLOCK_BACK, NO_JOURNAL
from subord.core.carriage.engine.interface import Outcome
from tests.agent.test_agent_judge import CLUSTER, Operators, revoking
from tests.agent.test_agent_serving import TOUCHED, Stage, staged

DIGEST = b"d" * 32
MINUTE_MS = 60_000


def tag(number: int) -> bytes:
    return bytes([number]) * 16


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return staged(tmp_path, monkeypatch)


@apart
def test_a_disk_that_takes_nothing_refuses_orders_until_it_does(stage: Stage) -> None:
    disk = Disk(stage.state, 256 * KIB)

    async def orders() -> None:
        async with stage.running():
            for fault, mend in ((disk.fill, disk.free), (disk.close, disk.open)):
                number = stage.times()
                fault()
                assert await stage.act(stage.order(tag=tag(number)), 5) == Outcome(cause=NO_JOURNAL)
                mend()
                assert len(list(stage.state.iterdir())) == number
                assert await stage.act(stage.order(tag=tag(number)), 5) == TOUCHED

    trio.run(orders)
    assert stage.times() == 2


@apart
def test_a_disk_that_fills_up_while_an_order_runs_keeps_its_outcome(stage: Stage) -> None:
    disk = Disk(stage.state, 256 * KIB)

    async def orders() -> None:
        async with stage.running(), trio.open_nursery() as nursery:
            nursery.start_soon(stage.act, stage.order(waits=True), 5)
            await until(stage.times, "it runs")
            disk.fill()
            (stage.top / "go").touch()
        async with stage.running():
            assert await stage.act(stage.order(waits=True), 5) == TOUCHED

    trio.run(orders)
    assert stage.times() == 1


def begun_until_full(journal: Journal, ends_ms: int) -> int:
    """How many orders have begun when the disk has no room for the next one."""
    for number in itertools.count():
        try:
            journal.begin(tag(number), DIGEST, ends_ms, NOW_MS)
        except JournalError:
            return number
    raise AssertionError("unreachable")


@apart
def test_a_journal_that_has_filled_its_disk_drops_what_is_over(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "state", 64 * PAGE)
    journal, ends_ms = Journal(str(disk.path)), NOW_MS + MINUTE_MS
    count = begun_until_full(journal, ends_ms)
    assert count == len(list(disk.path.iterdir())) > 5
    disk.fill()
    late_ms = ends_ms + KEEP_MS
    journal.begin(tag(count), DIGEST, late_ms + MINUTE_MS, late_ms)
    assert len(journal) == 1
    with pytest.raises(JournalError) as found:
        journal.begin(tag(0), DIGEST, ends_ms, NOW_MS)
    assert found.value.cause == CLOCK_BACK


@apart
def test_a_list_of_revoked_operators_that_has_no_room_counts_and_leaves_nothing(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "state", 64 * PAGE)
    operators: Any = Operators()
    one = RevokedList(str(disk.path), operators, CLUSTER, wall=lambda: NOW_MS / 1000)
    disk.fill()
    trio.run(one.take, revoking("bob", Documents(), "ann"))
    assert one.word_for("bob") == "revoked"
    assert sorted(each.name for each in disk.path.iterdir()) == ["ballast", "revoked.lock"]
