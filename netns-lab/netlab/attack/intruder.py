"""Somebody without the key, on a host of the network: with the lowest address, and with a tape of what was said.

Intuition: a burglar who has rented the best flat of the house. He has a recorder, a file and a set of wax seals; he
puts old letters into boxes again, forged ones beside them, rings at all doors at once, and tells everybody that he is
the landlord.

`intrude` runs inside the node's namespace, started by `netns-lab/lab intrude` (experiment.py), one process a kind:

    replay   recorded datagrams again, as they were, in the name of whoever sent them
    forge    recorded datagrams changed at random (attack/forging.py)
    knock    connections to the streams' port: silent, in the clear, TLS without papers, and with papers of its own
    pretend  the real daemon with a key of its own, announcing itself: it claims to be root

Every frame goes out with our own MAC as its source. Who takes over others' MACs as well draws their frames to
himself, because the bridge believes him: that is a cable cut by other means, and no key can help against it.
"""

from __future__ import annotations

import base64
import json
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from netlab.attack import recorder
from netlab.attack.connection_flood import Knocker
from netlab.attack.forging import SEALED_AT, Forger
from netlab.attack.frames import FRAME_BYTES_MAX, UDP, Packet, put_together, taken_apart
from netlab.common import linux, measure
from netlab.errors import LabError
from netlab.eventlog.events import EventLog
from netlab.processes import zygote
from netlab.processes.options import Options, config_text
from netlab.processes.rundir import KEY_BYTES, RunDirectory
from netlab.topology.layout import hardware_address

READY = "intruding"
Kind = Literal["replay", "forge", "knock", "pretend"]
KINDS: tuple[Kind, ...] = get_args(Kind)
INTERFACE = "eth0"
TURN_S = 0.005
BEHIND_S_MAX = 0.25  # what we are later than that is left out: a burst would be another attack
LEAVE_S_MAX = 10.0

Brought = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Assault:
    """What one intruder does until standard input ends, `for_s` at most: `per_s` datagrams or connections in all.

    `options`: those of the lab, as JSON.
    """

    kind: Kind
    own: str
    options: str
    per_s: float
    for_s: float
    seed: str = ""
    tape: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def intrude(text: str) -> int:
    """Do it (an Assault as JSON), and say what was done. 0, or 1 with a sentence why not."""
    assault = Assault(**json.loads(text))
    options, began = Options.from_json(assault.options), time.monotonic()
    try:
        _check_place(assault.own)
        brought = _DOING[assault.kind](assault, options)
    except LabError as reason:
        print(reason, file=sys.stderr)
        return 1
    print(json.dumps({**brought, "lasted_s": time.monotonic() - began}), flush=True)
    return 0


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
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # hears nothing
    wire.bind((INTERFACE, 0))
    return wire


def genuine(frames: list[bytes]) -> list[Packet]:
    """Sealed datagrams of a tape. Raises LabError when there are none."""
    found = [packet for packet in map(taken_apart, frames) if packet is not None and packet.protocol == UDP]
    sealed = [packet for packet in found if packet.payload.startswith(recorder.SEALED)]
    if not any(len(packet.payload) > SEALED_AT for packet in sealed):
        raise LabError("There is no sealed datagram on the tape: record a lab that has a key. Nothing was sent.")
    return sealed


def _replay(assault: Assault, _options: Options) -> Brought:
    letters = genuine(recorder.read(Path(assault.tape)))
    chance = random.Random(assault.seed)
    chance.shuffle(letters)
    at = iter(range(1 << 62))
    return _send(assault, lambda: ("replay", letters[next(at) % len(letters)]))


def _forge(assault: Assault, options: Options) -> Brought:
    letters = genuine(recorder.read(Path(assault.tape)))
    return _send(assault, Forger(letters, assault.own, options, assault.seed).forge)


def _send(assault: Assault, make: Callable[[], tuple[str, Packet]]) -> Brought:
    """As Ethernet frames, so that the source can be anybody."""
    ours, ways, not_sent = hardware_address(assault.own), Counter[str](), 0
    with _wire() as wire:
        print(READY, flush=True)
        for due in _due(assault.per_s, assault.for_s):
            for _ in range(due):
                way, packet = make()
                frame = put_together(packet._replace(source_mac=ours))
                assert len(frame) <= FRAME_BYTES_MAX, way
                try:
                    wire.send(frame)
                    ways[way] += 1
                except OSError:  # no room on the way out
                    not_sent += 1
    return {"sent": ways.total(), "not_sent": not_sent, "ways": dict(ways)}


def _due(per_s: float, for_s: float) -> Iterator[int]:
    """How many now; again and again until we are told to end, or the time is over."""
    begin, done = time.monotonic(), 0.0
    while (passed := time.monotonic() - begin) < for_s and not _told_to_end(0):
        done = max(done, (passed - BEHIND_S_MAX) * per_s)
        due = int(passed * per_s - done)
        yield due
        done += due
        time.sleep(TURN_S)


def _told_to_end(wait_s: float) -> bool:
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


def _knock(assault: Assault, options: Options) -> Brought:
    letters = genuine(recorder.read(Path(assault.tape)))
    doors = [address for address in options.addresses if address != assault.own]
    knocker = Knocker(doors, assault.own, letters[0].payload[4:8], assault.seed)
    print(READY, flush=True)
    for due in _due(assault.per_s, assault.for_s):
        for _ in range(due):
            knocker.knock()
    knocker.finish()
    return {"sent": knocker.knocks.total(), "ways": dict(knocker.knocks), **knocker.found()}


def _pretend(assault: Assault, options: Options) -> Brought:
    """The daemon as it is, and nobody to talk to."""
    with tempfile.TemporaryDirectory(prefix="intruder-") as path:
        directory = RunDirectory(Path(path))
        directory.key.touch(mode=0o600)
        directory.key.write_text(f"primary {base64.b64encode(os.urandom(KEY_BYTES)).decode()}\n")
        config = directory.path / "config.toml"
        theirs = replace(options, announce=True, insecure=False, disk=True)
        config.write_text(config_text(theirs, assault.own, directory.path, directory))
        us = os.getpid()
        with (directory.path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*zygote.daemon_command(None), "run", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: linux.die_with(us, signal.SIGKILL),  # noqa: PLW1509 - we have one thread
            )
        print(READY, flush=True)
        until = time.monotonic() + assault.for_s
        while time.monotonic() < until and not _told_to_end(TURN_S) and process.poll() is None:
            pass
        if process.poll() is not None:
            raise LabError(f"The daemon of the intruder ended by itself: {_last_line(directory.path / 'log')}")
        counted = measure.counters_of(directory.path / "control.sock") or {}
        process.terminate()
        try:
            process.wait(LEAVE_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        sent = int(counted.get("messages_sent", 0))
        return {"sent": sent, "ways": {"pretend": sent}, **_believed(directory.events)}


def _believed(events: Path) -> Brought:
    """How large its tree was, and whether it ever had a leader."""
    found, log = {"tree_nodes": 1, "led": 0}, EventLog(events)
    while some := log.read():
        for event in some:
            if event["event"] == "roster":
                found["tree_nodes"] = max(found["tree_nodes"], int(event["nodes"]))
            found["led"] += event["event"] == "place" and event.get("leader") is not None
    return found


def _last_line(log: Path) -> str:
    return log.read_text(errors="replace").strip().rpartition("\n")[2]


_DOING: dict[str, Callable[[Assault, Options], Brought]] = {
    "replay": _replay,
    "forge": _forge,
    "knock": _knock,
    "pretend": _pretend,
}
