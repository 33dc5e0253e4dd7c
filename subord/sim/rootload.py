"""Times the steps of a root of a large cluster, those in which many rows come, change or go at once.

Only the root is a real node; the messages of all others are made here, so that a hundred thousand nodes take seconds.
Position 1 is silent until the root is to follow it, and nodes at home below it are guests of the root.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from random import Random

from subord.core.address.network import Network
from subord.core.events import Action, Event, Measure, Measured, Received, Send, Start, Wakeup
from subord.core.messages import (
    CHANGES_MAX,
    Accept,
    Advice,
    Ask,
    Beat,
    Change,
    Echo,
    Goodbye,
    Guidance,
    Message,
    Propose,
    Terms,
    Why,
    Wish,
)
from subord.core.node import Node
from subord.core.quantize import UNKNOWN
from subord.core.settings import Settings
from subord.core.view import Place, Position

LOWER, ROOT = 1, 2
ROUND_TRIP_S = 0.001
LONG_S = 0.002
QUESTIONS = 300
PAUSE_S = 0.11  # between two questions
SETTLED_WITHIN_S = 0.0001  # per row of a branch that left
BEAT_WITHIN_S = 10_000.0  # as all beats promise
FALSE_ROWS = 2000
FIRST_INCARNATION = 1000
GUIDANCE = Guidance(1, (LOWER,), (), (), adrift=False)


class Steps:
    """The longest step of a root, in each part of its load: one event, handled. The seed decides the order of events.

    The garbage collector is off during a step: in the simulator it would traverse all nodes.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds, such as of processor time."""
        self._clock = clock
        self.part = ""  # of the load
        self.longest_of: dict[str, tuple[float, str]] = {}  # by part: seconds, and the kind of event
        self.steps = 0
        self.long = 0  # longer than LONG_S

    @property
    def longest(self) -> tuple[float, str]:
        """Seconds, and the kind of event."""
        return max(self.longest_of.values(), default=(0.0, ""))

    def watch(self, node: Node) -> None:
        """Time every step of this node from now on."""
        handle = node.handle

        def timed(event: Event, now: float) -> list[Action]:
            gc.disable()
            began = self._clock()
            actions = handle(event, now)
            self._note(self._clock() - began, type(getattr(event, "message", event)).__name__)
            gc.enable()
            return actions

        node.handle = timed  # type: ignore[method-assign]

    def _note(self, lasted_s: float, what: str) -> None:
        self.longest_of[self.part] = max(self.longest_of.get(self.part, (0.0, "")), (lasted_s, what))
        self.steps += 1
        self.long += lasted_s > LONG_S

    def collect_garbage(self) -> None:
        """Also what is not of the root: the program, and this load."""
        gc.collect()  # objects that it need not visit again
        began = self._clock()
        gc.collect()
        self.longest_of["collect_garbage"] = self._clock() - began, "whole process"


class RootLoad:
    """A root with `nodes` nodes, itself included, and the messages of the others."""

    def __init__(self, nodes: int, fanout: int, steps: Steps) -> None:
        self._settings = Settings(network=Network.parse("10.0.0.0/14"), fanout=fanout, guest_slots=fanout)
        self._terms = Terms.of(self._settings)
        self._last = ROOT + nodes - 1
        self._now = 0.0
        self._number = 1
        self.root = Node(self._settings, ROOT, FIRST_INCARNATION, Random(1), 0.0)
        steps.watch(self.root)
        self._has_lower = False
        self._answers = True
        self._liar = self._last + QUESTIONS
        self._feed(Start())
        self._pass(self._settings.timing.host_patience_s)
        self._branch: dict[Position, Position] = {}
        self._report()

    def _feed(self, event: Event) -> None:
        """With the answers of position 1, and of the nodes whose existence the root verifies."""
        events = deque([event])
        while events:
            for action in self.root.handle(events.popleft(), self._now):
                if isinstance(action, Measure) and self._answers:
                    events.append(Measured(action.target, action.number, ROUND_TRIP_S, UNKNOWN))
                elif isinstance(action, Send) and action.target == LOWER and self._has_lower:
                    events.extend(self._received(LOWER, answer) for answer in _answers_of_lower(action.message))

    def _received(self, source: Position, message: Message) -> Received:
        return Received(source, str(self._settings.network.address_of(source)), message)

    def _say(self, source: Position, message: Message) -> None:
        self._feed(self._received(source, message))

    def _pass(self, seconds: float) -> None:
        until = self._now + seconds
        while self.root.deadline <= until:
            self._now = self.root.deadline
            self._feed(Wakeup())
        self._now = until

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _beat(self, via: Position, changes: tuple[Change, ...], *, more: bool = False, rows: int = 0) -> None:
        next_ms = int(1000 * BEAT_WITHIN_S)
        beat = Beat(FIRST_INCARNATION, FIRST_INCARNATION, self._next(), next_ms, 0, changes, more=more, rows=rows)
        self._say(via, beat)

    def _propose(self, source: Position, wish: Wish, nodes: int) -> None:
        self._say(source, Propose(FIRST_INCARNATION, self._next(), self._terms, wish, nodes))

    def _leader_of(self, position: Position) -> Position:
        """Of a node at home; else the root."""
        return max(self._settings.numbering.computed_leader(position) or ROOT, ROOT)

    def _report(self) -> None:
        """Whole branches, one beat per branch and round."""
        branches: dict[Position, list[Change]] = {}
        for position in range(ROOT + 1, self._last + 1):
            leader = self._leader_of(position)
            via = self._branch[position] = position if leader == ROOT else self._branch[leader]
            branches.setdefault(via, []).append(Change(position, leader, 1, FIRST_INCARNATION, 0, 0))
        for via, changes in branches.items():
            self._propose(via, Wish.HOME, len(changes))
        rounds = -(-max(map(len, branches.values()), default=0) // CHANGES_MAX)
        for n in range(rounds):
            for via, changes in branches.items():
                part = tuple(changes[n * CHANGES_MAX : (n + 1) * CHANGES_MAX])
                if part:
                    self._beat(via, part, more=(n + 1) * CHANGES_MAX < len(changes))

    def ask(self, questions: int = QUESTIONS) -> None:
        """Newcomers ask for a place; before each question a row changes."""
        chance = Random(2)
        for n in range(1, questions + 1):
            position = chance.randint(self._last // 2, self._last)
            via = self._branch.get(position)
            if via is not None:
                change = Change(position, self._leader_of(position), 1, FIRST_INCARNATION, n, 0)
                self._beat(via, (change,))
            self._pass(PAUSE_S)
            self._say(self._last + n, Ask(FIRST_INCARNATION, self._next(), self._terms))

    @property
    def largest(self) -> Position:
        """The subordinate with the most rows."""
        return max(self.root.roster.claims, key=self.root.roster.living_of)

    def _settle(self, rows: int) -> None:
        self._pass(rows * SETTLED_WITHIN_S)
        assert not self.root.roster.unsettled

    def return_alone(self) -> None:
        """The largest subordinate begins a new session without its branch."""
        via, rows = self.largest, self.root.roster.living_of(self.largest)
        self._propose(via, Wish.HOME, 1)
        self._pass(2 * self._settings.timing.answer_s)
        self._beat(via, (Change(via, ROOT, 1, FIRST_INCARNATION, 1, 0),), rows=1)
        self._settle(rows)
        assert self.root.roster.living_of(via) == 1

    def exchange_guest(self) -> None:
        """A guest leaves with its branch, newcomers take all guest slots, and it proposes an exchange."""
        guest = ROOT + 1
        self._say(guest, Goodbye(FIRST_INCARNATION, Why.MOVED))
        self._settle(self._last)
        taken = self.root.downlink.slots.taken
        for n in range(self._settings.guest_slots - sum(each.place is Place.GUEST for each in taken.values())):
            self._propose(self._last + 1 + n, Wish.GUEST, 1)
        self._propose(guest, Wish.SWAP, self._last)
        assert guest in taken

    def report_falsely(self) -> None:
        """A new guest reports nodes that do not answer."""
        via = self._liar
        self._propose(via, Wish.GUEST, 1)
        self._answers = False
        for n in range(0, FALSE_ROWS, CHANGES_MAX):
            first = via + n
            changes = (Change(p, via, 1, FIRST_INCARNATION, 0, 0) for p in range(first, first + CHANGES_MAX))
            self._beat(via, tuple(changes), more=True)
        assert self.root.roster.kept

    def probe(self) -> None:
        """The root looks for position 1, and delegates."""
        self._pass(3 * self._settings.timing.leader_silence_s)

    def fail_trial(self) -> None:
        """Of the guest that reports falsely."""
        self._beat(self._liar, ())
        assert not self.root.roster.kept[self._liar]

    def follow(self) -> None:
        """Position 1 starts; the root follows it, and reports its rows."""
        self._has_lower = True
        self._pass(2 * self._settings.timing.search_interval_s_max)
        assert self.root.uplink.leader is not None
        assert not self.root.roster.unreported

    def lose_all(self) -> None:
        """All subordinates are silent."""
        self._pass(1.1 * BEAT_WITHIN_S)
        self._settle(self._last)
        assert not self.root.downlink.slots.taken


def _answers_of_lower(message: Message) -> list[Message]:
    match message:
        case Ask():
            return [Advice(FIRST_INCARNATION, message.exchange, room=True, root=LOWER, hints=(), highest_guest=0)]
        case Propose():
            return [Accept(FIRST_INCARNATION, message.exchange, GUIDANCE)]
        case Beat():
            return [Echo(FIRST_INCARNATION, message.number)]
        case _:
            return []


def longest_steps(nodes: int, fanout: int, clock: Callable[[], float]) -> Steps:
    """The step times of a root that lists `nodes` nodes."""
    steps = Steps(clock)
    steps.part = "report"
    load = RootLoad(nodes, fanout, steps)
    assert load.root.roster.live == nodes
    steps.collect_garbage()
    for act in (
        load.ask,
        load.report_falsely,
        load.probe,
        load.fail_trial,
        load.follow,
        load.exchange_guest,
        load.return_alone,
        load.lose_all,
    ):
        steps.part = act.__name__
        act()
    return steps
