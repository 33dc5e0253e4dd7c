"""The side of the link that answers: connections of the other cluster.

Inputs are listeners and `answer`, which makes an answer of a message; outputs are the answers. Invariants: only an
end with a certificate of the plan is heard; a stranger cannot take the place of the other cluster, because handshakes
are bounded for each address, and for all, apart from the connections that are accepted; of those, the newest stay,
since older ones may be left from a link that was cut; each of them is heard at a pace, so the other cluster cannot
keep this process busy. What is refused is counted by its cause.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from subord.runtime.frames import Frames, frame
from subord.services.transfer.exchange import MESSAGE_BYTES_MAX, ExchangeError
from subord.services.transfer.linking import counts as causes
from subord.services.transfer.linking.context import GREETING, Ends, Secured
from subord.services.transfer.linking.counts import Counts

HANDSHAKE_S_MAX: Final = 4.0
HANDSHAKES_MAX, HANDSHAKES_OF_ONE_MAX = 32, 4
"""At once: of all addresses, and of one."""
CONNECTIONS_MAX: Final = 4
IDLE_S_MAX: Final = 900.0
"""Longer than the longest poll."""
SEND_S_MAX: Final = 20.0
GAP_S: Final = 0.1
"""The least time between two messages of a connection; the other cluster takes twice as long (exchanging.py)."""
Answering = Callable[[bytes], Awaitable[bytes]]
"""Raises ExchangeError for a message that cannot be read."""


class ListenError(Exception):
    """A sentence: why this host cannot listen, and what to do."""


async def bound(host: str, port: int) -> list[trio.SocketListener]:
    """`host`: "": all addresses of this host. Raises ListenError."""
    try:
        return await trio.open_tcp_listeners(port, host=host or None)
    except OSError as error:
        shown = f"{host or 'any address'}, port {port}"
        raise ListenError(
            f"transfers cannot listen at {shown}: {error.strerror or error}; no job comes from the other cluster: "
            "correct [transfer] in the configuration"
        ) from None


async def serve(
    listeners: Sequence[trio.SocketListener],
    ends: Ends,
    answer: Answering,
    counts: Counts,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Until it is cancelled; then all is closed."""
    door = _Door(ends, answer, counts)
    task_status.started()  # the sockets listen already
    await trio.serve_listeners(door.served, list(listeners))


class _Door:
    def __init__(self, ends: Ends, answer: Answering, counts: Counts) -> None:
        self._ends = ends
        self._answer = answer
        self._counts = counts
        self._handshakes: Counter[str] = Counter()
        self._accepted: dict[int, tuple[str, trio.CancelScope]] = {}
        self._number = 0

    async def served(self, stream: trio.SocketStream) -> None:
        try:
            address = str(stream.socket.getpeername()[0])
        except OSError:  # it has gone
            address = ""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            secured = await self._accept(stream, address)
            if secured is None:
                await trio.aclose_forcefully(stream)
                return
            try:
                await self._converse(secured, address)
            finally:
                await trio.aclose_forcefully(secured)

    # -- handshakes -----------------------------------------------------------------------------------------------

    async def _accept(self, stream: trio.SocketStream, address: str) -> Secured | None:
        """None: it is refused."""
        ours = self._handshakes
        if ours.total() >= HANDSHAKES_MAX or ours[address] >= HANDSHAKES_OF_ONE_MAX:
            self._counts.refuse(causes.CROWDED, address)
            return None
        ours[address] += 1
        try:
            return await self._shaken(stream, address)
        finally:
            ours[address] -= 1
            if not ours[address]:
                del ours[address]

    async def _shaken(self, stream: trio.SocketStream, address: str) -> Secured | None:
        secured = trio.SSLStream(stream, self._ends.server, server_side=True, https_compatible=True)
        cause = causes.SLOW
        with trio.move_on_after(HANDSHAKE_S_MAX):
            try:
                await secured.do_handshake()
                cause = "" if self._ends.trusts(secured) else causes.STRANGER
                if not cause:
                    await secured.send_all(frame(GREETING))
                    return secured
            except trio.BrokenResourceError as error:
                cause = _cause(error.__cause__)
        self._counts.refuse(cause, address)
        return None

    # -- connections that are accepted ----------------------------------------------------------------------------

    async def _converse(self, stream: Secured, address: str) -> None:
        number = self._number = self._number + 1
        with trio.CancelScope() as scope:
            self._accepted[number] = address, scope
            while len(self._accepted) > CONNECTIONS_MAX:
                former, oldest = self._accepted.pop(min(self._accepted))
                oldest.cancel()
                self._counts.refuse(causes.CROWDED, former)
            try:
                await self._answer_all(stream, address)
            finally:
                self._accepted.pop(number, None)

    async def _answer_all(self, stream: Secured, address: str) -> None:
        frames = Frames(stream)
        while True:
            body: bytes | None = None
            with trio.move_on_after(IDLE_S_MAX):
                body = await frames.next(MESSAGE_BYTES_MAX)
            if body is None:
                return
            self._counts.note("served", len(body))
            try:
                answer = await self._answer(body)
            except ExchangeError:
                self._counts.refuse(causes.UNREADABLE, address)
                return
            with trio.move_on_after(SEND_S_MAX) as deadline:
                await stream.send_all(frame(answer))
            if deadline.cancelled_caught:
                self._counts.refuse(causes.SLOW, address)
                return
            self._counts.note("told", len(answer))
            await trio.sleep(GAP_S)


def _cause(error: BaseException | None) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return causes.STRANGER
    if isinstance(error, ssl.SSLError) and "PEER_DID_NOT_RETURN_A_CERTIFICATE" in (error.reason or ""):
        return causes.STRANGER
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return causes.STRANGER  # the other end does not know us
    return causes.BROKEN
