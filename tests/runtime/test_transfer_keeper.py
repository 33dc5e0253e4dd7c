"""Transfer queues of a node at its daemon: what is kept of what the agent says, and the bounds of that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from subord.runtime.counters import Counters
from subord.runtime.orders.agent import Done, encode
from subord.runtime.transfer import state
from subord.runtime.transfer.keeper import TransferKeeper
from subord.runtime.transfer.state import JOBS_MAX, LEAVES, JobState, State
from subord.runtime.transfer.talk import FRAME_BYTES_MAX, decode_said, encode_said

SMILE = "\U0001f600"


def keeper() -> tuple[TransferKeeper, Counters]:
    tracker: Any = SimpleNamespace(on_documents=[], membership=SimpleNamespace(documents=SimpleNamespace(by_name={})))
    counters = Counters()
    return TransferKeeper(SimpleNamespace(), tracker, counters), counters  # type: ignore[arg-type]


def test_the_last_state_is_kept_and_new_faults_are_problems() -> None:
    kept, counters = keeper()
    assert kept.state == State(word=state.NONE)
    told = State(word=state.TRANSFERS, version=2, fault="qstat is silent", link_fault="south is silent")
    for each in (told, told, msgspec.structs.replace(told, fault="")):
        assert kept.hear(encode_said(each))
        assert kept.state == each
    assert sorted(each.text for each in counters.problems.shown()) == ["qstat is silent", "south is silent"]
    assert not kept.hear(b"x")
    assert kept.state.fault == ""


def test_what_cannot_be_read_is_the_end() -> None:
    assert decode_said(b"x") is None
    assert decode_said(encode(Done())[4:]) is None


def test_what_is_too_long_is_cut_and_counted() -> None:
    job = JobState(
        LEAVES, "j" * 100, 1, "u" * 100, "s" * 100, "i" * 100, "b", "w", 1.0, "r" * 500, "e" * 100, "h" * 100
    )
    numbers = {f"{each:070}": each for each in range(100)}
    wild = State(
        word=state.TRANSFERS,
        detail="d" * 500,
        peer="p" * 100,
        refused_last="x" * 500,
        leaving=numbers,
        jobs=(job,) * (JOBS_MAX + 7),
        left_out=3,
    )
    said = decode_said(encode_said(wild))
    assert said is not None
    found = said.state
    assert (len(found.detail), len(found.peer), len(found.refused_last)) == (400, 64, 400)
    assert (len(found.jobs), found.left_out, len(found.leaving)) == (JOBS_MAX, 10, 1)
    assert (len(found.jobs[0].job), len(found.jobs[0].reason), len(found.jobs[0].host)) == (64, 400, 64)


def test_the_largest_state_fits_in_a_frame() -> None:
    job = JobState(
        *(SMILE * 64,) * 2, 1, *(SMILE * 64,) * 5, 1.0, SMILE * 400, *(SMILE * 64,) * 2, 1e300, 1e300, 1 << 62
    )
    wild = State(word=state.TRANSFERS, jobs=(job,) * JOBS_MAX)
    assert len(encode_said(wild)) <= FRAME_BYTES_MAX
