"""A booted machine with a cell of Grid Engine of its own, as Debian's packages make it.

The machine cannot reach a mirror, so it gets the files of the packages of this host, which has the same release.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from clean_machine import Machine, impossible, until
from weighed_machine import ENTER, is_gone

from subord.services.batch.gridengine.registration import HOST

PACKAGES = ("gridengine-client", "gridengine-common", "gridengine-exec", "gridengine-master")
TOP = "/var/lib/gridengine"
ENVIRONMENT = {"SGE_ROOT": TOP, "SGE_CELL": "default"}
PORTS = "sge_qmaster 6444/tcp\nsge_execd 6445/tcp\n"
LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/")
UNIFIED = "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1"
"""So that IPAddressDeny has an effect in the machine: systemd sets it in cgroup v2 alone."""
FIREWALL = ("--capability=CAP_BPF", "--system-call-filter=bpf")
"""Options of nspawn for the same."""
SEND = "import socket as s; u = s.socket(s.AF_INET, 2); u.bind(('127.0.0.1', 0)); u.sendto(b'', u.getsockname())"
_MAKE = """
useradd --system --home-dir $SGE_ROOT --shell /bin/false sgeadmin
own() { install -d -o sgeadmin -g sgeadmin "$@"; }
own $SGE_ROOT/default $SGE_ROOT/default/common
for each in qmaster qmaster/job_scripts spooldb execd; do own /var/spool/gridengine/$each; done
install -o sgeadmin -g sgeadmin -m 0644 /usr/share/gridengine/default-bootstrap $SGE_ROOT/default/common/bootstrap
install -m 0644 /usr/share/gridengine/templates/gridengine.default /etc/default/gridengine
echo "$1" | install -o sgeadmin -g sgeadmin -m 0644 /dev/stdin $SGE_ROOT/default/common/act_qmaster
cd /usr/share/gridengine/scripts
runuser -u sgeadmin -- ./init_cluster $SGE_ROOT default /var/spool/gridengine/spooldb sgeadmin
"""
_BEGIN = """
qconf -as "$1"
cd /tmp
{ echo "hostname $1"; for each in $3; do echo "$each NONE"; done; } >host
qconf -Ae host
{ EDITOR=cat qconf -aq all.q || true; } | grep -E '^[a-z]' >queue
sed -i -E "s/^hostlist .*/hostlist $1/; s/^slots .*/slots $2/; s/^load_thresholds .*/load_thresholds NONE/" queue
sed -i -E 's/^pe_list .*/pe_list NONE/' queue
qconf -Aq queue
"""
"""The page has root as a manager, and the transfer host as an administrative and submit host of its cell."""


@contextmanager
def filtered(root: Path) -> Iterator[Machine]:
    """Booted from this root, with a group of cgroup v2 of its own: two machines in one group would have each other's
    filters."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    tops = {Path(words[4]): words[words.index("-") + 1] for words in mounts}
    unified = [top for top, kind in tops.items() if kind == "cgroup2"]
    if not unified:
        impossible("no cgroup v2 here, so IPAddressDeny has no effect in a machine")
    name = f"subord-{root.parent.parent.name}-{root.parent.name}"
    group = unified[0] / name
    group.mkdir()
    try:
        machine = Machine(root, ["sh", "-c", ENTER, "enter", str(group), "--", "env", UNIFIED], FIREWALL)
        try:
            yield machine
        finally:
            machine.close()
    finally:
        for top in (top for top, kind in tops.items() if kind.startswith("cgroup")):  # nspawn makes it elsewhere, too
            until(partial(is_gone, top / name), f"{top / name} is removed")


def missing() -> list[str]:
    """Packages that have to be installed on this host."""
    found = subprocess.run(["dpkg-query", "--list", *PACKAGES], capture_output=True, text=True, check=False).stdout
    there = {line.split()[1] for line in found.splitlines() if line.startswith("ii ")}
    return sorted(set(PACKAGES) - there)


def copy_programs(root: Path) -> None:
    """Before the machine boots: files of the packages, and the libraries that it lacks."""
    listed = subprocess.run(["dpkg-query", "--listfiles", *PACKAGES], capture_output=True, text=True, check=True)
    files = [Path(line) for line in set(listed.stdout.splitlines()) if line and not line.startswith(LEFT_OUT)]
    for each in [each for each in files if each.is_symlink() or each.is_file()]:
        _copy(each, root)
    programs = [each for each in files if each.parent == Path("/usr/lib/gridengine")]
    for library in _libraries(programs):
        if not (root / library.relative_to("/")).exists():
            _copy(library, root, follow=True)
    with (root / "etc/services").open("a") as file:
        file.write(PORTS)
    (root / "usr/bin/cpp").write_text("#!/bin/sh\n")  # asked for the word size of x86-64
    (root / "usr/bin/cpp").chmod(0o755)


def _copy(file: Path, root: Path, *, follow: bool = False) -> None:
    there = root / file.relative_to("/")
    if there.is_symlink() or there.exists():
        return
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, there, follow_symlinks=follow)


def _libraries(programs: list[Path]) -> Iterator[Path]:
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    for words in {tuple(line.split()) for line in said.splitlines()}:
        if words[1:2] == ("=>",) and words[2].startswith("/"):
            yield Path(words[2])


def name_hosts(machine: Machine, name: str, addresses: Mapping[str, str]) -> None:
    """`name`: of this machine."""
    lines = "127.0.0.1 localhost\n" + "".join(f"{address} {each}\n" for each, address in addresses.items())
    machine.run("sh", "-c", "cat >/etc/hosts", stdin=lines)
    machine.run("sh", "-c", f"hostname {name}; echo {name} >/etc/hostname")


def script(machine: Machine, text: str, *words: str) -> str:
    """The output of a script of root with the environment of the cell."""
    values = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
    return machine.asked("env", *values, "sh", "-euc", text, "sh", *words)


def make_cell(machine: Machine, name: str, slots: int) -> None:
    """With one host, which has the qmaster and runs jobs. `name`: of the host; `slots`: in all.q."""
    script(machine, _MAKE, name)
    machine.run("systemctl", "start", "gridengine-master")
    until(lambda: machine.run("qconf", "-sm", check=False).returncode == 0, "the qmaster answers")
    script(machine, _BEGIN, name, str(slots), " ".join(HOST))
    machine.run("systemctl", "start", "gridengine-exec")
