"""The readings of a node itself, from the texts of the kernel's files.

Inputs are texts of /proc and /sys; outputs are samples with the names of node_exporter, so that rules for these
names apply. What node_exporter tells for each processor, device or interface is one sum here: a figure of the
cluster counts nodes. Names that end with `_total` are counters (rates.py). Invariant: a line that is not understood
gives no sample, and never a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

Samples = Mapping[str, float]

SECTOR_BYTES: Final = 512
TICKS_PER_S: Final = 100  # USER_HZ, the same on all machines that Linux runs on today
MODES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MEMORY: Final = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree", "Dirty")
PARTS_OF_OTHERS: Final = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Devices whose bytes are those of other devices, or of memory."""


WAYS: Final = (("receive", 0), ("transmit", 8))
"""The first columns of both halves of /proc/net/dev."""
NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def load(text: str) -> Samples:
    """/proc/loadavg"""
    fields = text.split()
    if len(fields) < 4 or "/" not in fields[3]:
        return {}
    return _numbers(zip(("node_load1", "node_load5", "node_load15"), fields[:3], strict=True))


def memory(text: str) -> Samples:
    """/proc/meminfo"""
    lines = (line.split() for line in text.splitlines())
    found = {fields[0].removesuffix(":"): fields[1] for fields in lines if len(fields) == 3 and fields[2] == "kB"}
    kilobytes = _numbers((name, found[name]) for name in MEMORY if name in found)
    return {f"node_memory_{name}_bytes": value * 1024 for name, value in kilobytes.items()}


def processors(text: str) -> Samples:
    """/proc/stat"""
    samples: dict[str, float] = {}
    lines = {fields[0]: fields[1:] for line in text.splitlines() if (fields := line.split())}
    for mode, ticks in _numbers(zip(MODES, lines.get("cpu", ()), strict=False)).items():
        samples[f'node_cpu_seconds_total{{mode="{mode}"}}'] = ticks / TICKS_PER_S
    plain = {
        "ctxt": "node_context_switches_total",
        "processes": "node_forks_total",
        "procs_running": "node_procs_running",
        "procs_blocked": "node_procs_blocked",
        "btime": "node_boot_time_seconds",
    }
    samples |= _numbers((plain[name], lines[name][0]) for name in plain if lines.get(name))
    count = sum(name.startswith("cpu") and name != "cpu" for name in lines)
    return {**samples, "node_cpus": float(count)} if count else samples


def disks(text: str) -> Samples:
    """/proc/diskstats, of whole disks: those that are no part of another one."""
    rows = [fields for line in text.splitlines() if len(fields := line.split()) >= 14]
    names = {fields[2] for fields in rows}
    totals = dict.fromkeys(("read_bytes", "written_bytes", "io_time_seconds"), 0.0)
    count = 0
    for fields in rows:
        if fields[2].startswith(PARTS_OF_OTHERS) or _is_partition(fields[2], names):
            continue
        found = _numbers(zip(totals, (fields[5], fields[9], fields[12]), strict=True))
        if len(found) == len(totals):
            count += 1
            totals["read_bytes"] += found["read_bytes"] * SECTOR_BYTES
            totals["written_bytes"] += found["written_bytes"] * SECTOR_BYTES
            totals["io_time_seconds"] += found["io_time_seconds"] / 1000
    return {f"node_disk_{name}_total": value for name, value in totals.items()} if count else {}


def _is_partition(name: str, names: set[str]) -> bool:
    """`sda1` is one of `sda`, `nvme0n1p2` of `nvme0n1`."""
    whole = name.rstrip("0123456789")
    return whole != name and (whole in names or (whole.endswith("p") and whole[:-1] in names))


def network(text: str) -> Samples:
    """/proc/net/dev, of all interfaces but those that end on the node itself."""
    columns = {"bytes": 0, "packets": 1, "errs": 2, "drop": 3}
    totals = {f"{way}_{name}": 0.0 for way in ("receive", "transmit") for name in columns}
    count = 0
    for line in text.splitlines()[2:]:
        name, colon, rest = line.partition(":")
        fields = rest.split()
        if not colon or name.strip() == "lo" or len(fields) < 16:
            continue
        pairs = [(f"{way}_{each}", fields[first + at]) for way, first in WAYS for each, at in columns.items()]
        found = _numbers(pairs)
        if len(found) == len(totals):
            count += 1
            totals = {each: value + found[each] for each, value in totals.items()}
    return {f"node_network_{name}_total": value for name, value in totals.items()} if count else {}


def pressure(resource: str, text: str) -> Samples:
    """/proc/pressure/cpu, io and memory: for how long some tasks waited, and for how long all that had work."""
    samples: dict[str, float] = {}
    for line in text.splitlines():
        what, *fields = line.split() or [""]
        total = next((each.removeprefix("total=") for each in fields if each.startswith("total=")), "")
        word = {"some": "waiting", "full": "stalled"}.get(what)
        if word and not (resource == "cpu" and what == "full"):  # it has no meaning for the processors of a node
            found = _numbers([(f"node_pressure_{resource}_{word}_seconds_total", total)])
            samples |= {name: value / 1e6 for name, value in found.items()}
    return samples


def temperature(texts: list[str]) -> Samples:
    """/sys/class/hwmon/*/temp*_input, in thousandths of a degree: the highest of all sensors of the node."""
    found = [value / 1000 for each in texts for value in _numbers([("value", each.strip())]).values()]
    plausible = [each for each in found if -50 <= each <= 200]  # a sensor that is not connected tells anything
    return {"node_hwmon_temp_celsius": max(plausible)} if plausible else {}


class File(NamedTuple):
    """A file of the kernel and what it tells. `is_optional`: some kernels do not have it."""

    path: str
    parse: Callable[[str], Samples]
    is_optional: bool = False


FILES: Final = (
    File("/proc/loadavg", load),
    File("/proc/meminfo", memory),
    File("/proc/stat", processors),
    File("/proc/diskstats", disks, is_optional=True),
    File("/proc/net/dev", network, is_optional=True),
    File("/proc/pressure/cpu", lambda text: pressure("cpu", text), is_optional=True),
    File("/proc/pressure/memory", lambda text: pressure("memory", text), is_optional=True),
    File("/proc/pressure/io", lambda text: pressure("io", text), is_optional=True),
)


def _numbers(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Those of the pairs whose text is a decimal number."""
    return {name: float(text) for name, text in pairs if NUMBER.fullmatch(text)}
