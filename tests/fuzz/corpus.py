"""Invalid datagrams, made from a seed: real messages of every kind, spoiled in one of WAYS.

    chance = Random(7)
    way, data = spoiled(chance, numbers=(3, 4))

The same state of `chance` gives the same datagram. Some datagrams stay well-formed and are false: these reach the
core.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from subord.core.messages import (
    Accept,
    Advice,
    Announce,
    Ask,
    Back,
    Beat,
    Change,
    Echo,
    Errand,
    Goodbye,
    Guidance,
    Guide,
    Meet,
    Message,
    No,
    Pong,
    Probe,
    Propose,
    Refuse,
    Stranger,
    Terms,
    Versions,
    Why,
    Wish,
)
from subord.wire.codec import DATAGRAM_BYTES_MAX, HEADER, encode

BYTES_MAX = 1300  # of random noise: a little more than the wire allows
DEPTH_MAX = 1200
TOP = (1 << 64) - 1
TERMS = Terms("10.0.0.0/24", 2, 2, "ip", "complete", "lan")
POSITIONS = (1, 2, 3, 4, 5, 6, 7, 12, 13, 60, 61, 254)
Numbers = Sequence[int]
Built = Any  # lists, numbers, texts and `msgspec.Raw`: the decoded form of a message

# -- real messages --------------------------------------------------------------------------------------------------


class Draw:
    """Draws the fields of one message: incarnation, number, positions and rows."""

    def __init__(self, chance: Random, numbers: Numbers) -> None:
        self.chance = chance
        self.life = chance.choice((1000, 1000, 1000, 999, 2000))
        self.number = chance.choice(numbers)

    def one(self) -> int:
        """Mostly a position that the receiver knows; sometimes one outside its network."""
        return self.chance.choice(POSITIONS) if self.chance.random() < 0.7 else self.chance.randint(1, 260)

    def some(self, length_max: int = 4) -> tuple[int, ...]:
        return tuple(self.one() for _ in range(self.chance.randint(0, length_max)))

    def maybe(self) -> bool:
        return self.chance.random() < 0.3

    def guidance(self) -> Guidance:
        return Guidance(self.chance.randrange(9), self.some(), self.some(), self.some(), self.maybe())

    def changes(self) -> tuple[Change, ...]:
        draw = self.chance.randrange
        return tuple(
            Change(p, self.one(), draw(3), 1000, draw(4), 0, self.maybe(), draw(256), draw(256), draw(256))
            for p in self.some(11)
        )


REAL: tuple[Callable[[Draw], Message], ...] = (
    lambda draw: Propose(draw.life, draw.number, TERMS, draw.chance.choice(list(Wish))),
    lambda draw: Accept(draw.life, draw.number, draw.guidance()),
    lambda draw: Refuse(draw.life, draw.number, draw.chance.choice(list(No)), "full", 5, draw.some(), draw.one()),
    lambda draw: Ask(draw.life, draw.number, TERMS, draw.one() if draw.maybe() else 0),
    lambda draw: Advice(draw.life, draw.number, draw.maybe(), draw.one(), draw.some(), draw.one()),
    lambda draw: Back(draw.life, draw.one()),
    lambda draw: Beat(
        draw.life, 1000, draw.number, 2751, draw.chance.randrange(3), draw.changes(), draw.some(), draw.maybe()
    ),
    lambda draw: Echo(draw.life, draw.number, draw.guidance() if draw.maybe() else None),
    lambda draw: Stranger(draw.life, draw.number),
    lambda draw: Guide(draw.life, draw.guidance()),
    lambda draw: Goodbye(draw.life, draw.chance.choice(list(Why)), draw.some()),
    lambda draw: Announce(draw.life, TERMS),
    lambda draw: Errand(draw.life, draw.number, draw.some()),
    lambda draw: Meet(draw.life, draw.one()),
    lambda draw: Probe(draw.life, draw.one()),
    lambda draw: Pong(draw.life, draw.one(), draw.one(), 7),
    lambda draw: Versions((1, draw.chance.randrange(256))),
)


def real(chance: Random, numbers: Numbers = (1,)) -> Message:
    """A message as a neighbour may send it; `numbers` are those that the receiver waits for."""
    return chance.choice(REAL)(Draw(chance, numbers))


# -- decoded messages -----------------------------------------------------------------------------------------------


def _built(chance: Random, numbers: Numbers) -> list[Built]:
    built: list[Built] = msgspec.to_builtins(real(chance, numbers))
    return built


def _pack(built: Built) -> bytes:
    return HEADER + msgspec.msgpack.encode(built)


def _slots(built: list[Built]) -> Iterator[tuple[list[Built], int]]:
    """Every place in a message that holds a value, except for the number of its kind."""
    open_lists = [(built, 1)]
    while open_lists:
        inside, first = open_lists.pop()
        for index in range(first, len(inside)):
            yield inside, index
            if isinstance(inside[index], (list, tuple)):
                inside[index] = list(inside[index])
                open_lists.append((inside[index], 0))


def _replaced(chance: Random, numbers: Numbers, by: Callable[[Built], Built], kinds: type | None = None) -> bytes:
    """A real message with another value in one place; in one of `kinds`, if there is one."""
    built = _built(chance, numbers)
    slots = list(_slots(built))
    fitting = [(inside, at) for inside, at in slots if kinds is None or type(inside[at]) is kinds]
    inside, at = chance.choice(fitting or slots)
    inside[at] = by(inside[at])
    return _pack(built)


# -- ways -----------------------------------------------------------------------------------------------------------


def cut(chance: Random, numbers: Numbers) -> bytes:
    data = encode(real(chance, numbers))
    return data[: chance.randrange(len(data))]


def smudged(chance: Random, numbers: Numbers) -> bytes:
    data = bytearray(encode(real(chance, numbers)))
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        bit = chance.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def overwritten(chance: Random, numbers: Numbers) -> bytes:
    data = bytearray(encode(real(chance, numbers)))
    for _ in range(chance.randint(1, 6)):
        data[chance.randrange(2, len(data))] = chance.randrange(256)
    return bytes(data)


def glued(chance: Random, numbers: Numbers) -> bytes:
    """The beginning of one, and the end of another."""
    one, other = (encode(real(chance, numbers)) for _ in range(2))
    return one[: chance.randint(2, len(one))] + other[chance.randrange(len(other)) :]


def followed(chance: Random, numbers: Numbers) -> bytes:
    """A whole message and trailing bytes."""
    return encode(real(chance, numbers)) + chance.choice((b"\0", b"\xc0", encode(real(chance)), chance.randbytes(9)))


NEST = (b"\x91", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01", b"\x81\xa1x", b"\x81\x01", b"\xde\x00\x01\xc0")


def deep(chance: Random, numbers: Numbers) -> bytes:
    """Nested lists or maps instead of the message or of a value in it."""
    nest = chance.choice(NEST) * chance.randint(2, DEPTH_MAX)
    room = DATAGRAM_BYTES_MAX - 100 if chance.random() < 0.9 else BYTES_MAX
    nested = msgspec.Raw(nest[:room] + b"\x01")
    return _pack(nested) if chance.random() < 0.3 else _replaced(chance, numbers, lambda _: nested)


LENGTHS = (b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9")  # list, map, text, bytes, extension, each with 32 bits
HALF_LENGTHS = (b"\xdc", b"\xde", b"\xda", b"\xc5", b"\xc8")  # the same with 16


def huge(chance: Random, numbers: Numbers) -> bytes:
    """A value with a declared length far beyond the datagram."""
    if chance.random() < 0.5:
        claim = chance.choice(LENGTHS) + struct.pack(
            ">I", chance.choice((1 << 16, 1 << 24, (1 << 31) - 1, 0xFFFFFFFF))
        )
    else:
        claim = chance.choice(HALF_LENGTHS) + struct.pack(">H", chance.choice((999, 1 << 15, 0xFFFF)))
    raw = msgspec.Raw(claim * chance.choice((1, 1, 2, 50)) + chance.randbytes(chance.randrange(9)))
    return _replaced(chance, numbers, lambda _: raw)


NAN = msgspec.Raw(b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00")
FLOATS = (
    0.0, -0.0, 1.0, 1000.0, 1.5, -1.5, 1e308, 5e-324, float("inf"), float("-inf"), NAN,
    msgspec.Raw(b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x01"), msgspec.Raw(b"\xca\x7f\xc0\x00\x00"),
)  # fmt: skip
TYPES = (None, True, False, "", "1", "1000", b"", b"\x01", [], [1], [[]], {}, {"a": 1}, {1: 1}, *FLOATS)


def retyped(chance: Random, numbers: Numbers) -> bytes:
    other = chance.choice(TYPES)
    return _replaced(chance, numbers, lambda _: other)


def floating(chance: Random, numbers: Numbers) -> bytes:
    number = chance.choice(FLOATS)
    return _replaced(chance, numbers, lambda _: number, int)


BEYOND = (
    -1, -32, -33, -(1 << 7) - 1, -(1 << 31) - 1, -(1 << 63), 0, 3, 5, 255, 256, 1001, 600_001, (1 << 32) - 1,
    1 << 32, (1 << 63) - 1, 1 << 63, TOP,
)  # fmt: skip


def out_of_range(chance: Random, numbers: Numbers) -> bytes:
    number = chance.choice(BEYOND)
    return _replaced(chance, numbers, lambda _: number, int)


def lengthened(chance: Random, numbers: Numbers) -> bytes:
    """A list longer than any message allows."""
    times = chance.choice((9, 17, 25, 65, 200, 400))

    def longer(inside: Built) -> Built:
        return (inside if isinstance(inside, list) and inside else [1]) * times

    return _replaced(chance, numbers, longer, list)[:BYTES_MAX]


def wordy(chance: Random, numbers: Numbers) -> bytes:
    text = chance.choice(("x", "\0", "\n", "ü", "\U0001f600")) * chance.choice((1, 100, 201, 301, 600))
    return _replaced(chance, numbers, lambda _: text, str)[:BYTES_MAX]


UTF8_FAULTS = (b"\xff", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"a\xfe")


def illegible(chance: Random, numbers: Numbers) -> bytes:
    """Text that is not UTF-8."""
    fault = chance.choice(UTF8_FAULTS)
    raw = msgspec.Raw(bytes((0xA0 + len(fault),)) + fault)
    return _replaced(chance, numbers, lambda _: raw, str if chance.random() < 0.7 else None)


def extended(chance: Random, numbers: Numbers) -> bytes:
    """MessagePack extensions, including the timestamp (-1), valid and invalid."""
    code = chance.choice((0xFF, 0, 1, 127))
    size, head = chance.choice(
        ((1, b"\xd4"), (2, b"\xd5"), (4, b"\xd6"), (8, b"\xd7"), (16, b"\xd8"), (12, b"\xc7\x0c"))
    )
    raw = msgspec.Raw(head + bytes((code,)) + chance.randbytes(size))
    return _replaced(chance, numbers, lambda _: raw)


def doubled_keys(chance: Random, numbers: Numbers) -> bytes:
    """A map with repeated keys, instead of the message or of a value in it."""
    built = _built(chance, numbers)
    key = chance.choice((b"\xa4type", b"\x01", b"\xa8position", b"\xc0", b"\xa0"))
    pairs = [key + msgspec.msgpack.encode(chance.choice(built)) for _ in range(chance.randint(2, 15))]
    raw = msgspec.Raw(bytes((0x80 + len(pairs),)) + b"".join(pairs))
    return _pack(raw) if chance.random() < 0.3 else _replaced(chance, numbers, lambda _: raw)


def unknown_kind(chance: Random, numbers: Numbers) -> bytes:
    built = _built(chance, numbers)
    built[0] = chance.choice((0, 13, 99, 255, 1 << 32, TOP, -1, None, "Beat", 1.0, [7], True))
    return _pack(built)


def other_kind(chance: Random, numbers: Numbers) -> bytes:
    """The fields of one kind with the number of another."""
    built = _built(chance, numbers)
    built[0] = chance.randint(1, len(REAL))
    return _pack(built)


def more_or_fewer(chance: Random, numbers: Numbers) -> bytes:
    built = _built(chance, numbers)
    if chance.random() < 0.5:
        return _pack(built[: chance.randrange(len(built))])
    return _pack([*built, *(chance.choice(TYPES) for _ in range(chance.randint(1, 5)))])


def shuffled(chance: Random, numbers: Numbers) -> bytes:
    built = _built(chance, numbers)
    fields = built[1:]
    chance.shuffle(fields)
    return _pack([built[0], *fields])


def other_version(chance: Random, numbers: Numbers) -> bytes:
    body = encode(real(chance, numbers))[2:] if chance.random() < 0.7 else chance.randbytes(chance.randrange(40))
    return bytes((HEADER[0], chance.choice((0, 2, 3, 255)))) + body


def oversized(chance: Random, numbers: Numbers) -> bytes:
    data = encode(real(chance, numbers))
    return data + bytes(DATAGRAM_BYTES_MAX + chance.choice((1, 2, 500)) - len(data))


def noise(chance: Random, numbers: Numbers) -> bytes:
    return chance.randbytes(chance.choice((0, 1, 2, 3, 8, 40, 300, BYTES_MAX)))


def noise_behind_header(chance: Random, numbers: Numbers) -> bytes:
    return HEADER + chance.randbytes(chance.choice((0, 1, 2, 8, 40, 300)))


def noise_behind_kind(chance: Random, numbers: Numbers) -> bytes:
    """A list header of a plausible length, the number of a kind, and noise."""
    head = bytes((0x90 + chance.randint(2, 9), chance.randint(1, len(REAL))))
    return HEADER + head + chance.randbytes(chance.choice((1, 4, 12, 60)))


WAYS: tuple[Callable[[Random, Numbers], bytes], ...] = (
    cut, smudged, overwritten, glued, followed, deep, huge, retyped, floating, out_of_range, lengthened, wordy,
    illegible, extended, doubled_keys, unknown_kind, other_kind, more_or_fewer, shuffled, other_version, oversized,
    noise, noise_behind_header, noise_behind_kind,
)  # fmt: skip


def spoiled(chance: Random, numbers: Numbers = (1,)) -> tuple[str, bytes]:
    """(the way, the datagram of at most about 2000 bytes): the same for the same state of `chance`."""
    way = chance.choice(WAYS)
    return way.__name__, way(chance, numbers)
