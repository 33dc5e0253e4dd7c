"""One order at one node, for one asker, and its open questions: what is told, and why the rest is not.

Inputs are results and causes with the nodes that they are of; outputs are the fold of new results, and the causes of
what remains. Invariants: a node counts once, with the first result that comes; `remaining` and the nodes that are
told are together the targets; a result replaces a cause, a cause never replaces a result.
"""

from __future__ import annotations

import enum
from math import inf

from subord.core.carriage.engine import bounds, causes
from subord.core.carriage.engine.folding import Fold, Room
from subord.core.carriage.engine.frames import Order
from subord.core.carriage.engine.interface import Answer, Overview, Role
from subord.core.carriage.engine.links import LinkState
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.view import Position

GONE = (causes.MOVED, causes.LEFT, causes.DOWN)
"""Causes of nodes that may be elsewhere, which a node passes on before its part is complete."""


class Asker:
    """A peer's question: the link on which it came, and its number there."""

    __slots__ = ("link", "number")

    def __init__(self, link: LinkState, number: int) -> None:
        self.link = link
        self.number = number


class Search:
    """The targets of a coordinator without result that may be elsewhere by now."""

    __slots__ = ("asked_again", "listed_until", "movable", "wait_until")

    def __init__(self, now: float) -> None:
        self.movable = 0
        """How many there were at the last count."""
        self.wait_until = now
        """Until when those are waited for that the roster does not show."""
        self.listed_until = now
        """Until when those are asked for again that the roster shows below a subordinate that does not list them."""
        self.asked_again = NONE
        """Those of them whose answer is still to come."""


class Task:
    """`asker` None: a command of this node issued the order. `part` None: all members, which are not known yet."""

    def __init__(
        self,
        order: Order,
        asker: Asker | None,
        part: Ranges | None,
        *,
        climbs: bool,
        attempt: int,
        began_at: float,
        until: float,
        room: Room,
        passed: tuple[Position, ...] = (),
    ) -> None:
        self.order = order
        self.asker = asker
        self.is_every = part is None
        self.is_resolved = not self.is_every
        """Whether a coordinator has said which targets there are."""
        self.targets = part or NONE
        self.remaining = self.targets
        self.climbs = climbs
        self.coordinates = False
        self.attempt = attempt
        self.passed = passed
        self.began_at = began_at
        self.until = until
        self.fold = Fold(room)
        self.missing: dict[str, Ranges] = {}
        self.told_gone = NONE
        """Nodes of which the asker knows that they are gone from here."""
        self.pending: dict[int, Pending] = {}
        self.acts = False
        """Whether its own outcome is waited for."""
        self.tried: set[Position] = set()
        """Nodes above that were asked for a coordinator."""
        self.above: tuple[Position, ...] = ()
        """The nodes above the leader, the nearest first, as last known: a node that has lost its leader asks them."""
        self.lacks = ""
        """Why no coordinator is found that knows all targets; "": there is one, or it is still looked for.
        YOUNG_ROOT: there is one, and it may not know all yet."""
        self.sent: dict[Position, Ranges] = {}
        """By subordinate: targets for which it, or its branch, was asked."""
        self.routed_at = began_at
        self.flush_at = inf
        self.flushed_at = began_at
        self.has_news = False
        """Whether anything is told, or has another cause, since the last flush."""
        self.look_at = self.young_at = inf  # `young_at`: to look whether a young root has settled
        self.looks = 0
        self.search = Search(began_at)
        self.is_queued = False
        """Whether it waits for a place of the coordinator (admission.py)."""
        self.slot_until = inf
        self.lease_ends_at = inf
        """When it is forgotten without a renewal; infinity: it is of a command here, or over."""
        self.leased_until = began_at
        """Until when its asker waits, also when it is over: what waits for its tag on the disk may still act here."""
        self.renew_at = inf
        """When the issuer renews the leases of its questions."""
        self.is_over = False

    def lease_s(self, now: float) -> float:
        """What is left of its lease, which its own questions get."""
        return bounds.LEASE_S if self.asker is None else max(0.0, self.leased_until - now)

    @property
    def neighbour(self) -> Position:
        """The peer that asks; 0: a command here."""
        return 0 if self.asker is None else self.asker.link.peer

    @property
    def source(self) -> Position:
        """The peer that asked over a stream of its own; 0: the order came along an edge, or of a command here."""
        return self.neighbour if self.asker is not None and self.asker.link.role is Role.CALLER else 0

    def widen(self, nodes: Ranges) -> Ranges:
        """More targets of an order for all members; returns those that are new."""
        new = nodes - self.targets
        self.has_news |= bool(new)
        self.targets |= new
        self.remaining |= new
        return new

    def take(self, nodes: Ranges) -> Ranges:
        """These nodes are told now; returns those that were not before."""
        new = nodes & self.remaining
        if new:
            self.has_news = True
            self.remaining -= new
            for cause in list(self.missing):
                self._without(cause, new)
        return new

    def miss(self, nodes: Ranges, cause: str) -> None:
        """Why nodes have no result; the last cause of several counts."""
        self.search.asked_again -= nodes
        new = nodes & self.remaining
        if not new:
            return
        if cause not in self.missing and len(self.missing) >= causes.KINDS_MAX:
            cause = causes.REFUSED
        if not new - self.missing.get(cause, NONE):
            return
        self.has_news = True
        for other in list(self.missing):
            if other != cause:
                self._without(other, new)
        self.missing[cause] = self.missing.get(cause, NONE) | new

    def explain(self) -> None:
        """A cause for each node without one. The branch of a node in doubt was asked directly."""
        for pending in self.open:
            if pending.stage is not Stage.DOUBTED:
                self.miss(pending.part & self.unexplained, causes.EXPIRED if pending.is_known else causes.SILENT)
        self.miss(self.unexplained, causes.EXPIRED)

    def _without(self, cause: str, nodes: Ranges) -> None:
        rest = self.missing[cause] - nodes
        if rest:
            self.missing[cause] = rest
        else:
            del self.missing[cause]

    @property
    def open(self) -> list[Pending]:
        """Questions whose answers are waited for."""
        return [each for each in self.pending.values() if each.is_open]

    @property
    def is_waiting(self) -> bool:
        """Whether any answer is waited for."""
        return self.acts or any(each.is_open for each in self.pending.values())

    @property
    def unexplained(self) -> Ranges:
        """Nodes without result and without cause."""
        rest = self.remaining
        for nodes in self.missing.values():
            rest -= nodes
        return rest

    @property
    def new_gone(self) -> dict[str, Ranges]:
        """Nodes that are gone from here, which the asker may find elsewhere while the rest of the part goes on."""
        if self.asker is None or self.coordinates:
            return {}
        found = {cause: self.missing.get(cause, NONE) - self.told_gone for cause in GONE}
        return {cause: nodes for cause, nodes in found.items() if nodes}

    @property
    def untold_missing(self) -> dict[str, Ranges]:
        """What the asker does not know: of a node that is gone from here it may have another cause by now."""
        return {cause: nodes - self.told_gone if cause in GONE else nodes for cause, nodes in self.missing.items()}

    def next_flush_at(self, now: float) -> float:
        """When the asker, or the command, gets what is new if the end does not come before; infinity: at the end.
        Most questions end within FLUSH_FIRST_S, so frames of results wait for that; not those of nodes that are gone,
        nor of orders with effects: the operator may see and cancel these at any time."""
        is_gone = bool(self.new_gone)
        if not (self.fold or is_gone):
            return inf
        is_soon = is_gone or self.asker is None or bool(self.order.authority)
        first_s = bounds.FLUSH_S if is_soon else min(bounds.FLUSH_FIRST_S, (self.until - self.began_at) / 4)
        pause_s = max(bounds.FLUSH_S, bounds.FLUSH_SHARE * (now - self.began_at))
        return max(now, self.began_at + first_s, self.flushed_at + pause_s)

    def answer(self) -> Answer:
        """What is known; of nodes without result, those with a cause."""
        is_resolved = self.is_resolved and not (self.is_every and self.lacks)
        return Answer(
            targets=self.targets,
            groups=self.fold.groups,
            others=self.fold.others,
            missing=tuple(sorted(self.missing.items())),
            is_resolved=is_resolved,
            lacks="" if is_resolved else self.lacks,
            attempts=self.attempt + 1,
        )

    def overview(self, now: float) -> Overview:
        """What an operator may see of it."""
        return Overview(
            service=self.order.service,
            issuer=self.order.issuer,
            is_own=self.asker is None,
            asked=len(self.targets),
            told=len(self.targets) - len(self.remaining),
            missing=sum(map(len, self.missing.values())),
            age_s=now - self.began_at,
            left_s=max(0.0, self.until - now),
        )


