"""Times the steps of a root of a large cluster: its subordinates report all their rows, then newcomers ask.

Only the root is a real node; the messages of its subordinates and of the newcomers are made here, so that a hundred
thousand nodes take seconds. Between two questions one row changes.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable
from random import Random

from subord.core.address.network import Network
from subord.core.events import Action, Event, Received, Start, Wakeup
from subord.core.messages import CHANGES_MAX, Ask, Beat, Change, Message, Propose, Terms, Wish
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.view import Position

ROOT = 1
QUESTIONS = 300
PAUSE_S = 0.11  # between two questions
FIRST_INCARNATION = 1000


class Steps:
    """The longest time of each kind of step of a root: one event, handled. The seed decides the order of events.

    The garbage collector is off during a step: in the simulator it would traverse all nodes.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds, such as of processor time."""
        self._clock = clock
        self.longest_s: dict[str, float] = defaultdict(float)  # by kind of event

    @property
    def longest(self) -> tuple[float, str]:
        """Seconds, and the kind of event."""
        return max(((seconds, what) for what, seconds in self.longest_s.items()), default=(0.0, ""))

    def watch(self, node: Node) -> None:
        """Time every step of this node from now on."""
        handle = node.handle

        def timed(event: Event, now: float) -> list[Action]:
            gc.disable()
            began = self._clock()
            actions = handle(event, now)
            lasted_s = self._clock() - began
            gc.enable()
            what = type(getattr(event, "message", event)).__name__
            self.longest_s[what] = max(self.longest_s[what], lasted_s)
            return actions

        node.handle = timed  # type: ignore[method-assign]


class RootLoad:
    """A root, positions 2 to `nodes` at home below it, and their messages."""

    def __init__(self, nodes: int, fanout: int, steps: Steps) -> None:
        self._settings = Settings(network=Network.parse("10.0.0.0/14"), fanout=fanout, guest_slots=fanout)
        self._terms = Terms.of(self._settings)
        self._nodes = nodes
        self._now = 0.0
        self._number = 1
        self.root = Node(self._settings, ROOT, FIRST_INCARNATION, Random(1), 0.0)
        steps.watch(self.root)
        self._feed(Start())
        self._pass(self._settings.timing.host_patience_s)
        self._branch: dict[Position, Position] = {}
        self._report()

    def _feed(self, event: Event) -> None:
        self.root.handle(event, self._now)

    def _say(self, source: Position, message: Message) -> None:
        self._feed(Received(source, str(self._settings.network.address_of(source)), message))

    def _pass(self, seconds: float) -> None:
        until = self._now + seconds
        while self.root.deadline <= until:
            self._now = self.root.deadline
            self._feed(Wakeup())
        self._now = until

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _beat(self, via: Position, changes: tuple[Change, ...], *, more: bool = False) -> None:
        self._say(via, Beat(FIRST_INCARNATION, FIRST_INCARNATION, self._next(), 10**7, 0, changes, more=more))

    def _report(self) -> None:
        """Whole branches, one beat per branch and round."""
        leader_of = self._settings.numbering.computed_leader
        branches: dict[Position, list[Change]] = {}
        for position in range(2, self._nodes + 1):
            leader = leader_of(position) or ROOT
            via = self._branch[position] = position if leader == ROOT else self._branch[leader]
            branches.setdefault(via, []).append(Change(position, leader, 1, FIRST_INCARNATION, 0, 0))
        for via, changes in branches.items():
            self._say(via, Propose(FIRST_INCARNATION, self._next(), self._terms, Wish.HOME, len(changes)))
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
            position = chance.randrange(self._nodes // 2, self._nodes) + 1
            via = self._branch.get(position)
            if via is not None:
                leader = self._settings.numbering.computed_leader(position) or ROOT
                self._beat(via, (Change(position, leader, 1, FIRST_INCARNATION, n, 0),))
            self._pass(PAUSE_S)
            self._say(self._nodes + n, Ask(FIRST_INCARNATION, self._next(), self._terms))


def longest_steps(nodes: int, fanout: int, clock: Callable[[], float]) -> Steps:
    """The step times of a root that lists `nodes` nodes."""
    steps = Steps(clock)
    load = RootLoad(nodes, fanout, steps)
    assert load.root.roster.live == nodes
    load.ask()
    return steps
