"""What must hold at every instant: S1 to S9 of docs/protocol.md, section 8, one checker each.

Intuition: referees beside the field. Each knows one rule, watches the player who has just moved, and stops the game
at the first foul. Their rules are written in their own words: they use none of the arithmetic of subord.core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from subord.core.answers import ASKED_MAX
from subord.core.doors import NEAR_MAX
from subord.core.events import Action, Event, LeaderLost, Received, Send, Start, SubordinateLost, Unreadable, Wakeup
from subord.core.messages import (
    ALTERNATES_MAX,
    CHANGES_MAX,
    HINTS_MAX,
    Accept,
    Ask,
    Beat,
    Echo,
    Guide,
    Message,
    Propose,
    Stranger,
    Terms,
)
from subord.core.nearness import CANDIDATES_MAX, KNOWN_MAX, SAMPLES, TIPS_MAX
from subord.core.node import Node
from subord.core.peers import OTHERS_MAX, PEERS_MAX
from subord.core.phases import Phase
from subord.core.questions import QUESTIONS_MAX
from subord.core.refusals import REFUSALS_MAX
from subord.core.settings import Settings
from subord.core.showing import table_sizes
from subord.core.standings import HEARD_MAX
from subord.core.view import Incarnation, Position
from subord.core.walk import CALLS_MAX, DOORS_MAX
from subord.sim import oracle
from subord.sim.checker import Checker
from subord.sim.order import LowerRanksLead
from subord.sim.world import World

ROWS_COUNTED_MAX = 64  # a list of up to so many rows is counted after every change, a longer one now and then
COUNT_EVERY = 64
SIZES_EVERY = 16  # events between two looks at the sizes of tables
ACTIONS_PER_SLOT_MAX, ACTIONS_MAX = 8, 256  # what one event may ask for
ASKED_PER_S_MAX, SAME_ASKED_PER_S_MAX = 128, 16
QUESTIONS_SPARE = 16  # questions besides the walk: home, rejoining, a better place; vain beats while news hurry

Fingerprint = tuple[object, ...]


def fingerprint(node: Node) -> Fingerprint:
    """All of a node's state that a wrong message must not change."""
    leader = node.following.leader
    return (
        node.phase,
        node.place,
        leader and (leader.position, leader.incarnation, leader.guidance),
        tuple(
            (each.position, each.incarnation, each.place, each.number, each.due_at, each.cut)
            for each in node.leading.slots.taken.values()
        ),
        node.roster.live,
        node.roster.revision,
        node.leader_changes,
    )


class CountedOnce(Checker):
    """One leader at most, and nobody is counted twice, or for longer than silence explains.

    If L lists x and x follows somebody else, or is dead, then x has said something to L within the silence after
    which L gives it up, or L itself slept within it: for that long two leaders may list the same node.
    """

    name = "S2"

    def __init__(self, settings: Settings) -> None:
        timing = settings.timing
        # A beat comes at most a tenth late, `attempts` answers are waited for, a node that hears nobody waits once
        # more for as long (leading.py), and an alarm may ring late by what does not count as sleep.
        self._silence_s = 2 * (1.1 * timing.beat_interval_s + (timing.attempts + 1) * timing.answer_s)
        self._silence_s += timing.own_sleep_s + 0.05
        self._spoke_at: dict[tuple[Position, Position], float] = {}
        self._woke_at: dict[Position, float] = {}
        self._revisions: dict[Position, int] = {}

    def before(self, world: World, position: Position, event: Event) -> object:
        node = world.nodes[position]
        if isinstance(event, Received) and event.source and isinstance(event.message, Beat | Propose):
            self._spoke_at[event.source, position] = world.now
        if isinstance(event, Start) or world.clock(position) > node.deadline + node.context.timing.own_sleep_s:
            self._woke_at[position] = world.now
        return None

    def after(self, world: World, position: Position, event: Event, _actions: object, _token: object) -> None:
        node = world.nodes.get(position)
        if node is not None:
            self._count(world, position, node)
            if isinstance(event, Wakeup):
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
        for listed in node.leading.slots.taken:
            if listed in world.nodes and world.leader_of(listed) == position:
                continue
            last = max(self._spoke_at.get((listed, position), -inf), self._woke_at.get(position, -inf))
            if world.now - last > self._silence_s:
                silent = f"does not follow it and has not spoken for {world.now - last:.2f} s"
                self.complain(world, f"{position} lists {listed}, which {silent}")


