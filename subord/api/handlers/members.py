"""The members of the cluster: the nodes that are in the tree, and those that should be.

Input: the roster of the root, and the register of members, which every node holds. Output: one row for each node that
is present, on its way, missing or gone. A list without the roster of the root says so in its note; it then has the
same members, and only this node's branch says more about them. A root that is too new to know all members says so,
too; to its list another node adds those that only its own register has.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from subord.api.models import nodes
from subord.api.models.fields import StatusDocument, WhyDocument
from subord.api.models.members import MemberDocument, MemberLiveness, MembersDocument, RosterDocument
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query.peer import ask_root
from subord.core.members import listing, statements
from subord.core.members.register import Record, State
from subord.core.members.statements import Maintenance
from subord.core.view import Place, Position, RosterRow, RosterView

PARTED_MAX = 512


async def of_cluster(node: NodeApi) -> MembersDocument:
    """The members of the whole tree, as the root lists them; else as the register of this node does."""
    found = await ask_root(node, "members", MembersDocument)
    if found is None:
        return own(node)
    if isinstance(found, MembersDocument):
        position_of = node.settings.network.position_of
        if any(position_of(each.address) != each.position for each in found.members):
            found = AskFailure(f"{found.asked} (root) names nodes of another network", "unreadable")
        elif found.complete:
            return found
        elif _is_of_root(found):
            return _with_register(found, registered(node))
    why = found.reason if isinstance(found, AskFailure) else found.note or f"{found.asked} is not the root any more"
    note = f"{why}: nodes that are not below {node.address} are as its register has them"
    return _document(node, node.roster(), listing.expected(node.tracker.membership.register), note)


def _is_of_root(found: MembersDocument) -> bool:
    """Whether the list is of a root, which may be too new to know all members."""
    return any(each.address == found.asked and each.place is Place.ROOT for each in found.members)


def _with_register(found: MembersDocument, own: MembersDocument) -> MembersDocument:
    """The list of a new root, and the nodes that only this node knows; what the root lists is as the root has it."""
    listed = {each.position for each in found.members}
    more = (each for each in own.members if each.position not in listed)
    members = tuple(sorted((*found.members, *more), key=lambda each: each.position))
    present = {each.address for each in members}
    parted = tuple(each for each in dict.fromkeys((*found.parted, *own.parted)) if each not in present)
    note = f"{found.note}: nodes that it does not list are as the register of {own.asked} has them"
    return msgspec.structs.replace(found, members=members, parted=parted[:PARTED_MAX], note=note)


def own(node: NodeApi) -> MembersDocument:
    """The members of this node's subtree; at the root these are all."""
    node.tracker.look()
    view = node.roster()
    away = {
        each.position: Record(0, State.UP, leader=each.leader or 0) for each in node.tracker.history.on_their_way()
    }
    if view.is_root:
        return _document(node, view, away | listing.expected(node.tracker.membership.register), _why_not_whole(node))
    rows = {row.position for row in view.rows}
    away |= {position: record for position, record in down(node).items() if record.leader in rows}
    return _document(node, view, away, f"{node.address} is not the root: these are below it")


def _why_not_whole(node: NodeApi) -> str | None:
    """Why the root may not know all members yet, nor which are down: it is new, and its register is what its disk
    had."""
    if node.orders.is_settled:
        return None
    return f"{node.address} (root) has only just become root, and may not know all members yet"


def registered(node: NodeApi) -> MembersDocument:
    """All members as the register has them: no question is asked, and only nodes below this one are known to live."""
    return _document(node, node.roster(), listing.expected(node.tracker.membership.register), None)


def down(node: NodeApi) -> dict[Position, Record]:
    """The nodes that are down by the register."""
    return listing.of_states(node.tracker.membership.register, State.DOWN)


def gone(node: NodeApi) -> tuple[MemberDocument, ...]:
    """The nodes that are down by the register, for those that are in no roster."""
    make = _Maker(node)
    return tuple(make.away(position, record) for position, record in down(node).items())


def reasons(node: NodeApi, roster: RosterDocument) -> dict[str, str]:
    """The reasons of the maintenances, by the addresses of the nodes of a roster."""
    maintenances = maintained(node)
    found = {}
    for row in roster.rows if maintenances else ():
        maintenance = statements.covers(maintenances, row.position)
        if maintenance is not None:
            found[row.address] = maintenance.said.reason
    return found


