"""Bytes and messages: what goes out comes in again, and what comes in from any host can do no harm (section 6)."""

from __future__ import annotations

import enum
import tracemalloc
import typing
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import over
from releases import RELEASES, in_release

from subord.core.address.network import Network
from subord.core.identity.signer import KEY_BYTES, PROOF_BYTES
from subord.core.messages import (
    AGE_S_MAX,
    ALTERNATES_MAX,
    CHANGES_MAX,
    HINTS_MAX,
    PATH_POSITIONS_MAX,
    REASON_CHARACTERS_MAX,
    RETRY_MS_MAX,
    TERM_CHARACTERS_MAX,
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
from subord.core.quantize import CLASS_MAX
from subord.core.settings import Settings
from subord.wire.codec import DATAGRAM_BYTES_MAX, HEADER, VERSION, VERSIONS_DATAGRAM, Fault, decode, encode

TYPES: tuple[type[msgspec.Struct], ...] = typing.get_args(Message)
TOP = (1 << 64) - 1
COUNT_TOP = (1 << 32) - 1
MILLISECONDS_TOP = 600_000
CEILING_BYTES = (
    64 * 1024
)  # of memory while one datagram is read: the message itself, and nothing in proportion to a lie

# -- every message survives ---------------------------------------------------------------------------------

NATURAL = st.integers(0, TOP)
COUNT = st.integers(0, COUNT_TOP)
AGE = st.integers(0, AGE_S_MAX)
MILLISECONDS = st.integers(0, MILLISECONDS_TOP)
CLASS = st.integers(0, CLASS_MAX)
TEXT = st.text(max_size=60)


def positions(limit: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, TOP), max_size=limit).map(tuple)


TERMS = st.builds(Terms, TEXT, COUNT, COUNT, TEXT, TEXT, TEXT)
# Half of the longest, so that any mixture of sizes fits; the longest are below.
GUIDANCE = st.builds(
    Guidance, NATURAL, positions(32), positions(ALTERNATES_MAX), positions(ALTERNATES_MAX), st.booleans()
)
CHANGE = st.builds(
    Change, st.integers(1, TOP), NATURAL, st.integers(0, 2), NATURAL, COUNT, AGE, st.booleans(), CLASS, CLASS, CLASS
)
CHANGES = st.lists(CHANGE, max_size=12).map(tuple)
STRATEGIES: dict[type[msgspec.Struct], st.SearchStrategy[msgspec.Struct]] = {
    Propose: st.builds(Propose, NATURAL, NATURAL, TERMS, st.sampled_from(Wish), COUNT, CLASS),
    Accept: st.builds(Accept, NATURAL, NATURAL, GUIDANCE),
    Refuse: st.builds(
        Refuse,
        NATURAL,
        NATURAL,
        st.sampled_from(No),
        TEXT,
        st.integers(0, RETRY_MS_MAX),
        positions(HINTS_MAX),
        NATURAL,
        CLASS,
    ),
    Ask: st.builds(Ask, NATURAL, NATURAL, TERMS, NATURAL, CLASS, CLASS, COUNT),
    Advice: st.builds(
        Advice,
        NATURAL,
        NATURAL,
        st.booleans(),
        NATURAL,
        positions(HINTS_MAX),
        NATURAL,
        st.lists(COUNT, max_size=HINTS_MAX).map(tuple),
        COUNT,
        NATURAL,
        COUNT,
        CLASS,
        CLASS,
        positions(HINTS_MAX),
        st.integers(0, 2),
    ),
    Back: st.builds(Back, NATURAL, st.integers(1, TOP)),
    Beat: st.builds(Beat, NATURAL, NATURAL, NATURAL, MILLISECONDS, NATURAL, CHANGES, positions(12), st.booleans()),
    Echo: st.builds(Echo, NATURAL, NATURAL, st.none() | GUIDANCE),
    Stranger: st.builds(Stranger, NATURAL, NATURAL),
    Guide: st.builds(Guide, NATURAL, GUIDANCE),
    Goodbye: st.builds(Goodbye, NATURAL, st.sampled_from(Why), positions(ALTERNATES_MAX)),
    Announce: st.builds(Announce, NATURAL, TERMS, CLASS),
    Errand: st.builds(Errand, NATURAL, st.integers(0, (1 << 62) - 1), positions(HINTS_MAX), CLASS),
    Meet: st.builds(Meet, NATURAL, st.integers(1, TOP), CLASS),
    Probe: st.builds(Probe, NATURAL, NATURAL),
    Pong: st.builds(Pong, NATURAL, NATURAL, COUNT, CLASS),
    Versions: st.builds(Versions, st.lists(st.integers(0, 255), max_size=HINTS_MAX).map(tuple)),
}
ANY_MESSAGE = st.one_of(*STRATEGIES.values())


