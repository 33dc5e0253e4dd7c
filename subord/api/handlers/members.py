"""The members of the cluster: the nodes that are in the tree, and those that should be.

Input: the roster and the history of the root, or of this node where the root does not answer. Output: one row for
each node that is present, on its way, missing or gone. A list that is incomplete or old says so in its note.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
import trio

from subord.api.models.fields import MemberDocument, MembersDocument
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.core.view import Position, RosterRow
from subord.runtime.state.history import REMEMBER_S, SETTLE_S, Missed
from subord.wire.codec import UNREADABLE

ASK_S_MAX = 0.8
ROOT_SINCE_S_OFF = 2.0
"""Two measurements of the time at which a node became root differ by less than this."""


def own(node: NodeApi) -> MembersDocument:
    """The members of this node's subtree; at the root these are all."""
    node.attendance.look()
    view, now = node.roster(), trio.current_time()
    history = node.attendance.register
    rows = {row.position for row in view.rows}
    missed = [each for each in history.missed(now) if each.position not in rows]
    found = [_present(node, row) for row in view.rows]
    found += [_away(node, each, now, "stale") for each in history.on_their_way() if each.position not in rows]
    found += [_away(node, each, now, "gone") for each in missed]
    return MembersDocument(
        asked=node.address,
        complete=view.is_root,
        note=None if view.is_root else f"{node.address} is not the root: these are below it",
        members=tuple(sorted(found, key=lambda each: each.position)),
        parted=tuple(_address(node, position) for position in history.parted(now)),
    )


class Cluster:
    """The members of the whole tree as one node learns of them.

    It remembers the last complete list, for when there is no other. A new root may not know the missing nodes of the
    old root, nor the old root itself. A node that was on the list of the old root and is not on that of the new one
    is therefore `gone`.
    """

    def __init__(self, node: NodeApi, now: Callable[[], float] = trio.current_time) -> None:
        self._node = node
        self._now = now
        self._last: MembersDocument | None = None
        self._last_at = 0.0
        self._root_since = ("", 0.0)
        self._of_previous_root: dict[str, tuple[MemberDocument, float]] = {}
        self._settled: MembersDocument | None = None
        self._settled_at = 0.0

    async def settled(self) -> MembersDocument | str:
        """The last list of a node that has been root for `SETTLE_S`; or the reason why there is none.

        For readers that act upon the list: a node that has just started or become root does not know all nodes yet.
        """
        found = await self.members()
        if self._settled is not None and self._now() - self._settled_at >= REMEMBER_S:
            self._settled = None
        if not found.complete:
            return self._settled or f"the whole tree is not known: {found.note}"
        if _root_for_s(found) >= SETTLE_S:
            self._settled, self._settled_at = found, self._now()
        return self._settled or f"{found.asked} has only just become root and may not know all nodes yet"

    async def members(self) -> MembersDocument:
        """The list of the root; else the last one that could be had; else this subtree's. Within `ASK_S_MAX`."""
        found = await self._asked()
        if isinstance(found, MembersDocument) and found.complete:
            self._last, self._last_at = self._with_previous(found), self._now()
            return self._last
        why = found if isinstance(found, str) else f"{found.asked} is not the root any more"
        if self._last is None:
            note = f"{why}: these are below {self._node.address}"
            return msgspec.structs.replace(own(self._node), complete=False, note=note)
        note = f"{why}: this is the last whole list, {self._now() - self._last_at:.0f} s old"
        return msgspec.structs.replace(self._last, complete=False, note=note)

    def _with_previous(self, found: MembersDocument) -> MembersDocument:
        """The list of the root, and the nodes of the previous root's list for as long as they are remembered."""
        now, root_for_s = self._now(), _root_for_s(found)
        root, since = self._root_since
        self._root_since = found.asked, now - root_for_s
        if self._last is not None and (root != found.asked or now - root_for_s - since > ROOT_SINCE_S_OFF):
            for each in self._last.members:
                away_s = each.since_s if each.standing in {"missing", "gone"} else 0.0
                self._of_previous_root.setdefault(each.address, (each, self._last_at - away_s))
        for address in [a for a, (_, at) in self._of_previous_root.items() if now - at >= REMEMBER_S]:
            del self._of_previous_root[address]
        for address in (*found.parted, *(each.address for each in found.members)):
            self._of_previous_root.pop(address, None)
        if not self._of_previous_root:
            return found
        standing: Literal["stale", "gone"] = "gone" if root_for_s >= SETTLE_S else "stale"  # perhaps on their way
        previous = [
            msgspec.structs.replace(each, standing=standing, since_s=now - at)
            for each, at in self._of_previous_root.values()
        ]
        merged = sorted([*found.members, *previous], key=lambda each: each.position)
        return msgspec.structs.replace(found, members=tuple(merged))

    async def _asked(self) -> MembersDocument | str:
        node = self._node
        root = node.snapshot().root
        if root is None:
            return f"{node.address} knows no root just now"
        address = node.settings.network.address_text_of(root)
        if address == node.address:
            return own(node)
        with trio.move_on_after(ASK_S_MAX):
            answer = await node.ask(address, Question("members"), ASK_S_MAX)
            found = answer.reason if isinstance(answer, AskFailure) else _read(node, answer)
            return f"{address} (root) {found}" if isinstance(found, str) else found
        return f"{address} (root) does not answer"


def _read(node: NodeApi, answer: bytes) -> MembersDocument | str:
    """Checks the answer of another node."""
    try:
        found = msgspec.json.decode(answer, type=MembersDocument)
    except UNREADABLE:
        return "answers something else: does it run this version?"
    position_of = node.settings.network.position_of
    if any(position_of(each.address) != each.position for each in found.members):
        return "names nodes of another network"
    return found


def _root_for_s(found: MembersDocument) -> float:
    """How many seconds the asked node has been root."""
    return next((each.since_s for each in found.members if each.address == found.asked), 0.0)


def _present(node: NodeApi, row: RosterRow) -> MemberDocument:
    return MemberDocument(
        address=_address(node, row.position),
        position=row.position,
        level=_level(node, row.position),
        standing=row.standing.value,
        leader=None if row.leader is None else _address(node, row.leader),
        place=row.place.value,
        since_s=row.since_s,
    )


def _away(node: NodeApi, each: Missed, now: float, standing: Literal["stale", "gone"]) -> MemberDocument:
    return MemberDocument(
        address=_address(node, each.position),
        position=each.position,
        level=_level(node, each.position),
        standing=standing,
        leader=None if each.leader is None else _address(node, each.leader),
        place=None if each.place is None else each.place.value,
        since_s=now - each.at,
    )


def _address(node: NodeApi, position: Position) -> str:
    return node.settings.network.address_text_of(position)


def _level(node: NodeApi, position: Position) -> int:
    return node.settings.numbering.level_and_offset(position)[0]
