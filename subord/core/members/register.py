"""The register of members: for each position that was ever a member, whether its node is up, down, left or forgotten.

Every node holds the whole register. A root writes to it, and all nodes exchange it along the edges of the tree, so it
outlives every root. Inputs are runs of positions with one record; of two records for a position the greater counts,
whichever came first. Invariant: two nodes that have seen the same records hold equal registers, with equal digests.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.carriage.exchange import digest_of
from subord.core.view import Position

STAMP_MS_MAX: Final = (1 << 53) - 1
Stamp = Annotated[int, msgspec.Meta(ge=0, le=STAMP_MS_MAX)]
LEAP_MS_MAX: Final = 3_600_000
MEMBERS_MAX: Final = 131_072
"""A full register takes no further positions, only records of those that it has. One short run can be as long as the
network, and readers list each position."""


class State(enum.IntEnum):
    """Of records with one stamp, the higher state counts."""

    UP = 1
    DOWN = 2  # ended or vanished without a goodbye
    LEFT = 3  # said goodbye
    FORGOTTEN = 4  # was down, and an operator no longer expects it


class Record(NamedTuple):
    """The state of one node. Records are ordered by their fields, and the greatest counts.

    `stamp_ms`: when it was written, in ms since 1970, and later than the record that it replaces. `since_ms`: since
    when the state holds; 0 where it is not known. `leader`: the last one; 0: none, or not known.
    """

    stamp_ms: Stamp
    state: State
    since_ms: Stamp = 0
    leader: Annotated[Position, msgspec.Meta(ge=0)] = 0


class Run(NamedTuple):
    """The positions from `first` to `last`, all with one record."""

    first: Annotated[Position, msgspec.Meta(ge=1)]
    last: Annotated[Position, msgspec.Meta(ge=1)]
    record: Record


_decoder = msgspec.msgpack.Decoder(tuple[Run, ...])
_encode = msgspec.msgpack.Encoder().encode


class Register:
    """Disjoint runs in the order of positions; equal neighbours are one run."""

    pause_s: Final = 1.0

    def __init__(self, size: Position, runs: Iterable[Run] = ()) -> None:
        """`size`: the highest position of the network."""
        self.size = size
        self.runs: list[Run] = []
        self.refused = 0
        """Number of runs that had no room."""
        self._members = 0
        self._digest: bytes | None = None
        self.merge(runs)

    def __len__(self) -> int:
        return len(self.runs)

    def at(self, position: Position) -> Record | None:
        """The record of a node; None: it was never a member."""
        index = bisect_left(self.runs, position, key=_last)
        if index < len(self.runs) and self.runs[index].first <= position:
            return self.runs[index].record
        return None

    def positions(self, *states: State) -> list[Position]:
        """The nodes in one of the states, in order."""
        found = (range(run.first, run.last + 1) for run in self.runs if run.record.state in states)
        return [position for each in found for position in each]

    def count(self, state: State) -> int:
        """The number of nodes in a state."""
        return sum(run.last - run.first + 1 for run in self.runs if run.record.state is state)

    @property
    def digest(self) -> bytes:
        """Equal for equal registers."""
        if self._digest is None:
            self._digest = digest_of(self.encode(self.runs))
        return self._digest

    # -- changes ------------------------------------------------------------------------------------------

    def merge(self, runs: Iterable[Run]) -> list[Run]:
        """Take all greater records. Returns what changed this register."""
        return [changed for run in runs for changed in self._take(run)]

    def _take(self, run: Run) -> list[Run]:
        first, last, record = run
        begin = bisect_left(self.runs, first, key=_last)
        end, position, known = begin, first, 0
        pieces: list[Run] = []  # replace `runs[begin:end]`
        changed: list[Run] = []
        while end < len(self.runs) and self.runs[end].first <= last:
            old = self.runs[end]
            low, high = max(first, old.first), min(last, old.last)
            if old.first < first:
                pieces.append(Run(old.first, first - 1, old.record))
            if position < low:
                changed.append(Run(position, low - 1, record))
                pieces.append(changed[-1])
            if record > old.record:
                changed.append(Run(low, high, record))
            pieces.append(Run(low, high, max(record, old.record)))
            if old.last > last:
                pieces.append(Run(last + 1, old.last, old.record))
            position = high + 1
            known += high - low + 1
            end += 1
        if position <= last:
            changed.append(Run(position, last, record))
            pieces.append(changed[-1])
        new = last - first + 1 - known
        if new and self._members + new > MEMBERS_MAX:
            self.refused += 1
            known_runs = [Run(max(first, old.first), min(last, old.last), record) for old in self.runs[begin:end]]
            return self.merge(known_runs)
        if not changed:
            return []
        self._members += new
        self._replace(begin, end, pieces)
        return changed

    def _replace(self, begin: int, end: int, pieces: list[Run]) -> None:
        """Put `pieces` in place of some runs, joined with equal neighbours."""
        before, after = max(0, begin - 1), min(len(self.runs), end + 1)
        self.runs[before:after] = _joined((*self.runs[before:begin], *pieces, *self.runs[end:after]))
        self._digest = None

    def take(self, count: int) -> list[Run]:
        """Remove and return the first runs."""
        taken = self.runs[:count]
        del self.runs[:count]
        self._members -= sum(run.last - run.first + 1 for run in taken)
        self._digest = None
        return taken

    def drop_expired(self, now_ms: int) -> None:
        """Records have no end."""

    # -- the wire and the disk ----------------------------------------------------------------------------

    def items(self) -> list[Run]:
        """All runs."""
        return self.runs

    def encode(self, runs: Iterable[Run]) -> bytes:
        """Runs in MessagePack."""
        return _encode(list(runs))

    def decode(self, data: bytes, now_ms: int) -> list[Run]:
        """Without records that are written more than LEAP_MS_MAX ahead of this clock: none would be later for long.

        Raises msgspec.DecodeError, ValueError.
        """
        runs = _decoder.decode(data)
        if any(not run.first <= run.last <= self.size or run.record.leader > self.size for run in runs):
            raise ValueError("a run is not one of this network")
        return [run for run in runs if run.record.stamp_ms <= now_ms + LEAP_MS_MAX]

    def differing(self, _: bytes) -> list[Run]:
        """All of them: the digest does not tell."""
        return self.items()

    def empty(self) -> Register:
        """Another one of the same network, without runs."""
        return Register(self.size)


def runs_of(positions: Iterable[Position], record: Record) -> list[Run]:
    """Ordered positions with one record."""
    return _joined(Run(position, position, record) for position in positions)


def _joined(runs: Iterable[Run]) -> list[Run]:
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].last + 1 == run.first and joined[-1].record == run.record:
            joined[-1] = joined[-1]._replace(last=run.last)
        else:
            joined.append(run)
    return joined


def _last(run: Run) -> Position:
    return run.last
