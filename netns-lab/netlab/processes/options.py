"""What a lab is asked to be, as one value that goes to other processes, and the configuration of its daemons."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from netlab.errors import LabError
from netlab.processes.rundir import RunDirectory
from netlab.topology.sites import Sites

SINK_FILE = "records.sqlite"
"""Of a sink, in the directory of its node."""


NO_GROUPS = "/subord-lab"
"""Where no node has groups."""


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
    arp_proxy: bool = False  # the bridge takes ARP requests to the host that they are for (filters.py)
    performances: Mapping[str, float] = field(default_factory=dict)  # address -> jobs an hour; others: measured
    insecure: bool = False  # nothing is sealed; otherwise by a key that is made for this lab
    agents: bool = False  # every node has an agent, which its socket starts (agents.py)
    services: str | None = None  # a folder with further services, for tests
    execute: bool = False
    rootless: bool = False
    daemon: str | None = None
    previous: str | None = None  # wheel or directory of another release (releases.py)
    old: tuple[str, ...] = ()  # addresses that begin with it
    sinks: tuple[str, ...] = ()  # addresses that store the records of the ledger
    sink_urls: Mapping[str, str] = field(default_factory=dict)  # address -> database; other sinks: a file of SQLite
    publish: bool = True  # daemons publish metrics
    classes: tuple[str, ...] = ()  # of work; nodes with an agent have a cgroup for each (groups.py)
    quota: float = 0.0  # processors of each node for all its classes; 0: no limit
    stand_ins: tuple[str, ...] = ()  # addresses whose agent the caller plays; the lab makes no groups there
    texts: bool = False  # and read text files in `metrics/` of the node's directory, which the caller makes

    def __post_init__(self) -> None:
        if self.previous is None and self.old:
            raise LabError("Old nodes need a release to be of: give --previous FILE, too.")
        if self.agents and self.execute:
            raise LabError("Agents are forked as daemons are: leave out --exec.")
        if strangers := set(self.stand_ins) - set(self.addresses):
            raise LabError(f"{min(strangers)} is no node of this lab, so its agent cannot be played.")
        if self.previous is not None and (self.execute or self.daemon):
            raise LabError("--previous is for daemons that are forked: leave out --exec and --daemon.")
        if strangers := set(self.old) - set(self.addresses):
            raise LabError(f"{min(strangers)} is no node of this lab, so it cannot be old.")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", self.name):
            raise LabError(f"--name {self.name}: use at most 32 letters, digits, - and _.")

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    def has_groups(self, address: str) -> bool:
        """Whether the lab makes cgroups for the classes of this node."""
        return bool(self.classes) and self.agents and address not in self.stand_ins

    @staticmethod
    def from_json(text: str) -> Options:
        return msgspec.json.decode(text, type=Options)


def config_text(
    options: Options, address: str, files: Path, directory: RunDirectory, *, is_old: bool = False, group: str = ""
) -> str:
    """The daemon's configuration file for one node; `files` is the node's own directory. `is_old`: for a daemon of
    the previous release. `group`: the cgroup that has those of the classes."""
    cluster = {
        **{name: getattr(options, name) for name in ("network", "fanout", "guest_slots", "mapping", "numbering")},
        "timing": options.timing,
        "port": 7117,
        "insecure": options.insecure or None,
        "key_file": None if options.insecure else str(directory.key),
    }
    node = {
        "address": address,
        "operators": None if is_old else str(directory.operators),  # releases before 0.3 do not know the key
        "control_socket": str(files / "control.sock"),
        "metrics": f"[{address}]:9717" if ":" in address else f"{address}:9717",
        "state_directory": str(files / "state") if options.disk else None,
        "seeds": options.seeds,
        "announce": options.announce or None,
        "full_scan": options.full_scan or None,
        "performance": options.performances.get(address),
        "event_log": str(directory.events),
        "grace_s": 2.0,
    }
    tables = {"cluster": cluster, "node": node}
    if not is_old:  # releases before 0.3 do not know the others
        tables["agent"] = {
            "socket": str(files / "agent.sock"),  # not that of this machine
            "policy": str(directory.policy),
            "state_directory": str(files / "agent"),
        }
        if address in options.sinks:
            tables["ledger"] = {"sink": options.sink_urls.get(address, str(files / SINK_FILE))}
        tables |= _metrics(options, files)
        if options.agents:
            tables["elastic"] = {"hosts_file": str(files / "hosts")}  # never that of this machine
        if options.classes:
            tables["shares"] = {"classes": [f"{name}={group or NO_GROUPS}/{name}" for name in options.classes]}
    return "\n".join(f"[{name}]\n{_lines(table)}" for name, table in tables.items())


def _metrics(options: Options, files: Path) -> dict[str, dict[str, Any]]:
    """Nothing where the defaults hold: daemons of another checkout may not know the table."""
    told = {} if options.publish else {"publish": False}
    texts = {"text_directory": str(files / "metrics")} if options.texts else {}
    return {"metrics": told | texts} if told or texts else {}


def _lines(table: dict[str, Any]) -> str:
    """A table of TOML, without what is not given; JSON is a subset for strings, numbers and lists of strings."""
    given = {key: value for key, value in table.items() if value is not None and value != ()}
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items())
