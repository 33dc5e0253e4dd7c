"""The lab's IPv4 traffic recorded into a file: UDP and TCP of the cluster's port, each frame once.

`record` runs in the namespace of the bridges (`netns-lab/lab exec wire`) and reads what comes in at every port of
theirs. A recording is one frame after the other, four bytes of length before each. Source: packet(7).
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from netlab.attack.frames import IPV4, TCP, UDP
from netlab.processes.enter import say_begun
from netlab.topology import packet_filter as bpf
from netlab.topology.packet_filter import Line

PORT = 7117
SEALED = bytes((0x73, 2))
BUFFER_BYTES = 16 << 20
FRAME_BYTES_MAX = 1 << 17  # without a real wire a segment may be longer than an Ethernet frame
READ_AT_ONCE_MAX = 512
_ETH_P_ALL = 3
_SO_RCVBUFFORCE = 33
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_LENGTH = struct.Struct("!I")
_KIND_OF_PACKET, _INTERFACE = 0xFFFFF004, 0xFFFFF008  # SKF_AD_OFF + SKF_AD_PKTTYPE, SKF_AD_IFINDEX
_OUTGOING = 4
_DROP: Line = (bpf.RETURN, 0, 0, 0)
_KEEP: Line = (bpf.RETURN, 0, 0, 0xFFFFFFFF)


@dataclass(frozen=True, kw_only=True)
class Order:
    """Where to write, and when to stop if standard input does not end before."""

    path: str
    frames_max: int = 200_000
    seconds_max: float = 300.0


def record(**given: Any) -> dict[str, Any]:
    """Until standard input ends, or a bound of the order is reached; what was recorded."""
    order = Order(**given)
    with _tap() as tap, Path(order.path).open("wb") as file:
        say_begun()
        frames, was_asked = _write(tap, file, order)
        _, lost = struct.unpack("=II", tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        return {"frames": frames, "lost": lost, "cut": not was_asked}


def _write(tap: socket.socket, file: BinaryIO, order: Order) -> tuple[int, bool]:
    """(frames, whether standard input ended before a bound was reached)."""
    frames, until, asked_to_end = 0, time.monotonic() + order.seconds_max, False
    while frames < order.frames_max and not asked_to_end and (left := until - time.monotonic()) > 0:
        ready = select.select([tap, sys.stdin], [], [], left)[0]
        asked_to_end = sys.stdin in ready
        for frame in _received(tap, min(READ_AT_ONCE_MAX, order.frames_max - frames)):
            file.write(_LENGTH.pack(len(frame)) + frame)
            frames += 1
        file.flush()  # it may be read meanwhile
    return frames, asked_to_end


def _received(tap: socket.socket, frames_max: int) -> Iterator[bytes]:
    for _ in range(frames_max):
        try:
            yield tap.recv(FRAME_BYTES_MAX)
        except BlockingIOError:
            return


def _tap() -> socket.socket:
    bridges = [index for index, name in socket.if_nameindex() if name.startswith("br")]
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))  # of all interfaces, from now on
    bpf.attach(tap, filter_lines(bridges))
    try:
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
    except OSError:  # without rights outside of the lab: the ordinary limit
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    tap.setblocking(False)
    for _ in _received(tap, BUFFER_BYTES):  # frames that came before the filter
        pass
    return tap


def filter_lines(bridges: Iterable[int]) -> list[Line]:
    """What comes in, not by a bridge itself (which only forwards), UDP or TCP, from or to the port."""
    lines: list[Line] = [(bpf.LOAD_BYTE, 0, 0, _KIND_OF_PACKET), (bpf.JUMP_EQUAL, 0, 1, _OUTGOING), _DROP]
    lines += [(bpf.LOAD_WORD, 0, 0, _INTERFACE)]
    for bridge in bridges:
        lines += [(bpf.JUMP_EQUAL, 0, 1, bridge), _DROP]
    lines += [(bpf.LOAD_HALF, 0, 0, 12), (bpf.JUMP_EQUAL, 1, 0, IPV4), _DROP]
    lines += [(bpf.LOAD_BYTE, 0, 0, 23), (bpf.JUMP_EQUAL, 2, 0, UDP), (bpf.JUMP_EQUAL, 1, 0, TCP), _DROP]
    lines += [(bpf.LOAD_HALF, 0, 0, 20), (bpf.JUMP_ANY_BIT, 0, 1, 0x1FFF), _DROP]  # later fragments have no ports
    lines += [(bpf.LOAD_HEADER_BYTES, 0, 0, 14)]
    lines += [(bpf.LOAD_HALF_BEHIND, 0, 0, 14), (bpf.JUMP_EQUAL, 3, 0, PORT)]  # the source, and behind it the target
    return [*lines, (bpf.LOAD_HALF_BEHIND, 0, 0, 16), (bpf.JUMP_EQUAL, 1, 0, PORT), _DROP, _KEEP]


def read(path: Path) -> list[bytes]:
    """The frames of a recording; one that is being written ends with its last whole frame."""
    data, frames, at = path.read_bytes(), [], 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length <= len(data):
            frames.append(data[at : at + length])
        at += length
    return frames
