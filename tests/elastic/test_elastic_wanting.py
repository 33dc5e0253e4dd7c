"""Nodes that the batch system has started and ended: what is decided of them, and the manager beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio
from elastic_stories import HOUR, MINUTE, made, managed, plan, serving, until
from elastic_world import MASTER, Killed, now
from saving_world import DOWN_S, IDLE_S, RESUME_S, Saving

from subord.services.batch.records import Host, HostState, Queue, Wanted
from subord.services.elastic.deciding import Decision, Start, decide
from subord.services.elastic.managing.advancing import begun
from subord.services.elastic.managing.looking import Looking, Own
from subord.services.elastic.managing.wanting import AGAIN, HIDDEN, POWERED_DOWN, Asked, Wanting, obeyed, overlooked
from subord.services.elastic.options import Options, faults
from subord.services.elastic.seen import Kind, Node, Seen
from subord.services.elastic.stages import ADDING, REMOVING, Record, Stage

OPTIONS = Options(max_nodes=4, decides="slurm", queue="batch")
SAVED = plan(decides="slurm", interval_s=10, max_nodes=4)
MOVING = (*ADDING, *REMOVING)


def host(name: str, wanted: Wanted, word: str = "IDLE+CLOUD", reason: str = "", slots: int = 2) -> Host:
    return Host(name, slots, 0, 0, HostState.DOWN, False, word, None, slots, None, reason, wanted)


def record(name: str, stage: Stage = Stage.SERVING, *, is_wanted: bool = True) -> Record:
    fields = begun(name, 0, "", 2, 0.0, is_wanted=is_wanted)
    return Record(
        **{each: getattr(fields, each) for each in Record.__struct_fields__ if each != "stage"}, stage=stage
    )


def asked(wanting: Wanting, records: list[Record], *hosts: Host) -> Asked:
    return wanting.asked({each.name: each for each in records}, hosts)


# -- what the batch system wants ------------------------------------------------------------------------------------


def test_nodes_that_are_waited_for_are_started_and_those_powered_down_are_ended() -> None:
    found = asked(
        Wanting(),
        [record("c1"), record("c2"), record("c3", Stage.JOINING), record("c4", Stage.MOUNTING)],
        host("c1", Wanted.STAY),
        host("c2", Wanted.END),
        host("c3", Wanted.START),
        host("c4", Wanted.END, "DOWN+CLOUD", "ResumeTimeout reached"),
        host("c5", Wanted.START),
        host("c6", Wanted.END),
        host("c7", Wanted.STAY),
        host("h1", Wanted.NOTHING),
    )
    assert [each.name for each in found.start] == ["c5"]
    assert found.end == {"c2": POWERED_DOWN}
    assert found.undo == {"c4": "Slurm has given it up (ResumeTimeout reached)"}
    assert [each.name for each in found.given_up] == ["c4"]


def test_a_node_that_one_answer_lacks_stays() -> None:
    wanting, ours = Wanting(), [record("c1"), record("c2", Stage.NAMING)]
    assert asked(wanting, ours) == Asked()
    assert asked(wanting, ours, host("c1", Wanted.STAY), host("c2", Wanted.START)) == Asked()
    assert asked(wanting, ours) == Asked()
    again = asked(wanting, ours)
    assert (again.end, again.undo) == ({"c1": HIDDEN}, {"c2": HIDDEN})


def test_a_machine_from_before_the_last_power_down_is_ended() -> None:
    """The manager was away in the meantime."""
    waited = host("c1", Wanted.START)
    assert asked(Wanting(), [record("c1")], waited).end == {"c1": AGAIN}
    for stage in REMOVING:
        found = asked(Wanting(), [record("c1", stage)], waited)
        assert (found.start, found.end, found.later) == ((), {}, ("c1",))
    assert asked(Wanting(), [], waited).start == (waited,)


def test_nodes_that_the_manager_has_named_are_none_of_slurms() -> None:
    wanting, ours = Wanting(), [record("node001", is_wanted=False)]
    assert asked(wanting, ours) == asked(wanting, ours) == Asked()


# -- what is decided ------------------------------------------------------------------------------------------------


def seen(count: int, kinds: tuple[Kind, ...] = (), **fields: Any) -> Seen:
    nodes = [Node(f"n{number}", 2) for number in range(count)]
    return Seen(now=0.0, waiting=(), nodes=nodes, kinds=kinds, **fields)


def waited(*names: str, slots: int = 2) -> Asked:
    return Asked(start=tuple(host(name, Wanted.START, slots=slots) for name in names))


def test_all_that_slurm_waits_for_are_started_at_once() -> None:
    found = obeyed(OPTIONS, seen(1), waited("c1", "c2"))
    assert found.starts == (Start("c1", Kind("", 2)), Start("c2", Kind("", 2)))
    assert (found.add, found.remove, found.needed, found.is_full) == (0, (), 2, False)
    assert found.why == ("started: Slurm wants c1, c2",)


@pytest.mark.parametrize(("count", "going", "starts"), [(2, 0, 2), (2, 1, 1), (3, 1, 0), (6, 0, 0)])
def test_max_nodes_holds_slurm_back(count: int, going: int, starts: int) -> None:
    found = obeyed(OPTIONS, seen(count, going=going), waited("c1", "c2", "c3"))
    assert len(found.starts) == starts
    assert found.is_full == (not starts)
    held = ["c1", "c2", "c3"][starts:]
    assert f"Slurm wants {', '.join(held)}, and the cluster has its 4 nodes then" in found.why[-1]
    assert "publish a larger --max_nodes" in found.why[-1]


def test_the_cheapest_kind_with_enough_slots_is_started() -> None:
    kinds = (Kind("small", 2), Kind("large", 8))
    assert obeyed(OPTIONS, seen(1, kinds), waited("c1", slots=2)).starts == (Start("c1", Kind("small", 2)),)
    assert obeyed(OPTIONS, seen(1, kinds), waited("c1", slots=3)).starts == (Start("c1", Kind("large", 3)),)
    none = obeyed(OPTIONS, seen(1, kinds), waited("c1", slots=9))
    assert (none.starts, none.needed) == ((), 1)
    assert "c1 is not started: Slurm says that it has 9 CPUs" in none.why[0]
    wrong = obeyed(OPTIONS, seen(1, kinds), waited("c1"), "the plan is wrong")
    assert (wrong.starts, wrong.why) == ((), ("c1 is not started: the plan is wrong",))


def test_nodes_of_other_partitions_are_not_started() -> None:
    found = obeyed(OPTIONS, seen(1), waited("c1", slots=0))
    assert found.why == ("c1 is not started: it is not in the partition batch",)


def test_reasons_for_the_rest() -> None:
    found = obeyed(
        OPTIONS,
        seen(1),
        Asked(
            end={"c1": POWERED_DOWN},
            later=("c2",),
            given_up=(host("c3", Wanted.END, "DOWN+CLOUD", "ResumeTimeout reached"),),
        ),
    )
    assert found.why == (
        "c1 is removed: Slurm has powered it down",
        "c2 is started as soon as its machine from before has been ended",
        (
            "Slurm has given up c3 (ResumeTimeout reached), and does not use it: see why, then "
            "`scontrol update NodeName=c3 State=RESUME`"
        ),
    )
    quiet = obeyed(OPTIONS, seen(1), Asked())
    assert quiet == Decision(why=quiet.why)
    assert "Slurm decides" in quiet.why[0]


def test_a_plan_by_which_slurm_does_not_decide_says_what_slurm_waits_for() -> None:
    assert overlooked(Asked()) == ()
    (told,) = overlooked(waited(*(f"c{number}" for number in range(10))))
    assert "c7 and 2 more" in told
    assert "--decides slurm" in told


def test_idle_nodes_of_slurm_are_not_removed_by_subord() -> None:
    looking, up = Looking("", MASTER), host("c1", Wanted.STAY)
    for now_s in (0.0, 4000.0):
        found = looking.seen(Queue((), now_s), [up], Own({"c1": 0.0}))
    decision = decide(Options(max_nodes=4, min_nodes=1, idle_min=1), found._replace(nodes=[*found.nodes] * 2))
    assert decision.remove == ()
    assert decision.why[-1] == "c1 stays: Slurm has it started and ended"


def test_the_master_is_not_ended_by_slurm() -> None:
    assert not list(faults(OPTIONS))
    (wrong,) = faults(Options(max_nodes=4, decides="slurm", kill_cluster=True))
    assert "--kill-cluster" in wrong


# -- the manager ----------------------------------------------------------------------------------------------------


async def test_a_node_comes_and_goes_as_slurm_wants(autojump_clock: Any) -> None:
    world = Saving(max_nodes=4)

    async def story() -> None:
        world.submit(5, lasts_s=400)
        await until(lambda: len(world.machines) == 3, 30)
        await until(lambda: not any(not task.host for task in world.tasks), 2 * MINUTE)
        await until(lambda: serving(world) == ["c1", "c2", "c3"], MINUTE)
        await until(lambda: len(world.ended) == 5, 10 * MINUTE)
        await until(world.is_quiet, IDLE_S + MINUTE)
        assert sorted(world.stopped) == sorted(world.launched) == ["c1", "c2", "c3"]
        await until(lambda: world.states[-1].removed == 3, 5)
        assert (world.states[-1].added, world.states[-1].undone) == (3, 0)
        assert world.hosts.keys() == {MASTER}

    await managed(world, story, SAVED)


async def test_nodes_that_are_powered_down_are_not_counted(autojump_clock: Any) -> None:
    """With PrivateData=cloud they are in the answers of Slurm."""
    world = Saving(tuple(f"c{number}" for number in range(1, 10)), hides=False, max_nodes=3)

    async def story() -> None:
        world.submit(8, lasts_s=400)
        await until(lambda: len(serving(world)) == 2, 3 * MINUTE)
        await until(lambda: world.states[-1].slots == 6, MINUTE)
        state = world.states[-1]
        assert state.size == 3
        assert state.needed >= 4
        assert any("the cluster has its 3 nodes then" in why for why in state.why)
        assert state.blocked_since > 0
        assert [each.name for each in state.nodes] == ["c1", "c2", MASTER]
        for _ in range(3):
            await trio.sleep(RESUME_S)
            _resumed(world)
        await until(world.is_quiet, HOUR)
        assert len(world.ended) == 8

    await managed(world, story, plan(decides="slurm", interval_s=10, max_nodes=3))


async def test_a_node_that_a_person_has_drained_stays_so(autojump_clock: Any) -> None:
    world = Saving(("c1",), max_nodes=2)
    world.saved["c1"].is_drained = True

    async def story() -> None:
        world.submit(3, lasts_s=600)
        await until(lambda: serving(world) == ["c1"], 3 * MINUTE)
        await until(lambda: world.is_quiet() or len(world.ended) == 3, HOUR)
        await until(world.is_quiet, HOUR)

    await managed(world, story, plan(decides="slurm", interval_s=10, max_nodes=2))


async def test_a_node_that_was_never_seen_going_ends_as_well(autojump_clock: Any) -> None:
    """Between two polls Slurm has powered it down, and hides it."""
    world = Saving(("c1",), max_nodes=2)

    async def story() -> None:
        world.submit(3, lasts_s=300)
        await until(lambda: serving(world), 5 * MINUTE)
        came = len(world.states)
        await until(lambda: world.saved["c1"].wanted == Wanted.END, 10 * MINUTE)
        world.down_until["batch"] = now() + DOWN_S + 5
        await until(world.is_quiet, 5 * MINUTE)
        await until(lambda: world.states[-1].removed == 1, 5)
        assert (world.states[-1].added, world.states[-1].undone) == (1, 0)
        stages = {each.stage for state in world.states[came:] for each in state.nodes if each.name == "c1"}
        assert Stage.REGISTERING not in stages

    await managed(world, story, plan(decides="slurm", interval_s=60, max_nodes=2))


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stage", MOVING)
async def test_the_death_of_the_manager_changes_nothing(stage: Stage, when: str, autojump_clock: Any) -> None:
    world, killed = Saving(("c1",), max_nodes=2), list[float]()

    def kill(each: Record, at: str) -> None:
        if (each.stage, at) == (stage, when) and not killed:
            killed.append(now())
            world.life.is_dead = True
            raise Killed

    async def story() -> None:
        world.submit(3, lasts_s=300)
        await until(lambda: killed and world.is_quiet(), 20 * MINUTE)
        assert world.launched == world.stopped == ["c1"]
        assert len(world.ended) == 3

    await managed(world, story, plan(decides="slurm", interval_s=10, max_nodes=2), kill)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_lost_while_all_kinds_of_things_fail(seed: int, autojump_clock: Any) -> None:
    world = Saving(max_nodes=4, seed=seed, deadly=0.01)

    async def story() -> None:
        for _ in range(8):
            world.submit(world.chance.randint(1, 4), lasts_s=world.chance.uniform(30, 900))
            what = world.chance.choice(("batch", "supplier", "orders"))
            world.down_until[what] = now() + world.chance.uniform(0, 200)
            await trio.sleep(world.chance.uniform(0, 600))
            _resumed(world)
        await until(lambda: _resumed(world) and world.is_quiet(), 3 * HOUR)
        assert len(world.ended) == world.count

    await managed(world, story, SAVED)


def _resumed(world: Saving) -> bool:
    """As a person does with nodes that are given up."""
    for each in world.saved.values():
        each.is_down = False
    return True


async def test_slurm_says_when_a_node_is_given_up(autojump_clock: Any) -> None:
    """Not elastic.wait_s."""
    world = Saving(("c1",), max_nodes=2, boot_s=HOUR)

    async def story() -> None:
        world.submit(3, lasts_s=2 * HOUR)
        await until(lambda: world.machines, 30)
        await trio.sleep(RESUME_S - MINUTE)
        assert world.machines.keys() == {"c1"}
        await until(lambda: not world.machines and not world.disk.records, 3 * MINUTE)
        assert world.saved["c1"].is_down
        await until(lambda: world.states[-1].undone == 1, 5)
        await until(lambda: any("was not added: c1: Slurm" in each for each in world.states[-1].why), 15)
        (why,) = (each for each in world.states[-1].why if "was not added" in each)
        assert "Slurm has given it up (DOWN+CLOUD)" in why
        assert "joining: 10.0.0.2 does not answer" in why
        await trio.sleep(MINUTE)
        assert world.launched == ["c1"], "Slurm does not use it until a person has looked"

    await managed(world, story, plan(decides="slurm", interval_s=10, max_nodes=2), None, 100.0)


async def test_a_node_that_was_powered_down_and_up_meanwhile_is_started_anew(autojump_clock: Any) -> None:
    world = Saving(("c1",), max_nodes=2)

    async def story() -> None:
        world.submit(3, lasts_s=100)
        await until(lambda: world.used("c1") and serving(world), 3 * MINUTE)
        world.down_until["batch"] = now() + 100 + IDLE_S + DOWN_S + 30
        await until(lambda: len(world.ended) == 3, 3 * MINUTE)
        await until(lambda: world.saved["c1"].wanted == Wanted.END, IDLE_S + 20)
        await trio.sleep(DOWN_S)
        world.submit(3, lasts_s=100)
        await until(lambda: len(world.ended) == 6, 10 * MINUTE)
        await until(world.is_quiet, IDLE_S + 2 * MINUTE)
        assert world.launched == world.stopped == ["c1", "c1"]

    await managed(world, story, plan(decides="slurm", interval_s=10, max_nodes=2))


async def test_a_plan_by_which_slurm_does_not_decide_leaves_its_nodes(autojump_clock: Any) -> None:
    """They end when Slurm powers them down all the same."""
    world = Saving(max_nodes=4)
    by_slurm, by_subord = world.disk, plan(decides="subord", interval_s=10, max_nodes=4, job_wait_time_s=10_000)

    async def begin() -> None:
        world.submit(3, lasts_s=600)
        await until(lambda: serving(world), 3 * MINUTE)

    await managed(world, begin, SAVED)
    assert by_slurm.records["c1"].is_wanted

    async def go_on() -> None:
        await until(lambda: len(world.ended) == 3, 11 * MINUTE)
        world.submit(7, lasts_s=60)
        await until(lambda: any("--decides slurm" in why for each in world.states for why in each.why), 3 * MINUTE)
        await until(lambda: not world.machines and not world.disk.records, 10 * MINUTE)
        assert world.launched == ["c1"]

    await managed(world, go_on, by_subord)


# -- polls that are asked for ---------------------------------------------------------------------------------------


async def test_a_poll_can_be_asked_for_every_two_seconds(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Saving(max_nodes=4)
    polls = list[float]()
    manager = made(world, plan(decides="slurm", interval_s=60, max_nodes=4))
    poll = manager._poll

    async def noted() -> str:
        polls.append(trio.current_time())
        return await poll()

    monkeypatch.setattr(manager, "_poll", noted)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(manager.run)
        await trio.sleep(30)
        assert len(polls) == 1
        manager.poll_soon()
        await trio.sleep(0.1)
        assert len(polls) == 2
        for _ in range(200):
            manager.poll_soon()
            await trio.sleep(0.1)
        assert all(2 <= later - earlier < 5 for earlier, later in pairwise(polls[1:]))
        count = len(polls)
        await trio.sleep(50)
        assert len(polls) - count <= 1, "one more for the last time that it was asked"
        await trio.sleep(20)
        assert 1 <= len(polls) - count <= 2
        nursery.cancel_scope.cancel()
