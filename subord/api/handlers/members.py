"""Who belongs to the cluster: those who are there, and those who should be.

Intuition: the list at the hotel's door after a fire alarm. It is not enough to count who stands outside; one must
know who lives here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
import trio

from subord.api.models.fields import MemberDocument, MembersDocument
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.core.state.view import Position, RosterRow
from subord.runtime.state.history import REMEMBER_S, SETTLE_S, Missed
from subord.wire.codec import UNREADABLE

ASK_S_MAX = 0.8
REIGN_S_OFF = 2.0
"""Two measurements of when a reign began differ by less."""


def own(shown: NodeApi) -> MembersDocument:
    """Our subtree; at the root that is the cluster."""
    shown.attendance.look()
    view, now = shown.roster(), trio.current_time()
    register = shown.attendance.register
    rows = {row.position for row in view.rows}
    missed = [each for each in register.missed(now) if each.position not in rows]
    found = [_present(shown, row) for row in view.rows]
    found += [_away(shown, each, now, "stale") for each in register.on_their_way() if each.position not in rows]
    found += [_away(shown, each, now, "gone") for each in missed]
    return MembersDocument(
        asked=shown.address,
        complete=view.is_root,
        note=None if view.is_root else f"{shown.address} is not the root: these are below it",
        members=tuple(sorted(found, key=lambda each: each.position)),
        parted=tuple(_address(shown, position) for position in register.parted(now)),
    )


class Cluster:
    """The members of the whole tree as one node learns of them.

    It remembers the last complete list, for when there is no other; and since a new root knows neither the old one's
    dead nor, always, the old one, whoever stood on the old root's list and is not on the new one's is `gone`.
    """

    def __init__(self, shown: NodeApi, now: Callable[[], float] = trio.current_time) -> None:
        self._shown = shown
        self._now = now
        self._last: MembersDocument | None = None
        self._last_at = 0.0
        self._reign = ("", 0.0)
        self._left_over: dict[str, tuple[MemberDocument, float]] = {}
        self._settled: MembersDocument | None = None
        self._settled_at = 0.0

    async def settled(self) -> MembersDocument | str:
        """The last list of a root that has been one for `SETTLE_S`, for those who act upon it; or why there is none.

        Who has just become root, or has just started, does not know everybody yet, and does not know that.
        """
        found = await self.members()
        if self._settled is not None and self._now() - self._settled_at >= REMEMBER_S:
            self._settled = None
        if not found.complete:
            return self._settled or f"the whole tree is not known: {found.note}"
        if _reigns_s(found) >= SETTLE_S:
            self._settled, self._settled_at = found, self._now()
        return self._settled or f"{found.asked} has only just become root, and may not know everybody yet"

    async def members(self) -> MembersDocument:
        """Of the root; if it cannot be had, the last that could, or else ours. Within `ASK_S_MAX`."""
        found = await self._asked()
        if isinstance(found, MembersDocument) and found.complete:
            self._last, self._last_at = self._with_left_over(found), self._now()
            return self._last
        why = found if isinstance(found, str) else f"{found.asked} is not the root any more"
        if self._last is None:
            return msgspec.structs.replace(own(self._shown), complete=False, note=f"{why}: these are below us")
        note = f"{why}: this is the last whole list, {self._now() - self._last_at:.0f} s old"
        return msgspec.structs.replace(self._last, complete=False, note=note)

    def _with_left_over(self, found: MembersDocument) -> MembersDocument:
        """What the root says, and besides it those of the root before, for as long as they are remembered."""
        now, reigns_s = self._now(), _reigns_s(found)
        root, since = self._reign
        self._reign = found.asked, now - reigns_s
        if self._last is not None and (root != found.asked or now - reigns_s - since > REIGN_S_OFF):
            for each in self._last.members:
                away_s = each.since_s if each.standing in {"missing", "gone"} else 0.0
                self._left_over.setdefault(each.address, (each, self._last_at - away_s))
        for address in [a for a, (_, at) in self._left_over.items() if now - at >= REMEMBER_S]:
            del self._left_over[address]
        for address in (*found.parted, *(each.address for each in found.members)):
            self._left_over.pop(address, None)
        if not self._left_over:
            return found
        standing: Literal["stale", "gone"] = "gone" if reigns_s >= SETTLE_S else "stale"  # perhaps on their way
        over = [
            msgspec.structs.replace(each, standing=standing, since_s=now - at)
            for each, at in self._left_over.values()
        ]
        everybody = sorted([*found.members, *over], key=lambda each: each.position)
        return msgspec.structs.replace(found, members=tuple(everybody))

    async def _asked(self) -> MembersDocument | str:
        shown = self._shown
        root = shown.snapshot().root
        if root is None:
            return f"{shown.address} knows no root just now"
        address = shown.settings.network.address_text_of(root)
        if address == shown.address:
            return own(shown)
        with trio.move_on_after(ASK_S_MAX):
            answer = await shown.ask(address, Question("members"), ASK_S_MAX)
            found = answer.reason if isinstance(answer, AskFailure) else _read(shown, answer)
            return f"{address} (root) {found}" if isinstance(found, str) else found
        return f"{address} (root) does not answer"


def _read(shown: NodeApi, answer: bytes) -> MembersDocument | str:
    """What a peer says is checked before anybody counts on it."""
    try:
        found = msgspec.json.decode(answer, type=MembersDocument)
    except UNREADABLE:
        return "answers something else: does it run this version?"
    position_of = shown.settings.network.position_of
    if any(position_of(each.address) != each.position for each in found.members):
        return "names nodes that are not of our network"
    return found


def _reigns_s(found: MembersDocument) -> float:
    """How long who was asked has been root."""
    return next((each.since_s for each in found.members if each.address == found.asked), 0.0)


def _present(shown: NodeApi, row: RosterRow) -> MemberDocument:
    return MemberDocument(
        address=_address(shown, row.position),
        position=row.position,
        level=_level(shown, row.position),
        standing=row.standing.value,
        leader=None if row.leader is None else _address(shown, row.leader),
        place=row.place.value,
        since_s=row.since_s,
    )


def _away(shown: NodeApi, each: Missed, now: float, standing: Literal["stale", "gone"]) -> MemberDocument:
    return MemberDocument(
        address=_address(shown, each.position),
        position=each.position,
        level=_level(shown, each.position),
        standing=standing,
        leader=None if each.leader is None else _address(shown, each.leader),
        place=None if each.place is None else each.place.value,
        since_s=now - each.at,
    )


def _address(shown: NodeApi, position: Position) -> str:
    return shown.settings.network.address_text_of(position)


def _level(shown: NodeApi, position: Position) -> int:
    return shown.settings.numbering.level_and_offset(position)[0]
