"""S14: what identities must prevent (docs/protocol.md, section 8).

Inputs are messages and the leaders, subordinates and rows of nodes; every one must have been signed by a host that
rightly has, or had, the address that it names. The contents are written here a second time, so a fault in the core
does not move them. Judged is a node that has an identity, on addresses whose keys it has pinned; where all keys are
known from the start, on all addresses.
"""

from __future__ import annotations

import msgspec

from subord.core.events import Event, Received
from subord.core.messages import Accept, Beat, Change, Goodbye, Message, Propose, Terms
from subord.core.node import Node
from subord.core.view import Position
from subord.sim.checkers.checker import Checker
from subord.sim.checkers.fingerprints import Fingerprint, is_changed
from subord.sim.world.identities import CLUSTER_NAME, Identities
from subord.sim.world.world import World

ROWS_LOOKED_AT_MAX = 64  # rosters up to this size are looked at after every change, larger ones every LOOK_EVERY
LOOK_EVERY = 64


def _content(world: World, kind: str, *fields: object) -> bytes:
    cluster = [CLUSTER_NAME, Terms.of(world.settings).network]
    return msgspec.msgpack.encode([f"subord 1 {kind}", cluster, *fields])


def _of_message(world: World, source: Position, target: Position, message: Message) -> bytes:
    ends = source, target, getattr(message, "incarnation", 0)
    match message:
        case Propose(exchange=exchange, wish=wish, standing=standing):
            return _content(world, "propose", *ends, exchange, int(wish), standing)
        case Accept(exchange=exchange, guidance=guidance):
            return _content(world, "accept", *ends, exchange, guidance.path)
        case Goodbye(why=why):
            return _content(world, "goodbye", *ends, int(why))
    raise AssertionError(f"{message} is not signed")


def _of_row(world: World, row: Change) -> bytes:
    if row.exchange:
        proposed = row.exchange, int(row.wish), row.standing
        return _content(world, "propose", row.position, row.leader, row.incarnation, *proposed)
    place = row.leader, row.place, row.incarnation, row.moves
    return _content(world, "row", row.position, *place, row.standing, row.performance)


def is_signed(world: World, source: Position, target: Position, message: Propose | Accept | Goodbye) -> bool:
    """Whether a host that rightly has, or had, the address of `source` has signed a message to `target`."""
    content = _of_message(world, source, target, message)
    return bool(message.key) and world.identities.has_signed(source, message.key, content)


def counts(world: World, source: Position, target: Position, message: Propose | Accept | Goodbye) -> bool:
    """Whether the message must be believed, or need not be signed; not one of a host that was replaced.

    A message that shows a key is believed by its proof alone, also where no key is pinned.
    """
    identities = world.identities
    if not identities.has_identity(target):
        return True
    pinned = identities.pins_of(target).key_of(source)
    is_free = not (pinned or identities.strict)
    if is_free and not message.key:
        return True
    content = _of_message(world, source, target, message)
    return (is_free or message.key == pinned) and identities.is_proof(message.key, content, message.proof)


class UnsignedChangesNothing(Checker):
    """A proposal, acceptance or goodbye that the named node has not signed changes nothing."""

    name = "S14"

    def before(self, world: World, position: Position, event: Event) -> object:
        if not isinstance(event, Received) or not isinstance(event.message, Propose | Accept | Goodbye):
            return None
        node, source = world.nodes.get(position), event.source
        if node is None or source is None or not must_sign(world, node, position, source):
            return None
        if is_signed(world, source, position, event.message):
            return None
        return Fingerprint.of(node), world.is_due(position)

    def after(self, world: World, position: Position, event: Event, _actions: object, token: object) -> None:
        node = world.nodes.get(position)
        if isinstance(token, tuple) and node is not None and is_changed(token[0], node, was_due=token[1]):
            self.complain(world, f"{position} was changed by what {event} names and has not signed")


class HeldIsSigned(Checker):
    """No node holds a leader, a subordinate or a row that the named node has not signed, or a row under another key
    than the one that it has pinned."""

    name = "S14"
    after_of = (Accept, Propose, Beat)  # what brings them

    def __init__(self) -> None:
        self._revisions: dict[Position, int] = {}
        self._edges: dict[Position, list[tuple[Position, bytes]]] = {}
        self._judged: set[tuple[object, ...]] = set()

    def after(self, world: World, position: Position, _event: Event, _actions: object, _token: object) -> None:
        node = world.nodes.get(position)
        if node is None or not world.identities.has_identity(position):
            return
        self._look_at_edges(world, position, node)
        roster = node.roster
        if roster.revision == self._revisions.get(position):
            return
        self._revisions[position] = roster.revision
        if len(roster.rows) <= ROWS_LOOKED_AT_MAX or roster.revision % LOOK_EVERY == 0:
            for via, claim in roster.rows.values():
                self._look_at_row(world, node, position, claim.change)
                if via in roster.claims:  # not of a branch that has just been dropped
                    self._look_at_key(world, node, position, claim.change)

    def _look_at_edges(self, world: World, position: Position, node: Node) -> None:
        leader, taken = node.uplink.leader, node.downlink.slots.taken
        held = [] if leader is None else [(leader.position, leader.key)]
        held += [(each.position, each.key) for each in taken.values()]
        if held == self._edges.get(position):
            return
        self._edges[position] = held
        for other, key in held:
            is_right = any(host.key == key for host in world.identities.hosts[other])
            if not is_right and must_sign(world, node, position, other):
                self.complain(world, f"{position} has an edge to {other} under a key that is not its own")

    def _look_at_key(self, world: World, node: Node, position: Position, row: Change) -> None:
        if row.key and row.key != (node.context.identity.pins.key_of(row.position) or row.key):
            self.complain(world, f"{position} lists {row}, under another key than the pinned one")

    def _look_at_row(self, world: World, node: Node, position: Position, row: Change) -> None:
        told = row.position, row.leader, row.place, row.incarnation, row.moves, row.standing, row.performance
        known = (*told, row.proof, row.exchange)
        if known in self._judged:
            return
        if not row.key and not world.identities.strict:
            return  # of an older release on the way, or of a node without identity
        identities: Identities = world.identities
        if identities.has_signed(row.position, row.key, _of_row(world, row)):
            self._judged.add(known)
        elif must_sign(world, node, position, row.position):
            self.complain(world, f"{position} lists {row}, which {row.position} has not signed")


def must_sign(world: World, node: Node, position: Position, other: Position) -> bool:
    """Whether `other` must prove itself to this node. Not where another host may have been the first one there."""
    identities = world.identities
    if not identities.has_identity(position) or not node.context.identity.is_on:
        return False
    if other in world.unjudged and not identities.known:
        return False
    return bool(identities.pins_of(position).key_of(other)) or identities.strict
