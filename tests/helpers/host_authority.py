"""A site's authority for the identities of nodes, with the real ssh-keygen."""

from __future__ import annotations

import subprocess
from pathlib import Path

from subord.sealing.host_certificates import blob_in
from subord.sealing.openssh import public_line


class HostAuthority:
    """`ssh-keygen -s`: certificates for keys."""

    def __init__(self, folder: Path, *kind: str) -> None:
        """`kind`: options of ssh-keygen, default an ed25519 key."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.path = folder / "authority"
        keygen("-q", "-f", self.path, "-N", "", *(kind or ("-t", "ed25519")))
        self.line = Path(f"{self.path}.pub").read_text(encoding="utf-8")

    def certified(self, key: bytes, *options: str) -> str:
        """The text of a certificate; `options` as for `ssh-keygen -s CA -I x`."""
        public = self._folder / "node.pub"
        public.write_text(public_line(key, "node"), encoding="utf-8")
        keygen("-q", "-s", self.path, "-I", "node", *options, public)
        return (self._folder / "node-cert.pub").read_text(encoding="utf-8")

    def blob(self, key: bytes, *options: str) -> bytes:
        return blob_in(self.certified(key, *options))


def keygen(*arguments: object) -> str:
    command = ["ssh-keygen", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
