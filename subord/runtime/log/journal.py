"""Sends log entries to systemd's journal: message, priority, and each field as SUBORD_NAME.

Uses the native protocol (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/), so that `journalctl` shows the plain message,
filters by `--priority` and matches fields such as SUBORD_EVENT=place. Where the protocol cannot be used, lines on
standard error begin with their priority, `<4>` (sd-daemon(3)).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"
VALUE_CHARS_MAX = 65_536
"""A datagram holds about 200 KiB; the state of a node with a thousand subordinates comes near."""
ERROR = 3
_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: ERROR}


def is_behind(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Whether the journal reads this descriptor (JOURNAL_STREAM, systemd.exec(5)).

    A process whose output was redirected inherits the variable too, so it is compared with the descriptor.
    """
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return environment.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class Journal:
    """A socket to the journal."""

    def __init__(self, path: str = SOCKET) -> None:
        """Raises OSError if there is no journal or it refuses this process."""
        self._path = path
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as test:
            test.connect(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def send(self, entry: bytes) -> None:
        """Send one entry. Blocks while the journal is busy. Raises OSError."""
        self._socket.sendto(entry, self._path)  # not connected: the journal may have been restarted

    def close(self) -> None:
        self._socket.close()


def priority(level: int) -> int:
    """The syslog(3) priority of a level of `logging`."""
    return _PRIORITY.get(level, 5)


def entry(level: int, message: str, fields: Mapping[str, object]) -> bytes:
    """One entry. Values must not contain line feeds; fields of value None are omitted."""
    lines = {"MESSAGE": message, "PRIORITY": priority(level), "SYSLOG_IDENTIFIER": "subord"}
    lines |= {f"SUBORD_{name.upper()}": value for name, value in fields.items() if value is not None}
    return "".join(f"{name}={str(value)[:VALUE_CHARS_MAX]}\n" for name, value in lines.items()).encode()
