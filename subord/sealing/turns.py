"""Whose turn it is among several keys, from the number of messages without an answer.

Invariant: the sequence has no period, and each row of as many turns as there are keys has all of them.
"""

from __future__ import annotations


def digit_sum(number: int, base: int) -> int:
    """Modulo `base` it is a sequence without a period (Thue-Morse), and each row of `base` numbers has all values.

    Messages that are repeated in a fixed order, as by a search, meet every key: with any period, one of them would
    always travel under a key that its receiver lacks.
    """
    total = 0
    while number:
        number, digit = divmod(number, base)
        total += digit
    return total
