"""What a starter method knows that has asked the agent before, as its environment keeps it.

Input is the value of STATE; output is a State. Invariant: what a user has in the environment is not of this process.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

STATE: Final = "SUBORD_TRANSFER_STATE"
"""In the environment of a method that asks again: the number of its process, and the fields of State."""


class State(NamedTuple):
    """`attempt`: 0: the agent has not told it. `pause`: seconds before it asked."""

    attempt: int
    was_sent: bool
    pause: int


def state_in(text: str) -> State | None:
    """None: this process has asked no agent."""
    fields = text.split()
    if len(fields) != 4 or not all(each.isdigit() for each in fields) or int(fields[0]) != os.getpid():
        return None
    return State(int(fields[1]), fields[2] != "0", int(fields[3]))
