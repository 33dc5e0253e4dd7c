"""Names of machines: which are possible, and which is the next one of a type."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import count
from typing import Final

from subord.services.machines.power.records import Refused

NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""A host name, and a file name without meaning of its own."""


def wrong_name(name: str) -> Refused | None:
    if NAME.fullmatch(name):
        return None
    return Refused(
        f"{name[:80]!r} is not the name of a machine; nothing was changed: take at most 63 letters, digits, dots, -"
    )


def lowest_free(type_: str, taken: Collection[str]) -> str:
    """TYPE-1, or the first after it that is not taken."""
    return next(name for number in count(1) if (name := f"{type_}-{number}") not in taken)
