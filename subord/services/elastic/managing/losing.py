"""Nodes that serve according to their records, and yet are gone. Pure but for the memory of earlier polls.

Inputs are the records of nodes that serve, hosts, and what the supplier lists; outputs are records that are to be
written. A node that two lists in a row lack has vanished; one that two answers of the batch system in a row lack is
registered again, but for those that the batch system itself has ended (wanting.py); one without jobs that does not
answer the batch system for `wait_s` is removed. Invariant: one poll alone changes no record, so a single wrong answer
does no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from subord.services.batch.records import Host, HostState
from subord.services.elastic.managing.advancing import registered_again, removed
from subord.services.elastic.stages import Record

VANISHED = "it has vanished: the supplier does not list it"


class Losing:
    """The polls of one cluster."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._unlisted: set[str] = set()
        self._unknown: set[str] = set()
        self._down_since: dict[str, float] = {}

    def lost(
        self, serving: Mapping[str, Record], hosts: Iterable[Host], listed: Collection[str] | None, now: float
    ) -> list[Record]:
        """`serving`: when the questions were asked. `listed`: None: the supplier has not told."""
        known = {host.name: host for host in hosts if host.slots and host.name in serving}
        unlisted = set() if listed is None else serving.keys() - set(listed)
        unknown = {name for name, each in serving.items() if not each.is_wanted} - known.keys()
        silent = {name for name, host in known.items() if _is_silent(host)}
        self._down_since = {name: min(self._down_since.get(name, now), now) for name in silent}
        found = {name: removed(serving[name], now, VANISHED, is_lost=True) for name in unlisted & self._unlisted}
        for name in unknown & self._unknown:
            found.setdefault(name, registered_again(serving[name], now))
        for name, since in self._down_since.items():
            if now - since >= self._wait_s:
                reason = f"it has not answered the batch system for {now - since:.0f} s, and has no job"
                found.setdefault(name, removed(serving[name], now, reason, is_lost=True))
        if listed is not None:
            self._unlisted = unlisted
        self._unknown = unknown
        return list(found.values())


def _is_silent(host: Host) -> bool:
    return host.state in (HostState.DOWN, HostState.ERROR) and not host.used and not host.busy