class BoundedFanOut(Checker):
    """At most p whose computed leader it is by the oracle, and at most g others."""

    name = "S3"

    def __init__(self) -> None:
        self._counted: dict[Position, tuple[Position, ...]] = {}

    def after(self, world: World, position: Position, _event: Event, _actions: object, _token: object) -> None:
        node = world.nodes.get(position)
        if node is None:
            return
        taken, settings = tuple(node.leading.slots.taken), node.context.settings
        if taken == self._counted.get(position):
            return
        self._counted[position] = taken
        if not settings.has_homes:
            if len(taken) > settings.fanout + settings.guest_slots:
                self.complain(world, f"{position} leads {len(taken)}: {sorted(taken)}")
            return
        own, houses = world.houses.get(position, position), world.houses
        guests = sum(oracle.home_of(settings, houses.get(each, each)) != own for each in taken)
        homes = home_slots_max(settings, own)
        if guests > settings.guest_slots:
            self.complain(world, f"{position} has {guests} guests: {sorted(taken)}")
        if len(taken) - guests > homes:
            self.complain(world, f"{position} has more than {homes} at home: {sorted(taken)}")


def home_slots_max(settings: Settings, position: Position) -> int:
    """p, but for the paper's numbering, whose level 0 holds p - 1 nodes that position 1 leads."""
    extra = settings.fanout - 2 if settings.numbering_name == "paper" and position == 1 else 0
    return settings.fanout + extra


class LaterLivesOnly(Checker):
    """What a node says of an incarnation that its receiver knows to be over changes nothing there."""

    name = "S4"

    def before(self, world: World, position: Position, event: Event) -> object:
        node = world.nodes.get(position)
        if node is None or not isinstance(event, Received) or event.source is None:
            return None
        said = getattr(event.message, "incarnation", None)
        known = self._known(node, event.source, event.message)
        if said is None or known is None or said >= known:
            return None  # a later host with its clock behind cannot be told from a former one (docs/protocol.md, S4)
        older = world.life(event.source, said) < world.life(event.source, known)
        return fingerprint(node) if older and not world.is_due(position) else None

    def after(self, world: World, position: Position, event: Event, _actions: object, token: object) -> None:
        node = world.nodes.get(position)
        if token is not None and node is not None and fingerprint(node) != token:
            self.complain(world, f"{position} was changed by an older incarnation: {event}")

    def _known(self, node: Node, source: Position, message: Message) -> Incarnation | None:
        """The later life of `source` that the node has dealt with."""
        leader, listed = node.following.leader, node.leading.slots.taken.get(source)
        if isinstance(message, Accept | Echo | Guide):
            return leader.incarnation if leader is not None and leader.position == source else None
        if listed is not None:
            return listed.incarnation
        return leader.incarnation if leader is not None and leader.position == source else None


