"""TLS 1.3 on the streams between nodes, both sides with a passport for their address (sealing/authority.py).

Intuition: two sentries who show each other their papers before a word is said. The paper names an address; who comes
from another one is sent away, however good the stamp.

While keys are rotated a node may have passports of several authorities. The caller says in the greeting (SNI) which
key it goes by, `KEY.subord`, and is answered with that one; when the other side does not have it, it tries its next.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from subord.sealing.authority import authority_of, passport
from subord.sealing.keys import Key, Keyring

SUFFIX = ".subord"
HANDSHAKE_S_MAX = 3.0

Secure = trio.SSLStream[trio.SocketStream]


class TlsError(Exception):
    """The other side is not who it should be. A word for the counter."""


class Tls:
    """The papers of one node in one life. `take` replaces the key ring while connections go on."""

    def __init__(self, keyring: Keyring, address: str) -> None:
        self._address = address
        self._servers: dict[str, ssl.SSLContext] = {}
        self._clients: dict[str, ssl.SSLContext] = {}
        self.take(keyring)

    def take(self, keyring: Keyring) -> None:
        """New connections go by this ring."""
        trusted = "".join(authority_of(key).pem for key in keyring.keys.values())
        self._primary = keyring.primary.name
        self._clients, self._servers = {}, {}
        for key in keyring.keys.values():
            self._issue(key, trusted)

    def _issue(self, key: Key, trusted: str) -> None:
        pem = passport(authority_of(key), self._address)
        for side, contexts in ((ssl.PROTOCOL_TLS_SERVER, self._servers), (ssl.PROTOCOL_TLS_CLIENT, self._clients)):
            contexts[key.name] = _context(side, pem, trusted)
        self._servers[key.name].sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        wanted = self._servers.get((name or "").removesuffix(SUFFIX))
        if wanted is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = wanted
        return None

    @property
    def names(self) -> list[str]:
        """Of our keys, the primary first."""
        return sorted(self._clients, key=lambda name: name != self._primary)

    async def as_server(self, stream: trio.SocketStream, peer: str) -> Secure:
        """Raises TlsError, and what the stream raises."""
        return await self._shake_hands(trio.SSLStream(stream, self._servers[self._primary], server_side=True), peer)

    async def as_client(self, stream: trio.SocketStream, peer: str, name: str) -> Secure:
        """With the key of that name. Raises TlsError, and what the stream raises."""
        return await self._shake_hands(
            trio.SSLStream(stream, self._clients[name], server_hostname=name + SUFFIX), peer
        )

    async def _shake_hands(self, stream: Secure, peer: str) -> Secure:
        try:
            with trio.fail_after(HANDSHAKE_S_MAX):
                await stream.do_handshake()
        except trio.TooSlowError:
            raise TlsError("tls_too_slow") from None
        except trio.BrokenResourceError as error:
            raise TlsError("tls_refused" if isinstance(error.__cause__, ssl.SSLError) else "tls_broken") from None
        if peer.partition("%")[0] not in _addresses(stream.getpeercert()):
            raise TlsError("tls_wrong_address")
        return stream


def _addresses(certificate: dict[str, tuple[tuple[str, str], ...]]) -> Iterator[str]:
    return (value for kind, value in certificate.get("subjectAltName", ()) if kind == "IP Address")


def _context(side: int, pem: bytes, trusted: str) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the address is checked instead, on both sides
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=trusted)
    with _as_file(pem) as path:
        context.load_cert_chain(path)
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # connections are few and long
    return context


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """The ssl module reads private keys from files only; this one never reaches a disk."""
    descriptor = os.memfd_create("passport", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
