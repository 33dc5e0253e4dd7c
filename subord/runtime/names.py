"""Host names of members by the resolver of this host, for display, and the host name of this node itself.

Input: the addresses of the members. Output: names, as far as they are known. Lookups run in a few threads, so a
resolver that hangs delays no other work of the daemon, and a caller for at most WAIT_S, then for SLOW_S not at all.
Invariant: the name of another node is given only if it leads back to its address.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from threading import Lock, Thread
from typing import Final

import trio

WAIT_S: Final = 0.3
SLOW_S: Final = 60.0
KEPT_S: Final = 3600.0
UNKNOWN_KEPT_S: Final = 600.0
NAMES_MAX: Final = 10_000
AT_ONCE_MAX: Final = 4
POLL_S: Final = 0.01


def confirmed_name(address: str) -> str | None:
    """The name of an address that leads back to it; None: there is none."""
    if ip_address(address).is_loopback:
        return None
    try:
        name = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
        found = {str(each[4][0]) for each in socket.getaddrinfo(name, None)}
    except (OSError, UnicodeError):
        return None
    return name if address in found else None


def own_name() -> str | None:
    """The name that this host has given itself; None: it is `localhost`, an address, or empty."""
    name = socket.gethostname()
    try:
        ip_address(name)
    except ValueError:
        return None if name.partition(".")[0] in ("", "localhost") else name
    return None


class ResolvedNames:
    """The names of one daemon. `own_name` names its own address where the resolver does not."""

    def __init__(
        self, look: Callable[[str], str | None] = confirmed_name, own_name: Callable[[], str | None] = own_name
    ) -> None:
        self._look = look
        self._own_name = own_name
        self._known: dict[str, tuple[str | None, float]] = {}  # and until when
        self._due: deque[str] = deque()
        self._pending: set[str] = set()
        self._running = 0
        self._lock = Lock()
        self._slow_until = 0.0

    def __len__(self) -> int:
        """Number of addresses whose name, or lack of one, is known."""
        return len(self._known)

    async def of(self, addresses: Iterable[str], own: str = "") -> dict[str, str]:
        """The names that are known, after at most WAIT_S. `own`: the one of `addresses` that is this node's."""
        wanted = list(dict.fromkeys(addresses))[:NAMES_MAX]
        self._ask(wanted)
        if time.monotonic() >= self._slow_until:
            await self._wait(wanted)
        with self._lock:
            known = {address: self._known[address][0] for address in wanted if address in self._known}
        found = {address: name for address, name in known.items() if name is not None}
        if own in wanted and own not in found and not ip_address(own).is_loopback:  # of many nodes on one host
            name = self._own_name()
            if name is not None and name not in found.values():
                found[own] = name
        return found

    def _ask(self, wanted: list[str]) -> None:
        now = time.monotonic()
        with self._lock:
            kept = set(wanted)
            for address in [each for each in self._known if each not in kept]:
                del self._known[address]
            new = [
                address
                for address in wanted
                if address not in self._pending and self._known.get(address, ("", 0.0))[1] <= now
            ]
            self._due.extend(new)
            self._pending.update(new)
            missing = min(AT_ONCE_MAX, len(self._due)) - self._running
            self._running += max(0, missing)
        for _ in range(missing):
            Thread(target=self._work, daemon=True).start()

    async def _wait(self, wanted: list[str]) -> None:
        """Sets `_slow_until` if names are still not known."""
        with trio.move_on_after(WAIT_S):
            while not self._pending.isdisjoint(wanted):  # noqa: ASYNC110 - threads change it
                await trio.sleep(POLL_S)
            return
        self._slow_until = time.monotonic() + SLOW_S

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._running -= 1
                    return
                address = self._due.popleft()
            name = self._look(address)
            with self._lock:
                self._known[address] = name, time.monotonic() + (KEPT_S if name else UNKNOWN_KEPT_S)
                self._pending.discard(address)
