"""Which key of a ring has its turn, where it is unknown which of them the receiver has.

Input is the number of a turn; output is one of the keys. Invariants: each row of as many turns as there are keys has
all keys, and the turns have no period. Messages that are repeated in a fixed order, as by a search, so meet every
key; with a period one of them could always travel under a key that the receiver lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def chosen(choice: Sequence[T], turn: int) -> T:
    """The digit sum of the turn in base `len(choice)` decides (Thue-Morse); there are at least two."""
    total = 0
    while turn:
        turn, digit = divmod(turn, len(choice))
        total += digit
    return choice[total % len(choice)]
