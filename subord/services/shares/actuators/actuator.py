"""The shares of the classes on this node: reads what they use, sets their weights, and puts back what was there.

Inputs are the configuration of the node, times of a monotonic clock, and whole tickets (tickets.py); outputs are
loads, and notes, which are texts about what is odd but hinders nothing. All methods block, and must not overlap: they
are for a thread of the agent. Invariants: after `apply` all groups of the classes have their weights, or each has the
one from before the call; groups of classes that are not wanted have what they had before the first call.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from subord.config.classes import entries_of, queues_of
from subord.config.schema import SharesConfig
from subord.services.shares.actuators import backlog
from subord.services.shares.actuators.faults import ActuatorError, is_gone, words_of
from subord.services.shares.actuators.files import read_at
from subord.services.shares.actuators.groups import Group, above, demand_neighbours, demand_weights, groups_of
from subord.services.shares.actuators.putting_back import Notes, give_back, gone, has, recover
from subord.services.shares.actuators.saved import Before, Saved
from subord.services.shares.actuators.slices import hierarchy_of
from subord.services.shares.actuators.usage import Counters, grown, percents
from subord.services.shares.actuators.weights import weight_of
from subord.services.shares.tickets import tickets_for


class Load(NamedTuple):
    """Of a class since the reading before. `usage`: percent of the allowance of the node."""

    usage: float
    is_needy: bool


class Reading(NamedTuple):
    """Of all configured classes."""

    loads: dict[str, Load]
    notes: Notes


class _Sample(NamedTuple):
    at: float
    counters: dict[Group, Counters]


class Actuator:
    """The classes of one node."""

    def __init__(self, config: SharesConfig, directory: str, root: str = "", systemctl: str = "systemctl") -> None:
        """Puts back what an earlier process has left. `directory`: of the agent's state. `root`: below which /proc
        and /sys are. Raises ActuatorError."""
        self._entries = entries_of(config.classes)
        if not self._entries:
            raise ActuatorError("this node has no classes: name them in shares.classes")
        self.classes = tuple(dict.fromkeys(entry.name for entry in self._entries))
        self._queues = queues_of(config.queues, self.classes)
        self._hierarchy = hierarchy_of(root, systemctl if self._entries[0].is_slice else "")
        self.notes = recover(directory, root, systemctl)
        """Of what an earlier process has left."""
        self._saved = Saved(directory, root)
        self._root = root
        self._sample: _Sample | None = None
        self._needy: frozenset[Group] = frozenset()
        """The groups that had work left over at the last reading, as the kernel says."""

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, now: float) -> Reading | None:
        """The loads since the reading before; None: this is the first one, or no time has passed. Raises
        ActuatorError."""
        before = self._sample
        if before is not None and now <= before.at:
            return None
        groups = groups_of(self._entries, self._hierarchy)
        counters, notes = self._counters(groups)
        self._sample = _Sample(now, counters)
        if before is None:
            return None
        growth, elapsed_s = grown(before.counters, counters), now - before.at
        members: dict[str, dict[Group, Counters]] = {name: {} for name in self.classes}
        for group, each in growth.items():
            members[group.name][group] = each
        used = {name: sum(each.used_ns for each in own.values()) for name, own in members.items()}
        usages = percents(used, elapsed_s, self._cores(groups))
        proc = f"{self._root}/proc"
        needy = {name: backlog.seen(own, elapsed_s, self._hierarchy, proc) for name, own in members.items()}
        self._needy = frozenset[Group]().union(*needy.values())
        answers = backlog.asked(self._queues)
        notes += [note for answer, note in answers.values() if answer is None]
        loads = {}
        for name in self.classes:
            answer, _ = answers.get(name, (None, ""))
            loads[name] = Load(usages[name], bool(needy[name]) if answer is None else answer)
        return Reading(loads, tuple(notes))

    def _counters(self, groups: Iterable[Group]) -> tuple[dict[Group, Counters], list[str]]:
        found, notes = {}, []
        for group in groups:
            try:
                found[group] = self._hierarchy.counters(group.path)
            except OSError as error:
                if self._is_there(group):
                    notes.append(f"the usage of {group.path} of class {group.name} is not known: {words_of(error)}")
        return found, notes

    def _is_there(self, group: Group) -> bool:
        with suppress(OSError):
            return self._hierarchy.identity(group.path) == group.identity
        return False

    def _cores(self, groups: Iterable[Group]) -> float:
        """The processors of the machine, or fewer by the quotas of the groups above the classes."""
        cores = float(_online(self._root))
        path = next((above(group.path) for group in groups), "")
        while True:
            cores = min(cores, self._hierarchy.quota(path))
            if not path:
                return cores
            path = above(path)

    # -- setting ----------------------------------------------------------------------------------------------------

    def apply(self, tickets: Mapping[str, int]) -> Notes:
        """Give each class its tickets. Raises ActuatorError: nothing has changed, or all is as before the call."""
        self._demand_whole(tickets)
        if self._hierarchy.is_read_only:
            raise ActuatorError(f"{words_of(OSError(errno.EROFS, ''))}; nothing was changed")
        groups = [group for group in groups_of(self._entries, self._hierarchy) if group.name in tickets]
        demand_neighbours(groups)
        without = [name for name in tickets if name not in {group.name for group in groups}]
        if len(without) == len(tickets):
            raise ActuatorError("none of the classes has a group on this node; nothing was changed")
        notes = [f"class {name} has no group on this node now; its tickets go to the others" for name in without]
        fresh = [each for each in groups if self._saved.before(each.path, each.identity) is None]
        demand_weights(fresh, self._hierarchy)
        was = self._values(groups, notes)
        self._saved.add(self._hierarchy.kind, [Before(each.path, each.identity, was[each]) for each in was])
        self._set_all(was, self._weights(was, tickets), notes)
        self._give_back_unwanted({group.path for group in was}, notes)
        return tuple(notes)

    def _demand_whole(self, tickets: Mapping[str, int]) -> None:
        """Raises ActuatorError."""
        unknown = [name for name in tickets if name not in self.classes]
        if unknown:
            raise ActuatorError(
                f"this node does not know the class {', '.join(unknown)}; nothing was changed: correct the name, or "
                f"add it to shares.classes, which has {', '.join(self.classes)}"
            )
        if not tickets or min(tickets.values()) < 1 or sum(tickets.values()) != tickets_for(len(tickets)):
            words = ", ".join(f"{name}={count}" for name, count in tickets.items()) or "none"
            raise ActuatorError(
                f"these are not the tickets of a node: {words}; nothing was changed: they sum to "
                f"{tickets_for(len(tickets))}, and each is at least 1"
            )

    def _values(self, groups: Iterable[Group], notes: list[str]) -> dict[Group, str]:
        """The weights now. Raises ActuatorError."""
        found = {}
        for group in groups:
            try:
                found[group] = self._hierarchy.value(group.path, group.identity)
            except OSError as error:
                if not is_gone(error):
                    raise ActuatorError(f"{self._failed('read', group, error)}; nothing was changed") from None
                notes.append(gone(group.path))
        return found

    def _weights(self, groups: Iterable[Group], tickets: Mapping[str, int]) -> dict[Group, str]:
        """The tickets of a class are divided among its groups that need more: the others leave their part to them."""
        members: dict[str, list[Group]] = {}
        for group in groups:
            members.setdefault(group.name, []).append(group)
        found = {}
        for name, each in members.items():
            count = len(self._needy.intersection(each)) or len(each)
            weight = weight_of(tickets[name], sum(tickets.values()), count, self._hierarchy.scale)
            found.update(dict.fromkeys(each, str(weight)))
        return found

    def _set_all(self, was: Mapping[Group, str], wanted: Mapping[Group, str], notes: list[str]) -> None:
        """Raises ActuatorError: each has what it had."""
        begun: list[Group] = []
        for group, text in wanted.items():
            if was[group] == text:
                continue
            begun.append(group)
            try:
                self._hierarchy.put(group.path, group.identity, text)
            except OSError as error:
                if not is_gone(error):
                    outcome = self._undo(begun, was)
                    raise ActuatorError(f"{self._failed('set', group, error)}; {outcome}") from None
                notes.append(gone(group.path))

    def _undo(self, begun: Iterable[Group], was: Mapping[Group, str]) -> str:
        left = []
        for group in begun:
            try:
                self._hierarchy.put(group.path, group.identity, was[group])
            except OSError as error:
                if not is_gone(error) and not has(self._hierarchy, group.path, group.identity, was[group]):
                    left.append(group.path)
        if left:
            return f"{', '.join(left)} could not be put back: the next start of the agent tries again"
        return "the weights of all classes are as before"

    def _give_back_unwanted(self, wanted: Container[str], notes: list[str]) -> None:
        """Of classes that were wanted in an earlier call."""
        unwanted = [each for each in self._saved.groups if each.path not in wanted]
        try:
            give_back(self._saved, self._hierarchy, unwanted, notes)
        except ActuatorError as error:  # the wanted weights are set all the same
            notes.append(str(error))

    def _failed(self, verb: str, group: Group, error: OSError) -> str:
        return f"{self._hierarchy.kind} of {group.path} of class {group.name} cannot be {verb}: {words_of(error)}"

    # -- putting back -----------------------------------------------------------------------------------------------

    def restore(self) -> Notes:
        """Put back what each group had before the first `apply`. Raises ActuatorError: what could not be put back is
        kept for the next call."""
        notes: list[str] = []
        give_back(self._saved, self._hierarchy, self._saved.groups, notes)
        return tuple(notes)


def _online(root: str) -> int:
    """The processors of the machine, as `0-3,6`."""
    try:
        text = read_at(None, f"{root}/sys/devices/system/cpu/online")
        ranges = [part.partition("-") for part in text.strip().split(",")]
        return max(1, sum(int(last or first) - int(first) + 1 for first, _, last in ranges))
    except (OSError, ValueError):
        return os.cpu_count() or 1
