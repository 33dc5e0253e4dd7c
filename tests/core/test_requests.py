"""The pace of proposals (core/search/requests.py)."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from subord.core.address.network import Network
from subord.core.discovery.prober import ARP_S, Prober
from subord.core.messages import Propose, Wish
from subord.core.search.requests import ARP_PROPOSALS_MAX, PROPOSALS_MAX, Requests
from subord.core.settings import Settings
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.sim.world.world import World

NODE = 40_000


def new() -> tuple[Context, Prober, Requests]:
    settings = Settings(network=Network.parse("10.0.0.0/16"), fanout=2, guest_slots=2)
    context = Context(settings, NODE, 1000, Random(1), now=100.0)
    prober = Prober(context)
    return context, prober, Requests(context, Roster(NODE), prober)


@pytest.mark.parametrize(("has_arp_pending", "limit"), [(True, ARP_PROPOSALS_MAX), (False, PROPOSALS_MAX)])
def test_proposals_per_second_are_limited(has_arp_pending: bool, limit: int) -> None:
    context, prober, requests = new()
    prober.note_probes(int(has_arp_pending))
    for target in range(1, limit + 1):
        assert requests.may_propose
        requests.propose(target, Wish.GUEST)
        context.now += 0.01
    assert not requests.may_propose
    requests.clear()
    assert requests.next_at == 101.0  # a second after the first of them
    context.now = 101.0
    assert requests.may_propose
    assert requests.next_at == inf


def test_repeated_news_of_the_home_cause_one_proposal() -> None:
    """The tries are raised; only an exhausted request starts anew."""
    context, _, requests = new()
    assert not requests.prolong(7, 2)
    requests.propose(7, Wish.HOME, tries=1)
    assert requests.prolong(7, 2)
    assert [request.tries for request in requests] == [2]
    assert requests.prolong(7, 1)
    (request,) = requests
    assert request.tries == 2
    request.tries = 0
    assert not requests.prolong(7, 2)
    assert len(context.actions) == 1


def test_arp_requests_are_pending_while_the_host_may_repeat_them() -> None:
    context, prober, _ = new()
    assert not prober.has_arp_pending
    prober.begin((7,), context.now)
    prober.step(known_only=True)
    assert prober.has_arp_pending
    context.now += ARP_S
    assert not prober.has_arp_pending


@pytest.mark.slow
def test_among_many_probing_nodes_none_exceeds_the_limit() -> None:
    """100 nodes probe and meet at the same target: some are refused twenty times before they find a place."""
    world = World(Settings(network=Network.parse("10.0.0.0/20"), fanout=2, guest_slots=2), seed=1, disk=False)
    crowd = Random(1).sample(range(world.settings.network.size // 2, world.settings.network.size), 100)
    times: dict[int, list[float]] = {}

    def note(source: int, _target: int, message: object, _copies: int) -> None:
        if type(message) is Propose and world.nodes[source].search.prober.has_arp_pending:
            times.setdefault(source, []).append(world.now)

    world.on_message = note
    world.hosts |= set(crowd)
    for position in crowd:
        world.start(position)
    world.run(25)
    in_a_second = [sum(0 <= later - at < 1 for later in each) for each in times.values() for at in each]
    assert (
        ARP_PROPOSALS_MAX <= max(in_a_second) <= ARP_PROPOSALS_MAX + 1
    )  # and the first, to its home, which is repeated
