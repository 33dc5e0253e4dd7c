"""What a root writes into the register, as rosters with given times."""

from __future__ import annotations

from subord.core.members.register import Record, Register, Run, State, runs_of
from subord.core.members.writer import GRACE_S, UP_DELAY_S, Departure, Writer
from subord.core.view import Liveness, Place, RosterRow, RosterView

WALL_MS = 1_800_000_000_000
SIZE = 100


class Root:
    """A root whose roster is set by hand."""

    def __init__(self, *runs: Run) -> None:
        self.register = Register(SIZE, runs)
        self.writer = Writer(self.register)
        self.now = 0.0
        self.rows: dict[int, Liveness] = {}

    def look(
        self, *, after_s: float = 0.0, departures: dict[int, Departure] | None = None, pending: set[int] | None = None
    ) -> list[Run]:
        self.now += after_s
        rows = tuple(
            RosterRow(position=p, leader=1, place=Place.HOME, incarnation=1, since_s=2.0, liveness=liveness)
            for p, liveness in self.rows.items()
        )
        view = RosterView(owner=1, is_root=True, root=1, leader=None, quiet_s=0.0, rows=rows)
        wall_ms = WALL_MS + int(1000 * self.now)
        written = self.writer.write(view, departures or {}, pending or set(), self.now, wall_ms)
        self.register.merge(written)
        return written

    def state(self, position: int) -> State | None:
        record = self.register.at(position)
        return None if record is None else record.state


def rooted(*runs: Run, live: range = range(1, 6)) -> Root:
    root = Root(*runs)
    root.rows = dict.fromkeys(live, Liveness.LIVE)
    return root


ALL_UP = Run(1, 5, Record(WALL_MS - 1000, State.UP))


def test_new_nodes_are_written_together() -> None:
    root = rooted(live=range(1, 4))
    assert root.look() == []
    root.rows |= {4: Liveness.LIVE, 5: Liveness.STALE}
    assert root.look(after_s=UP_DELAY_S / 2) == []
    assert root.writer.deadline == UP_DELAY_S
    assert root.look(after_s=UP_DELAY_S / 2) == [Run(1, 5, Record(WALL_MS, State.UP))]
    assert root.look(after_s=UP_DELAY_S) == []


def test_a_loss_that_is_older_than_the_record_counts_after_the_grace() -> None:
    """Services, seed 7374: the root of another part of the network has seen the node since, and it did not come
    back. Its row stays for an hour."""
    root = rooted(ALL_UP, live=range(1, 5))
    root.rows[5] = Liveness.MISSING
    assert root.look() == []
    assert root.look(after_s=GRACE_S - 1.0) == []
    assert root.writer.deadline == GRACE_S
    (run,) = root.look(after_s=1.0)
    assert (run.first, run.last, run.record.state) == (5, 5, State.DOWN)
    assert root.writer.take_unseen() == [5]


def test_a_row_after_a_goodbye_counts_at_its_deadline() -> None:
    """Sums and differences of times round differently (services, seed 40)."""
    for tenths in range(200):
        root = rooted(Run(1, 5, Record(WALL_MS - 1000, State.LEFT, WALL_MS - 1000)))
        root.now = tenths / 10
        assert root.look() == []
        assert root.look(after_s=root.writer.deadline - root.now)
        assert root.state(1) is State.UP


def test_a_goodbye_on_its_way_to_the_root_is_later_than_the_arrival() -> None:
    """The node left before the root wrote it; the record of its leader comes after that."""
    root = rooted(live=range(1, 4))
    root.look()
    root.look(after_s=UP_DELAY_S)
    root.register.merge([Run(3, 3, Record(WALL_MS + 2000, State.LEFT))])
    assert root.state(3) is State.LEFT


def test_the_row_of_a_node_that_left_is_no_return_until_it_stays() -> None:
    """Others came UP_DELAY_S ago and are due."""
    root = rooted(live=range(1, 4))
    root.look()
    root.register.merge([Run(3, 3, Record(WALL_MS + 3000, State.LEFT))])
    root.look(after_s=UP_DELAY_S - 1.0)
    root.look(after_s=1.0)
    assert (root.state(2), root.state(3)) == (State.UP, State.LEFT)
    assert root.writer.deadline == 2 * UP_DELAY_S - 1.0
    root.look(after_s=UP_DELAY_S - 1.0)
    assert root.state(3) is State.UP


def test_nothing_is_written_while_the_register_agrees() -> None:
    root = rooted(ALL_UP)
    for _ in range(5):
        assert root.look(after_s=GRACE_S) == []


