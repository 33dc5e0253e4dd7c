"""Certificates of nodes by the site's own authority, made with `ssh-keygen -s CA -h -n ADDRESS identity.pub`.

In: a certificate as OpenSSH encodes it, the key and the address of the node that shows it, the trusted authorities,
the time. Out: "" or one word, why it does not count. Loaded late: nodes without certified identities do not need it.
PROTOCOL.certkeys of OpenSSH has the format.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from typing import Final, Literal, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from subord.sealing.openssh import IdentityError, first_string

TYPE: Final = b"ssh-ed25519-cert-v01@openssh.com"
BYTES_MAX: Final = 4096
AUTHORITIES_MAX: Final = 64
AUTHORITY_TYPES: Final = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
)
SHA1: Final = b"ssh-rsa"  # the name of the signature; OpenSSH refuses it, too
WHOLE: Final = "a line is TYPE KEY, or @cert-authority PATTERNS TYPE KEY, as in known_hosts"
NOT_A_CERTIFICATE: Final = "it is no certificate of an ed25519 key as `ssh-keygen -s` makes one"

Word = Literal[
    "",
    "malformed",
    "of_a_user",
    "other_key",
    "other_address",
    "restricted",
    "not_valid_now",
    "revoked",
    "unknown_authority",
    "altered",
    "weak",
]


class Authorities(NamedTuple):
    """The trusted authorities, each encoded key with the addresses that it may certify, and the revoked keys."""

    trusted: tuple[tuple[bytes, str], ...]
    revoked: frozenset[bytes] = frozenset()


class Verdict(NamedTuple):
    """`word` "": the certificate counts until `until_s`, seconds since 1970."""

    word: Word
    until_s: float = 0.0


def authorities_in(text: str) -> Authorities:
    """The authorities in the text of a file. Raises IdentityError, which names the line."""
    trusted: list[tuple[bytes, str]] = []
    revoked: set[bytes] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        marker, patterns = "", "*"
        if words[0] in ("@cert-authority", "@revoked") and len(words) >= 4:
            marker, patterns, words = words[0], words[1], words[2:]
        blob = _blob(words, number)
        if marker == "@revoked":
            revoked.add(blob)
        else:
            trusted.append((blob, patterns))
    if not trusted:
        raise IdentityError(f"there is no authority in it; {WHOLE}")
    if len(trusted) > AUTHORITIES_MAX:
        raise IdentityError(f"it has {len(trusted)} authorities, more than {AUTHORITIES_MAX}")
    return Authorities(tuple(trusted), frozenset(revoked))


def _blob(words: list[str], number: int) -> bytes:
    """The encoded key of TYPE KEY. Raises IdentityError."""
    if words[0].startswith("sk-"):
        raise IdentityError(f"line {number}: keys in hardware ({words[0]}) cannot certify nodes; use an ed25519 key")
    if len(words) < 2 or words[0] not in AUTHORITY_TYPES:
        raise IdentityError(f"line {number}: no key of an authority; {WHOLE}")
    try:
        blob = base64.b64decode(words[1], validate=True)
        load_ssh_public_identity(" ".join(words[:2]).encode())
    except (binascii.Error, ValueError, UnsupportedAlgorithm):
        raise IdentityError(f"line {number}: the key is damaged; {WHOLE}") from None
    return blob


def blob_in(text: str) -> bytes:
    """The certificate in the text of a -cert.pub file. Raises IdentityError."""
    words = text.split()
    try:
        blob = base64.b64decode(words[1], validate=True) if words[:1] == [TYPE.decode()] else b""
    except (binascii.Error, ValueError, IndexError):
        blob = b""
    if not 0 < len(blob) <= BYTES_MAX:
        raise IdentityError(NOT_A_CERTIFICATE)
    return blob


def judged(blob: bytes, key: bytes, address: str, now_s: float, authorities: Authorities) -> Verdict:
    """Whether an authority has certified `key` for the node at `address`."""
    certificate = _read(blob)
    if certificate is None:
        return Verdict("malformed")
    word = _shape(certificate, key, address, now_s) or _authority(certificate, blob, address, authorities)
    return Verdict(word, float(certificate.valid_before))


def own_word(blob: bytes, key: bytes, address: str, now_s: float) -> Verdict:
    """Whether a node can show this certificate of its own; it need not know the authorities."""
    certificate = _read(blob)
    if certificate is None:
        return Verdict("malformed")
    return Verdict(_shape(certificate, key, address, now_s), float(certificate.valid_before))


def _read(blob: bytes) -> SSHCertificate | None:
    try:
        kind, _ = first_string(blob)
        if kind != TYPE or len(blob) > BYTES_MAX:
            return None
        certificate = load_ssh_public_identity(kind + b" " + base64.b64encode(blob))
    except (IdentityError, ValueError, UnsupportedAlgorithm):
        return None
    return certificate if isinstance(certificate, SSHCertificate) else None


def _shape(certificate: SSHCertificate, key: bytes, address: str, now_s: float) -> Word:
    public = certificate.public_key()
    if certificate.type is not SSHCertificateType.HOST:
        return "of_a_user"
    if not isinstance(public, Ed25519PublicKey) or public.public_bytes_raw() != key:
        return "other_key"
    if not any(_is_address(each, address) for each in certificate.valid_principals):  # none at all: for no node
        return "other_address"
    if certificate.critical_options:
        return "restricted"
    return "" if certificate.valid_after <= now_s < certificate.valid_before else "not_valid_now"


def _is_address(principal: bytes, address: str) -> bool:
    try:
        named = ipaddress.ip_address(principal.decode("ascii"))
    except ValueError:  # a name of the host, or no text
        return False
    return named == ipaddress.ip_address(address.partition("%")[0])


def _authority(certificate: SSHCertificate, blob: bytes, address: str, authorities: Authorities) -> Word:
    """Whether one of the authorities has signed it."""
    try:
        signer = certificate.signature_key()
        line = signer.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    except (ValueError, UnsupportedAlgorithm):
        return "malformed"
    signed_by = base64.b64decode(line.split()[1])
    public = certificate.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    if authorities.revoked & {signed_by, base64.b64decode(public.split()[1])}:
        return "revoked"
    if not any(key == signed_by and _covers(patterns, address) for key, patterns in authorities.trusted):
        return "unknown_authority"
    try:
        certificate.verify_cert_signature()
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return "altered"
    if isinstance(signer, RSAPublicKey):
        end = signer.key_size // 8 + 4  # of the name of the signature, before the signature itself
        return "weak" if blob[-end - len(SHA1) : -end] == SHA1 else ""
    return ""


def _covers(patterns: str, address: str) -> bool:
    """Whether patterns of known_hosts name the address: `*` and `?` as in a shell, `!` before what is excepted."""
    is_covered = False
    for pattern in patterns.split(","):
        wanted = pattern.removeprefix("!")
        expression = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in wanted)
        if re.fullmatch(expression, address.partition("%")[0], re.IGNORECASE):
            if pattern.startswith("!"):
                return False
            is_covered = True
    return is_covered
