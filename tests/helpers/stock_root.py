"""A minimal Debian with only the packages that README requires, and commands run in it.

The root shares the network of this machine, because README's commands use a package index. Files, processes and
mounts are its own. Commands enter it by moving it over `/`, as a boot does, because a process in a plain chroot may
not create user namespaces (user_namespaces(7)).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
STEP_S_MAX = 900.0
ENTER = """
set -eu
cd "$1"
shift
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs tmpfs run
mount --move . /
exec chroot . "$@"
"""
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
OF_PIP = ("index-url", "cert", "proxy", "trusted-host")
"""What pip may have to be told before it reaches the package index of a site."""


def readme() -> tuple[list[str], list[str]]:
    """The Debian packages that README installs, and its first commands."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (packages,) = re.findall(r"`apt-get install ([\w .-]+)`", text)
    (block, *_) = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return packages.split(), [line.partition("#")[0].strip() for line in block.splitlines()]


class StockRoot:
    """`root` is its file system; `user` runs the commands: "root", or the name of a new user."""

    def __init__(self, root: Path, user: str) -> None:
        self._root = root
        self._user = user
        self._home = "/root" if user == "root" else f"/home/{user}"
        self._environment = {"HOME": self._home, "USER": user, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **self._pip()}
        (root / "etc/resolv.conf").write_bytes(Path("/etc/resolv.conf").read_bytes())
        if user != "root":
            self._run("useradd", "--create-home", user).check_returncode()

    def clone(self, folder: str) -> str:
        """Clone the committed tree into the user's home, without built programs; its path inside."""
        inside = f"{self._home}/{folder}/subord"
        command = ["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), f"{self._root}{inside}"]
        subprocess.run(command, check=True, timeout=STEP_S_MAX)
        self._run("chown", "--recursive", f"{self._user}:", self._home).check_returncode()
        return inside

    def typed(self, command: str, folder: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command in `folder`; standard output and error are one text."""
        become = [] if self._user == "root" else ["setpriv", "--reuid", self._user, "--regid", self._user]
        return self._run(*become, *(["--init-groups"] if become else []), "sh", "-c", f'cd "$0" && {command}', folder)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = [f"{name}={value}" for name, value in self._environment.items()]
        return subprocess.run(
            [*APART, "sh", "-c", ENTER, "sh", str(self._root), "env", "-i", *environment, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=STEP_S_MAX,
        )

    def _pip(self) -> dict[str, str]:
        """The variables that direct pip to the index of this machine; a certificate is copied into the root."""
        command = [sys.executable, "-m", "pip", "config", "list"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=STEP_S_MAX).stdout
        told = dict(re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
        if certificate := told.get("cert"):
            there = self._root / certificate.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(Path(certificate).read_bytes())
        proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        return proxies | {f"PIP_{name.upper().replace('-', '_')}": told[name] for name in OF_PIP if name in told}