def test_every_message_type_is_tried() -> None:
    assert set(STRATEGIES) == set(TYPES)


@pytest.mark.slow
@over("kind", TYPES)
def test_what_goes_out_comes_in_again(kind: type[msgspec.Struct]) -> None:
    @settings(max_examples=40)
    @given(STRATEGIES[kind])
    def survives(message: Message) -> None:
        data = encode(message)
        assert len(data) <= DATAGRAM_BYTES_MAX
        assert decode(data) == message

    survives()


# -- the longest of each kind ---------------------------------------------------------------------------------


def tops(count: int) -> tuple[int, ...]:
    return tuple(range(TOP, TOP - count, -1))


LONGEST_TERMS = Terms("x" * TERM_CHARACTERS_MAX, COUNT_TOP, COUNT_TOP, "performance", "complete", "lan")
LONGEST_GUIDANCE = Guidance(TOP, tops(PATH_POSITIONS_MAX), tops(ALTERNATES_MAX), tops(ALTERNATES_MAX), adrift=True)
# A node states a row or says that it is gone, at most CHANGES_MAX of both together (roster.py, `batch`).
LONGEST_CHANGES = tuple(
    Change(p, TOP, 2, TOP, COUNT_TOP, AGE_S_MAX, True, *[CLASS_MAX] * 3) for p in tops(CHANGES_MAX)
)
IDENTITY = b"k" * KEY_BYTES, b"p" * PROOF_BYTES
LONGEST_PROVEN = tuple(
    msgspec.structs.replace(each, key=IDENTITY[0], proof=IDENTITY[1], exchange=TOP, wish=Wish.SWAP)
    for each in LONGEST_CHANGES[:7]  # as many as `batch` takes of these
)
LONGEST: list[Message] = [
    Propose(TOP, TOP, LONGEST_TERMS, Wish.DISPLACE, COUNT_TOP, CLASS_MAX, *IDENTITY),
    Accept(TOP, TOP, LONGEST_GUIDANCE, *IDENTITY),
    Refuse(TOP, TOP, No.LEAVING, "x" * REASON_CHARACTERS_MAX, RETRY_MS_MAX, tops(HINTS_MAX), TOP, CLASS_MAX),
    Ask(TOP, TOP, LONGEST_TERMS, TOP, CLASS_MAX, CLASS_MAX, COUNT_TOP),
    Advice(
        TOP,
        TOP,
        True,
        TOP,
        tops(HINTS_MAX),
        TOP,
        (COUNT_TOP,) * HINTS_MAX,
        COUNT_TOP,
        TOP,
        COUNT_TOP,
        CLASS_MAX,
        CLASS_MAX,
        tops(HINTS_MAX),
        2,
    ),
    Back(TOP, TOP),
    Beat(TOP, TOP, TOP, MILLISECONDS_TOP, TOP, LONGEST_CHANGES, (), True, COUNT_TOP, COUNT_TOP, COUNT_TOP),
    Beat(TOP, TOP, TOP, MILLISECONDS_TOP, TOP, (), tops(CHANGES_MAX), True, COUNT_TOP, COUNT_TOP, COUNT_TOP),
    Beat(TOP, TOP, TOP, MILLISECONDS_TOP, TOP, LONGEST_PROVEN, (), True, COUNT_TOP, COUNT_TOP, COUNT_TOP),
    Echo(TOP, TOP, LONGEST_GUIDANCE),
    Stranger(TOP, TOP),
    Guide(TOP, LONGEST_GUIDANCE),
    Goodbye(TOP, Why.DISPLACED, tops(ALTERNATES_MAX), *IDENTITY),
    Versions(tuple(range(HINTS_MAX))),
    Announce(TOP, LONGEST_TERMS, CLASS_MAX),
    Errand(TOP, (1 << 62) - 1, tops(HINTS_MAX), CLASS_MAX),
    Meet(TOP, TOP, CLASS_MAX),
    Probe(TOP, TOP),
    Pong(TOP, TOP, COUNT_TOP, CLASS_MAX),
]


@over("message", LONGEST)
def test_the_longest_of_each_kind_fits(message: Message) -> None:
    assert decode(encode(message)) == message


REPEAT = """
import sys
try:
    from subord.wire.codec import Fault, decode, encode
except ImportError:  # of 0.1
    from subord.wire import Fault, decode, encode
for line in sys.stdin:
    message = decode(bytes.fromhex(line))
    print(message if isinstance(message, Fault) else encode(message).hex())
"""


def begins(short: object, long: object) -> bool:
    """Whether `short` is `long`, but for what was appended to its lists."""
    if isinstance(short, list) and isinstance(long, list):
        return len(short) <= len(long) and all(map(begins, short, long))
    return short == long


@pytest.mark.parametrize("release", RELEASES)
def test_a_former_release_reads_what_we_say_and_we_what_it_says(release: str) -> None:
    ours = [encode(message) for message in LONGEST]
    told = "".join(f"{data.hex()}\n" for data in ours)
    theirs = [bytes.fromhex(line) for line in in_release(release, REPEAT, told).split()]
    for message, data, back in zip(LONGEST, ours, theirs, strict=True):
        assert back[:2] == data[:2]
        assert begins(msgspec.msgpack.decode(back[2:]), msgspec.msgpack.decode(data[2:]))
        assert type(decode(back)) is type(message)


def test_every_message_type_has_a_longest() -> None:
    assert {type(message) for message in LONGEST} == set(TYPES)


def test_the_terms_of_a_long_network_fit() -> None:
    text = ",".join(f"10.{n // 250}.{n % 250}.7" for n in range(900))
    ours = Settings(network=Network.parse(text))
    terms = Terms.of(ours)
    assert len(terms.network) <= TERM_CHARACTERS_MAX
    assert decode(encode(Ask(1, 1, terms))) == Ask(1, 1, terms)


# -- faults, each by name ----------------------------------------------------------------------------------------


def packed(*fields: object, version: int = VERSION) -> bytes:
    return bytes((HEADER[0], version)) + msgspec.msgpack.encode(list(fields))


