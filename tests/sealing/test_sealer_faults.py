"""Three sealers under faults: afterwards each opens the datagrams of the others again.

Datagrams are lost, doubled, overtaken and replayed; nodes restart, with and without a correct clock; peer tables are
lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random

import pytest
from loops import over

from subord.sealing.keys import key_of, keyring_of
from subord.sealing.sealer import End, Sealer, boot_of

ENDS: list[End] = [(f"10.0.0.{number}", 7117) for number in (1, 2, 3)]
RING = keyring_of(key_of(b"k" * 32))
FAULT_ROUNDS, CALM_ROUNDS = 40, 4
REPLIES_MAX = 12  # that one datagram may lead to

Post = tuple[End, End, bytes]


class LossyNetwork:
    """Sealers, and all datagrams between them. `trusted`: clocks are never set back."""

    def __init__(self, seed: int, *, trusted: bool) -> None:
        self.chance = Random(seed)
        self.trusted = trusted
        self.now = 0.0
        self.life = 1_000_000
        self.sealers = {end: self.start(end) for end in ENDS}
        self.recorded: list[Post] = []
        self.heard: list[tuple[End, End, bytes]] = []

    def start(self, end: End) -> Sealer:
        self.life += self.chance.randrange(1, 100)
        life = self.life if self.trusted or self.chance.random() < 0.5 else self.chance.randrange(1, self.life)
        secret = self.chance.randbytes(32)
        return Sealer(RING, end, boot_of(life, secret), secret, self.now)

    def datagrams(self) -> Iterator[Post]:
        """A datagram from each node to each other."""
        for source, target in permutations(ENDS, 2):
            content = b"to %d, %.2f" % (ENDS.index(target), self.now)
            routine = self.chance.random() < 0.5
            yield source, target, self.sealers[source].seal(content, target, is_routine=routine)

    def deliver(self, post: Post) -> None:
        pending = [post]
        for _ in range(REPLIES_MAX):
            if not pending:
                return
            source, target, data = pending.pop(0)
            self.recorded.append((source, target, data))
            opened = self.sealers[target].open(data, source, self.now)
            if opened.content is not None:
                self.heard.append((source, target, opened.content))
            pending += [(target, source, reply) for reply in opened.replies]
        pytest.fail("the replies do not end")

    def run_faults(self) -> None:
        chance = self.chance
        for _ in range(FAULT_ROUNDS):
            self.now += 0.5
            posts = [post for post in self.datagrams() if chance.random() < 0.6 for _ in range(chance.randint(1, 2))]
            posts += chance.choices(self.recorded, k=6) if self.recorded else []
            chance.shuffle(posts)
            for post in posts:
                self.deliver(post)
            if chance.random() < 0.15:
                end = chance.choice(ENDS)
                self.sealers[end] = self.start(end)
            if chance.random() < 0.05:
                self.sealers[chance.choice(ENDS)]._peers.clear()


@pytest.mark.slow
@over("trusted", [True, False])
@over("seed", range(40))
def test_after_faults_all_nodes_reach_each_other(seed: int, *, trusted: bool) -> None:
    network = LossyNetwork(seed, trusted=trusted)
    network.run_faults()
    for _ in range(CALM_ROUNDS):
        network.now += 0.5
        network.heard.clear()
        for post in list(network.datagrams()):
            network.deliver(post)
    assert {(source, target) for source, target, _ in network.heard} == set(permutations(ENDS, 2))


@pytest.mark.slow
@over("trusted", [True, False])
@over("seed", range(20))
def test_after_faults_a_node_that_only_receives_is_reached(seed: int, *, trusted: bool) -> None:
    """One node sends, the other never begins to."""
    network = LossyNetwork(seed, trusted=trusted)
    network.run_faults()
    for _ in range(CALM_ROUNDS):
        network.now += 0.5
        network.heard.clear()
        for post in [post for post in network.datagrams() if post[0] == ENDS[0]]:
            network.deliver(post)
    assert {target for _, target, _ in network.heard} == set(ENDS[1:])
