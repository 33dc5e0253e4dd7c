"""Whom both ends of the link trust: exactly the certificates that the plan names, and no authority.

Inputs are our identity and the certificates of the plan; outputs are the TLS contexts, and whether the other end of a
connection is one of those. Invariants: TLS 1.3 only; both ends show a certificate; a certificate that one of them has
signed does not count. Names and times in certificates say nothing: it is the plan that makes them valid.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final, NamedTuple

import trio

from subord.runtime.security.tls import as_file, new_context, no_password
from subord.services.transfer.linking.certificate import CertificateError, Identity, der_of, fingerprint_of

GREETING: Final = b"subord transfer 1"
"""The first frame of the end that answers: it has accepted the other one. With TLS 1.3 the end that asks would not
know otherwise."""
GREETING_BYTES_MAX: Final = 64
Secured = trio.SSLStream[trio.SocketStream]


class Ends(NamedTuple):
    """Contexts for connections of others and of ours. `trusted`: SHA-256 of certificates. `ours`: of our own."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    trusted: frozenset[str]
    ours: str

    def trusts(self, stream: Secured) -> bool:
        """After the handshake."""
        der = stream.getpeercert(binary_form=True)
        return der is not None and fingerprint_of(der) in self.trusted


def ends_of(identity: Identity, certificates: Iterable[str]) -> Ends:
    """`certificates`: as the plan names them. Raises CertificateError."""
    ders = [der_of(each) for each in certificates]
    try:
        server, client = (
            _context(side, identity, ders) for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(f"the certificates of transfers cannot be used here: {error}") from None
    return Ends(server, client, frozenset(map(fingerprint_of, ders)), identity.fingerprint)


def renewed(ends: Ends, identity: Identity) -> Ends:
    """The same ends with another identity of ours, from the next handshake on. In the event loop, since connections
    that begin read the contexts. Raises CertificateError."""
    try:
        for context in (ends.server, ends.client):
            _load(context, identity)
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(f"the key of transfers cannot be used here: {error}") from None
    return ends._replace(ours=identity.fingerprint)


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    with as_file(identity.pem) as path:
        context.load_cert_chain(path, password=no_password)


def _context(side: int, identity: Identity, ders: list[bytes]) -> ssl.SSLContext:
    context = new_context(side)
    context.check_hostname = False  # the certificate itself is known
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=b"".join(ders))
    _load(context, identity)
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # each connection shows its certificate
    return context
