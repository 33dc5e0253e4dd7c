"""Counting who asks the whole network for whom, by ARP or IPv6 neighbour solicitation.

Intuition: a doorman with a tally sheet. For everybody who shouts a name into the hall he makes a mark; and the first
time that somebody shouts for a person who does not live here, he notes the hour.

A process of its own beside the controller, so that a busy controller misses nothing. It says {"ready": true}, and
answers {"contacts": {ADDRESS: s}} with the figures so far. Rates are the most requests of one sender in any second,
a sliding window and not one that begins with the clock's.
"""

from __future__ import annotations

import ipaddress
import os
import selectors
import signal
import socket
import traceback
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netlab.common import linux
from netlab.common.json_lines import Lines
from netlab.errors import LabError
from netlab.processes.options import Options
from netlab.topology.layout import network_of, router_addresses
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
    """The sheet. `nodes` and `routers` are addresses; a target that is neither, but in the network, is silent."""

    def __init__(self, nodes: Iterable[str], routers: Iterable[str], network: str) -> None:
        self._nodes = {_packed(address): Sender() for address in nodes}
        self._routers = {_packed(address): Sender() for address in routers}
        self._strangers = Sender()  # whoever else asks: nobody should
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
        """Sums over the nodes, and over the routers apart; `contacts`: when each node was first spoken to, if it was.

        `left_out` counts requests that may belong to new pairs, after `PAIRS_MAX` of them.
        """
        contacted = {_packed(address): mono for address, mono in contacts.items()}
        late = (
            mono > contacted[address]
            for address, sender in self._nodes.items()
            if address in contacted
            for mono in sender.silent.values()
        )
        return {
            "requests": sum(sender.requests for sender in self._nodes.values()),
            "per_s_max": max(sender.per_s_max for sender in self._nodes.values()),
            "silent": sum(len(sender.silent) for sender in self._nodes.values()),
            "silent_after_contact": sum(late),
            "router_requests": sum(sender.requests for sender in self._routers.values()),
            "router_per_s_max": max((sender.per_s_max for sender in self._routers.values()), default=0),
            "strangers": self._strangers.requests,
            "left_out": self._left_out,
        }


def start(options: Options, bridges: Iterable[str]) -> Lines:
    """Fork the watcher in the namespace of the bridges; our end of the conversation. Raises LabError."""
    ours, theirs = socket.socketpair()
    controller = os.getpid()
    if os.fork():
        theirs.close()
        watcher = Lines(ours)
        message = next(iter(watcher), {"failed": "it ended without a word"})
        if "ready" not in message:
            raise LabError(f"ARP requests cannot be counted here: {message['failed']}. Give no --arp.")
        return watcher
    code = 1
    try:
        linux.die_with(controller, signal.SIGKILL)
        linux.set_name("lab-arp")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the controller decides when we end
        linux.close_all_but(keep=(0, 1, 2, theirs.fileno()))
        _watch(options, bridges, Lines(theirs))
        code = 0
    except BaseException:  # nothing of the controller's stack may run in this copy
        traceback.print_exc()
    finally:
        os._exit(code)


def ask(watcher: Lines, contacts: Mapping[str, float]) -> Any:
    """The figures so far. Raises LabError when the watcher is gone."""
    try:
        watcher.send({"contacts": contacts})
        answer = next(iter(watcher), None)
    except OSError:
        answer = None
    if answer is None:
        raise LabError("The process that counts ARP requests ended by itself: the lab.log may say why.")
    return answer


def _watch(options: Options, bridges: Iterable[str], controller: Lines) -> None:
    tally = Tally(options.addresses, router_addresses(options.subnets), options.network)
    try:
        rings = [Ring(bridge, network_of(options.network).version) for bridge in bridges]
    except OSError as reason:
        controller.send({"failed": str(reason.strerror)})
        return
    sites = {} if options.sites is None else {_packed(each): site for each, site in options.sites.numbers.items()}
    controller.send({"ready": True})
    with selectors.DefaultSelector() as selector:
        selector.register(controller, selectors.EVENT_READ)
        while not controller.ended:
            asked = selector.select(READ_INTERVAL_S)
            for number, ring in enumerate(rings):
                for request in ring.read():
                    if sites.get(request.sender, number) == number:  # other sites hear it, too
                        tally.note(request)
            for question in controller.receive() if asked else ():
                lost = sum(ring.lost() for ring in rings)
                controller.send({**tally.figures(question["contacts"]), "lost": lost})


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed
