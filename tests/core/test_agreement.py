"""A flipped bit in a well-formed datagram is repaired within a few beats (docs/protocol.md, section 5).

Seven nodes with fan-out 2 are at rest; one message arrives with one field changed. Afterwards every leader lists what
its subordinates list, and every node holds the guidance of its leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from loops import over
from small_world import SmallWorld

from subord.core.edges.agreement import guidance_differs
from subord.core.edges.leader import NO_GUIDANCE
from subord.core.events import Dropped
from subord.core.messages import Beat, Change, Echo, Guide, Message, Propose
from subord.core.state.roster import OWN, Roster
from subord.core.view import Position
from subord.wire.codec import encode

REST_S = 30.0
BEATS = 4
FLIP = 1 << 4
HIGH = 1 << 40

M = TypeVar("M", bound=msgspec.Struct)


def replaced(struct: M, **fields: Any) -> M:
    return msgspec.structs.replace(struct, **fields)


def flip_once(
    world: SmallWorld, source: Position, target: Position, flip: Callable[[Message], Message | None]
) -> None:
    """Replace the next message from `source` to `target` for which `flip` returns another one."""
    done: list[Message] = []

    def lossy(sender: Position, receiver: Position, message: Message) -> bool:
        flipped = None if done or (sender, receiver) != (source, target) else flip(message)
        if flipped is None:
            return False
        done.append(flipped)
        world.after(0.0002, world.deliver, source, target, encode(flipped))
        return True

    world.lossy = lossy
    world.run_until(lambda: bool(done), within_s=10.0)


def without_age(change: Change) -> tuple[Any, ...]:
    return msgspec.structs.astuple(replaced(change, age_s=0))


def agree(world: SmallWorld) -> bool:
    """Whether every leader lists what its subordinates list, and every node holds its leader's guidance."""
    for position, node in world.nodes.items():
        leader = node.uplink.leader
        if leader is None:
            continue
        above = world.nodes[leader.position]
        theirs = {
            without_age(row) for row in (claim.change for claim in above.roster.claims.get(position, {}).values())
        }
        if theirs != {without_age(claim.change) for _, claim in node.roster.rows.values()}:
            return False
        if leader.guidance != above.downlink.guidance():
            return False
    return world.whole()


def at_rest() -> SmallWorld:
    world = SmallWorld.dense(7, 2)
    world.run(REST_S)
    assert agree(world)
    return world


def assert_repaired(world: SmallWorld) -> None:
    world.lossy = lambda _s, _t, _m: False
    interval_s = world.settings.timing.beat_interval_s
    world.run_until(lambda: agree(world), within_s=1.1 * BEATS * interval_s)
    world.run(2 * interval_s)
    assert agree(world), "still repaired after a while"


@over(
    "fields", [{"position": 6 ^ 16}, {"leader": 3 ^ 4}, {"incarnation": 1000 ^ FLIP}, {"moves": 5}, {"missing": True}]
)
def test_a_flipped_row_of_a_report_is_repaired(fields: dict[str, Any]) -> None:
    """6 restarts, and the report of 3 to 1 about it is damaged."""
    world = at_rest()
    world.crash(6)
    world.start(6)

    def flip(message: Message) -> Message | None:
        if not isinstance(message, Beat) or not any(change.position == 6 for change in message.changes):
            return None
        rows = (replaced(each, **fields) if each.position == 6 else each for each in message.changes)
        return replaced(message, changes=tuple(rows))

    flip_once(world, 3, 1, flip)
    assert_repaired(world)


def test_a_flipped_gone_of_a_report_is_repaired() -> None:
    world = at_rest()
    world.crash(6)

    def flip(message: Message) -> Message | None:
        if not isinstance(message, Beat) or not message.gone:
            return None
        return replaced(message, gone=(7,))

    world.run(1.0)
    world.nodes[3].roster.retract(OWN, 6, world.now)  # no longer shown as missing
    flip_once(world, 3, 1, flip)
    assert_repaired(world)