class BoundedTables(Checker):
    """Every table and queue has its limit, and no event asks for a flood of datagrams."""

    name = "S5"

    def after(
        self, world: World, position: Position, _event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        node = world.nodes.get(position)
        if node is None:
            return
        settings = node.context.settings
        slots_max = home_slots_max(settings, position) + settings.guest_slots
        if len(actions) > ACTIONS_PER_SLOT_MAX * slots_max + ACTIONS_MAX:
            self.complain(world, f"{position} did {len(actions)} things at once")
        if world.events % SIZES_EVERY:
            return
        limits = self._limits(world, node, slots_max)
        for table, size in table_sizes(node).items():
            if size > limits[table]:
                self.complain(world, f"{position} keeps {size} {table}, at most {limits[table]} are allowed")

    def _limits(self, world: World, node: Node, slots_max: int) -> dict[str, int]:
        timing, nodes = node.context.timing, world.nodes_ever
        return {
            "subordinates": slots_max,
            "questions": QUESTIONS_MAX + QUESTIONS_SPARE,
            "candidates": DOORS_MAX
            + NEAR_MAX
            + CALLS_MAX
            + 2 * (PEERS_MAX + QUESTIONS_MAX * HINTS_MAX)
            + ALTERNATES_MAX,
            "peers": PEERS_MAX + OTHERS_MAX,
            "answers": ASKED_MAX,
            "vain_beats": timing.attempts + QUESTIONS_SPARE,
            "refusals": REFUSALS_MAX,
            "rows": nodes,
            "claims": nodes * (slots_max + 1),
            "unreported": nodes + CHANGES_MAX,
            "distances": 2 * KNOWN_MAX + CANDIDATES_MAX * SAMPLES + TIPS_MAX,
            "standings": HEARD_MAX,
        }


class WrongWordsChangeNothing(Checker):
    """What cannot be read, or comes from somebody with other settings, changes nothing."""

    name = "S6"

    def before(self, world: World, position: Position, event: Event) -> object:
        node = world.nodes.get(position)
        if node is None:
            return None
        wrong = isinstance(event, Unreadable) or (isinstance(event, Received) and self._is_wrong(node, event))
        return fingerprint(node) if wrong and not world.is_due(position) else None

    def after(self, world: World, position: Position, event: Event, _actions: object, token: object) -> None:
        node = world.nodes.get(position)
        if token is not None and node is not None and fingerprint(node) != token:
            self.complain(world, f"{position} was changed by {event}")

    def _is_wrong(self, node: Node, event: Received) -> bool:
        message = event.message
        if event.source is None or event.source == node.context.position:
            return True
        return isinstance(message, Propose | Ask) and message.terms != Terms.of(node.context.settings)


class SleeperJudgesNobody(Checker):
    """Who slept gives nobody up for silence before `attempts` answers could have come since it woke."""

    name = "S7"

    def __init__(self) -> None:
        self._woke_at: dict[Position, float] = {}  # by the node's own clock

    def before(self, world: World, position: Position, _event: Event) -> object:
        node, now = world.nodes[position], world.clock(position)
        if now > node.deadline + node.context.timing.own_sleep_s:
            self._woke_at[position] = now
        return None

    def after(
        self, world: World, position: Position, _event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        woke_at = self._woke_at.get(position)
        if woke_at is None:
            return
        for each in actions:
            if isinstance(each, LeaderLost | SubordinateLost) and each.cause == "silence":
                timing = world.settings.timing
                awake_s = world.clock(position) - woke_at
                if awake_s < timing.attempts * timing.answer_s - 1e-6:
                    self.complain(world, f"{position} slept, and {awake_s:.2f} s after it woke it says {each}")


class EveryBeatIsAnswered(Checker):
    """A beat gets an echo, or the word that its sender is a stranger: nobody waits in silence."""

    name = "S8"

    def after(
        self, world: World, position: Position, event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        if not isinstance(event, Received) or not isinstance(event.message, Beat) or event.source in (None, position):
            return
        node = world.nodes.get(position)
        if node is None or node.phase is Phase.GONE:
            return
        answered = (
            isinstance(each, Send) and each.target == event.source and isinstance(each.message, Echo | Stranger)
            for each in actions
        )
        if not any(answered):
            self.complain(world, f"{position} does not answer the beat of {event.source}")


class NobodyAsksForEver(Checker):
    """A node asks, or proposes to, the same one a few times in a second at most, and all together not many more.

    An answer that leads at once to the same question makes a loop. It ends by itself when the tree is whole, and no
    other rule would notice how much it cost until then.
    """

    name = "S9"

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
                self._note(world, position, str(each.target), same)

    def _note(self, world: World, position: Position, whom: str, times: deque[float]) -> None:
        times.append(world.now)
        if len(times) == times.maxlen and world.now - times[0] < 1.0:
            self.complain(world, f"{position} asked {whom} {len(times)} times within {world.now - times[0]:.3f} s")


class Referees:
    """All nine, for one world (see world.Watcher)."""

    def __init__(self, settings: Settings) -> None:
        self._once, self._lives, self._words = CountedOnce(settings), LaterLivesOnly(), WrongWordsChangeNothing()
        self._sleeper = SleeperJudgesNobody()
        self._always = (
            LowerRanksLead(),
            self._once,
            BoundedFanOut(),
            BoundedTables(),
            self._sleeper,
            EveryBeatIsAnswered(),
            NobodyAsksForEver(),
        )

    def before(self, world: World, position: Position, event: Event) -> tuple[object, object]:
        self._once.before(world, position, event)
        self._sleeper.before(world, position, event)
        if isinstance(event, Received | Unreadable):
            return self._lives.before(world, position, event), self._words.before(world, position, event)
        return None, None

    def after_event(
        self, world: World, position: Position, event: Event, actions: Sequence[Action], token: tuple[object, object]
    ) -> None:
        for checker in self._always:
            checker.after(world, position, event, actions, None)
        older, wrong = token
        if older is not None:
            self._lives.after(world, position, event, actions, older)
        if wrong is not None:
            self._words.after(world, position, event, actions, wrong)
