"""Stand-in guests follow the machines of all servers: one begins when its machine comes on, and ends when that goes
off.

A guest has the address of its name, as from a DHCP server that knows all names. The first boot of a clone takes
longer, for its image is copied meanwhile; the test driver copies nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from netlab.errors import LabError
from netlab.machines.journal import Change


class Guests:
    """As long as the `with` block. `ask`: of the hypervisor. `positions`: of the names that guests may have.
    `known`: machines whose image is there. Faults are kept in `faults`."""

    def __init__(
        self,
        ask: Callable[..., Any],
        positions: Mapping[str, int],
        known: set[str],
        etc: dict[str, str],
        *,
        boot_s: float,
        copy_s: float,
    ) -> None:
        self.faults: list[str] = []
        self._ask = ask
        self._positions = positions
        self._known = set(known)
        self._etc = etc
        self._boot_s = boot_s
        self._copy_s = copy_s
        self._changes = queue.SimpleQueue[Change | None]()
        self._thread = threading.Thread(target=self._work, name="guests", daemon=True)

    def __enter__(self) -> Guests:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._changes.put(None)
        self._thread.join()

    def hear(self, change: Change) -> None:
        """Of the observer."""
        self._changes.put(change)

    def forget(self, name: str) -> None:
        """Its image is gone: the next machine of this name is a clone again."""
        self._known.discard(name)

    def _work(self) -> None:
        while (change := self._changes.get()) is not None:
            try:
                self._follow(change)
            except LabError as reason:
                self.faults.append(f"{change.machine}: {reason}")

    def _follow(self, change: Change) -> None:
        name = change.machine
        if not change.is_on:
            self._ask("off", name=name)
        elif name not in self._positions:
            self.faults.append(f"{name} came on, and the lab has no address for it")
        else:
            boot_s = self._boot_s + (0.0 if name in self._known else self._copy_s)
            self._known.add(name)
            self._ask("on", name=name, position=self._positions[name], etc=self._etc, boot_s=boot_s)
