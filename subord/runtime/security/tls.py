"""TLS 1.3 on the streams between nodes. Both sides have certificates for their addresses.

A peer whose certificate does not name the address that it connects from is refused. The node issues its certificates
with the key (sealing/authority.py), or the site's own authority does. Both sides also prove their identities: by the
key pair of these certificates, or beside those of the site's authority (proof.py); a peer with another identity than
expected is refused. During a rotation of keys a node has
certificates of several keys. The caller names its key in the greeting (SNI), `KEY.subord`, and the other side uses
the same one; if it does not have that key, the caller tries its next.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from subord.runtime import late
from subord.runtime.security.tls_records import Records
from subord.sealing.keys import Keyring

if TYPE_CHECKING:
    from subord.runtime.security.identity import Identity

SUFFIX = ".subord"
HANDSHAKE_S_MAX = 2.5
HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The other side closed the stream during the handshake."""
TOO_SLOW = "tls_too_slow"
AUTHORITY = "subord.sealing.authority"
"""Loaded with the first stream: X.509 costs 2.5 MiB and 20 ms of each start."""

Secure = trio.SSLStream[trio.SocketStream]


class Shown(NamedTuple):
    """The identity that the other side of a stream has proved: its public key, and its certificate by OpenSSH, which
    nothing has checked yet. Empty: none, as of releases before 0.3."""

    key: bytes = b""
    certificate: bytes = b""


Prove = Callable[[Secure, str, bool], Awaitable[Shown | None]]
"""(stream, address of the other side, whether this side opened it) -> its identity; None: it has no common key."""
Judge = Callable[[str, Shown], str]
"""(address of the other side, its identity) -> "", or the reason to refuse it as a metric label."""


class TlsError(Exception):
    """The handshake or the authentication failed. The text is the reason as a metric label."""

    has_hung_up = False
    """The other side closed the stream without an alert, so its certificate may be valid."""


class CertificatesError(Exception):
    """The files cannot be used. One sentence for the operator."""


class Certificates(NamedTuple):
    """PEM: the private key and certificates of this node; the certificates of the trusted authorities."""

    ours: bytes
    trusted: str

    def __repr__(self) -> str:
        return f"Certificates({len(self.ours)} bytes)"


class _Contexts(NamedTuple):
    """By name of the key; the node's first choice is first."""

    servers: dict[str, ssl.SSLContext]
    clients: dict[str, ssl.SSLContext]


def certificates_of(ring: Keyring, address: str, identity: Identity | None = None) -> dict[str, Certificates]:
    """New certificates for each key, the primary first, with the key pair of the node's identity if it has one."""
    from subord.sealing.authority import authority_of, own_certificate  # noqa: PLC0415 - see AUTHORITY

    shown = (identity.private, identity.certificate) if identity else (None, b"")
    authorities = {key.name: authority_of(key) for key in (ring.primary, *ring.keys.values())}
    trusted = "".join(authority.pem for authority in authorities.values())
    return {
        name: Certificates(own_certificate(authority, address, *shown), trusted)
        for name, authority in authorities.items()
    }


