"""Ganglia: a gmond on each node, and a gmetad that asks one of them every 15 s, both as Debian has them.

Two ways, as its documents have them: every gmond tells all others by multicast, which is the default; or all tell one
collector. Nothing else of Debian's configuration is changed, and gmetad writes no files. What gmetad says is read
from its interactive port, which answers HTTP, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from netlab.errors import LabError
from netlab.lab import Lab
from netlab.peers.page_reader import PageReader
from netlab.peers.programs import NodePrograms

MULTICAST, UNICAST = "ganglia", "ganglia-unicast"
PROGRAMS = ("gmond", "gmetad")
SHIPPED = Path("/etc/ganglia/gmond.conf")
CLUSTER = "lab"
POLL_S = 15
PORT, QUERY_PORT = 8649, 8652
INTERFACE = "eth0"
GROUP = "mcast_join = 239.2.11.71"
METADATA_S = 60  # of unicast: a collector that starts later has to be told what the metrics are
SUMMARY = f"http://127.0.0.1:{QUERY_PORT}/?filter=summary"
WHOLE = f"http://127.0.0.1:{QUERY_PORT}/{CLUSTER}"
METRIC = AGED = "load_one"  # gmond tells it again within 70 s; others, as cpu_num, only after 20 minutes
DOWN_TMAX = 4  # gmetad calls a host down after as many times the longest silence that it expects

HOSTS = re.compile(r'<HOSTS UP="(\d+)" DOWN="(\d+)"')
HOST = re.compile(r'<HOST NAME="[^"]*" IP="([^"]*)"[^>]*? TN="(\d+)" TMAX="(\d+)"')
VALUE = re.compile(rf'<METRIC NAME="{AGED}"[^>]*? TN="(\d+)"')
TOTAL = re.compile(rf'<METRICS NAME="{METRIC}" SUM="([^"]*)" NUM="(\d+)"')


class Summary(NamedTuple):
    """What gmetad says of the cluster: hosts that are up and down, and how many are in the sum of METRIC."""

    up: int
    down: int
    counted: int


def summary_of(page: str) -> Summary | None:
    """None: it has nothing of the cluster yet."""
    hosts, total = HOSTS.search(page), TOTAL.search(page)
    if hosts is None:
        return None
    return Summary(int(hosts[1]), int(hosts[2]), int(total[2]) if total else 0)


def ages_of(page: str) -> list[int]:
    """Seconds since AGED of each host that is up was told to the gmond that gmetad asks."""
    found = []
    for part in page.split("</HOST>"):
        host, value = HOST.search(part), VALUE.search(part)
        if host and value and int(host[2]) <= DOWN_TMAX * int(host[3]):
            found.append(int(value[1]))
    return found


def gmond_config(shipped: str, collector: str | None, *, collects: bool = False) -> str:
    """Debian's configuration for the foreground and the lab. `collector`: its address; None: multicast. `collects`:
    this is the one of the collector. Raises LabError when the file is not the one that is known."""
    text = _changed(shipped, "daemonize = yes", "daemonize = no")
    text = _changed(text, "setuid = yes", "setuid = no")
    text = _changed(text, 'name = "unspecified"', f'name = "{CLUSTER}"')
    if collector is None:
        return _changed(text, GROUP, f"{GROUP}\n  mcast_if = {INTERFACE}", every=True)
    text = _changed(text, "send_metadata_interval = 0", f"send_metadata_interval = {METADATA_S}")
    text = _channel(text, "udp_send_channel", f"host = {collector}\n  port = {PORT}")
    text = _channel(text, "udp_recv_channel", f"port = {PORT}")
    return text if collects else _changed(text, "deaf = no", "deaf = yes")


def _changed(text: str, old: str, new: str, *, every: bool = False) -> str:
    if old not in text:
        raise LabError(f"{SHIPPED} has no `{old}`: use the file of Debian's package ganglia-monitor.")
    return text.replace(old, new, -1 if every else 1)


def _channel(text: str, name: str, lines: str) -> str:
    """With other lines in that section."""
    found, count = re.subn(rf"{name} \{{[^}}]*\}}", f"{name} {{\n  {lines}\n}}", text, count=1)
    if not count:
        raise LabError(f"{SHIPPED} has no section {name}: use the file of Debian's package ganglia-monitor.")
    return found


def gmetad_config(sources: Sequence[str], directory: Path) -> str:
    """`sources`: addresses; the first that answers is asked."""
    asked = " ".join(f"{each}:{PORT}" for each in sources)
    lines = (
        f'data_source "{CLUSTER}" {POLL_S} {asked}',
        "setuid off",
        "write_rrds off",
        f'rrd_rootdir "{directory}"',
    )
    return "".join(f"{line}\n" for line in lines)


class Ganglia:
    """The processes of both programs, and what gmetad on the last node says."""

    def __init__(self, lab: Lab, programs: NodePrograms, reader: PageReader, way: str) -> None:
        """`reader`: of pages on the last node."""
        self._lab, self._programs, self._reader, self._directory = lab, programs, reader, programs.directory
        self._collector = lab.positions[0] if way == UNICAST else None
        self._where = lab.positions[-1]

    @property
    def heart(self) -> int:
        """Where all comes together: the collector; of multicast every node, so that of gmetad."""
        return self._where if self._collector is None else self._collector

    def start(self, where: dict[str, str]) -> None:
        """`where`: the paths of both programs. Raises LabError."""
        shipped = SHIPPED.read_text()
        collector = None if self._collector is None else self._lab.address(self._collector)
        for position in self._lab.positions:
            file = self._directory / f"gmond-{position}.conf"
            file.write_text(gmond_config(shipped, collector, collects=position == self._collector))
            self._programs.start(position, "gmond", where["gmond"], "-f", "-c", str(file))
        sources = (self._lab.address(self._where), *map(self._lab.address, self._lab.positions[:2]))
        file = self._directory / "gmetad.conf"
        file.write_text(gmetad_config(sources if collector is None else (collector,), self._directory))
        # The level keeps it in the foreground.
        self._programs.start(self._where, "gmetad", where["gmetad"], "-d", "1", "-c", str(file))

    def summary(self) -> Summary | None:
        """None: gmetad does not answer, or knows nothing yet."""
        page = self._reader.get(SUMMARY)
        return summary_of(page.text) if page.status == 200 else None

    def ages(self) -> list[int]:
        page = self._reader.get(WHOLE)
        return ages_of(page.text) if page.status == 200 else []

    def end(self, position: int) -> None:
        self._programs.end(position)
