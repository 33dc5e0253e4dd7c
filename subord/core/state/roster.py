"""The roster: the subtree of one node, from the reports of its subordinates (docs/protocol.md, section 5).

Inputs are claims of subordinates and of the node itself; outputs are the rows, and those to report to the leader. The
claims of each subordinate are kept apart, and the best claim on a position is its row. After a move two subordinates
may claim the same node: when the old one retracts, the claim of the new one stands, in any order of reports. A new
session of a subordinate keeps its old claims until all rows are reported, then sweeps the rest. Only changes are
reported upwards, until the leader confirms them. No call passes over all rows: a branch that is dropped, and rows
that are released or swept, are settled in steps, and a new leader gets one part after the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator

import msgspec

from subord.core.claims import Claim, Weight
from subord.core.messages import AGE_S_MAX, CHANGES_MAX, ROWS_BYTES_MAX, Change, bare
from subord.core.state import digests
from subord.core.tables import SplitMap
from subord.core.view import PLACE_CODES, Place, Position

OWN = 0  # the node's own claims: its own row, and missing subordinates
GUEST = PLACE_CODES[Place.GUEST]
SETTLE_S = 0.001  # between two calls of `settle_some`: other events are handled meanwhile
SETTLED_MAX = 64  # rows per call, where a branch comes or goes at once
GONE_BYTES_MAX, BARE_BYTES_MAX = 9, ROWS_BYTES_MAX // CHANGES_MAX  # of a position, of a row without proof
PROVEN_BYTES_MAX = BARE_BYTES_MAX + 110  # key, proof, exchange and wish
PROVEN_ROWS = ROWS_BYTES_MAX // PROVEN_BYTES_MAX  # with proof, of one beat


class Roster:
    """The subtree of one node, itself included."""

    def __init__(self, owner: Position) -> None:
        self.owner = owner
        self.claims: dict[Position, SplitMap[Claim]] = {OWN: SplitMap()}
        self.rows: SplitMap[tuple[Position, Claim]] = SplitMap()  # position -> (subordinate, or OWN; its claim)
        self.unsettled: deque[Iterator[Position]] = deque()  # nodes of dropped branches, of released and swept claims
        self.digests: defaultdict[Position, int] = defaultdict(int)  # of the claims that `_told` counts
        self.digest = 0  # of the rows
        self.digest_of_proofs = 0  # their part of it
        self.unbound = 0  # live nodes whose row is not proven
        self.missing_of: Counter[Position] = Counter()  # missing nodes among the claims of each subordinate
        self.guests: Counter[Position] = Counter()  # live guests by leader
        self._below: Counter[Position] = Counter()  # live nodes by the subordinate whose claim is the row
        self.live = 0
        self.not_home = 0
        self.changed_at = 0.0
        self.rivals: dict[Position, float] = {}  # live nodes that two subordinates claim, and since when
        self.news: list[Position] = []  # rows that came or changed, for `Back`; the reader empties it
        self.sessions: Counter[Position] = Counter()  # of each subordinate; its claims name theirs
        self._told: Counter[Position] = Counter()  # claims of each subordinate in its present session
        self.kept: dict[Position, dict[Position, None]] = {}  # by subordinate: claims that are not listed yet
        self.unread: dict[Position, None] = {}  # rows that came, changed or went; the index empties it
        self._dirty: dict[Position, int] = {}  # rows that the leader has not confirmed -> their revision
        self._unsaid: list[dict[Position, tuple[Position, Claim]]] = []  # of `rows`, to be reported first
        self._everything = 0  # the revision of rows that are reported because the leader is new
        self._revision = 0
        self._reporting = False

    # -- claims -----------------------------------------------------------------------------------

    def state(self, via: Position, change: Change, now: float) -> None:
        """Take one claim of subordinate `via` (OWN: of the node itself)."""
        session = self.sessions[via]
        claim = Claim(change, now - change.age_s, digest=digests.of_row(change), session=session)
        claims = self._claims_of(via)
        old = claims.get(change.position)
        is_new = old is None or old.session != session
        self._told[via] += is_new
        self.digests[via] += claim.digest - (0 if is_new else _digest_of(old))
        self.missing_of[via] += change.missing - (old is not None and old.change.missing)
        claims[change.position] = claim
        self._settle(change.position, now)

    def retract(self, via: Position, position: Position, now: float) -> None:
        """`via` reports that `position` is no longer below it."""
        if self.is_claimed(via, position):
            self._remove(via, position)
            self._settle(position, now)

    def _remove(self, via: Position, position: Position) -> None:
        """Without `_settle`."""
        claim = self.claims[via][position]
        del self.claims[via][position]
        if claim.session == self.sessions[via]:
            self._told[via] -= 1
            self.digests[via] -= claim.digest
        self.kept.get(via, {}).pop(position, None)
        self.missing_of[via] -= claim.change.missing

    def _claims_of(self, via: Position) -> SplitMap[Claim]:
        if via not in self.claims:
            self.claims[via] = SplitMap()
        return self.claims[via]

    def keep(self, via: Position, position: Position) -> None:
        """Neither list nor report the claim of `via` on `position` before `release`."""
        self.kept.setdefault(via, {})[position] = None

    def release(self, via: Position, now: float) -> None:
        """List all claims of `via`. Call `settle_some` while `unsettled` is not empty."""
        if via in self.kept:
            self.unsettled.append(iter(self.kept.pop(via)))
            self.settle_some(now)

    def doubt(self, via: Position) -> None:
        """A new session of `via` begins: its claims stand until all rows are reported."""
        self._claims_of(via)
        self.sessions[via] += 1
        self._told[via] = self.digests[via] = 0

    def sweep(self, via: Position, now: float) -> None:
        """`via` has reported all rows: retract what it did not repeat. Call `settle_some` while `unsettled` is not
        empty."""
        claims, session = self._claims_of(via), self.sessions[via]
        if len(claims) > self._told[via]:
            self.unsettled.extend(self._swept(via, claims, part, session) for part in claims.parts())
            self.settle_some(now)

    def _swept(
        self, via: Position, claims: SplitMap[Claim], part: dict[Position, Claim], session: int
    ) -> Iterator[Position]:
        """Remove the claims of a part that are older than the session, and yield their nodes."""
        for position in [p for p, claim in part.items() if claim.session < session]:
            claim = claims.get(position)  # it may be repeated or retracted by now, or the branch dropped
            if claim is not None and claim.session < session and self.claims.get(via) is claims:
                self._remove(via, position)
                yield position

    def drop_kept(self, via: Position, now: float) -> bool:
        """Remove the claims that are kept; False: there are none. None of them is a row."""
        kept = tuple(self.kept.get(via, ()))
        for position in kept:
            self._remove(via, position)
            if position in self.rivals:
                self._settle(position, now)
        return bool(kept)

    def told(self, via: Position) -> int:
        """The number of rows that `via` has reported in its present session."""
        return self._told[via]

    def living_of(self, via: Position) -> int:
        """The number of nodes that `via` claims as living."""
        return len(self.claims.get(via, ())) - self.missing_of[via]

    def drop(self, via: Position, now: float) -> None:
        """`via` is no longer a subordinate: drop its claims. Call `settle_some` while `unsettled` is not empty."""
        for each in (self.sessions, self._told, self.kept, self.digests, self.missing_of):
            each.pop(via, None)
        claims = self.claims.pop(via, None)
        if claims is not None:
            self.unsettled.append(claims.drain())
            if len(self.unsettled) == 1:  # when many branches are lost at once, only the first
                self.settle_some(now)

    def settle_some(self, now: float) -> None:
        """Settle at most SETTLED_MAX rows, and look through one part of the swept claims."""
        for _ in range(SETTLED_MAX if self.unsettled else 0):
            position = next(self.unsettled[0], None)
            if position is None:
                self.unsettled.popleft()
                return
            self._settle(position, now)

    def expire_missing(self, now: float, keep_s: float) -> float | None:
        """Drop nodes missing for longer than `keep_s`; returns when the next one is due, or None."""
        own = self.claims[OWN]
        missing = [(claim.since + keep_s, p) for p, claim in own.items() if claim.change.missing]
        for at, position in missing:
            via, row = self.rows[position]  # of a dropped branch it may not be settled yet
            if at <= now or (not row.change.missing and via in self.claims):
                self.retract(OWN, position, now)
        return min((at for at, _ in missing if at > now), default=None)

    def _settle(self, position: Position, now: float) -> None:
        """Choose the row of `position` among the claims, and record what changed."""
        old = self.rows.get(position)
        stood = old[0] if old is not None else None
        best: tuple[Weight, bool, Position] | None = None
        living = 0  # claims of subordinates
        for via, claims in self.claims.items():
            claim = claims.get(position)
            if claim is None:
                continue
            living += via != OWN and not claim.change.missing
            order = claim.weight, via == stood, via
            if (best is None or order > best) and not self._is_kept(via, position):
                best = order
        # After a move, the former and the new leader both report the node for a moment.
        if living > 1:
            self.rivals.setdefault(position, now)
        else:
            self.rivals.pop(position, None)
        if best is None:
            if old is not None:
                del self.rows[position]
                self.digest -= old[1].digest
                self.digest_of_proofs -= digests.of_proof(old[1].change)
                self._count(*old, -1)
                self._touch(position, now)
            return
        via = best[2]
        claim = self.claims[via][position]
        self.rows[position] = (via, claim)
        if old is not None:
            self._count(*old, -1)
        self._count(via, claim, +1)
        if old is not None and claim.is_same_as(old[1]):
            if old[0] != via:
                self.news.append(position)
            return
        self.digest += claim.digest - _digest_of(old[1] if old else None)
        self.digest_of_proofs += digests.of_proof(claim.change) - (digests.of_proof(old[1].change) if old else 0)
        self._touch(position, now)
        self.news.append(position)

    def _is_kept(self, via: Position, position: Position) -> bool:
        return via in self.kept and position in self.kept[via]

    def _count(self, via: Position, claim: Claim, by: int) -> None:
        change = claim.change
        if change.missing:
            return
        self.live += by
        self.unbound += 0 if change.key else by
        self._below[via] += by
        if not self._below[via]:
            del self._below[via]
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
        return len(self._dirty) + sum(map(len, self._unsaid))

    def report_everything(self) -> None:
        """Report the whole subtree to a new leader."""
        self._revision += 1  # the former leader confirms nothing for the new one
        self._reporting = True
        self._everything = self._revision
        first, *self._unsaid = self.rows.parts()
        self._dirty = dict.fromkeys(first, self._revision)

    def stop_reporting(self) -> None:
        """Without a leader: the next `report_everything` covers all changes."""
        self._reporting = False
        self._dirty.clear()
        self._unsaid.clear()

    def batch(
        self, now: float, *, proven: bool = True
    ) -> tuple[dict[Position, int], tuple[Change, ...], tuple[Position, ...]]:
        """The oldest unreported changes that fit a beat: (revisions to confirm, changes, gone).

        `proven`: with their proofs, which a leader without identity would not pass on.
        """
        revisions = dict(_first(self._dirty.items(), CHANGES_MAX))
        while self._unsaid and list(revisions.values()) != [self._everything] * CHANGES_MAX:
            part = self._unsaid.pop(0)
            self._dirty = {p: self._everything for p in part if p not in self._dirty} | self._dirty
            revisions = dict(_first(self._dirty.items(), CHANGES_MAX))
        changes: list[Change] = []
        gone: list[Position] = []
        confirmed: dict[Position, int] = {}
        room = ROWS_BYTES_MAX
        for position, revision in revisions.items():
            row = self.rows.get(position)
            change = None if row is None else _now(row[1], now, proven=proven)
            room -= _bytes_of(change)
            if room < 0:
                break
            gone.append(position) if change is None else changes.append(change)
            confirmed[position] = revision
        return confirmed, tuple(changes), tuple(gone)

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
        return self._below[via]


def _now(claim: Claim, now: float, *, proven: bool) -> Change:
    """The row as it is reported."""
    change = claim.change if proven else bare(claim.change)
    return msgspec.structs.replace(change, age_s=min(max(0, int(now - claim.since)), AGE_S_MAX))


def _bytes_of(change: Change | None) -> int:
    """The most that a row, or a node that is gone, takes in a beat."""
    if change is None:
        return GONE_BYTES_MAX
    return PROVEN_BYTES_MAX if change.key else BARE_BYTES_MAX


def _digest_of(claim: Claim | None) -> int:
    return 0 if claim is None else claim.digest


def _first(items: Iterable[tuple[Position, int]], limit: int) -> Iterator[tuple[Position, int]]:
    for _, item in zip(range(limit), items, strict=False):
        yield item
