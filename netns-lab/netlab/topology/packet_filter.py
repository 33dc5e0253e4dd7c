"""Programs of the kernel's classic packet filter (BPF), for sockets and for ports of a bridge.

Offsets count from the Ethernet header. Source: Documentation/networking/filter.rst.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

LOAD_WORD, LOAD_HALF, LOAD_BYTE, LOAD_HALF_BEHIND, LOAD_HEADER_BYTES = 0x20, 0x28, 0x30, 0x48, 0xB1
JUMP_EQUAL, JUMP_ANY_BIT, RETURN = 0x15, 0x45, 0x06
ETH_P = {4: 0x0806, 6: 0x86DD}  # ARP, IPv6
_SO_ATTACH_FILTER = 26

Line = tuple[int, int, int, int]
"""Code, lines to jump over if the comparison holds, and if not, value."""


def program(lines: Sequence[Line]) -> bytes:
    """As the kernel takes it (struct sock_filter)."""
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def attach(receiver: socket.socket, lines: Sequence[Line]) -> None:
    """From now on the socket receives only what the program keeps. Raises OSError."""
    code = ctypes.create_string_buffer(program(lines))
    receiver.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(lines), ctypes.addressof(code)))


def neighbour_requests(version: int, *, otherwise: int) -> tuple[Line, ...]:
    """The beginning of a filter that goes on with neighbour requests; all else ends with `otherwise`.

    ARP, "request"; or ICMPv6, neighbour solicitation.
    """
    give_up = (RETURN, 0, 0, otherwise)
    if version == 4:
        return ((LOAD_HALF, 0, 0, 20), (JUMP_EQUAL, 1, 0, 1), give_up)
    is_icmp = ((LOAD_BYTE, 0, 0, 20), (JUMP_EQUAL, 1, 0, 58), give_up)
    return (*is_icmp, (LOAD_BYTE, 0, 0, 54), (JUMP_EQUAL, 1, 0, 135), give_up)
