"""S7: how long a node must wait before it gives a neighbour up (docs/protocol.md, sections 4 and 8)."""

from __future__ import annotations

from collections.abc import Sequence

from subord.core.events import (
    Action,
    EdgeClosed,
    Event,
    LeaderLost,
    PlaceChanged,
    Received,
    RoundTrip,
    Send,
    Start,
    SubordinateLost,
    Unreachable,
)
from subord.core.messages import Accept, Echo
from subord.core.node import Node
from subord.core.view import Position
from subord.sim.checkers.checker import Checker
from subord.sim.world.world import World

ROUNDING_S = 1e-6


class _Life:
    """What one life of a node has received. Times are seconds of its own clock."""

    def __init__(self, node: Node, now: float) -> None:
        self.node = node
        self.woke_at: float | None = None
        self.heard_at = now  # the last message of any node
        self.answered_at: dict[Position, float] = {}  # the last answer to a subordinate
        self.accepted: dict[Position, int] = {}  # exchange of the last acceptance
        self.cut_above_at: dict[Position, float] = {}  # the first report, since it woke, of a broken stream
        self.cut_below_at: dict[Position, float] = {}  # the same, of subordinates


class SuspicionNeedsTime(Checker):
    """A node gives a neighbour up for silence, or for a broken stream, only after the time that the protocol allows.

    After its own sleep earlier observations do not count. A leader that has heard no node for longer than a beat
    waits once more for each of its subordinates.
    """

    name = "S7"
    before_of = (Start, Received, EdgeClosed, Unreachable)
    after_of = ()
    after_actions = True

    def __init__(self) -> None:
        self._lives: dict[Position, _Life] = {}

    def _life(self, world: World, position: Position, now: float) -> _Life:
        """Of the node that is there, or was until it answered this event."""
        node, life = world.nodes.get(position), self._lives.get(position)
        if life is None or (life.node is not node and node is not None):
            assert node is not None
            life = self._lives[position] = _Life(node, now)
        return life

    def woke(self, world: World, position: Position) -> None:
        now = world.clock(position)
        life = self._life(world, position, now)
        life.woke_at = now
        life.cut_above_at.clear()
        life.cut_below_at.clear()

    def before(self, world: World, position: Position, event: Event) -> object:
        now = world.clock(position)
        life = self._life(world, position, now)
        if isinstance(event, Received):
            life.heard_at = now
        elif isinstance(event, EdgeClosed | Unreachable):
            life.cut_above_at.setdefault(event.position, now)
            life.cut_below_at.setdefault(event.position, now)
        return None

    def after(
        self, world: World, position: Position, event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        now = world.clock(position)
        life = self._life(world, position, now)
        for each in actions:
            if isinstance(each, LeaderLost):
                self._judge(world, position, life, each.leader, each)
            elif isinstance(each, SubordinateLost):
                self._judge(world, position, life, each.position, each)
            elif isinstance(each, RoundTrip) and isinstance(event, Received) and event.source is not None:
                life.cut_above_at.pop(event.source, None)
            elif isinstance(each, PlaceChanged) and each.leader is not None:
                life.cut_above_at.pop(each.leader, None)
            elif isinstance(each, Send):
                self._note_answer(life, each, now)

    def _note_answer(self, life: _Life, sent: Send, now: float) -> None:
        message = sent.message
        if isinstance(message, Accept):
            if life.accepted.get(sent.target) == message.exchange:
                return  # the same proposal again
            life.accepted[sent.target] = message.exchange
        elif not isinstance(message, Echo):
            return
        life.answered_at[sent.target] = now
        life.cut_below_at.pop(sent.target, None)

    def _judge(
        self, world: World, position: Position, life: _Life, other: Position, lost: LeaderLost | SubordinateLost
    ) -> None:
        timing, now = world.settings.timing, world.clock(position)
        answers_s = timing.attempts * timing.answer_s
        if isinstance(lost, LeaderLost):  # one answer timeout, and half of it per repetition
            answers_s = min(answers_s, timing.answer_s * (1 + timing.attempts / 2))
        awake_s = None if life.woke_at is None else now - life.woke_at
        slept = awake_s is not None and awake_s < answers_s - ROUNDING_S
        if lost.cause == "silence":
            if slept:
                self.complain(world, f"{position} slept, and {awake_s:.2f} s after it woke it reports {lost}")
            if isinstance(lost, SubordinateLost):
                self._demand_second_silence(world, position, life, other)
        elif lost.cause in ("closed", "refused"):
            cut_at = (life.cut_above_at if isinstance(lost, LeaderLost) else life.cut_below_at).get(other)
            if cut_at is None:
                if slept or awake_s is None:
                    self.complain(world, f"{position} reports {lost} without a sign of it since it woke")
            elif now - cut_at < timing.restart_grace_s - ROUNDING_S:
                silent_s = now - life.answered_at.get(other, -answers_s)
                if isinstance(lost, LeaderLost) or silent_s < answers_s:
                    self.complain(world, f"{position} reports {lost} {now - cut_at:.3f} s after the stream broke")

    def _demand_second_silence(self, world: World, position: Position, life: _Life, other: Position) -> None:
        """While it hears no node at all, a node waits for a second silence, each time anew."""
        timing, now = world.settings.timing, world.clock(position)
        is_deaf = now - life.heard_at > timing.beat_interval_s
        answered_at = life.answered_at.get(other)
        if not is_deaf or answered_at is None or not life.node.downlink.slots.taken:
            return
        least_s = timing.beat_interval_s + 2 * timing.attempts * timing.answer_s
        if now - answered_at < least_s - ROUNDING_S:
            self.complain(
                world, f"{position} hears no node, and gives {other} up after {now - answered_at:.2f} s of silence"
            )
