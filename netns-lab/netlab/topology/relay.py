"""The process that carries frames between the bridges of the sites, each after the delay of its link (wan.py).

It has a tap device at each bridge. It reads every frame at once and writes it to the bridge of its target when it is
due. It answers {"do": "traffic"}, {"do": "cut", "site": NAME, "connected": BOOL} and {"do": "jitter", "share": S}.
Most small kernels lack `netem`, which would do the same; the relay measures the same on all of them.

Source: Documentation/networking/tuntap.rst, select(2).
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import random
import select
import struct
import time
from pathlib import Path

from netlab.common.helper import await_ready, fork
from netlab.common.json_lines import Lines, Message
from netlab.common.measure import interface_counters
from netlab.topology.sites import Sites
from netlab.topology.wan import Wan

DEVICE = Path("/dev/net/tun")
FRAME_BYTES_MAX = 2048  # of a link with 1,500 bytes a packet
BURST = 64  # frames that are taken from one site before the others have their turn
TAP_FRAMES_MAX = 10_000  # that the kernel queues at each tap while the relay is busy
PRIORITY = 1  # of real time: the relay does not wait for the daemons
IDLE_S = 1.0
CANNOT_BEGIN = (
    "The relay between the sites cannot begin: {}. It needs the kernel's `tun`, and a user that may read and write"
    f" {DEVICE}. Nothing was started."
)
GONE = "The relay between the sites ended by itself, and no frame passes between them. Its last words, if any:"

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def tap_name(number: int) -> str:
    return f"w{number}"


def start(sites: Sites, seed: int = 1) -> Lines:
    """Fork the relay in the namespace of the bridges; its taps exist on return. Raises LabError."""
    wan = Wan(sites, random.Random(seed).random)
    names = list(map(tap_name, range(len(sites.names))))
    helper = fork(
        "lab-relay", lambda: list(map(_tap, names)), lambda taps, controller: Relay(wan, taps).run(controller)
    )
    await_ready(helper, CANNOT_BEGIN)
    return helper


def _tap(name: str) -> int:
    """A descriptor that gives and takes one frame a call; the device vanishes with it. Raises OSError."""
    descriptor = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return descriptor


class Relay:
    """`taps`: descriptors in the order of the sites."""

    def __init__(self, wan: Wan, taps: list[int]) -> None:
        self._wan = wan
        self._taps = taps
        self._numbers = {tap: number for number, tap in enumerate(taps)}
        self._refused = 0

    def run(self, controller: Lines) -> None:
        """Until the controller closes the connection."""
        # Beside 300 daemons that start on two cores 0.3 ms late at most; without, a third of the frames by over 1 ms.
        with contextlib.suppress(PermissionError):  # without rights outside of the lab: ordinary priority
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
        gc.freeze()
        gc.disable()  # nothing here makes a reference cycle
        wan, sources = self._wan, [*self._taps, controller.fileno()]
        while not controller.ended:
            wait_s = min(IDLE_S, max(0.0, wan.next_at - time.monotonic()))
            for source in select.select(sources, (), (), wait_s)[0]:
                if source in self._numbers:
                    self._take(source)
                else:
                    for request in controller.receive():
                        controller.send(self._answer(request))
            self._deliver()

    def _take(self, tap: int) -> None:
        number, take = self._numbers[tap], self._wan.take
        for _ in range(BURST):
            try:
                frame = os.read(tap, FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            take(number, frame, time.monotonic())

    def _deliver(self) -> None:
        for site, frame in self._wan.due(time.monotonic()):
            try:
                os.write(self._taps[site], frame)
            except OSError:  # no memory, or the device is down
                self._refused += 1

    def _answer(self, request: Message) -> Message:
        if request["do"] == "cut":
            self._wan.cut(request["site"], connected=request["connected"])
            return {}
        if request["do"] == "jitter":
            self._wan.jitter(request["share"], time.monotonic())
            return {}
        counters = interface_counters()  # frames for which the kernel had no room before the relay read them
        overrun = {name: counters[tap_name(number)].send_drops for number, name in enumerate(self._wan.names)}
        return {"mono": time.monotonic(), **self._wan.figures(), "refused": self._refused, "overrun": overrun}
