"""The key ring on disk.

Input are paths; output are key rings, or one sentence for the operator. A file that other users can read is refused.
Files are replaced as a whole. The operator's file is never written; the daemon's own, in the state directory, keeps
what came by rotation, and the operator's ring of that time (rotation.at_start).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from subord.sealing.keys import Keyring, KeyringError, parse, text_of

FILE_BYTES_MAX = 65536
MODE = 0o600
SINCE = "# since "
RING = "key ring"
IF_NO_RING = "copy it from another node, or make the first one with `subord key generate`"


class Kept(NamedTuple):
    """What came by rotation. `since`: fingerprint of the operator's ring at that time."""

    ring: Keyring
    since: str


def read(path: str) -> Keyring:
    """The operator's ring. Raises KeyringError: one sentence with the file, the fault, and the remedy."""
    return _parsed(path, secret(path, RING, IF_NO_RING))


def read_kept(path: str) -> Kept | None:
    """The daemon's own ring; None: no file. Raises KeyringError."""
    if not os.path.lexists(path):
        return None
    text = secret(path, RING, IF_NO_RING)
    first = text.partition("\n")[0]
    return Kept(_parsed(path, text), first.removeprefix(SINCE) if first.startswith(SINCE) else "")


def _parsed(path: str, text: str) -> Keyring:
    try:
        return parse(text)
    except KeyringError as error:
        raise KeyringError(f"{path}: {error}") from None


def secret(path: str, what: str, if_missing: str) -> str:
    """The text of a file that no other user may read. Raises KeyringError, which names the expected content `what`
    and, without a file, `if_missing`."""
    try:
        # Not blocking: the path may be a pipe.
        with open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            _check_permissions(path, what, status)
            text = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise KeyringError(f"{path}: there is no such file; {if_missing}") from None
    except OSError as error:
        raise KeyringError(f"{path}: {error.strerror}; it must be readable for the daemon's user") from None
    if len(text) > FILE_BYTES_MAX:
        raise KeyringError(f"{path}: larger than {FILE_BYTES_MAX} bytes, so this is no {what}")
    try:
        return text.decode("ascii")
    except UnicodeDecodeError:
        raise KeyringError(f"{path}: not plain text, so this is no {what}") from None


def _check_permissions(path: str, what: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyringError(f"{path}: not a regular file, so this is no {what}")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise KeyringError(f"{path}: mode {mode:04o} opens it to others; `chmod 600 {path}`, and change the key")
    if status.st_uid not in (0, os.geteuid()):
        raise KeyringError(
            f"{path}: belongs to user {status.st_uid}, which could read it; `chown` it to the daemon's user or root"
        )


def write_kept(path: str, kept: Kept) -> None:
    """Replace the daemon's own file in one step; blocks. Raises OSError; then the old file is untouched."""
    fresh = Path(f"{path}.new")
    fresh.unlink(missing_ok=True)  # of an interrupted attempt
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), MODE)  # whatever the umask
            file.write(f"{SINCE}{kept.since}\n{text_of(kept.ring)}")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
