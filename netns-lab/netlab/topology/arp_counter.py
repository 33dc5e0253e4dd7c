"""The process that counts neighbour requests, by ARP or IPv6 neighbour solicitation, by sender.

It reads the packet rings of the bridges beside the controller, so that a busy controller misses nothing. It answers
{"contacts": {ADDRESS: s}} with the figures so far. A rate is the most requests of one sender in any second, in a
sliding window. A target is silent when it is in the network and is neither a node's nor a router's.
"""

from __future__ import annotations

import ipaddress
import selectors
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netlab.common import helper
from netlab.common.json_lines import Lines
from netlab.errors import LabError
from netlab.topology.addresses import network_of, packed
from netlab.topology.packet_ring import Request, Ring

READ_INTERVAL_S = 0.1
PAIRS_MAX = 4_000_000  # of sender and silent target that are remembered: 0.5 GiB


@dataclass
class Sender:
    """What one host has asked."""

    requests: int = 0
    per_s_max: int = 0
    last_second: deque[float] = field(default_factory=deque)
    silent: dict[bytes, float] = field(default_factory=dict)  # silent target -> first asked for

    def note(self, mono: float) -> None:
        """One request; times ascend, but for a few microseconds."""
        self.requests += 1
        times = self.last_second
        times.append(mono)
        while times[0] <= mono - 1.0:
            times.popleft()
        self.per_s_max = max(self.per_s_max, len(times))


class Tally:
    """What was counted; `nodes` and `routers` are addresses."""

    def __init__(self, nodes: Iterable[str], routers: Iterable[str], network: str) -> None:
        self._nodes = {packed(address): Sender() for address in nodes}
        self._routers = {packed(address): Sender() for address in routers}
        self._strangers = Sender()  # all other senders together: there should be none
        self._known = {**self._nodes, **self._routers}
        self._network = network_of(network)
        self._room = PAIRS_MAX
        self._left_out = 0

    def note(self, request: Request) -> None:
        sender = self._known.get(request.sender, self._strangers)
        sender.note(request.mono)
        if request.target in self._known or request.target in sender.silent:
            return
        if ipaddress.ip_address(request.target) not in self._network:
            return
        if self._room > 0:
            self._room -= 1
            sender.silent[request.target] = request.mono
        else:
            self._left_out += 1

    def figures(self, contacts: Mapping[str, float]) -> dict[str, Any]:
        """Sums over the nodes, and over the routers apart; `contacts`: when a node got its first message, if it did.

        `left_out` counts requests that may belong to new pairs, after `PAIRS_MAX` of them.
        """
        contacted = {packed(address): mono for address, mono in contacts.items()}
        late = (
            mono > contacted[address]
            for address, sender in self._nodes.items()
            if address in contacted
            for mono in sender.silent.values()
        )
        nodes, routers = self._nodes.values(), self._routers.values()
        return {
            "requests": sum(sender.requests for sender in nodes),
            "per_s_max": max(sender.per_s_max for sender in nodes),
            "silent": sum(len(sender.silent) for sender in nodes),
            "silent_after_contact": sum(late),
            "router_requests": sum(sender.requests for sender in routers),
            "router_per_s_max": max((sender.per_s_max for sender in routers), default=0),
            "strangers": self._strangers.requests,
            "left_out": self._left_out,
        }


def start(tally: Tally, bridges: Mapping[str, frozenset[bytes]], version: int) -> Lines:
    """Fork the counter in the namespace of the bridges; the connection to it. Raises LabError.

    `bridges`: name -> senders (packed) that are at another site, whose requests are counted there.
    """
    counter = helper.fork("lab-arp", lambda controller: _count(tally, bridges, version, controller))
    if (reason := helper.failure(counter)) is not None:
        raise LabError(f"ARP requests cannot be counted here: {reason}. Give no --arp.")
    return counter


def ask(counter: Lines, contacts: Mapping[str, float]) -> Any:
    """The figures so far. Raises LabError when the counter is gone."""
    answer = counter.ask({"contacts": contacts})
    if answer is None:
        raise LabError("The process that counts ARP requests ended by itself: the lab.log may say why.")
    return answer


def _count(tally: Tally, bridges: Mapping[str, frozenset[bytes]], version: int, controller: Lines) -> None:
    try:
        rings = [(Ring(bridge, version), elsewhere) for bridge, elsewhere in bridges.items()]
    except OSError as reason:
        controller.send({"failed": str(reason.strerror)})
        return
    controller.send({"ready": True})
    with selectors.DefaultSelector() as selector:
        selector.register(controller, selectors.EVENT_READ)
        while not controller.ended:
            asked = selector.select(READ_INTERVAL_S)
            for ring, elsewhere in rings:
                for request in ring.read():
                    if request.sender not in elsewhere:
                        tally.note(request)
            for question in controller.receive() if asked else ():
                lost = sum(ring.lost() for ring, _ in rings)
                controller.send({**tally.figures(question["contacts"]), "lost": lost})
