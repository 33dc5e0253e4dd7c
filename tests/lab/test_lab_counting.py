"""Which nodes moved, and how long orphans were without a leader: pure, from pictures and events."""

from loops import over

from .lab_helpers import netlab


def place(mono, node, leader=None):
    return {"mono": mono, "node": node, "event": "place", "place": "home" if leader else "root", "leader": leader}


def forked(mono, node):
    return {"mono": mono, "node": node, "event": "lab_forked", "pid": 1}


def exited(mono, node):
    return {"mono": mono, "node": node, "event": "lab_exited", "pid": 1, "code": -9}


BEFORE = (forked(1, "a"), forked(1, "b"), forked(1, "c"), place(2, "a"), place(2, "b", "a"), place(2, "c", "b"))


@over(
    ("since", "expected"),
    [
        ([], {}),
        ([place(3, "c", "a")], {"c": 1}),
        ([place(3, "c", "a"), place(4, "c", "b")], {"c": 2}),  # there and back is two
        ([place(3, "c", "b")], {}),  # the same leader again
        ([place(3, "c")], {"c": 1}),  # root: to have none is another leader, too
        ([exited(3, "b"), place(4, "c", "a")], {"c": 1}),  # the dead do not count
        ([exited(3, "b"), forked(4, "b"), place(5, "b", "a"), place(6, "b", "c")], {}),  # nor does a new life
        ([forked(3, "d"), place(4, "d", "a"), place(5, "d", "b")], {}),
    ],
)
def test_moves(since, expected):
    events, counting = netlab("eventlog.events"), netlab("eventlog.changes")
    cluster = events.Cluster()
    for event in BEFORE:
        cluster.apply(event)
    baseline = counting.baseline(cluster)
    for event in since:
        cluster.apply(event)
    assert counting.moves(cluster, baseline) == expected


@over(
    ("done", "events", "expected"),
    [
        ([], [place(11, "c", "a")], ([1], [])),
        ([], [place(9, "c", "a"), place(12, "c", "a"), place(15, "c", "b")], ([2], [])),  # the first one after it
        ([], [], ([], ["c"])),
        ([("strike", "c", 11)], [], ([], [])),  # it fell itself
        ([("strike", "c", 12)], [place(11, "c", "a")], ([1], [])),  # but had one before
        ([("strike", "c", 9)], [place(11, "c", "a")], ([1], [])),  # and an old blow does not matter
        ([], [forked(11, "b"), place(13, "b", "a")], ([3], [])),  # its leader has a place again
        ([], [forked(11, "b")], ([], ["c"])),
        ([], [place(11, "b")], ([], ["c"])),  # a leader that is cut off is root of itself: no help
        ([("back", "b", 14)], [place(11, "b")], ([4], [])),  # until its cable is back
    ],
)
def test_attached(done, events, expected):
    losses = netlab("eventlog.changes").Losses()
    losses.leader_fell("b", ["c"], 10)
    for what, node, at in done:
        getattr(losses, what)(node, at)
    assert losses.attached_s(events) == expected


def test_the_orphan_of_two_leaders_counts_twice():
    losses = netlab("eventlog.changes").Losses()
    losses.leader_fell("b", ["c"], 10)
    losses.leader_fell("a", ["c"], 12)
    assert losses.attached_s([place(11, "c", "a"), place(15, "c", "d")]) == ([1, 3], [])