class Tls:
    """The TLS contexts of one node."""

    def __init__(
        self,
        issue: Callable[[], dict[str, Certificates]],
        prove: Prove | None = None,
        judge: Judge = lambda _address, _shown: "",
    ) -> None:
        """`issue` returns certificates by name, the first choice first. `prove` is called after each handshake if
        the certificates alone do not prove the cluster's key. `judge` decides by the proved identity.
        """
        self._issue = issue
        self._prove = prove
        self._judge = judge
        self._made: _Contexts | None = None

    def forget(self) -> None:
        """Issue new certificates at the next connection."""
        self._made = None

    def renew(self) -> None:
        """Issue new certificates for later connections.

        Raises what `issue` raises, and OSError (ssl.SSLError) for unusable ones; then the old ones stay in use.
        """
        self._made = self._make()

    def contexts(self) -> _Contexts:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> _Contexts:
        issued = self._issue()
        servers = {name: _context(ssl.PROTOCOL_TLS_SERVER, each) for name, each in issued.items()}
        clients = {name: _context(ssl.PROTOCOL_TLS_CLIENT, each) for name, each in issued.items()}
        for context in servers.values():
            context.sni_callback = self._choose
        return _Contexts(servers, clients)

    def _choose(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        wanted = self.contexts().servers.get((name or "").removesuffix(SUFFIX))
        if wanted is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = wanted
        return None

    async def names(self) -> list[str]:
        """The names that a caller can use, first choice first. Raises TlsError."""
        return list((await self._usable()).clients)

    async def as_server(self, stream: trio.SocketStream, peer: str) -> Secure:
        """Secure an incoming stream. Raises TlsError."""
        context = next(iter((await self._usable()).servers.values()))
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        return await self._shake_hands(secured, peer, calling=False)

    async def as_client(self, stream: trio.SocketStream, peer: str, name: str) -> Secure:
        """Secure an outgoing stream with one of `names`. Raises TlsError."""
        context = (await self._usable()).clients.get(name)
        if context is None:  # removed since `names` was read
            raise TlsError("tls_refused")
        secured = trio.SSLStream(stream, context, server_hostname=name + SUFFIX, https_compatible=True)
        return await self._shake_hands(secured, peer, calling=True)

    async def _usable(self) -> _Contexts:
        if self._made is None and not await late.load(AUTHORITY):
            raise TlsError("tls_no_papers")
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
                shown = _identity(stream) if self._prove is None else await self._prove(stream, peer, calling)
                if shown is None:
                    raise TlsError("tls_without_key")
                reason = self._judge(peer, shown)
                if reason:
                    raise TlsError(reason)
        except trio.TooSlowError:
            raise TlsError(TOO_SLOW) from None
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            failed = TlsError("tls_refused" if isinstance(cause, ssl.SSLError) else "tls_broken")
            failed.has_hung_up = isinstance(cause, HUNG_UP) or not isinstance(cause, ssl.SSLError)
            raise failed from None
        return stream


def _addresses(stream: Secure) -> list[str]:
    """The addresses in the peer's certificate. Raises TlsError if they are malformed."""
    try:
        names = stream.getpeercert().get("subjectAltName", ())
        return [str(ipaddress.ip_address(value)) for kind, value in names if kind == "IP Address"]
    except (ValueError, AttributeError):
        raise TlsError("tls_malformed") from None


def _identity(stream: Secure) -> Shown:
    """The identity in the peer's certificate. Raises TlsError if it is malformed."""
    from subord.sealing.authority import identity_in  # noqa: PLC0415 - see AUTHORITY

    try:
        return Shown(*identity_in(stream.getpeercert(binary_form=True)))
    except (ValueError, TypeError):
        raise TlsError("tls_malformed") from None


def server_context(certificates: Certificates) -> ssl.SSLContext:
    """A context for clients without certificates, such as Prometheus. Raises ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with as_file(certificates.ours) as path:
        context.load_cert_chain(path, password=no_password)
    return context


def no_password() -> str:
    """Without a callback OpenSSL asks on the terminal."""
    return ""


def new_context(side: int) -> ssl.SSLContext:
    """A context for TLS 1.3 between nodes; a handshake or a read raises SSLEOFError if the stream is cut off."""
    context = ssl.SSLContext(side)
    context.sslobject_class = Records
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Python before 3.11.3 sets it (its issue 95494); with OpenSSL 1.1.1 there is no such option.
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    return context


def _context(side: int, certificates: Certificates) -> ssl.SSLContext:
    context = new_context(side)
    context.check_hostname = False  # the address is checked instead, on both sides
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificates.trusted)
    with as_file(certificates.ours) as path:
        context.load_cert_chain(path, password=no_password)
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # connections are few and long
    return context


@contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """A path to `data` in memory: the ssl module reads private keys from files, and they must not reach a disk."""
    descriptor = os.memfd_create("certificates", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