class Stage(enum.Enum):
    """How far a question is."""

    WAITING = "waiting"  # for a place among the direct streams
    ASKED = "asked"
    DOUBTED = "doubted"  # the peer counts as hung; its branch is asked directly, and only it itself is waited for
    OVER = "over"  # nothing is waited for; what still comes counts while the order is held


class Pending:
    """A question to `peer` for `part`, which the peer may answer for; nothing else of its answer counts."""

    def __init__(self, number: int, task: Task, peer: Position, part: Ranges, *, climbs: bool) -> None:
        self.number = number
        self.task = task
        self.peer = peer
        self.part = part
        self.climbs = climbs
        self.stage = Stage.WAITING
        self.link: LinkState | None = None
        self.asked_at = -inf
        """When the question, or the last check, was sent."""
        self.is_heard = False
        """Whether the peer has acknowledged since `asked_at`."""
        self.sent_at = -inf
        """When the last frame was sent that the peer acknowledges, also a renewal."""
        self.unacknowledged = 0
        """How many such frames are under way."""
        self.is_known = False
        """Whether the peer has ever acknowledged."""
        self.is_held = False
        """Whether the peer may still hold it, though this node may have given up waiting."""
        self.lacks = ""
        """Why the targets that the peer has given may not be all, of an order for all members."""
        self.look_at = inf
        self.pause_s = bounds.CHECK_S

    @property
    def is_open(self) -> bool:
        return self.stage is not Stage.OVER

    def sent(self, now: float) -> None:
        """A frame that the peer acknowledges is on its way."""
        self.sent_at = now
        self.unacknowledged += 1

    def acknowledged(self, now: float) -> float | None:
        """How long the acknowledgement took; None: it may be that of another frame than the last."""
        delay_s = now - self.sent_at if self.unacknowledged == 1 else None
        self.unacknowledged = max(0, self.unacknowledged - 1)
        return delay_s
