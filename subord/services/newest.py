"""The newest document of a service that the agent of a node has accepted, on its disk.

Inputs are documents that the judge has accepted; output is whether one counts. Invariant: the daemon cannot bring an
earlier document into force again, unless the operator of the newer one was revoked; one of another cluster, which the
node has left, holds none back. All functions block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from subord.core.carriage.documents import Document, Documents
from subord.core.carriage.orders import Cluster
from subord.core.decoding import UNREADABLE
from subord.runtime.state.whole import write_whole
from subord.services.acting import Handed

FILE_NAME: Final = "plan.json"
FILE_BYTES_MAX: Final = 262_144
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class NotKeptError(Exception):
    """One sentence without a full stop: what is wrong, what was left unchanged, and what to do."""


class _Accepted(msgspec.Struct, frozen=True):
    document: Document
    principal: str
    fingerprint: str
    cluster: Cluster


def accepted(handed: Handed, directory: str, folder: str) -> bool:
    """Whether a document counts; then it is the newest on the disk. `directory`: of the agent. `folder`: of the
    service. Raises NotKeptError."""
    path = Path(directory) / folder / FILE_NAME
    try:
        _demand_own(directory)
        found = _read(path)
        if found is not None and _counts(found, handed.cluster, handed.is_revoked):
            if found.document.order == handed.document.order:
                return True
            if not Documents([found.document]).merge([handed.document]):
                return False
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = _Accepted(handed.document, handed.principal, handed.fingerprint, handed.cluster)
        write_whole(path, msgspec.json.encode(fresh))
    except OSError as error:
        raise NotKeptError(
            f"the document cannot be kept in {path}: {error.strerror or error}; nothing was changed: make "
            "room there, or correct agent.state_directory"
        ) from None
    return True


def held(directory: str, folder: str, cluster: Cluster, is_revoked: Callable[[str, str], bool]) -> Document | None:
    """The newest document that counts; None: there is none, or its operator was revoked. Raises NotKeptError."""
    path = Path(directory) / folder / FILE_NAME
    try:
        _demand_own(directory)
        found = _read(path)
    except OSError as error:
        raise NotKeptError(
            f"the document cannot be read from {path}: {error.strerror or error}; nothing was changed: correct "
            "agent.state_directory"
        ) from None
    return None if found is None or not _counts(found, cluster, is_revoked) else found.document


def _counts(found: _Accepted, cluster: Cluster, is_revoked: Callable[[str, str], bool]) -> bool:
    return found.cluster == cluster and not is_revoked(found.principal, found.fingerprint)


def _demand_own(directory: str) -> None:
    """Others could exchange the documents, and what services keep beside them. Raises NotKeptError, OSError."""
    status, own = os.stat(directory), os.geteuid()
    if status.st_uid != own or status.st_mode & WRITABLE_BY_OTHERS:
        what = f"user {status.st_uid} owns it, mode {stat.S_IMODE(status.st_mode):04o}"
        raise NotKeptError(f"{directory} does not count: {what}; nothing was changed: chown {own}, and chmod 700")


def _read(path: Path) -> _Accepted | None:
    """None: there is none. One that is damaged counts as none: what it would refuse is signed as well."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=_Accepted)
    except FileNotFoundError:
        return None
    except UNREADABLE:
        return None
