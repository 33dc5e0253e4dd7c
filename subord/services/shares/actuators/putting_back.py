"""Puts back the weights from before, of this process or of an earlier one.

Inputs are saved values (saved.py) and the hierarchy that they are of; outputs are notes about groups that are gone.
Invariant: a value is forgotten only after it was put back, or when its group is gone. All functions block.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from contextlib import suppress

from subord.services.shares.actuators.faults import ActuatorError, is_gone, words_of
from subord.services.shares.actuators.groups import Hierarchy
from subord.services.shares.actuators.saved import Before, Saved
from subord.services.shares.actuators.slices import Slices, hierarchy_of

Notes = tuple[str, ...]
"""Texts about what is odd but hinders nothing."""


def give_back(saved: Saved, hierarchy: Hierarchy, groups: Iterable[Before], notes: list[str]) -> None:
    """Put back the values of some groups, and forget them. One that is gone is said. Raises ActuatorError."""
    left, faults = {each.path: each for each in saved.groups}, []
    for group in groups:
        try:
            if not saved.is_of_this_start:
                raise FileNotFoundError(errno.ENOENT, "the machine was started anew")
            hierarchy.put(group.path, group.identity, group.value)
        except OSError as error:
            if not is_gone(error) and not has(hierarchy, group.path, group.identity, group.value):
                faults.append(
                    f"{hierarchy.kind} of {group.path} cannot be put back to {group.value}: {words_of(error)}"
                )
                continue
            if is_gone(error):
                notes.append(gone(group.path))
        del left[group.path]
    saved.keep_only(left.values())
    if faults:
        raise ActuatorError(f"{'; '.join(faults)}; it is tried again at the next start of the agent")


def recover(directory: str, root: str = "", systemctl: str = "systemctl") -> Notes:
    """Put back what an earlier process of the agent has left. Raises ActuatorError."""
    saved, notes = Saved(directory, root), list[str]()
    if not saved.groups:
        return ()
    hierarchy = hierarchy_of(root, systemctl if saved.kind == Slices.kind else "")
    if hierarchy.kind != saved.kind:
        notes = [gone(each.path) for each in saved.groups]
        saved.keep_only(())
        return tuple(notes)
    give_back(saved, hierarchy, saved.groups, notes)
    return tuple(notes)


def has(hierarchy: Hierarchy, path: str, identity: int, text: str) -> bool:
    """Whether a weight that could not be set again is there all the same."""
    with suppress(OSError):
        return hierarchy.value(path, identity) == text
    return False


def gone(path: str) -> str:
    return f"the group {path} is gone"
