"""Two simulated clusters on virtual time: their batch systems, the link, disks, and what truly ran.

One step is a second. The world keeps the truth apart from what agents believe: each process that ran, with its key,
is a Run, and checks.py compares them with what the batch systems at home were told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NamedTuple

from subord.services.transfer import away, home
from subord.services.transfer.jobs import Key
from subord.services.transfer.records import Begun


class BrokenError(Exception):
    """An invariant does not hold. The first word is its name."""


@dataclass(eq=False)
class Run:
    """A process of a job. `key`: of the attempt, if it ran abroad."""

    work: tuple[str, str]
    key: Key | None
    cell: str
    began: int
    ended: int | None = None
    status: int = 0
    signal: int = 0

    @property
    def is_whole(self) -> bool:
        """It has come to its end by itself."""
        return self.ended is not None and self.signal != 9


@dataclass
class Times:
    """How bad the link and the commands are."""

    delay: int = 1
    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    command: int = 1
    fails: float = 0.0
    """Commands that say nothing, and were done or not."""
    lag: int = 15
    """Of the accounting."""


class Disk:
    """Records as in the file, and copies of them."""

    def __init__(self) -> None:
        self.home = dict[Key, Any]()
        self.away = dict[Key, Any]()
        self.life = self.written = self.restored_life = 0
        self.peer = (0, 0)
        self.copies = list[dict[str, Any]]()

    def begin(self, at_ms: int) -> Begun:
        self.life = max(at_ms, self.life + 1)
        self.written += 1
        return Begun(
            self.life,
            home.Kept(tuple(self.home.values()), *self.peer),
            away.Kept(tuple(self.away.values()), self.written, self.restored_life),
        )

    def write(self, of_home: home.Changes, of_away: away.Changes) -> int:
        if not (of_home.records or of_home.peer or of_away.records or of_away.restored_life is not None):
            return self.written
        for kept, changes in ((self.home, of_home.records), (self.away, of_away.records)):
            for key, record in changes.items():
                if record is None:
                    kept.pop(key, None)
                else:
                    kept[key] = record
        self.written += 1
        self.peer = of_home.peer or self.peer
        if of_away.restored_life is not None:
            self.restored_life = of_away.restored_life
        return self.written

    def copy(self) -> None:
        kept = dict(self.__dict__)
        del kept["copies"]
        self.copies = self.copies[-60:]
        self.copies.append(kept | {"home": dict(self.home), "away": dict(self.away)})

    def restore(self, copy: dict[str, Any]) -> None:
        self.__dict__.update(copy | {"home": dict(copy["home"]), "away": dict(copy["away"])})


class _Event(NamedTuple):
    at: int
    number: int
    do: Callable[[], None]


@dataclass
class World:
    random: Random
    times: Times
    now: int = 0
    is_cut: bool = False
    is_rough: bool = False
    """Submissions may fail again and again, so a job may go home although it could run abroad."""
    runs: dict[tuple[str, str], list[Run]] = field(default_factory=lambda: defaultdict(list))
    by_key: dict[Key, list[Run]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    returned: set[Key] = field(default_factory=set)
    """Attempts that went home, and must never run."""
    attached: dict[Key, int] = field(default_factory=dict)
    """When the attempt began."""
    doubts: set[str] = field(default_factory=set)
    """Cells whose memory of jobs was lost in part, so that ends may be unknown."""
    _events: list[_Event] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)

    def after(self, seconds: int, do: Callable[[], None]) -> None:
        heappush(self._events, _Event(self.now + max(0, seconds), next(self._numbers), do))

    def happen(self) -> None:
        """What is due until now."""
        while self._events and self._events[0].at <= self.now:
            heappop(self._events).do()

    # -- the link ---------------------------------------------------------------------------------------------------

    def send(self, deliver: Callable[[], None]) -> None:
        """It may arrive never, twice, or much later than what is sent after it."""
        random, times = self.random, self.times
        if self.is_cut or random.random() < times.lost:
            return
        is_late = random.random() < times.late
        self.after(random.randint(4, 40) if is_late else random.randint(0, times.delay), self._unless_cut(deliver))
        if random.random() < times.twice:
            self.after(random.randint(0, 60), self._unless_cut(deliver))

    def _unless_cut(self, deliver: Callable[[], None]) -> Callable[[], None]:
        def do() -> None:
            if not self.is_cut:
                deliver()

        return do

    # -- what ran ---------------------------------------------------------------------------------------------------

    def begin_run(self, work: tuple[str, str], key: Key | None, cell: str) -> Run:
        running = [each for each in self.runs[work] if each.ended is None]
        if running:
            raise BrokenError(f"twice: {work} begins at {cell} as {key} while {running} runs")
        self.counts["after its end"] += any(each.is_whole for each in self.runs[work])
        if key is not None:
            if self.by_key[key]:
                raise BrokenError(f"again: {key} runs a second time: {self.by_key[key]}")
            if key in self.returned:
                raise BrokenError(f"returned: {key} runs abroad, and went home before")
            since = self.attached[key]  # an earlier attempt may have begun since, and was ended
            later = [each for each in self.runs[work] if each.began > since and (each.key is None or each.key > key)]
            if later:
                raise BrokenError(f"late: {key} begins after {later}")
        run = Run(work, key, cell, self.now)
        self.runs[work].append(run)
        if key is not None:
            self.by_key[key].append(run)
        self.counts["abroad" if key else "local"] += 1
        return run

    def end_run(self, run: Run, status: int, signal: int) -> None:
        run.ended, run.status, run.signal = self.now, status, signal
