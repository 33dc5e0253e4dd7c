"""The iteration: what is offered to jobs in their order, what is freed, released and kept free, and the reasons."""

from __future__ import annotations

from typing import Any

import pytest
from loops import over

from subord.services.machines.model import Capacity, Doing, Job, Server, State
from subord.services.machines.orders import Action, Clone, Close, Delete, Forget, Open, Start, Stop
from subord.services.machines.plan import Headroom, Plan
from tests.machines.tables import (
    LARGE,
    NOW,
    OTHER,
    PLAN,
    ROOM,
    SMALL,
    actions,
    closed,
    decided,
    foreign,
    jobs,
    kind,
    machine,
    opened,
    plan,
    server,
)

TWO = Capacity(cores=2, memory=2000, disk=1000, slots=10)
ONE = Capacity(cores=1, memory=1000, disk=1000, slots=10)
NO_MOVES = plan(moves=False)
SMALL_STORE = plan(store_mb=3000)


# -- what is offered ------------------------------------------------------------------------------------------------

OFFERS: dict[str, tuple[list[Server], tuple[Job, ...], list[Action]]] = {
    "an open machine needs nothing": ([server("a", opened("m"))], jobs("short"), []),
    "each queue of the type": ([server("a", closed("m"))], jobs("long"), [Open("m")]),
    "a closed one before one that is off": ([server("a", machine("n"), closed("m"))], jobs("short"), [Open("m")]),
    "one that is off before a clone": ([server("a", machine("m"))], jobs("short"), [Start("m", "a")]),
    "a clone": ([server("a", machine("m", OTHER))], jobs("short"), [Clone("small-001", "small", "a")]),
    "clones have new names": (
        [server("a", closed("small-001", busy=1), machine("small-003", OTHER))],
        jobs("short", "short"),
        [Clone("small-002", "small", "a"), Clone("small-004", "small", "a")],
    ),
    "several ways for several jobs": (
        [server("a", opened("m"), closed("n"), machine("o"))],
        jobs("short", "short", "short", "short"),
        [Open("n"), Start("o", "a"), Clone("small-001", "small", "a")],
    ),
    "a move to the fastest server that fits": (
        [server("a", machine("m")), server("b", mhz=3000), server("c", foreign("f", 4), mhz=9000)],
        jobs("short"),
        [Start("m", "b", "a")],
    ),
    "no move among equally fast ones": (
        [server("a"), server("b", machine("m")), server("c")],
        jobs("short"),
        [Start("m", "b")],
    ),
    "not on a server that does not answer": (
        [server("a", machine("m"), mhz=9000, is_reachable=False), server("b")],
        jobs("short"),
        [Clone("small-001", "small", "b")],
    ),
    "a machine there is opened all the same": (
        [server("a", closed("m"), is_reachable=False)],
        jobs("short"),
        [Open("m")],
    ),
    "not on a drained server": (
        [server("a", machine("m"), mhz=9000, is_drained=True), server("b")],
        jobs("short"),
        [Start("m", "b", "a")],
    ),
    "one that is paused is left alone": (
        [server("a", closed("m", state=State.PAUSED))],
        jobs("short"),
        [Clone("small-001", "small", "a")],
    ),
    "one of an unknown type too": (
        [server("a", closed("m", type="older"))],
        jobs("short"),
        [Clone("small-001", "small", "a")],
    ),
    "four jobs on four slots": ([server("a", closed("m", LARGE))], jobs(*["big"] * 4), [Open("m", NOW + 600)]),
    "a job for the slots of two machines": (
        [server("a", closed("m", LARGE)), server("b", closed("n", LARGE))],
        jobs("big", slots=6),
        [Open("m", NOW + 600), Open("n", NOW + 600)],
    ),
    "a windowed machine with jobs is not opened again": (
        [server("a", closed("m", LARGE, busy=1)), server("b", machine("n", LARGE))],
        jobs("big"),
        [Start("n", "b")],
    ),
    "always-on machines have slots": (
        [server("a", opened("m", always_on=True), machine("n"))],
        jobs("short"),
        [],
    ),
    "a machine that is on its way arrives where it was given to": (
        [server("a", machine("m", given_to="b")), server("b"), server("c", mhz=9000)],
        jobs("short", "short"),
        [Start("m", "b", "a"), Clone("small-001", "small", "c")],
    ),
}


