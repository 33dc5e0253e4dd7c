"""S2 and S4 of one session between a leader and a subordinate (docs/protocol.md, section 8)."""

from __future__ import annotations

from collections.abc import Sequence

from subord.core.events import Action, Event, Received, Send
from subord.core.messages import Accept, Beat, Echo, Goodbye, No, Propose, Refuse, Stranger
from subord.core.state.states import Phase
from subord.core.view import Incarnation, Position
from subord.sim import limits
from subord.sim.checkers.checker import Checker
from subord.sim.checkers.fingerprints import Fingerprint, claims_of, is_changed
from subord.sim.checkers.identities import counts
from subord.sim.world.world import World

PUT_OFF_S_MAX = 1.0  # the longest time for which a busy node defers a proposal
RETRY_S_MAX = 0.5  # between two proposals to the same node

Session = tuple[Incarnation, int]


class OvertakenMessagesChangeNothing(Checker):
    """What a subordinate sent before its last accepted proposal, or before its last beat, changes nothing.

    This holds until the leader ends the session by `Stranger`.
    """

    name = "S4"

    def __init__(self) -> None:
        self._sessions: dict[tuple[Position, Position], Session] = {}  # (leader, subordinate) -> accepted proposal
        self._numbers: dict[tuple[Position, Position], int] = {}  # of the last message that counted
        self._was_listed = False  # the sender of this event, before it

    def before(self, world: World, position: Position, event: Event) -> object:
        node = world.nodes[position]
        self._was_listed = isinstance(event, Received) and event.source in node.downlink.slots.taken
        if not isinstance(event, Received) or event.source is None or not self._was_listed:
            return None
        source, message = event.source, event.message
        session = self._sessions.get((position, source))
        if session is None or not isinstance(message, Beat | Propose) or message.incarnation != session[0]:
            return None
        if isinstance(message, Propose):
            return (Fingerprint.of(node), world.is_due(position)) if message.exchange < session[1] else None
        return claims_of(node, source) if message.number <= self._numbers[position, source] else None

    def after(self, world: World, position: Position, event: Event, actions: Sequence[Action], token: object) -> None:
        if not isinstance(event, Received) or event.source is None:
            return
        node, pair, message = world.nodes.get(position), (position, event.source), event.message
        if node is not None and token is not None:
            if isinstance(token, tuple):
                before, was_due = token
                changed = is_changed(before, node, was_due=was_due)
            else:
                changed = event.source in node.downlink.slots.taken and claims_of(node, event.source) != token
            if changed:
                self.complain(world, f"{position} was changed by an overtaken message: {event}")
        sent = [each.message for each in actions if isinstance(each, Send) and each.target == event.source]
        if isinstance(message, Propose) and any(isinstance(each, Accept) for each in sent):
            session = message.incarnation, message.exchange
            if self._sessions.get(pair) != session or not self._was_listed:
                self._sessions[pair], self._numbers[pair] = session, message.exchange
        elif isinstance(message, Beat) and any(isinstance(each, Echo) for each in sent):
            self._numbers[pair] = max(self._numbers.get(pair, 0), message.number)
        elif isinstance(message, Beat) and any(isinstance(each, Stranger) for each in sent):
            # The leader has ended the session, because damaged numbers or rows put it out of step (section 5). All
            # rows are reported anew, so no message of the session can be overtaken any more.
            self._sessions.pop(pair, None)


class AcceptedPlacesAreUsedOrReturned(Checker):
    """An accepted node follows, has a newer proposal to the same leader under way, or returns the place at once.

    Also, a node that follows lists no subordinate that is on its path to the root.
    """

    name = "S2"
    after_of = (Accept, Refuse)
    after_actions = True

    def __init__(self) -> None:
        self._proposed_at: dict[tuple[Position, Position], float] = {}  # or were put off
        self._woke_at: dict[Position, float] = {}

    def woke(self, world: World, position: Position) -> None:
        self._woke_at[position] = world.now

    def after(
        self, world: World, position: Position, event: Event, actions: Sequence[Action], _token: object
    ) -> None:
        for each in actions:
            if isinstance(each, Send) and isinstance(each.message, Propose):
                self._proposed_at[position, each.target] = world.now
        if not isinstance(event, Received):
            return
        if isinstance(event.message, Refuse) and event.message.no is No.BUSY and event.source is not None:
            self._proposed_at[position, event.source] = world.now
        elif isinstance(event.message, Accept) and position in world.nodes:
            self._judge(world, position, event.source, event.message, actions)

    def _judge(
        self, world: World, position: Position, source: Position | None, accept: Accept, actions: Sequence[Action]
    ) -> None:
        node = world.nodes[position]
        leader = node.uplink.leader
        if max(accept.guidance.path, default=0) > world.settings.network.size:
            return  # a flipped bit, and counted
        if source is not None and not counts(world, source, position, accept):
            return
        if source in (None, position) or node.phase is Phase.GONE or position in accept.guidance.path:
            return
        assert source is not None
        if leader is not None and leader.position == source:
            both = node.downlink.slots.taken.keys() & {*leader.guidance.path, source}
            if both:
                self.complain(world, f"{position} follows {source}, and lists {sorted(both)} from above itself")
            return
        last = max(self._proposed_at.get((position, source), -1e9), self._woke_at.get(position, -1e9))
        # With a longer answer timeout an acceptance may come later.
        answer_s = min(node.context.answer_timeout.answer_s, limits.SLOW * world.settings.timing.answer_s)
        if world.now - last <= PUT_OFF_S_MAX + 2 * max(answer_s, RETRY_S_MAX):
            return
        returned = (
            isinstance(each, Send) and each.target == source and isinstance(each.message, Goodbye) for each in actions
        )
        if not any(returned):
            self.complain(world, f"{position} is accepted by {source}, does not follow it, and keeps the place")
