"""Requests for addresses that no host has end at the bridge, instead of being copied to every host.

Intuition: the concierge knows who lives in the house. A caller who asks for somebody else is written down,
but not one bell is rung: with 500 hosts, a call for nobody would ring 500.

A program of the classic packet filter sits where each wire enters the bridge; what asks for a stranger is turned
aside to the bridge's own ear. Whoever asks for a host of the lab goes on, and the bridge hears a copy where
topology/arp_proxy.py would take the call past it.
Hosts are known by the last 32 bits of their address, which are theirs alone (layout.checked).

Source: tc-bpf(8), tc-mirred(8), rtnetlink(7), include/uapi/linux/{pkt_cls,pkt_sched}.h.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from collections.abc import Iterable

from netlab.topology.packet_ring import ETH_P, Line, program, requests

_RTM_NEWQDISC, _RTM_NEWTFILTER = 36, 44
_REQUEST_ACKNOWLEDGE_CREATE = 0x1 | 0x4 | 0x400
_INGRESS, _INGRESS_HANDLE = 0xFFFFFFF1, 0xFFFF0000
_KIND, _OPTIONS = 1, 2
_BPF_ACT, _BPF_OPS_LEN, _BPF_OPS = 1, 4, 5
_ACT_KIND, _ACT_OPTIONS, _MIRRED_PARMS = 1, 2, 2
_GO_ON, _STOLEN = 0, 4
_INGRESS_REDIRECT, _INGRESS_MIRROR = 3, 4
_LAST_32_BITS_AT = {4: 38, 6: 74}  # of the target, from the Ethernet header
_MATCH, _PASS = 0xFFFFFFFF, 0
_LOAD_WORD, _LOAD_HALF, _JUMP_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06
_MISSING = (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL)  # the kernel was built without it


class Hush:
    """For wires in one namespace that all lead to hosts of IP `version` with these addresses."""

    def __init__(self, hosts: Iterable[str], version: int, *, counts: bool = True) -> None:
        """`counts`: somebody listens at the bridge."""
        self._version = version
        self.hears_errands = counts  # cleared before the first wire where there are none
        known = [int(ipaddress.ip_address(host)) & 0xFFFFFFFF for host in hosts]
        lines: list[Line] = [(_LOAD_WORD, 0, 0, _LAST_32_BITS_AT[version])]
        for host in known:
            lines += [(_JUMP_EQUAL, 0, 1, host), (_RETURN, 0, 0, _PASS)]
        self._for_nobody = (*requests(version, otherwise=_PASS), *lines, (_RETURN, 0, 0, _MATCH))
        to_all = ((_LOAD_WORD, 0, 0, 0), (_JUMP_EQUAL, 0, 2, 0xFFFFFFFF), (_LOAD_HALF, 0, 0, 4))
        answer = ((_JUMP_EQUAL, 1, 0, 0xFFFF), (_RETURN, 0, 0, _PASS), (_RETURN, 0, 0, _MATCH))
        self._to_all = (*requests(version, otherwise=_PASS), *to_all, *answer)
        self.works = True

    def settle(self, port: int, bridge: int) -> None:
        """At the bridge's port with that interface index. Where the kernel cannot, `works` is False and all is heard.

        Raises OSError.
        """
        if not self.works:
            return
        try:
            _send(_RTM_NEWQDISC, port, (_INGRESS_HANDLE, _INGRESS, 0), _text(_KIND, "ingress"))
            aside = self._filter(bridge, self._for_nobody, _STOLEN, _INGRESS_REDIRECT)
            _send(_RTM_NEWTFILTER, port, (0, _INGRESS_HANDLE, self._protocol(1)), aside)
            if self.hears_errands:
                copy = self._filter(bridge, self._to_all, _GO_ON, _INGRESS_MIRROR)
                _send(_RTM_NEWTFILTER, port, (0, _INGRESS_HANDLE, self._protocol(2)), copy)
        except OSError as reason:
            if reason.errno not in _MISSING:
                raise
            self.works = False

    def _protocol(self, priority: int) -> int:
        """Also which frames are looked at at all."""
        return priority << 16 | socket.htons(ETH_P[self._version])

    @staticmethod
    def _filter(bridge: int, lines: tuple[Line, ...], verdict: int, how: int) -> bytes:
        turned_aside = struct.pack("=IIiiiiI", 0, 0, verdict, 0, 0, how, bridge)
        action = _text(_ACT_KIND, "mirred") + _piece(_ACT_OPTIONS, _piece(_MIRRED_PARMS, turned_aside))
        length = _piece(_BPF_OPS_LEN, struct.pack("=H", len(lines)))
        code = _piece(_BPF_OPS, program(lines))
        return _text(_KIND, "bpf") + _piece(_OPTIONS, length + code + _piece(_BPF_ACT, _piece(1, action)))


def _send(kind: int, interface: int, where: tuple[int, int, int], options: bytes) -> None:
    """One request of rtnetlink, and its answer; `where`: handle, what it hangs on, information. Raises OSError."""
    body = struct.pack("=BBHiIII", 0, 0, 0, interface, *where) + options
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST_ACKNOWLEDGE_CREATE, 0, 0) + body)
        (code,) = struct.unpack_from("=i", netlink.recv(65536), 16)
    if code:
        raise OSError(-code, "filter at a port of the bridge")


def _piece(kind: int, content: bytes) -> bytes:
    """An attribute, padded to 4 bytes."""
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def _text(kind: int, text: str) -> bytes:
    return _piece(kind, text.encode() + b"\0")