@pytest.mark.parametrize(("servers", "wanted", "expected"), OFFERS.values(), ids=OFFERS)
def test_offers(servers: list[Server], wanted: tuple[Job, ...], expected: list[Action]) -> None:
    found = decided(servers, wanted)
    assert set(actions(found)) == set(expected), found
    assert found.whys.keys() == {each.id for each in wanted}
    assert all(why.startswith("the machine") for why in found.whys.values()), found.whys


UNSURE: dict[str, tuple[list[Server], Plan, list[Action]]] = {
    "one that has lately not come up comes last": (
        [server("a", machine("m"), machine("n"))],
        NO_MOVES,
        [Start("n", "a"), Clone("small-001", "small", "a"), Clone("small-002", "small", "a")],
    ),
    "also after one elsewhere": ([server("a", machine("m")), server("b", machine("n"))], NO_MOVES, []),
    "without a clone it is tried": ([server("a", machine("m"))], plan(store_mb=1000), [Start("m", "a")]),
    "and gets room": (
        [server("a", machine("m"), closed("o", OTHER), closed("p", OTHER), capacity=TWO)],
        plan(store_mb=3000),
        [Stop("o", "a")],
    ),
}


@pytest.mark.parametrize(("servers", "given", "expected"), UNSURE.values(), ids=UNSURE)
def test_machines_that_have_not_come_up(servers: list[Server], given: Plan, expected: list[Action]) -> None:
    found = actions(decided(servers, jobs(*["short"] * max(1, len(expected))), given, unsure=frozenset(("m",))))
    assert found == (expected or [Start("n", "b")])


def test_the_image_of_one_that_has_not_come_up_makes_space_too() -> None:
    servers = [server("a", machine("m"), machine("n", OTHER))]
    found = actions(decided(servers, jobs("others", "others"), plan(store_mb=2000), unsure=frozenset(("m",))))
    assert found == [Start("n", "a"), Delete("m", "a")]


def test_a_machine_on_its_way_is_told_again_to_arrive() -> None:
    servers = [server("a", machine("m", given_to="b")), server("b"), server("c", foreign("f", 4))]
    found = decided(servers, jobs("short"), plan(store_mb=1000))
    assert actions(found) == [Start("m", "b", "a")]
    assert actions(decided([*servers[:1], *servers[2:]], jobs("short"), plan(store_mb=1000))) == []


UNDER_WAY: dict[str, tuple[list[Server], tuple[Action, ...], list[Action]]] = {
    "a start": ([server("a", machine("m"), machine("n"))], (Start("m", "a"),), []),
    "a start after a move": ([server("a", machine("m")), server("b")], (Start("m", "b", "a"),), []),
    "a clone": ([server("a", machine("n"))], (Clone("small-001", "small", "a"),), []),
    "starting by its server": ([server("a", machine("m", doing=Doing.STARTING, since=NOW), machine("n"))], (), []),
    "cloning by its server": ([server("a", machine("m", doing=Doing.CLONING, since=NOW), machine("n"))], (), []),
    "on, and not up yet": ([server("a", machine("m", state=State.ON, since=NOW - 300), machine("n"))], (), []),
    "opening": ([server("a", closed("m"), machine("n"))], (Open("m"),), []),
    "closing": ([server("a", opened("m"), machine("n"))], (Close("m"),), []),
    "starting for too long": (
        [server("a", machine("m", doing=Doing.STARTING, since=NOW - 301), machine("n"))],
        (),
        [Start("n", "a")],
    ),
    "not up for too long": (
        [server("a", machine("m", state=State.ON, since=NOW - 301), machine("n"))],
        (),
        [Stop("m", "a"), Start("n", "a")],
    ),
    "stopping": ([server("a", closed("m"), machine("n"))], (Stop("m", "a"),), [Start("n", "a")]),
    "starting where its server does not answer": (
        [server("a", machine("m", doing=Doing.STARTING, since=NOW), is_reachable=False), server("b", machine("n"))],
        (),
        [Start("n", "b")],
    ),
}


@pytest.mark.parametrize(("servers", "pending", "expected"), UNDER_WAY.values(), ids=UNDER_WAY)
def test_what_is_under_way_counts(servers: list[Server], pending: tuple[Action, ...], expected: list[Action]) -> None:
    assert set(actions(decided(servers, jobs("short"), pending=pending))) == set(expected)


def test_room_of_what_is_under_way_is_taken() -> None:
    servers = [server("a", machine("m"), machine("n"), capacity=ONE)]
    assert actions(decided(servers, jobs("short", "short"), pending=(Start("m", "a"),))) == []
    clone = (Clone("small-001", "small", "a"),)
    assert actions(decided([server("a", machine("n"), capacity=ONE)], jobs("short", "short"), pending=clone)) == []


