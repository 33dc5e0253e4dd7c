"""S1 to S14 of docs/protocol.md, section 8: what must hold at every instant, one checker each.

A checker looks at the node that has just handled an event, and ends the run at the first violation. Checkers use no
arithmetic and no constant of subord.core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from subord.core.events import Action, Event, Received, Send, Start, Unreadable, Wakeup
from subord.core.messages import (
    Accept,
    Announce,
    Ask,
    Beat,
    Echo,
    Guide,
    Message,
    Propose,
    Stranger,
    Terms,
    Versions,
)
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.snapshots import table_sizes
from subord.core.state.states import Phase
from subord.core.view import Incarnation, Position
from subord.sim import limits
from subord.sim.checkers import oracle
from subord.sim.checkers.checker import Checker
from subord.sim.checkers.fingerprints import Fingerprint, is_changed
from subord.sim.checkers.identities import HeldIsSigned, UnsignedChangesNothing
from subord.sim.checkers.listing import AdviceByRank, ListedContinuously
from subord.sim.checkers.order import LowerRanksLead
from subord.sim.checkers.passing_on import AcceptedRowsCanBePassedOn
from subord.sim.checkers.sessions import AcceptedPlacesAreUsedOrReturned, OvertakenMessagesChangeNothing
from subord.sim.checkers.suspicion import SuspicionNeedsTime
from subord.sim.limits import guest_places, has_homes, home_slots
from subord.sim.world.world import World

ROWS_COUNTED_MAX = 64  # rosters up to this size are counted at every change, larger ones every COUNT_EVERY
COUNT_EVERY = 64
SIZES_EVERY = 16  # events between two looks at the sizes of tables
ACTIONS_PER_SLOT_MAX, ACTIONS_MAX = 8, 256  # actions of one event
ASKED_PER_S_MAX, SAME_ASKED_PER_S_MAX = 128, 16
NOT_OF_NEIGHBOURS = (Versions, Announce, Ask)


class CountedOnce(Checker):
    """A node has at most one leader, and no node is counted twice for longer than silence explains.

    If L lists x and x follows another node, or is dead, then x has sent something to L within the silence after which
    L gives it up, or L itself slept within it: for that long two leaders may list the same node. Only a leader that
    has heard no node for longer than a beat meanwhile has twice that time.
    """

    name = "S2"
    before_of = (Start, Received)

    def __init__(self, settings: Settings) -> None:
        # A timer may fire late by less than counts as sleep.
        self._silence_s = limits.silence_s(settings) + settings.timing.own_sleep_s + 0.05
        self._deaf_s = settings.timing.beat_interval_s
        self._sent_at: dict[tuple[Position, Position], float] = {}
        self._woke_at: dict[Position, float] = {}
        self._heard_at: dict[Position, float] = {}
        self._deaf_at: dict[Position, float] = {}  # the last time at which it had heard no node for this long
        self._revisions: dict[Position, int] = {}

    def before(self, world: World, position: Position, event: Event) -> object:
        if isinstance(event, Start):
            self._heard_at[position] = self._woke_at[position] = world.now
        elif isinstance(event, Received) and event.source and self._counts(world, position, event):
            self._note_deaf(world, position)
            self._heard_at[position] = world.now
            if isinstance(event.message, Beat | Propose):
                self._sent_at[event.source, position] = world.now
        return None

    def _counts(self, world: World, position: Position, event: Received) -> bool:
        """Whether it is a message of a neighbour in this cluster."""
        return type(event.message) not in NOT_OF_NEIGHBOURS and not _is_wrong(world.nodes[position], event)

    def woke(self, world: World, position: Position) -> None:
        self._woke_at[position] = world.now

    def _note_deaf(self, world: World, position: Position) -> None:
        if world.now - self._heard_at.get(position, -inf) > self._deaf_s:
            self._deaf_at[position] = world.now

    def after(self, world: World, position: Position, event: Event, _actions: object, _token: object) -> None:
        node = world.nodes.get(position)
        if node is not None:
            self._count(world, position, node)
            if isinstance(event, Wakeup):
                self._note_deaf(world, position)
                self._demand_mutual(world, position, node)

    def _count(self, world: World, position: Position, node: Node) -> None:
        roster = node.roster
        if roster.revision == self._revisions.get(position):
            return
        self._revisions[position] = roster.revision
        if len(roster.rows) <= ROWS_COUNTED_MAX or roster.revision % COUNT_EVERY == 0:
            live = sum(not claim.change.missing for _, claim in roster.rows.values())
            if roster.live != live:
                self.complain(world, f"{position} counts {roster.live} nodes, but lists {live}")

    def _demand_mutual(self, world: World, position: Position, node: Node) -> None:
        for listed in node.downlink.slots.taken:
            other = world.nodes.get(listed)
            leader = None if other is None else other.uplink.leader
            if (leader is not None and leader.position == position) or listed in world.unjudged:
                continue
            last = max(self._sent_at.get((listed, position), -inf), self._woke_at.get(position, -inf))
            silences = 2 if self._deaf_at.get(position, -inf) >= last else 1
            if world.now - last > silences * self._silence_s:
                silent = f"does not follow it and has sent nothing for {world.now - last:.2f} s"
                self.complain(world, f"{position} lists {listed}, which {silent}")


class BoundedFanOut(Checker):
    """At most p subordinates whose computed leader it is by the oracle, and at most g others."""

    name = "S3"

    def __init__(self) -> None:
        self._counted: dict[Position, tuple[Position, ...]] = {}

    def after(self, world: World, position: Position, _event: Event, _actions: object, _token: object) -> None:
        node = world.nodes.get(position)
        if node is None:
            return
        taken = tuple(node.downlink.slots.taken)
        if taken == self._counted.get(position):
            return
        self._counted[position] = taken
        settings = node.context.settings
        if not has_homes(settings):
            if len(taken) > guest_places(settings):
                self.complain(world, f"{position} leads {len(taken)}: {sorted(taken)}")
            return
        own, numbers = world.numbers.get(position, position), world.numbers
        guests = sum(oracle.home_of(settings, numbers.get(each, each)) != own for each in taken)
        homes = home_slots(settings, own)
        if guests > guest_places(settings):
            self.complain(world, f"{position} has {guests} guests: {sorted(taken)}")
        if len(taken) - guests > homes:
            self.complain(world, f"{position} has more than {homes} at home: {sorted(taken)}")


class OlderLivesChangeNothing(Checker):
    """A message of a life of a node that its receiver knows to be over changes nothing there."""

    name = "S4"

    def before(self, world: World, position: Position, event: Event) -> object:
        node = world.nodes.get(position)
        if node is None or not isinstance(event, Received) or event.source is None:
            return None
        named = getattr(event.message, "incarnation", None)
        known = self._known(node, event.source, event.message)
        if named is None or known is None or named >= known:
            return None  # a later host with its clock behind looks like a former one (docs/protocol.md, S4)
        # 0: no life had it; a bit was flipped on the way.
        older = 0 < world.life(event.source, named) < world.life(event.source, known)
        return (Fingerprint.of(node), world.is_due(position)) if older else None

    def after(self, world: World, position: Position, event: Event, _actions: object, token: object) -> None:
        node = world.nodes.get(position)
        if isinstance(token, tuple) and node is not None and is_changed(token[0], node, was_due=token[1]):
            self.complain(world, f"{position} was changed by an older incarnation: {event}")

    def _known(self, node: Node, source: Position, message: Message) -> Incarnation | None:
        """The later life of `source` that the node knows."""
        leader, listed = node.uplink.leader, node.downlink.slots.taken.get(source)
        if isinstance(message, Accept | Echo | Guide):
            return leader.incarnation if leader is not None and leader.position == source else None
        if listed is not None:
            return listed.incarnation
        return leader.incarnation if leader is not None and leader.position == source else None


class BoundedTables(Checker):
    """Every table and queue has its limit, and no event causes a flood of datagrams."""

    name = "S5"

    def after(
        self, world: World, position: Position, _event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        sizes_are_due = world.events % SIZES_EVERY == 0
        if not sizes_are_due and len(actions) <= ACTIONS_MAX:
            return
        node = world.nodes.get(position)
        if node is None:
            return
        settings = node.context.settings
        slots_max = home_slots(settings, position) + settings.guest_slots
        if len(actions) > ACTIONS_PER_SLOT_MAX * slots_max + ACTIONS_MAX:
            self.complain(world, f"{position} answers an event with {len(actions)} actions")
        if not sizes_are_due:
            return
        most = limits.tables(settings, position, world.nodes_ever + world.transit.flips)
        for table, size in table_sizes(node).items():
            if size > most[table]:
                self.complain(world, f"{position} keeps {size} {table}, at most {most[table]} are allowed")


class InvalidInputChangesNothing(Checker):
    """An unreadable datagram, or a message of a node with other settings, changes nothing."""

    name = "S6"

    def before(self, world: World, position: Position, event: Event) -> object:
        node = world.nodes.get(position)
        if node is None:
            return None
        wrong = isinstance(event, Unreadable) or (isinstance(event, Received) and _is_wrong(node, event))
        return (Fingerprint.of(node), world.is_due(position)) if wrong else None

    def after(self, world: World, position: Position, event: Event, _actions: object, token: object) -> None:
        node = world.nodes.get(position)
        if isinstance(token, tuple) and node is not None and is_changed(token[0], node, was_due=token[1]):
            self.complain(world, f"{position} was changed by {event}")


def _is_wrong(node: Node, event: Received) -> bool:
    """From no other node, or from a node of other settings."""
    message = event.message
    if event.source is None or event.source == node.context.position:
        return True
    return isinstance(message, Propose | Ask) and message.terms != Terms.of(node.context.settings)


class EveryBeatIsAnswered(Checker):
    """A beat is answered by an echo or by `Stranger`.

    A beat in which a flipped bit names a position outside the network is dropped; the sender repeats it.
    """

    name = "S8"
    after_of = (Beat,)

    def after(
        self, world: World, position: Position, event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        if not isinstance(event, Received) or not isinstance(event.message, Beat) or event.source in (None, position):
            return
        node = world.nodes.get(position)
        if node is None or node.phase is Phase.GONE or _highest_named(event.message) > world.settings.network.size:
            return
        answered = (
            isinstance(each, Send) and each.target == event.source and isinstance(each.message, Echo | Stranger)
            for each in actions
        )
        if not any(answered):
            self.complain(world, f"{position} does not answer the beat of {event.source}")


def _highest_named(beat: Beat) -> Position:
    """Of the positions of its rows, and of those that have gone."""
    rows = (position for row in beat.changes for position in (row.position, row.leader))
    return max((*rows, *beat.gone), default=0)


class BoundedQuestions(Checker):
    """A node sends the same node a few questions or proposals per second at most, and all nodes together not many
    more.

    An answer that leads at once to the same question makes a loop. Such a loop ends when the tree is whole, and no
    other rule notices its cost.
    """

    name = "S9"
    after_of = ()
    after_actions = True

    def __init__(self) -> None:
        self._asked_at: dict[Position, deque[float]] = {}
        self._same_at: dict[tuple[Position, Position, type[Message]], deque[float]] = {}

    def after(
        self, world: World, position: Position, _event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        for each in actions:
            if isinstance(each, Send) and isinstance(each.message, Ask | Propose):
                pair = (position, each.target, type(each.message))
                times = self._asked_at.setdefault(position, deque(maxlen=ASKED_PER_S_MAX))
                same = self._same_at.setdefault(pair, deque(maxlen=SAME_ASKED_PER_S_MAX))
                self._note(world, position, "others", times)
                if each.target not in world.unjudged:  # a lie can cause a loop; the limit for all together holds
                    self._note(world, position, str(each.target), same)

    def _note(self, world: World, position: Position, target: str, times: deque[float]) -> None:
        times.append(world.now)
        if len(times) == times.maxlen and world.now - times[0] < 1.0:
            self.complain(world, f"{position} asked {target} {len(times)} times within {world.now - times[0]:.3f} s")


class Checkers:
    """All checkers for one world (see world.Watcher). Each is called for the events that it can judge.

    Members that lie, addresses with two hosts, and nodes with settings of their own are not judged.
    """

    def __init__(self, settings: Settings) -> None:
        self._sleep_s = settings.timing.own_sleep_s
        self._lives, self._invalid = OlderLivesChangeNothing(), InvalidInputChangesNothing()
        self._overtaken, self._unsigned = OvertakenMessagesChangeNothing(), UnsignedChangesNothing()
        self._always: tuple[Checker, ...] = (
            CountedOnce(settings),
            LowerRanksLead(settings),
            SuspicionNeedsTime(),
            AcceptedPlacesAreUsedOrReturned(),
            BoundedFanOut(),
            BoundedTables(),
            EveryBeatIsAnswered(),
            BoundedQuestions(),
            ListedContinuously(settings),
            AdviceByRank(),
            AcceptedRowsCanBePassedOn(),
            HeldIsSigned(),
        )
        self._early: dict[type, tuple[Checker, ...]] = {}
        self._late: dict[tuple[type, bool], tuple[Checker, ...]] = {}

    def before(self, world: World, position: Position, event: Event) -> tuple[object, ...] | None:
        if world.clock(position) > world.nodes[position].deadline + self._sleep_s:
            for checker in self._always:
                checker.woke(world, position)
        kind = type(event)
        early = self._early.get(kind)
        if early is None:
            early = self._early[kind] = tuple(each for each in self._always if kind in each.before_of)
        for checker in early:
            checker.before(world, position, event)
        is_judged = position not in world.unjudged and position not in world.own_settings
        if not is_judged or (kind is not Received and kind is not Unreadable):
            return None
        older = self._lives.before(world, position, event)
        rest = (self._invalid, self._overtaken, self._unsigned)
        return older, *(each.before(world, position, event) for each in rest)

    def after_event(
        self,
        world: World,
        position: Position,
        event: Event,
        actions: Sequence[Action],
        token: tuple[object, ...] | None,
    ) -> None:
        if position in world.unjudged or position in world.own_settings:
            return
        kind = type(event.message) if isinstance(event, Received) else type(event)
        key = kind, bool(actions)
        late = self._late.get(key)
        if late is None:
            late = tuple(each for each in self._always if each.looks_after(kind, acted=bool(actions)))
            self._late[key] = late
        for checker in late:
            checker.after(world, position, event, actions, None)
        if token is None:
            return
        older, wrong, overtaken, unsigned = token
        if older is not None:
            self._lives.after(world, position, event, actions, older)
        if unsigned is not None:
            self._unsigned.after(world, position, event, actions, unsigned)
        if wrong is not None:
            self._invalid.after(world, position, event, actions, wrong)
        if kind is Beat or kind is Propose:
            self._overtaken.after(world, position, event, actions, overtaken)
