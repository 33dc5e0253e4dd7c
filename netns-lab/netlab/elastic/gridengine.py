"""A real Grid Engine in an elastic lab: a cell that all hosts see, its qmaster, an execd on each host, and jobs.

The programs are those of Debian's packages; all files are of this cell. They are called without Debian's wrapper
around each of them, which takes ten times their processor time to find out what ENVIRONMENT says. Grid Engine starts
jobs at once, and fills one host before it takes the next one, so that hosts become idle.
"""

from __future__ import annotations

import calendar
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from netlab.common.waiting import wait_until
from netlab.elastic.host import SHARED
from netlab.errors import LabError
from subord.services.batch.gridengine.registration import HOST

PROGRAMS: Final = {
    "sge_qmaster": "gridengine-master",
    "sge_execd": "gridengine-exec",
    "qsub": "gridengine-client",
    "qconf": "gridengine-client",
}
QUEUE: Final = "all.q"
SHARE: Final = Path("/usr/share/gridengine")
INSTALLED: Final = Path("/var/lib/gridengine")
TOP: Final = f"{SHARED}/ge"
COMMANDS: Final = "/usr/lib/gridengine"
ENVIRONMENT: Final = {
    "PATH": f"{COMMANDS}:/usr/sbin:/usr/bin:/sbin:/bin",
    "SGE_ROOT": f"{TOP}/top",
    "SGE_CELL": "default",
    "SGE_QMASTER_PORT": "6444",
    "SGE_EXECD_PORT": "6445",
    "SGE_EXECD_PIDFILE": "/run/execd.pid",
}
EXECD: Final = f"{TOP}/execd"
"""The command that starts the execd of a host, unless it runs."""
START_EXECD: Final = """
runs() { kill -0 "$(cat /run/execd.pid 2>/dev/null)" 2>/dev/null; }
runs && exit 0
sge_execd || exit
for turn in $(seq 100); do # it writes the file after it has gone into the background, and asked the qmaster
  runs && exit 0
  sleep 0.2
done
echo "sge_execd has ended" >&2
exit 1
"""
AT_ONCE: Final = {
    "schedule_interval": "0:0:1",
    "flush_submit_sec": "1",
    "flush_finish_sec": "1",
    "reprioritize_interval": "0:0:0",
    "queue_sort_method": "seqno",
    "weight_priority": "1.000000",
    "weight_urgency": "0.000000",
}
"""The order of jobs is that of `qsub -p`, and then of their numbers."""
FLUSHED: Final = "flush_time=00:00:01 accounting_flush_time=00:00:00"
REPORTING: Final = f"accounting=true reporting=false {FLUSHED} joblog=false sharelog=00:00:00"
"""Nothing of the accounting is buffered: a qmaster that is killed would lose the ends of jobs of that second."""
REPORT: Final = f"{TOP}/top/default/common/reporting"
ANSWER_S_MAX: Final = 30.0
LOOK_S: Final = 0.25


class Run(Protocol):
    """A command on the host of the queue: its output. Raises LabError."""

    def __call__(self, *words: str, user: str = "root", given: str = "") -> str: ...


def missing() -> list[str]:
    """Packages that have to be installed."""
    return sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})


def make(shared: Path, master: str) -> None:
    """The files of a new cell, before a host sees them. `shared`: what hosts have at SHARED."""
    own = shared / "ge"
    for name in ("top/default/common", "spool", "qmaster", "execd-spool"):
        (own / name).mkdir(parents=True)
    for name in ("bin", "lib", "util", "utilbin"):
        (own / "top" / name).symlink_to(INSTALLED / name)
    bootstrap = (SHARE / "default-bootstrap").read_text(encoding="utf-8")
    values = {"admin_user": "root", "spooling_params": f"{TOP}/spool", "qmaster_spool_dir": f"{TOP}/qmaster"}
    values["binary_path"] = COMMANDS  # of the shepherd of each job
    (own / "top/default/common/bootstrap").write_text(changed(bootstrap, values))
    (own / "top/default/common/act_qmaster").write_text(f"{master}\n")
    exports = "".join(f"export {name}={value}\n" for name, value in ENVIRONMENT.items())
    (own / "execd").write_text(f"#!/bin/sh\n{exports}{START_EXECD}")
    (own / "execd").chmod(0o755)


def changed(text: str, values: Mapping[str, str]) -> str:
    """Lines of a name and a value with other values. Raises LabError."""
    for key, value in values.items():
        text, count = re.subn(rf"^{key}[ \t].*$", f"{key} {value}", text, flags=re.MULTILINE)
        if count != 1:
            raise LabError(f"Grid Engine has no {key}: another release than the lab's?")
    return text


