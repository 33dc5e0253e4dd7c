"""What we tell systemd: ready, how we stand, still alive (sd_notify(3)).

Three kinds of lines to a datagram socket named by the environment. The packages on PyPI that do this have
been without maintenance for years; this is all of it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import trio


class Systemd:
    """Does nothing when the daemon was not started by a notify service."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        period_us = environment.get("WATCHDOG_USEC", "0")
        self._watchdog_s = int(period_us) / 1e6 if period_us.isascii() and period_us.isdigit() else 0.0
        if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
            self._watchdog_s = 0.0
        self._last = ""

    def tell(self, *lines: str) -> None:
        """Send assignments such as "READY=1". A supervisor that does not listen is not our trouble."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return

    def status(self, text: str) -> None:
        """The status line of `systemctl status`, when it changed."""
        if text != self._last:
            self._last = text
            self.tell(f"STATUS={text}")

    async def pat_watchdog(self) -> None:
        """Twice per watchdog period, from the event loop itself: a stuck loop stops patting."""
        if not self._address or not self._watchdog_s:
            return
        while True:
            self.tell("WATCHDOG=1")
            await trio.sleep(self._watchdog_s / 2)
