"""How long a node waits for its home, and how long for anybody (protocol section 3)."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from subord.core.context import Context
from subord.core.network import Network
from subord.core.patience import Patience
from subord.core.peers import Peers
from subord.core.settings import LAN, Settings

T0 = 100.0
HOME = 25  # of position 50


def new() -> tuple[Context, Patience]:
    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2)
    context = Context(settings, 50, 1000, Random(1), now=T0)
    return context, Patience(context)


def begun(remembered: tuple[int, ...] = ()) -> tuple[Context, Patience]:
    """The first search of a node with these on its disk."""
    context, patience = new()
    peers = Peers(context)
    peers.know(remembered)
    patience.begin(peers, HOME)
    return context, patience


def timers(context: Context, patience: Patience) -> list[float]:
    """When a guest place will do, and when nobody, in seconds from T0; found by turning the clock."""
    ends = []
    for will_do in (lambda: patience.guest_will_do, lambda: patience.nobody_will_do):
        context.now = T0
        while not will_do():
            context.now = patience.next_at
        ends.append(context.now - T0)
    context.now = T0
    return ends


@pytest.mark.parametrize(
    ("remembered", "leader", "guest_s", "alone_s"),
    [
        ((), None, 2 * LAN.answer_s, LAN.patience_s),
        ((HOME, 3), None, 2 * LAN.answer_s, LAN.patience_s),
        ((3, HOME), 3, LAN.answer_s / 2, LAN.patience_s),
        ((100, 101), None, LAN.answer_s / 2, LAN.answer_s / 2),  # it led these, and nobody led it
        ((3, 100), None, LAN.answer_s / 2, LAN.answer_s / 2),
    ],
)
def test_who_remembers_waits_less(
    remembered: tuple[int, ...], leader: int | None, guest_s: float, alone_s: float
) -> None:
    context, patience = begun(remembered)
    assert timers(context, patience) == pytest.approx([guest_s, alone_s])
    assert (patience.was_root, patience.leader) == (100 in remembered, leader)


@pytest.mark.parametrize(
    ("remembered", "home", "guest_s", "alone_s"),
    [
        ((), True, LAN.host_patience_s, LAN.host_patience_s),
        ((HOME,), True, LAN.host_patience_s, LAN.host_patience_s),
        ((3,), False, LAN.answer_s / 2, LAN.host_patience_s),  # its old leader: others will do meanwhile
        ((100,), True, LAN.answer_s / 2, LAN.answer_s / 2),
    ],
)
def test_a_host_that_is_up_is_waited_for_at_the_first_start(
    remembered: tuple[int, ...], home: bool, guest_s: float, alone_s: float
) -> None:
    context, patience = begun(remembered)
    for _ in range(3):  # said again it is no longer
        patience.host_is_up(home=home)
        assert timers(context, patience) == pytest.approx([guest_s, alone_s])


@pytest.mark.parametrize(("until_s", "alone_s"), [(1.0, LAN.patience_s), (7.0, 7.0)])
def test_to_be_put_off_is_not_to_be_alone(until_s: float, alone_s: float) -> None:
    context, patience = begun()
    patience.put_off(T0 + until_s)
    assert timers(context, patience) == pytest.approx([2 * LAN.answer_s, alone_s])


def test_an_orphan_has_no_time_to_lose() -> None:
    context, patience = begun()
    patience.end()
    assert timers(context, patience) == [0.0, 0.0]
    assert not patience.was_root
    assert patience.next_at == inf


def test_before_a_search_nothing_is_waited_for() -> None:
    _, patience = new()
    assert (patience.guest_will_do, patience.nobody_will_do, patience.next_at) == (True, True, inf)
