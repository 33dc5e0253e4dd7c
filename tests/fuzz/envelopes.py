"""Sealed datagrams from an attacker that reads and sends everything on the network, and has no key.

    .venv/bin/python tests/fuzz/envelopes.py --count 1000000 [--seed N] [--json docs/figures/envelopes.json]

Three nodes exchange datagrams, which are recorded. Each attack changes a recorded datagram in one of WAYS and
delivers it to node A. Nothing may be opened, the state of A may not change, and memory may not grow.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

REPOSITORY = Path(__file__).resolve().parents[2]
if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))

from subord import __version__  # noqa: E402
from subord.sealing.header import HEADER_BYTES, SEALED_BYTES_MAX, Header, What, pack, unpack  # noqa: E402
from subord.sealing.keys import Keyring, key_of, keyring_of  # noqa: E402
from subord.sealing.sealer import Broken, End, Sealer  # noqa: E402
from tests.fuzz.measure import machine, resident_mib  # noqa: E402

A, B, C = ("10.0.0.1", 7117), ("10.0.0.2", 7117), ("10.0.0.3", 7117)
STRANGER = ("10.0.9.9", 40000)
EXCHANGES = 40  # recorded of each pair
SPACING_S = 0.0001  # between two datagrams: 10,000 a second
WARM_UP = 50_000
GROWTH_MIB_MAX = 2.0


def ring(number: int) -> Keyring:
    return keyring_of(key_of(bytes([number]) * 32))


class Recording:
    """Node A, and the nodes that send to it. `heard`: (datagram, sender, receiver)."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.nodes = {end: self.node(end, 1000) for end in (A, B, C)}
        self.heard: list[tuple[bytes, End, End]] = []
        old_life = self.node(B, 500)
        for _ in range(3):  # an earlier life of B, known to A
            self.exchange(old_life, B, A)
        for _ in range(EXCHANGES):
            for sender, receiver in ((B, A), (A, B), (C, A), (A, C), (B, C), (C, B)):
                self.exchange(self.nodes[sender], sender, receiver)
        self.others = {number: self.node(B, 1000, ring(number)) for number in (2, 3)}
        self.at = 100.0

    def node(self, end: End, boot: int, keys: Keyring | None = None) -> Sealer:
        return Sealer(keys or ring(1), end, boot, self.chance.randbytes(32), 0.0)

    def exchange(self, sender: Sealer, source: End, target: End) -> None:
        """A datagram and all replies to it, recorded."""
        waiting = [(sender.seal(self.chance.randbytes(self.chance.randrange(0, 200)), target), source, target)]
        while waiting:
            data, origin, end = waiting.pop()
            self.heard.append((data, origin, end))
            receiver = sender if end == source else self.nodes[end]
            waiting += [(reply, end, origin) for reply in receiver.open(data, origin, 0.0).replies]

    def state(self) -> bytes:
        """What A remembers of other nodes, without caches."""
        node = self.nodes[A]
        peers = {
            end: (peer.boot, peer.key_id, peer.ticket, peer.ours, peer.keeps_ours, *vars_of(peer.window))
            for end, peer in node._peers.items()
        }
        return repr((peers, list(node._receivers), node.boot, node.keyring, node._era)).encode()


def vars_of(window: object) -> tuple[object, ...]:
    return tuple(getattr(window, name) for name in ("_highest", "_seen"))


# -- ways ------------------------------------------------------------------------------------------------------------

Made = tuple[bytes, End]


def replayed(recording: Recording, data: bytes, source: End, target: End) -> Made:
    return data, source


def from_another(recording: Recording, data: bytes, source: End, target: End) -> Made:
    return data, recording.chance.choice([end for end in (A, B, C, STRANGER) if end != source])


def tampered(recording: Recording, data: bytes, source: End, target: End) -> Made:
    changed = bytearray(data)
    for _ in range(recording.chance.choice((1, 1, 1, 2, 9))):
        changed[recording.chance.randrange(len(changed))] ^= recording.chance.randrange(1, 256)
    return bytes(changed), source


def truncated(recording: Recording, data: bytes, source: End, target: End) -> Made:
    return data[: recording.chance.randrange(len(data))], source


def lengthened(recording: Recording, data: bytes, source: End, target: End) -> Made:
    return data + recording.chance.randbytes(recording.chance.randrange(1, SEALED_BYTES_MAX)), source


