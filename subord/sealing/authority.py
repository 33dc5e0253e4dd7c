"""The cluster's certificate authority, derived from the key, so that every node can issue certificates.

Input is a key; output are the authority, certificates for addresses, and the identity that a certificate shows: its
key pair is that of the node if O says so; releases before 0.3 use a random one. An Ed25519 key is any 32 bytes; its
signatures are deterministic, so the authority's certificate is the same, byte by byte, on all nodes. Certificates do
not expire, because clocks may differ, and the holder of the key could issue new ones; each process has its own. A
site's own authority may take this one's place (runtime/security/tls.py).
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID, ObjectIdentifier

from subord.sealing.keys import INFO_AUTHORITY, Key, derive

SINCE, UNTIL = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
NODE = "subord node"
"""O of certificates whose key pair is the identity of the node."""
HOST_CERTIFICATE = ObjectIdentifier("2.25.68090030640334441265086788668615723756")
"""An extension with the node's certificate by OpenSSH; the number is a random UUID (Rec. ITU-T X.667)."""


class Authority(NamedTuple):
    """The authority of one key. `pem` is its certificate, by which certificates of nodes are checked."""

    key: Ed25519PrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()


def authority_of(key: Key) -> Authority:
    """The authority of `key`, the same on every node."""
    private = Ed25519PrivateKey.from_private_bytes(derive(key.secret, INFO_AUTHORITY))
    name = x509.Name([_common(f"subord {key.name}")])
    builder = _certificate(name, name, private.public_key()).serial_number(1)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .sign(private, None)
    )
    return Authority(private, certificate)


def own_certificate(
    authority: Authority, address: str, identity: Ed25519PrivateKey | None = None, host_certificate: bytes = b""
) -> bytes:
    """PEM of a private key and its certificate for `address`. `identity`: the private key of the node, None: a fresh
    one. `host_certificate`: of the identity, as OpenSSH encodes it."""
    private = identity or Ed25519PrivateKey.generate()
    address = address.partition("%")[0]
    kind = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, NODE)] if identity else []
    builder = _certificate(x509.Name([*kind, _common(address)]), authority.certificate.subject, private.public_key())
    if host_certificate:
        extension = x509.UnrecognizedExtension(HOST_CERTIFICATE, host_certificate)
        builder = builder.add_extension(extension, critical=False)
    certificate = (
        builder.serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .sign(authority.key, None)
    )
    pem: bytes = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + certificate.public_bytes(Encoding.PEM)


def identity_in(der: bytes) -> tuple[bytes, bytes]:
    """The public key of the node that showed this certificate, and its certificate by OpenSSH; empty: none.

    The handshake has proved that the node has the private key. Raises ValueError for a malformed certificate.
    """
    certificate = x509.load_der_x509_certificate(der)
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    public = certificate.public_key() if [each.value for each in organizations] == [NODE] else None
    if not isinstance(public, Ed25519PublicKey):
        return b"", b""
    try:
        shown = certificate.extensions.get_extension_for_oid(HOST_CERTIFICATE).value
    except x509.ExtensionNotFound:
        return public.public_bytes_raw(), b""
    return public.public_bytes_raw(), shown.value if isinstance(shown, x509.UnrecognizedExtension) else b""


def _common(text: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, text)


def _certificate(subject: x509.Name, issuer: x509.Name, public: Ed25519PublicKey) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    return builder.not_valid_before(SINCE).not_valid_after(UNTIL)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
