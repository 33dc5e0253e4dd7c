"""Signs orders with the operator's own SSH key, by ssh-keygen.

Inputs are a content, its namespace and the option `--key`; output is the signature (SSHSIG), or a CommandError with
what to do. ssh-keygen itself asks for a passphrase, a PIN or a touch, on the terminal. Invariant: this process never
reads a private key.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Final

from subord.client import exit_codes
from subord.client.errors import CommandError, to_stderr
from subord.client.text import printable

SSH_KEYGEN: Final = "ssh-keygen"
KEY_VARIABLE: Final = "SUBORD_OPERATOR_KEY"
NAMES: Final = ("id_ed25519_sk", "id_ecdsa_sk", "id_ed25519", "id_ecdsa", "id_rsa")
"""In ~/.ssh, the first that exists: hardware keys first."""
INSTALL: Final = "ssh-keygen is missing: apt-get install openssh-client"
FOR_THE_OPERATOR: Final = ("presence", "touch", "PIN")
"""Words in lines of ssh-keygen that ask the operator for something."""
NO_KEY: Final = "Couldn't load public key"
"""ssh-keygen goes on with `No such file or directory`, though the file is there."""
NOISE: Final = "Signing data"
ADVICE: Final = (
    ("too open", "other users can read the key: `chmod 600` it"),
    ("agent refused", "the agent has the key and does not sign: was the touch or the confirmation missing?"),
    (
        "No private key found",
        "the agent does not hold this key: `ssh-add` adds it, `sudo --preserve-env=SSH_AUTH_SOCK` keeps the agent",
    ),
    ("incorrect passphrase", "the passphrase is wrong, or there is no terminal to ask for it"),
)
"""What to do, by words of ssh-keygen."""


def add_key_option(parser: argparse.ArgumentParser) -> None:
    """The option of a command that signs."""
    parser.add_argument(
        "--key",
        dest="operator_key",
        metavar="FILE",
        help=f"sign with this SSH key; of a .pub file ssh-agent signs (default: ${KEY_VARIABLE}, else the first of "
        f"{', '.join(NAMES)} in ~/.ssh)",
    )


def sign(content: bytes, namespace: str, arguments: argparse.Namespace) -> bytes:
    """The operator's signature. Raises CommandError: no key, or ssh-keygen did not sign."""
    key = key_of(arguments)
    command = [SSH_KEYGEN, "-Y", "sign", "-f", key, "-n", namespace]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603
    except FileNotFoundError:
        raise CommandError(f"{INSTALL}; nothing was signed", exit_codes.CONFIGURATION) from None
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        _write(process.stdin, content)
        complaint = list(_complaints(process.stderr))
        signature = process.stdout.read()
    if process.returncode or not signature:
        raise _failed(key, complaint)
    return signature


def key_of(arguments: argparse.Namespace) -> str:
    """The file of the key that signs. Raises CommandError if there is none."""
    given = arguments.operator_key or os.environ.get(KEY_VARIABLE)
    if given:
        if not os.path.exists(given):
            what = "--key" if arguments.operator_key else f"${KEY_VARIABLE}"
            raise CommandError(f"{what}: there is no file {given}; nothing was signed", exit_codes.USAGE)
        return str(given)
    folders = list(dict.fromkeys(_folders()))
    for path in candidates(folders):
        if os.path.exists(path):
            return path
    raise CommandError(
        f"no key to sign with: there is none of {', '.join(NAMES)} in {' and '.join(folders)}; name one with --key "
        f"or ${KEY_VARIABLE}, or make one with `ssh-keygen -t ed25519`; nothing was signed",
        exit_codes.PERMISSION,
    )


def candidates(folders: list[str]) -> Iterator[str]:
    """Where a key is looked for, in order. A public key alone is for the agent."""
    for folder in folders:
        for name in NAMES:
            yield os.path.join(folder, name)
            yield os.path.join(folder, f"{name}.pub")


def own_keys() -> list[str]:
    """The public keys of the operator that exist, for `subord operator who`."""
    given = os.environ.get(KEY_VARIABLE)
    paths = [path for path in candidates(list(_folders())) if path.endswith(".pub")]
    if given:
        paths.insert(0, given if given.endswith(".pub") else f"{given}.pub")
    return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def _folders() -> Iterator[str]:
    """Under sudo first that of the user that gave the command."""
    user = os.environ.get("SUDO_USER")
    if user:
        import pwd

        with suppress(KeyError):  # no user of this host
            yield os.path.join(pwd.getpwnam(user).pw_dir, ".ssh")
    yield os.path.join(os.path.expanduser("~"), ".ssh")


def _write(stdin: IO[bytes], content: bytes) -> None:
    with suppress(BrokenPipeError), stdin:  # it ended before; its exit code and its words tell why
        stdin.write(content)


def _complaints(stderr: IO[bytes]) -> Iterator[str]:
    """The lines of ssh-keygen; what asks the operator for something is passed on at once."""
    for raw in stderr:
        line = printable(raw.decode("utf-8", "replace").strip())
        if any(word in line for word in FOR_THE_OPERATOR):
            to_stderr(line)
        elif line and not line.startswith(NOISE):
            yield line


def _failed(key: str, complaint: list[str]) -> CommandError:
    said = " ".join(complaint)
    if NO_KEY in said:
        text = f"{key} is no SSH key, or one that is damaged or lacks its .pub file; nothing was changed"
        return CommandError(f"{text}: name another one with --key", exit_codes.USAGE)
    advice = next((text for words, text in ADVICE if words.lower() in said.lower()), "")
    what = f"{advice} ({complaint[-1]})" if advice else (said or "ssh-keygen gives no reason")
    return CommandError(f"{key} did not sign: {what[:400]}; nothing was changed", exit_codes.PERMISSION)