MISSED = Departure(False, WALL_MS - 2000, 1)


def test_a_missing_node_is_down_at_once_and_once() -> None:
    root = rooted(ALL_UP)
    root.rows[3] = Liveness.MISSING
    assert root.look(departures={3: MISSED}) == [Run(3, 3, Record(WALL_MS - 999, State.DOWN, WALL_MS - 2000, 1))]
    assert root.look(after_s=1.0, departures={3: MISSED}) == []
    del root.rows[3]
    assert root.look(after_s=2 * GRACE_S) == []


def test_a_stamp_is_later_than_the_one_before() -> None:
    """Also if the clock of the root before was ahead."""
    root = rooted(Run(1, 5, Record(WALL_MS + 60_000, State.UP)))
    assert root.look(departures={3: MISSED})[0].record.stamp_ms == WALL_MS + 60_001


def test_a_node_that_stays_away_is_down_after_the_grace() -> None:
    """Its stamp is only the next one: what a root of another part says meanwhile is later."""
    root = rooted(ALL_UP)
    del root.rows[4]
    assert root.look() == []
    assert root.writer.deadline == GRACE_S
    assert root.look(after_s=GRACE_S - 0.1) == []
    assert root.look(after_s=0.1) == [Run(4, 4, Record(ALL_UP.record.stamp_ms + 1, State.DOWN, WALL_MS + 30_000))]
    assert root.writer.take_unseen() == [4]
    assert root.writer.take_unseen() == []


def test_the_grace_begins_anew_for_a_new_root() -> None:
    root = rooted(ALL_UP)
    del root.rows[4]
    root.look()
    root.writer.stop()
    assert root.look(after_s=GRACE_S) == []


def test_a_node_whose_departure_is_not_judged_yet_waits() -> None:
    root = rooted(ALL_UP)
    del root.rows[4]
    root.look(pending={4})
    assert root.look(after_s=2 * GRACE_S, pending={4}) == []


def test_departures() -> None:
    root = rooted(ALL_UP)
    del root.rows[4], root.rows[5]
    root.look(departures={4: Departure(True, WALL_MS, 0), 5: Departure(False, WALL_MS, 2)})
    assert (root.state(4), root.state(5)) == (State.LEFT, State.DOWN)


def test_a_goodbye_outlives_the_row_of_its_node() -> None:
    """The row may be claimed for some beats, and then count as missing."""
    root = rooted(ALL_UP)
    root.register.merge([Run(4, 4, Record(WALL_MS, State.LEFT))])
    assert root.look(after_s=1.0) == []
    root.rows[4] = Liveness.MISSING
    root.look(after_s=1.0, departures={4: MISSED})
    assert root.state(4) is State.LEFT


def test_a_forgotten_node_stays_forgotten_until_it_returns() -> None:
    root = rooted(ALL_UP)
    root.look(departures={4: MISSED})
    root.register.merge([Run(4, 4, Record(WALL_MS + 1, State.FORGOTTEN))])
    assert root.look(after_s=1.0) == []
    root.rows[4] = Liveness.LIVE
    root.look(after_s=1.0)
    root.look(after_s=UP_DELAY_S)
    assert root.state(4) is State.UP


def test_two_roots_that_join_agree() -> None:
    """Each has written the nodes of the other part down; the one that stays root lists all."""
    one, other = rooted(*runs_of(range(1, 6), Record(1, State.UP))), rooted(Run(1, 5, Record(1, State.UP)))
    other.rows = {4: Liveness.LIVE, 5: Liveness.LIVE}
    one.look(departures={4: MISSED, 5: MISSED})
    assert one.register.positions(State.DOWN) == [4, 5]
    other.look()
    other.look(after_s=GRACE_S)
    one.now = other.now
    one.rows = dict.fromkeys(range(1, 6), Liveness.LIVE)
    one.register.merge(other.register.items())
    one.look()
    one.look(after_s=UP_DELAY_S)
    assert one.register.positions(State.UP) == [1, 2, 3, 4, 5]


def test_an_expected_node_that_never_came_is_down_after_the_grace() -> None:
    root = rooted(ALL_UP)
    root.writer = Writer(root.register, (4, 7))
    root.look()
    assert root.look(after_s=GRACE_S) == [Run(7, 7, Record(WALL_MS + 30_000, State.DOWN, WALL_MS + 30_000))]
    root.register.merge([Run(7, 7, Record(WALL_MS + 40_000, State.FORGOTTEN))])
    assert root.look(after_s=GRACE_S) == []
