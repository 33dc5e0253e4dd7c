"""The intruder: a host of the network without the key, with the lowest address and a recording of the traffic.

`intrude` runs inside the node's namespace, started by `netns-lab/lab intrude` (experiment.py), one process a kind:

    replay   recorded datagrams again, as they were, with the addresses of their senders
    forge    recorded datagrams changed at random (forging.py)
    knock    connections to the streams' port (connection_flood.py)
    pretend  the real daemon with a key of its own, which announces itself and claims to be root

Every frame has the intruder's own MAC as its source. With the MAC of another host it would draw that host's frames to
itself, because the bridge learns from the source: that is a cut cable, and no key can help against it.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal, get_args

from netlab.attack import recorder
from netlab.attack.connection_flood import ConnectionFlood
from netlab.attack.forging import SEALED_AT, Forger
from netlab.attack.frames import FRAME_BYTES_MAX, UDP, Packet, built, parsed
from netlab.common import linux
from netlab.common.waiting import await_end
from netlab.errors import LabError
from netlab.eventlog.events import EventLog
from netlab.processes import zygote
from netlab.processes.enter import say_begun
from netlab.processes.options import Options, config_text
from netlab.processes.rundir import RunDirectory
from netlab.topology.addresses import hardware_address
from subord.client.daemon import ask
from subord.client.errors import CommandError

Kind = Literal["replay", "forge", "knock", "pretend"]
KINDS: tuple[Kind, ...] = get_args(Kind)
INTERFACE = "eth0"
TURN_S = 0.005
BEHIND_S_MAX = 0.25  # what is later than that is left out: a burst would be another attack
LEAVE_S_MAX = 10.0

Done = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one process does until standard input ends, `for_s` at most: `per_s` datagrams or connections in all.

    `options`: those of the lab, as JSON.
    """

    kind: Kind
    own: str
    options: str
    per_s: float
    for_s: float
    seed: str = ""
    recording: str = ""


def intrude(**given: Any) -> Done:
    """Carry out the order; what was done. Raises LabError."""
    order, began = Order(**given), time.monotonic()
    _check_place(order.own)
    done = _KINDS[order.kind](order, Options.from_json(order.options))
    return {**done, "lasted_s": time.monotonic() - began}


def _check_place(own: str) -> None:
    """Nothing of this may ever get onto a real wire. Raises LabError."""
    names = {name for _, name in socket.if_nameindex()}
    if names == {"lo", INTERFACE}:
        with _wire() as wire:
            if wire.getsockname()[4] == hardware_address(own):
                return
    raise LabError(
        f"This is not the host of {own} in a lab: `intrude` is for `evaluate siege` alone. Nothing was sent."
    )


def _wire() -> socket.socket:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # protocol 0: it receives nothing
    wire.bind((INTERFACE, 0))
    return wire


def _recorded(order: Order) -> list[Packet]:
    """The sealed datagrams of the recording. Raises LabError when there are none."""
    found = [packet for packet in map(parsed, recorder.read(Path(order.recording))) if packet is not None]
    sealed = [each for each in found if each.protocol == UDP and each.payload.startswith(recorder.SEALED)]
    if not any(len(packet.payload) > SEALED_AT for packet in sealed):
        raise LabError("There is no sealed datagram in the recording: record a lab with a key. Nothing was sent.")
    return sealed


def _replay(order: Order, _options: Options) -> Done:
    datagrams = _recorded(order)
    random.Random(order.seed).shuffle(datagrams)
    numbers = count()
    return _send(order, lambda: ("replay", datagrams[next(numbers) % len(datagrams)]))


def _send(order: Order, make: Callable[[], tuple[str, Packet]]) -> Done:
    """As Ethernet frames, so that the source can be any address."""
    own, ways, not_sent = hardware_address(order.own), Counter[str](), 0
    with _wire() as wire:
        say_begun()
        for _ in _due(order.per_s, order.for_s):
            way, packet = make()
            frame = built(packet._replace(source_mac=own))
            assert len(frame) <= FRAME_BYTES_MAX, way
            try:
                wire.send(frame)
                ways[way] += 1
            except OSError:  # no room in the queue
                not_sent += 1
    return {"sent": ways.total(), "not_sent": not_sent, "ways": dict(ways)}


def _due(per_s: float, for_s: float) -> Iterator[int]:
    """One value for each that is due now; until standard input ends, or the time is over."""
    begin, done = time.monotonic(), 0.0
    while (passed := time.monotonic() - begin) < for_s and not _told_to_end(0):
        done = max(done, (passed - BEHIND_S_MAX) * per_s)
        due = int(passed * per_s - done)
        yield from range(due)
        done += due
        time.sleep(TURN_S)


def _told_to_end(wait_s: float) -> bool:
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


def _flood(order: Order, options: Options) -> Done:
    key_id = _recorded(order)[0].payload[4:8]
    targets = [address for address in options.addresses if address != order.own]
    flood = ConnectionFlood(targets, order.own, key_id, order.seed)
    say_begun()
    for _ in _due(order.per_s, order.for_s):
        flood.connect()
    return flood.finish()


def _claim_root(order: Order, options: Options) -> Done:
    """The daemon as it is, with a key that no other node has."""
    with tempfile.TemporaryDirectory(prefix="intruder-") as path:
        directory = RunDirectory(Path(path))
        directory.make_key()
        config = directory.path / "config.toml"
        own = replace(options, announce=True, insecure=False, disk=True)
        config.write_text(config_text(own, order.own, directory.path, directory))
        starter = os.getpid()
        with (directory.path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*zygote.daemon_command(None), "run", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: linux.die_with(starter, signal.SIGKILL),  # noqa: PLW1509 - one thread
            )
        say_begun()
        until, sent = time.monotonic() + order.for_s, 0
        while time.monotonic() < until and not _told_to_end(TURN_S) and process.poll() is None:
            pass
        if process.poll() is not None:
            last_line = (directory.path / "log").read_text(errors="replace").strip().rpartition("\n")[2]
            raise LabError(f"The daemon of the intruder ended by itself: {last_line}")
        with suppress(CommandError):
            sent = int(ask(str(directory.path / "control.sock"), "/v1/counters", gives_up_s=0)["messages_sent"])
        process.terminate()
        await_end(process, LEAVE_S_MAX)
        return {"sent": sent, "ways": {"pretend": sent}, **_reached(directory.events)}


def _reached(events: Path) -> Done:
    """How large its tree was, and how often it had a leader."""
    found = {"tree_nodes": 1, "led": 0}
    for event in EventLog(events).new():
        if event["event"] == "roster":
            found["tree_nodes"] = max(found["tree_nodes"], int(event["nodes"]))
        found["led"] += event["event"] == "place" and event.get("leader") is not None
    return found


_KINDS: dict[str, Callable[[Order, Options], Done]] = {
    "replay": _replay,
    "forge": lambda order, options: _send(order, Forger(_recorded(order), order.own, options, order.seed).forge),
    "knock": _flood,
    "pretend": _claim_root,
}
