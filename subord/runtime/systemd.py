"""Notifies systemd of readiness, status and liveness (sd_notify(3)), by datagrams to $NOTIFY_SOCKET."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import trio


class Systemd:
    """The connection to systemd. Does nothing if no unit of type notify started the daemon."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        period_us = environment.get("WATCHDOG_USEC", "0")
        self._watchdog_s = int(period_us) / 1e6 if period_us.isascii() and period_us.isdigit() else 0.0
        if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
            self._watchdog_s = 0.0
        self._last = ""

    def tell(self, *lines: str) -> None:
        """Send assignments such as "READY=1". Errors are ignored."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return

    def status(self, text: str) -> None:
        """Set the status line of `systemctl status`, if it changed."""
        if text != self._last:
            self._last = text
            self.tell(f"STATUS={text}")

    async def notify_watchdog(self) -> None:
        """Report liveness twice per watchdog period, from the event loop, so that a blocked loop is noticed."""
        if not self._address or not self._watchdog_s:
            return
        while True:
            self.tell("WATCHDOG=1")
            await trio.sleep(self._watchdog_s / 2)
