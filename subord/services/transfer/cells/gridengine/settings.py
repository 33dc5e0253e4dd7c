"""What a cell of Grid Engine needs for a transfer queue: a pure function of the settings, to print or to apply.

Input are the settings of the plan; outputs are the fields of the queue, of complexes, of the configuration of the
transfer host, and the scripts of the methods. Grid Engine alarms when the value of the sensor is the threshold or
more. Jobs take the transfer queue last, as far as the scheduler sorts queues by their numbers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from subord.services import FAULTS
from subord.services.transfer.methods import METHODS, SOCKET
from subord.services.transfer.plan import REMOTE, SENSED

SENSOR: Final = "sensor"
"""The method that is no method of a queue."""
SENSOR_S: Final = 9
SEQUENCE: Final = 1000
"""Of the transfer queue; other queues have 0, unless an administrator has set it."""
SORTED: Final = {"queue_sort_method": "seqno"}
"""Of the scheduler."""
DEFAULTS: Final = {
    "suspend_thresholds": "NONE",
    "nsuspend": "1",
    "suspend_interval": "00:05:00",
    "priority": "0",
    "min_cpu_interval": "00:05:00",
    "processors": "UNDEFINED",
    "ckpt_list": "NONE",
    "tmpdir": "/tmp",  # noqa: S108 - of Grid Engine, which makes a directory for each job there
    "shell": "/bin/sh",
    "shell_start_mode": "posix_compliant",
    "notify": "00:00:60",
    **dict.fromkeys(("owner_list", "user_lists", "xuser_lists", "subordinate_list"), "NONE"),
    **dict.fromkeys(("projects", "xprojects", "calendar"), "NONE"),
    "initial_state": "default",
    **{
        f"{kind}_{limit}": "INFINITY"
        for limit in ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
        for kind in ("s", "h")
    },
}
"""Fields of a new queue that setup leaves alone afterwards."""


GID_MIN, GID_MAX = 100, 2**31 - 1
"""Below are groups of the system; Grid Engine refuses some of them."""
_RANGE: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")


class Settings(NamedTuple):
    """`host`: the transfer host. `slots`: the limit of jobs abroad. `threshold`: of the sensor; None: none, for many
    short jobs, which the slots alone meter out. `others`: queues whose jobs stay at home. `folder`: of the scripts,
    on the transfer host; `sensor`: the path of the sensor, since a host has one for all its transfer queues; "": it
    is in the folder. `program`: words that run the methods there. `sorts`: whether the scheduler is told to fill
    queues by their numbers. `sensor_s`: how often the load of the transfer host is reported, at most 59. `gids`:
    ranges of numbers of groups that the execd of the transfer host gives to jobs; "": those of the cell. Each job of
    a host needs one, so they limit the jobs abroad, too. `together`: slots of all transfer queues of the host; 0:
    those of this one."""

    host: str
    socket: str
    program: tuple[str, ...]
    queue: str = "transfer"
    slots: int = 40
    threshold: int | None = None
    value: str = SENSED
    remote: str = REMOTE
    others: tuple[str, ...] = ("all.q",)
    parallel: tuple[str, ...] = ()
    folder: str = "/etc/subord/transfer"
    sensor: str = ""
    sorts: bool = True
    sensor_s: int = SENSOR_S
    gids: str = ""
    together: int = 0


def queue_fields(own: Settings) -> dict[str, str]:
    """Those that setup sets, also in a queue that is there."""
    return {
        "hostlist": own.host,
        "seq_no": str(SEQUENCE),
        "load_thresholds": "NONE" if own.threshold is None else f"{own.value}={own.threshold}",
        "qtype": "BATCH",
        "pe_list": " ".join(own.parallel) or "NONE",
        "rerun": "TRUE",
        "slots": str(own.slots),
        "prolog": "NONE",
        "epilog": "NONE",
        "starter_method": f"{own.folder}/start",
        "suspend_method": f"{own.folder}/suspend",
        "resume_method": f"{own.folder}/resume",
        "terminate_method": f"{own.folder}/terminate $job_pid",
        "complex_values": f"{own.remote}=TRUE",
    }


def complexes(own: Settings) -> dict[str, str]:
    """Lines of `qconf -sc`, by their names."""
    return {
        own.remote: f"{own.remote} {own.remote} BOOL == YES NO 0 0",
        own.value: f"{own.value} {own.value} INT >= NO NO 0 0",
    }


def host_fields(own: Settings) -> dict[str, str]:
    """Of the configuration of the transfer host."""
    fields = {"load_sensor": _path(own, SENSOR), "load_report_time": f"00:00:{own.sensor_s:02}"}
    return fields | ({"gid_range": own.gids} if own.gids else {})


def ranges_in(text: str) -> tuple[range, ...] | None:
    """The numbers of `gid_range`, in their order, each once. None: it cannot be read."""
    found = [_RANGE.fullmatch(each) for each in text.replace(",", " ").split()]
    read = sorted((int(each[1]), int(each[2] or each[1]) + 1) for each in found if each)
    if not read or len(read) < len(found) or any(first >= end for first, end in read):
        return None
    merged: list[range] = []
    for first, end in read:
        if merged and first <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, end))
        else:
            merged.append(range(first, end))
    return tuple(merged)


def gids_in(text: str) -> int | None:
    """How many numbers `gid_range` has, and so how many jobs a host starts at most. None: it cannot be read."""
    ranges = ranges_in(text)
    return None if ranges is None else sum(map(len, ranges))


def gids_text(ranges: Iterable[range]) -> str:
    """As `gid_range` has them: `40000-40399,50000`."""
    return ",".join(f"{each[0]}-{each[-1]}" if len(each) > 1 else str(each[0]) for each in ranges)


def scripts(own: Settings) -> dict[str, str]:
    """By their paths. Grid Engine takes no arguments for the starter and the sensor, and what a user has in the
    environment is not to change which interpreter runs."""
    return {_path(own, method): _script(own, method) for method in METHODS}


def _path(own: Settings, method: str) -> str:
    return own.sensor if method == SENSOR and own.sensor else f"{own.folder}/{method}"


def _script(own: Settings, method: str) -> str:
    words = shlex.join([*own.program, method, SOCKET, own.socket])
    rest = shlex.quote(own.value) if method == SENSOR else '"$@"'
    of = "all transfer queues" if method == SENSOR else f"the transfer queue {own.queue}"
    fault = FAULTS.get(("transfer", method))
    return (
        f"#!/bin/sh\n# {method} of {of}, made by `subord transfer setup`.\nunset LD_PRELOAD LD_LIBRARY_PATH\n"
        f"{'' if fault is None else _guard(own.program[0], fault)}exec {words} {rest}\n"
    )


def _guard(program: str, fault: int) -> str:
    """A shell that cannot run the program would end with 126 or 127, which Grid Engine takes for the status of the
    job. Some shells run a trap then, others do not."""
    trap = f"trap 'exit {fault}' 0\n"
    return trap + (f"[ -x {shlex.quote(program)} ] || exit {fault}\n" if program.startswith("/") else "")


def printed(own: Settings) -> str:
    """For an administrator who sets it up by hand: what to give to which command."""
    return "\n".join(_sections(own))


def _sections(own: Settings) -> Iterator[str]:
    yield f"# On an administrative host of the cell, as a manager. The transfer host is {own.host}."
    yield f"qconf -ah {own.host}\nqconf -as {own.host}\n"
    yield f"# qconf -mc: add\n{_lines(complexes(own).values())}"
    for path, text in scripts(own).items():
        yield f"# {path} on {own.host}, with mode 755:\n{text}"
    fields = _table({"qname": own.queue} | queue_fields(own))
    yield f"# qconf -aq {own.queue}: change these fields\n{fields}"
    for each in own.others:
        yield f"qconf -aattr queue complex_values {own.remote}=FALSE {each}"
    yield f"\n# qconf -mconf {own.host}: set; then restart the execd there\n{_table(host_fields(own))}"
    if own.sorts:
        yield f"# qconf -msconf: set, so that jobs leave only when no other queue has room\n{_table(SORTED)}"


def _table(fields: Mapping[str, str]) -> str:
    width = max(map(len, fields))
    return _lines(f"{name:<{width}} {value}" for name, value in fields.items())


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
