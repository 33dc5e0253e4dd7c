"""The agent of a node of an elastic lab: the real one, but files of the node change how it manages a cluster.

TIME has a rate and an origin: from then on so many seconds pass for the manager in one second of the clock, and an
hour in a minute. At a stage whose name is in HALT it waits before the work of the stage, as if that took long, until
the file is gone; HALTED has the name of the node meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from netlab.common.results import replace_file
from netlab.elastic.files import HALT, HALTED, TIME
from subord.agent import main as agent
from subord.services.elastic.clock import Clock
from subord.services.elastic.records import Records
from subord.services.elastic.stages import Record

LOOK_S: Final = 0.02
SLEEP_S_MIN: Final = 0.4
"""Of the machine, which would be busy with questions that are asked again at once otherwise."""


def main(words: Sequence[str]) -> int:
    """As that of the agent: `--config FILE`, in the directory of the node."""
    own = Path(words[words.index("--config") + 1]).parent
    with suppress(FileNotFoundError):
        quicken(*json.loads((own / TIME).read_text()))
    hold(own)
    return agent.main(words)


def quicken(rate: float, origin: float) -> None:
    begin, patched = Clock.__init__, Clock  # type: Any, Any
    patched.__init__ = lambda clock, now=time.time, *_rest, **_others: begin(clock, now, rate, origin)

    async def sleep(_clock: Clock, seconds: float) -> None:
        await trio.sleep(max(SLEEP_S_MIN, seconds / rate))

    patched.sleep = sleep


def hold(own: Path) -> None:
    """A record is put before the work of its stage."""
    put, patched = Records.put, Records  # type: Any, Any

    def held(records: Records, *changed: Record, **others: Any) -> None:
        put(records, *changed, **others)
        for each in changed:
            _await_leave(own, each)

    patched.put = held


def _await_leave(own: Path, record: Record) -> None:
    halt, halted = own / HALT, own / HALTED
    with suppress(FileNotFoundError):
        if halt.read_text() == record.stage:
            replace_file(halted, record.name)
            while halt.exists():
                time.sleep(LOOK_S)
            halted.unlink()