# -- who comes first ------------------------------------------------------------------------------------------------


def test_the_first_job_chooses_first() -> None:
    servers = [server("a", machine("m"), machine("n", OTHER), capacity=ONE)]
    assert actions(decided(servers, jobs("short", "others"))) == [Start("m", "a")]
    assert actions(decided(servers, jobs("others", "short"))) == [Start("n", "a")]


def test_room_is_kept_for_a_large_job_that_comes_first() -> None:
    """Otherwise small ones would take each core that becomes free."""
    busy = [closed(f"m{number}", busy=1) for number in range(3)]
    found = decided([server("a", *busy)], jobs("big", "short"))
    assert actions(found) == []
    assert found.whys == {
        "1": "1 of 4 cores and 1000 of 4000 MiB of memory are free on a, which keeps them for it",
        "2": "all room is taken, or kept for jobs that come first",
    }
    assert actions(decided([server("a", *busy)], jobs("short", "big"))) == [Clone("small-001", "small", "a")]


def test_room_is_kept_where_least_is_lacking_and_no_machine_of_others_is() -> None:
    servers = [server("a", foreign("f", 1)), server("b", *[closed(f"m{at}", busy=1) for at in range(3)])]
    assert actions(decided(servers, jobs("big", "short"))) == [Clone("small-001", "small", "a")]
    assert "on b, which keeps" in decided(servers, jobs("big")).whys["1"]


def test_a_type_has_at_most_so_many_machines() -> None:
    few = plan(types=(kind(SMALL, most=2), LARGE, OTHER))
    found = decided([server("a", closed("m", busy=1), machine("n"), machine("o"))], jobs("short", "short"), few)
    assert actions(found) == [Start("n", "a")]
    assert found.whys["2"] == "2 machines of the type small are on, and 2 are the most"


# -- room is made ---------------------------------------------------------------------------------------------------

FREED: dict[str, tuple[list[Server], str, list[Action]]] = {
    "an idle machine of another type": ([server("a", closed("m", OTHER), capacity=ONE)], "short", [Stop("m", "a")]),
    "it is closed first": ([server("a", opened("m", LARGE, since=NOW))], "short", [Close("m")]),
    "the smallest first, and none in vain": (
        [server("a", closed("m", LARGE), closed("n", OTHER), closed("o", OTHER), capacity=Capacity(6, 9000, 0, 10))],
        "short",
        [Stop("n", "a")],
    ),
    "as many as it takes": (
        [server("a", *[closed(f"m{at}", OTHER) for at in range(4)])],
        "big",
        [Stop(f"m{at}", "a") for at in range(4)],
    ),
    "a small one is spared where a large one must go": (
        [server("a", closed("m", OTHER), closed("n", kind(OTHER, cores=4)), capacity=Capacity(5, 9000, 0, 10))],
        "big",
        [Stop("n", "a")],
    ),
    "where the fewest stop": (
        [
            server("a", *[closed(f"m{at}", OTHER) for at in range(4)], mhz=9000),
            server("b", foreign("f", 0), closed("n", kind(OTHER, cores=4, memory_mb=3000))),
            server("c", closed("o", kind(OTHER, cores=4, memory_mb=4000))),
        ],
        "big",
        [Stop("o", "c")],
    ),
    "not one with a job": ([server("a", closed("m", OTHER, busy=1), capacity=ONE)], "short", []),
    "not one of others": ([server("a", foreign("m"), capacity=ONE)], "short", []),
    "not one that is always on": ([server("a", closed("m", OTHER, always_on=True), capacity=ONE)], "short", []),
    "not where nobody answers": ([server("a", closed("m", OTHER), capacity=ONE, is_reachable=False)], "short", []),
}


@pytest.mark.parametrize(("servers", "queue", "expected"), FREED.values(), ids=FREED)
def test_room_is_made(servers: list[Server], queue: str, expected: list[Action]) -> None:
    found = decided(servers, jobs(queue))
    assert set(actions(found)) == set(expected), found
    assert found.whys["1"]


def test_machines_that_stop_are_waited_for() -> None:
    servers = [server("a", closed("m", OTHER), closed("n", OTHER), capacity=TWO)]
    assert actions(decided(servers, jobs("short"), pending=(Stop("m", "a"),))) == []
    assert decided(servers, jobs("short"), pending=(Stop("m", "a"),)).whys["1"] == "waits for machines that stop on a"
    assert actions(decided(servers, jobs("short", "short"), pending=(Stop("m", "a"),))) == [Stop("n", "a")]