class GridEngine:
    """`run`: on the host of the queue."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def begin(self, queues: Iterable[str] = (QUEUE,)) -> None:
        """The qmaster of a new cell, with queues of the hosts of one group, which has none. A host runs jobs of a
        queue if it has slots of its own there."""
        self._run(f"{SHARE}/scripts/init_cluster", f"{TOP}/top", "default", f"{TOP}/spool", "root")
        self.start_master()
        (master,) = self._run("cat", f"{TOP}/top/default/common/act_qmaster").split()
        self._run("qconf", "-as", master)
        self._change(("-sconf", "global"), "-Mconf", "global", self._configuration())
        self._change(("-ssconf",), "-Msconf", "scheduler", AT_ONCE)
        self._write("group", "group_name @allhosts\nhostlist NONE\n")
        self._run("qconf", "-Ahgrp", f"{TOP}/group")
        for queue in queues:
            self._add_queue(queue)

    def log_jobs(self) -> None:
        """From now on REPORT has a line for each change of a job, in the order in which the qmaster makes them."""
        params = REPORTING.replace("reporting=false", "reporting=true").replace("joblog=false", "joblog=true")
        self._change(("-sconf", "global"), "-Mconf", "global", {"reporting_params": params})

    def start_master(self) -> None:
        """Until it answers. Raises LabError."""
        self._run("sge_qmaster")
        self.await_that(self.answers, "the qmaster answers")

    def answers(self) -> bool:
        return bool(self._tried("qconf", "-sm"))

    def kill_master(self) -> None:
        self._run("sh", "-c", f"kill -9 $(cat {TOP}/qmaster/qmaster.pid)")

    def start_execd(self) -> None:
        """On the host of the queue; others are started by their agents."""
        self._run(EXECD)

    def register(self, names: Sequence[str], queue: str, slots: int) -> None:
        """Hosts of a queue, drained: what an administrator does by a script for many of them."""
        if not names:
            return
        for name in names:
            self._write(f"host-{name}", f"hostname {name}\n" + "".join(f"{each} NONE\n" for each in HOST))
        hosts = " ".join(names)
        numbers = ",".join(f"[{name}={slots}]" for name in names)
        script = (
            f"set -e; for name in {hosts}; do qconf -ah $name; qconf -as $name; qconf -Ae {TOP}/host-$name; done; "
            f"qconf -rattr queue slots '{numbers}' {queue}; "
            f"for name in {hosts}; do qconf -aattr hostgroup hostlist $name @allhosts; done; "
            f"for name in {hosts}; do qmod -d '*@'$name; done"
        )
        self._run("sh", "-c", script)

    def release(self, user: str) -> None:
        """All jobs of the user that were submitted with -h."""
        self._run("qrls", "-u", user)

    def submit(self, script: str, *options: str, user: str, queue: str = QUEUE) -> str:
        """The id of a new job."""
        words = ("qsub", "-terse", "-o", "/dev/null", "-j", "y", "-q", queue, *options)
        return self._run(*words, user=user, given=f"{script}\n").strip().partition(".")[0]

    def delete(self, *jobs: str) -> None:
        self._run("qdel", *jobs)

    def lines(self, *options: str) -> list[list[str]]:
        """Of qstat: the words of each job."""
        said = self._run("qstat", "-u", "*", *options)
        return [line.split() for line in said.splitlines()[2:]]

    def hosts(self) -> list[str]:
        """Execution hosts."""
        return self._tried("qconf", "-sel").split()

    def ended(self) -> list[dict[str, str]]:
        """What qacct says of each run of a job."""
        parts = self._tried("qacct", "-j").split("=" * 62)
        found = [dict(re.findall(r"^(\w+) +(.*?) *$", part, re.MULTILINE)) for part in parts]
        return [each for each in found if "jobnumber" in each]

    def seconds(self, told: str) -> float | None:
        """A time as qacct prints it, in UTC, as seconds since 1970; None: there is none."""
        try:
            return float(calendar.timegm(time.strptime(told, "%a %b %d %H:%M:%S %Y")))
        except ValueError:
            return None

    def await_that(self, condition: Callable[[], object], what: str, seconds: float = ANSWER_S_MAX) -> None:
        if not wait_until(condition, seconds, LOOK_S):
            raise LabError(f"It never happened within {seconds:g} s that {what}.")

    def _tried(self, *words: str) -> str:
        """Output, or "" if it fails."""
        try:
            return self._run(*words)
        except LabError:
            return ""

    def _configuration(self) -> dict[str, str]:
        return {
            "execd_spool_dir": f"{TOP}/execd-spool",
            "reporting_params": REPORTING,
            "load_report_time": "0:0:2",
            "max_unheard": "0:0:10",
        }

    def _change(self, show: tuple[str, ...], modify: str, name: str, values: Mapping[str, str]) -> None:
        self._write(name, changed(self._run("qconf", *show), values))
        self._run("env", "-C", TOP, "qconf", modify, name)

    def _add_queue(self, queue: str) -> None:
        """From the template that qconf offers to an editor."""
        text = self._run("sh", "-c", f"EDITOR=cat qconf -aq {queue} || true")
        values = dict(re.findall(r"^([a-z]\w*) +(\S.*)$", text, re.MULTILINE))
        if values.get("qname") != queue:
            raise LabError(f"qconf offers no queue: {text}")
        own = {"hostlist": "@allhosts", "slots": "0", "load_thresholds": "NONE", "pe_list": "NONE", "rerun": "FALSE"}
        self._write("queue", "".join(f"{key} {value}\n" for key, value in (values | own).items()))
        self._run("qconf", "-Aq", f"{TOP}/queue")

    def _write(self, name: str, text: str) -> None:
        self._run("sh", "-c", f"cat >{TOP}/{name}", given=text)
