"""The memberships of a simulated cluster: what each node knows of the members and of orders, on edges and on disks.

Inputs are notices of nodes, streams that open, and orders of the operator; outputs are frames between the ends of
open streams. A Membership per process plays as in runtime/state/tracker.py: it looks at the roster LOOKS_S_MIN after
a change, and its register and documents are saved SAVE_S after theirs, and at a goodbye. New documents go to the key
rings (rings.py). Invariant: no document enters a Membership before the operator's signature is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from subord.core.carriage.documents import Document, Documents
from subord.core.carriage.orders import Order
from subord.core.events import Notice
from subord.core.members import statements
from subord.core.members.journal import Item, Journal
from subord.core.members.membership import LOOKS_S_MIN, Membership, Signer
from subord.core.members.register import Register, Run, State
from subord.core.members.statements import Forget
from subord.core.messages import Terms
from subord.core.view import Position
from subord.sim.world.edges import KERNEL_S
from subord.sim.world.operator import Operator
from subord.sim.world.storage import SAVE_S

if TYPE_CHECKING:
    from subord.sim.world.world import World

SECRET = b"of the operator of a simulated cluster"
WALL_S = 1_800_000_000.0  # seconds since 1970 when the world begins
AGAIN_S = 1.0  # until a delivery is retried
TRIES_MAX = 120


class _Saved(NamedTuple):
    runs: tuple[Run, ...]
    documents: tuple[Document, ...]
    signers: dict[str, Signer]
    events: tuple[Item, ...] = ()


class Judge(Protocol):
    """Is told what happens to the processes."""

    def started(self, position: Position) -> None: ...
    def leaves(self, position: Position) -> None: ...
    def gone(self, position: Position) -> None: ...
    def ends(self, position: Position) -> None: ...


class Members:
    """By position, of the present life or the last one. Without `looks` no register is kept, only documents."""

    def __init__(self, world: World, *, looks: bool = True) -> None:
        self.of: dict[Position, Membership] = {}
        self.operator = Operator(("simulated", Terms.of(world.settings).network), SECRET)
        self._world = world
        self._looks = looks
        self._images: dict[Position, _Saved | None] = {}
        self._disks: dict[Position, _Saved] = {}
        self._to_save: set[Membership] = set()
        self._look_at: dict[Position, float] = {}
        self._tags = 0
        self.judge: Judge | None = None

    def begin(self, position: Position) -> None:
        """A life begins with what is on the disk."""
        runs, documents, signers, events = self._disks.get(position, _Saved((), (), {}))
        size, pins = self._world.settings.network.size, self._world.identities.replicated(position)
        register, journal = Register(size, runs), Journal(size, events)
        self.of[position] = Membership(
            register, Documents(documents), signers=signers, pins=pins, journal=journal, owner=position
        )
        self._look_at[position] = inf
        if self._world.seals is not None:
            self._world.seals.rings.catch_up(position, documents)
        if self.judge is not None:
            self.judge.started(position)

    def gone(self, position: Position) -> None:
        """The process has said its goodbyes and ends."""
        if self.judge is not None:
            self.judge.gone(position)

    def end(self, position: Position) -> None:
        """The process dies."""
        if self.judge is not None:
            self.judge.ends(position)

    def lose(self, position: Position) -> None:
        """The disk is empty now."""
        self._disks.pop(position, None)

    def image(self, position: Position) -> None:
        """Save the present state of the disk."""
        self._images[position] = self._disks.get(position)

    def restore(self, position: Position) -> None:
        """Restore the last image."""
        saved = self._images.get(position)
        self._disks.pop(position, None)
        if saved is not None:
            self._disks[position] = saved

    def observe(self, position: Position, notice: Notice) -> None:
        if not self._looks:
            return
        if self.of[position].observe(notice, self._world.clock(position), self._wall(position)):
            self._plan_look(position, self._world.now)
        self._after_change(position)

    def leave(self, position: Position) -> None:
        """SIGTERM."""
        if self.judge is not None:
            self.judge.leaves(position)
        if self._looks:
            self.of[position].left(position, self._wall(position))
        self._save(position, self.of[position])
        self._send_all(position)

    def forget(self, nodes: Sequence[Position], at: Position) -> list[Position]:
        """The operator's command at a node; returns the nodes that it named: those that are down."""
        membership, wall_ms = self.of[at], int(self._wall(at) * 1000)
        down = [p for p in nodes if (record := membership.register.at(p)) and record.state is State.DOWN]
        if down:
            self._tags += 1
            said = Forget(tuple((p, p) for p in down[: statements.RANGES_MAX]), "gone for good", "operator")
            self.give(at, statements.forget_order(str(self._tags), said, wall_ms))
        return down

    def give(self, at: Position, order: Order) -> None:
        """The operator signs an order and gives it to a node."""
        membership, document = self.of[at], self.operator.sign(order)
        verdict = self.operator.judge(document, membership.revocations, self.wall_ms(at))
        taken = membership.take_documents([(document, verdict)])
        self._save(at, membership)  # before the operator reads that it is done
        self._follow(at, taken)
        self._after_change(at)

    def _follow(self, position: Position, documents: Sequence[Document]) -> None:
        if documents:
            self.of[position].release(self.wall_ms(position))
        if documents and self._world.seals is not None:
            self._world.seals.rings.follow(position, documents)

    def wall_ms(self, position: Position) -> int:
        """The clock of a host."""
        return int(self._wall(position) * 1000)

    def _wall(self, position: Position) -> float:
        world = self._world
        return WALL_S + world.clock(position) - world.set_back_s.get(position, 0.0)

    # -- looks --------------------------------------------------------------------------------------------

    def _plan_look(self, position: Position, at: float) -> None:
        """Look LOOKS_S_MIN after `at`, unless a look comes before."""
        at += LOOKS_S_MIN
        if at < self._look_at[position]:
            self._look_at[position] = at
            self._world.after(at - self._world.now, self._look, position, self.of[position], at)

    def _look(self, position: Position, membership: Membership, at: float) -> None:
        world = self._world
        if position not in world.nodes or self.of[position] is not membership or at != self._look_at[position]:
            return
        if position in world.paused:
            world.after(AGAIN_S, self._look, position, membership, at)
            return
        self._look_at[position] = inf
        node, now = world.nodes[position], world.clock(position)
        membership.look_at(node, now, self._wall(position))
        self._after_change(position)
        if membership.deadline < inf:
            self._plan_look(position, world.now + max(0.0, membership.deadline - now))

    # -- streams ------------------------------------------------------------------------------------------

    def opened(self, one: Position, other: Position) -> None:
        """A stream has opened."""
        for position, peer in ((one, other), (other, one)):
            self.of[position].exchange.opened(peer)
            self._send(position, peer)

    def _send_all(self, position: Position) -> None:
        for peer in self._world.edges.ends_of(position):
            self._send(position, peer)

    def _send(self, position: Position, peer: Position) -> None:
        """Send what waits, and plan the next sending."""
        world, exchange = self._world, self.of[position].exchange
        if peer not in world.edges.ends_of(position):
            exchange.closed(peer)
            return
        lives = world.nodes.get(position), world.nodes.get(peer)
        while (frame := exchange.next_frame(peer, world.clock(position))) is not None:
            world.after(KERNEL_S, self._arrive, position, peer, frame, lives, TRIES_MAX)
        due_at = exchange.deadline(peer)
        if due_at < inf:
            world.after(max(0.0, due_at - world.clock(position)), self._send_later, position, peer, exchange, due_at)

    def _send_later(self, position: Position, peer: Position, exchange: object, due_at: float) -> None:
        mine = self.of[position].exchange
        is_valid = mine is exchange and mine.deadline(peer) == due_at and position in self._world.nodes
        if is_valid and position not in self._world.paused:
            self._send(position, peer)

    def _arrive(self, source: Position, target: Position, frame: bytes, lives: object, tries: int) -> None:
        """Deliver a frame as soon as both ends run and the network is open."""
        world = self._world
        if lives != (world.nodes.get(source), world.nodes.get(target)) or not tries:
            return
        if target in world.paused or not world.weather.is_open(source, target, stream=True):
            world.after(AGAIN_S, self._arrive, source, target, frame, lives, tries - 1)
            return
        membership, wall_ms = self.of[target], self.wall_ms(target)
        received = membership.exchange.read(source, frame, world.clock(target), wall_ms)
        assert received is not None, "members send no malformed frames"
        found = membership.to_judge(received)
        judged = [(each, self.operator.judge(each, membership.revocations, wall_ms)) for each in found]
        self._follow(target, membership.take(source, received, judged))
        self._send(target, source)
        self._after_change(target)

    def _after_change(self, position: Position) -> None:
        """Send, save, and look again, if a replica has changed."""
        membership = self.of[position]
        if not membership.exchange.changed:
            return
        membership.exchange.changed = False
        self._send_all(position)
        if self._looks:
            self._plan_look(position, self._world.now)
        if membership not in self._to_save:
            self._to_save.add(membership)
            self._world.after(SAVE_S, self._save, position, membership)

    def _save(self, position: Position, membership: Membership) -> None:
        self._to_save.discard(membership)
        if position in self._world.nodes and self.of[position] is membership and self._world.disks.are_there:
            documents = tuple(membership.documents.items())
            events = tuple(membership.journal.items())
            self._disks[position] = _Saved(tuple(membership.register.runs), documents, membership.signers, events)
