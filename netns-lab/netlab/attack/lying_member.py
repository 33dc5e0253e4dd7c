"""A lab daemon with the key of the cluster and an identity of its own, which lies on command.

`Lab(daemon=THIS FILE)` runs it on each node. It is the real daemon. The file `lie` in the node's directory, read
again on each change, selects the lie; A and B are addresses:

    age          the rows of its beats are 2^32 - 1 s old
    newer A      sends A incarnations at the end of the range, then one nearly ten years ahead; then the file `told`
                 appears
    alone        its beats report only itself
    phantoms     its beats report 60,000 nodes that do not exist, signed with a key that it has made for them
    flood [N]    N beats a second (200), each with a row of its own that has changed, and with other phantoms
    claims A     its beats report A below it, unsigned; and, if A may stand below it, with a false signature
    mute A       answers no question over streams and no order, and asks A many questions that pass down the tree
    goodbye A B  sends B goodbyes and a proposal in the name of A: if A is its own address, unsigned, with its own key
                 and with a false proof; else in frames with the source A, because answers go to A
    ring         gives its neighbours a key ring signed by a stranger, and an unsigned order of an operator
    replay A     keeps the row that A has signed, also on disk, and reports that one from then on
    hide A       shows the tree without A and what stands below it
    orders F     alters orders of `subord exec` that pass, gives false ones, and repeats genuine ones (order_lies.py);
                 each appends to the file F

Without the file, or with an empty one, it tells the truth. It asks about listing after seconds, not ten minutes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from netlab.attack.frames import UDP, Packet, built
from netlab.attack.order_lies import OrderLies
from netlab.topology.addresses import hardware_address, packed
from subord import cli, daemon
from subord.api.handlers import peer_answers
from subord.core import snapshots
from subord.core.carriage.documents import Document
from subord.core.carriage.engine.interface import Transmit
from subord.core.carriage.orders import Order, namespace_for, signed_content
from subord.core.edges import listing
from subord.core.identity.identity import Identity
from subord.core.members.membership import DOCUMENTS
from subord.core.members.statements import Forget, forget_order
from subord.core.messages import Beat, Change, Goodbye, Message, Propose, Terms, Why, Wish
from subord.core.node import Node
from subord.core.view import Position, RosterView
from subord.runtime.driver import Driver
from subord.runtime.net.peer_query import Question
from subord.runtime.net.streams import Streams
from subord.runtime.net.transport import Transport
from subord.runtime.orders.driver import OrderDriver
from subord.runtime.state.tracker import Tracker
from subord.sealing.header import What
from subord.sealing.identity import Ed25519Signer, new_seed
from subord.sealing.incarnation import LEAP_MS_MAX, LIFE_MAX
from subord.sealing.keys import new_key
from subord.sealing.rotation import install, ring_order
from subord.sealing.sealer import CHANCE_BITS, NUMBER_BYTES, Sealer, boot_of
from subord.wire.codec import encode

listing.INTERVAL_S, listing.AGAIN_S = 4.0, 1.0  # type: ignore[misc]
INTERFACE: Final = "eth0"
LOOK_S: Final = 0.2
PHANTOMS: Final = range(4000, 64_000)
FLOOD_PER_S: Final = 200.0
ROWS: Final = 6  # of one beat: with proofs 7 fit
NEWER_TIMES: Final = 800
QUESTIONS: Final = 64
AGE_TOP: Final = (1 << 32) - 1
MARGIN_MS: Final = 86_400_000
FALSE_PROOF: Final = b"p" * 64
assert daemon


class Liar:
    """The current lie of one process, and the altered messages."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "lie"
        self._seen = 0.0, ""
        self._driver: Any = None
        self._tracker: Any = None
        self._given: tuple[str, ...] = ()  # names of the false documents
        self._phantom_signer = Ed25519Signer(new_seed())
        self._orders = OrderLies()

    @property
    def words(self) -> list[str]:
        try:
            changed_at = self._file.stat().st_mtime
        except FileNotFoundError:
            return [""]
        if changed_at != self._seen[0]:
            self._seen = changed_at, self._file.read_text()
        return self._seen[1].split() or [""]

    def takes(self, tracker: Tracker) -> None:
        self._tracker = tracker

    # -- messages -----------------------------------------------------------------------------------------

    def altered(self, message: Message) -> Message:
        """The message to send in place of `message`."""
        if not isinstance(message, Beat) or self._driver is None:
            return message
        match self.words:
            case ["age"]:
                told = message.changes or (self._own_row(),)
                rows = tuple(msgspec.structs.replace(row, age_s=AGE_TOP) for row in told)
                return msgspec.structs.replace(message, changes=rows)
            case ["alone"]:
                return msgspec.structs.replace(message, changes=(self._own_row(),), gone=(), more=False, rows=1)
            case ["phantoms"] | ["flood", *_]:
                return msgspec.structs.replace(message, rows=0, digest=0)
            case ["replay", target] if (kept := self._kept_row(target)) is not None:
                rows = tuple(kept if row.position == kept.position else row for row in message.changes)
                return msgspec.structs.replace(message, changes=rows or (kept,), rows=0, digest=0)
            case _:
                return message

    def shown(self, view: RosterView) -> RosterView:
        """The tree as this node shows it."""
        match self.words:
            case ["hide", target]:
                leader_of = {row.position: row.leader for row in view.rows}
                above = self._position(target)
                rows = (row for row in view.rows if above not in _path(leader_of, row.position))
                return msgspec.structs.replace(view, rows=tuple(rows))
            case _:
                return view

    async def lie_forever(self, driver: Driver) -> None:
        """Send the additional messages of the lie."""
        self._driver = driver
        transport: Transport = driver._transport
        while True:
            match self.words:
                case ["phantoms"]:
                    await self._report(self._phantoms(), ["phantoms"], 200.0)
                case ["flood", *rate] as words:
                    await self._report(self._changing(), words, float(rate[0]) if rate else FLOOD_PER_S)
                case ["claims", target]:
                    await self._report([self._claims(target)], ["claims", target], 1.0)
                case ["replay", target] if (kept := self._kept_row(target)) is not None:
                    await self._report([(kept,)], ["replay", target], 1.0)
                case ["newer", target]:
                    await storm(transport, (target, transport._port))
                    self._file.with_name("told").touch()
                case ["goodbye", source, target]:
                    self._say_goodbye(source, target)
                case ["ring"] if not self._given:
                    self._give()
            if self._given and self.words != ["ring"]:
                self._tracker.membership.documents.drop(self._given)
                self._given = ()
            await trio.sleep(LOOK_S)

    # -- orders -------------------------------------------------------------------------------------------

    def hears(self, data: bytes) -> None:
        """A frame of orders comes."""
        if self.words[0] == "orders":
            self._orders.hears(data)

    def passed_on(self, action: Transmit) -> Transmit:
        """The frame to send in place of this one."""
        match self.words:
            case ["orders", file]:
                return action._replace(data=self._orders.says(action.data, file))
        return action

    async def order_forever(self, orders: OrderDriver) -> None:
        """False orders, while it is the lie."""
        while True:
            match self.words:
                case ["orders", file]:
                    await self._orders.give_all(orders, file, self._cluster, _signature_of_a_stranger)
            await trio.sleep(LOOK_S)

    @property
    def _cluster(self) -> tuple[str, str]:
        settings = self._node.context.settings
        return settings.cluster_name, Terms.of(settings).network

    async def ask_forever(self, streams: Streams) -> None:
        """Ask questions, at most QUESTIONS at a time."""
        async with trio.open_nursery() as nursery:
            while True:
                match self.words:
                    case ["mute", target] if len(nursery.child_tasks) < QUESTIONS:
                        for topic in ("problems", "keys"):
                            nursery.start_soon(streams.ask, target, Question(topic, ("everybody",), 60.0), 65.0)
                    case _:
                        await trio.sleep(LOOK_S)
                await trio.sleep(0.01)

    # -- rows ---------------------------------------------------------------------------------------------

    @property
    def _node(self) -> Node:
        node: Node = self._driver.node
        return node

    def _position(self, address: str) -> Position:
        return self._driver._network.position_of(address) or 0

    def _own_row(self) -> Change:
        return self._node.roster.rows[self._node.context.position][1].change

    async def _report(self, batches: Iterable[tuple[Change, ...]], words: list[str], per_s: float) -> None:
        """Beats with these rows, while the lie is the same."""
        begun = time.monotonic()
        for sent, rows in enumerate(batches, 1):
            node = self._node
            if (leader := node.uplink.leader) is None or self.words != words:
                return
            number = node.context.next_number()
            beat = Beat(node.context.incarnation, leader.incarnation, number, 5000, 0, rows)
            self._driver._transport.send(beat, self._driver._network.address_text_of(leader.position))
            await trio.sleep(max(0.0, begun + sent / per_s - time.monotonic()))

    def _phantoms(self) -> Iterator[tuple[Change, ...]]:
        tree = [self._node.context.position, *PHANTOMS]
        for first in range(1, len(tree), ROWS):
            yield tuple(
                self._phantom(tree[index], tree[(index - 1) // 2], 1 << 40, 1)
                for index in range(first, min(first + ROWS, len(tree)))
            )

    def _changing(self) -> Iterator[tuple[Change, ...]]:
        """Without end: its own row, signed anew, and phantoms, each of them a later incarnation."""
        node, turn = self._node, 0
        while True:
            turn += 1
            own = msgspec.structs.replace(self._own_row(), moves=turn % AGE_TOP)
            first = PHANTOMS[turn * ROWS % (len(PHANTOMS) - ROWS)]
            others = range(first, first + ROWS)
            yield (
                node.context.identity.signed_row(own),
                *(self._phantom(each, node.context.position, (1 << 40) + turn, turn) for each in others),
            )

    def _phantom(self, position: Position, leader: Position, life: int, moves: int) -> Change:
        identity, signer = self._node.context.identity, self._phantom_signer
        own = Identity(position, identity._cluster, signer, identity.pins, 0.0)
        return own.signed_row(Change(position, leader, 2, life, moves, 0))

    def _claims(self, address: str) -> tuple[Change, ...]:
        """As the leader of that node, in its present incarnation and in one of the far future."""
        own, target = self._node.context.position, self._position(address)
        rows = [Change(target, own, 1, life, 9, 0) for life in (1000, 1 << 60)]
        if target > own:
            key = self._node.context.identity.pins.key_of(target) or bytes(32)
            rows += [msgspec.structs.replace(row, key=key, proof=FALSE_PROOF) for row in rows]
        return tuple(rows)

    def _kept_row(self, address: str) -> Change | None:
        """The first row of that node that was seen here; kept on disk."""
        position = self._position(address)
        file = self._directory / f"row-{position}"
        if not file.exists():
            row = self._node.roster.rows.get(position)
            if row is None or row[1].change.exchange or not row[1].change.key:
                return None
            file.write_bytes(msgspec.msgpack.encode(row[1].change))
        return msgspec.msgpack.decode(file.read_bytes(), type=Change)

    # -- in the name of others ----------------------------------------------------------------------------

    def _say_goodbye(self, source: str, target: str) -> None:
        context, transport = self._node.context, self._driver._transport
        life = int(time.time() * 1000)
        said = [Goodbye(life, why) for why in Why]
        if source == transport.sock._socket.getsockname()[0]:
            for each in said:
                bare = msgspec.structs.replace(each, incarnation=context.incarnation)
                signed = context.identity.signed(self._position(target), bare)
                for message in (bare, signed, msgspec.structs.replace(signed, proof=FALSE_PROOF)):
                    transport.send(message, target)
            return
        proposal = Propose(life, 1, Terms.of(context.settings), Wish.HOME)
        _send_as(source, target, transport, (*said, proposal))

    def _give(self) -> None:
        """A ring and an order, which this node holds as though they were accepted."""
        now_ms = int(time.time() * 1000)
        ring = install(self._driver._transport.sealer.keyring, new_key())
        signed = _signed_by_a_stranger(ring_order(ring, now_ms), self._cluster)
        unsigned = Document(*forget_order("liar", Forget(((1, 1),), "none", "operator"), now_ms))
        self._given = (signed.name, unsigned.name)
        self._tracker.spread(DOCUMENTS, [signed, unsigned])


def _path(leader_of: dict[Position, Position | None], position: Position) -> list[Position]:
    """The node and what stands above it."""
    found: list[Position] = []
    at: Position | None = position
    while at is not None and at not in found:
        found.append(at)
        at = leader_of.get(at)
    return found


def _send_as(source: str, target: str, transport: Transport, messages: Iterable[Message]) -> None:
    """Sealed with the key of the cluster as a later incarnation of `source`, which is not this host."""
    assert transport.sealer is not None
    secret, port = os.urandom(32), transport._port
    boot = boot_of(int(time.time() * 1000), secret)
    sealer = Sealer(transport.sealer.keyring, (source, port), boot, secret, 0.0)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
        wire.bind((INTERFACE, 0))
        macs = hardware_address(target), wire.getsockname()[4]
        for message in messages:
            data = sealer.seal(encode(message), (target, port))
            wire.send(built(Packet(*macs, UDP, packed(source), packed(target), port, port, data)))


def _signed_by_a_stranger(order: Order, cluster: tuple[str, str]) -> Document:
    return Document(*order, _signature_of_a_stranger(signed_content(cluster, order), namespace_for(order.name)))


def _signature_of_a_stranger(content: bytes, namespace: str) -> bytes:
    """With an SSH key that no operators file names."""
    with tempfile.TemporaryDirectory() as place:
        key = f"{place}/key"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, stdin=subprocess.DEVNULL
        )
        command = ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace]
        return subprocess.run(command, input=content, capture_output=True, check=True).stdout