GOOD_GUIDANCE = [1, [1, 2], [3], [4], False]
TABLE: list[tuple[str, bytes, Fault]] = [
    ("nothing", b"", Fault.EMPTY),
    ("half a header", b"\x73", Fault.EMPTY),
    ("only a header", HEADER, Fault.EMPTY),
    ("too long", HEADER + bytes(DATAGRAM_BYTES_MAX - 1), Fault.OVERSIZED),
    ("much too long", bytes(65507), Fault.OVERSIZED),
    ("another protocol", b"GET / HTTP/1.1\r\n", Fault.FOREIGN),
    ("version 0", packed(6, 1, 1, version=0), Fault.VERSION),
    ("version 2", packed(6, 1, 1, version=2), Fault.VERSION),
    ("version 255", packed(6, 1, 1, version=255), Fault.VERSION),
    ("version 2 and nonsense", bytes((HEADER[0], 2)) + b"\xc1\xc1", Fault.VERSION),
    ("no MessagePack", HEADER + b"\xc1", Fault.MALFORMED),
    ("unknown type", packed(99, 1, 1), Fault.MALFORMED),
    ("a map instead of a list", HEADER + msgspec.msgpack.encode({"type": 6}), Fault.MALFORMED),
    ("an empty list", packed(), Fault.MALFORMED),
    ("too few fields", packed(6, 1), Fault.MALFORMED),
    ("a text for a number", packed(6, 1, "1"), Fault.MALFORMED),
    ("a float for a number", packed(6, 1, 1.5), Fault.MALFORMED),
    ("unknown wish", packed(1, 1, 1, ["n", 2, 2, "ip", "complete", "lan"], 9), Fault.MALFORMED),
    ("bytes after the end", packed(6, 1, 1) + b"\x00", Fault.MALFORMED),
    ("bad UTF-8", HEADER + b"\x93\x04\x01\xa1\xff", Fault.MALFORMED),
    ("negative incarnation", packed(6, -1, 1), Fault.MALFORMED),
    ("negative number of a beat", packed(7, 1, 1, -1, 0, 0), Fault.MALFORMED),
    ("negative promise of a beat", packed(7, 1, 1, 1, -5, 0), Fault.MALFORMED),
    ("position 0 in a report", packed(7, 1, 1, 1, 0, 0, [[0, 1, 1, 1, 0, 0]]), Fault.MALFORMED),
    ("a negative position in a report", packed(7, 1, 1, 1, 0, 0, [[-4, 1, 1, 1, 0, 0]]), Fault.MALFORMED),
    ("unknown place", packed(7, 1, 1, 1, 0, 0, [[4, 1, 3, 1, 0, 0]]), Fault.MALFORMED),
    ("negative age", packed(7, 1, 1, 1, 0, 0, [[4, 1, 1, 1, 0, -1]]), Fault.MALFORMED),
    (
        "an age that no number of ours could carry on",
        packed(7, 1, 1, 1, 0, 0, [[4, 1, 1, 1, 0, TOP]]),
        Fault.MALFORMED,
    ),
    ("moves without end", packed(7, 1, 1, 1, 0, 0, [[4, 1, 1, 1, TOP, 0]]), Fault.MALFORMED),
    ("a beat promised for never", packed(7, 1, 1, 1, TOP, 0), Fault.MALFORMED),
    ("come again never", packed(3, 1, 1, 3, "", TOP, [], 0), Fault.MALFORMED),
    ("too many rows", packed(7, 1, 1, 1, 0, 0, [[4, 1, 1, 1, 0, 0]] * (CHANGES_MAX + 1)), Fault.MALFORMED),
    ("too many gone", packed(7, 1, 1, 1, 0, 0, [], [1] * (CHANGES_MAX + 1)), Fault.MALFORMED),
    ("negative gone", packed(7, 1, 1, 1, 0, 0, [], [-1]), Fault.MALFORMED),
    ("too many hints", packed(3, 1, 1, 0, "", 0, [1] * (HINTS_MAX + 1), 0), Fault.MALFORMED),
    ("a negative hint", packed(5, 1, 1, True, 1, [-1], 0), Fault.MALFORMED),
    ("a negative highest guest", packed(5, 1, 1, True, 1, [], -1), Fault.MALFORMED),
    ("a long path", packed(2, 1, 1, [1, [1] * (PATH_POSITIONS_MAX + 1), [], [], False]), Fault.MALFORMED),
    ("many alternates", packed(10, 1, [1, [], [1] * (ALTERNATES_MAX + 1), [], False]), Fault.MALFORMED),
    ("many siblings", packed(8, 1, 1, [1, [], [], [1] * (ALTERNATES_MAX + 1), False]), Fault.MALFORMED),
    ("a negative path", packed(8, 1, 1, [1, [-1], [], [], False]), Fault.MALFORMED),
    ("a long goodbye", packed(11, 1, 0, [1] * (ALTERNATES_MAX + 1)), Fault.MALFORMED),
    ("many versions", packed(12, list(range(HINTS_MAX + 1))), Fault.MALFORMED),
]


