"""A job that crosses: its key, what it needs, and how it ended.

Invariants: a key is never used twice, so what is known of a key is known for ever; what a user has written is
bounded.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final

import msgspec

SCRIPT_BYTES_MAX: Final = 256 * 1024
SPEC_BYTES_MAX: Final = 512 * 1024
"""Of all of a job together."""
WORDS_MAX, WORD_MAX, PATH_MAX = 1024, 16 * 1024, 1024
REASON_MAX: Final = 300
MARK: Final = "sb"
"""How the mark of each foreign job begins."""
LOGIN: Final = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
KILL: Final = 9
"""The signal that ends a job which was deleted."""
STATUS_MAX: Final = 255
SIGNAL_MAX: Final = 64
CLUSTER: Final = r"[a-z0-9][a-z0-9-]{0,31}"
NO_FILES: Final = "the other cluster takes no files of jobs, as its plan or its release says"
_MEMBER_BYTES, _SPARE_BYTES = 4096, 1 << 20
_MARK: Final = re.compile(rf"{MARK}\.({CLUSTER})\.([A-Za-z0-9]{{1,20}})\.(\d{{1,12}})\.(\d{{1,16}})", re.ASCII)

ClusterName = Annotated[str, msgspec.Meta(pattern=rf"^{CLUSTER}\Z")]
_JobId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]{1,20}\Z")]
_Task = Annotated[int, msgspec.Meta(ge=0, lt=10**12)]
_Attempt = Annotated[int, msgspec.Meta(ge=1, lt=10**16)]
_NO_NUL: Final = r"^[^\x00]*\Z"
"""No word of a command and no path has it, so that a job with it could not be submitted."""
_Word = Annotated[str, msgspec.Meta(max_length=WORD_MAX, pattern=_NO_NUL)]
Words = Annotated[tuple[_Word, ...], msgspec.Meta(max_length=WORDS_MAX)]
Pairs = Annotated[tuple[tuple[_Word, _Word], ...], msgspec.Meta(max_length=WORDS_MAX)]
Path = Annotated[str, msgspec.Meta(max_length=PATH_MAX, pattern=_NO_NUL)]
_Short = Annotated[str, msgspec.Meta(max_length=256, pattern=_NO_NUL)]


class Key(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Of one attempt to run a job abroad. `task`: of an array, 0: it is none. `attempt`: grows whenever the batch
    system at home starts the job anew; it is a time in milliseconds, so that it grows even if records are lost or
    numbers of jobs begin anew."""

    cluster: ClusterName
    job: _JobId
    task: _Task
    attempt: _Attempt

    @property
    def work(self) -> tuple[str, int]:
        """What all attempts have in common, in their cluster."""
        return self.job, self.task

    @property
    def mark(self) -> str:
        """What the job is called in the batch system abroad."""
        return f"{MARK}.{self.cluster}.{self.job}.{self.task}.{self.attempt}"


def archive_bytes_max(bytes_max: int, files_max: int) -> int:
    """Of so many files with so many bytes together, with their names."""
    return bytes_max + files_max * _MEMBER_BYTES + _SPARE_BYTES


def key_of(mark: str) -> Key | None:
    """None: it is not the mark of a foreign job."""
    found = _MARK.fullmatch(mark)
    if found is None or found[4].strip("0") == "":
        return None
    return Key(found[1], found[2], int(found[3]), int(found[4]))


class Wanted(StrEnum):
    """What the user, or the batch system at home, wants of a job."""

    RUN = "run"
    SUSPENDED = "suspended"
    DELETED = "deleted"
    """For ever."""


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """What a job brings along from its working directory. `name`: of the blob with the archive, in hexadecimal
    digits, "": it is not packed yet. `size`: of the archive in bytes. `count`: of files and directories."""

    name: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""
    size: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] = 0
    count: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] = 0


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What a job needs to run in another cluster.

    `user`: of the home cluster; the other side has a table of its own. `script`: its text, and `arguments` of it.
    `shell`: "": as the batch system has it. `output`, `errors`: paths as the user gave them, "": the default below
    `directory`. `requests`: those that have to be met, `wishes`: soft ones, both as name and value. `queue`: abroad,
    "": any. `parallel`: the name of a parallel environment, "": it needs `slots` 1. `first`, `last`, `step`: of the
    array whose task it is. `may_rerun`: the batch system abroad may start it again by itself. `files`: None: the job
    finds its files at the same paths there."""

    user: _Short
    name: _Short
    script: Annotated[str, msgspec.Meta(max_length=SCRIPT_BYTES_MAX)]
    arguments: Words = ()
    environment: Pairs = ()
    directory: Path = ""
    shell: Path = ""
    output: Path = ""
    errors: Path = ""
    is_merged: bool = False
    requests: Pairs = ()
    wishes: Pairs = ()
    queue: _Short = ""
    parallel: _Short = ""
    slots: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    project: _Short = ""
    first: _Task = 0
    last: _Task = 0
    step: _Task = 1
    may_rerun: bool = False
    files: Files | None = None

    @property
    def lacks_files(self) -> bool:
        """They are not packed yet."""
        return self.files is not None and not self.files.name


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """From the accounting abroad, whose clock gives the times, in seconds since 1970. None: it is not told."""

    host: _Short = ""
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    """The most that it had at a time."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended. `signal`: 0: it ended by itself with `status`. `failed`: what the batch system says of a job
    that it could not run to its end, "": nothing."""

    status: Annotated[int, msgspec.Meta(ge=0, le=STATUS_MAX)] = 0
    signal: Annotated[int, msgspec.Meta(ge=0, le=SIGNAL_MAX)] = 0
    failed: Annotated[str, msgspec.Meta(max_length=REASON_MAX)] = ""
    usage: Usage = Usage()
