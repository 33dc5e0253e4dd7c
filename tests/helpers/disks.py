"""Small disks for a test, in a process with mounts of its own: they fill up, and turn read-only, as real ones do."""

from __future__ import annotations

import ctypes
import functools
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from skips import RIGHTS

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 0x2
PAGE: Final = 4096
KIB: Final = 1024
NOT_HERE: Final = 77
"""The exit code of a process that may not mount."""


def apart(test: Callable[..., None]) -> Callable[..., None]:
    """A test that runs in a child process, whose mounts end with it; skipped where a user cannot mount,
    but not in CI."""

    @pytest.mark.filterwarnings("ignore:This process")  # of fork beside threads
    @functools.wraps(test)
    def run(**given: Any) -> None:
        code, said = _in_child(lambda: test(**given))
        if code == NOT_HERE:
            pytest.skip(f"{RIGHTS}: {said}")
        assert code == 0, said

    return run


def _in_child(work: Callable[[], None]) -> tuple[int, str]:
    """The exit code, and the error if there is one."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            code = _enter(writer) or _done(work, writer)
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader, encoding="utf-8") as file:
        said = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def _done(work: Callable[[], None], writer: int) -> int:
    try:
        work()
    except BaseException:  # noqa: ASYNC103 - the parent raises it
        os.write(writer, traceback.format_exc().encode())
        return 1
    return 0


def _enter(writer: int) -> int:
    """A mount namespace for this process, and a user namespace, in which it has the same name, if it needs one."""
    user, group = os.geteuid(), os.getegid()
    try:
        _called("unshare", CLONE_NEWNS if user == 0 else CLONE_NEWNS | CLONE_NEWUSER)
        if user:
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                Path("/proc/self", name).write_text(text, encoding="ascii")
        _mount("none", Path("/"), MS_REC | MS_PRIVATE)
    except OSError as error:
        os.write(writer, str(error).encode())
        return NOT_HERE
    return 0


def _mount(source: Path | str, at: Path, flags: int, kind: str = "", options: str = "") -> None:
    """mount(2), because mount(8) wants the name of root."""
    words = [ctypes.c_char_p(os.fsencode(each)) for each in (source, at, kind)]
    _called("mount", *words, ctypes.c_ulong(flags), ctypes.c_char_p(options.encode()))


def _called(name: str, *words: object) -> None:
    """Raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*words):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


class Disk:
    """A file system of its own at a directory."""

    def __init__(self, path: Path, size_bytes: int, files_max: int = 1000) -> None:
        self.path = path
        self._ballast = path / "ballast"
        path.mkdir(exist_ok=True)
        self._options = f"size={size_bytes},nr_inodes={files_max},mode=0700"
        _mount("tmpfs", path, 0, "tmpfs", self._options)

    def fill(self, free_bytes: int = 0) -> None:
        """Leave so much room, in pages."""
        self.free()
        with self._ballast.open("wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, max(PAGE, self.free_bytes - free_bytes))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Nothing can be written any more."""
        _mount("none", self.path, MS_REMOUNT | MS_RDONLY, "tmpfs", self._options)

    def open(self) -> None:
        _mount("none", self.path, MS_REMOUNT, "tmpfs", self._options)

    def end(self) -> None:
        """The directory is as it was, also while a process has a file there open."""
        _called("umount2", ctypes.c_char_p(os.fsencode(self.path)), ctypes.c_int(MNT_DETACH))


def bind(path: Path, at: Path) -> None:
    """What is at a path, also at another one that exists."""
    _mount(path, at, MS_BIND)


def bind_read_only(path: Path, at: Path) -> None:
    """What is at a path of a disk, read-only at another one."""
    at.mkdir(exist_ok=True)
    _mount(path, at, MS_BIND)
    _mount("none", at, MS_REMOUNT | MS_BIND | MS_RDONLY)
