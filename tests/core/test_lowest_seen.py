"""The lowest position heard lately (docs/protocol.md, section 3)."""

from __future__ import annotations

from random import Random

from loops import over

from subord.core.address.network import Network
from subord.core.discovery.lowest_seen import LowestSeen
from subord.core.settings import LAN, Settings
from subord.core.state.context import Context

OWN = 50
SILENCE_S = LAN.leader_silence_s


def heard(*messages: tuple[float, int], now: float) -> LowestSeen:
    """After `messages` (time, source), read at `now`."""
    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2)
    context = Context(settings, OWN, 1000, Random(1), now=0.0)
    lowest_seen = LowestSeen(context)
    for at, source in messages:
        context.now = at
        lowest_seen.heard(source)
    context.now = now
    return lowest_seen


@over(
    ("messages", "now", "lowest"),
    [
        ([], 0.0, OWN),
        ([(0.0, 40)], 0.0, 40),
        ([(0.0, 60)], 0.0, OWN),  # above the node
        ([(0.0, OWN)], 0.0, OWN),
        ([(0.0, 40), (1.0, 30), (2.0, 45)], 2.0, 30),  # the lowest counts, not the last
        ([(0.0, 40)], SILENCE_S, 40),
        ([(0.0, 40)], SILENCE_S + 0.01, OWN),  # too old
        ([(0.0, 40), (4.0, 40)], SILENCE_S + 1, 40),  # heard again
        ([(0.0, 30), (1.0, 40)], SILENCE_S + 0.5, OWN),  # 40 was not noted while 30 was fresh
        ([(0.0, 30), (SILENCE_S + 0.1, 40)], SILENCE_S + 0.1, 40),  # after the lowest is too old the next one counts
    ],
)
def test_the_lowest_heard_lately(messages: list[tuple[float, int]], now: float, lowest: int) -> None:
    lowest_seen = heard(*messages, now=now)
    assert lowest_seen.lowest == lowest
    assert lowest_seen.knows_lower is (lowest != OWN)


def test_what_was_heard_can_be_forgotten() -> None:
    lowest_seen = heard((0.0, 40), now=1.0)
    lowest_seen.forget()
    assert (lowest_seen.lowest, lowest_seen.knows_lower) == (OWN, False)
    lowest_seen.heard(45)
    assert lowest_seen.lowest == 45