def status(node: NodeApi) -> StatusDocument:
    """What `subord status` prints: the node, and what it knows of the members."""
    found, down = nodes.status(node), node.tracker.membership.register.count(State.DOWN)
    return msgspec.structs.replace(found, down=down, maintenance=_reason_of(node, found.position))


def why(node: NodeApi) -> WhyDocument:
    """What `subord why` prints."""
    found = nodes.why(node.settings, node.why())
    return msgspec.structs.replace(found, maintenance=_reason_of(node, found.position))


def _reason_of(node: NodeApi, position: Position) -> str | None:
    """Of the maintenance of a node; None: it is under none."""
    maintenance = statements.covers(maintained(node), position)
    return None if maintenance is None else maintenance.said.reason


def maintained_addresses(node: NodeApi) -> Iterator[str]:
    """The addresses of members under maintenance."""
    found = statements.covered(maintained(node), node.tracker.membership.register, State.UP, State.DOWN)
    yield from map(node.settings.network.address_text_of, found)


def _document(node: NodeApi, view: RosterView, away: dict[Position, Record], note: str | None) -> MembersDocument:
    """The rows of a roster, and the nodes of `away` that are not among them."""
    make = _Maker(node)
    found = [make.present(row) for row in listing.rows(view, node.tracker.membership.register)]
    present = {row.position for row in view.rows}
    found += [make.away(position, record) for position, record in away.items() if position not in present]
    members = tuple(sorted(found, key=lambda each: each.position))
    parted = node.tracker.membership.register.positions(State.LEFT, State.FORGOTTEN)[:PARTED_MAX]
    return MembersDocument(
        asked=node.address,
        complete=note is None,
        note=note,
        members=members,
        parted=nodes.addresses(node.settings, parted),
    )


def is_forgotten(node: NodeApi, row: RosterRow) -> bool:
    """Whether an operator has forgotten a node, or it said goodbye, that its leader still reports as missing."""
    return listing.is_over(row, node.tracker.membership.register)


def expected_rows(node: NodeApi, roster: RosterDocument) -> RosterDocument:
    """The roster without missing nodes that are forgotten or said goodbye; their leaders report them for a while."""
    register = node.tracker.membership.register
    kept = (row.standing != "missing" or not listing.has_ended(register.at(row.position)) for row in roster.rows)
    rows = tuple(row for row, is_kept in zip(roster.rows, kept, strict=True) if is_kept)
    return msgspec.structs.replace(roster, rows=rows)


def maintained(node: NodeApi) -> list[Maintenance]:
    """The maintenances that hold now."""
    return statements.under_maintenance(node.tracker.membership.documents, node.tracker.wall_ms)


class _Maker:
    """Makes the rows of one answer."""

    def __init__(self, node: NodeApi) -> None:
        self._node = node
        self._settings = node.settings
        self._wall_ms = node.tracker.wall_ms
        self._maintenances = maintained(node)

    def present(self, row: RosterRow) -> MemberDocument:
        """A node of a roster."""
        return self._member(row.position, row.leader, row.liveness.value, row.since_s, row.place)

    def away(self, position: Position, record: Record) -> MemberDocument:
        """A node that is in no roster: down, or up by the register alone."""
        since_s = max(0.0, (self._wall_ms - record.since_ms) / 1000) if record.since_ms else None
        liveness: MemberLiveness = "gone" if record.state is State.DOWN else "stale"
        return self._member(position, record.leader or None, liveness, since_s)

    def _member(
        self,
        position: Position,
        leader: Position | None,
        liveness: MemberLiveness,
        since_s: float | None,
        place: Place | None = None,
    ) -> MemberDocument:
        maintenance = statements.covers(self._maintenances, position)
        address = self._settings.network.address_text_of(position)
        return MemberDocument(
            address=address,
            position=position,
            level=self._settings.numbering.level_and_offset(position)[0],
            standing=liveness,
            leader=nodes.address(self._settings, leader),
            place=place,
            since_s=since_s,
            maintenance=maintenance.said.reason if maintenance else None,
            identity=nodes.identity_of(self._node, address),
        )
