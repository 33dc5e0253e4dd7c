"""Peers that run commands and copy files over ssh: clush, pdsh and rsync, with one sshd on each node.

Each sshd has a /srv and a /run of its own, takes the key of the lab's operator, and asks nothing else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.peers.programs import NodePrograms, version_of
from netlab.services.console import Console

FANOUT = 64
PACKAGES = {
    "clush": "clustershell",
    "pdsh": "pdsh",
    "sshd": "openssh-server",
    "rsync": "rsync",
    "serf": "serf",
    "gmond": "ganglia-monitor",
    "gmetad": "gmetad",
}
"""Program -> its package in Debian."""
SBIN = "/usr/sbin"  # where sshd is, and not in the path of each user
LISTENING = "Server listening on 0.0.0.0 port 22."
LISTEN_S_MAX = 120.0
SERVER = """\
ListenAddress 0.0.0.0
HostKey {directory}/host
PidFile none
AuthorizedKeysFile {directory}/operator.pub
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
Subsystem sftp internal-sftp
"""
CLIENT = """\
Host *
IdentityFile {key}
IdentitiesOnly yes
PreferredAuthentications publickey
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""
SETTINGS = f"one sshd on each node, an Ed25519 key, fan-out {FANOUT}"


def where(program: str) -> str | None:
    return shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", os.defpath), SBIN)))


def absent(programs: Sequence[str]) -> list[str]:
    """The packages of those that are not installed."""
    return [PACKAGES[program] for program in programs if where(program) is None]


def missing_packages(peers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Why peers are left out: by name, with what has to be installed, or that this user cannot start sshd."""
    lacking = {name: absent(programs) for name, programs in peers.items()}
    found = {name: f"apt-get install {' '.join(packages)}" for name, packages in lacking.items() if packages}
    if os.geteuid():
        found |= {name: "sshd needs root" for name, programs in peers.items() if "sshd" in programs}
    return found


class Ssh:
    """The servers of a lab, and the commands of the peers. `folders`: position -> its /srv."""

    def __init__(self, lab: Lab, programs: NodePrograms) -> None:
        self._lab = lab
        self._programs = programs
        self._directory = programs.directory
        self._client = self._directory / "client.conf"
        self.console = Console(lab, lab.positions[-2], {"PDSH_SSH_ARGS_APPEND": f"-F {self._client}"})
        self.addresses = [lab.address(each) for each in lab.positions]

    def start(self) -> None:
        """Until all servers listen. Raises LabError."""
        directory, key = self._directory, self._lab.directory.operator_key
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / "host")], check=True)
        (directory / "server.conf").write_text(SERVER.format(directory=directory))
        self._client.write_text(CLIENT.format(key=key))
        shutil.copy(key.with_suffix(".pub"), directory / "operator.pub")
        sshd = where("sshd")
        assert sshd is not None
        for position in self._lab.positions:
            run = directory / f"run-{position}"
            (run / "sshd").mkdir(parents=True)
            folders = {"/run": run, "/srv": self.srv(position)}
            command = (sshd, "-D", "-e", "-f", str(directory / "server.conf"))
            self._programs.start(position, "sshd", *command, folders=folders)
        listening: set[int] = set()

        def all_listen() -> bool:
            listening.update(each for each, line in self._programs.lines("sshd") if LISTENING in line)
            return len(listening) == len(self._lab.positions) and bool(self._programs.live())

        if not wait_until(all_listen, LISTEN_S_MAX, 0.05):
            raise LabError(f"Only {len(listening)} sshd listen after {LISTEN_S_MAX:g} s.")

    def srv(self, position: int) -> Path:
        return self._directory / f"srv-{position}"

    def execute(self, name: str, *words: str, fanout: int = FANOUT) -> tuple[str, ...]:
        """Of clush or pdsh: a command on all nodes."""
        to = ("-f", str(fanout), "-w", ",".join(self.addresses))
        if name == "pdsh":
            return ("pdsh", "-R", "ssh", "-S", "-b", *to, *words)
        return ("clush", "-S", "-o", f"-F {self._client}", *to, *words)

    def copy(self, name: str, file: Path) -> tuple[str, ...]:
        """Of clush or rsync: a file to /srv of all nodes."""
        if name == "clush":
            return (*self.execute(name), "--copy", str(file), "--dest", "/srv/")
        to = self._directory / "addresses"
        to.write_text("".join(f"{address}\n" for address in self.addresses))
        line = f"xargs -a {to} -P {FANOUT} -I@ rsync -e 'ssh -F {self._client}' {file} @:/srv/"
        return ("sh", "-c", line)


def version(name: str) -> str:
    """Of a peer, as it says itself."""
    return version_of(name, *{"clush": ("--version",), "pdsh": ("-V",), "rsync": ("--version",)}[name])
