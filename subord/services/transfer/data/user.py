"""What is done with the files of a user, as this user: listing, packing, unpacking and removing.

Inputs are names of users, directories and open files of the agent; outputs are values, or FilesError with the words
of the command. Invariants: no file of a user is opened, made or removed by the agent itself; a command has a time,
and what it writes has a size.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import BinaryIO, Final

from subord.services.batch.records import Refused, Unavailable
from subord.services.batch.running import Commands, Ran
from subord.services.transfer.cells.users import as_user, wrong_user
from subord.services.transfer.data.listing import (
    CHANGED,
    DENIED,
    DISK,
    FORMAT,
    LARGE,
    OTHER,
    WRONG,
    Entry,
    FilesError,
    entries_in,
    shown,
)

RUN_S_MAX: Final = 600.0
"""For each command, so a file server that hangs keeps no job for ever."""
RUNS_MAX: Final = 4
_LINE_BYTES: Final = 1024
_HOME: Final = 65
"""With which the script ends for a directory that is, or has, the home of the user."""
_LIST: Final = f"""\
cd -- "$1" || exit
own=$(pwd -P)
case $(cd 2>/dev/null && pwd -P)/ in "${{own%/}}"/*) exit {_HOME};; esac
shift
exec find "$@" -printf '{FORMAT}'
"""
_LIST_AWAY: Final = f"""\
cd -- "$1" && exec find . -printf '{FORMAT}'
"""
_TAR: Final = ("tar", "--file=-", "--quoting-style=escape")
_CREATE: Final = (
    "--create",
    "--format=posix",
    "--hard-dereference",
    "--numeric-owner",
    "--owner=0",
    "--group=0",
    "--no-recursion",
    "--null",
    "--files-from=/dev/fd/3",
)
_EXTRACT: Final = ("--extract", "--no-same-owner", "--no-overwrite-dir", "--keep-directory-symlink")
_PACK: Final = 'exec 3<&0 </dev/null; exec "$@"'
_MAKE: Final = """\
d=$1
shift
rm -rf -- "$d" && mkdir -m 0700 -- "$d" && cd -- "$d" && exec "$@"
"""
"""What a process that has died has left there is not the user's work: the job has not begun."""
_LINK: Final = 66
"""With which the script ends for a link."""
_FIND_LINK: Final = f"""\
cd -- "$1" || exit
xargs -0 -r sh -c 'for each do if test -L "$each"; then printf %s "$each"; exit 255; fi; done' sh
case $? in 0) ;; 124) exit {_LINK};; *) exit 1;; esac
"""
"""xargs ends with 124 when its command has ended with 255."""
_NO_SPACE: Final = ("No space left", "quota exceeded", "Wrote only")
"""The last one is what tar says of a disk that becomes full amid a file."""
_READ_ONLY: Final = "Read-only file system"
_NO_RIGHT: Final = ("Permission denied", "Operation not permitted", _READ_ONLY)
UNIT: Final = "if it can be written otherwise, name it in ReadWritePaths of subord-agent.service"
_GROWN: Final = ("file changed as we read it", "File removed before we read it", "shrank by")
_TOO_LARGE: Final = ("File too large", "File size limit exceeded")


class UserFiles:
    """`environment`: none but that of the commands. `uid_min`: the least number of a user."""

    def __init__(self, uid_min: int, commands: Commands | None = None) -> None:
        self._commands = commands or Commands({}, time_s=RUN_S_MAX, runs_max=RUNS_MAX)
        self._uid_min = uid_min

    async def demand_user(self, user: str) -> None:
        """Raises FilesError."""
        wrong = await wrong_user(self._commands, user, self._uid_min)
        if isinstance(wrong, Refused | Unavailable):
            raise FilesError(wrong.reason, DENIED)

    async def listed(self, user: str, directory: str, paths: Sequence[str], files_max: int) -> dict[bytes, Entry]:
        """What is below these paths of a working directory, or below all of it. Raises FilesError."""
        words = ("sh", "-c", _LIST, "sh", directory, *(paths or (".",)))
        home = await self._home(user)
        ran = await self._ran(*as_user(user, "env", f"HOME={home}", *words), bytes_max=_listing_max(files_max))
        if ran.code == _HOME:
            raise FilesError(
                "its working directory is the home of its user, or above it: submit it in a directory of its own",
                OTHER,
            )
        demand_success(ran, "find")
        return entries_in(ran.output)

    async def printed(self, user: str, directory: str, files_max: int) -> bytes:
        """What find prints of a working directory here. Raises FilesError."""
        words = ("sh", "-c", _LIST_AWAY, "sh", directory)
        ran = await self._ran(*as_user(user, *words), bytes_max=_listing_max(files_max))
        demand_success(ran, "find")
        return ran.output

    async def pack(self, user: str, directory: str, paths: Iterable[bytes], file: BinaryIO, bytes_max: int) -> None:
        """Exactly these paths. Raises FilesError."""
        given = b"".join(each + b"\0" for each in paths)
        words = ("sh", "-c", _PACK, "sh", *_TAR, f"--directory={directory}", *_CREATE)
        ran = await self._ran(*as_user(user, *_limited(bytes_max), *words), given=given, sink=file.fileno())
        demand_success(ran, "tar")

    async def demand_no_links(self, user: str, directory: str, paths: Iterable[bytes]) -> None:
        """What is there of these directories is no link, which could lead out of the working directory. Raises
        FilesError."""
        given = b"".join(each + b"\0" for each in sorted(paths))
        ran = await self._ran(*as_user(user, "sh", "-c", _FIND_LINK, "sh", directory), given=given)
        if ran.code == _LINK:
            raise FilesError(f"{shown(ran.output)} is a link there, and would get files: move it away", WRONG)
        demand_success(ran, "xargs")

    async def unpack(self, user: str, directory: str, file: BinaryIO, *, is_new: bool) -> None:
        """`is_new`: the directory is made, and what is at its place is removed before. Raises FilesError."""
        words: tuple[str, ...] = (*_TAR, *_EXTRACT)
        words = ("sh", "-c", _MAKE, "sh", directory, *words) if is_new else (*words, f"--directory={directory}")
        os.lseek(file.fileno(), 0, os.SEEK_SET)  # seek of a file that is in its buffer moves nothing
        demand_success(await self._ran(*as_user(user, *words), source=file.fileno()), "tar")

    async def remove(self, user: str, directory: str) -> None:
        """With all that is in it. Raises FilesError."""
        words = ("sh", "-c", 'chmod -R -- u+rwX "$1" 2>/dev/null; exec rm -rf -- "$1"', "sh", directory)
        demand_success(await self._ran(*as_user(user, *words)), "rm")

    async def _home(self, user: str) -> str:
        ran = await self._ran("getent", "passwd", user)
        fields = ran.text.strip().split(":")
        return fields[5] if len(fields) > 6 and fields[5].startswith("/") else "/"

    async def _ran(
        self,
        *words: str,
        given: bytes = b"",
        bytes_max: int = 64 << 10,
        source: int | None = None,
        sink: int | None = None,
    ) -> Ran:
        ran = await self._commands.run(*words, given=given, bytes_max=bytes_max, source=source, sink=sink)
        if isinstance(ran, Unavailable):
            raise FilesError(ran.reason, OTHER)
        return ran


def _limited(bytes_max: int) -> tuple[str, ...]:
    """What it writes, and nothing else: the file is that of the agent."""
    return ("prlimit", f"--fsize={bytes_max}", "--")


def _listing_max(files_max: int) -> int:
    return (files_max + 1) * _LINE_BYTES


def demand_success(ran: Ran, program: str) -> None:
    """Raises FilesError."""
    if ran.code == 0:
        return
    words = f"{ran.words}: {UNIT}" if _READ_ONLY in ran.words else ran.words
    for cause, signs in ((DISK, _NO_SPACE), (LARGE, _TOO_LARGE), (DENIED, _NO_RIGHT), (CHANGED, _GROWN)):
        if any(each.lower() in words.lower() for each in signs):
            raise FilesError(f"{program}: {words}", cause)
    raise FilesError(f"{program} has ended with {ran.code}: {words}", OTHER)
