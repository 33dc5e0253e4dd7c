"""The controller runs inside the private namespaces: it makes the lab, and then does what its clients ask.

It answers on a Unix socket, one JSON line a request: {"do": NAME, ...} -> {"ok": ...} or {"error": SENTENCE}. It does
not read the event log; its clients do.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from netlab.common import linux, measure
from netlab.common.helper import ask
from netlab.common.json_lines import Lines, Message
from netlab.common.linux import ENDING_SIGNALS
from netlab.common.results import replace_file
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.processes import zygotes
from netlab.processes.groups import Groups
from netlab.processes.options import Options, config_text
from netlab.processes.releases import PREVIOUS, Release
from netlab.processes.rundir import RunDirectory
from netlab.topology import arp_counter, filters, relay
from netlab.topology.addresses import (
    hardware_address,
    network_of,
    packed,
    position_of,
    router_addresses,
    silent_below,
)
from netlab.topology.arp_filter import ArpFilter
from netlab.topology.bridges import Bridges, router_mac
from netlab.topology.filters import ArpProxy

CLIENTS_MAX = 64
UNWIND_S_MAX = 30.0
Report = Callable[[Message], None]


class Stop(Exception):  # noqa: N818  # not an error: a signal asks the lab to end
    """A signal asked the lab to end."""


class Controller:
    """One lab. `report` receives {"progress": TEXT, "done": N, "of": N} while it is raised."""

    def __init__(self, options: Options, directory: RunDirectory, *, ask_by_arp: bool, report: Report) -> None:
        self._options = options
        self._directory = directory
        self._ask_by_arp = ask_by_arp
        self._report = report
        self._selector = selectors.DefaultSelector()  # whatever is readable is given to the function beside it
        self._clients: set[Lines] = set()
        self._arp_filter = _arp_filter(options)
        self._arp_proxy = _arp_proxy(options) if ask_by_arp and options.arp_proxy else None
        self._arp_counter: Lines | None = None
        self._relay: Lines | None = None  # between sites, where there are some
        self._groups: Groups | None = None  # of classes of work, where there are some

    def run(self) -> None:
        """Raise the lab, serve until a signal, take everything down. Raises LabError, OSError."""
        bridges: Bridges | None = None
        options = self._options
        try:
            for number in ENDING_SIGNALS:
                signal.signal(number, _stop)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the keeper has blocked them
            linux.adopt_orphans()
            self._zygotes = zygotes.start(options, self._directory)
            known = () if self._ask_by_arp else options.addresses
            bridges = self._bridges = Bridges(
                options.network, options.subnets, known, self._arp_filter, self._arp_proxy, sites=options.sites
            )
            if options.sites is not None:
                self._relay = relay.start(options.sites)
                bridges.plug_in_relay()
            if options.arp:
                self._arp_counter = _start_counter(options, bridges.names)
            self._raise()
            self._serve()
        except Stop:
            pass
        finally:
            for number in ENDING_SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            for client in self._clients:
                client.close()  # which ends commands in namespaces (enter.py) that would keep them alive
            linux.end_all_below()
            if self._groups is not None:
                self._groups.remove()
            if bridges is not None:
                bridges.close()
                # The kernel takes the links down by itself; its work must not fall into the next measurement.
                left = {"lo", *bridges.names}
                wait_until(lambda: set(measure.interface_counters()) <= left, UNWIND_S_MAX, 0.02)

    def _raise(self) -> None:
        addresses, options = self._options.addresses, self._options
        if any(map(options.has_groups, addresses)):
            self._groups = Groups(options.name, options.classes, options.quota)
        for number, address in enumerate(addresses, 1):
            self._bridges.add(address)
            if self._groups is not None and options.has_groups(address):
                self._groups.make(self._position(address))
            files = self._directory.node(self._position(address))
            files.mkdir(mode=0o700)
            (files / "state").mkdir()
            if self._options.agents:
                (files / "agent").mkdir(mode=0o700)
            self._configure(address)
            if number % 10 == 0 or number == len(addresses):
                self._report({"progress": "making namespaces", "done": number, "of": len(addresses)})
        self._report({"progress": "waiting for the daemon to be imported"})
        self._zygotes.await_ready()
        self._report({"progress": "reading configurations"})
        self._zygotes.prepare([self._position(address) for address in addresses])

    def _serve(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener, self._selector:
            listener.bind(str(self._directory.socket))
            listener.listen(CLIENTS_MAX)
            self._report({"ready": True, "controller": os.getpid()})
            self._selector.register(listener, selectors.EVENT_READ, self._accept)
            for each in self._zygotes.lines.values():
                self._selector.register(each, selectors.EVENT_READ, self._zygotes.receive)
            if self._relay is not None:
                self._selector.register(self._relay, selectors.EVENT_READ, _relay_ended)
            while not self._zygotes.ended:
                for key, _ in self._selector.select():
                    key.data(key.fileobj)
        raise LabError(zygotes.GONE)

    def _accept(self, listener: socket.socket) -> None:
        stream, _ = listener.accept()
        if len(self._clients) >= CLIENTS_MAX:
            stream.close()
            return
        stream.settimeout(10.0)  # a client that stops reading must not stop the controller
        client = Lines(stream)
        self._clients.add(client)
        self._selector.register(client, selectors.EVENT_READ, self._attend)

    def _attend(self, client: Lines) -> None:
        try:
            for request in client.receive():
                client.send(self._answer(request))
        except (OSError, ValueError):
            client.ended = True
        if client.ended:
            self._selector.unregister(client)
            self._clients.remove(client)
            client.close()

    def _answer(self, request: Message) -> Message:
        what = request.pop("do", None)
        do = getattr(self, f"_do_{what}", None)
        if do is None:
            return {"error": f"The lab does not know how to {what}: it was started by another version."}
        try:
            for address in (*request.get("addresses", ()), *([request["address"]] if "address" in request else ())):
                self._check(address)
            return {"ok": do(**request)}
        except LabError as reason:
            return {"error": str(reason)}
        except Stop:
            raise
        except Exception as reason:  # netlink has exceptions of its own; the lab must outlive a refused request
            traceback.print_exc()
            return {"error": f"The lab could not {what}: {type(reason).__name__}: {reason}."}

    def _check(self, address: str) -> None:
        if address not in self._bridges.namespaces:
            raise LabError(
                f"{address} is no node of this lab: `netns-lab/lab status` lists them. Nothing was changed."
            )

    def _do_info(self) -> Message:
        self._zygotes.receive_exits()
        return {
            "controller": os.getpid(),
            "keeper": os.getppid(),
            "options": self._options.to_json(),
            "rootless": self._options.rootless,
            "neighbours": "arp" if self._ask_by_arp else "permanent",
            "requests_for_nobody": "stopped" if self._arp_filter and self._arp_filter.works else "heard by all",
            "requests_for_hosts": "taken to them" if self._arp_proxy and self._arp_proxy.runs else "heard by all",
            "events": str(self._directory.events),
            "nodes": [self._node_info(address) for address in self._options.addresses],
        }

    def _node_info(self, address: str) -> Message:
        return {
            "address": address,
            "position": self._position(address),
            "site": None if self._options.sites is None else self._options.sites.name_of(address),
            "pid": self._zygotes.pids.get(address),
            "exit_code": self._zygotes.exits.get(address),
            "release": self._zygotes.release_of(address),
            "namespace": self._namespace(address),
        }

    def _do_start(self, addresses: list[str], release: Release | None = None) -> dict[str, int]:
        """Fork these nodes in this order, without waiting for any; `release`: another one than before."""
        self._zygotes.receive_exits()
        for address in addresses:
            if address in self._zygotes.pids:
                raise LabError(f"{address} is running already. Nothing was started.")
        if release is not None:
            self._zygotes.assign(addresses, release)
            for address in addresses:
                self._configure(address)
        nodes = [[address, self._namespace(address), self._position(address)] for address in addresses]
        return self._zygotes.start(nodes)

    def _do_signal(self, address: str, number: int) -> Message:
        done = self._zygotes.signal(address, number)
        if not done:
            raise LabError(f"{address} is not running: `netns-lab/lab start {address}` starts it.")
        return done

    def _do_signal_agent(self, address: str, number: int) -> bool:
        """Whether the agent ran."""
        return self._zygotes.signal_agent(address, number)

    def _do_remove_agent(self, address: str) -> None:
        self._zygotes.remove_agent(address)

    def _do_cut(self, address: str, connected: bool) -> None:
        self._bridges.cut(address, connected=connected)

    def _do_cut_site(self, site: str, connected: bool) -> Any:
        sites = self._options.sites
        if sites is None or site not in sites.names:
            known = "this lab has none" if sites is None else f"there are {', '.join(sites.names)}"
            raise LabError(f"No site has the name {site}: {known}. Nothing was changed.")
        return self._do_relay({"do": "cut", "site": site, "connected": connected})

    def _do_relay(self, request: Message) -> Any:
        if self._relay is None:
            raise LabError("This lab has no sites: raise it with `--sites FILE`. Nothing was changed.")
        return ask(self._relay, request, relay.GONE)

    def _do_perform(self, address: str, jobs_per_hour: float) -> None:
        """Another performance for a node: in its configuration, which it reads again if it runs."""
        performances = {**self._options.performances, address: jobs_per_hour}
        self._options = replace(self._options, performances=performances)
        self._configure(address)
        self._zygotes.signal(address, int(signal.SIGHUP))

    def _configure(self, address: str) -> None:
        """Replace the file as a whole: the daemon may be reading it."""
        files = self._directory.node(self._position(address))
        is_old = self._zygotes.release_of(address) == PREVIOUS
        group = "" if self._groups is None else f"/{self._groups.path}/{self._position(address)}"
        text = config_text(self._options, address, files, self._directory, is_old=is_old, group=group)
        replace_file(files / "config.toml", text)

    def _do_replace(self, address: str) -> None:
        """Another host, with an empty disk, at this address; the old one disappears without a message."""
        self._bridges.check_replaceable()
        self._bridges.cut(address, connected=False)
        self._zygotes.signal(address, int(signal.SIGKILL))
        state = self._directory.node(self._position(address)) / "state"
        shutil.rmtree(state)
        state.mkdir()
        self._bridges.replace(address)

    def _do_groups(self, what: str, **about: Any) -> Any:
        """What groups.py does to the classes of nodes."""
        if self._groups is None:
            raise LabError("This lab has no classes of work: raise it with `--classes`. Nothing was changed.")
        if "address" in about:
            about["node"] = self._position(about.pop("address"))
        return getattr(self._groups, what)(**about)

    def _do_filter(self, rules: str) -> None:
        filters.load(rules)

    def _do_touch_memory(self) -> int:
        """MiB touched for the daemons that will be started (zygote.py)."""
        return self._zygotes.touch(self._options.addresses)

    def _do_ports(self) -> Message:
        """What every node has sent, and what was brought to it, so far: {address: [bytes, packets]}, and when."""
        ports = measure.interface_counters()
        counters = {address: ports[self._bridges.port_name(address)] for address in self._options.addresses}
        return {
            "mono": time.monotonic(),
            "sent": {address: each.received for address, each in counters.items()},
            "brought": {address: each.sent for address, each in counters.items()},
        }

    def _do_arp(self, contacts: dict[str, float]) -> Any:
        """What was counted so far (arp_counter.py); `contacts`: address -> first contact, s."""
        if self._arp_counter is None:
            raise LabError("This lab does not count ARP requests: raise it with `arp`.")
        return ask(self._arp_counter, {"contacts": contacts}, arp_counter.GONE)

    def _do_processes(self, what: list[str]) -> Message:
        """Of every live node the named figures of measure.OF_PROCESS: {address: value} each."""
        pids = self._zygotes.pids.items()
        found = {name: {address: measure.OF_PROCESS[name](pid) for address, pid in pids} for name in what}
        return {"mono": time.monotonic(), **found}

    def _namespace(self, address: str) -> str:
        return f"/proc/{os.getpid()}/fd/{self._bridges.namespaces[address]}"

    def _position(self, address: str) -> int:
        return position_of(address, self._options.network)


def _arp_filter(options: Options) -> ArpFilter | None:
    """Where some addresses are silent."""
    if not options.arp and silent_below(options.addresses, options.network) == 0:
        return None
    hosts = (*options.addresses, *router_addresses(options.subnets))
    return ArpFilter(hosts, network_of(options.network).version, counts=options.arp)


def _arp_proxy(options: Options) -> ArpProxy | None:
    """Where nodes ask each other by ARP."""
    if network_of(options.network).version == 6:
        return None
    routers = {address: router_mac(leg) for leg, address in enumerate(router_addresses(options.subnets))}
    return ArpProxy({address: hardware_address(address) for address in options.addresses} | routers)


def _start_counter(options: Options, bridges: Iterable[str]) -> Lines:
    tally = arp_counter.Tally(options.addresses, router_addresses(options.subnets), options.network)
    sites = {} if options.sites is None else options.sites.numbers
    elsewhere = {
        bridge: frozenset(packed(address) for address, site in sites.items() if site != number)
        for number, bridge in enumerate(bridges)
    }
    return arp_counter.start(tally, elsewhere, network_of(options.network).version)


def _stop(*_: object) -> None:
    raise Stop


def _relay_ended(_relay: Lines) -> None:
    """It only answers, and every answer is waited for: nothing else makes the connection readable."""
    raise LabError(relay.GONE)
