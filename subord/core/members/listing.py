"""Which members an answer names: the rows of a roster, and those that the register expects beside them.

Inputs are the roster of a node and its register. At the root the answer is that of the whole cluster. A node that
said goodbye or is forgotten is no member, although its leader reports it as missing for some beats.
"""

from __future__ import annotations

from subord.core.members.register import Record, Register, State
from subord.core.view import Liveness, Position, RosterRow, RosterView


def rows(view: RosterView, register: Register) -> list[RosterRow]:
    """The rows of a roster that are members."""
    return [row for row in view.rows if not is_over(row, register)]


def is_over(row: RosterRow, register: Register) -> bool:
    """Whether an operator has forgotten a node, or it said goodbye, that its leader still reports as missing."""
    return row.liveness is Liveness.MISSING and has_ended(register.at(row.position))


def has_ended(record: Record | None) -> bool:
    """Whether a node is no longer expected."""
    return record is not None and record.state in (State.LEFT, State.FORGOTTEN)


def expected(register: Register) -> dict[Position, Record]:
    """The nodes that should be up."""
    return of_states(register, State.UP, State.DOWN)


def of_states(register: Register, *states: State) -> dict[Position, Record]:
    """Records in one of the states, by position."""
    found = {position: register.at(position) for position in register.positions(*states)}
    return {position: record for position, record in found.items() if record is not None}


def standings(view: RosterView, register: Register) -> dict[Position, str]:
    """What the root answers: each member, and whether it is live, stale, missing, held or gone."""
    found = {row.position: row.liveness.value for row in rows(view, register)}
    present = {row.position for row in view.rows}
    for position, record in expected(register).items():
        if position not in present:
            found[position] = "gone" if record.state is State.DOWN else "stale"
    return found
