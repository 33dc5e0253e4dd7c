"""Trees of nodes with identities: what is believed, and what a liar, an intruder or an older release can cause."""

from __future__ import annotations

import msgspec
import pytest
from loops import over
from small_world import SmallWorld

from subord.core.carriage.documents import Document, Documents
from subord.core.edges import verification
from subord.core.events import Admission, Dropped, Pinned
from subord.core.identity.pins import Pin
from subord.core.members.membership import KEYS, Membership
from subord.core.members.register import Register
from subord.core.members.statements import Forget, forget_order
from subord.core.messages import Accept, Beat, Change, Goodbye, Guidance, Message, Stranger, Why
from subord.core.snapshots import roster
from subord.core.state.roster import OWN
from subord.core.view import Position
from subord.sim.world.identities import Identities
from subord.wire.codec import encode

SIZE, FANOUT = 15, 2
EVERY_S = 20.0


def tree(
    size: int = SIZE, *, bare: tuple[Position, ...] = (), strict: bool = False, known: bool = False
) -> SmallWorld:
    """A dense tree at rest; `bare` nodes have no identity."""
    world = SmallWorld.empty(FANOUT, "10.0.0.0/24")
    world.identities = Identities(world, 1, known=known, strict=strict, bare=bare)
    world.start_all(range(1, size + 1))
    world.run(EVERY_S)
    return world


def dropped(world: SmallWorld, reason: str) -> set[Position]:
    """The nodes that dropped something for this reason."""
    return {position for _, position, notice in world.notices if notice == Dropped(reason)}


def rows_of(world: SmallWorld, position: Position) -> dict[Position, Change]:
    return {p: claim.change for p, (_, claim) in world.nodes[position].roster.rows.items()}


def leaders(world: SmallWorld) -> dict[Position, Position]:
    return {position: world.leader_of(position) for position in world.nodes}


def unbound(world: SmallWorld, position: Position = 1) -> list[Position]:
    return sorted(row.position for row in roster(world.nodes[position], world.now).rows if not row.key)


# -- a cluster of one release ---------------------------------------------------------------------------------------


def test_each_row_at_the_root_carries_the_key_of_its_node() -> None:
    world = tree()
    rows = rows_of(world, 1)
    assert {p: row.key for p, row in rows.items()} == {p: world.identities.true_key_of(p) for p in range(1, SIZE + 1)}
    assert not any(row.exchange for row in rows.values()), "each has reported itself"
    assert world.shown(1).unbound == 0
    assert not any(isinstance(notice, Dropped) for _, _, notice in world.notices)


def test_the_row_of_a_node_that_was_just_accepted_carries_the_proof_of_its_proposal() -> None:
    world = tree(3)
    world.lossy = lambda source, _target, message: source == 4 and isinstance(message, Beat)
    world.start_all([4])
    world.run(0.3)
    row = rows_of(world, 1)[4]
    assert (row.key, row.leader) == (world.identities.true_key_of(4), 2)
    assert row.exchange


def test_each_row_is_verified_once_by_each_node_above_it_and_nothing_at_rest() -> None:
    world = tree()
    verified, signed = world.identities.verified.copy(), world.identities.signatures
    world.run(120)
    assert (world.identities.verified, world.identities.signatures) == (verified, signed)
    # Of each of the 14 nodes below: a proposal's row and its own; and messages of two subordinates.
    assert verified[1] <= 2 * (SIZE - 1) + 4


def test_a_beat_with_proofs_holds_as_many_rows_as_fit() -> None:
    world = tree(60)
    longest: list[int] = []
    world.on_message = lambda _s, _t, message, _copies: longest.append(
        len(message.changes) if isinstance(message, Beat) else 0
    )
    world.crash(1)
    world.start(1)
    world.run(EVERY_S)
    assert max(longest) == 7
    assert world.nodes[1].roster.live == 60


def test_a_vanished_node_is_shown_missing_by_what_it_signed() -> None:
    world = tree()
    world.vanish(8)
    world.run(12)
    row = rows_of(world, 1)[8]
    assert row.missing
    assert row.key == world.identities.true_key_of(8)
    assert dropped(world, "row_bad_proof") == set()


