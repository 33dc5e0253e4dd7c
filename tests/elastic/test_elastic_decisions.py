"""When a cluster grows and shrinks, by the criteria of the text and a clock of the test."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from subord.services.elastic.deciding import Decision, decide
from subord.services.elastic.options import Options, faults
from subord.services.elastic.seen import Node, Seen, Waiting

NOW = 1_800_000_000.0
MINUTE = 60.0
HOUR = 60 * MINUTE
MASTER = Node("master", 2, is_master=True, up_since=NOW - 100 * HOUR)
OPTIONS = Options(max_nodes=20)
having = partial(replace, OPTIONS)


def jobs(*waited_s: float, slots: int = 1) -> list[Waiting]:
    return [Waiting(str(number), slots, NOW - each) for number, each in enumerate(waited_s, 1)]


def workers(count: int, *, used: int = 0, slots: int = 2, minutes: float = 50) -> list[Node]:
    return [
        Node(f"node{number:03}", slots, used=used, jobs=used, up_since=NOW - minutes * MINUTE)
        for number in range(1, count + 1)
    ]


def seen(waiting: list[Waiting], nodes: list[Node] | None = None, **options: Any) -> Seen:
    return Seen(NOW, waiting, [MASTER, *(nodes or [])], **{"slots_of_new": 2, **options})


BUSY = MASTER._replace(used=2, jobs=2)


def busy(waiting: list[Waiting], nodes: list[Node] | None = None, **options: Any) -> Seen:
    return Seen(NOW, waiting, [BUSY, *(nodes or [])], **{"slots_of_new": 2, **options})


GROWTH: dict[str, tuple[Seen, Options, int]] = {
    "no job waits": (busy([]), OPTIONS, 0),
    "a job waits, not long enough": (busy(jobs(900)), OPTIONS, 0),
    "and long enough": (busy(jobs(901)), OPTIONS, 1),
    "the oldest counts, not the first of the queue": (busy(jobs(10, 901, 20)), OPTIONS, 1),
    "25 hours are more than a day and an hour": (busy(jobs(25 * HOUR)), having(job_wait_time_s=86_400), 1),
    "one slot on hosts of eight": (busy(jobs(901), slots_of_new=8), OPTIONS, 1),
    "as many as the queue needs": (busy(jobs(901, 1, 1)), having(add_nodes_per_iter=5), 2),
    "at most some at once": (busy(jobs(*[901.0] * 30)), having(add_nodes_per_iter=2), 2),
    "parallel jobs count by slots": (busy(jobs(901, slots=6)), having(add_nodes_per_iter=9), 3),
    "free slots are taken first": (seen(jobs(901, 1)), OPTIONS, 0),
    "enough slots in all, on no node together": (seen(jobs(901, slots=3), workers(1, used=1)), OPTIONS, 1),
    "such a node is coming already": (seen(jobs(901, slots=3), workers(1, used=1), coming=1), OPTIONS, 0),
    "nodes that are coming have slots": (busy(jobs(901, 1), coming=1), OPTIONS, 0),
    "nodes that are not removed yet are paid for": (
        busy(jobs(*[901.0] * 90), workers(17, used=2), going=2),
        having(add_nodes_per_iter=5),
        0,
    ),
    "and so are those that only the supplier knows": (
        busy(jobs(*[901.0] * 90), workers(17, used=2), unknown=1),
        having(add_nodes_per_iter=5),
        1,
    ),
    "never above the maximum": (
        busy(jobs(*[901.0] * 90), workers(18, used=2)),
        having(add_nodes_per_iter=5),
        1,
    ),
    "nodes that are coming count": (
        busy(jobs(*[901.0] * 90), workers(17, used=2), coming=2),
        having(add_nodes_per_iter=5),
        0,
    ),
    "at once below the minimum": (busy([]), having(min_nodes=3, add_nodes_per_iter=5), 2),
    "also there only some at once": (busy([]), having(min_nodes=9, add_nodes_per_iter=5), 5),
    "no usable slot, though the job came just now": (
        Seen(NOW, jobs(1), [MASTER._replace(is_usable=False)], slots_of_new=2),
        OPTIONS,
        1,
    ),
    "unequal hosts": (
        busy(jobs(901, slots=16), [Node("big", 64, used=50, jobs=9), Node("small", 1)], slots_of_new=4),
        OPTIONS,
        1,
    ),
}


@pytest.mark.parametrize(("sight", "options", "added"), GROWTH.values(), ids=GROWTH)
def test_growth(sight: Seen, options: Options, added: int) -> None:
    found = decide(options, sight)
    assert (found.add, found.remove) == (added, ())
    assert found.why


def test_after_a_change_the_effect_is_looked_at() -> None:
    sight = busy(jobs(2000))
    assert decide(OPTIONS, sight, NOW - 299).add == 0
    assert decide(OPTIONS, sight, NOW - 300).add == 1
    assert decide(OPTIONS, sight, NOW - 299).why == (
        "1 node is not added: nodes were added or removed, and the effect is looked at for another 1 s",
    )
    idle = seen([], workers(1))
    assert decide(OPTIONS, idle, NOW - 299).remove == ()
    assert decide(OPTIONS, idle, NOW - 300).remove == ("node001",)


def test_a_node_that_is_not_added_has_its_reason() -> None:
    assert decide(OPTIONS, busy(jobs(340, 20, 10))) == Decision(
        needed=2, why=("2 nodes are not added: the oldest job has waited 340 of 900 s",)
    )
    full = busy(jobs(*[901.0] * 9), workers(19, used=2))
    assert decide(OPTIONS, full).why == ("5 nodes are not added: the cluster has its 20 nodes",)
    some = decide(having(add_nodes_per_iter=2), busy(jobs(*[901.0] * 9)))
    assert some.why == (
        "2 nodes are added: the oldest job has waited 901 s, and the jobs that wait need 9 slots, 0 are free",
        "3 nodes are not added in this poll: at most 2 at once",
    )


def test_a_queue_that_is_empty_soon_needs_no_node_if_that_is_asked_for() -> None:
    options = having(lasts_s=300)
    assert decide(OPTIONS, busy(jobs(901), duration_s=60)).add == 1
    assert decide(options, busy(jobs(901))).add == 1, "no job has ended"
    assert decide(options, busy(jobs(901), duration_s=300)).add == 1
    soon = decide(options, busy(jobs(901), duration_s=60))
    assert (soon.add, soon.needed) == (0, 1)
    assert soon.why == ("1 node is not added: the queue will be empty in 60 s, sooner than in 300 s",)


@pytest.mark.parametrize(
    ("minutes", "goes"), [(44, False), (45, True), (59, True), (61, False), (60 * 24 + 46, True)]
)
def test_a_node_goes_late_in_its_paid_hour(minutes: float, goes: bool) -> None:
    found = decide(OPTIONS, seen([], workers(1, minutes=minutes)))
    assert found.remove == (("node001",) if goes else ())
    if not goes:
        minute = minutes % 60
        assert found.why[-1] == f"node001 stays: it is paid for, and in minute {minute:.0f} of 45 of its hour"


SHRINKAGE: dict[str, tuple[Seen, Options, tuple[str, ...]]] = {
    "a job waits": (seen(jobs(1), workers(1)), OPTIONS, ()),
    "all that are idle": (seen([], workers(3)), OPTIONS, ("node001", "node002", "node003")),
    "not one with a job": (
        seen([], [*workers(1), *[each._replace(name="busy", jobs=1) for each in workers(1)]]),
        OPTIONS,
        ("node001",),
    ),
    "not below the minimum": (seen([], workers(3)), having(min_nodes=2), ("node001", "node002")),
    "those that are of no use go first": (
        seen([], [*workers(2), Node("node009", 2, up_since=NOW - 50 * MINUTE, is_usable=False)]),
        having(min_nodes=3),
        ("node009",),
    ),
    "those that are of no use do not stand for those that are": (
        seen([], [*workers(1), Node("other", 2, is_usable=False)]),
        having(min_nodes=2),
        (),
    ),
    "not one that this cluster has not added": (
        seen([], [each._replace(up_since=None) for each in workers(1)]),
        OPTIONS,
        (),
    ),
    "not the master": (seen([]), having(min_nodes=1), ()),
    "not while nodes are coming": (seen([], workers(2), coming=1), OPTIONS, ()),
    "though the end of another one takes long": (seen([], workers(2), going=1), OPTIONS, ("node001", "node002")),
    "nodes that only the supplier knows serve no job": (
        seen([], workers(1), unknown=3),
        having(min_nodes=2),
        (),
    ),
    "by idle time, at any minute": (
        seen([], [each._replace(idle_since=NOW - 10 * MINUTE) for each in workers(1, minutes=61)]),
        having(idle_min=10),
        ("node001",),
    ),
    "by idle time, not yet": (
        seen([], [each._replace(idle_since=NOW - 9 * MINUTE) for each in workers(1)]),
        having(idle_min=10),
        (),
    ),
}


@pytest.mark.parametrize(("sight", "options", "removed"), SHRINKAGE.values(), ids=SHRINKAGE)
def test_shrinkage(sight: Seen, options: Options, removed: tuple[str, ...]) -> None:
    found = decide(options, sight)
    assert (found.add, found.remove, found.terminate) == (0, removed, False)
    assert found.why


def test_the_cluster_ends_only_when_it_is_asked_for_and_idle() -> None:
    late = MASTER._replace(up_since=NOW - 50 * MINUTE)
    alone = Seen(NOW, (), [late])
    killing = having(kill_cluster=True)
    assert decide(killing, alone).terminate
    assert not decide(OPTIONS, alone).terminate
    assert not decide(killing, Seen(NOW, (), [late._replace(jobs=1)])).terminate
    assert not decide(killing, Seen(NOW, (), [late._replace(up_since=NOW - 61 * MINUTE)])).terminate
    assert not decide(killing, Seen(NOW, jobs(1), [late])).terminate
    assert not decide(killing, Seen(NOW, (), [late], going=1)).terminate
    with_worker = decide(killing, Seen(NOW, (), [late, *workers(1)]))
    assert (with_worker.remove, with_worker.terminate) == (("node001",), False)
    assert not decide(killing, Seen(NOW, (), ())).terminate


class Cluster:
    """Nodes of two slots, and jobs of an hour that start in the order of the queue."""

    def __init__(self, jobs: int) -> None:
        self.now = NOW
        self.waiting = [Waiting(str(number), 1, NOW) for number in range(jobs)]
        self.up_since = {"master": NOW}
        self.ends: dict[str, list[float]] = {"master": []}

    def step(self) -> None:
        """A minute passes."""
        self.now += MINUTE
        for name, ends in self.ends.items():
            self.ends[name] = [each for each in ends if each > self.now]
            while self.waiting and len(self.ends[name]) < 2:
                self.waiting.pop(0)
                self.ends[name].append(self.now + HOUR)

    @property
    def seen(self) -> Seen:
        nodes = [
            Node(name, 2, len(ends), len(ends), self.up_since[name], is_master=name == "master")
            for name, ends in self.ends.items()
        ]
        return Seen(self.now, list(self.waiting), nodes, slots_of_new=2)

    def change(self, decision: Decision) -> None:
        for name in decision.remove:
            assert not self.ends.pop(name), "a job was there"
        for number in range(decision.add):
            name = f"node{self.now:.0f}-{number}"
            self.ends[name], self.up_since[name] = [], self.now


def test_the_cluster_of_the_text_grows_to_20_and_shrinks_to_one() -> None:
    """-m 20 -a 2, with 200 jobs that come at once."""
    options, changed = having(add_nodes_per_iter=2), -inf
    cluster, sizes = Cluster(200), [1]
    while cluster.now < NOW + 12 * HOUR:
        cluster.step()
        found = decide(options, cluster.seen, changed)
        if found.add or found.remove:
            changed = cluster.now
        cluster.change(found)
        sizes.append(len(cluster.ends))
    assert (max(sizes), sizes[-1]) == (20, 1)
    assert max(after - before for before, after in pairwise(sizes)) == 2
    assert not cluster.waiting


def test_options_that_make_no_sense_are_named() -> None:
    assert list(faults(OPTIONS)) == []
    wrong = Options(
        max_nodes=2,
        min_nodes=3,
        add_nodes_per_iter=0,
        interval_s=301,
        job_wait_time_s=-1,
        kill_after_min=60,
        stabilization_time_s=299,
        lookback_window_min=0,
        idle_min=0,
        lasts_s=0,
    )
    found = list(faults(wrong))
    assert len(found) == 9
    assert "--interval is 5 to 300 seconds, not 301" in found
