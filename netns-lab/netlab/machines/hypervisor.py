"""The hosts of a lab of machines: that of the queue's node, and stand-in guests.

A guest is what runs inside of a virtual machine: a host name, an address, and an execd of Grid Engine. Libvirt's test
driver runs nothing, so a guest begins when libvirt says that its machine is on, and ends, as when its power fails,
when that says that it is off (guests.py). It has no daemon of subord.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from netlab.elastic import gridengine, host, supplier
from netlab.elastic.files import CONFIG, SHARED

BOOT: Final = "boot"
"""A file of a guest: how long its system takes, in seconds, before the execd starts."""
BOOTED: Final = "booted"
"""Another: the execd runs."""


class Supplier(supplier.Supplier):
    def _do_on(self, name: str, position: int, etc: dict[str, str], boot_s: float) -> None:
        """A guest that is on already stays."""
        if name in self._nodes:
            return
        about = self._about(position)
        own = self._directory.node(position)
        host.install(name, own, etc)
        (own / BOOT).write_text(str(boot_s))
        (own / BOOTED).unlink(missing_ok=True)
        place = host.Place(name, position, own, about["namespace"], self._directory.path / SHARED, own / CONFIG)
        pid = host.start(place, guest)
        self._nodes[name] = supplier.Node(position, about["address"], pid, is_paid=False)

    def _do_off(self, name: str) -> None:
        node = self._nodes.pop(name, None)
        if node is not None and node.pid:
            host.end(node.pid)


def guest(words: Sequence[str]) -> int:
    """In the place of the agent of a host."""
    own = Path(words[words.index("--config") + 1]).parent
    time.sleep(float((own / BOOT).read_text()))
    done = subprocess.run([gridengine.EXECD], check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        print(f"execd: {done.returncode}", file=sys.stderr)
        return done.returncode
    (own / BOOTED).write_text(str(time.time()))
    while True:
        signal.pause()
