"""The checkers share no constant with the core, and each newer rule is broken once here."""

from __future__ import annotations

import ast
from itertools import count
from pathlib import Path

import msgspec
import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.edges.reports import Reports
from subord.core.edges.slots import Subordinate
from subord.core.edges.subordinates import Downlink
from subord.core.events import Wakeup
from subord.core.messages import AGE_S_MAX, Beat, Change, Guidance
from subord.core.placement.rank_change import RankChange
from subord.core.search.search import Search
from subord.core.settings import LAN, Settings
from subord.sim import campaign, checkers, limits
from subord.sim.checkers.fingerprints import Fingerprint
from subord.sim.checkers.liveness import demand_healing
from subord.sim.checkers.order import LowerRanksLead
from subord.sim.checkers.passing_on import is_readable
from subord.sim.checkers.safety import Checkers
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Scenario, read
from subord.sim.violation import Violation
from subord.sim.world.world import World
from subord.wire.codec import encode

CHECKERS = sorted([*Path(checkers.__path__[0]).glob("[!_]*.py"), Path(limits.__file__)])
SILENT_LEAF = """
title = "A leaf vanishes, and comes back without its leader's knowledge"
cluster = { nodes = 7, fanout = 2 }
steps = [{ do = "start" }, { do = "pass", s = 20 }, { do = "vanish", nodes = "7" }, { do = "pass", s = 20 }]
"""


def script() -> Scenario:
    return read(SILENT_LEAF)


@over("path", CHECKERS)
def test_checkers_import_no_constant_of_the_core(path: Path) -> None:
    """A bound read from the core would move with a fault in the core."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    of_core = [
        alias.name for each in imports if (each.module or "").startswith("subord.core") for alias in each.names
    ]
    assert len(CHECKERS) >= 13
    assert [constant for constant in of_core if constant.isupper()] == []


def test_the_script_passes_without_a_fault() -> None:
    verdict = campaign.try_script(script(), 1)
    assert verdict.broken == "", verdict.text


def test_s2_a_leader_that_waits_for_another_half_silence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up_at = Downlink._give_up_at
    half_s = 0.5 * limits.silence_s(Settings(network=Network.parse("10.0.0.0/24"))) + 1.0
    monkeypatch.setattr(Downlink, "_give_up_at", lambda self, each: give_up_at(self, each) + half_s)
    monkeypatch.setattr(Downlink, "on_cut", lambda *_: None)
    assert campaign.try_script(script(), 1).broken == "S2"


@pytest.mark.slow
def test_s11_a_branch_that_vanishes_from_the_roster_for_a_moment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 2 reports its branch anew now and then, and the branch takes more than one beat."""
    beats = count()

    def begins_anew(known: Subordinate, *_: object) -> bool:
        return known.position == 2 and next(beats) % 5 == 4

    monkeypatch.setattr("subord.core.edges.agreement.rows_differ", begins_anew)
    steps = (definition.Start(), definition.Pass(s=60))
    large = Scenario(title="a large branch", cluster=Cluster(nodes=100, fanout=2, timing="lab"), steps=steps)
    assert campaign.try_script(large, 1).broken == ""
    # Rows that are not in the first beat are swept.
    take = Reports.take
    monkeypatch.setattr("subord.core.edges.agreement.counts_differ", lambda *_: False)
    monkeypatch.setattr(Subordinate, "is_settled", lambda *_: True)
    monkeypatch.setattr(
        Reports,
        "take",
        lambda self, known, beat: take(self, known, msgspec.structs.replace(beat, more=False)),
    )
    assert campaign.try_script(large, 1).broken == "S11"


def test_s1_a_node_with_the_class_of_another_performance_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its claims agree with each other at every instant."""
    measured = RankChange.measured
    monkeypatch.setattr(RankChange, "measured", lambda self, jobs: measured(self, 1000 * jobs))
    assert campaign.try_seed(4, "performance").broken == "S1"


def test_s1_a_cycle_that_one_end_holds_lasts_for_a_silence_at_most() -> None:
    settings = Settings(network=Network.parse("10.0.0.0/29"), mapping="performance", timing_name="lab")
    world = World(settings, seed=1)
    for position in (1, 2, 3):
        world.start(position)
    world.run(10)
    checker, top = LowerRanksLead(settings), world.nodes[1]
    top.uplink.attach(2, world.nodes[2].context.incarnation, Guidance(1, (), (), (), adrift=False))
    checker.after(world, 1, Wakeup(), (), None)
    world.now += limits.silence_s(settings)
    world.paused[1] = []
    world.now += settings.timing.own_sleep_s + 0.1
    checker.after(world, 3, Wakeup(), (), None)
    del world.paused[1]  # a sleeping node learns nothing
    checker.after(world, 3, Wakeup(), (), None)
    world.now += limits.silence_s(settings) + settings.timing.own_sleep_s + 0.1
    with pytest.raises(Violation, match=r"S1 at .* a cycle for longer than a silence: \[1, 2\]"):
        checker.after(world, 3, Wakeup(), (), None)


def test_s1_a_cycle_that_both_ends_hold_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(network=Network.parse("10.0.0.0/29"), mapping="performance", timing_name="lab")
    world = World(settings, seed=1)
    for position in (1, 2, 3):
        world.start(position)
    world.run(10)
    checker, top, other = LowerRanksLead(settings), world.nodes[1], world.nodes[2]
    top.uplink.attach(2, other.context.incarnation, Guidance(1, (), (), (), adrift=False))
    other.downlink.slots.taken[1] = msgspec.structs.replace(top.downlink.slots.taken[2], position=1)
    monkeypatch.setattr(checker, "_demand_order", lambda *_: None)  # it would fail, too
    with pytest.raises(Violation, match=r"S1 at .* a cycle: \[1, 2\]"):
        checker.after(world, 1, Wakeup(), (), None)


def test_l5_a_prober_that_stays_fast_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/29"), fanout=2, guest_slots=2, timing_name="lab"), seed=1)
    for position in (1, 2, 3):
        world.start(position)
    monkeypatch.setattr(Search, "is_fast", True)
    with pytest.raises(Violation, match=r"L5 at .* still probe"):
        demand_healing(world)


def test_a_timer_that_is_due_excuses_only_removals() -> None:
    world = World(Settings(network=Network.parse("10.0.0.0/29"), fanout=2, guest_slots=2), seed=1)
    for position in (1, 2, 3):
        world.start(position)
    world.run(10)
    whole = Fingerprint.of(world.nodes[1])
    fewer = msgspec.structs.replace(whole, below={}, claims={0: whole.claims[0]}, rows={})
    assert not whole.lacks(fewer)
    assert fewer.lacks(whole)
    led = Fingerprint.of(world.nodes[2])
    assert led.above is not None
    assert not led.lacks(msgspec.structs.replace(led, above=None))
    other = msgspec.structs.replace(led.above[2], alternates=(3,))
    assert led.lacks(msgspec.structs.replace(led, above=(*led.above[:2], other, led.above[3])))


def test_limits_follow_from_the_settings() -> None:
    assert limits.silence_s(Settings(network=Network.parse("10.0.0.0/24"))) == pytest.approx(
        1.1 * LAN.beat_interval_s + (LAN.attempts + 1) * LAN.answer_s
    )
    assert limits.is_class_of(128, 1.0)
    assert limits.is_class_of(128, 1.7)
    assert not limits.is_class_of(128, 1.8)


def report_an_old_row() -> None:
    """Node 4 reports a subordinate of the highest possible age to its leader 2, which reports it to 1."""
    settings = Settings(network=Network.parse("10.0.0.0/27"), fanout=2, guest_slots=2, timing_name="lab")
    world = World(settings, seed=1)
    world.watcher = Checkers(settings)
    for position in (1, 2, 3, 4):
        world.start(position)
    world.run(10)
    leader, sender = world.nodes[2].context, world.nodes[4].context
    oldest = Change(9, 4, 2, 1, 0, age_s=AGE_S_MAX)
    beat = Beat(sender.incarnation, leader.incarnation, sender.next_number(), 1100, 1, (oldest,), rows=2)
    world.deliver(4, 2, encode(beat))
    before = world.dropped.total()
    world.run(5)
    assert world.leader_of(2) == 1
    assert world.dropped.total() == before


def test_s13_what_was_accepted_is_passed_on_and_read() -> None:
    report_an_old_row()


def test_s13_an_unreadable_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subord.core.state.roster.AGE_S_MAX", AGE_S_MAX << 1)
    with pytest.raises(Violation, match=r"S13 at .* 2 cannot pass on after 1 s"):
        report_an_old_row()


def test_a_message_out_of_bounds_is_not_readable() -> None:
    assert is_readable(Beat(1, 1, 1, 1, 1))
    assert not is_readable(Beat(1, 1, 1, 700_000, 1))
    assert not is_readable(Beat(1 << 64, 1, 1, 1, 1))
