"""Whether the agent may do what a step needs: it may run without root, or in a unit that forbids it.

Input is what is needed; output is a sentence, "" if nothing is lacking. Nothing is changed to find out. Mounts that a
process makes in a name space of its own, as systemd gives to a unit with protected directories, would be seen by that
process alone: neither users nor the batch daemon would have them. Such a name space gets new mounts of the machine,
so its root is a "slave" in mountinfo; one that was made for a whole container is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import Enum
from typing import Final

from subord.services.elastic.preparing.faults import DROP_IN, PreparingError, words_of


class Need(Enum):
    """With what the agent is not allowed."""

    ACCOUNTS = "make users and groups"
    MOUNTS = "mount directories"
    EXPORTS = "export directories"
    DAEMON = "start and stop the batch daemon"


CAPABILITIES: Final = {
    Need.ACCOUNTS: {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1},
    Need.MOUNTS: {"CAP_SYS_ADMIN": 21},
}
DIRECTORIES: Final = {Need.ACCOUNTS: ("/etc",), Need.EXPORTS: ("/etc", "/var/lib/nfs")}


def lacking(needs: Iterable[Need], proc: str = "/proc", root: str = "") -> str:
    """Blocks, but not for long. `root`: below which the directories of the machine are."""
    for need in needs:
        if os.geteuid() != 0:
            return (
                f"the agent of this node runs as user {os.geteuid()}, which cannot {need.value}; nothing was "
                "changed: run it as root, as subord-agent.service does"
            )
        if why := _missing(need, proc) or _protected(need, root) or _hidden(need, proc):
            return f"the unit of the agent does not let it {need.value}: {why}; nothing was changed: {TO_DO}"
    return ""


TO_DO: Final = f"install {DROP_IN} as a drop-in of subord-agent.service (docs/elastic.md)"


def of_read_only(error: OSError, what: str) -> PreparingError:
    """For an error that `lacking` could not foresee."""
    return PreparingError(f"{what}: {words_of(error)}; if the unit of the agent forbids it, {TO_DO}")


def _missing(need: Need, proc: str) -> str:
    held = _capabilities(proc)
    names = [name for name, number in CAPABILITIES.get(need, {}).items() if not held >> number & 1]
    return f"it has no {' and no '.join(names)}" if names else ""


def _capabilities(proc: str) -> int:
    for line in _lines(f"{proc}/self/status"):
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16)
    return -1  # not known: all, so that what is tried says what is missing


def _protected(need: Need, root: str) -> str:
    for path in DIRECTORIES.get(need, ()):
        if os.path.isdir(root + path) and not os.access(root + path, os.W_OK):
            return f"{path} is read-only for it"
    return ""


def _hidden(need: Need, proc: str) -> str:
    """The numbers of mounts differ between name spaces."""
    if need is not Need.MOUNTS:
        return ""
    own, first = _root(f"{proc}/self/mountinfo"), _root(f"{proc}/1/mountinfo")
    is_slave = any(word.startswith("master:") for word in own[6:])
    if is_slave and own[:1] != first[:1]:
        return "what it mounts would be seen by itself alone, as it has a name space of its own"
    return ""


def _root(path: str) -> list[str]:
    """The words of the root directory in a mountinfo, without those of its file system; []: it is hidden."""
    found = [words for words in map(str.split, _lines(path)) if words[4:5] == ["/"]]
    return found[-1][: found[-1].index("-")] if found else []


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
