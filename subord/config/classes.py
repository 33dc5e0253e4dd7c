"""Parses the keys of [shares]: which groups of processes belong to which class of work, and which queues they have.

In: texts such as `web=/apps/web-*` or `web=web.slice`. Out: entries with the pattern as a path below the root of the
cgroup hierarchy, or the reason why a text is none. Invariants: a path leads nowhere above that root; the groups are
all given as paths or all as slices, because the two are set in different ways.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from subord.config.source import quoted

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}")
"""Of a class."""
PATH_BYTES_MAX: Final = 1024
MOUNTED: Final = "/sys/fs/cgroup/"
"""Below it the kernel's hierarchies are mounted."""
SLICE: Final = ".slice"
_PART = r"[A-Za-z0-9:_.\\@*?]+"
_SLICE = re.compile(rf"{_PART}(-{_PART})*\.slice")


class ClassesError(ValueError):
    """What is wrong with a text, with its verb."""


class Entry(NamedTuple):
    """Groups of a class. `pattern`: of their paths. `is_slice`: systemd has made them."""

    name: str
    pattern: str
    is_slice: bool


def entries_of(texts: Iterable[str]) -> tuple[Entry, ...]:
    """The entries in their order; of several that match a group the first counts. Raises ClassesError."""
    named = [_named(text, "web=/apps/web-*") for text in texts]
    found = tuple(_entry(*each) for each in named)
    if len({each.is_slice for each in found}) > 1:
        raise ClassesError("must be all paths or all slices: a path is set by its file, a slice by systemd")
    first: dict[str, str] = {}
    for entry, (_, text) in zip(found, named, strict=True):
        if first.setdefault(entry.pattern, entry.name) != entry.name:
            other = f"{quoted(text)} for {entry.name}, which is for {first[entry.pattern]} already"
            raise ClassesError(f"has {other}: a group belongs to the first entry that matches it")
    return found


def queues_of(texts: Iterable[str], classes: Iterable[str]) -> dict[str, str]:
    """The path of the queue of each class that has one. Raises ClassesError."""
    found: dict[str, str] = {}
    known = set(classes)
    for text in texts:
        name, path = _named(text, "web=/run/web/queue")
        if not path.startswith("/") or "\0" in path:
            raise ClassesError(f"must name a file or a program by its whole path, not {quoted(path)}")
        if name not in known:
            raise ClassesError(f"has a queue for {name}, which is no class of shares.classes")
        if name in found:
            raise ClassesError(f"has two queues for {name}; give one, perhaps a program that adds them up")
        found[name] = path
    return found


def _named(text: str, example: str) -> tuple[str, str]:
    name, equals, rest = (each.strip() for each in text.partition("="))
    if not equals:
        raise ClassesError(f"must be CLASS=..., such as {quoted(example)}, not {quoted(text)}")
    if not NAME.fullmatch(name):
        rule = "small letters, digits, `_`, `.` and `-`, at most 32, a letter or digit first"
        raise ClassesError(f"has {quoted(name)}, which is no name of a class: {rule}")
    return name, rest


def _entry(name: str, text: str) -> Entry:
    if text.startswith("/"):
        return Entry(name, _path(text), is_slice=False)
    if not _SLICE.fullmatch(text) or ".." in text:
        raise ClassesError(
            f"has {quoted(text)} for {name}: write the path of a cgroup, such as `/apps/web-*`, or a slice of "
            "systemd, such as `web.slice`"
        )
    return Entry(name, path_of_slice(text), is_slice=True)


def _path(text: str) -> str:
    parts = text.removeprefix("/").removesuffix("/").split("/")
    if not set(parts).isdisjoint(("", ".", "..", "**")) or len(text.encode()) > PATH_BYTES_MAX or "\0" in text:
        raise ClassesError(
            f"has {quoted(text)}, which is no path of a cgroup: it begins with / at the root of the hierarchy, and "
            "has no empty part, `.`, `..` or `**`"
        )
    if text.startswith(MOUNTED):
        raise ClassesError(
            f"has {quoted(text)}, a path of the file system: write the path below the hierarchy, as "
            "/proc/PID/cgroup shows it"
        )
    return "/" + "/".join(parts)


def path_of_slice(name: str) -> str:
    """`/a.slice/a-b.slice` of `a-b.slice`: each dash is a level (systemd.slice(5)). Patterns stay patterns."""
    parts = name.removesuffix(SLICE).split("-")
    return "".join(f"/{'-'.join(parts[: count + 1])}{SLICE}" for count in range(len(parts)))
