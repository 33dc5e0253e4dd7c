"""How long a machine is open for new jobs: a window of its type, which bounds how long one type can keep its room.

The window begins when a machine that was idle is opened. Where its end is not known, as after the death of the
deciding process, or where the machine was off since it was opened, it has begun when the machine was turned on, so it
is never longer than the plan says.
"""

from __future__ import annotations

from subord.services.machines.model import Machine
from subord.services.machines.plan import Type


def end_of(kind: Type, now: float) -> float:
    """Of a machine that is opened now; 0: without an end."""
    return now + kind.window_s if kind.window_s else 0.0


def is_over(kind: Type, machine: Machine, now: float) -> bool:
    if not kind.window_s:
        return False
    ends = machine.since + kind.window_s if machine.window_ends is None else machine.window_ends
    return now >= ends
