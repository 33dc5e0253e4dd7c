"""Operators of tests: keys that ssh-keygen makes, and their signatures."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MEMBERS = "subord.members"


class Signers:
    """Keys in a directory, and an operators file."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.file = top / "allowed_signers"

    def keygen(self, *words: str, stdin: bytes = b"") -> bytes:
        ran = subprocess.run(["ssh-keygen", *words], input=stdin, cwd=self.top, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def key(self, name: str, kind: str = "ed25519", passphrase: str = "") -> Path:
        """The path of a key of this name, made when it is first asked for."""
        path = self.top / name
        if not path.exists():
            self.keygen("-q", "-t", kind, "-N", passphrase, "-f", name, "-C", f"{name}@tests")
        return path

    def public(self, name: str) -> str:
        return self.key(name).with_name(f"{name}.pub").read_text().strip()

    def fingerprint(self, name: str) -> str:
        self.key(name)
        return self.keygen("-l", "-f", f"{name}.pub").split()[1].decode()

    def write(self, *lines: str, mode: int = 0o644) -> Path:
        """The operators file with these lines; `{alice}` is alice's public key."""
        names = {word[1:-1] for line in lines for word in line.split() if word[:1] == "{" and word[-1:] == "}"}
        keys = {name: self.public(name) for name in names}
        text = "".join(f"{line}\n" for line in lines)
        for name, key in keys.items():
            text = text.replace(f"{{{name}}}", key)
        self.file.write_text(text)
        os.chmod(self.file, mode)
        return self.file

    def sign(self, name: str, content: bytes, namespace: str = MEMBERS, *options: str) -> bytes:
        self.key(name.removesuffix("-cert.pub"))
        more = [word for option in options for word in ("-O", option)]
        return self.keygen("-Y", "sign", "-f", name, "-n", namespace, *more, stdin=content)

    def program(self, text: str) -> str:
        """The path of a program that stands in for ssh-keygen."""
        path = self.top / "fake-ssh-keygen"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)
