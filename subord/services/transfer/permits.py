"""Permits: how many jobs the other cluster may send now. Pure.

The side where jobs run grants them. A permit counts like a job until it is used, given back, or its lease is over, so
a burst never brings more jobs than were offered. Invariants: a permit is used by one job; none is used after its
lease, which is measured by the clock that granted it; none outlives the process that granted it, since its number
belongs to the life of that process.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final, NamedTuple

from subord.services.transfer.thresholds import idle_margin

PERMITS_MAX: Final = 1000
"""Granted by one answer, and held by the other side at once: so many a message names."""
HELD_SHARE: Final = 0.9
"""Of a lease: the side that holds the permit counts from when it asked, and does not wait for the end: clocks differ
in their pace."""


class Room(NamedTuple):
    """What bounds the jobs that may come. `slots_max`, `idle_pending_max`: of the plan. `foreign`: jobs of the other
    cluster that are here or may be. `pending`: jobs that wait by the last look, None: it is too old. `coming`:
    foreign jobs that wait, and that this look has not counted. `records`: for how many more there is room."""

    slots_max: int
    idle_pending_max: int | None
    foreign: int
    pending: int | None
    coming: int
    records: int


def margin(room: Room, permits: int) -> int:
    """How many permits may be granted beside those that there are."""
    if room.pending is None:
        return 0
    left = min(room.slots_max - room.foreign - permits, room.records - permits)
    idle = idle_margin(room.pending + room.coming + permits, room.idle_pending_max)
    return max(0, left if idle is None else min(left, idle))


class Permits:
    """Those that were granted and not used."""

    def __init__(self) -> None:
        self._until = dict[int, float]()
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._until)

    def expire(self, now: float) -> None:
        for each in [each for each, until in self._until.items() if now >= until]:
            del self._until[each]

    def use(self, number: int, now: float) -> bool:
        """False: it is none, or not any more."""
        until = self._until.pop(number, None)
        return until is not None and now < until

    def keep(self, held: Iterable[int]) -> None:
        """The other side has these; others were lost on the way, and may be granted again."""
        kept = set(held)
        for each in [each for each in self._until if each not in kept]:
            del self._until[each]

    def grant(self, wanted: int, room: Room, now: float, lease_s: float) -> tuple[int, ...]:
        self.expire(now)
        granted = min(wanted, margin(room, len(self)), PERMITS_MAX)
        numbers = tuple(next(self._numbers) for _ in range(granted))
        self._until.update(dict.fromkeys(numbers, now + lease_s))
        return numbers


class Held:
    """Permits of the other side, which this side may use. `life`: of the process that granted them."""

    def __init__(self) -> None:
        self.life = 0
        self._until = dict[int, float]()

    def __len__(self) -> int:
        return len(self._until)

    def take(self, life: int, numbers: Iterable[int], asked_at: float, lease_s: float) -> None:
        """`asked_at`: when the message was sent that this answers."""
        self.meet(life)
        self._until.update(dict.fromkeys(numbers, asked_at + HELD_SHARE * lease_s))

    def meet(self, life: int) -> None:
        """Those of another life are void."""
        if life != self.life:
            self.life = life
            self._until.clear()

    def spend(self, now: float) -> int | None:
        """The number of one whose lease is not over, which is used up now; None: there is none."""
        while self._until:
            number = next(iter(self._until))
            if now < self._until.pop(number):
                return number
        return None

    def numbers(self, now: float) -> tuple[int, ...]:
        return tuple(each for each, until in self._until.items() if now < until)

    def limit(self, most: int) -> None:
        """The newest are given back by not being named any more."""
        for each in list(self._until)[most:]:
            del self._until[each]
