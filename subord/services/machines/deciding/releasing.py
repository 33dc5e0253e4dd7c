"""Which machines are closed: those that have their job, whose window is over, or that no job waits for.

Invariant: a machine that is always on, or is not ours, is not closed.
"""

from __future__ import annotations

from subord.services.machines.deciding.picture import Picture
from subord.services.machines.deciding.windows import is_over
from subord.services.machines.model import Machine
from subord.services.machines.orders import Close
from subord.services.machines.plan import Type


def withdraw_ended(picture: Picture) -> None:
    """Before jobs are looked at: machines whose window is over are not offered, and closed."""
    for name, here in picture.running.items():
        kind = picture.types[here.machine.type]
        if here.machine.is_open and is_over(kind, here.machine, picture.now):
            picture.withdraw(here.machine)
            picture.give(Close(name), "", f"the window of {kind.window_s} s of {name} is over")


def release(picture: Picture) -> None:
    """After jobs are looked at."""
    chosen = {each.action.machine for each in picture.given}
    for name, here in picture.running.items():
        if here.machine.is_open and name not in chosen:
            why = _why(picture, here.machine, picture.types[here.machine.type])
            if why:
                picture.give(Close(name), "", why)


def _why(picture: Picture, machine: Machine, kind: Type) -> str:
    """Machines with several slots stay open for the queues of their type until their window is over."""
    if kind.slots > 1:
        return ""
    if machine.busy:
        return f"a job has started on {machine.name}"
    return f"no job waits for {machine.name}" if machine.name in picture.idle else ""
