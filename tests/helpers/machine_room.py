"""Several clean machines on one link, and an administrator with access to all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clean_machine import Machine, told

ADMIN = "admin"
SUDOERS = f"{ADMIN} ALL=(ALL) NOPASSWD: ALL\n"
SSH = "Host *\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"


def wire(machines: Sequence[Machine], addresses: Sequence[str]) -> None:
    """A bridge in the first machine and a cable from it to each other one, without access to other networks."""
    first = machines[0]
    first.run("ip", "link", "add", "wire", "type", "bridge")
    first.run("ip", "address", "add", f"{addresses[0]}/24", "dev", "wire")
    first.run("ip", "link", "set", "wire", "up")
    for number, (machine, address) in enumerate(zip(machines[1:], addresses[1:], strict=True), 2):
        port = f"port{number}"
        # A process of the namespace identifies it.
        enter = ["nsenter", "--target", first.first_process, "--net", "--"]
        told(
            *enter, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", machine.first_process
        )
        first.run("ip", "link", "set", port, "master", "wire", "up")
        machine.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")


def furnish(root: Path, keys: Path) -> None:
    """Add an administrator with all rights whose key opens all machines, before the machine boots."""
    told("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", ADMIN)
    (root / "etc/sudoers.d/admin").write_text(SUDOERS, encoding="ascii")
    home = root / "home" / ADMIN
    folder = home / ".ssh"
    folder.mkdir(mode=0o700)
    for name, content in (
        ("id_ed25519", (keys / "id").read_bytes()),
        ("id_ed25519.pub", (keys / "id.pub").read_bytes()),
        ("authorized_keys", (keys / "id.pub").read_bytes()),
        ("config", SSH.encode()),
    ):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    told("chroot", root, "chown", "--recursive", f"{ADMIN}:", f"/home/{ADMIN}")


def typed(machine: Machine, script: str, folder: str, *, check: bool = True) -> str:
    """The output of a script of the administrator in that folder. With `check` every command must succeed."""
    words = ["runuser", "--user", ADMIN, "--", "env", f"HOME=/home/{ADMIN}", f"USER={ADMIN}", "LC_ALL=C.UTF-8"]
    typing = f"cd {folder}\n{script}"
    ran = machine.run(*words, "bash", "-euo", "pipefail", "-c", typing, check=check)
    return ran.stdout if check else ran.stdout + ran.stderr