def test_a_vanished_node_whose_row_was_old_is_shown_missing_for_as_long_as_another() -> None:
    """Its leader is a new one, which has had the row with its age."""
    world = tree()
    leader, leaf = world.nodes[4], world.nodes[4].roster.rows[8][1].change
    keep_s = leader.context.timing.missing_keep_s
    leader.roster.state(8, msgspec.structs.replace(leaf, age_s=int(keep_s) + 1), world.now)
    world.kill(8)
    world.run_until(lambda: rows_of(world, 4)[8].missing, within_s=20)
    world.run(keep_s - 1)
    assert rows_of(world, 4)[8].missing
    world.run_until(lambda: 8 not in rows_of(world, 4), within_s=2)


# -- impostors ------------------------------------------------------------------------------------------------------

FALSE = {
    "without identity": "no_identity",
    "with a key of its own": "foreign_key",
    "with a proof of another message": "bad_proof",
}


def pose(world: SmallWorld, how: str, source: Position, target: Position, message: Message) -> Message:
    """The message as an impostor sends it."""
    signer = world.identities.intruder(source)
    node = world.nodes[target]
    match how:
        case "with a key of its own":
            other = type(node.context.identity)(
                source, world.identities.cluster, signer, node.context.identity.pins, world.now
            )
            return other.signed(target, message)  # type: ignore[arg-type]
        case "with a proof of another message":
            key = world.identities.true_key_of(source)
            return msgspec.structs.replace(message, key=key, proof=b"p" * 64)
    return message


@over(("how", "reason"), list(FALSE.items()))
def test_a_goodbye_in_the_name_of_a_neighbour_changes_nothing(how: str, reason: str) -> None:
    """To the leader, as one that moved; and to a subordinate, which would look for another leader."""
    for source, target, why in ((4, 2, Why.MOVED), (2, 4, Why.DISPLACED)):
        world = tree()
        before = leaders(world), rows_of(world, 1)
        world.tell(source, target, pose(world, how, source, target, Goodbye(1000, why)))
        world.run(5)
        assert dropped(world, reason) == {target}
        named = {each.address for each in world.shown(target).refusals}
        assert named == (set() if reason == "bad_proof" else {f"10.0.0.{source}"}), "a wrong proof names no node"
        assert (leaders(world), rows_of(world, 1)) == before


@over(("how", "reason"), list(FALSE.items()))
def test_an_acceptance_in_the_name_of_another_node_is_not_followed(how: str, reason: str) -> None:
    world = tree()
    node = world.nodes[4]
    node.search.propose(1)
    (request,) = node.search.requests
    accept = Accept(1000, request.exchange, Guidance(9, (1,), (), (), adrift=False))
    world.tell(1, 4, pose(world, how, 1, 4, accept)) if node.context.identity.pins.key_of(1) else None
    world.nodes[4].context.identity.pins.see(1, world.identities.true_key_of(1))
    world.tell(1, 4, pose(world, how, 1, 4, accept))
    assert reason in {notice.reason for _, p, notice in world.notices if p == 4 and isinstance(notice, Dropped)}
    assert world.leader_of(4) == 2


