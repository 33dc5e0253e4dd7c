"""Small disks for a test, in a process with mounts of its own: they fill up, and turn read-only, as real ones do."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x4000, 0x40000
PAGE: Final = 4096
KIB: Final = 1024
NOT_HERE: Final = 77
"""The exit code of a process that may not mount."""


def apart(test: Callable[..., None]) -> Callable[..., None]:
    """A test that runs in a child process, whose mounts end with it; skipped where a user cannot mount."""

    @pytest.mark.filterwarnings("ignore:This process")  # of fork beside threads
    @functools.wraps(test)
    def run(**given: Any) -> None:
        code, said = _in_child(lambda: test(**given))
        if code == NOT_HERE:
            pytest.skip(f"neither root nor user namespaces here: {said}")
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
    """A mount namespace for this process, and a user namespace if it needs one."""
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.geteuid(), os.getegid()
    flags = CLONE_NEWNS if user == 0 else CLONE_NEWNS | CLONE_NEWUSER
    if (
        libc.unshare(flags)
        or (user and _be_root(user, group))
        or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE)
    ):
        os.write(writer, os.strerror(ctypes.get_errno()).encode())
        return NOT_HERE
    return 0


def _be_root(user: int, group: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")


class Disk:
    """A file system of its own at a directory."""

    def __init__(self, path: Path, size_bytes: int, files_max: int = 1000) -> None:
        self.path = path
        self._ballast = path / "ballast"
        path.mkdir(exist_ok=True)
        _mount("-t", "tmpfs", "-o", f"size={size_bytes},nr_inodes={files_max},mode=0700", "tmpfs", path)

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
        _mount("-o", "remount,ro", self.path)

    def open(self) -> None:
        _mount("-o", "remount,rw", self.path)


def bind_read_only(path: Path, at: Path) -> None:
    """What is at a path of a disk, read-only at another one."""
    at.mkdir(exist_ok=True)
    _mount("--bind", path, at)
    _mount("-o", "remount,ro,bind", at)


def _mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True, timeout=60)