@over(("data", "fault"), [pytest.param(data, fault, id=name) for name, data, fault in TABLE])
def test_faults(data: bytes, fault: Fault) -> None:
    assert decode(data) is fault


def test_every_fault_can_be_reached() -> None:
    assert {fault for _, _, fault in TABLE} == set(Fault)


NUMBERS = [
    pytest.param(message, name, id=f"{type(message).__name__}.{name}")
    for message in LONGEST
    for name in message.__struct_fields__
    if type(getattr(message, name)) is int
]


@over(("message", "field"), NUMBERS)
def test_no_number_is_negative(message: Message, field: str) -> None:
    """Whatever passes here is used as a position or a time, and is sent on."""
    negative = msgspec.structs.replace(message, **{field: -1})
    assert decode(encode(negative)) is Fault.MALFORMED


CLASSES = [
    (message, field)
    for message in (*LONGEST, LONGEST_CHANGES[0])
    for field in ("standing", "performance", "root_standing", "round_trip")
    if hasattr(message, field)
]


@over("wrong", [-1, CLASS_MAX + 1, 1 << 70, 128.0, True, "128", None])
@over(("message", "field"), CLASSES)
def test_a_class_is_a_small_whole_number(message: msgspec.Struct, field: str, wrong: object) -> None:
    told = msgspec.structs.replace(message, **{field: wrong})
    if isinstance(told, Change):
        told = Beat(1, 1, 1, 1, 1, (told,))
    try:
        data = encode(told)  # type: ignore[arg-type]
    except OverflowError:
        return  # it cannot even be said
    assert decode(data) is Fault.MALFORMED


def test_every_message_with_a_class_is_in_that_table() -> None:
    counted = sum(
        field in {"standing", "performance", "root_standing", "round_trip"}
        for kind in (*STRATEGIES, Change)
        for field in kind.__struct_fields__
    )
    assert len(CLASSES) == counted


def test_versions_are_read_in_any_version() -> None:
    for version in range(256):
        assert decode(bytes((HEADER[0], version)) + VERSIONS_DATAGRAM[2:]) == Versions((VERSION,))
    assert decode(VERSIONS_DATAGRAM) == Versions((VERSION,))


def test_later_neighbours_may_append_fields() -> None:
    assert decode(packed(6, 1, 2, "something new")) == Back(1, 2)


# -- what comes from any host ----------------------------------------------------------------------------------------


def claims(prefix: bytes, tail: bytes = b"") -> bytes:
    return HEADER + prefix + tail


HUGE = [
    pytest.param(claims(b"\xdd\xff\xff\xff\xff\x07"), id="list of 4 thousand million"),
    pytest.param(claims(b"\xdc\xff\xff\x07"), id="list of 65535"),
    pytest.param(claims(b"\x97\x07\x01\x01\x01\x00\x00\xdd\xff\xff\xff\xff"), id="beat with a huge list of rows"),
    pytest.param(
        claims(b"\x98\x07\x01\x01\x01\x00\x00\x90\xdd\x7f\xff\xff\xff\x01"), id="beat with a huge list of gone"
    ),
    pytest.param(claims(b"\x95\x01\x01\x01\x96\xdb\xff\xff\xff\xff"), id="huge text"),
    pytest.param(claims(b"\x95\x01\x01\x01\xdf\xff\xff\xff\xff"), id="huge map"),
    pytest.param(claims(b"\x93\x06\x01\xc6\xff\xff\xff\xff"), id="huge bytes"),
    pytest.param(claims(b"\x93\x06\x01\xc9\xff\xff\xff\xff\x01"), id="huge extension"),
    pytest.param(claims(b"\x91" * 1190), id="deep lists"),
    pytest.param(claims(b"\x93\x06\x01" + b"\x81\xa1x" * 390), id="deep maps"),
    pytest.param(claims(b"\x94\x06\x01\x01" + b"\x91" * 1190), id="deep lists in a field that we skip"),
    pytest.param(
        claims(b"\x98\x07\x01\x01\x01\x00\x00" + b"\xdd\x7f\xff\xff\xff" * 200), id="huge lists in huge lists"
    ),
]