async def storm(transport: Transport, target: tuple[str, int]) -> None:
    """Send NEWER messages, with the ticket that the target has given."""
    sealer: Any = transport.sealer
    peer = sealer._peers.get(target)
    if peer is None:
        return
    ahead = int(time.time() * 1000) + LEAP_MS_MAX - MARGIN_MS
    for life in (*range(LIFE_MAX - 1 - NEWER_TIMES, LIFE_MAX), ahead):
        content = (life << CHANCE_BITS).to_bytes(NUMBER_BYTES, "big")
        told = sealer._ticket_for(target) + content
        data, _ = sealer._encrypt(What.NEWER, told, target, sealer.keyring.primary, peer.ticket, with_ticket=True)
        transport.sock.send(data, *target)
        await trio.sleep(0.002)


def main(argv: list[str]) -> int | None:
    """As that of the daemon: `run --config FILE`."""
    liar = Liar(Path(argv[-1]).parent)
    send, run, serve, answer = Transport.send, Driver.run, Streams.serve, peer_answers.answer
    begin, roster, receive = Tracker.__init__, snapshots.roster, OrderDriver.receive
    transmit, carry = OrderDriver._transmit, OrderDriver.run

    async def beside(one: Any, *words: Any, other: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, *words)
            nursery.start_soon(other, words[0])

    async def answered(shown: Any, question: Question) -> bytes:
        if liar.words[0] == "mute":
            await trio.sleep_forever()
        return await answer(shown, question)

    def received(orders: OrderDriver, link: Any, data: bytes) -> bool:
        liar.hears(data)
        return liar.words[0] == "mute" or receive(orders, link, data)

    def begun(tracker: Tracker, *given: Any) -> None:
        begin(tracker, *given)
        liar.takes(tracker)

    patched: Any = Transport
    patched.send = lambda transport, message, *rest: send(transport, liar.altered(message), *rest)
    patched = Driver
    patched.run = lambda driver: beside(run, driver, other=liar.lie_forever)
    patched = Streams
    patched.serve = lambda streams, listening: beside(serve, streams, listening, other=liar.ask_forever)
    patched = peer_answers
    patched.answer = answered
    patched = Tracker
    patched.__init__ = begun
    patched = OrderDriver
    patched.receive = received
    patched._transmit = lambda orders, action: transmit(orders, liar.passed_on(action))
    patched.run = lambda orders: beside(carry, orders, other=liar.order_forever)
    patched = snapshots
    patched.roster = lambda node, now: liar.shown(roster(node, now))
    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
