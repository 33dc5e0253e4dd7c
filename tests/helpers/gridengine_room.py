"""A real Grid Engine in a room of its own: a qmaster, an execution host, one queue, and a cell of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from batch_room import Room, furnished, need, sink, until

PROGRAMS: Final = {
    "sge_qmaster": "gridengine-master",
    "sge_execd": "gridengine-exec",
    "qsub": "gridengine-client",
    "qconf": "gridengine-client",
}
SHARE: Final = Path("/usr/share/gridengine")
INSTALLED: Final = Path("/var/lib/gridengine")
QUEUE: Final = "batch.q"
AT_ONCE: Final = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
"""Instead of every 15 s."""
HOST: Final = dict.fromkeys(
    (
        *("load_scaling", "complex_values", "user_lists", "xuser_lists", "projects", "xprojects", "usage_scaling"),
        "report_variables",
    ),
    "NONE",
)
PARALLEL: Final = "smp"


class GridEngine:
    def __init__(self, room: Room) -> None:
        self.room = room

    def submit(self, script: str, *options: str) -> str:
        """The id of a new job of ann."""
        words = ("qsub", "-terse", "-o", "/dev/null", "-j", "y", *options)
        said = self.room.run(*words, user="ann", given=f"{script}\n")
        return said.strip().partition(".")[0]

    def is_running(self, job: str) -> bool:
        return any(line.split()[:1] == [job] for line in self.room.run("qstat", "-s", "r", "-u", "*").splitlines())

    def states(self) -> str:
        """Of its queues."""
        return self.room.run("qstat", "-f", check=False)

    def told(self, number: int) -> list[dict[str, str]]:
        """What `qacct` says of all jobs, as soon as there are so many."""

        def entries() -> list[dict[str, str]]:
            parts = self.room.run("qacct", "-j", check=False).split("=" * 62)
            found = [dict(re.findall(r"^(\w+) +(.*?) *$", part, re.MULTILINE)) for part in parts]
            return [each for each in found if "jobnumber" in each]  # the last part has sums

        until(lambda: len(entries()) >= number, lambda: f"{number} jobs: {entries()}")
        return entries()

    def change(self, show: str, modify: str, name: str, values: dict[str, str]) -> None:
        """Change values of what one option of qconf shows, and another one reads from a file."""
        text = self.room.run("qconf", show, *([name] if name == "global" else []))
        for key, value in values.items():
            text, count = re.subn(rf"^{key} .*$", f"{key} {value}", text, flags=re.MULTILINE)
            assert count == 1, f"{key}: {text}"
        self.room.run("env", "-C", self.room.folder / "ge", "qconf", modify, self.room.write(f"ge/{name}", text).name)


@contextmanager
def running(command: str) -> Iterator[GridEngine]:
    """With a queue whose epilog an administrator has set by this command, and a sink beside it."""
    need(PROGRAMS)
    with furnished() as room, sink(room):
        engine = mastered(room)
        own = room.folder / "ge"
        add(room, "-Ae", "host", {"hostname": "head"} | HOST)
        room.run("qconf", "-Ap", SHARE / "util/resources/pe" / PARALLEL)
        add_queue(room, QUEUE, hostlist="head", slots="4")
        room.epilog("gridengine", "ge/epilog")
        name = "/etc/subord/epilog-gridengine"
        assert name in command
        room.run("sh", "-c", command.replace(name, f"{own}/epilog"))
        room.run("env", f"SGE_EXECD_PIDFILE={own}/execd.pid", "sge_execd")
        until(lambda: re.search(r"0/4 +[\d.]+ +lx-\w+ *$", engine.states(), re.MULTILINE), engine.states)
        yield engine


def mastered(room: Room) -> GridEngine:
    """A qmaster at `head`, without execution hosts and queues, that starts jobs at once."""
    engine = GridEngine(room)
    own = room.make("ge")
    _make_cell(room)
    room.run("env", f"SGE_MASTER_PIDFILE={own}/qmaster.pid", "sge_qmaster")
    until(lambda: room.run("qconf", "-sm", check=False), lambda: "the qmaster answers")
    room.run("qconf", "-as", "head")
    flush = "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00"
    values = {"execd_spool_dir": str(room.make("ge/execd")), "reporting_params": flush, "load_report_time": "0:0:2"}
    engine.change("-sconf", "-Mconf", "global", values)
    engine.change("-ssconf", "-Msconf", "scheduler", AT_ONCE | {"reprioritize_interval": "0:0:0"})
    return engine


def _make_cell(room: Room) -> None:
    """The programs are those of the packages; all files are of this cell."""
    own = room.folder / "ge"
    for name in ("top/default/common", "spool", "qmaster"):
        room.make(f"ge/{name}")
    for name in ("bin", "lib", "util", "utilbin"):
        (own / "top" / name).symlink_to(INSTALLED / name)
    text = (SHARE / "default-bootstrap").read_text(encoding="utf-8")
    for key, value in (
        ("admin_user", "root"),
        ("spooling_params", own / "spool"),
        ("qmaster_spool_dir", own / "qmaster"),
        ("binary_path", "/usr/lib/gridengine"),  # of the shepherd of each job: without Debian's wrapper around it
    ):
        text, count = re.subn(rf"^{key} .*$", f"{key} {value}", text, flags=re.MULTILINE)
        assert count == 1, text
    room.write("ge/top/default/common/bootstrap", text)
    room.write("ge/top/default/common/act_qmaster", "head\n")
    room.environment |= {"SGE_ROOT": str(own / "top"), "SGE_CELL": "default"}
    room.environment |= {"SGE_QMASTER_PORT": "6444", "SGE_EXECD_PORT": "6445"}
    room.run(SHARE / "scripts/init_cluster", own / "top", "default", own / "spool", "root")


def add(room: Room, option: str, name: str, values: dict[str, str]) -> None:
    text = "".join(f"{key} {value}\n" for key, value in values.items())
    room.run("qconf", option, room.write(f"ge/{name}", text))


def add_queue(room: Room, name: str, **changed: str) -> None:
    """From the template that qconf offers to an editor."""
    text = room.run("env", "EDITOR=cat", "qconf", "-aq", name, check=False)
    values = dict(re.findall(r"^(\w+) +(\S.*)$", text, re.MULTILINE))
    assert values.get("qname") == name, text
    changed = {"pe_list": PARALLEL, "load_thresholds": "NONE"} | changed
    add(room, "-Aq", name, {key: value for key, value in values.items() if key.islower()} | changed)