def test_another_host_at_an_address_is_refused_and_both_sides_say_why() -> None:
    world = tree(known=True)
    world.vanish(5)
    world.identities.seize(5)
    world.start(5)
    world.run(EVERY_S)
    assert world.leader_of(5) == 0
    assert 5 not in {p for p, row in rows_of(world, 1).items() if not row.missing}
    assert any("another key is pinned" in each.reason and each.by == "them" for each in world.shown(5).refusals)
    named = [each for p in (1, 2) for each in world.shown(p).refusals]
    assert any(each.address == "10.0.0.5" and each.by == "us" for each in named)
    assert {p: above for p, above in leaders(world).items() if p not in (5, 10, 11)} == {
        p: (p // 2) for p in range(1, SIZE + 1) if p not in (5, 10, 11)
    }, "no other node has moved"


def test_another_host_is_taken_once_an_operator_has_forgotten_the_former_one() -> None:
    world = tree()
    world.reuse(5)
    world.run(EVERY_S)
    assert world.leader_of(5) == 2
    assert rows_of(world, 1)[5].key == world.identities.true_key_of(5)


def test_a_late_message_of_a_host_that_was_replaced_pins_nothing_beside_an_edge_to_the_present_one() -> None:
    """Seed 1060: it pinned the former key, so the rows of the present host ended, which S4 forbids."""
    world = tree()
    former = world.identities.host_of(5)
    late = world.nodes[5].context.identity.signed(2, Goodbye(world.nodes[5].context.incarnation, Why.MOVED))
    above = world.nodes[2].context.identity.signed(5, Goodbye(world.nodes[2].context.incarnation, Why.DISPLACED))
    for position, message, neighbour in ((5, late, 2), (2, above, 5)):
        world.reuse(position)
        world.run(EVERY_S)
        node = world.nodes[neighbour]
        assert node.downlink.incarnation_of(position) > message.incarnation
        node.context.identity.pins.release(position, 1 << 52)
        world.tell(position, neighbour, message)
        assert node.context.identity.pins.key_of(position) == b""
        assert (world.leader_of(5), rows_of(world, 2)[5].key) == (2, world.identities.true_key_of(5))
    assert former.key != world.identities.true_key_of(5)


def test_a_host_with_its_clock_behind_is_listed_below_the_leader_of_the_former_one() -> None:
    """Seed 5297: the leader had pinned the new key, gave up the former host, and showed that one as missing. Its
    later incarnation hid the present host, which stood deeper in the branch, for `missing_keep_s`."""
    world = tree()
    world.vanish(9)
    world.identities.replace(9)
    world.lossy = lambda source, target, _message: source == 9 and target != 8
    world.start(9, known=(8,), incarnation=1)
    leader, key = world.nodes[4], world.identities.true_key_of(9)
    world.run_until(lambda: world.leader_of(9) == 8 and leader.context.identity.pins.key_of(9) == key, within_s=4)
    assert 9 in leader.downlink.slots.taken, "the former host is not given up yet"
    world.run_until(lambda: 9 not in leader.downlink.slots.taken, within_s=20)
    assert not any(claim.change.missing for claim in leader.roster.claims[OWN].values())
    world.run(3)
    for position in (4, 2, 1):
        row = rows_of(world, position)[9]
        assert (row.missing, row.leader, row.key) == (False, 8, key)


# -- liars ----------------------------------------------------------------------------------------------------------


def lies(world: SmallWorld, liar: Position, *rows: Change) -> None:
    """The next beats of a node also have these rows."""
    node = world.nodes[liar]
    leader = node.uplink.leader
    assert leader is not None
    number = node.context.next_number()
    world.tell(liar, leader.position, Beat(1000, leader.incarnation, number, 2000, leader.guidance.version, rows))


def test_a_leader_cannot_state_the_row_of_another_node() -> None:
    """2 says that 6, which 3 leads, stands below it; then that 4 has an incarnation of the far future."""
    world = tree()
    row = rows_of(world, 1)[6]
    lies(world, 2, msgspec.structs.replace(row, leader=2))
    lies(world, 2, msgspec.structs.replace(rows_of(world, 1)[4], incarnation=1 << 60))
    assert dropped(world, "row_bad_proof") == {1}
    assert rows_of(world, 1)[6] == row
    assert rows_of(world, 1)[4].incarnation == 1000


def test_rows_without_room_are_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """7 reports nodes that do not exist, signed with a key that it has made, again and again."""
    monkeypatch.setattr(verification, "UNTRIED_MAX", 8)
    monkeypatch.setattr(verification, "KEPT_MAX", 4)
    world = tree()
    identity = world.nodes[7].context.identity
    maker = type(identity)(7, world.identities.cluster, world.identities.intruder(7), identity.pins, world.now)
    before = world.identities.verified[3]
    for turn in range(40):
        for first in range(100, 121, 7):
            rows = (Change(first + each, 7, 1, 5000 + turn, 0, 0) for each in range(7))
            lies(world, 7, *map(maker.signed_row, rows))
    room = 8 // 2 + 4 - 3  # of its leader on the second level, without 7, 14 and 15
    assert world.identities.verified[3] - before == 40 * room
    assert dropped(world, "rows_untried") == {3}


def test_a_row_of_a_former_incarnation_has_no_effect() -> None:
    world = tree()
    former = rows_of(world, 1)[6]
    world.crash(6)
    world.start(6)
    world.run(EVERY_S)
    present = rows_of(world, 1)[6]
    assert present.incarnation == 2000
    lies(world, 2, former)
    assert rows_of(world, 1)[6] == present
    assert world.nodes[1].roster.rows[6][0] == 3


def test_an_unsigned_row_is_nothing_against_a_signed_one() -> None:
    world = tree()
    before = rows_of(world, 1)
    lies(world, 2, Change(6, 2, 1, 1000, 99, 0), Change(7, 2, 1, 1000, 0, 0, missing=True))
    assert rows_of(world, 1) == before


def test_rows_that_were_given_to_an_unused_address_end_when_its_node_comes() -> None:
    """5 invents 11 with a key of its own; 2 has never heard of 11."""
    world = tree(5)
    row = Change(11, 5, 1, 5000, 0, 0)
    signer = world.identities.intruder(11)
    identity = type(world.nodes[5].context.identity)
    intruder = identity(11, world.identities.cluster, signer, world.nodes[5].context.identity.pins, world.now)
    lies(world, 5, intruder.signed_row(row))
    assert rows_of(world, 2)[11].key == signer.key
    world.start_all([11])
    world.run(EVERY_S)
    assert rows_of(world, 2)[11].key == rows_of(world, 1)[11].key == world.identities.true_key_of(11)


def test_a_subordinate_with_other_pins_is_not_asked_again_and_again() -> None:
    """1 holds another key of 8 than 2 does; when an operator has forgotten 8, it is listed."""
    world = tree()
    pins = world.nodes[1].context.identity.pins
    pins.release(8, 1 << 40)
    pins.see(8, b"another key".ljust(32))
    world.run(3)
    assert 8 not in rows_of(world, 1)
    strangers: list[Message] = []
    world.on_message = lambda _s, _t, message, _c: (
        strangers.append(message) if isinstance(message, Stranger) else None
    )
    world.run(60)
    assert strangers == []
    assert world.shown(1).tables["unproven"] == 1
    assert pins.release(8, 1 << 41)
    world.run(EVERY_S)
    assert 8 in rows_of(world, 1)
    assert world.shown(1).tables["unproven"] == 0


# -- while a cluster is upgraded ------------------------------------------------------------------------------------


def test_the_rows_below_a_node_without_identity_are_listed_as_unbound() -> None:
    world = tree(bare=(2,))
    assert leaders(world) == {p: p // 2 for p in range(1, SIZE + 1)}
    assert unbound(world) == [2, 4, 5, 8, 9, 10, 11]
    assert world.shown(1).unbound == 7
    sent = world.sent.copy()
    world.run(60)
    assert world.sent["Stranger"] == sent["Stranger"], "both ends count the same rows"
    assert world.sent["Propose"] == sent["Propose"]
    assert unbound(world, 5) == [], "above the older release nothing is proven, below it everything"


@pytest.mark.slow
@over("bare", [(1,), (3, 5), tuple(range(1, SIZE + 1, 2)), tuple(range(2, SIZE + 1))])
def test_a_mixed_cluster_rests(bare: tuple[Position, ...]) -> None:
    world = tree(bare=bare)
    sent = world.sent.copy()
    world.run(60)
    assert leaders(world) == {p: p // 2 for p in range(1, SIZE + 1)}
    assert world.sent["Stranger"] == sent["Stranger"]
    assert world.nodes[1].roster.live == SIZE


def test_a_node_without_identity_passes_on_no_proof() -> None:
    """It cannot tell a wrong one, for which its own leader would name it."""
    world = tree(bare=(2,))
    lies(world, 4, Change(8, 4, 1, 1000, 5, 0, key=b"k" * 32, proof=b"p" * 64))
    world.run(5)
    assert not any(row.key for row in rows_of(world, 2).values())
    assert dropped(world, "row_bad_proof") == set()


def test_a_strict_cluster_takes_no_node_without_identity() -> None:
    world = tree(bare=(5,), strict=True)
    assert 5 not in rows_of(world, 1)
    assert 5 not in world.nodes[2].downlink.slots.taken
    assert any("strict" in each.reason for each in world.shown(5).refusals), "it says why"


def test_nodes_without_identity_are_dismissed_when_the_cluster_becomes_strict() -> None:
    world = tree(bare=(2, 5))
    for position in world.nodes:
        world.feed(position, Admission(strict=True))
    world.run(EVERY_S)
    living = {p for p, row in rows_of(world, 1).items() if not row.missing}
    assert living == set(range(1, SIZE + 1)) - {2, 5}, "their subordinates have other leaders"
    assert unbound(world) == []
    for position in world.nodes:
        world.feed(position, Admission(strict=False))
    world.run(60)
    assert world.nodes[1].roster.live == SIZE


def test_a_revoked_key_is_out_at_once_and_another_key_of_the_address_is_not() -> None:
    world = tree()
    revoked = frozenset({world.identities.true_key_of(2), world.identities.true_key_of(5)})
    for position in world.nodes:
        world.feed(position, Admission(strict=False, revoked=revoked))
    assert 2 not in world.nodes[1].downlink.slots.taken, "a subordinate"
    assert 5 not in rows_of(world, 1), "a node further down"
    assert world.nodes[4].uplink.leader is None, "a leader"
    world.run(EVERY_S)
    living = {p for p, row in rows_of(world, 1).items() if not row.missing}
    assert living == set(range(1, SIZE + 1)) - {2, 5}, "their subordinates have other leaders"
    assert any("revoked" in each.reason for each in world.shown(2).refusals), "it says why"
    for position in world.nodes:
        world.feed(position, Admission(strict=False))
    world.run(60)
    assert world.nodes[1].roster.live == SIZE


# -- pins -----------------------------------------------------------------------------------------------------------


def test_a_node_tells_which_keys_it_has_pinned() -> None:
    world = tree(3)
    told = {(p, notice.position) for _, p, notice in world.notices if isinstance(notice, Pinned)}
    assert told == {(1, 2), (1, 3), (2, 1), (3, 1)}
    assert {world.nodes[2].context.identity.pins.key_of(p) for p in (2, 3)} >= {world.identities.true_key_of(3)}


def membership(world: SmallWorld, position: Position) -> Membership:
    return Membership(Register(254), Documents(), pins=world.identities.pins_of(position))


def test_pins_spread_with_the_members_and_end_with_an_operators_forget() -> None:
    world = tree(3)
    one, wall_s = membership(world, 1), 1_800_000_000.0
    for _, position, notice in world.notices:
        if position == 1:
            one.observe(notice, world.now, wall_s)
    assert {pin.position for pin in one.exchange.replicas[KEYS].items()} >= {2, 3}
    assert one.pins is not None
    assert one.pins.key_of(2)
    said = Forget(((2, 2),), "replaced", "operator")
    one.documents.merge([Document(*forget_order("1", said, int(wall_s * 1000) + 5))])
    view = roster(world.nodes[1], world.now)
    one.look(view, (), world.now, wall_s + 10)
    assert not one.pins.key_of(2)
    assert one.pins.key_of(3)
    one.exchange.spread(KEYS, [Pin(2, int(wall_s * 1000) + 6, b"k" * 32)])
    one.look(view, (), world.now, wall_s + 20)
    assert one.pins.key_of(2) == b"k" * 32, "pinned after the statement"


def test_without_identities_no_message_grows() -> None:
    world = SmallWorld.dense(7, 2, "10.0.0.0/24")
    sizes: list[tuple[Message, int]] = []
    world.on_message = lambda _s, _t, message, _c: sizes.append((message, len(encode(message))))
    world.run(5)
    for message, size in sizes:
        fields = msgspec.msgpack.decode(encode(message)[2:])
        if isinstance(message, Beat):
            assert all(len(row) == 10 for row in fields[6])
        elif isinstance(message, Accept | Goodbye):
            assert len(fields) == 1 + len(type(message).__struct_fields__) - 2
        assert size == len(encode(message))
