"""A member that lies: its messages are bounded, and faults are put down to it and not to its ancestors."""

from __future__ import annotations

import typing
from random import Random

import msgspec
import pytest
from liars import accused, lies
from loops import over
from small_world import SmallWorld

from subord.core.events import Dropped
from subord.core.messages import AGE_S_MAX, Accept, Beat, Change, Echo, Guidance, Message, Propose, Stranger, Terms
from subord.core.quantize import CLASS_MAX
from subord.core.search.requests import PROPOSALS_MAX
from subord.core.state.roster import Roster
from subord.core.view import Position
from subord.wire.codec import Fault, decode, encode

LIAR = 7
TOP = (1 << 64) - 1
COUNT_TOP = (1 << 32) - 1
YEAR_S = 366 * 86400.0


def aged(age_s: int) -> typing.Callable[[Message], Message]:
    """All rows of all beats get this age."""

    def lie(message: Message) -> Message:
        if not isinstance(message, Beat):
            return message
        rows = tuple(msgspec.structs.replace(row, age_s=age_s) for row in message.changes)
        return msgspec.structs.replace(message, changes=rows)

    return lie


@pytest.mark.slow
@over("age_s", [AGE_S_MAX - 1, AGE_S_MAX, AGE_S_MAX + 1, COUNT_TOP - 3, COUNT_TOP])
def test_an_age_that_overflows_counts_against_the_liar_alone(age_s: int) -> None:
    """3 leads the liar and 1 leads 3. Each passes on what it accepted, after some time."""
    world = SmallWorld.dense(15, 2, "10.0.0.0/24")
    blamed = accused(world)
    lies(world, LIAR, aged(age_s))
    world.run(60)
    assert set(blamed) <= {LIAR}
    assert (LIAR in blamed) == (age_s > AGE_S_MAX)
    roster = world.nodes[1].roster
    honest = set(range(1, 16)) - {LIAR, 14, 15}
    assert all(roster.is_live(position) for position in honest), "other branches are not affected"


def test_a_leader_that_answers_stranger_after_each_acceptance_is_not_asked_at_once_each_time() -> None:
    """2 has so many below it that it reports at once; 1 answers at once that it is a stranger."""
    world = SmallWorld.dense(60, 2, "10.0.0.0/24")
    world.run(20.0)
    asked_at: list[float] = []
    beats_at: list[float] = []

    def lie(source: Position, target: Position, message: Message, _copies: int) -> None:
        if (source, target) == (2, 1) and isinstance(message, Propose):
            asked_at.append(world.now)
        elif (source, target) == (2, 1) and isinstance(message, Beat):
            beats_at.append(world.now)
            world.after(0.0002, world.tell, 1, 2, Stranger(world.nodes[1].context.incarnation, message.number))

    world.on_message = lie
    world.lossy = lambda source, target, message: (source, target) == (1, 2) and isinstance(message, Echo)
    world.run(4.0)
    assert len(asked_at) > 5
    assert len(beats_at) < 2 * len(asked_at) + 60, "and gets few beats in vain"
    assert all(later > earlier + 0.99 for earlier, later in zip(asked_at, asked_at[PROPOSALS_MAX:], strict=False))


@over("delay_s", [0.0, 1.0, 3600.0, 100 * YEAR_S, 10_000 * YEAR_S])
def test_an_accepted_row_is_acceptable_again_after_any_delay(delay_s: float) -> None:
    highest = Change(TOP, TOP, 2, TOP, COUNT_TOP, AGE_S_MAX, True, *[CLASS_MAX] * 3)
    beat = Beat(TOP, TOP, TOP, 600_000, TOP, (highest,), (TOP,), True, COUNT_TOP)
    assert decode(encode(beat)) == beat
    roster = Roster(1)
    roster.report_everything()
    roster.state(2, highest, 0.0)
    _, rows, _ = roster.batch(delay_s)
    again = msgspec.structs.replace(beat, changes=rows)
    assert decode(encode(again)) == again
    assert rows[0] == highest


def highest_of(kind: type, chance: Random) -> object:  # noqa: PLR0911 - one return a type
    """The highest value of a field of this type, or some of them for a list."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        bounds = next(each for each in kind.__metadata__ if isinstance(each, msgspec.Meta))  # type: ignore[attr-defined]
        if arguments[0] is int:
            return TOP if bounds.lt is bounds.le is None else bounds.lt - 1 if bounds.lt is not None else bounds.le
        if arguments[0] is bytes:
            return b"\xff" * (bounds.max_length or 0)
        return highest_of(arguments[0], chance)
    if origin is tuple:
        # Positions that exist: the ingress drops others before anything is computed from them.
        return tuple(chance.sample(range(2, 15), 3)) if arguments[0] is not Change else (row_of(chance),)
    if kind is Guidance:
        return Guidance(TOP, (1,), (2, 5), (6,), adrift=False)
    if kind is Terms:
        return Terms("10.0.0.0/24", 2, 2, "ip", "complete", "lan")
    if kind is bool:
        return chance.random() < 0.5
    if isinstance(kind, type) and issubclass(kind, int):
        return list(kind)[-1] if kind is not int else TOP  # an enumeration
    if kind is str:
        return ""
    return highest_of(arguments[0], chance)  # a union with None


POSITIONS = {"leader", "position", "root", "home", "asker", "highest_guest", "swap"}


def row_of(chance: Random) -> Change:
    return Change(chance.randrange(4, 15), 3, 2, TOP, COUNT_TOP, AGE_S_MAX, False, *[CLASS_MAX] * 3)


@pytest.mark.slow
@over("kind", typing.get_args(Message))
@over("delay_s", [1.0, 70.0, 100 * YEAR_S])
def test_after_the_highest_numbers_all_that_is_said_is_acceptable(kind: type[msgspec.Struct], delay_s: float) -> None:
    """Each message with the highest number in each field, from all neighbours of 3; then time passes."""
    world = SmallWorld.dense(15, 2, "10.0.0.0/24")
    world.run(20)
    chance, spoken = Random(kind.__name__), []
    world.lossy = lambda source, _target, message: spoken.append((source, message)) is not None
    hints = typing.get_type_hints(kind, include_extras=True)
    for source in (1, 6, 7, 12):
        for _ in range(4):
            fields = {name: highest_of(hints[name], chance) for name in kind.__struct_fields__}
            fields |= {name: chance.randrange(1, 15) for name in POSITIONS & set(fields)}
            if chance.random() < 0.5:  # as an answer of the known incarnation
                fields |= {"incarnation": 1000} if "incarnation" in fields else {}
                fields |= {"leader_incarnation": 1000} if "leader_incarnation" in fields else {}
            world.tell(source, 3, kind(**fields))  # type: ignore[arg-type]
    world.jump(3, delay_s)
    world.run(30)
    assert spoken
    for source, message in spoken:
        assert decode(encode(message)) == message, f"{source} sends what cannot be read"
    assert not world.dropped[Fault.MALFORMED.value]


def test_a_leader_that_stands_below_us_by_its_own_word_is_not_followed() -> None:
    """A correct leader refuses a node on its own path."""
    world = SmallWorld.empty(2, "10.0.0.0/24")
    world.lossy = lambda _source, _target, _message: True
    world.start(4)
    node = world.nodes[4]
    (request, *_) = node.search.requests
    guidance = Guidance(1, (1, 4, request.position), (), (), adrift=False)
    world.tell(request.position, 4, Accept(1000, request.exchange, guidance))
    assert node.uplink.leader is None
    assert Dropped("loop") in world.noticed(Dropped, 4)
