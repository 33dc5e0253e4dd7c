"""Three nodes in bad weather, and what is left of it when the sun shines: everybody hears everybody again.

Datagrams are lost, doubled, overtaken and repeated by somebody who has recorded them; nodes start again, with and
without a clock that can be trusted; guest books are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random

import pytest

from subord.sealing.keys import key_of, keyring_of
from subord.sealing.sealer import End, Sealer, boot_of

ENDS: list[End] = [(f"10.0.0.{number}", 7117) for number in (1, 2, 3)]
RING = keyring_of(key_of(b"k" * 32))
STORM_ROUNDS, CALM_ROUNDS = 40, 4
ECHOES_MAX = 12  # what one datagram may lead to

Post = tuple[End, End, bytes]


class Weather:
    """Sealers, and everything that was ever said between them. `trusted`: clocks are never set back."""

    def __init__(self, seed: int, *, trusted: bool) -> None:
        self.chance = Random(seed)
        self.trusted = trusted
        self.now = 0.0
        self.life = 1_000_000
        self.sealers = {end: self.born(end) for end in ENDS}
        self.recorded: list[Post] = []
        self.heard: list[tuple[End, End, bytes]] = []

    def born(self, end: End) -> Sealer:
        self.life += self.chance.randrange(1, 100)
        life = self.life if self.trusted or self.chance.random() < 0.5 else self.chance.randrange(1, self.life)
        secret = self.chance.randbytes(32)
        return Sealer(RING, end, boot_of(life, secret), secret, self.now)

    def words(self) -> Iterator[Post]:
        """Everybody to everybody."""
        for source, target in permutations(ENDS, 2):
            content = b"to %d, %.2f" % (ENDS.index(target), self.now)
            routine = self.chance.random() < 0.5
            yield source, target, self.sealers[source].seal(content, target, is_routine=routine)

    def deliver(self, post: Post) -> None:
        todo = [post]
        for _ in range(ECHOES_MAX):
            if not todo:
                return
            source, target, data = todo.pop(0)
            self.recorded.append((source, target, data))
            opened = self.sealers[target].open(data, source, self.now)
            if opened.content is not None:
                self.heard.append((source, target, opened.content))
            todo += [(target, source, reply) for reply in opened.replies]
        pytest.fail("they do not stop answering each other")

    def storm(self) -> None:
        chance = self.chance
        for _ in range(STORM_ROUNDS):
            self.now += 0.5
            sky = [post for post in self.words() if chance.random() < 0.6 for _ in range(chance.randint(1, 2))]
            sky += chance.choices(self.recorded, k=6) if self.recorded else []
            chance.shuffle(sky)
            for post in sky:
                self.deliver(post)
            if chance.random() < 0.15:
                end = chance.choice(ENDS)
                self.sealers[end] = self.born(end)
            if chance.random() < 0.05:
                self.sealers[chance.choice(ENDS)]._peers.clear()


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_after_a_storm_everybody_hears_everybody(seed: int, *, trusted: bool) -> None:
    weather = Weather(seed, trusted=trusted)
    weather.storm()
    for _ in range(CALM_ROUNDS):
        weather.now += 0.5
        weather.heard.clear()
        for post in list(weather.words()):
            weather.deliver(post)
    assert {(source, target) for source, target, _ in weather.heard} == set(permutations(ENDS, 2))


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_after_a_storm_who_only_listens_hears(seed: int, *, trusted: bool) -> None:
    """One speaks, the other never begins to."""
    weather = Weather(seed, trusted=trusted)
    weather.storm()
    for _ in range(CALM_ROUNDS):
        weather.now += 0.5
        weather.heard.clear()
        for post in [post for post in weather.words() if post[0] == ENDS[0]]:
            weather.deliver(post)
    assert {target for _, target, _ in weather.heard} == set(ENDS[1:])
