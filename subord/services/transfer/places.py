"""Where a node of the other cluster listens: `10.0.0.5:9720`, `[::1]:9720` or `node.example:9720`.

Input is a text of the plan; output are the host and the port. Nothing is looked up.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_PLACE: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)):(?P<port>[1-9][0-9]{0,4})\Z"
)
PORT_MAX: Final = 65535


class Place(NamedTuple):
    host: str
    port: int


def place_of(text: str) -> Place | None:
    """None: it has not the form HOST:PORT."""
    found = _PLACE.match(text)
    if found is None or int(found["port"]) > PORT_MAX:
        return None
    return Place(found["six"] or found["name"], int(found["port"]))
