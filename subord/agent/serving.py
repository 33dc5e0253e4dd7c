"""Serves the socket of the agent: takes orders, has them judged, carries each out once, and tells the outcome.

Inputs are a connection of the daemon with one order, and renewals of its lease, or with one document; output is its
outcome. What runs goes on when the connection ends, what is leased until its lease is over; the outcome is in the
journal, and a later connection with the same order gets it. Invariant: a service is called only after the order was
accepted and its tag is on the disk. A tag without outcome on the disk, on which this process does not act, is
`outcome unknown`.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final

import trio

from subord.agent.journal import Found, Journal, JournalError
from subord.agent.judge import ROOT, Judge, Judged, JudgedDocument
from subord.config.schema import ElasticConfig, MachinesConfig, SharesConfig, TransferConfig
from subord.core.address.network import Network
from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.acting.lease import Lease
from subord.core.carriage.engine.causes import (
    BUSY,
    EXPIRED,
    FAILED,
    MALFORMED,
    NOT_OFFERED,
    OUTCOME_UNKNOWN,
    REFUSED,
    TAG_USED,
    TOO_LARGE,
    sentence,
)
from subord.core.carriage.engine.frames import Order, Tag
from subord.core.carriage.engine.interface import Outcome
from subord.runtime.frames import Frames, frame
from subord.runtime.orders import agent as client
from subord.runtime.orders.agent import (
    GIVEN_BYTES_MAX,
    PRINCIPAL_CHARS_MAX,
    Done,
    Given,
    decode_given,
    decode_handed,
    decode_renewal,
    encode,
)
from subord.services.acting import Act, Context, Handed, attend_of, follow_of, is_leased

logger = logging.getLogger("subord")

CONNECTIONS_MAX: Final = 128
RUNNING_MAX: Final = 64
RENEWAL_BYTES_MAX: Final = 64
GIVEN_S_MAX: Final = 5.0
"""For the order to come, once the connection is open."""


NO_CLASSES: Final = SharesConfig()
NOT_ELASTIC: Final = ElasticConfig()
NO_MACHINES: Final = MachinesConfig()
NO_TRANSFER: Final = TransferConfig()


class _Talk:
    """The frames of one connection."""

    def __init__(self, stream: trio.SocketStream, frames: Frames) -> None:
        self._stream = stream
        self._frames = frames
        self._turn = trio.Lock()
        """Of frames: a node may be told of several things at once."""

    async def next(self) -> bytes | None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            return await self._frames.next(GIVEN_BYTES_MAX)
        return None

    async def send(self, data: bytes) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self._turn:
                await self._stream.send_all(frame(data))


class _Running:
    """An order that is carried out. `done` None: not yet."""

    def __init__(self, digest: bytes, lease_ms: int) -> None:
        self.digest = digest
        self.done: Done | None = None
        self.is_over = trio.Event()
        self.scope = trio.CancelScope()
        """Of what acts; its deadline is the end of the lease."""
        self._lease = Lease(lease_ms / 1000, trio.current_time())
        self._is_leased = False

    def obey(self, *, is_leased: bool) -> None:
        """Whether the service acts only within the lease."""
        self._is_leased = is_leased
        self.scope.deadline = self._lease.until if is_leased else inf

    def renew(self, lease_ms: int) -> None:
        """An issuer still waits; 0: the order is cancelled."""
        now = trio.current_time()
        if lease_ms:
            self._lease.renew(lease_ms / 1000, now)
        else:
            self._lease.cancel(now)
        self.obey(is_leased=self._is_leased)

    @property
    def cause(self) -> str:
        """Why what acts is to end before its time; "": it may go on."""
        return self._lease.cause(trio.current_time()) if self._is_leased else ""


class Server:
    """The agent of one node, for as long as its process lives."""

    def __init__(
        self,
        judge: Judge,
        journal: Journal,
        act_of: Callable[[str], Act],
        users: Collection[int],
        idle_s: float,
        *,
        node: str = "",
        socket: str = "",
        accounts: bool = False,
        shares: SharesConfig = NO_CLASSES,
        elastic: ElasticConfig = NOT_ELASTIC,
        network: Network | None = None,
        machines: MachinesConfig = NO_MACHINES,
        transfer: TransferConfig = NO_TRANSFER,
    ) -> None:
        """`users`: uids that may give orders. `idle_s`: `run` ends after so long without work; inf: it does not.
        `node`: the address of this node. `socket`: the control socket of the daemon. `accounts`: whether
        commands get records. `shares`: the classes of this node. `elastic`: its part in elastic growth. `network`:
        of the cluster. `machines`: its part in virtual machines. `transfer`: in transfer queues."""
        self.refused: Counter[str] = Counter()
        """Orders by cause, since the start."""
        self._judge = judge
        self._journal = journal
        self._act_of = act_of
        self._users = users
        self._idle_s = idle_s
        self._context = Context(
            ROOT,
            "",
            b"",
            inf,
            node,
            journal.directory,
            socket,
            accounts,
            shares,
            elastic,
            judge.cluster,
            judge.is_revoked,
            network,
            machines,
            transfer,
        )
        self._attending: set[trio.CancelScope] = set()
        """Of documents that are carried out beside the daemon."""
        self._disk = trio.Lock()
        self._running: dict[Tag, _Running] = {}
        self._connections = 0
        self._worked_at = trio.current_time()
        self._changed = trio.Event()
        self._listening = trio.CancelScope()

    async def run(self, listener: socket.socket) -> None:
        """Serve a listening socket until there was nothing to do for a while, or `stop` is called."""
        listener.setblocking(False)
        async with trio.open_nursery() as self._nursery:
            source = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
            self._nursery.start_soon(self._listen, source)
            while not self._is_idle:
                with trio.move_on_at(self._worked_at + self._idle_s if not self._is_busy else inf):
                    await self._changed.wait()
                    self._changed = trio.Event()
            self._nursery.cancel_scope.cancel()

    def stop(self, running_s_max: float) -> None:
        """Take no more orders, and end when those that run are done, at the latest after `running_s_max`."""
        self._listening.cancel()
        self._idle_s = 0.0
        for each in self._attending:
            each.cancel()
        self._nursery.cancel_scope.deadline = trio.current_time() + running_s_max
        self._changed.set()

    @property
    def _is_busy(self) -> bool:
        return bool(self._connections or self._running)

    @property
    def _is_idle(self) -> bool:
        return not self._is_busy and trio.current_time() >= self._worked_at + self._idle_s

    def _note_work(self) -> None:
        self._worked_at = trio.current_time()
        self._changed.set()

    async def _listen(self, source: trio.SocketListener) -> None:
        with self._listening:
            await trio.serve_listeners(self._take, [source], handler_nursery=self._nursery)

    async def _take(self, stream: trio.SocketStream) -> None:
        """Serve a connection."""
        self._connections += 1
        self._changed.set()
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async with stream:
                    await self._converse(stream)
        finally:
            self._connections -= 1
            self._note_work()

    def _may_connect(self, stream: trio.SocketStream) -> bool:
        raw = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", raw)
        if uid not in self._users:
            logger.warning("process %d of user %d may not give orders to the agent; only the daemon may", pid, uid)
        return uid in self._users

    async def _converse(self, stream: trio.SocketStream) -> None:
        data, frames = None, Frames(stream)
        with trio.move_on_after(GIVEN_S_MAX):
            data = await frames.next(GIVEN_BYTES_MAX)
        if data is not None:
            found = await self._heard(data, _Talk(stream, frames), is_known=self._may_connect(stream))
            if isinstance(found, _Running):
                found = await self._ended(found, frames)
            if found is not None:
                await stream.send_all(encode(found))

    async def _ended(self, running: _Running, frames: Frames) -> Done:
        """The outcome of an order, and until then renewals of its lease."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear_renewals, running, frames)
            await running.is_over.wait()
            nursery.cancel_scope.cancel()
        assert running.done is not None
        return running.done

    @staticmethod
    async def _hear_renewals(running: _Running, frames: Frames) -> None:
        """Until the daemon is gone, or says something else."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while (data := await frames.next(RENEWAL_BYTES_MAX)) is not None:
                renewal = decode_renewal(data)
                if renewal is None:
                    return
                running.renew(renewal.lease_ms)

    async def _heard(self, data: bytes, talk: _Talk, *, is_known: bool) -> Done | _Running | None:
        """What a frame gives, and why not. `is_known`: it may come from the daemon. None: the agent is to end."""
        if not is_known:
            return self._refuse(REFUSED)
        if self._connections > CONNECTIONS_MAX:
            return self._refuse(BUSY)
        handed = decode_handed(data)
        if handed is not None:
            return await self._followed(handed, talk)
        given = decode_given(data)
        return self._refuse(MALFORMED) if given is None else await self._begun(given)

    # -- documents ----------------------------------------------------------------------------------------

    async def _followed(self, handed: client.Handed, talk: _Talk) -> Done | None:
        """What came of a document, which goes on when the connection ends, unless it needs the daemon; None: the
        agent is to end."""
        document = handed.document
        judged = await self._judge.judge_document(document, handed.revoked)
        if judged.cause == NOT_OFFERED:
            return self._refuse(NOT_OFFERED)
        follow, attend = follow_of(document.kind), attend_of(document.kind)
        given = Handed(
            document,
            judged.cause,
            judged.principal,
            judged.fingerprint,
            self._judge.is_revoked,
            self._judge.position,
            handed.sources,
            self._judge.cluster,
        )
        context = self._context._replace(principal=judged.principal)
        if attend is not None:
            return await self._attended(partial(attend, given, context, talk), judged)
        if follow is None:
            return self._refuse(NOT_OFFERED)
        found, is_over = Done(FAILED), trio.Event()

        async def run() -> None:
            nonlocal found
            try:
                found = Done(result=await follow(given, context), principal=judged.principal[:PRINCIPAL_CHARS_MAX])
            except Exception:
                logger.exception("the document %s failed", document.name)
            self._note_work()
            is_over.set()

        self._nursery.start_soon(run)
        await is_over.wait()
        return found

    async def _attended(self, attend: Callable[[], Awaitable[str]], judged: JudgedDocument) -> Done | None:
        """How a document has ended that is carried out beside the daemon; None: the agent is to end, and nothing has
        failed."""
        if judged.cause:
            return self._refuse(judged.cause, judged=Judged(judged.cause, judged.principal, detail=judged.detail))
        cause, scope = FAILED, trio.CancelScope()
        self._attending.add(scope)
        if self._listening.cancel_called:  # `stop` came while the document was judged
            scope.cancel()
        try:
            with scope:
                cause = await attend()
        except Exception:
            logger.exception("a document of %s failed", judged.principal)
        finally:
            self._attending.discard(scope)
        return None if scope.cancelled_caught else Done(cause, principal=judged.principal[:PRINCIPAL_CHARS_MAX])

    # -- orders -------------------------------------------------------------------------------------------

    async def _begun(self, given: Given) -> Done | _Running:
        """The order as it is carried out, by this question or another one."""
        order = given.order
        judged = await self._judge.judge(order, given.revoked, given.source)
        if judged.cause:
            return self._refuse(judged.cause, order, judged)
        running = self._running.get(order.tag)
        if running is None:
            if len(self._running) >= RUNNING_MAX:
                return self._refuse(BUSY, order, judged)
            running = self._running[order.tag] = _Running(judged.digest, given.lease_ms)
            self._nursery.start_soon(self._carry_out, running, given, judged)
        elif running.digest != judged.digest:
            return self._refuse(TAG_USED, order, judged)
        elif given.lease_ms:
            running.renew(given.lease_ms)
        return running

    async def _carry_out(self, running: _Running, given: Given, judged: Judged) -> None:
        order = given.order
        try:
            running.done = await self._done(running, given, judged)
        except JournalError as error:
            running.done = self._refuse(error.cause, order, judged._replace(detail=str(error)))
        finally:
            del self._running[order.tag]
            self._note_work()
        running.is_over.set()
        await self._sync(order.tag)

    async def _sync(self, tag: Tag) -> None:
        """The answer does not wait for it: after a power failure the outcome is unknown, and nothing runs twice."""
        try:
            await trio.to_thread.run_sync(self._journal.sync, tag)
        except (OSError, JournalError) as error:
            logger.error("the outcome of order %s is not kept over a power failure: %s", tag.hex(), error)

    async def _done(self, running: _Running, given: Given, judged: Judged) -> Done:
        """Raises JournalError: nothing was done."""
        order = given.order
        async with self._disk:
            found = await trio.to_thread.run_sync(self._known_or_begun, order.tag, judged)
        if found is not None:
            if found.digest and found.digest != judged.digest:
                return self._refuse(TAG_USED, order, judged)
            return _told(found.outcome or Outcome(cause=OUTCOME_UNKNOWN), judged)
        words = "order %(service)s of %(principal)s as %(user)s accepted: tag %(tag)s"
        logger.info(words, _fields(order, judged))
        left_s = min(judged.run_ms, judged.expires_ms - self._judge.now_ms) / 1000
        context = self._context._replace(
            user=judged.user, principal=judged.principal, tag=order.tag, left_s=max(0.0, left_s)
        )
        outcome = await self._acted(running, order, context)
        try:
            async with self._disk:
                await trio.to_thread.run_sync(self._journal.end, order.tag, outcome)
        except OSError as error:
            logger.error("the outcome of order %s is not kept over a restart: %s", order.tag.hex(), error)
        return _told(outcome, judged)

    def _known_or_begun(self, tag: Tag, judged: Judged) -> Found | None:
        """What is known of the tag; None: now it is on the disk. Blocks. Raises JournalError."""
        found = self._journal.find(tag)
        if found is None:
            self._journal.begin(tag, judged.digest, judged.expires_ms, self._judge.now_ms)
        return found

    async def _acted(self, running: _Running, order: Order, context: Context) -> Outcome:
        """Call the service, unless its lease is over already."""
        outcome = Outcome(cause=EXPIRED)
        try:
            act = self._act_of(order.service)
            running.obey(is_leased=is_leased(order.service))
            with trio.move_on_after(context.left_s), running.scope:
                if not running.cause:
                    outcome = Outcome(bytes(await act(order.payload, context)))
        except Exception:
            logger.exception("the service %s failed; order %s", order.service, order.tag.hex())
            outcome = Outcome(cause=FAILED)
        if outcome.cause == EXPIRED and running.cause:
            outcome = Outcome(cause=running.cause)
            logger.info("order %s of %s ended: %s", order.service, context.principal, sentence(running.cause))
        return Outcome(cause=TOO_LARGE) if len(outcome.result) > bounds.RESULT_BYTES_MAX else outcome

    def _refuse(self, cause: str, order: Order | None = None, judged: Judged | None = None) -> Done:
        self.refused[cause] += 1
        judged = judged or Judged(cause)
        fields, words = {"principal": judged.principal}, "%(cause)s: %(reason)s"
        if order is not None:
            fields = _fields(order, judged)
            words = f"order %(service)s of %(principal)s as %(user)s refused, {words} (tag %(tag)s)"
        else:
            words = f"document of %(principal)s refused, {words}" if judged.principal else f"request refused, {words}"
        reason = sentence(cause) + (f" ({judged.detail})" if judged.detail else "")
        logger.warning(words, {**fields, "cause": cause, "reason": reason})
        return Done(cause, principal=judged.principal[:PRINCIPAL_CHARS_MAX], refused=True)


def _told(outcome: Outcome, judged: Judged) -> Done:
    return Done(outcome.cause, outcome.result, judged.principal[:PRINCIPAL_CHARS_MAX])


def _fields(order: Order, judged: Judged) -> dict[str, str]:
    who = judged.principal or "an unknown operator"
    return {"service": order.service, "principal": who, "user": judged.user or "?", "tag": order.tag.hex()}
