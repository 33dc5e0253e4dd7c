"""The deadlines of a search (docs/protocol.md, section 3)."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.discovery.peer_cache import PeerCache
from subord.core.events import Known
from subord.core.search.deadlines import Deadlines
from subord.core.settings import LAN, Settings
from subord.core.state.context import Context

T0 = 100.0
NOTHING = Known(())
HOME = 25  # of position 50


def new() -> tuple[Context, Deadlines]:
    settings = Settings(network=Network.parse("10.0.0.0/24"), fanout=2, guest_slots=2)
    context = Context(settings, 50, 1000, Random(1), now=T0)
    return context, Deadlines(context)


def begun(known: Known = NOTHING) -> tuple[Context, Deadlines]:
    """The deadlines of a first search with `known` on disk."""
    context, deadlines = new()
    peers = PeerCache(context)
    peers.remember(known)
    deadlines.begin(peers, HOME)
    return context, deadlines


def deadlines_of(context: Context, deadlines: Deadlines) -> list[float]:
    """When a guest place will do, and when the node becomes root, in seconds from T0; found by moving the clock."""
    ends = []
    for has_passed in (lambda: deadlines.takes_guest_place, lambda: deadlines.is_over):
        context.now = T0
        while not has_passed():
            context.now = deadlines.next_at
        ends.append(context.now - T0)
    context.now = T0
    return ends


@over(
    ("known", "leader", "was_root", "guest_s", "alone_s"),
    [
        (Known(()), None, False, 2 * LAN.answer_s, LAN.patience_s),
        (Known((HOME, 3), HOME), None, False, 2 * LAN.answer_s, 2 * LAN.answer_s),
        (Known((3, HOME), 3), 3, False, LAN.answer_s / 2, LAN.patience_s),
        (Known((3, HOME)), None, False, LAN.answer_s / 2, LAN.answer_s / 2),  # it had no leader and no subordinates
        (Known((), None, (100, 101)), None, True, LAN.answer_s / 2, LAN.answer_s / 2),
        (Known((3,), None, (100, 101)), None, False, LAN.answer_s / 2, LAN.answer_s / 2),  # a lower node exists
    ],
)
def test_a_node_that_remembers_waits_less(
    known: Known, leader: int | None, was_root: bool, guest_s: float, alone_s: float
) -> None:
    context, deadlines = begun(known)
    assert deadlines_of(context, deadlines) == pytest.approx([guest_s, alone_s])
    assert (deadlines.was_root, deadlines.leader) == (was_root, leader)


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
    context, deadlines = begun(known)
    for _ in range(3):  # repetitions do not prolong it
        deadlines.host_is_up()
        assert deadlines_of(context, deadlines) == pytest.approx([guest_s, alone_s])


def test_the_old_leader_is_asked_when_a_guest_place_will_do_and_no_guest_is_displaced_meanwhile() -> None:
    context, deadlines = begun(Known((3,), 3))
    assert deadlines.take_leader() is None
    context.now = T0 + LAN.answer_s
    assert deadlines.may_displace
    assert [deadlines.take_leader(), deadlines.take_leader()] == [3, None]
    assert not deadlines.may_displace
    context.now = T0 + LAN.patience_s
    assert deadlines.may_displace


@pytest.mark.parametrize(("until_s", "alone_s"), [(1.0, LAN.patience_s), (7.0, 7.0)])
def test_a_busy_answer_moves_the_deadline(until_s: float, alone_s: float) -> None:
    context, deadlines = begun()
    deadlines.put_off(T0 + until_s)
    assert deadlines_of(context, deadlines) == pytest.approx([2 * LAN.answer_s, alone_s])


def test_an_orphan_has_no_deadlines_left() -> None:
    context, deadlines = begun()
    deadlines.end()
    assert deadlines_of(context, deadlines) == [0.0, 0.0]
    assert not deadlines.was_root
    assert deadlines.next_at == inf


def test_before_a_search_all_deadlines_have_passed() -> None:
    _, deadlines = new()
    assert (deadlines.takes_guest_place, deadlines.is_over, deadlines.next_at) == (True, True, inf)