def test_a_machine_that_a_job_comes_for_is_not_stopped() -> None:
    servers = [server("a", closed("m", OTHER), capacity=ONE)]
    assert actions(decided(servers, jobs("others", "short"))) == [Open("m")]
    assert actions(decided(servers, jobs("short", "others"))) == [Stop("m", "a")]


def test_images_of_other_types_are_deleted_for_a_clone() -> None:
    off = [machine("m", LARGE), machine("n", OTHER)]
    found = decided([server("a", *off)], jobs("short"), SMALL_STORE)
    assert actions(found) == [Delete("n", "a")]
    assert found.whys["1"] == "waits until the images of n are deleted"
    assert actions(decided([server("a", *off)], jobs("short"), SMALL_STORE, (Delete("n", "a"),))) == []
    assert actions(decided([server("a", off[0])], jobs("short"), plan(store_mb=2000))) == [Delete("m", "a")]


def test_an_idle_machine_is_stopped_before_its_image_is_deleted() -> None:
    found = decided([server("a", closed("m", OTHER))], jobs("short"), plan(store_mb=1000))
    assert actions(found) == [Stop("m", "a")]
    assert found.whys["1"] == "the store of images lacks 1000 MiB for a clone of s"


def test_clones_share_the_store() -> None:
    found = decided([server("a")], jobs("short", "others", "short", "short"), SMALL_STORE)
    assert len(actions(found)) == 3


def test_a_template_that_is_not_there() -> None:
    found = decided([server("a")], jobs("short", "others"), lacking=frozenset(("small",)))
    assert actions(found) == [Clone("other-001", "other", "a")]
    assert found.whys["1"] == (
        "no machine of the type small is off, and no server that answers has its template s, or could clone it lately"
    )
    found = decided([server("a", machine("m"))], jobs("short"), lacking=frozenset(("small",)))
    assert actions(found) == [Start("m", "a")]


def test_without_moves_a_machine_starts_where_it_is() -> None:
    servers = [server("a", machine("m")), server("b", mhz=9000)]
    assert actions(decided(servers, jobs("short"), NO_MOVES)) == [Start("m", "a")]
    full = [server("a", machine("m"), foreign("f", 4)), server("b", mhz=9000)]
    assert actions(decided(full, jobs("short"), NO_MOVES)) == [Clone("small-001", "small", "b")]
    no_space = plan(moves=False, store_mb=1000)
    assert actions(decided(full, jobs("short"), no_space)) == []
    assert "no server is large" not in decided(full, jobs("short"), no_space).whys["1"]


def test_space_is_made_for_a_clone_where_a_machine_that_is_off_cannot_start() -> None:
    servers = [server("a", machine("m"), foreign("f", 4)), server("b", machine("n", OTHER))]
    found = decided(servers, jobs("short"), plan(moves=False, store_mb=2000))
    assert actions(found) == [Delete("n", "b")]


def test_names_that_are_taken_elsewhere() -> None:
    found = decided([server("a")], jobs("short"), names=frozenset(("small-001", "small-002")))
    assert actions(found) == [Clone("small-003", "small", "a")]


# -- what is released -----------------------------------------------------------------------------------------------

RELEASED: dict[str, tuple[list[Server], tuple[Job, ...], list[Action]]] = {
    "a job has started": ([server("a", opened("m", busy=1))], (), [Close("m")]),
    "no job waits": ([server("a", opened("m"))], (), [Close("m")]),
    "a job waits": ([server("a", opened("m"))], jobs("short"), []),
    "after the job it stays on": ([server("a", closed("m"))], (), []),
    "several slots stay open": ([server("a", opened("m", LARGE, busy=1, window_ends=NOW + 1))], (), []),
    "until the window is over": ([server("a", opened("m", LARGE, busy=1, window_ends=NOW))], (), [Close("m")]),
    "also if jobs wait": ([server("a", opened("m", LARGE, busy=1, window_ends=NOW))], jobs("big"), [Close("m")]),
    "a window that is not known began with the power": (
        [server("a", opened("m", LARGE)._replace(since=NOW - 600))],
        (),
        [Close("m")],
    ),
    "and lasts": ([server("a", opened("m", LARGE)._replace(since=NOW - 599))], (), []),
    "always on": ([server("a", opened("m", busy=1, always_on=True))], (), []),
    "not ours": ([server("a", opened("m", busy=1, type=""))], (), []),
    "closing already": ([server("a", opened("m", busy=1)._replace(doing=Doing.STOPPING))], (), []),
}


