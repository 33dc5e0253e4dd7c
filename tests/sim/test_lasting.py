"""Steps that only the simulator plays: links, flaps, judgement during faults, replays, clocks, disks."""

from __future__ import annotations

from random import Random

import pytest

from subord.core.events import Performance, Received
from subord.core.messages import Echo, Stranger
from subord.sim.player import Play
from subord.sim.scenario.definition import read
from subord.sim.scenario.lasting import Flip, Link, Replay
from subord.sim.violation import Violation
from subord.sim.world.transit import Transit, flipped
from subord.sim.world.world import WAITING_MAX
from subord.wire.codec import Fault, decode, encode

SHORT, LONG = bytes(100), bytes(1000)


def played(*steps: str, cluster: str = "nodes = 7") -> Play:
    more = "".join(f", {{ {step} }}" for step in ('do = "pass", s = 20', *steps))
    text = f'title = "t"\ncluster = {{ {cluster}, timing = "lab" }}\nsteps = [ {{ do = "start" }}{more} ]\n'
    play = Play(read(text))
    for step in play.script.steps:
        play._do(step)
    return play


def carried(step: Link | Replay | Flip, data: bytes = LONG, now: float = 0.0) -> list[tuple[float, bytes]]:
    transit = Transit(Random(1))
    transit.add([1, 2], [3], 10.0, step)
    assert transit.carry(4, 3, data, [0.5], now) == [(0.5, data)]
    assert transit.carry(3, 1, data, [0.5], now) == transit.carry(1, 3, data, [0.5], now)
    found = transit.carry(1, 3, data, [0.5], now)
    transit.mend()
    assert transit.carry(1, 3, data, [0.5], now) == [(0.5, data)]
    return found


def test_a_link_is_slow_by_size() -> None:
    link = Link(source="1", target="3", delay_s=1.0, per_kb_s=2.0)
    assert carried(link) == [(3.5, LONG)]
    assert carried(link, SHORT) == [(pytest.approx(1.7), SHORT)]
    assert carried(link, now=10.0) == [(0.5, LONG)]


def test_a_link_loses_all_datagrams_or_the_long_ones() -> None:
    assert carried(Link(source="1", target="3", loss=1.0)) == []
    assert carried(Link(source="1", target="3", mtu=999)) == []
    assert carried(Link(source="1", target="3", mtu=1000)) == [(0.5, LONG)]


def test_a_replay_arrives_again_later() -> None:
    assert carried(Replay(source="1", target="3", share=1.0, later_s=60.0)) == [(0.5, LONG), (60.5, LONG)]
    assert carried(Replay(source="1", target="3", share=0.0, later_s=60.0)) == [(0.5, LONG)]


def test_a_flip_changes_one_bit_and_can_be_read() -> None:
    data = encode(Echo(1_000_001, 7))
    for seed in range(50):
        changed = flipped(data, Random(seed))
        assert not isinstance(decode(changed), Fault)
        assert sum((a ^ b).bit_count() for a, b in zip(data, changed, strict=True)) == 1


def test_each_part_is_judged_while_a_partition_lasts() -> None:
    play = played('do = "partition", groups = ["1-3"]', 'do = "settle"')
    assert [p for p in play.world.nodes if play.world.leader_of(p) == 0] == [1, 4]


@pytest.mark.slow
def test_settle_can_fail() -> None:
    with pytest.raises(Violation, match="L1 at"):
        played('do = "link", source = "all", target = "all", loss = 1.0', 'do = "settle", rests = false')


def test_a_node_flaps() -> None:
    play = played('do = "flap", nodes = "2", away_s = 5, back_s = 15, times = 2')
    assert play.world.now == pytest.approx(20 + 2 * 20)
    assert play.world.nodes[2].leader_changes >= 0
    assert not play.world.weather.cut
    paused = played('do = "flap", nodes = "2", away_s = 5, back_s = 15, times = 2, how = "pause"')
    assert not paused.world.paused


def test_a_clock_that_is_set_back_counts_at_the_next_start() -> None:
    play = played('do = "set_back", nodes = "2", seconds = 60', cluster="nodes = 3, disk = false")
    before = play.world.nodes[2].context.incarnation
    play.world.crash(2)
    play.world.start(2)
    assert play.world.nodes[2].context.incarnation < before


def test_an_old_disk_is_restored() -> None:
    play = played('do = "image", nodes = "2"', 'do = "restart", nodes = "2"', 'do = "pass", s = 20')
    image = play.world.disks._images[2]
    assert image is not None
    assert play.world.disks.of(2) != image
    play.world.disks.restore(2)
    assert play.world.disks.of(2) == image


def test_a_full_socket_of_a_stopped_process_drops_only_datagrams() -> None:
    play = played()
    world = play.world
    world.pause(2)
    for _ in range(WAITING_MAX + 1):
        world.feed(2, Received(1, "10.0.0.1", Stranger(1, 1)))
    world.feed(2, Performance(100.0))
    assert world.overflowed == 1
    world.resume(2)
    assert world.nodes[2].optimizer.rank_change.jobs == 100.0
