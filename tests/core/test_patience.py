"""How long a node waits for its home, and how long for anybody (protocol section 3)."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from subord.core.address.network import Network
from subord.core.discovery.peer_cache import Peers
from subord.core.events import Known
from subord.core.state.context import Context
from subord.core.state.settings import LAN, Settings
from subord.core.uplink.deadlines import Patience

T0 = 100.0
NOTHING = Known(())
HOME = 25  # of position 50


def new() -> tuple[Context, Patience]:
    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2)
    context = Context(settings, 50, 1000, Random(1), now=T0)
    return context, Patience(context)


def begun(known: Known = NOTHING) -> tuple[Context, Patience]:
    """The first search of a node with that on its disk."""
    context, patience = new()
    peers = Peers(context)
    peers.remember(known)
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
    ("known", "leader", "was_root", "guest_s", "alone_s"),
    [
        (Known(()), None, False, 2 * LAN.answer_s, LAN.patience_s),
        (Known((HOME, 3), HOME), None, False, 2 * LAN.answer_s, 2 * LAN.answer_s),
        (Known((3, HOME), 3), 3, False, LAN.answer_s / 2, LAN.patience_s),
        (Known((3, HOME)), None, False, LAN.answer_s / 2, LAN.answer_s / 2),  # it had no leader, and led nobody
        (Known((), None, (100, 101)), None, True, LAN.answer_s / 2, LAN.answer_s / 2),
        (Known((3,), None, (100, 101)), None, False, LAN.answer_s / 2, LAN.answer_s / 2),  # there is a lower one
    ],
)
def test_who_remembers_waits_less(
    known: Known, leader: int | None, was_root: bool, guest_s: float, alone_s: float
) -> None:
    context, patience = begun(known)
    assert timers(context, patience) == pytest.approx([guest_s, alone_s])
    assert (patience.was_root, patience.leader) == (was_root, leader)


@pytest.mark.parametrize(
    ("known", "guest_s", "alone_s"),
    [
        (Known(()), LAN.host_patience_s, LAN.host_patience_s),
        (Known((HOME,), HOME), 2 * LAN.answer_s, 2 * LAN.answer_s),
        (Known((3,), 3), LAN.answer_s / 2, LAN.patience_s),
        (Known((), None, (100,)), LAN.answer_s / 2, LAN.answer_s / 2),
    ],
)
def test_a_host_that_is_up_is_waited_for_at_the_first_start(known: Known, guest_s: float, alone_s: float) -> None:
    context, patience = begun(known)
    for _ in range(3):  # said again it is no longer
        patience.host_is_up()
        assert timers(context, patience) == pytest.approx([guest_s, alone_s])


def test_the_old_leader_is_asked_once_others_will_do_and_nobody_moves_for_us_while_it_may_come() -> None:
    context, patience = begun(Known((3,), 3))
    assert patience.take_leader() is None
    context.now = T0 + LAN.answer_s
    assert patience.may_displace
    assert [patience.take_leader(), patience.take_leader()] == [3, None]
    assert not patience.may_displace
    context.now = T0 + LAN.patience_s
    assert patience.may_displace


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
