"""The side of the link that asks: one connection to the other cluster, made when it is needed, and kept.

Inputs are the addresses of the plan, which are tried in their order, and messages; outputs are answers, or LinkError
with a sentence. Invariants: an answer belongs to its question, because a connection with a question that was not
answered is closed; each try and each question has a deadline; after a failure, no try is made before the backoff is
over.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from subord.core.pacing.backoff import Backoff
from subord.runtime.frames import Frames, frame
from subord.services.transfer.exchange import MESSAGE_BYTES_MAX
from subord.services.transfer.linking import counts as causes
from subord.services.transfer.linking.context import GREETING, GREETING_BYTES_MAX, Ends, Secured
from subord.services.transfer.linking.counts import Counts
from subord.services.transfer.places import place_of

CONNECT_S_MAX: Final = 4.0
"""Of each address, until its end has accepted us."""
ANSWER_S_MAX: Final = 20.0
RETRY_S, RETRY_S_MAX = 0.25, 15.0


class LinkError(Exception):
    """A sentence: what is wrong with the link. `cause`: one of CAUSES. Whether the message has arrived is not
    known."""

    def __init__(self, text: str, cause: str = causes.BROKEN) -> None:
        super().__init__(text)
        self.cause = cause


class _Connection(NamedTuple):
    stream: Secured
    frames: Frames
    address: str


class Asker:
    """One for each plan; `aclose` at its end. Tasks that ask at once wait for each other."""

    def __init__(self, addresses: Sequence[str], ends: Ends, counts: Counts) -> None:
        self._addresses = tuple(addresses)
        self._ends = ends
        self._counts = counts
        self._turn = trio.Lock()
        self._backoff = Backoff(RETRY_S)
        self._retry_at = 0.0
        self._connection: _Connection | None = None

    @property
    def retry_in_s(self) -> float:
        """How long `ask` will fail at once; 0: it tries."""
        return max(0.0, self._retry_at - trio.current_time())

    @property
    def address(self) -> str:
        """Of the connection; "": there is none."""
        return "" if self._connection is None else self._connection.address

    async def ask(self, body: bytes) -> bytes:
        """The answer. Raises LinkError, at once while the backoff lasts."""
        async with self._turn:
            if self.retry_in_s:
                raise LinkError(self._counts.fault or "the link is down", self._counts.cause)
            try:
                connection = self._connection or await self._connect()
                answer = await self._exchanged(connection, body)
            except LinkError as error:
                self._retry_at = trio.current_time() + self._backoff.step(RETRY_S_MAX)
                self._counts.down(trio.current_time(), error.cause, str(error))
                raise
            self._backoff = Backoff(RETRY_S)
            return answer

    async def renew(self, ends: Ends) -> None:
        """The next connection is made with these ends; the present one is closed after its question."""
        async with self._turn:
            self._ends = ends
            await self.aclose()

    async def aclose(self) -> None:
        """Without a farewell: the other side may not answer."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await trio.aclose_forcefully(connection.stream)

    async def _exchanged(self, connection: _Connection, body: bytes) -> bytes:
        self._connection = None  # until it is in order again
        answer: bytes | None = None
        try:
            with trio.fail_after(ANSWER_S_MAX):
                await connection.stream.send_all(frame(body))
                self._counts.note("asked", len(body))
                answer = await connection.frames.next(MESSAGE_BYTES_MAX)
        except trio.TooSlowError:
            raise LinkError(f"{connection.address} has not answered within {ANSWER_S_MAX:g} s", causes.SLOW) from None
        except trio.BrokenResourceError:
            raise LinkError(f"the connection to {connection.address} was cut") from None
        finally:
            if answer is None:
                await trio.aclose_forcefully(connection.stream)
            else:
                self._connection = connection
        if answer is None:
            raise LinkError(f"{connection.address} has closed the connection, or sent too much")
        self._counts.note("answered", len(answer))
        return answer

    async def _connect(self) -> _Connection:
        """The first address that accepts us. Raises LinkError."""
        failed: list[LinkError] = []
        for address in self._addresses:
            try:
                connection = await self._connected(address)
            except LinkError as error:
                failed.append(error)
                continue
            self._connection = connection
            self._counts.up(trio.current_time())
            return connection
        listed = "; ".join(map(str, failed))
        raise LinkError(f"no node of the other cluster can be asked: {listed}", failed[0].cause)

    async def _connected(self, address: str) -> _Connection:
        place = place_of(address)
        if place is None:
            raise LinkError(f"{address} is not of the form HOST:PORT; correct the plan", causes.UNREACHABLE)
        try:
            with trio.fail_after(CONNECT_S_MAX):
                try:
                    stream = await trio.open_tcp_stream(*place)
                except OSError as error:
                    why = error.strerror or str(error)
                    raise LinkError(f"{address} cannot be reached: {why}", causes.UNREACHABLE) from None
                return await self._secured(stream, address)
        except trio.TooSlowError:
            raise LinkError(f"{address} is silent for {CONNECT_S_MAX:g} s", causes.SLOW) from None

    async def _secured(self, stream: trio.SocketStream, address: str) -> _Connection:
        secured = trio.SSLStream(stream, self._ends.client, https_compatible=True)
        is_accepted = False
        try:
            await secured.do_handshake()
            if not self._ends.trusts(secured):
                raise LinkError(_strange(address), causes.STRANGER)
            frames = Frames(secured)
            greeting = await frames.next(GREETING_BYTES_MAX)
            if greeting != GREETING:
                raise LinkError(self._refused(address), causes.STRANGER)
            is_accepted = True
            return _Connection(secured, frames, address)
        except trio.BrokenResourceError as error:
            raise self._explained(address, error.__cause__) from None
        finally:
            if not is_accepted:
                with suppress(trio.BrokenResourceError):
                    await trio.aclose_forcefully(secured)

    def _explained(self, address: str, cause: BaseException | None) -> LinkError:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return LinkError(_strange(address), causes.STRANGER)
        if isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or ""):
            return LinkError(self._refused(address), causes.STRANGER)
        return LinkError(f"{address} has cut the connection, or speaks no TLS 1.3")

    def _refused(self, address: str) -> str:
        return (
            f"{address} does not accept this host: its plan has to name our certificate (SHA-256 "
            f"{self._ends.ours[:16]}...), as `subord transfer key` prints it here"
        )


def _strange(address: str) -> str:
    return f"{address} shows a certificate that the plan does not name; nothing was sent to it"
