"""What jobs need is asked for together, and a job that cannot be described keeps no other from its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.transfer.driving.describing import JOBS_MAX, Describing
from subord.services.transfer.jobs import Spec
from tests.transfer.cell_in_memory import MemoryCell

RETRY_S = 2.0
SPEC = Spec(user="ann", name="sleeper", script="sleep 1\n")


@dataclass
class FaultyCell(MemoryCell):
    """`bad`: the job whose description has this fault, in each query that asks for it."""

    fault: Fault = Fault.GARBLED
    bad: str = ""
    asked: list[float] = field(default_factory=list)

    async def describe(self, jobs: Iterable[str]) -> Mapping[str, Spec | Refused] | Unavailable:
        wanted = tuple(jobs)
        self.described.append(wanted)
        self.asked.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        return Unavailable(self.fault, "so it is") if self.bad in wanted else dict.fromkeys(wanted, SPEC)


@pytest.fixture
def clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.mark.parametrize("fault", list(Fault))
async def test_one_job_does_not_keep_others_from_their_answer(fault: Fault, clock: object) -> None:
    cell = FaultyCell(fault=fault, bad="0")
    describing = Describing(cell, RETRY_S)
    found = dict[str, Spec | Refused]()

    async def ask(job: str) -> None:
        found[job] = await describing.described(job)

    jobs = [str(each) for each in range(150)]
    with trio.move_on_after(1000):
        async with trio.open_nursery() as nursery:
            for each in jobs:
                nursery.start_soon(ask, each)
    assert {job for job in jobs if found.get(job) == SPEC} == set(jobs) - {"0"}
    if fault in (Fault.GARBLED, Fault.LARGE):
        assert isinstance(found["0"], Refused)
    else:
        assert "0" not in found, "the batch system may not answer for a while"
    assert max(map(len, cell.described)) == JOBS_MAX
    alike = sum(each == RETRY_S for each in map(float.__sub__, cell.asked[1:], cell.asked))
    assert alike >= sum("0" in each for each in cell.described) - 2, (
        "without an answer it is asked again after a pause"
    )