@pytest.mark.parametrize(("servers", "wanted", "expected"), RELEASED.values(), ids=RELEASED)
def test_released(servers: list[Server], wanted: tuple[Job, ...], expected: list[Action]) -> None:
    found = decided(servers, wanted)
    assert [each for each in actions(found) if isinstance(each, Close)] == expected, found


def test_without_a_window_several_slots_stay_open() -> None:
    open_ended = plan(types=(SMALL, kind(LARGE, window_s=0), OTHER))
    assert actions(decided([server("a", opened("m", LARGE)._replace(since=0.0))], given=open_ended)) == []
    assert actions(decided([server("a", closed("m", LARGE, busy=1))], jobs("big"), open_ended)) == [Open("m")]


def test_names_of_the_plan_are_always_on() -> None:
    named = plan(always_on=("m",))
    assert actions(decided([server("a", opened("m", busy=1))], given=named)) == []
    assert actions(decided([server("a", closed("m", OTHER), capacity=ONE)], jobs("short"), named)) == []


# -- overbooked, drained, headroom ----------------------------------------------------------------------------------

EMPTIED: dict[str, tuple[list[Server], tuple[Job, ...], list[Action]]] = {
    "the first idle machine, though a job waits": (
        [server("a", closed("m"), closed("n", busy=1), capacity=ONE)],
        jobs("short"),
        [Stop("m", "a")],
    ),
    "not more than it takes": (
        [server("a", *[closed(f"m{at}") for at in range(4)], capacity=TWO)],
        (),
        [Stop("m0", "a"), Stop("m1", "a")],
    ),
    "stopping ones count": (
        [server("a", closed("m", doing=Doing.STOPPING, since=NOW), closed("n"), capacity=ONE)],
        (),
        [],
    ),
    "busy ones with several slots are closed": (
        [server("a", opened("m", LARGE, busy=2, window_ends=NOW + 9), foreign("f"))],
        (),
        [Close("m")],
    ),
    "not one that does not help": (
        [server("a", closed("m"), foreign("f"), capacity=Capacity(4, 4000, -1, 10))],
        (),
        [],
    ),
    "not what is not ours": ([server("a", foreign("f", 9))], (), []),
    "a drained server": (
        [server("a", closed("m"), opened("n", busy=1), is_drained=True)],
        (),
        [Stop("m", "a"), Close("n")],
    ),
}


@pytest.mark.parametrize(("servers", "wanted", "expected"), EMPTIED.values(), ids=EMPTIED)
def test_emptied(servers: list[Server], wanted: tuple[Job, ...], expected: list[Action]) -> None:
    found = actions(decided(servers, wanted))
    assert set(found) - {each for each in found if isinstance(each, Clone)} == set(expected)


HEADROOM: dict[str, tuple[Headroom, tuple[Job, ...], list[Action]]] = {
    "none": (Headroom(), (), []),
    "it is there": (Headroom(cores=2), (), []),
    "one machine": (Headroom(cores=3), (), [Stop("m", "a")]),
    "both": (Headroom(memory_mb=4000), (), [Stop("m", "a"), Stop("n", "a")]),
    "not one that a job comes for": (Headroom(cores=4), jobs("short"), [Open("m"), Stop("n", "a")]),
    "what stops would not help": (Headroom(disk_mb=9000), (), []),
}


@pytest.mark.parametrize(("wanted", "waiting", "expected"), HEADROOM.values(), ids=HEADROOM)
def test_headroom(wanted: Headroom, waiting: tuple[Job, ...], expected: list[Action]) -> None:
    servers = [server("a", closed("m"), closed("n"))]
    assert set(actions(decided(servers, waiting, plan(headroom=wanted)))) == set(expected)


# -- records and words ----------------------------------------------------------------------------------------------


def test_the_record_of_a_move_is_forgotten_when_the_machine_has_arrived() -> None:
    moved = [server("a", machine("m", given_to="b")), server("b", machine("m"))]
    assert actions(decided(moved)) == [Forget("m", "a")]
    assert actions(decided([*moved, server("c", mhz=9000)], jobs("short"), plan(store_mb=1000))) == [Start("m", "b")]


