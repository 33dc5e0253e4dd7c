"""What of a plan no node could carry out, before anything is changed. Pure.

Inputs are the users and mounts of a plan; outputs are sentences without a full stop. Invariant: what passes has no
two meanings, and hides none of the system's own directories.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from subord.services.elastic.plan import Mount, User

WHOLE: Final = ("/boot", "/dev", "/etc", "/proc", "/sys")
_OTHERS = ("bin", "lib", "lib32", "lib64", "root", "run", "sbin", "tmp", "usr", "var")
OWN: Final = frozenset((*WHOLE, *(f"/{name}" for name in _OTHERS)))
"""Of the system: nothing is mounted over them, and nothing below those of WHOLE."""


def faults(users: Iterable[User], mounts: Iterable[Mount]) -> Iterator[str]:
    yield from _of_users(list(users))
    yield from _of_mounts(list(mounts))


def _of_users(users: list[User]) -> Iterator[str]:
    for user in users:
        if not _is_plain(user.home):
            yield f"the home of {user.name}, {user.home}, is no plain path: write it without .., . and double /"
    yield from _twice("user", [(user.name, user.uid) for user in users], is_once=True)
    yield from _twice("group", [(user.group, user.gid) for user in users], is_once=False)


def _twice(kind: str, pairs: list[tuple[str, int]], *, is_once: bool) -> Iterator[str]:
    ids: dict[str, int] = {}
    names: dict[int, str] = {}
    for name, number in pairs:
        if is_once and name in ids:
            yield f"the plan has the {kind} {name} twice"
        elif ids.setdefault(name, number) != number:
            yield f"the plan has the {kind} {name} with the ids {ids[name]} and {number}"
        elif names.setdefault(number, name) != name:
            yield f"the plan gives the id {number} to the {kind}s {names[number]} and {name}"


def _of_mounts(mounts: list[Mount]) -> Iterator[str]:
    targets: set[str] = set()
    for mount in mounts:
        for path in (mount.source, mount.target):
            if not _is_plain(path):
                yield f"{path} is no plain path of a directory: write it without .., . and double /, and not / alone"
        if mount.target in OWN or mount.target.startswith(tuple(f"{each}/" for each in WHOLE)):
            yield f"nothing may be mounted on {mount.target}, which is the system's own"
        if mount.target in targets:
            yield f"the plan mounts two directories on {mount.target}"
        targets.add(mount.target)


def _is_plain(path: str) -> bool:
    return path == posixpath.normpath(path) and not path.startswith("//") and path != "/"
