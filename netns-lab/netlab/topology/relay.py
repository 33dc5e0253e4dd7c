"""The process that carries frames between the bridges of two sites, over a distance.

Intuition: a ferry with a timetable. At each site it has a landing stage (a tap device, plugged into the bridge like
any host); what is brought there leaves at once, and is put ashore elsewhere when its time has come.

It stands beside the controller, which it never outlives, and answers {"do": "traffic"},
{"do": "cut", "site": NAME, "connected": BOOL} and {"do": "tremble", "share": S}.
Kernels without `netem` (most small ones) have nothing for this; and a lab shall measure the same on all of them.

Source: Documentation/networking/tuntap.rst, select(2).
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import random
import select
import signal
import socket
import struct
import time
import traceback
from pathlib import Path
from typing import Any

from netlab.common import linux
from netlab.common.json_lines import Lines
from netlab.errors import LabError
from netlab.topology.sites import Sites
from netlab.topology.wan import Crossing

DEVICE = Path("/dev/net/tun")
FRAME_BYTES_MAX = 2048  # of a wire with 1,500 bytes a packet
BURST = 64  # frames that are taken from one site before the others have their turn
TAP_FRAMES_MAX = 10_000  # that the kernel keeps for us at each site, while we are busy
PRIORITY = 1  # of real time: who holds the timetable must not wait for the passengers
IDLE_S = 1.0

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def tap_name(number: int) -> str:
    """Name of the relay's device at the bridge of that site."""
    return f"w{number}"


def start(sites: Sites, seed: int = 1) -> Lines:
    """Fork the relay in the namespace of the bridges; our end of the conversation. Its taps are there on return.

    Raises LabError.
    """
    ours, theirs = socket.socketpair()
    controller = os.getpid()
    if os.fork():
        theirs.close()
        relay = Lines(ours)
        message = next(iter(relay), {"failed": "it ended without a word"})
        if "ready" not in message:
            raise LabError(
                f"The relay between the sites cannot begin: {message['failed']}. It needs the kernel's `tun`,"
                f" and a user who may read and write {DEVICE}. Nothing was started."
            )
        return relay
    code = 1
    try:
        linux.die_with(controller, signal.SIGKILL)
        linux.set_name("lab-relay")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the controller decides when we end
        linux.close_all_but(keep=(0, 1, 2, theirs.fileno()))
        _begin(Crossing(sites, random.Random(seed).random), sites, Lines(theirs))
        code = 0
    except BaseException:  # nothing of the controller's stack may run in this copy
        traceback.print_exc()
    finally:
        os._exit(code)


def ask(relay: Lines, **request: Any) -> Any:
    """Its answer. Raises LabError when the relay is gone."""
    try:
        relay.send(request)
        answer = next(iter(relay), None)
    except OSError:
        answer = None
    if answer is None:
        raise LabError(GONE)
    return answer


GONE = "The relay between the sites ended by itself, and with it every way between them. Its last words, if any:"


def _begin(crossing: Crossing, sites: Sites, controller: Lines) -> None:
    try:
        taps = [_tap(tap_name(number)) for number in range(len(sites.names))]
    except OSError as reason:
        controller.send({"failed": str(reason.strerror)})
        return
    # Beside 300 daemons that start on two cores 0.3 ms late at the most; without, a third of the frames by over 1 ms.
    with contextlib.suppress(PermissionError):  # without rights outside of the lab: as everybody else
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
    gc.freeze()
    gc.disable()  # nothing here is made in a circle
    controller.send({"ready": True})
    Relay(crossing, taps, sites.names, controller).run()


def _tap(name: str) -> int:
    """A descriptor that gives and takes one frame a call; the device vanishes with it. Raises OSError."""
    descriptor = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return descriptor


class Relay:
    """`taps`: descriptors in the order of the sites."""

    def __init__(self, crossing: Crossing, taps: list[int], names: tuple[str, ...], controller: Lines) -> None:
        self._crossing = crossing
        self._taps = taps
        self._numbers = {tap: number for number, tap in enumerate(taps)}
        self._names = names
        self._controller = controller
        self._refused = 0

    def run(self) -> None:
        """Until the controller hangs up."""
        crossing, controller = self._crossing, self._controller
        ears = [*self._taps, controller.fileno()]
        while not controller.ended:
            wait_s = min(IDLE_S, max(0.0, crossing.next_at - time.monotonic()))
            for ear in select.select(ears, (), (), wait_s)[0]:
                if ear in self._numbers:
                    self._take(ear)
                else:
                    for request in controller.receive():
                        controller.send(self._answer(request))
            self._deliver()

    def _take(self, tap: int) -> None:
        number, take = self._numbers[tap], self._crossing.take
        for _ in range(BURST):
            try:
                frame = os.read(tap, FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            take(number, frame, time.monotonic())

    def _deliver(self) -> None:
        for site, frame in self._crossing.due(time.monotonic()):
            try:
                os.write(self._taps[site], frame)
            except OSError:  # no memory, or the device is down
                self._refused += 1

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "cut":
            self._crossing.cut(request["site"], connected=request["connected"])
            return {}
        if request["do"] == "tremble":
            self._crossing.tremble(request["share"], time.monotonic())
            return {}
        overrun = {name: _overrun(number) for number, name in enumerate(self._names)}
        return {"mono": time.monotonic(), **self._crossing.figures(), "refused": self._refused, "overrun": overrun}


def _overrun(number: int) -> int:
    """Frames for which the kernel had no room before we came by. Source: proc(5), net/dev."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == tap_name(number):
            return int(rest.split()[11])
    return 0
