"""What a node records in the journal, as rosters and orders with given times."""

from __future__ import annotations

from subord.core.carriage.documents import Document, Documents
from subord.core.carriage.orders import Verdict
from subord.core.events import SubordinateLeft
from subord.core.members import statements
from subord.core.members.journal import Event, Journal
from subord.core.members.membership import EVENTS, Membership
from subord.core.members.recorder import RECORDED_MAX
from subord.core.members.register import Record, Register, Run, State
from subord.core.members.statements import Forget, Maintain
from subord.core.members.writer import UP_DELAY_S
from subord.core.view import Liveness, Place, RosterRow, RosterView

WALL = 1_800_000_000.0
MS = int(WALL * 1000)
UP = Record(MS - 100_000, State.UP)


class Root:
    """Node 1. `placed_s`: the age of all places."""

    def __init__(self, *runs: Run, journal: Journal | None = None) -> None:
        self.membership = Membership(Register(1000, runs), Documents(), journal=journal, owner=1)
        self.now = 0.0
        self.placed_s = 1.0

    def look(self, after_s: float, leaders: dict[int, int], *missing: int, is_root: bool = True) -> None:
        self.now += after_s
        rows = [
            self._row(p, leader, Liveness.MISSING if p in missing else Liveness.LIVE) for p, leader in leaders.items()
        ]
        view = RosterView(owner=1, is_root=is_root, root=1, leader=None, quiet_s=0.0, rows=tuple(rows))
        self.membership.look(view, () if is_root else (9,), self.now, WALL + self.now)

    def _row(self, position: int, leader: int, liveness: Liveness) -> RosterRow:
        place = Place.HOME if leader else Place.ROOT
        return RosterRow(
            position=position,
            leader=leader or None,
            place=place,
            incarnation=1,
            since_s=self.placed_s,
            liveness=liveness,
        )

    def told(self) -> list[tuple[str, int, float]]:
        """Kind, node, and seconds."""
        return [(each.kind, each.position, (each.wall_ms - MS) / 1000) for each in self.membership.journal.events()]


def known(*leaders: tuple[int, int]) -> Journal:
    """A journal in which nodes joined long ago, below their leaders."""
    events = [
        Event(MS - 90_000, 9, p, "joined", p, leader, place=Place.HOME if leader else Place.ROOT)
        for p, leader in leaders
    ]
    return Journal(1000, [each.item for each in events])


def test_new_nodes_join_when_they_were_first_seen() -> None:
    root = Root()
    root.look(1.0, {1: 0, 2: 1})
    root.look(UP_DELAY_S, {1: 0, 2: 1})
    assert root.told() == [("joined", 1, 5.0), ("joined", 2, 5.0)]


def test_a_return_is_dated_when_it_is_noticed() -> None:
    """A node that was frozen keeps the age of its place."""
    root = Root(Run(1, 2, UP), journal=known((1, 0), (2, 1)))
    root.placed_s = 100.0
    root.look(1.0, {1: 0, 2: 1})
    root.placed_s = 0.0
    root.look(1.0, {1: 0, 2: 1}, 2)
    root.placed_s = 120.0
    root.look(10.0, {1: 0, 2: 1})
    root.look(UP_DELAY_S, {1: 0, 2: 1})
    (_, _, lost_s), (kind, _, back_s) = root.told()[-2:]
    assert (kind, lost_s, back_s) == ("returned", 2.0, 12.0)


def test_a_return_is_later_than_the_loss_though_the_clock_of_this_root_is_late() -> None:
    journal = known((1, 0), (2, 1))
    journal.merge([Event(MS + 60_000, 9, 50, "missing", 2).item])
    root = Root(Run(1, 1, UP), Run(2, 2, Record(MS - 99_999, State.DOWN)), journal=journal)
    root.look(1.0, {1: 0, 2: 1})
    root.look(UP_DELAY_S, {1: 0, 2: 1})
    assert root.told()[-1] == ("returned", 2, 60.001)


