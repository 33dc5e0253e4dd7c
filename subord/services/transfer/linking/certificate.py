"""The certificate of this transfer host and its private key, in one file that only its owner may read.

The operator of the other cluster names the certificate in the plan there, so no authority is needed. Inputs are
paths and texts; outputs are identities, certificates, and CertificateError with a sentence. Invariants: a file that
is there is never replaced; a new one appears whole. The certificate does not expire, because it is trusted for being
in the plan, and clocks of clusters may differ: docs/transfer.md says how to replace it.

All functions block. Loaded when a link is made: X.509 costs 2.5 MiB.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from subord.sealing import keyfile
from subord.sealing.authority import SINCE, UNTIL
from subord.sealing.keys import KeyringError

WHAT: Final = "file of the key of transfers"
IF_MISSING: Final = "`subord transfer key` makes it"
NAME_DIGITS: Final = 16


class CertificateError(Exception):
    """A sentence: whose fault it is, and what to do. Nothing was changed."""


class Identity(NamedTuple):
    """`pem`: the private key and the certificate. `der`: the certificate."""

    pem: bytes
    der: bytes

    def __repr__(self) -> str:
        return f"Identity({self.fingerprint})"

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.der)

    @property
    def text(self) -> str:
        """As the plan of the other cluster names it."""
        return text_of(self.der)


def fingerprint_of(der: bytes) -> str:
    """SHA-256 in hexadecimal digits, for people to compare."""
    return hashlib.sha256(der).hexdigest()


def text_of(der: bytes) -> str:
    return base64.b64encode(der).decode()


def der_of(text: str) -> bytes:
    """A certificate of the plan. Raises CertificateError."""
    try:
        der = base64.b64decode(text, validate=True)
        x509.load_der_x509_certificate(der)
    except (binascii.Error, ValueError):
        raise CertificateError(
            f"the plan names a certificate that is none ({text[:24]}...); copy it from `subord transfer key` of the "
            "other cluster"
        ) from None
    return der


def read(path: str) -> Identity:
    """Raises CertificateError, also if other users may read it."""
    try:
        pem = keyfile.secret(path, WHAT, IF_MISSING).encode()
        certificate = x509.load_pem_x509_certificate(pem)
        private = load_pem_private_key(pem, None)
    except KeyringError as error:
        raise CertificateError(str(error)) from None
    except (ValueError, TypeError):
        raise CertificateError(
            f"{path}: there is no private key with its certificate in it; remove it, and {IF_MISSING} again"
        ) from None
    if _public(private.public_key()) != _public(certificate.public_key()):
        raise CertificateError(f"{path}: the certificate is not of this key; remove it, and {IF_MISSING} again")
    return Identity(pem, certificate.public_bytes(Encoding.DER))


def mark_of(path: str) -> tuple[int, ...]:
    """Changes whenever the file does; (): it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def ensured(path: str) -> Identity:
    """Read it; make it if it is not there. Raises CertificateError."""
    if not os.path.lexists(path):
        _make(Path(path))
    return read(path)


def _make(path: Path) -> None:
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, keyfile.MODE)
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, keyfile.MODE)  # whatever the umask
                file.write(_fresh())
                file.flush()
                os.fsync(descriptor)
            with suppress(FileExistsError):  # another process was first, and its file is read
                os.link(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise CertificateError(
            f"{path}: the key of transfers cannot be written: {error.strerror}; run it as the user of the agent"
        ) from None


def _fresh() -> bytes:
    private = ec.generate_private_key(ec.SECP256R1())
    digits = hashlib.sha256(_public(private.public_key())).hexdigest()[:NAME_DIGITS]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"subord transfer {digits}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(SINCE)
        .not_valid_after(UNTIL)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(private, SHA256())
    )
    pem: bytes = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + certificate.public_bytes(Encoding.PEM)


def _public(key: PublicKeyTypes) -> bytes:
    own: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return own
