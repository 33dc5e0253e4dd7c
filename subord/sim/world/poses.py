"""Messages that members send in the names of other nodes: proposals, acceptances and goodbyes.

Inputs are the members that do so, and the messages that nodes send; outputs are datagrams from false sources. A
message has no key, the key of the member, or key and proof of an earlier message of the node that it names. Only
messages to nodes that have pinned the key of that node are sent: nothing protects an address before its first
contact.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import msgspec

from subord.core.identity import contents
from subord.core.messages import Accept, Goodbye, Guidance, Message, Propose, Signed, Terms, Why, Wish
from subord.core.tables import BoundedMap
from subord.core.view import Position
from subord.sim.scenario.lasting import Pose
from subord.wire.codec import encode

if TYPE_CHECKING:
    from subord.sim.world.world import World

OVERHEARD_MAX = 64


class Poses:
    """The false messages of one world."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = Random(f"{seed}/poses")
        self._overheard: BoundedMap[Position, Signed] = BoundedMap(OVERHEARD_MAX)
        self._pass_on = world.on_message
        self.sent = 0

    def begin(self, members: Sequence[Position], step: Pose) -> float:
        """Plan the messages; returns when they end."""
        world = self._world
        if world.identities.are_on and world.seals is None:
            self._overhear()
            for number in range(int(step.per_s * step.for_s)):
                for member in members:
                    world.after(number / step.per_s, self._pose, member)
        return world.now + step.for_s

    def _overhear(self) -> None:
        if self._world.on_message != self._on_message:
            self._pass_on, self._world.on_message = self._world.on_message, self._on_message

    def _on_message(self, source: Position, target: Position, message: Message, copies: int) -> None:
        if isinstance(message, Propose | Accept | Goodbye) and message.key:
            self._overheard[source] = message
        if self._pass_on is not None:
            self._pass_on(source, target, message, copies)

    def _pose(self, member: Position) -> None:
        world, chance = self._world, self._chance
        others = sorted(world.nodes.keys() - {member})
        if member not in world.nodes or len(others) < 2:
            return
        victim, target = chance.sample(others, 2)
        identities = world.identities
        if not identities.has_identity(target) or not identities.pins_of(target).key_of(victim):
            return
        self.sent += 1
        message = self._proven(member, victim, target, self._message(victim, target))
        world.carry(victim, target, encode(message), world.weather.fate(member, target))

    def _message(self, victim: Position, target: Position) -> Signed:
        """What would have the most effect at the target, if it were believed."""
        world, chance = self._world, self._chance
        incarnation = world.nodes[victim].context.incarnation + chance.choice((0, 0, 0, 1))
        requests = [each for each in world.nodes[target].search.requests if each.position == victim]
        match chance.choice((Propose, Accept, Goodbye)):
            case kind if kind is Propose:
                terms = Terms.of(world.settings)
                return Propose(incarnation, 1 << 40, terms, chance.choice((Wish.HOME, Wish.GUEST, Wish.DISPLACE)))
            case kind if kind is Accept:
                exchange = requests[0].exchange if requests else chance.randrange(1, 1 << 20)
                guidance = Guidance(1 << 20, (victim,), (), (), adrift=False)
                return Accept(incarnation, exchange, guidance)
            case _:
                return Goodbye(incarnation, chance.choice(list(Why)))

    def _proven(self, member: Position, victim: Position, target: Position, message: Signed) -> Signed:
        overheard = self._overheard.get(victim)
        match self._chance.choice(("nothing", "own key", "other proof")):
            case "own key" if self._world.identities.has_identity(member):
                signer = self._world.identities.intruder(member)
                content = contents.of_message(self._world.identities.cluster, victim, target, message)
                proof = signer.sign(content)
                return msgspec.structs.replace(message, key=signer.key, proof=proof)
            case "other proof" if overheard is not None:
                return msgspec.structs.replace(message, key=overheard.key, proof=overheard.proof)
            case _:
                return message
