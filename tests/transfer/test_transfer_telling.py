"""What the agent of a transfer host tells of its jobs, and how many it has counted."""

from __future__ import annotations

import math

from msgspec.structs import replace

from subord.runtime.transfer.state import COMES, JOBS_MAX, LEAVES
from subord.services.transfer.away import Away
from subord.services.transfer.away import Kept as AwayKept
from subord.services.transfer.cells.interface import Being, Foreign, Look
from subord.services.transfer.driving.counting import Counts
from subord.services.transfer.driving.telling import ENDS_KEPT, Both, Seen, ending_text, state_of
from subord.services.transfer.exchange import Stage
from subord.services.transfer.home import Home
from subord.services.transfer.home import Kept as HomeKept
from subord.services.transfer.jobs import End, Key, Spec, Usage
from subord.services.transfer.linking.counts import Counts as LinkCounts
from subord.services.transfer.states import AwayRecord, HomeRecord, HomeState
from tests.transfer.test_transfer_driver import plan_of

SPEC = Spec(user="ann", name="x", script="true\n")


def key(job: int, cluster: str = "one") -> Key:
    return Key(cluster, str(job), 0, 1_795_682_000_000 + job)


def sides_of(of_home: list[HomeRecord], of_away: list[AwayRecord]) -> Both:
    plan = plan_of("one", "two")
    return Both(
        Home(plan, 5, HomeKept(tuple(of_home)), 100.0),
        Away(plan, 5, AwayKept(tuple(of_away)), 100.0),
        {},
        {},
        100.0,
    )


def test_jobs_that_need_a_person_come_first_and_those_that_are_over_last() -> None:
    end = End(status=7)
    of_home = [
        HomeRecord(key=key(1), state=HomeState.ENDED, end=end),
        HomeRecord(key=key(2), state=HomeState.ABROAD, spec=SPEC, id="77"),
        HomeRecord(key=key(3), state=HomeState.UNKNOWN, reason="its end is not known"),
    ]
    of_away = [
        AwayRecord(key=key(4, "two"), stage=Stage.HERE, user="bob", id="88"),
        AwayRecord(key=key(5, "two"), stage=Stage.ENDED, end=End(signal=9)),
    ]
    told = state_of(sides_of(of_home, of_away), Seen(at=1.0), LinkCounts(), 3, "gridengine")
    shown = [(each.way, each.job, each.state, each.user, each.end) for each in told.jobs]
    assert shown == [
        (LEAVES, "3", "unknown", "", ""),
        (LEAVES, "2", "abroad", "ann", ""),
        (COMES, "4", "here", "bob", ""),
        (LEAVES, "1", "ended", "", "status 7"),
        (COMES, "5", "ended", "", "signal 9"),
    ]
    assert (told.leaving, told.coming) == ({"ended": 1, "abroad": 1, "unknown": 1}, {"here": 1, "ended": 1})
    assert (told.version, told.cluster, told.peer, told.left_out) == (3, "one", "two", 0)


def test_the_last_connection_that_was_refused_has_its_time() -> None:
    counts = LinkCounts()
    assert state_of(sides_of([], []), Seen(), counts, 1, "gridengine").refused_at == 0.0
    counts.refuse("stranger", "10.0.9.9")
    told = state_of(sides_of([], []), Seen(), counts, 1, "gridengine")
    assert (told.refused_last, told.refused_at) == ("10.0.9.9: stranger", counts.refused_at)


def test_of_many_jobs_the_first_are_told_and_all_are_counted() -> None:
    of_home = [HomeRecord(key=key(each), state=HomeState.ABROAD) for each in range(1, JOBS_MAX + 8)]
    told = state_of(sides_of(of_home, []), Seen(), LinkCounts(), 1, "gridengine")
    assert (len(told.jobs), told.left_out, told.leaving) == (JOBS_MAX, 7, {"abroad": JOBS_MAX + 7})
    assert told.jobs[0].job == "1"


