"""Stories of networks in which most addresses belong to nobody: seeds, announcements, guests (docs/protocol.md).

Fan-out 2 in 10.0.0.0/16 unless a story says otherwise; no home lives, so everybody but the root is a guest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from small_world import SmallWorld

from subord.core.events import Action, Dropped, Event, Publish, Received
from subord.core.messages import Accept, Announce, Ask, Message, Propose, Terms
from subord.core.settings import LAN
from subord.core.view import Place
from subord.sim.world import World

CAMP = (1_000, 9_000, 17_000, 30_000, 52_000)  # a small tree, far from each other and from their homes
FAR = 60_000  # not near any of them, and not early on the common list
SEARCH_S = LAN.search_interval_s_max * 1.1  # the longest rest of a root
REST_S = 60.0

Said = list[tuple[float, int, int, Message]]


class Listening(SmallWorld):
    """Writes down what is announced, and what is said: (time, source, target, message)."""

    announced: list[tuple[float, int]]

    def after_event(self, _world: World, position: int, event: Event, actions: Sequence[Action], _token: object) -> None:
        if not hasattr(self, "announced"):
            self.announced = []
        self.announced += [(self.now, position) for action in actions if isinstance(action, Publish)]
        super().after_event(_world, position, event)

    def listen(self) -> Said:
        said: Said = []
        self.on_message = lambda source, target, message, _n: said.append((self.now, source, target, message))
        return said


def camped(*more: int, multicast: bool = False) -> Listening:
    """The camp at rest; all have found each other by the seed 1000."""
    world = Listening.empty(2)
    assert isinstance(world, Listening)
    world.seeds, world.multicast = CAMP[:1], multicast
    world.start_all((*CAMP, *more))
    world.run_until(world.whole, within_s=20)
    world.run(REST_S)
    assert world.roots() == [min((*CAMP, *more))]
    world.seeds = ()
    return world


def asked(said: Said, source: int, target: int, kind: type[Message] = Ask) -> list[float]:
    """When `source` said that to `target`."""
    return [at for at, s, t, message in said if (s, t) == (source, target) and isinstance(message, kind)]


# -- seeds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", CAMP)
def test_a_seed_is_asked_and_the_root_knows_the_place(seed: int) -> None:
    world = camped()
    before = world.moves()
    said = world.listen()
    world.seeds = (seed,)
    world.start(FAR)
    world.run_until(world.whole, within_s=LAN.patience_s)
    assert len(asked(said, FAR, seed)) == 1
    assert len(asked(said, FAR, 1_000)) == 1  # once, also when the seed is the root
    advice = asked(said, 1_000, FAR, Message.__args__[4])  # type: ignore[attr-defined]
    assert advice
    world.run(REST_S)
    assert {p: n for p, n in world.moves().items() if n != before.get(p, 0)} == {}
