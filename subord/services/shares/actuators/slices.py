"""Weights of systemd's slices, set by `systemctl set-property --runtime`; read from the cgroups that systemd makes.

Values are those of CPUWeight= (systemd.resource-control(5)); "" is one that is not set. systemd sets what it has made
itself: it would overwrite a change of a file of its groups. Invariant: a value that systemd may have taken though
systemctl failed is asked for again before it counts.
"""

from __future__ import annotations

import os
from typing import Final

from subord.services.shares.actuators.faults import ActuatorError, NoControllerError, words_of
from subord.services.shares.actuators.files import read_at
from subord.services.shares.actuators.groups import Hierarchy
from subord.services.shares.actuators.mounts import places_of
from subord.services.shares.actuators.programs import ProgramError, run
from subord.services.shares.actuators.usage import Counters
from subord.services.shares.actuators.versions import First, Second, Version
from subord.services.shares.actuators.weights import WEIGHT

RUN_S_MAX: Final = 5.0
UNSET: Final = frozenset(("[not set]", str(2**64 - 1), ""))
"""What `systemctl show` prints for it; the number is that of older releases."""


class Slices:
    """The slices of one machine. The identity of each is its name: systemd keeps its properties while its cgroup goes
    and comes."""

    kind = "CPUWeight"
    scale = WEIGHT
    is_read_only = False  # systemd writes

    def __init__(self, version: Version, systemctl: str = "systemctl") -> None:
        self.top = version.top
        self.tasks = version.tasks
        self._version = version
        self._systemctl = systemctl
        self._known: dict[str, str] = {}

    def check(self) -> None:
        self._version.check()

    def identity(self, group: str) -> int:
        self._version.identity(group)
        return 0

    def value(self, group: str, identity: int) -> str:
        del identity
        if group not in self._known:
            found = self._run("show", "--property=CPUWeight", "--value", "--", _slice(group))
            self._known[group] = "" if found in UNSET else found
        return self._known[group]

    def put(self, group: str, identity: int, text: str) -> None:
        del identity
        self._known.pop(group, None)
        self._run("set-property", "--runtime", "--", _slice(group), f"CPUWeight={text}")
        self._known[group] = text

    def is_idle(self, group: str) -> bool:
        """systemd has a word for that, which can be kept and put back: `CPUWeight=idle`."""
        del group
        return False

    def counters(self, group: str) -> Counters:
        return self._version.counters(group)

    def quota(self, group: str) -> float:
        return self._version.quota(group)

    def _run(self, *words: str) -> str:
        """Raises OSError."""
        try:
            return run([self._systemctl, *words], RUN_S_MAX)
        except ProgramError as error:
            raise OSError(0, f"{os.path.basename(self._systemctl)} {words[0]} {error}") from None


def hierarchy_of(root: str, systemctl: str = "") -> Hierarchy:
    """What the kernel of this machine has; with `systemctl`, as slices. Raises ActuatorError."""
    try:
        places = places_of(read_at(None, f"{root}/proc/self/mountinfo"))
        version: Version = First(places, root) if places.version == 1 else Second(places, root)
        version.check()
    except NoControllerError as error:
        raise ActuatorError(f"{error}; nothing was changed") from None
    except OSError as error:
        raise ActuatorError(f"the mounted cgroups cannot be read: {words_of(error)}; nothing was changed") from None
    return Slices(version, systemctl) if systemctl else version


def _slice(group: str) -> str:
    return os.path.basename(group)