def test_a_move_that_was_interrupted_goes_on_to_the_same_server() -> None:
    arriving = server("b", machine("m", came_from="a"))
    both = [server("a", machine("m", given_to="b")), arriving, server("c", mhz=9000)]
    assert actions(decided(both, jobs("short"), plan(store_mb=1000))) == [Forget("m", "a")], "it may be on both"
    last = [server("a"), arriving, server("c", mhz=9000)]
    assert actions(decided(last, jobs("short"), plan(store_mb=1000))) == [Start("m", "b", "a")]
    silent = [server("a", is_reachable=False), arriving, server("c", mhz=9000)]
    assert actions(decided(silent, jobs("short"), plan(store_mb=1000))) == [], "it may have it still"
    assert actions(decided([arriving, server("c")], jobs("short"), plan(store_mb=1000))) == []


def test_a_machine_that_was_given_away_and_is_on_by_hand_is_left_alone() -> None:
    there = server("a", closed("m", given_to="b"))
    for servers in ([there, server("b")], [there, server("b", machine("m"))]):
        found = decided(servers, jobs("short"), lacking=frozenset({"small"}))
        assert actions(found) == []
        assert found.notes == ("the machine m is on on a, which has given it to b: it is left alone",)


def test_a_machine_that_has_just_moved_counts_where_it_is_on() -> None:
    """The server that gave it may have answered before."""
    starting = machine("m", doing=Doing.STARTING, since=NOW)
    for there in (starting, closed("m")):
        found = decided([server("a", machine("m"), machine("n")), server("b", there)], jobs("short"))
        assert Start("n", "a") not in actions(found)
        assert found.notes == ()


def test_a_machine_on_two_servers_is_left_alone() -> None:
    found = decided([server("a", machine("m")), server("b", machine("m"))], jobs("short"), plan(store_mb=1000))
    (note,) = found.notes
    assert note.startswith("the machine m is on the servers a and b: it is left alone: undefine it where it is not")
    assert Start("m", "a") not in actions(found)
    assert Start("m", "b") not in actions(found)


WORDS: dict[str, tuple[list[Server], str, Plan, str]] = {
    "no type": ([server("a")], "nothing", PLAN, "the queue nothing has no type of machines in the plan"),
    "no server": ([], "short", PLAN, "no server answers, or all are drained"),
    "too large": (
        [server("a", capacity=ONE)],
        "big",
        PLAN,
        (
            "no server is large enough: 4 cores, 4000 MiB of memory and 0 MiB of disk are needed, and the largest "
            "has 1 cores, 1000 MiB of memory and 1000 MiB of disk"
        ),
    ),
    "taken": (
        [server("a", foreign("f"), capacity=ONE)],
        "short",
        PLAN,
        "all room is taken, or kept for jobs that come first",
    ),
}


@pytest.mark.parametrize(("servers", "queue", "given", "why"), WORDS.values(), ids=WORDS)
def test_each_job_that_gets_nothing_has_its_reason(servers: list[Server], queue: str, given: Plan, why: str) -> None:
    found = decided(servers, jobs(queue), given)
    assert dict(found.whys) == {"1": why}
    assert found.given == ()


@over(
    ("changes", "note"),
    [
        ({"state": State.PAUSED}, "the machine m on a is paused: it is left alone"),
        ({"state": State.UNKNOWN}, "the machine m on a is unknown: it is left alone"),
        ({"doing": Doing.STOPPING, "since": NOW - 181}, "the machine m on a is stopping for 181 s: it is left alone"),
    ],
)
def test_notes(changes: dict[str, Any], note: str) -> None:
    assert decided([server("a", closed("m")._replace(**changes))]).notes == (note,)


@over(
    ("changes", "note"),
    [
        ({"given_to": "b"}, "the machine m is on its way from a to b, which has not answered"),
        ({"came_from": "b"}, "the machine m is on its way from b, which has not answered, to a"),
    ],
)
def test_a_machine_on_its_way_from_or_to_a_server_that_is_not_known(changes: dict[str, Any], note: str) -> None:
    servers = [server("a", machine("m", **changes))]
    assert decided(servers).notes == (f"{note}: it is left alone until that server is back",)
    assert decided([*servers, server("b", is_reachable=False)]).notes == (), "it may come back any moment"


def test_an_iteration_looks_at_so_many_parts_of_jobs() -> None:
    found = decided([server("a", capacity=ROOM)], (Job("1", "short", tasks=20_000), Job("2", "others")))
    assert len(found.given) == 4
    assert found.whys["2"] == "one iteration looks at 10000 parts of jobs, and others come first"