def test_a_new_root_tells_moves_and_no_known_node() -> None:
    root = Root(Run(1, 4, UP), journal=known((1, 9), (2, 9), (3, 2), (4, 2)))
    root.look(1.0, {1: 0, 2: 1, 3: 2, 4: 1})
    assert {each[:2] for each in root.told()[4:]} == {("root", 1), ("moved", 2), ("moved", 4)}


def test_only_a_root_records() -> None:
    root = Root(Run(1, 3, UP), journal=known((1, 0), (2, 1), (3, 1)))
    root.look(1.0, {1: 9, 2: 1}, is_root=False)
    assert len(root.told()) == 3


def test_a_goodbye_is_recorded_once_by_its_hearer() -> None:
    root = Root(Run(1, 2, UP))
    for _ in range(2):
        root.membership.observe(SubordinateLeft(2), 1.0, WALL + 1)
    (event,) = root.membership.journal.events()
    assert (event.kind, event.position, event.old, event.recorder) == ("left", 2, 1, 1)


def test_what_two_roots_recorded_is_mended() -> None:
    """The other root missed node 2 later than this one saw it return; both parts are one now."""
    journal = known((1, 0), (2, 1), (3, 1))
    journal.merge([Event(MS - 10, 9, 50, "missing", 2).item])
    root = Root(Run(1, 2, UP), Run(3, 3, Record(MS - 99_999, State.DOWN, MS - 500)), journal=journal)
    root.look(1.0, {1: 0, 2: 1})
    assert {each[:2] for each in root.told()[3:]} == {("missing", 2), ("missing", 3), ("returned", 2)}


def test_events_of_neighbours_are_compared_at_the_next_look() -> None:
    root = Root(Run(1, 2, UP), journal=known((1, 0), (2, 1)))
    root.look(1.0, {1: 0, 2: 1})
    root.membership.exchange.spread(EVENTS, [Event(MS, 9, 50, "missing", 2).item], "edge")
    root.look(1.0, {1: 0, 2: 1})
    assert root.told()[-1][:2] == ("returned", 2)


def give(root: Root, order: object, *, source: object = None, word: str = "") -> None:
    document = Document(*order, b"signed")  # type: ignore[misc]
    root.membership.take_documents([(document, Verdict(word, "ann", "SHA256:ann"))], source)


def test_orders_are_recorded_where_they_are_given() -> None:
    down = Record(MS - 50_000, State.DOWN)
    root = Root(Run(1, 3, UP), Run(4, 5, down))
    forget = statements.forget_order("1", Forget(((3, 9),), "sold", "root"), MS)
    for source, word in (("edge", ""), (None, "not_permitted")):
        give(Root(Run(4, 5, down)), forget, source=source, word=word)
        assert root.told() == []
    give(root, forget)
    events = root.membership.journal.events()
    assert [(each.kind, each.position, each.reason, each.by) for each in events] == [
        ("forgotten", 4, "sold", "ann"),
        ("forgotten", 5, "sold", "ann"),
    ]
    give(root, forget)
    assert len(root.told()) == 2


def test_a_maintenance_that_ends_for_some_nodes_is_over_for_those() -> None:
    root = Root(Run(1, 3, UP))
    first = statements.maintain_order("1", Maintain(((1, 3),), "disks", "root"), MS)
    give(root, first)
    second = statements.maintain_order("1", Maintain(((1, 1), (3, 3)), "disks", "root"), MS + 1, first)
    give(root, second)
    give(
        root, statements.maintain_order("1", Maintain(((1, 1), (3, 3)), "disks", "root", ended=True), MS + 2, second)
    )
    assert sorted(each[:2] for each in root.told()) == [
        ("maintained", 1),
        ("maintained", 2),
        ("maintained", 3),
        ("resumed", 1),
        ("resumed", 2),
        ("resumed", 3),
    ]


def test_an_order_of_many_nodes_has_a_bounded_number_of_events() -> None:
    root = Root(Run(1, 1000, UP))
    give(root, statements.maintain_order("1", Maintain(((1, 1000),), "move", "root"), MS))
    events = root.membership.journal.events()
    assert (len(events), events[-1].reason) == (RECORDED_MAX, f"move (and {1000 - RECORDED_MAX} more nodes)")
