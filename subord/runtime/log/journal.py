"""What we tell systemd's journal: the message to be read, its priority, and every field under a name of its own.

Intuition: a library card. The title is what people read; by the other lines of the card it is found again.

The native protocol (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/) rather than lines on standard error, because only
so `journalctl` shows plain words, `--priority` chooses, and SUBORD_EVENT=place is a field that it can look for.
Where it cannot be used, lines begin with their priority in brackets, `<4>` (sd-daemon(3)).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"
VALUE_CHARS_MAX = 65_536
"""A datagram holds about 200 KiB; only the state of a node with a thousand subordinates comes near."""
ERROR = 3
_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: ERROR}


def is_behind(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Whether the journal reads this descriptor (JOURNAL_STREAM, systemd.exec(5)): the variable is inherited by
    those, too, whose output goes elsewhere."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return environment.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class Journal:
    """Where its entries go."""

    def __init__(self, path: str = SOCKET) -> None:
        """Raises OSError: there is none, or we may not use it."""
        self._path = path
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as tried:
            tried.connect(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def carry(self, entry: bytes) -> None:
        """Waits for a journal that is busy. Raises OSError."""
        self._socket.sendto(entry, self._path)  # whoever listens there now: it may have been started anew

    def close(self) -> None:
        self._socket.close()


def priority(level: int) -> int:
    """Of syslog(3)."""
    return _PRIORITY.get(level, 5)


def entry(level: int, message: str, fields: Mapping[str, object]) -> bytes:
    """One entry. Values must be free of line feeds; None is left out."""
    lines = {"MESSAGE": message, "PRIORITY": priority(level), "SYSLOG_IDENTIFIER": "subord"}
    lines |= {f"SUBORD_{name.upper()}": value for name, value in fields.items() if value is not None}
    return "".join(f"{name}={str(value)[:VALUE_CHARS_MAX]}\n" for name, value in lines.items()).encode()
