"""The key ring on disk: read only when nobody else can, and replaced as a whole.

Intuition: a safe that refuses to open while its door has been left ajar: then the secret may be out already, and
whoever finds it open should hear that before the day begins, not after.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from subord.sealing.keys import Keyring, KeyringError, parse, text_of

FILE_BYTES_MAX = 65536
MODE = 0o600


def read(path: str) -> Keyring:
    """The ring in the file. Raises KeyringError: one sentence with the file, what is wrong, and what to do."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            _refuse_open_doors(path, about)
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeyringError(f"{path}: {error.strerror}; make it with `subord key generate > {path}`") from None
    if len(text) > FILE_BYTES_MAX:
        raise KeyringError(f"{path}: larger than {FILE_BYTES_MAX} bytes, so this is no key ring")
    try:
        return parse(text.decode("ascii"))
    except UnicodeDecodeError:
        raise KeyringError(f"{path}: not plain text, so this is no key ring") from None
    except KeyringError as error:
        raise KeyringError(f"{path}: {error}") from None


def _refuse_open_doors(path: str, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise KeyringError(f"{path}: not a regular file, so this is no key ring")
    mode = stat.S_IMODE(about.st_mode)
    if mode & 0o077:
        raise KeyringError(f"{path}: mode {mode:04o} opens it to others; `chmod 600 {path}`, and rotate the key")
    if about.st_uid not in (0, os.geteuid()):
        raise KeyringError(
            f"{path}: belongs to user {about.st_uid}, who could read it; `chown` it to ours or to root"
        )


def write(path: str, ring: Keyring) -> None:
    """Replace the file in one step. It blocks. Raises OSError; then the old file is untouched."""
    fresh = Path(f"{path}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), MODE)  # an earlier attempt may have left it with another
            file.write(text_of(ring))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
