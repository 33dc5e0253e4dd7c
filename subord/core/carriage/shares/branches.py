"""The last report of each branch at one leader: which count, which are waited for, and why others are left out.

Inputs are reports, links, and the living nodes of each subordinate's branch by the roster; outputs are the branches
that a decision counts, and those without part in it. Invariants: of each branch there is one report; it counts while
its link is open and the roster lists the subordinate, for STALE_ROUNDS at most, and for no more nodes than the roster
lists there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from subord.core.carriage.engine.causes import OLDER
from subord.core.carriage.engine.links import LinkState
from subord.core.carriage.shares import bounds
from subord.core.carriage.shares.interface import Branch, LeftOut
from subord.core.view import Position

STALE: Final = "stale"
"""The last report was not renewed."""
NO_REPORT: Final = "no report"
"""Nothing has come, or the node cannot measure."""
NONSENSE: Final = "nonsense"
"""What came last makes no sense."""


class Held(NamedTuple):
    """The last report of a branch, and when it came."""

    branch: Branch
    at: float
    round: int = 0


class Reported:
    """The reports of the subordinates of one node, or of the node itself."""

    def __init__(self) -> None:
        self.held: dict[Position, Held] = {}
        self.renewed: set[Position] = set()
        """Branches with a report since the last decision."""
        self.faults: dict[Position, str] = {}
        """Of the last report of a branch, if that makes no sense."""
        self.stale_s = bounds.STALE_S_MIN
        self._links: dict[Position, tuple[LinkState, float]] = {}
        """The links to subordinates, and since when a report may come."""

    def begin(self, round_s: float, now: float) -> None:
        """Another plan: what was reported by the former counts no more."""
        self.held.clear()
        self.renewed.clear()
        self.faults.clear()
        self.stale_s = max(bounds.STALE_ROUNDS * round_s, bounds.STALE_S_MIN)
        self._links = {peer: (link, now) for peer, (link, _) in self._links.items()}

    def open(self, link: LinkState, now: float) -> None:
        """A link to a subordinate, maybe for the second time; one that it replaces was closed before."""
        if link.peer not in self._links or self._links[link.peer][0] is not link:
            self._links[link.peer] = link, now

    def close(self, link: LinkState) -> None:
        """The node has moved, or is down."""
        if link.peer in self._links and self._links[link.peer][0] is link:
            del self._links[link.peer]
            self.forget(link.peer)

    def link_to(self, position: Position) -> LinkState | None:
        found = self._links.get(position)
        return None if found is None else found[0]

    def put(self, position: Position, held: Held) -> bool:
        """A report takes the place of the last one of the branch. False: there are too many."""
        if position not in self.held and len(self.held) >= bounds.BRANCHES_MAX:
            return False
        self.held[position] = held
        self.renewed.add(position)
        self.faults.pop(position, None)
        return True

    def forget(self, position: Position) -> None:
        self.held.pop(position, None)
        self.renewed.discard(position)
        self.faults.pop(position, None)

    def counted(self, listed: Mapping[Position, int], now: float) -> dict[Position, Branch]:
        """The branches of a decision, by position. `listed`: living nodes by the roster."""
        found = {each: self.held[each] for each in sorted(listed) if each in self.held}
        return {
            each: held.branch._replace(nodes=min(held.branch.nodes, listed[each]))
            for each, held in found.items()
            if self._is_fresh(held.at, now)
        }

    def to_come(self, listed: Mapping[Position, int], now: float) -> int:
        """How many branches are still to report before the next decision; one that has long been silent is not."""
        return sum(self._may_come(each, now) for each in listed if each not in self.renewed)

    def _may_come(self, position: Position, now: float) -> bool:
        held = self.held.get(position)
        if held is not None:
            return self._is_fresh(held.at, now)
        link, since = self._links.get(position, (None, 0.0))
        return link is not None and link.knows_orders and self._is_fresh(since, now)

    def _is_fresh(self, at: float, now: float) -> bool:
        return now < at + self.stale_s

    def left_out(self, listed: Mapping[Position, int], now: float) -> Iterator[LeftOut]:
        """Branches that the roster lists and that have no part in a decision."""
        counted = self.counted(listed, now)
        for position, nodes in sorted(listed.items()):
            if position not in counted:
                fault = self.faults.get(position, "")
                yield LeftOut(position, nodes, NONSENSE if fault else self._cause(position), fault)

    def _cause(self, position: Position) -> str:
        link = self.link_to(position)
        if link is not None and not link.knows_orders:
            return OLDER
        return STALE if position in self.held else NO_REPORT
