"""TLS 1.3 on the streams between nodes, both sides with papers for their address.

Intuition: two sentries who show each other their papers before a word is said. The paper names an address; who comes
from another one is sent away, however good the stamp.

The papers are stamped by ourselves with the key (sealing/authority.py), or by a site's own authority. While keys are
rotated a node has papers of several authorities. The caller says in the greeting (SNI) which key it goes by,
`KEY.subord`, and is answered with that one; when the other side does not have it, it tries its next.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import trio

from subord.sealing.authority import authority_of, passport
from subord.sealing.keys import Keyring

SUFFIX = ".subord"
HANDSHAKE_S_MAX = 2.5
HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""It went away in the middle: refused us, or had no patience."""
TOO_SLOW = "tls_too_slow"

Secure = trio.SSLStream[trio.SocketStream]
Prove = Callable[[Secure, str, bool], Awaitable[bool]]
"""(stream, address of the other side, whether we called) -> whether it has a key of ours."""


class TlsError(Exception):
    """The other side is not who it should be. A word for the counter."""

    has_hung_up = False
    """The other side went away without a word, so it may not be its papers."""


class Certificates(NamedTuple):
    """PEM: our private key and certificates; certificates of whose stamps we trust."""

    ours: bytes
    trusted: str

    def __repr__(self) -> str:
        return f"Papers({len(self.ours)} bytes)"


class _Contexts(NamedTuple):
    """By name, the first one that we go by ourselves in front."""

    servers: dict[str, ssl.SSLContext]
    clients: dict[str, ssl.SSLContext]


def certificates_of(ring: Keyring, address: str) -> dict[str, Certificates]:
    """Fresh ones for each key, the primary first."""
    authorities = {key.name: authority_of(key) for key in (ring.primary, *ring.keys.values())}
    trusted = "".join(authority.pem for authority in authorities.values())
    return {name: Certificates(passport(authority, address), trusted) for name, authority in authorities.items()}


class Tls:
    """The papers of one node. `issue` makes them anew; it is called at the first connection, and after `renew`."""

    def __init__(self, issue: Callable[[], dict[str, Certificates]], prove: Prove | None = None) -> None:
        """`prove` is asked when papers alone do not say that their bearer has the cluster's key."""
        self._issue = issue
        self._prove = prove
        self._made: _Contexts | None = None

    def forget(self) -> None:
        """The next connection makes new papers."""
        self._made = None

    def renew(self) -> None:
        """Connections from now on go by new papers; those that stand go on. Raises what `issue` raises, and OSError
        (ssl.SSLError) for papers that are none; then the old ones go on."""
        self._made = self._make()

    def contexts(self) -> _Contexts:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> _Contexts:
        papers = self._issue()
        servers = {name: _context(ssl.PROTOCOL_TLS_SERVER, each) for name, each in papers.items()}
        clients = {name: _context(ssl.PROTOCOL_TLS_CLIENT, each) for name, each in papers.items()}
        for context in servers.values():
            context.sni_callback = self._choose
        return _Contexts(servers, clients)

    def _choose(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        wanted = self.contexts().servers.get((name or "").removesuffix(SUFFIX))
        if wanted is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = wanted
        return None

    @property
    def names(self) -> list[str]:
        """What we may go by, best first."""
        return list(self.contexts().clients)

    async def as_server(self, stream: trio.SocketStream, peer: str) -> Secure:
        """Raises TlsError."""
        context = next(iter(self._usable().servers.values()))
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        return await self._shake_hands(secured, peer, calling=False)

    async def as_client(self, stream: trio.SocketStream, peer: str, name: str) -> Secure:
        """By one of `names`. Raises TlsError."""
        context = self._usable().clients.get(name)
        if context is None:  # it was taken from us since
            raise TlsError("tls_refused")
        secured = trio.SSLStream(stream, context, server_hostname=name + SUFFIX, https_compatible=True)
        return await self._shake_hands(secured, peer, calling=True)

    def _usable(self) -> _Contexts:
        try:
            return self.contexts()
        except (OSError, ValueError):  # no file descriptor, no /proc
            raise TlsError("tls_no_papers") from None

    async def _shake_hands(self, stream: Secure, peer: str, *, calling: bool) -> Secure:
        try:
            with trio.fail_after(HANDSHAKE_S_MAX):
                await stream.do_handshake()
                if peer.partition("%")[0] not in _addresses(stream):
                    raise TlsError("tls_wrong_address")
                if self._prove is not None and not await self._prove(stream, peer, calling):
                    raise TlsError("tls_without_key")
        except trio.TooSlowError:
            raise TlsError(TOO_SLOW) from None
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            failed = TlsError("tls_refused" if isinstance(cause, ssl.SSLError) else "tls_broken")
            failed.has_hung_up = isinstance(cause, HUNG_UP) or not isinstance(cause, ssl.SSLError)
            raise failed from None
        return stream


def _addresses(stream: Secure) -> list[str]:
    """For which its papers are. Raises TlsError: whoever stamped them may have written anything."""
    try:
        names = stream.getpeercert().get("subjectAltName", ())
        return [str(ipaddress.ip_address(value)) for kind, value in names if kind == "IP Address"]
    except (ValueError, AttributeError):
        raise TlsError("tls_malformed") from None


def server_context(papers: Certificates) -> ssl.SSLContext:
    """For callers who need no papers of their own, such as Prometheus. Raises ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with _as_file(papers.ours) as path:
        context.load_cert_chain(path, password=_no_password)
    return context


def _no_password() -> str:
    """Without it OpenSSL would ask the terminal."""
    return ""


def _context(side: int, papers: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the address is checked instead, on both sides
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=papers.trusted)
    with _as_file(papers.ours) as path:
        context.load_cert_chain(path, password=_no_password)
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # connections are few and long
    return context


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """The ssl module reads private keys from files only; this one never reaches a disk."""
    descriptor = os.memfd_create("papers", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