def test_jobs_that_are_over_are_told_last_with_what_they_have_used() -> None:
    """The newest first. What the other cluster says of its usage may be no amount."""
    usage = Usage(host="run1", wall_s=20.0, cpu_s=12.5, memory_bytes=300 << 20)
    over = tuple(HomeRecord(key=key(each), state=HomeState.ENDED, end=End(usage=usage)) for each in (1, 2, 3))
    no_usage = Usage(wall_s=math.inf, cpu_s=math.nan, memory_bytes=-1)
    wild = HomeRecord(key=key(5), state=HomeState.ENDED, end=End(usage=no_usage))
    assert ending_text(wild) == "job 5 was not in the other cluster: ended, status 0"
    both = sides_of([over[2], HomeRecord(key=key(4), state=HomeState.ABROAD)], [])
    told = state_of(both._replace(over=(*over, wild)), Seen(), LinkCounts(), 1, "gridengine")
    assert [(each.job, each.is_over) for each in told.jobs] == [
        ("4", False),
        ("3", False),
        ("5", True),
        ("2", True),
        ("1", True),
    ]
    last = told.jobs[-1]
    assert (last.host, last.wall_s, last.cpu_s, last.memory_bytes) == ("run1", 20.0, 12.5, 300 << 20)
    strange = told.jobs[2]
    assert (strange.wall_s, strange.cpu_s, strange.memory_bytes, told.left_out) == (None, None, None, 0)


def test_jobs_that_are_over_have_places_however_many_cross() -> None:
    of_home = [HomeRecord(key=key(each), state=HomeState.ABROAD) for each in range(1, JOBS_MAX + 1)]
    over = tuple(HomeRecord(key=key(each), state=HomeState.ENDED) for each in range(2000, 2300))
    told = state_of(sides_of(of_home, [])._replace(over=over), Seen(), LinkCounts(), 1, "gridengine")
    ended = [each.job for each in told.jobs if each.is_over]
    assert (len(told.jobs), told.left_out) == (JOBS_MAX, ENDS_KEPT)
    assert ended == [str(each) for each in range(2299, 2299 - ENDS_KEPT, -1)]


def test_each_job_counts_once_for_each_that_is_true_of_it() -> None:
    counts = Counts()
    record = HomeRecord(key=key(1), state=HomeState.ABROAD)
    for state in (HomeState.WAITING, HomeState.ABROAD, HomeState.SENDING, HomeState.ABROAD, HomeState.ENDED):
        counts.note({record.key: replace(record, state=state)}, {})
    assert counts.home == {"left": 1, "ended": 1}
    counts.note({record.key: None}, {})
    counts.note({record.key: record}, {})
    assert counts.home["left"] == 2, "what is forgotten may come again"
    ended = replace(record, state=HomeState.ENDED)
    assert counts.note({record.key: ended}, {}) == [ended]
    assert counts.note({record.key: ended}, {}) == [], "its end is told once"
    coming = AwayRecord(key=key(2, "two"), stage=Stage.TAKEN)
    for stage in (Stage.TAKEN, Stage.SOUGHT, Stage.TAKEN, Stage.GONE):
        counts.note({}, {coming.key: replace(coming, stage=stage)})
    assert counts.away == {"taken": 1, "returned": 1}


def test_forged_marks_are_counted() -> None:
    sides = sides_of([], [])
    sides.away.looked(Look(0, (Foreign(key(9, "two").mark, "1", Being.RUNNING, owner="root"),)), 100.0, 100.0)
    told = state_of(sides, Seen(), LinkCounts(), 1, "gridengine")
    assert (told.forged, told.coming) == (1, {})


def test_the_log_says_how_a_job_has_ended_and_what_it_has_used() -> None:
    usage = Usage(host="run1", cpu_s=12.46, memory_bytes=300 << 20)
    record = HomeRecord(key=key(12), state=HomeState.ENDED, id="1001", end=End(status=7, usage=usage))
    assert ending_text(record) == (
        "job 12 is 1001 in the other cluster: ended, status 7, on run1, 12.5 s of processor time, "
        "300 MiB of virtual memory"
    )
    task = HomeRecord(key=Key("one", "12", 3, 5), state=HomeState.RETURNING, reason="it had no permit within 60 s")
    assert ending_text(task) == "job 12.3 was not in the other cluster: returning, it had no permit within 60 s"


def test_the_log_has_one_line_whatever_the_other_cluster_writes() -> None:
    end = End(usage=Usage(host="run1\nroot: all is well"))
    record = HomeRecord(key=key(12), state=HomeState.ENDED, id="\x1b[2J", end=end, reason="a\rb")
    assert ending_text(record).isprintable()