def other_header(recording: Recording, data: bytes, source: End, target: End) -> Made:
    header = unpack(data)
    assert header is not None
    chance = recording.chance
    changed = header._replace(
        what=chance.choice(list(What)),
        tells=chance.random() < 0.5,
        boot=chance.choice((header.boot, header.boot + 1, 1, chance.getrandbits(63) + 1)),
        number=chance.choice((header.number + 1, chance.getrandbits(64))),
        ticket=chance.choice((header.ticket, chance.randbytes(8))),
    )
    return (pack(changed) + data[HEADER_BYTES:] if changed != header else b""), source


def unknown_key(recording: Recording, data: bytes, source: End, target: End) -> Made:
    return recording.others[recording.chance.choice((2, 3))].seal(data[:200], A), B


def known_name_of_a_key(recording: Recording, data: bytes, source: End, target: End) -> Made:
    """Sealed with another key, under the id of A's key."""
    sealed = recording.others[2].seal(data[:200], A)
    header = unpack(sealed)
    assert header is not None
    named = Header(header.what, header.tells, ring(1).primary.id, header.boot, header.number, header.ticket)
    return pack(named) + sealed[HEADER_BYTES:], B


def unsealed(recording: Recording, data: bytes, source: End, target: End) -> Made:
    return bytes((0x73, 1)) + data[2:], source


def noise(recording: Recording, data: bytes, source: End, target: End) -> Made:
    return recording.chance.randbytes(recording.chance.randrange(0, SEALED_BYTES_MAX + 100)), source


WAYS: tuple[Callable[[Recording, bytes, End, End], Made], ...] = (
    replayed,
    from_another,
    tampered,
    truncated,
    lengthened,
    other_header,
    unknown_key,
    known_name_of_a_key,
    unsealed,
    noise,
)


def deliveries(recording: Recording) -> Iterator[tuple[str, bytes, End]]:
    """(way, datagram, claimed sender), without end."""
    while True:
        way = recording.chance.choice(WAYS)
        data, source, target = recording.chance.choice(recording.heard)
        made, claimed = way(recording, data, source, target)
        yield way.__name__, made, claimed


class BreachError(Exception):
    """A datagram was opened, or changed the node."""


def attack(recording: Recording, count: int) -> Counter[str]:
    """Counts by way and reason. Raises BreachError at the first datagram that was opened or changed the node."""
    node, counted = recording.nodes[A], Counter[str]()
    before = recording.state()
    for number, (way, data, source) in enumerate(deliveries(recording)):
        if number == count:
            return counted
        recording.at += SPACING_S
        opened = node.open(data, source, recording.at)
        if opened.content is not None or opened.broken is None:
            raise BreachError(f"{way}: {data.hex()} from {source} was opened: {opened}")
        if sum(map(len, opened.replies)) > len(data):
            raise BreachError(f"{way}: {data.hex()} from {source} is answered by more bytes")
        counted[f"{way}: {opened.broken.value}"] += 1
        if number % 1000 == 0 and recording.state() != before:
            raise BreachError(f"{way}, or one of the 1,000 before it, changed the state")
    raise AssertionError("deliveries have no end")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="sealed datagrams from an attacker without the key")
    parser.add_argument("--count", type=int, default=1_000_000, help="datagrams (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same datagrams")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    given = parser.parse_args(words)
    recording = Recording(given.seed)
    try:
        attack(recording, WARM_UP)
        gc.collect()
        before, began = resident_mib(), time.process_time()
        counted = attack(recording, given.count)
    except BreachError as breach:
        print(f"envelopes: {breach}", file=sys.stderr)
        return 1
    took_s = time.process_time() - began
    gc.collect()
    reasons: Counter[str] = Counter()
    for name, number in counted.items():
        reasons[name.partition(": ")[2]] += number
    found = {
        "count": given.count,
        "seed": given.seed,
        "ways": len(WAYS),
        "version": __version__,
        "machine": machine(),
        "seconds": round(took_s, 1),
        "resident_mib_before": round(before, 1),
        "resident_mib_after": round(resident_mib(), 1),
        "reasons": {each.value: reasons[each.value] for each in Broken if reasons[each.value]},
    }
    print(json.dumps(found, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return int(found["resident_mib_after"] - found["resident_mib_before"] > GROWTH_MIB_MAX)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
