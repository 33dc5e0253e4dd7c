"""What a signature in the format of SSHSIG says of itself (OpenSSH: PROTOCOL.sshsig, PROTOCOL.certkeys).

Input is the text of a signature, or a public key; output are its namespace and key. Nothing is verified here: this
chooses the word for a signature that ssh-keygen refuses, and names its key. Invariant: text of other nodes raises
nothing but SshsigError.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from math import inf
from typing import Final, NamedTuple

HEAD, FOOT = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
MAGIC: Final = b"SSHSIG"
CERTIFICATE: Final = "-cert-v01@openssh.com"
FIELDS: Final = {
    "ssh-ed25519": 1,
    "ssh-rsa": 2,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "sk-ssh-ed25519@openssh.com": 2,
    "sk-ecdsa-sha2-nistp256@openssh.com": 3,
}
"""How many strings a public key of each type has behind its type."""
FOREVER: Final = (1 << 64) - 1


class SshsigError(ValueError):
    """This is no signature, or no public key, of a known type."""


class PublicKey(NamedTuple):
    """`fingerprint`: as `ssh-keygen -l` prints it; of a certificate that of its key. Times: seconds since 1970."""

    key_type: str
    fingerprint: str
    is_certificate: bool = False
    valid_after: float = 0.0
    valid_before: float = inf


class Signature(NamedTuple):
    key: PublicKey
    namespace: str


class _Reader:
    """Reads the fields of RFC 4251, section 5."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "big")

    def string(self) -> bytes:
        return self.raw(self.number(4))

    def text(self) -> str:
        return self.string().decode("utf-8", "replace")

    def raw(self, size: int) -> bytes:
        if size > len(self._data):
            raise SshsigError("it is too short")
        taken, self._data = self._data[:size], self._data[size:]
        return taken


def signature_of(text: bytes) -> Signature:
    """Raises SshsigError."""
    text = text.strip()
    if not text.startswith(HEAD) or not text.endswith(FOOT):
        raise SshsigError("it has no frame of an SSH signature")
    reader = _Reader(decoded(text[len(HEAD) : -len(FOOT)]))
    if reader.raw(len(MAGIC)) != MAGIC or reader.number(4) != 1:
        raise SshsigError("it is no SSH signature of version 1")
    return Signature(public_key_of(reader.string()), reader.text())


def public_key_of(blob: bytes) -> PublicKey:
    """Of a public key or certificate as signatures and key files have it. Raises SshsigError."""
    reader = _Reader(blob)
    name = reader.text()
    key_type = _plain(name)
    if key_type not in FIELDS:
        raise SshsigError(f"keys of type {name!r:.60} are not supported")
    if key_type == name:
        for _ in range(FIELDS[key_type]):
            reader.string()
        return PublicKey(key_type, _fingerprint(blob))
    reader.string()  # the nonce
    fields = [key_type.encode(), *(reader.string() for _ in range(FIELDS[key_type]))]
    reader.raw(12)  # serial number and kind
    reader.string()  # the name of the certificate
    reader.string()  # the principals
    valid_after, valid_before = reader.number(8), reader.number(8)
    plain = b"".join(struct.pack(">I", len(field)) + field for field in fields)
    end = inf if valid_before == FOREVER else float(valid_before)
    return PublicKey(key_type, _fingerprint(plain), True, float(valid_after), end)


def decoded(text: bytes) -> bytes:
    """From Base64, with line ends. Raises SshsigError."""
    try:
        return base64.b64decode(b"".join(text.split()), validate=True)
    except binascii.Error:
        raise SshsigError("it is no Base64") from None


def _plain(name: str) -> str:
    """The type of the key in a certificate of this type; other names as they are."""
    if not name.endswith(CERTIFICATE):
        return name
    plain = name.removesuffix(CERTIFICATE)
    return f"{plain}@openssh.com" if plain.startswith("sk-") else plain


def _fingerprint(blob: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
