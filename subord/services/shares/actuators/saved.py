"""The weights from before the first change, on disk: what is put back after a stop or a crash of the agent.

Inputs are groups with their values; the file in the agent's state directory is replaced whole, and on the disk,
before any of these groups is changed. Invariant: the value of a group that is there is never replaced by a later one,
which may be of the agent itself. After a new start of the machine no group of the file is there any more. All methods
block.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from subord.core.decoding import UNREADABLE
from subord.runtime.state.whole import write_whole
from subord.services.shares.actuators.faults import ActuatorError
from subord.services.shares.actuators.files import read_at

FOLDER: Final = "shares"
FILE_NAME: Final = "before.json"
FORMAT: Final = 1
FILE_BYTES_MAX: Final = 4 << 20
BOOT: Final = "/proc/sys/kernel/random/boot_id"


class Before(msgspec.Struct, frozen=True):
    """The weight of a group, as text for the kernel or systemd."""

    path: str
    identity: int
    value: str


class _File(msgspec.Struct, frozen=True):
    format: int
    kind: str
    boot: str
    groups: tuple[Before, ...]


class Saved:
    """The file in one state directory. `kind`: the hierarchy that it is of; "": there is no file."""

    def __init__(self, directory: str, root: str = "") -> None:
        """Raises ActuatorError."""
        self._path = Path(directory) / FOLDER / FILE_NAME
        self._boot = _boot_of(root)
        self._groups: dict[str, Before] = {}
        self.kind = ""
        if (found := self._read()) is not None:
            self.is_of_this_start = found.boot == self._boot
            self.kind = found.kind
            self._groups = {each.path: each for each in found.groups}
        else:
            self.is_of_this_start = True

    @property
    def groups(self) -> tuple[Before, ...]:
        return tuple(self._groups.values())

    def before(self, path: str, identity: int) -> str | None:
        """The value of a group from before; None: none is kept of it."""
        kept = self._groups.get(path)
        return kept.value if kept is not None and kept.identity == identity else None

    def add(self, kind: str, groups: Iterable[Before]) -> None:
        """On the disk when this returns. Raises ActuatorError: nothing may be changed."""
        fresh = {each.path: each for each in groups if self.before(each.path, each.identity) is None}
        if fresh:
            self._write(kind, {**self._groups, **fresh})

    def keep_only(self, groups: Iterable[Before]) -> None:
        """The others were put back, or are gone. Raises ActuatorError: the file is as before."""
        kept = {each.path: each for each in groups}
        if kept == self._groups:
            return
        if kept:
            self._write(self.kind, kept)
            return
        try:
            with suppress(FileNotFoundError):
                self._path.unlink()
            _sync(self._path.parent)
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from None
        self._groups, self.kind = {}, ""

    def _read(self) -> _File | None:
        try:
            with self._path.open("rb") as file:
                found = msgspec.json.decode(file.read(FILE_BYTES_MAX), type=_File)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from None
        except UNREADABLE as error:
            raise self._damaged(str(error)) from None
        if found.format != FORMAT or any(_is_odd(each.path) for each in found.groups):
            raise self._damaged(
                "it is of another release" if found.format != FORMAT else "a path of it is no group's"
            )
        return found

    def _write(self, kind: str, groups: dict[str, Before]) -> None:
        content = msgspec.json.encode(_File(FORMAT, kind, self._boot, tuple(groups.values())))
        if len(content) > FILE_BYTES_MAX:
            raise self._failed("they are of too many groups")
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(self._path, content)
            _sync(self._path.parent)
            _sync(self._path.parent.parent)
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from None
        self._groups, self.kind, self.is_of_this_start = groups, kind, True

    def _failed(self, reason: str) -> ActuatorError:
        return ActuatorError(f"the weights from before cannot be kept in {self._path}: {reason}; nothing was changed")

    def _damaged(self, reason: str) -> ActuatorError:
        return ActuatorError(
            f"{self._path} cannot be used: {reason}; nothing was changed: check the weights of the groups, and "
            "delete the file"
        )


def _is_odd(path: str) -> bool:
    return not path.startswith("/") or ".." in path.split("/") or "\0" in path


def _boot_of(root: str) -> str:
    """Differs after each start of the machine. "": it is hidden here."""
    try:
        return read_at(None, root + BOOT).strip()
    except OSError:
        return ""


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
