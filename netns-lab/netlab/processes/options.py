"""What a lab is asked to be, as one value that goes to other processes, and the configuration of its daemons."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from netlab.errors import LabError
from netlab.processes.rundir import RunDirectory
from netlab.topology.sites import Sites


@dataclass(frozen=True, kw_only=True)
class Options:
    """One lab. `addresses` ascending; `daemon` None is subord itself, else a Python file with `main(argv)`."""

    name: str
    addresses: tuple[str, ...]
    network: str = "10.0.0.0/16"
    subnets: tuple[str, ...] = ()  # one bridge each, with a router between them; (): one bridge for all
    sites: Sites | None = None  # one bridge each, with a relay between them
    fanout: int = 2
    guest_slots: int | None = None
    mapping: str = "ip"
    numbering: str = "complete"
    timing: str = "lan"
    seeds: tuple[str, ...] = ()  # addresses that every daemon is told of
    announce: bool = False  # daemons may announce themselves by multicast
    full_scan: bool = False  # daemons ask every address before they choose
    disk: bool = True  # daemons keep their neighbourhood over a restart
    arp: bool = False  # nodes ask by ARP, and the requests are counted (arp_counter.py)
    arp_proxy: bool = False  # the bridge takes ARP requests to the host that they are for (arp_proxy.py)
    performances: Mapping[str, float] = field(default_factory=dict)  # address -> jobs an hour; others: measured
    insecure: bool = False  # nothing is sealed; otherwise by a key that is made for this lab
    execute: bool = False
    rootless: bool = False
    daemon: str | None = None
    previous: str | None = None  # wheel or directory of another release (releases.py)
    old: tuple[str, ...] = ()  # addresses that begin with it

    def __post_init__(self) -> None:
        if self.previous is None and self.old:
            raise LabError("Old nodes need a release to be of: give --previous FILE, too.")
        if self.previous is not None and (self.execute or self.daemon):
            raise LabError("--previous is for daemons that are forked: leave out --exec and --daemon.")
        if strangers := set(self.old) - set(self.addresses):
            raise LabError(f"{min(strangers)} is no node of this lab, so it cannot be old.")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", self.name):
            raise LabError(f"--name {self.name}: use at most 32 letters, digits, - and _.")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Options:
        given = json.loads(text)
        lists = {name: tuple(given[name]) for name in ("addresses", "subnets", "seeds", "old")}
        sites = None if given["sites"] is None else Sites.from_plain(given["sites"])
        return Options(**{**given, **lists, "sites": sites})


def config_text(options: Options, address: str, files: Path, directory: RunDirectory) -> str:
    """The daemon's configuration file for one node; `files` is the node's own directory."""
    guests = "" if options.guest_slots is None else f"guest_slots = {options.guest_slots}\n"
    state = f"state_directory = {json.dumps(str(files / 'state'))}\n" if options.disk else ""
    quoted = json.dumps  # TOML basic strings: JSON escapes are a subset
    seeds = f"seeds = {quoted(options.seeds)}\n" if options.seeds else ""
    flags = "announce = true\n" if options.announce else ""
    flags += "full_scan = true\n" if options.full_scan else ""
    if address in options.performances:
        flags += f"performance = {options.performances[address]:.6g}\n"
    seal = "insecure = true\n" if options.insecure else f"key_file = {quoted(str(directory.key))}\n"
    host = f"[{address}]" if ":" in address else address
    return (
        f"[cluster]\nnetwork = {quoted(options.network)}\nfanout = {options.fanout}\n{guests}"
        f"mapping = {quoted(options.mapping)}\n"
        f"numbering = {quoted(options.numbering)}\ntiming = {quoted(options.timing)}\nport = 7117\n{seal}\n"
        f"[node]\naddress = {quoted(address)}\ncontrol_socket = {quoted(str(files / 'control.sock'))}\n"
        f"metrics = {quoted(host + ':9717')}\n{state}{seeds}{flags}"
        f"event_log = {quoted(str(directory.events))}\ngrace_s = 2.0\n"
    )
