"""Connects the engine of orders to streams, the clock, and the services of this node.

Inputs are edges and streams with their frames, orders of commands of this node, and results of services. Each becomes
one event of the engine (core/carriage/engine), and the driver carries out the returned actions. `feed` is
synchronous, so nothing else happens between an event and its actions. Invariant: each order of a command is answered
once.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from math import inf
from secrets import token_bytes
from typing import Any, Final, NoReturn, Protocol, assert_never

import trio

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import BUSY, NO_AGENT, OLDER, REFUSED, SILENT
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import Order, Tag, order_of
from subord.core.carriage.engine.interface import (
    Act,
    Acted,
    Action,
    Answer,
    Arrived,
    CallDirect,
    Cancel,
    Closed,
    Event,
    Finished,
    HangUp,
    Issue,
    Link,
    Note,
    Noted,
    Offered,
    Opened,
    Outcome,
    Overview,
    PartAction,
    PartEvent,
    Progress,
    Renew,
    Role,
    Stop,
    Transmit,
    Wakeup,
    unasked,
)
from subord.core.carriage.engine.lanes import lane_of
from subord.core.carriage.engine.parts import Part
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.coverage import widened
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.reports import Fold, Publish, Reports
from subord.core.members.membership import Membership
from subord.core.node import Node
from subord.core.roster_tree import RosterTree, tree_of
from subord.core.view import Position
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, Sender, Stream
from subord.runtime.orders.agent import Agent
from subord.runtime.orders.call import Call
from subord.runtime.orders.counting import count_answer, count_dropped
from subord.runtime.orders.link import OrderLink, is_credit, is_of_orders
from subord.runtime.orders.waiting import Waiting

logger = logging.getLogger("subord")
CALLS_OF_ONE_MAX: Final = 16
"""Streams of their own that one peer has open to this node."""
Reading = Callable[[bytes], Awaitable[bytes]]
"""The result of this node for a payload."""
Receipt = Callable[[Order, bytes], bytes]
"""A result as the node gives it: with its receipt, if the order asks for one."""
Called = Callable[[str], AbstractAsyncContextManager[Stream | None]]


class Carrier(Protocol):
    """A part of the engine, and what carries out its actions."""

    feed: Callable[[PartEvent], None]
    """Gives an event to the engine."""

    @property
    def actions(self) -> Mapping[type[PartAction], Callable[[Any], None]]: ...
    def part_of(self, tree: RosterTree) -> Part: ...


class OrderDriver:
    """Runs the engine of one node."""

    def __init__(
        self,
        node: Node,
        counters: Counters,
        readings: Mapping[str, Reading],
        membership: Membership | None = None,
        parts: Sequence[Carrier] = (),
        *,
        agent: Agent | None = None,
        effects: Collection[str] = (),
    ) -> None:
        """`readings`: what this node answers, by service; they change nothing and need no agent. `membership`: the
        members that this node remembers. `parts`: what else rides on the links. `effects`: the services for which
        `agent` acts on orders with an authority; those that are no readings have no others."""
        self.called: Called
        """Opens a stream for orders to an address."""
        self.receipt: Receipt = lambda _, result: result
        self._node = node
        self._readings = readings
        self._effects = frozenset(effects)
        self._agent = agent
        self._counters = counters
        offered = {**{name: Offered() for name in readings}, **{name: Offered(has_effects=True) for name in effects}}
        self._tree = tree_of(node, membership)
        self.reports = Reports(self._tree)
        self._parts: tuple[Part, ...] = (self.reports, *(each.part_of(self._tree) for each in parts))
        self.engine = Engine(self._tree, offered, parts=self._parts, now=trio.current_time())
        self._timer = trio.CancelScope(deadline=inf)
        self._links: dict[Link, OrderLink] = {}
        self._calls: dict[Link, Call] = {}
        self._waiting: dict[Tag, Waiting] = {}
        self._nursery: trio.Nursery | None = None
        self._part_actions: dict[type[PartAction], Callable[[Any], None]] = {}
        """What carries out the actions of parts."""
        for each in parts:
            self._part_actions |= each.actions
            each.feed = self.feed

    # -- the engine ----------------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Serve the engine's deadline, its streams and its services until cancelled."""
        async with trio.open_nursery() as self._nursery:
            while True:
                with trio.CancelScope(deadline=self.engine.deadline) as self._timer:
                    await trio.sleep_forever()
                if trio.current_time() >= self.engine.deadline:
                    self.feed(Wakeup())
        raise AssertionError("unreachable")

    def feed(self, event: Event) -> None:
        """Give an event to the engine, and carry out what it says."""
        for action in self.engine.handle(event, trio.current_time()):
            self._carry_out(action)
        self._wake_by(self.engine.deadline)
        count_dropped(self.engine, self._parts, self._counters)
        self._counters.reports_sent, self._counters.reports_received = self.reports.sent, self.reports.received

    def _wake_by(self, deadline: float) -> None:
        """`run` sets a later one when the present one is over: nearly every event puts it off."""
        self._timer.deadline = min(self._timer.deadline, deadline)

    def sizes(self) -> dict[str, int]:
        """Entries by table."""
        orders = {f"order_{name.replace(' ', '_')}": size for name, size in self.engine.sizes.items()}
        return orders | {name.replace(" ", "_"): size for name, size in self.engine.parts.sizes.items()}

    def _carry_out(self, action: Action) -> None:
        match action:
            case Transmit():
                if not self._transmit(action):
                    self._counters.dropped["order_lane_full"] += 1
            case CallDirect():
                self._begin_call(action)
            case HangUp():
                self._hang_up(action.link)
            case Act():
                if self._agent is not None and not self._reads(action.order):
                    self._agent.expect(action.order.tag, action.lease_s)
                self._start(self._act, action)
            case Note():
                self._start(self._note, action)
            case Renew() if self._agent is not None:
                self._agent.renew(action.tag, action.lease_s)
            case Stop() if self._agent is not None:
                self._agent.stop(action.tag)
            case Renew() | Stop():
                pass
            case Progress() | Finished():
                self._answer(action)
            case PartAction():
                self._part_actions[type(action)](action)
            case _:
                assert_never(action)

    def _transmit(self, action: Transmit) -> bool:
        """False: there is no room. What is for a link that has ended is dropped: the engine is told of the end."""
        link, call = self._links.get(action.link), self._calls.get(action.link)
        if link is not None:
            return link.offer(action.lane, action.data)
        return call is None or call.take(action.data)

    def _begin_call(self, action: CallDirect) -> None:
        """A position comes of what other nodes say, so it may be outside the network."""
        call = self._calls[action.link] = Call(action.data)
        if 0 < action.peer <= self._node.context.settings.network.size:
            self._start(self._call, action, call)
        else:
            self._start(self._fail_call, action, call)

    def _hang_up(self, name: Link) -> None:
        """The call ends when what waits on its link is sent."""
        call = self._calls.pop(name, None)
        if call is not None:
            call.hang_up(self._links.get(name))

    async def _fail_call(self, action: CallDirect, call: Call) -> None:
        await trio.lowlevel.checkpoint()
        if not call.scope.cancel_called and self._calls.pop(action.link, None) is not None:
            self.end(action.link, SILENT)

    def _start(self, task: Callable[..., object], *words: object) -> None:
        assert self._nursery is not None, "an order before `run`"
        self._nursery.start_soon(task, *words)  # type: ignore[arg-type]

    async def _note(self, action: Note) -> None:
        """The agent writes the tag to its own disk before it acts, and knows it after any restart."""
        await trio.lowlevel.checkpoint()
        self.feed(Noted(action.tag))

    async def _act(self, action: Act) -> None:
        """Run a service here, or have the agent run it."""
        order = action.order
        if self._reads(order):
            acted = Acted(order.tag, await self._read_here(order, action.left_s))
        elif self._agent is not None:
            source = self._address(action.source) if action.source else ""
            acted = await self._agent.act(order, action.left_s, source)
        else:
            acted = Acted(order.tag, Outcome(cause=NO_AGENT), begun=False)
        if not acted.outcome.cause:
            acted = acted._replace(outcome=Outcome(self.receipt(order, acted.outcome.result)))
        self.feed(acted)

    def _reads(self, order: Order) -> bool:
        """Whether this node answers itself: of a service that reads and has effects the orders without authority."""
        return order.service in self._readings and not (order.authority and order.service in self._effects)

    async def _read_here(self, order: Order, left_s: float) -> Outcome:
        """What a service does wrong is its own outcome, not the end of the daemon."""
        with trio.move_on_after(left_s):
            try:
                return Outcome(await self._readings[order.service](order.payload))
            except Exception:
                logger.exception("the service %s failed", order.service)
                self._counters.dropped["service_failed"] += 1
        return Outcome(cause=REFUSED)

    # -- reports -------------------------------------------------------------------------------------------

    def publish(self, service: str, record: Record, interval_s: float) -> None:
        """The record of this node for a report."""
        self.feed(Publish(service, record, interval_s))

    def folded(self, service: str) -> Fold:
        """What this node knows of its branch; the root knows also which members are not in the tree."""
        found = self.reports.folded(service, trio.current_time())
        if not self._tree.is_root:
            return found
        absent = self._tree.split(self._tree.every()).absent
        return found._replace(coverage=widened(found.coverage, absent), is_root=True, is_young=not self.is_settled)

    @property
    def is_settled(self) -> bool:
        """Whether this node is a root that knows all members that it can know."""
        return self._tree.is_settled(trio.current_time())

    def report_services(self) -> list[str]:
        return self.reports.services()

    # -- orders of this node -------------------------------------------------------------------------------

    async def order(
        self,
        service: str,
        payload: bytes,
        targets: Ranges | None,
        left_s: float,
        *,
        tag: Tag = b"",
        authority: bytes = b"",
        receipts: bool = False,
        progress: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """Give an order and return its answer, within `left_s`. `targets` None: all members. `tag`: of an order that
        an operator has signed; while it is out it is `busy`. If the caller is cancelled, so is the order. `progress`
        must not block."""
        tag = tag or token_bytes(bounds.TAG_BYTES)
        if tag in self._waiting:
            return unasked(BUSY, targets)
        waiting = self._waiting[tag] = Waiting(service, progress)
        try:
            here = self._tree.position
            order = order_of(tag, service, payload, targets, here, authority=authority, receipts=receipts)
            self.feed(Issue(order, left_s))
            await waiting.is_over.wait()
            self._counters.orders_given[service] += 1
        finally:
            self.cancel(tag)
            del self._waiting[tag]
            waiting.is_over.set()
        assert waiting.answer is not None
        return waiting.answer

    def waiting(self, tag: Tag) -> Waiting | None:
        """The command of this node that waits for an order, if there is one, and its results count as they come."""
        found = self._waiting.get(tag)
        return found if found is not None and found.is_live else None

    def cancel(self, tag: Tag) -> None:
        """No command waits for the order any more: `order` returns with what is known, if it has not."""
        if (waiting := self._waiting.get(tag)) is not None and not waiting.is_over.is_set():
            self.feed(Cancel(tag))

    def _answer(self, action: Progress | Finished) -> None:
        waiting = self._waiting.get(action.tag)
        if waiting is not None:
            if isinstance(action, Finished):
                waiting.answer = action.answer
                count_answer(action.answer, self._counters)
                waiting.is_over.set()
            else:
                waiting.take(action.answer)

    def under_way(self) -> list[Overview]:
        """The orders at this node, also those that pass."""
        return self.engine.under_way(trio.current_time())

    def ended(self) -> list[tuple[Overview, float]]:
        """The last orders that ended, newest first, and how many seconds ago."""
        now = trio.current_time()
        return [(order, now - at) for order, at in reversed(self.engine.ended)]

    @property
    def leader_round_trip_s(self) -> float:
        """Of the edge to the leader; 0: unknown."""
        return max((each.round_trip_s for each in self._links.values() if each.role is Role.LEADER), default=0.0)

    def _address(self, peer: Position) -> str:
        return self._node.context.settings.network.address_text_of(peer)

    def _position(self, address: str) -> Position:
        """Of a peer; streams take only addresses of the network."""
        return self._node.context.settings.network.position_of(address) or 0

    # -- links ---------------------------------------------------------------------------------------------

    def begin(self, sender: Sender, role: Role, nursery: trio.Nursery) -> OrderLink:
        """A stream whose other end knows orders; `end` it when it ends."""
        link = OrderLink(sender, self._position(sender.peer), role, self._node.context.incarnation)
        self._links[link.name] = link
        nursery.start_soon(link.send_until_finished)
        return link

    def begin_older(self, link: Link, peer: str, role: Role) -> None:
        """An edge whose other end does not know orders; `end` it when it ends."""
        self.feed(Opened(link, self._position(peer), role, knows_orders=False))

    def end(self, link: Link, cause: str = "") -> None:
        """A link has ended."""
        self._links.pop(link, None)
        self.feed(Closed(link, cause))

    def receive(self, link: OrderLink, data: bytes) -> bool:
        """Take a frame of `link.is_of_orders`; False: it is malformed."""
        if is_credit(data):
            is_greeting = link.take_credit(data)
            if is_greeting:
                told = Opened(link.name, link.peer, link.role, link.peer_incarnation, round_trip_s=link.round_trip_s)
                self.feed(told)
            return is_greeting is not None
        if not link.peer_incarnation:
            return False
        try:
            self.feed(Arrived(link.name, data))
            link.took(lane_of(data), len(data))
        except Exception:  # a fault of ours; what a node sends must not end the daemon
            logger.exception("a frame of %s could not be taken; its stream is closed", self._address(link.peer))
            self._counters.dropped["order_failed"] += 1
            return False
        return True

    async def hold_call(self, peer: str, stream: Stream, frames: Frames) -> None:
        """Serve a stream that a node has opened for an order, until it closes."""
        position = self._position(peer)
        callers = [each for each in self._links.values() if each.peer == position and each.role is Role.CALLER]
        if len(callers) >= CALLS_OF_ONE_MAX:
            self._counters.dropped["order_streams_of_one"] += 1
            return
        async with trio.open_nursery() as nursery:
            link = self.begin(Sender(stream, peer), Role.CALLER, nursery)
            try:
                await self._read(link, frames)
            finally:
                self.end(link.name)
                nursery.cancel_scope.cancel()

    async def _read(self, link: OrderLink, frames: Frames) -> bytes:
        """Take frames until the other end closes, or sends something else, which is returned."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while (data := await frames.next(bounds.FRAME_BYTES_MAX)) is not None:
                if not is_of_orders(data):
                    return data
                if not self.receive(link, data):
                    self._counters.dropped["order_malformed"] += 1
                    break
        return b""

    async def _call(self, action: CallDirect, call: Call) -> None:
        """Ask a node over a stream of its own, until the node ends it, or the engine, maybe before this starts."""
        cause = SILENT
        with call.scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self.called(self._address(action.peer)) as stream:
                if stream is not None:
                    cause = await self._ask(action, call, stream)
        if self._calls.pop(action.link, None) is not None:  # else the engine has ended it
            self.end(action.link, cause)

    async def _ask(self, action: CallDirect, call: Call, stream: Stream) -> str:
        """The cause for the engine, when the stream ends."""
        link = OrderLink(
            Sender(stream, self._address(action.peer)),
            action.peer,
            Role.CALLED,
            self._node.context.incarnation,
            name=action.link,
        )
        self._links[link.name] = link
        call.opened(link)
        other = b""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, link, nursery.cancel_scope)
                other = await self._read(link, Frames(stream))
                nursery.cancel_scope.cancel()
        finally:
            del self._links[link.name]
        return OLDER if other else ""  # such a release answers that it does not know the topic

    @staticmethod
    async def _send(link: OrderLink, scope: trio.CancelScope) -> None:
        """Send until the link is finished; then nothing is read any more."""
        await link.send_until_finished()
        scope.cancel()
