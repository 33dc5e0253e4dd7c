"""What has become of each action: it is under way, its effect was seen, it was refused, or it came to nothing.

Inputs are decisions, faults of orders, and what is still waited for; outputs are actions for the daemon, and totals.
Invariant: of a machine at most one action is under way; of those that are over the last PAST_MAX are kept.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec.structs import replace

from subord.runtime.machines.state import ACTIONS_MAX, DONE, LOST, REFUSED, TRIAL
from subord.runtime.machines.state import Action as Told
from subord.services.machines.deciding.picture import Given
from subord.services.machines.orders import Action, Open, Pending, Start, Stay

PAST_MAX: Final = ACTIONS_MAX
TOTALS: Final = {
    "open": "opened",
    "close": "closed",
    "start": "started",
    "clone": "cloned",
    "stop": "stopped",
    "delete": "deleted",
}


class Deeds:
    """Those of one process."""

    def __init__(self) -> None:
        self.totals = Counter[str]()
        self._under_way = dict[str, tuple[Action, Told]]()
        self._past: deque[Told] = deque(maxlen=PAST_MAX)
        self._trial: tuple[Told, ...] = ()

    def __len__(self) -> int:
        return len(self._under_way)

    def tried(self, given: Iterable[Given], now: float) -> None:
        """By a plan for trial."""
        self._trial = tuple(replace(_told(each, now), result=TRIAL) for each in given)

    def given(self, given: Iterable[Given], now: float) -> None:
        for each in given:
            self._under_way[each.action.machine] = (each.action, _told(each, now))

    def waited(self, pending: Iterable[Pending], lost: Iterable[Pending]) -> None:
        """Before the actions of a round are given."""
        still = {each.action for each in pending}
        came_to_nothing = {each.action for each in lost}
        for name, (action, told) in list(self._under_way.items()):
            if action not in still:
                del self._under_way[name]
                self._past.append(self._ended(action, told, is_lost=action in came_to_nothing))

    def refused(self, machine: str, fault: str, *, is_late: bool = False) -> None:
        """A step of its action was not obeyed. `is_late`: its time was over."""
        self.totals["expired" if is_late else "refused"] += 1
        if (found := self._under_way.get(machine)) is not None:
            action, told = found
            self._under_way[machine] = (action, replace(told, result=REFUSED, reason=fault))

    def told(self) -> Iterator[Told]:
        """The newest first: those of a trial, those that are under way, and others."""
        yield from self._trial
        yield from (told for _, told in reversed(self._under_way.values()))
        yield from reversed(self._past)

    def _ended(self, action: Action, told: Told, *, is_lost: bool) -> Told:
        if told.result == REFUSED:
            return told
        if is_lost:
            self.totals["lost"] += 1
            return replace(told, result=LOST, reason="no effect was seen in time")
        self._count(action)
        return replace(told, result=DONE)

    @property
    def number(self) -> int:
        return len(self._trial) + len(self._under_way) + len(self._past)

    def _count(self, action: Action) -> None:
        kind = kind_of(action)
        if isinstance(action, Start) and action.source:
            self.totals["moved"] += 1
        if kind in TOTALS:
            self.totals[TOTALS[kind]] += 1


def kind_of(action: Action) -> str:
    return type(action).__name__.lower()


def first(told: Iterator[Told]) -> tuple[Told, ...]:
    return tuple(islice(told, ACTIONS_MAX))


def _told(given: Given, now: float) -> Told:
    action = given.action
    source = action.source if isinstance(action, Start) else ""
    server = getattr(action, "server", "")
    why = given.why
    if isinstance(action, Open) and action.window_ends:
        why = f"{why}, for {action.window_ends - now:.0f} s"
    if isinstance(action, Stay):
        source = action.target
    return Told(
        at=max(0.0, now), kind=kind_of(action), machine=action.machine, server=server, source=source, job=given.job,
        why=why,
    )  # fmt: skip
