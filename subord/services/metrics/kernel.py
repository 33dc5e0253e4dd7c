"""The readings of a node itself, from the texts of the kernel's files.

Inputs are texts of /proc and /sys; outputs are samples with the names of node_exporter, so that rules for these
names apply. Counters of disks and interfaces have the label `device`; growth.py makes one sum of them, because a
figure of the cluster counts nodes. Names that end with `_total` are counters (rates.py). Invariant: a line that is
not understood gives no sample, and never a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

Samples = Mapping[str, float]

SECTOR_BYTES: Final = 512
TICKS_PER_S: Final = 100  # USER_HZ, the same on all machines that Linux runs on today
MODES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MEMORY: Final = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree", "Dirty")
DEVICE: Final = 'device="'
PARTS_OF_OTHERS: Final = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "zd", "bcache", "drbd")
"""Devices whose bytes are those of other devices, or of memory."""
NETWORK: Final = "/proc/net/dev"
WAYS: Final = (("receive", 0), ("transmit", 8))
"""The first columns of both halves of /proc/net/dev."""
NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
NVME_PATH: Final = re.compile(r"(nvme[0-9]+)c[0-9]+(n[0-9]+)")


def load(text: str) -> Samples:
    """/proc/loadavg"""
    fields = text.split()
    if len(fields) < 4 or "/" not in fields[3]:
        return {}
    return _numbers(zip(("node_load1", "node_load5", "node_load15"), fields[:3], strict=True))


def memory(text: str) -> Samples:
    """/proc/meminfo"""
    lines = (line.partition(":") for line in text.split("\n"))
    found = {name: fields for name, _, rest in lines if name in MEMORY and len(fields := rest.split()) == 2}
    kilobytes = _numbers((name, number) for name, (number, unit) in found.items() if unit == "kB")
    return {f"node_memory_{name}_bytes": value * 1024 for name, value in kilobytes.items()}


def processors(text: str) -> Samples:
    """/proc/stat"""
    samples: dict[str, float] = {}
    # The lines of interrupts have a column for each of them, thousands on a large machine.
    starts = (line.split(maxsplit=1) for line in text.split("\n") if not line.startswith(("intr", "softirq")))
    lines = {fields[0]: fields[1].split() for fields in starts if len(fields) == 2}
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
    rows = {fields[2]: fields for line in text.split("\n") if len(fields := line.split()) >= 14}
    units = {"read_bytes": SECTOR_BYTES, "written_bytes": SECTOR_BYTES, "io_time_seconds": 0.001}
    samples: dict[str, float] = {}
    for device, fields in rows.items():
        if device.startswith(PARTS_OF_OTHERS) or _is_partition(device, rows) or _is_counted_path(device, rows):
            continue
        found = _numbers(zip(units, (fields[5], fields[9], fields[12]), strict=True))
        if len(found) == len(units):
            samples |= {f'node_disk_{name}_total{{{DEVICE}{device}"}}': found[name] * units[name] for name in units}
    return samples


def _is_counted_path(name: str, rows: Mapping[str, list[str]]) -> bool:
    """`nvme0c1n1` is one path to `nvme0n1`, which counts the same bytes since Linux 6.4, and none before."""
    disk = NVME_PATH.sub(r"\1\2", name)
    return disk != name and any(each != "0" for each in rows.get(disk, ())[3:11])


def _is_partition(name: str, names: Collection[str]) -> bool:
    """`sda1` is one of `sda`, `nvme0n1p2` of `nvme0n1`."""
    whole = name.rstrip("0123456789")
    return whole != name and (whole in names or (whole.endswith("p") and whole[:-1] in names))


def interfaces(text: str) -> list[str]:
    """The names in /proc/net/dev."""
    return [line.partition(":")[0].strip() for line in text.split("\n")[2:] if ":" in line]


def network(text: str, counted: Collection[str]) -> Samples:
    """/proc/net/dev, of the interfaces that are counted; `lo` ends on the node itself."""
    columns = {"bytes": 0, "packets": 1, "errs": 2, "drop": 3}
    samples: dict[str, float] = {}
    for line in text.split("\n")[2:]:
        name, colon, rest = line.partition(":")
        device, fields = name.strip(), rest.split()
        if not colon or device == "lo" or device not in counted or len(fields) < 16:
            continue
        pairs = [(f"{way}_{each}", fields[first + at]) for way, first in WAYS for each, at in columns.items()]
        found = _numbers(pairs)
        if len(found) == len(pairs):
            samples |= {f'node_network_{each}_total{{{DEVICE}{device}"}}': value for each, value in found.items()}
    return samples


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


def temperature(texts: Iterable[str]) -> Samples:
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
    File("/proc/pressure/cpu", lambda text: pressure("cpu", text), is_optional=True),
    File("/proc/pressure/memory", lambda text: pressure("memory", text), is_optional=True),
    File("/proc/pressure/io", lambda text: pressure("io", text), is_optional=True),
)


def _numbers(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Those of the pairs whose text is a decimal number."""
    return {name: float(text) for name, text in pairs if NUMBER.fullmatch(text)}
