"""The steps of cold moves, from the results of servers. Pure.

A server gives its machine (Start with a source), the other one takes its definition (Arrive), the first forgets it
(Forget), and the second settles and starts it (Settle). Inputs are results; output is the next step. A process that
has no result any more, or is a new one, begins again with the first step, which all servers answer as before.
Invariants: a step is given only when the one before it is done; a move is taken back only if the other server has
answered, after it has refused the machine, that it does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from subord.services.machines.model import Server
from subord.services.machines.orders import Action, Arrive, Forget, Order, Settle, Start, Step
from subord.services.machines.servers import Result

STAYS_S: Final = 600.0
"""A machine that could not be moved is not moved again for so long."""


class _Move(NamedTuple):
    start: Start
    number: int
    """Of the last order."""


class Moves:
    """Those of one process."""

    def __init__(self) -> None:
        self._moves = dict[str, _Move]()
        self._failed = dict[str, float]()
        """When a machine could not be moved."""

    def ordered(self, order: Order) -> None:
        """A Start with a source, or a step that follows it."""
        action, name = order.action, order.action.machine
        if isinstance(action, Start) and action.source:
            self._moves[name] = _Move(action, order.number)
        elif (move := self._moves.get(name)) is not None and isinstance(action, Arrive | Forget | Settle):
            self._moves[name] = move._replace(number=order.number)
        else:
            self._moves.pop(name, None)

    def next(self, order: Order, result: Result, now: float) -> Action | Step | None:
        """What follows a result; None: nothing, or it is not that of the last step of a move."""
        move = self._moves.get(order.action.machine)
        if move is None or move.number != order.number:
            return None
        if result.fault:
            del self._moves[order.action.machine]
            if result.is_refused and isinstance(order.action, Start | Arrive):
                self._failed[order.action.machine] = now
            return None
        name, target, source = move.start
        match order.action:
            case Start():
                return Arrive(name, target, source, result.id, result.xml) if result.xml else _settle(move)
            case Arrive():
                return Forget(name, source)
            case Forget():
                return _settle(move)
        del self._moves[name]
        return None

    def staying(self, now: float) -> frozenset[str]:
        self._failed = {name: at for name, at in self._failed.items() if now - at <= STAYS_S}
        return frozenset(self._failed)

    def refused(self, servers: Mapping[str, Server]) -> Iterable[str]:
        """Machines whose move is to be taken back. `servers`: all, reachable or not."""
        for server in servers.values():
            for machine in server.machines if self._failed else ():
                at, target = self._failed.get(machine.name), servers.get(machine.given_to)
                if at is None or target is None or not target.is_reachable or target.asked_at <= at:
                    continue
                if all(each.name != machine.name for each in target.machines):
                    yield machine.name


def _settle(move: _Move) -> Settle:
    return Settle(move.start.machine, move.start.server, move.start.source)