def test_a_flipped_number_of_a_beat_is_repaired() -> None:
    """Beats with a lower number count as overtaken, so without repair their rows were never taken."""
    world = at_rest()
    flip_once(
        world,
        3,
        1,
        lambda message: replaced(message, number=message.number + HIGH) if isinstance(message, Beat) else None,
    )
    world.crash(6)
    world.start(6)
    assert_repaired(world)


def test_a_flipped_exchange_of_a_proposal_is_repaired() -> None:
    """A leader that restarted gets a proposal; its answer does not match, and later beats have lower numbers."""
    world = at_rest()
    world.crash(1)
    world.start(1)
    flip_once(
        world,
        3,
        1,
        lambda message: replaced(message, exchange=message.exchange + HIGH) if isinstance(message, Propose) else None,
    )
    assert_repaired(world)


GUIDANCE_FLIPS: list[dict[str, Any]] = [
    {"version": HIGH},
    {"path": (1, 2)},
    {"alternates": (5,)},
    {"siblings": ()},
    {"adrift": True},
]


@over("fields", GUIDANCE_FLIPS)
def test_flipped_guidance_of_an_echo_is_repaired(fields: dict[str, Any]) -> None:
    world = at_rest()
    leader = world.nodes[7].uplink.leader
    assert leader is not None
    leader.guidance = NO_GUIDANCE  # so 7 asks for it

    def flip(message: Message) -> Message | None:
        if not isinstance(message, Echo) or message.guidance is None:
            return None
        return replaced(message, guidance=replaced(message.guidance, **fields))

    flip_once(world, 3, 7, flip)
    world.run_until(lambda: not agree(world), within_s=1.0)
    assert_repaired(world)


@over("fields", GUIDANCE_FLIPS)
def test_flipped_guidance_of_a_guide_is_repaired(fields: dict[str, Any]) -> None:
    world = at_rest()
    three = world.nodes[3]
    guidance = three.downlink.guidance()
    told = replaced(guidance, **({"version": guidance.version + 1} | fields))
    world.tell(3, 7, Guide(three.context.incarnation, told))
    assert not agree(world)
    assert_repaired(world)


def test_nothing_is_reported_anew_where_nothing_differs() -> None:
    world = at_rest()
    world.vanish(3)
    world.run(REST_S)
    world.start_all([3])
    world.run(REST_S)
    assert agree(world)
    assert not [each for each in world.noticed(Dropped) if each.reason in ("rows_differ", "out_of_step")]


def test_the_digest_of_rows_is_that_of_the_rows_however_they_came() -> None:
    one, other = Roster(3), Roster(3)
    row, later = Change(6, 3, 1, 1000, 0, 0), Change(6, 3, 1, 2000, 1, 7)
    one.state(6, row, 0.0)
    one.state(6, later, 1.0)
    one.state(7, Change(7, 3, 1, 1000, 0, 0), 1.0)
    one.retract(7, 7, 2.0)
    other.state(6, replaced(later, age_s=0), 5.0)
    assert (one.digest, one.digests[6]) == (other.digest, other.digests[6])
    assert one.digest != 0
    one.drop(6, 3.0)
    assert (one.digest, one.digests[6], one.digests[7]) == (0, 0, 0)


def test_the_same_change_of_two_rows_changes_the_digest() -> None:
    """Two nodes move from 3 to 5: the same change in both rows."""
    one, other = Roster(1), Roster(1)
    for position in (6, 7):
        one.state(3, Change(position, 3, 1, 1000, 0, 0), 0.0)
        other.state(3, Change(position, 5, 1, 1000, 0, 0), 0.0)
    assert one.digest != other.digest


def test_a_beat_without_digest_is_judged_by_the_version_alone() -> None:
    """Of an earlier release."""
    guidance = NO_GUIDANCE
    beat = Beat(1, 1, 1, 1000, guidance.version, ())
    assert not beat.guidance_digest
    assert not guidance_differs(beat, guidance)
    assert guidance_differs(replaced(beat, guidance_seen=guidance.version + 1), guidance)
