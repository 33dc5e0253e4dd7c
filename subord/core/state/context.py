"""What all parts of a node share: settings, own position, state, current time, and outgoing actions."""

from __future__ import annotations

from random import Random
from typing import TypedDict, Unpack

from subord.core.events import Action, Measure, Notice, Publish, Reply, Send
from subord.core.identity.identity import Identity
from subord.core.identity.pins import Pins
from subord.core.identity.signer import NO_SIGNER, Signer
from subord.core.mapping.registry import mapping_of
from subord.core.messages import Accept, Goodbye, Message, Propose, Terms
from subord.core.pacing.answer_timeout import AnswerTimeout
from subord.core.quantize import UNKNOWN
from subord.core.settings import Settings
from subord.core.state.states import State, Trigger, follow
from subord.core.timers import Timers
from subord.core.view import Incarnation, Position


class GivenIdentity(TypedDict, total=False):
    """What a node has of its own, and keeps over its lives.

    `cluster_name`: a part of what nodes sign. `strict`: whether nodes without identity are refused from the start.
    """

    signer: Signer
    pins: Pins
    cluster_name: str
    strict: bool


class Context:
    """One per node. `now` is the time of the event in hand, in seconds of the driver's clock."""

    def __init__(
        self,
        settings: Settings,
        position: Position,
        incarnation: Incarnation,
        chance: Random,
        now: float,
        **identity: Unpack[GivenIdentity],
    ) -> None:
        self.settings = settings
        self.timing = settings.timing
        self.terms = Terms.of(settings)
        cluster = identity.get("cluster_name", ""), self.terms.network
        signer, pins = identity.get("signer", NO_SIGNER), identity.get("pins")
        pins = Pins(settings.network.size) if pins is None else pins  # without any it is empty, and so false
        self.identity = Identity(position, cluster, signer, pins, now)
        self.identity.strict = identity.get("strict", False)
        self.mapping = mapping_of(settings, position)
        self.position = position
        self.incarnation = incarnation
        self.chance = chance
        self.now = now
        self.performance = UNKNOWN  # the class of the own measured performance
        self.answer_timeout = AnswerTimeout(self.timing)
        self.heard_at = now  # last message of any node of the network
        self.timers = Timers()
        self.actions: list[Action] = []
        self._number = chance.randrange(1, 1 << 16)
        self._state = State.NEW

    @property
    def state(self) -> State:
        return self._state

    def follow(self, trigger: Trigger) -> None:
        """Go to the next state of the table."""
        self._state = follow(self._state, trigger)

    def send(self, target: Position, message: Message) -> None:
        if isinstance(message, Propose | Accept | Goodbye):
            message = self.identity.signed(target, message)
        self.actions.append(Send(target, message))

    def reply(self, message: Message) -> None:
        self.actions.append(Reply(message))

    def publish(self, message: Message) -> None:
        self.actions.append(Publish(message))

    def measure(self, target: Position, number: int) -> None:
        self.actions.append(Measure(target, number))

    def note(self, notice: Notice) -> None:
        self.actions.append(notice)

    def took(self, seconds: float) -> None:
        """Note a measured round trip."""
        for notice in self.answer_timeout.took(seconds, self.now):
            self.note(notice)

    def next_number(self) -> int:
        """A number for a question or a beat; its answer carries the same number."""
        self._number += 1
        return self._number

    def jittered(self, seconds: float) -> float:
        """Up to a tenth more or less, so that nodes do not act at the same moment."""
        return seconds * self.chance.uniform(0.9, 1.1)