@over("data", HUGE)
def test_huge_claims_cost_nothing(data: bytes) -> None:
    decode(data)  # what is cached at first use is no part of the measurement
    tracemalloc.start()
    try:
        message = decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert message in {Fault.MALFORMED, Fault.OVERSIZED}
    assert peak < CEILING_BYTES


def within_bounds(message: Message | Fault) -> bool:
    """An oracle of its own: no number anywhere is negative or too wide, no list is longer than the longest."""
    if isinstance(message, Fault | enum.Enum | str | None):
        return True
    if isinstance(message, bytes):
        return len(message) <= PROOF_BYTES
    if isinstance(message, int):
        return 0 <= message <= TOP
    if isinstance(message, tuple):
        return len(message) <= PATH_POSITIONS_MAX and all(within_bounds(each) for each in message)
    return all(within_bounds(getattr(message, name)) for name in message.__struct_fields__)


@pytest.mark.slow
@settings(max_examples=1500)
@given(st.binary(max_size=1300))
def test_random_bytes(data: bytes) -> None:
    assert within_bounds(decode(data))


@pytest.mark.slow
@settings(max_examples=1500)
@given(st.binary(max_size=200))
def test_random_bytes_behind_a_good_header(data: bytes) -> None:
    assert within_bounds(decode(HEADER + data))


PLAIN = st.recursive(
    st.integers(-(2**63), TOP) | st.booleans() | st.none() | st.text(max_size=4) | st.floats(),
    lambda inner: st.lists(inner, max_size=8),
    max_leaves=10,
)


@pytest.mark.slow
@settings(max_examples=250)
@given(st.integers(0, 13), st.lists(PLAIN, max_size=8))
def test_good_messagepack_of_any_shape(tag: int, fields: list[object]) -> None:
    assert within_bounds(decode(packed(tag, *fields)))


@pytest.mark.slow
@settings(max_examples=300)
@given(ANY_MESSAGE)
def test_truncated_messages(message: Message) -> None:
    data = encode(message)
    for end in range(0, len(data), max(1, len(data) // 16)):
        assert isinstance(decode(data[:end]), Fault)


@pytest.mark.slow
def test_flipped_bits() -> None:
    """Every bit of the longest of each kind, one at a time: what still passes is within bounds."""
    passed = 0
    for message in LONGEST:
        data = bytearray(encode(message))
        for bit in range(8 * min(len(data), 300)):
            data[bit // 8] ^= 1 << bit % 8
            decoded = decode(bytes(data))
            data[bit // 8] ^= 1 << bit % 8
            assert within_bounds(decoded)
            passed += not isinstance(decoded, Fault)
    assert passed > 1000  # else the test would look at nothing


def test_bytes_overwritten_at_random() -> None:
    chance = Random(7)
    samples = [encode(message) for message in LONGEST]
    for _ in range(5000):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(2, len(data))] = chance.randrange(256)
        assert within_bounds(decode(bytes(data)))


def test_what_is_left_out_without_a_key_stands_last() -> None:
    """`written` and `written_row` cut it off: a further field must be cut off with it, or come before it."""
    assert {kind.__struct_fields__[-2:] for kind in (Propose, Accept, Goodbye)} == {("key", "proof")}
    assert Change.__struct_fields__[-4:] == ("key", "proof", "exchange", "wish")
