"""What operators say about members: `forget` and `maintain`, as documents.

Inputs are documents and the register; outputs are the records of forgotten nodes, the nodes under maintenance, and
new orders. A node is forgotten if it was down when the operator said so; the root writes that into the register. Each
statement is a document of its own, so statements of two operators cannot conflict, and each has its own signature.
Invariant: a later version of a statement expires no earlier than the version that it replaces, which would else count
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec

from subord.core.carriage.documents import Documents, is_within_bounds
from subord.core.carriage.orders import Order
from subord.core.members.register import LEAP_MS_MAX, Record, Register, Run, State
from subord.core.view import Position

FORGET: Final = "forget"
MAINTAIN: Final = "maintain"
KEPT_MS: Final = 30 * 86_400_000
"""A forget, and an ended maintenance, reach nodes that are away for as long as this."""
MAINTAINED_MS: Final = 365 * 86_400_000
RANGES_MAX: Final = 512
POSITIONS_MAX: Final = 65_536
REASON_CHARS_MAX: Final = 200
AUTHOR_CHARS_MAX: Final = 64

Range = tuple[Annotated[Position, msgspec.Meta(ge=1)], Annotated[Position, msgspec.Meta(ge=1)]]
Ranges = Annotated[tuple[Range, ...], msgspec.Meta(min_length=1, max_length=RANGES_MAX)]
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_CHARS_MAX)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
Author = Annotated[str, msgspec.Meta(max_length=AUTHOR_CHARS_MAX)]


class Forget(msgspec.Struct, frozen=True):
    """These nodes, if down when it was said, are no longer expected. `by`: the operator, as the command names it."""

    nodes: Ranges
    reason: Reason
    by: Author


class Maintain(msgspec.Struct, frozen=True):
    """These nodes are under maintenance until `until_ms`; 0: until an operator ends it. `ended`: no longer."""

    nodes: Ranges
    reason: Reason
    by: Author
    until_ms: Milliseconds = 0
    ended: bool = False


class Maintenance(NamedTuple):
    """One that holds now, and when it was said."""

    at_ms: int
    name: str
    said: Maintain


class Forgotten(NamedTuple):
    """A `forget`, and when it was said."""

    at_ms: int
    name: str
    said: Forget


Statement = TypeVar("Statement", Forget, Maintain)
_decoders: dict[type, Callable[[bytes], object]] = {
    each: msgspec.msgpack.Decoder(each).decode for each in (Forget, Maintain)
}
_encode = msgspec.msgpack.Encoder().encode


def forget_order(tag: str, said: Forget, at_ms: int) -> Order:
    return Order(f"{FORGET}/{tag}", 1, at_ms, at_ms + KEPT_MS, _encode(said))


def maintain_order(tag: str, said: Maintain, at_ms: int, before: Order | None = None) -> Order:
    """Expires when no node that was away needs it any more. `before`: the version that it replaces."""
    version, end_ms = 1, 0
    if before is not None:
        version, at_ms, end_ms = before.version + 1, max(at_ms, before.at_ms), before.expires_ms
    kept_ms = said.until_ms + KEPT_MS if said.until_ms and not said.ended else at_ms + MAINTAINED_MS
    return Order(f"{MAINTAIN}/{tag}", version, at_ms, max(end_ms, kept_ms), _encode(said))


def forgotten(documents: Documents, register: Register, now_ms: int) -> list[Run]:
    """The records that are still to be written: nodes that are down since before an operator's `forget`.

    A statement of a clock far ahead waits: no node would take the record. The stamp of a node that is down is that of
    its last return, so `since_ms` tells a later death; clocks may differ by LEAP_MS_MAX.
    """
    found: list[Run] = []
    for document in documents.of_kind(FORGET):
        said, at_ms = _read(document.order, Forget), document.at_ms
        if said is None or at_ms > now_ms + LEAP_MS_MAX:
            continue
        for position in register.positions(State.DOWN):
            record = register.at(position)
            if record is None or not in_ranges(said.nodes, position):
                continue
            if record.stamp_ms < at_ms and record.since_ms <= at_ms + LEAP_MS_MAX:
                stamp_ms = max(at_ms, record.stamp_ms + 1)
                found.append(
                    Run(position, position, Record(stamp_ms, State.FORGOTTEN, record.since_ms, record.leader))
                )
    return found


def forgotten_at(documents: Documents, now_ms: int) -> Iterator[tuple[Position, int]]:
    """The nodes that operators forgot, and when. A statement of a clock far ahead waits."""
    for document in documents.of_kind(FORGET):
        said, at_ms = _read(document.order, Forget), document.at_ms
        if said is not None and at_ms <= now_ms + LEAP_MS_MAX:
            yield from ((p, at_ms) for first, last in said.nodes for p in range(first, last + 1))


def under_maintenance(documents: Documents, now_ms: int) -> list[Maintenance]:
    """The maintenances that hold at `now_ms`, oldest first."""
    found = []
    for document in documents.of_kind(MAINTAIN):
        said = _read(document.order, Maintain)
        if said is not None and not said.ended and (not said.until_ms or now_ms < said.until_ms):
            found.append(Maintenance(document.at_ms, document.name, said))
    return sorted(found, key=lambda each: each[:2])


def forgets(documents: Documents) -> list[Forgotten]:
    """What was forgotten, as far as the documents reach back, oldest first."""
    found = []
    for document in documents.of_kind(FORGET):
        said = _read(document.order, Forget)
        if said is not None:
            found.append(Forgotten(document.at_ms, document.name, said))
    return sorted(found, key=lambda each: each[:2])


def is_readable(order: Order) -> bool:
    """Whether other nodes read it: it is within all bounds."""
    return read(order) is not None and is_within_bounds(order)


def read(order: Order) -> Forget | Maintain | None:
    """What an order says; None: it is another one, or cannot be read."""
    match order.name.partition("/")[0]:
        case "forget":
            return _read(order, Forget)
        case "maintain":
            return _read(order, Maintain)
    return None


def ended(documents: Documents, ranges: Ranges, by: str, now_ms: int) -> tuple[list[Position], list[Order]]:
    """The nodes of `ranges` that are under maintenance, and the next versions of the documents, without them."""
    nodes: set[Position] = set()
    changed = []
    for _, name, said in under_maintenance(documents, now_ms):
        kept: list[Position] = []
        for position in (p for first, last in said.nodes for p in range(first, last + 1)):
            (kept.append if not in_ranges(ranges, position) else nodes.add)(position)
        rest = ranges_of(kept)
        if rest == said.nodes:
            continue
        is_over = not rest
        left = msgspec.structs.replace(said, nodes=said.nodes if is_over else rest, by=by, ended=is_over)
        old = documents.by_name[name]
        changed.append(maintain_order(old.tag, left, now_ms, old.order))
    return sorted(nodes), changed


def ranges_of(positions: Iterable[Position]) -> Ranges:
    """Ordered positions as ranges."""
    found: list[Range] = []
    for position in positions:
        if found and found[-1][1] + 1 == position:
            found[-1] = found[-1][0], position
        else:
            found.append((position, position))
    return tuple(found)


def size_of(ranges: Ranges) -> int:
    """The number of positions, each counted once."""
    size = end = 0
    for first, last in sorted(ranges):
        size += max(0, last - max(first - 1, end))
        end = max(end, last)
    return size


def covers(maintenances: Iterable[Maintenance], position: Position) -> Maintenance | None:
    """The maintenance of a node; None: it is under none."""
    return next((each for each in maintenances if in_ranges(each.said.nodes, position)), None)


def covered(maintenances: Iterable[Maintenance], register: Register, *states: State) -> list[Position]:
    """The nodes under maintenance that the register has in one of the states, in order.

    A maintenance of a node that is no member counts nowhere; it holds again when the node returns.
    """
    ranges = {each for maintenance in maintenances for each in maintenance.said.nodes}
    named = {position for first, last in ranges for position in range(first, last + 1)}
    return sorted(p for p in named if (record := register.at(p)) is not None and record.state in states)


def in_ranges(ranges: Ranges, position: Position) -> bool:
    """Whether one of the ranges has the position."""
    return any(first <= position <= last for first, last in ranges)


def _read(order: Order, form: type[Statement]) -> Statement | None:
    """None: of a later release, or beyond the bounds."""
    try:
        said = _decoders[form](order.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    assert isinstance(said, form)
    is_ordered = all(first <= last for first, last in said.nodes)
    return said if is_ordered and size_of(said.nodes) <= POSITIONS_MAX else None
