"""The roster: the subtree of one node, from the reports of its subordinates (docs/protocol.md, section 5).

The claims of each subordinate are kept apart, and the best claim on a position is its row. After a move two
subordinates may claim the same node: when the old one retracts, the claim of the new one stands, in any order of
reports. A new session of a subordinate keeps its old claims until all rows are reported, then sweeps the rest.
Only changes are reported upwards, until the leader confirms them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from subord.core.claims import Claim
from subord.core.messages import AGE_S_MAX, CHANGES_MAX, Change
from subord.core.state import digests
from subord.core.view import Position

OWN = 0  # the node's own claims: its own row, and missing subordinates
GUEST = 2


class Roster:
    """The subtree of one node, itself included."""

    def __init__(self, owner: Position) -> None:
        self.owner = owner
        self.claims: dict[Position, dict[Position, Claim]] = {OWN: {}}
        self.rows: dict[Position, tuple[Position, Claim]] = {}  # position -> (subordinate, or OWN; its claim)
        self.digests: defaultdict[Position, int] = defaultdict(int)  # of the claims of each subordinate
        self.digest = 0  # of the rows
        self.missing_of: Counter[Position] = Counter()  # missing nodes among the claims of each subordinate
        self.guests: Counter[Position] = Counter()  # live guests by leader
        self.live = 0
        self.not_home = 0
        self.changed_at = 0.0
        self.rivals: dict[Position, float] = {}  # live nodes that two subordinates claim, and since when
        self.news: list[Position] = []  # rows that came or changed, for `Back`; the reader empties it
        self.doubted: dict[Position, dict[Position, None]] = {}  # by subordinate: not yet repeated in its new session
        self.kept: dict[Position, dict[Position, None]] = {}  # by subordinate: claims that are not listed yet
        self.unread: dict[Position, None] = {}  # rows that came, changed or went; the index empties it
        self._dirty: dict[Position, int] = {}  # rows that the leader has not confirmed -> their revision
        self._revision = 0
        self._reporting = False

    # -- claims -----------------------------------------------------------------------------------

    def state(self, via: Position, change: Change, now: float) -> None:
        """Take one claim of subordinate `via` (OWN: of the node itself)."""
        claim = Claim(change, now - change.age_s, digest=digests.of_row(change))
        claims = self.claims.setdefault(via, {})
        old = claims.get(change.position)
        self.digests[via] += claim.digest - _digest_of(old)
        self.missing_of[via] += change.missing - (old is not None and old.change.missing)
        claims[change.position] = claim
        if via in self.doubted:
            self.doubted[via].pop(change.position, None)
        self._settle(change.position, now)

    def retract(self, via: Position, position: Position, now: float) -> None:
        """`via` reports that `position` is no longer below it."""
        claim = self.claims.get(via, {}).pop(position, None)
        if claim is not None:
            self.doubted.get(via, {}).pop(position, None)
            self.kept.get(via, {}).pop(position, None)
            self.digests[via] -= claim.digest
            self.missing_of[via] -= claim.change.missing
            self._settle(position, now)

    def keep(self, via: Position, position: Position) -> None:
        """Neither list nor report the claim of `via` on `position` before `release`."""
        self.kept.setdefault(via, {})[position] = None

    def release(self, via: Position, now: float) -> None:
        """List all claims of `via`."""
        for position in self.kept.pop(via, ()):
            self._settle(position, now)

    def doubt(self, via: Position) -> None:
        """A new session of `via` begins: its claims stand until all rows are reported."""
        self.doubted[via] = dict.fromkeys(self.claims.setdefault(via, {}))

    def sweep(self, via: Position, now: float) -> None:
        """`via` has reported all rows: retract what it did not repeat."""
        for position in self.doubted.pop(via, ()):
            self.retract(via, position, now)

    def told(self, via: Position) -> int:
        """The number of rows that `via` has reported in its present session."""
        return len(self.claims.get(via, ())) - len(self.doubted.get(via, ()))

    def living_of(self, via: Position) -> int:
        """The number of nodes that `via` claims as living."""
        return len(self.claims.get(via, ())) - self.missing_of[via]

    def drop(self, via: Position, now: float) -> None:
        """`via` is no longer a subordinate: drop its claims."""
        self.doubted.pop(via, None)
        self.kept.pop(via, None)
        self.digests.pop(via, None)
        self.missing_of.pop(via, None)
        for position in self.claims.pop(via, {}):
            self._settle(position, now)

    def expire_missing(self, now: float, keep_s: float) -> float | None:
        """Drop nodes missing for longer than `keep_s`; returns when the next one is due, or None."""
        own = self.claims[OWN]
        missing = [(claim.since + keep_s, p) for p, claim in own.items() if claim.change.missing]
        for at, position in missing:
            if at <= now or not self.rows[position][1].change.missing:
                self.retract(OWN, position, now)
        return min((at for at, _ in missing if at > now), default=None)

    def _settle(self, position: Position, now: float) -> None:
        """Choose the row of `position` among the claims, and record what changed."""
        old = self.rows.get(position)
        best = max(
            (
                (claims[position].weight, via == (old[0] if old else None), via)
                for via, claims in self.claims.items()
                if position in claims and position not in self.kept.get(via, ())
            ),
            default=None,
        )
        self._note_rivals(position, now)
        if best is None:
            if old is not None:
                del self.rows[position]
                self.digest -= old[1].digest
                self._count(old[1].change, -1)
                self._touch(position, now)
            return
        via = best[2]
        claim = self.claims[via][position]
        self.rows[position] = (via, claim)
        if old is not None and claim.is_same_as(old[1]):
            if old[0] != via:
                self.news.append(position)
            return
        if old is not None:
            self._count(old[1].change, -1)
        self.digest += claim.digest - _digest_of(old[1] if old else None)
        self._count(claim.change, +1)
        self._touch(position, now)
        self.news.append(position)

    def _note_rivals(self, position: Position, now: float) -> None:
        """Record nodes that two subordinates claim as living, which a move causes for a moment."""
        claims = (each[position] for via, each in self.claims.items() if via != OWN and position in each)
        if sum(not claim.change.missing for claim in claims) > 1:
            self.rivals.setdefault(position, now)
        else:
            self.rivals.pop(position, None)

    def _count(self, change: Change, by: int) -> None:
        if change.missing:
            return
        self.live += by
        if change.place == GUEST:
            self.not_home += by
            self.guests[change.leader] += by
            if not self.guests[change.leader]:
                del self.guests[change.leader]

    def _touch(self, position: Position, now: float) -> None:
        self.changed_at = now
        self._revision += 1
        self.unread[position] = None
        if self._reporting:
            self._dirty.pop(position, None)  # moves to the end of the queue
            self._dirty[position] = self._revision

    # -- reporting upwards --------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """Goes up with every change of a row."""
        return self._revision

    @property
    def unreported(self) -> int:
        return len(self._dirty)

    def report_everything(self) -> None:
        """Report the whole subtree to a new leader."""
        self._revision += 1  # the former leader confirms nothing for the new one
        self._reporting = True
        self._dirty = dict.fromkeys(self.rows, self._revision)

    def stop_reporting(self) -> None:
        """Without a leader: the next `report_everything` covers all changes."""
        self._reporting = False
        self._dirty.clear()

    def batch(self, now: float) -> tuple[dict[Position, int], tuple[Change, ...], tuple[Position, ...]]:
        """The oldest unreported changes that fit a beat: (revisions to confirm, changes, gone)."""
        revisions = dict(_first(self._dirty.items(), CHANGES_MAX))
        rows = [(p, self.rows.get(p)) for p in revisions]
        changes = tuple(
            msgspec.structs.replace(row[1].change, age_s=min(max(0, int(now - row[1].since)), AGE_S_MAX))
            for _, row in rows
            if row is not None
        )
        return revisions, changes, tuple(p for p, row in rows if row is None)

    def confirm(self, revisions: dict[Position, int]) -> None:
        """The leader has these; what changed again meanwhile stays unreported."""
        for position, revision in revisions.items():
            if self._dirty.get(position) == revision:
                del self._dirty[position]

    # -- reading --------------------------------------------------------------------------------------

    def is_live(self, position: Position) -> bool:
        row = self.rows.get(position)
        return row is not None and not row[1].change.missing

    def is_claimed(self, via: Position, position: Position) -> bool:
        """Whether `via` claims `position`, even if another claim is its row."""
        return position in self.claims.get(via, ())

    def below(self, via: Position) -> int:
        """The number of live nodes whose row is a claim of `via`."""
        rows = (self.rows.get(position) for position in self.claims.get(via, ()))
        return sum(row is not None and row[0] == via and not row[1].change.missing for row in rows)


def _digest_of(claim: Claim | None) -> int:
    return 0 if claim is None else claim.digest


def _first(items: Iterable[tuple[Position, int]], limit: int) -> Iterator[tuple[Position, int]]:
    for _, item in zip(range(limit), items, strict=False):
        yield item
