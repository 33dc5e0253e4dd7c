"""Requests for addresses that no host has end at the bridge, instead of being copied to every host.

With 500 hosts one request for a silent address would be copied 500 times. A packet filter at each port of the bridge
redirects such a request to the bridge itself, where it is counted. Requests for a host of the lab pass; where
filters.py redirects them, the bridge gets a copy. Hosts are known by the last 32 bits of their address, which are
theirs alone (layout.checked).

Source: tc-bpf(8), tc-mirred(8), rtnetlink(7), include/uapi/linux/{pkt_cls,pkt_sched}.h.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from collections.abc import Iterable

from netlab.topology import packet_filter as bpf
from netlab.topology.netlink import attribute, error_of, request
from netlab.topology.packet_filter import Line

_RTM_NEWQDISC, _RTM_NEWTFILTER = 36, 44
_ACKNOWLEDGE_CREATE = 0x4 | 0x400
_INGRESS, _INGRESS_HANDLE = 0xFFFFFFF1, 0xFFFF0000
_KIND, _OPTIONS = 1, 2
_BPF_ACT, _BPF_OPS_LEN, _BPF_OPS = 1, 4, 5
_ACT_KIND, _ACT_OPTIONS, _MIRRED_PARMS = 1, 2, 2
_GO_ON, _STOLEN = 0, 4
_INGRESS_REDIRECT, _INGRESS_MIRROR = 3, 4
_LAST_32_BITS_AT = {4: 38, 6: 74}  # of the target, from the Ethernet header
_MATCH, _PASS = 0xFFFFFFFF, 0
_MISSING = (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL)  # the kernel was built without it


class ArpFilter:
    """For ports in one namespace that all lead to hosts of IP `version` with these addresses."""

    def __init__(self, hosts: Iterable[str], version: int, *, counts: bool = True) -> None:
        """`counts`: the requests at the bridge are counted."""
        self._version = version
        self.copies_redirected = counts  # cleared before the first port where nothing is redirected
        known = [int(ipaddress.ip_address(host)) & 0xFFFFFFFF for host in hosts]
        lines: list[Line] = [(bpf.LOAD_WORD, 0, 0, _LAST_32_BITS_AT[version])]
        for host in known:
            lines += [(bpf.JUMP_EQUAL, 0, 1, host), (bpf.RETURN, 0, 0, _PASS)]
        self._for_silent = (*bpf.neighbour_requests(version, otherwise=_PASS), *lines, (bpf.RETURN, 0, 0, _MATCH))
        to_all = ((bpf.LOAD_WORD, 0, 0, 0), (bpf.JUMP_EQUAL, 0, 2, 0xFFFFFFFF), (bpf.LOAD_HALF, 0, 0, 4))
        answer = ((bpf.JUMP_EQUAL, 1, 0, 0xFFFF), (bpf.RETURN, 0, 0, _PASS), (bpf.RETURN, 0, 0, _MATCH))
        self._to_all = (*bpf.neighbour_requests(version, otherwise=_PASS), *to_all, *answer)
        self.works = True

    def attach(self, port: int, bridge: int) -> None:
        """To the bridge's port with that interface index; `works` becomes False where the kernel cannot.

        Raises OSError.
        """
        if not self.works:
            return
        try:
            _send(_RTM_NEWQDISC, port, (_INGRESS_HANDLE, _INGRESS, 0), _text(_KIND, "ingress"))
            redirect = self._filter(bridge, self._for_silent, _STOLEN, _INGRESS_REDIRECT)
            _send(_RTM_NEWTFILTER, port, (0, _INGRESS_HANDLE, self._protocol(1)), redirect)
            if self.copies_redirected:
                copy = self._filter(bridge, self._to_all, _GO_ON, _INGRESS_MIRROR)
                _send(_RTM_NEWTFILTER, port, (0, _INGRESS_HANDLE, self._protocol(2)), copy)
        except OSError as reason:
            if reason.errno not in _MISSING:
                raise
            self.works = False

    def _protocol(self, priority: int) -> int:
        """Also decides which frames the filter sees at all."""
        return priority << 16 | socket.htons(bpf.ETH_P[self._version])

    @staticmethod
    def _filter(bridge: int, lines: tuple[Line, ...], verdict: int, how: int) -> bytes:
        mirred = struct.pack("=IIiiiiI", 0, 0, verdict, 0, 0, how, bridge)
        action = _text(_ACT_KIND, "mirred") + attribute(_ACT_OPTIONS, attribute(_MIRRED_PARMS, mirred))
        length = attribute(_BPF_OPS_LEN, struct.pack("=H", len(lines)))
        code = attribute(_BPF_OPS, bpf.program(lines))
        return _text(_KIND, "bpf") + attribute(_OPTIONS, length + code + attribute(_BPF_ACT, attribute(1, action)))


def _send(kind: int, interface: int, where: tuple[int, int, int], options: bytes) -> None:
    """One request of tc, and its answer; `where`: handle, its qdisc, information. Raises OSError."""
    body = struct.pack("=BBHiIII", 0, 0, 0, interface, *where) + options
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(request(kind, _ACKNOWLEDGE_CREATE, body))
        code = error_of(netlink.recv(65536))
    if code:
        raise OSError(code, "filter at a port of the bridge")


def _text(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")
