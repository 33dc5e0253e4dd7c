"""Lives of processes that decide on this node, on its disk: each is above all earlier ones, and there is one at once.

Inputs are the directory of the agent, the version of a plan, and the time; output is a life. Invariants: of two
processes of this node that decide at the same time, the second one does not begin; a life that was given is on the
disk before it is used. All functions block.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from subord.core.decoding import UNREADABLE
from subord.runtime.state.whole import write_whole

FOLDER: Final = "machines"
FILE_NAME: Final = "life.json"
LOCK_NAME: Final = "deciding.lock"
FILE_BYTES_MAX: Final = 4096


class LivesError(Exception):
    """One sentence without a full stop: what is wrong, what was left unchanged, and what to do."""


class Life(NamedTuple):
    """`is_alone`: the process before it was on this node, and has ended."""

    life: int
    is_alone: bool


class _Last(msgspec.Struct, frozen=True):
    version: int
    life: int


class Lives:
    """Held as long as it is open. Raises LivesError."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / FOLDER / FILE_NAME
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self._path.parent / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unkept(error) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise LivesError(
                "another process of this node decides about machines; nothing is done here: end the second agent"
            ) from None

    def close(self) -> None:
        os.close(self._lock)

    def begin(self, version: int, now: float) -> Life:
        """`version`: of the plan. Under another version another node may have decided. Raises LivesError."""
        try:
            last = self._read()
            life = max(int(now * 1000), last.life + 1)
            write_whole(self._path, msgspec.json.encode(_Last(version, life)))
        except OSError as error:
            raise self._unkept(error) from None
        return Life(life, is_alone=last.version == version)

    def _read(self) -> _Last:
        """A damaged file is as good as none: the time is above earlier lives, unless the clock was set back."""
        try:
            with self._path.open("rb") as file:
                return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=_Last)
        except FileNotFoundError:
            return _Last(0, 0)
        except UNREADABLE:
            return _Last(0, 0)

    def _unkept(self, error: OSError) -> LivesError:
        return LivesError(
            f"{self._path} cannot be kept: {error.strerror or error}; make room there, or correct "
            "agent.state_directory"
        )
