"""Sealed datagrams by somebody who hears everything, can send everything, and has no key.

Intuition: a postman with scissors, a copier and stamps of other towns. What he hands over looks like a letter;
whoever opens it must be exactly as wise as before.

    .venv/bin/python tests/fuzz/envelopes.py --count 1000000 [--seed N] [--json docs/figures/envelopes.json]

Three nodes have met, and their letters were copied. Of each copy he makes something, in one of the ways of WAYS, and
hands it to the first node. Nothing may come out, that node may remember nothing new, and memory must stay.
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
LETTERS = 40  # copied of each conversation
SPACING_S = 0.0001  # between two letters: 10,000 a second
WARM_UP = 50_000
GROWTH_MIB_MAX = 2.0


def ring(number: int) -> Keyring:
    return keyring_of(key_of(bytes([number]) * 32))


class Town:
    """A, and those who have written to it. `heard`: (letter, sender, receiver)."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.nodes = {end: self.node(end, 1000) for end in (A, B, C)}
        self.heard: list[tuple[bytes, End, End]] = []
        old_life = self.node(B, 500)
        for _ in range(3):  # an earlier life of B, which A knew
            self.letter(old_life, B, A)
        for _ in range(LETTERS):
            for sender, receiver in ((B, A), (A, B), (C, A), (A, C), (B, C), (C, B)):
                self.letter(self.nodes[sender], sender, receiver)
        self.others = {number: self.node(B, 1000, ring(number)) for number in (2, 3)}
        self.at = 100.0

    def node(self, end: End, boot: int, keys: Keyring | None = None) -> Sealer:
        return Sealer(keys or ring(1), end, boot, self.chance.randbytes(32), 0.0)

    def letter(self, sender: Sealer, source: End, target: End) -> None:
        """Said, heard by everybody, and answered until nothing is left to say."""
        words = [(sender.seal(self.chance.randbytes(self.chance.randrange(0, 200)), target), source, target)]
        while words:
            data, who, whom = words.pop()
            self.heard.append((data, who, whom))
            hearer = sender if whom == source else self.nodes[whom]
            words += [(reply, whom, who) for reply in hearer.open(data, who, 0.0).replies]

    def state(self) -> bytes:
        """Everything that A remembers of others, but for what it keeps ready to compute faster."""
        node = self.nodes[A]
        peers = {
            end: (peer.boot, peer.key_id, peer.ticket, peer.ours, peer.keeps_ours, *vars_of(peer.window))
            for end, peer in node._peers.items()
        }
        return repr((peers, list(node._receivers), node.boot, node.keyring, node._era)).encode()


def vars_of(window: object) -> tuple[object, ...]:
    return tuple(getattr(window, name) for name in ("_highest", "_seen"))


# -- what the postman does -------------------------------------------------------------------------------------------

Made = tuple[bytes, End]


def replayed(town: Town, data: bytes, source: End, target: End) -> Made:
    return data, source


def from_another(town: Town, data: bytes, source: End, target: End) -> Made:
    return data, town.chance.choice([end for end in (A, B, C, STRANGER) if end != source])


def tampered(town: Town, data: bytes, source: End, target: End) -> Made:
    changed = bytearray(data)
    for _ in range(town.chance.choice((1, 1, 1, 2, 9))):
        changed[town.chance.randrange(len(changed))] ^= town.chance.randrange(1, 256)
    return bytes(changed), source


def truncated(town: Town, data: bytes, source: End, target: End) -> Made:
    return data[: town.chance.randrange(len(data))], source


def lengthened(town: Town, data: bytes, source: End, target: End) -> Made:
    return data + town.chance.randbytes(town.chance.randrange(1, SEALED_BYTES_MAX)), source


def other_header(town: Town, data: bytes, source: End, target: End) -> Made:
    header = unpack(data)
    assert header is not None
    chance = town.chance
    changed = header._replace(
        what=chance.choice(list(What)),
        tells=chance.random() < 0.5,
        boot=chance.choice((header.boot, header.boot + 1, 1, chance.getrandbits(63) + 1)),
        number=chance.choice((header.number + 1, chance.getrandbits(64))),
        ticket=chance.choice((header.ticket, chance.randbytes(8))),
    )
    return (pack(changed) + data[HEADER_BYTES:] if changed != header else b""), source


def unknown_key(town: Town, data: bytes, source: End, target: End) -> Made:
    return town.others[town.chance.choice((2, 3))].seal(data[:200], A), B


def known_name_of_a_key(town: Town, data: bytes, source: End, target: End) -> Made:
    """Sealed with another key, under the name of ours."""
    sealed = town.others[2].seal(data[:200], A)
    header = unpack(sealed)
    assert header is not None
    named = Header(header.what, header.tells, ring(1).primary.id, header.boot, header.number, header.ticket)
    return pack(named) + sealed[HEADER_BYTES:], B


def unsealed(town: Town, data: bytes, source: End, target: End) -> Made:
    return bytes((0x73, 1)) + data[2:], source


def noise(town: Town, data: bytes, source: End, target: End) -> Made:
    return town.chance.randbytes(town.chance.randrange(0, SEALED_BYTES_MAX + 100)), source


WAYS: tuple[Callable[[Town, bytes, End, End], Made], ...] = (
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


def deliveries(town: Town) -> Iterator[tuple[str, bytes, End]]:
    """Without end."""
    while True:
        way = town.chance.choice(WAYS)
        data, source, target = town.chance.choice(town.heard)
        made, claimed = way(town, data, source, target)
        yield way.__name__, made, claimed


class BreachError(Exception):
    """Something came of it."""


def besiege(town: Town, count: int) -> Counter[str]:
    """How often each reason was given. Raises BreachError at the first that changed something."""
    node, counted = town.nodes[A], Counter[str]()
    before = town.state()
    for number, (way, data, source) in enumerate(deliveries(town)):
        if number == count:
            return counted
        town.at += SPACING_S
        opened = node.open(data, source, town.at)
        if opened.content is not None or opened.broken is None:
            raise BreachError(f"{way}: {data.hex()} from {source} came to something: {opened}")
        if sum(map(len, opened.replies)) > len(data):
            raise BreachError(f"{way}: {data.hex()} from {source} is answered with more than it said")
        counted[f"{way}: {opened.broken.value}"] += 1
        if number % 1000 == 0 and town.state() != before:
            raise BreachError(f"{way}, or one of the 1,000 before it, changed what is remembered")
    raise AssertionError("there is no end of them")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="sealed datagrams by somebody without the key, by the million")
    parser.add_argument("--count", type=int, default=1_000_000, help="datagrams (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same datagrams")
    parser.add_argument("--json", type=Path, help="write the result into this file, too")
    given = parser.parse_args(words)
    town = Town(given.seed)
    try:
        besiege(town, WARM_UP)
        gc.collect()
        before, began = resident_mib(), time.process_time()
        counted = besiege(town, given.count)
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
