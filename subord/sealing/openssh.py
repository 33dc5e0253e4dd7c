"""Keys in the formats of OpenSSH, as a node's identity has on disk and an operator sees it.

In: Ed25519 keys, or text of files. Out: text, fingerprints as `ssh-keygen -l` prints them, or IdentityError. Only
unencrypted Ed25519 keys are read, without `cryptography`'s serialization, which costs each start 0.4 MiB and 5 ms.
PROTOCOL.key of OpenSSH has the format.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from subord.core.identity.signer import KEY_BYTES

KEY_TYPE: Final = b"ssh-ed25519"
MAGIC: Final = b"openssh-key-v1\0"
BEGIN, END = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
LINE: Final = 70
BLOCK: Final = 8  # what the private part is padded to, by 1, 2, 3, ...
DAMAGED: Final = "it is damaged"
WITHOUT_CIPHER: Final = b"none"


class IdentityError(Exception):
    """An unusable key or certificate. The text continues a sentence that begins with the file."""


def strings_in(data: bytes) -> list[bytes]:
    """The strings of which `data` consists (RFC 4251, section 5). Raises IdentityError."""
    found, rest = [], data
    while rest:
        text, rest = first_string(rest)
        found.append(text)
    return found


def first_string(data: bytes) -> tuple[bytes, bytes]:
    """The first string, and what follows. Raises IdentityError."""
    end = 4 + int.from_bytes(data[:4], "big")
    if len(data) < 4 or len(data) < end:
        raise IdentityError(DAMAGED)
    return data[4:end], data[end:]


def blob_of(key: bytes) -> bytes:
    """The public key as OpenSSH encodes it, from its 32 bytes."""
    return _string(KEY_TYPE) + _string(key)


def fingerprint_of(blob: bytes) -> str:
    """SHA256:... of an encoded public key."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def fingerprint(key: bytes) -> str:
    """SHA256:... of the 32 bytes of a node's public key; "" without a key."""
    return fingerprint_of(blob_of(key)) if key else ""


def public_line(key: bytes, comment: str) -> str:
    """The content of a .pub file."""
    return f"{KEY_TYPE.decode()} {base64.b64encode(blob_of(key)).decode()} {comment}\n"


def private_text(seed: bytes, comment: str) -> str:
    """The content of a private key file, without passphrase."""
    key = public_of(seed)
    check = os.urandom(4)
    private = check + check + blob_of(key) + _string(seed + key) + _string(comment.encode())
    private += bytes(range(1, 1 + -len(private) % BLOCK))
    data = MAGIC + _string(WITHOUT_CIPHER) * 2 + _string(b"") + (1).to_bytes(4, "big")
    text = base64.b64encode(data + _string(blob_of(key)) + _string(private)).decode()
    lines = [text[at : at + LINE] for at in range(0, len(text), LINE)]
    return "\n".join([BEGIN, *lines, END]) + "\n"


def seed_in(text: str) -> bytes:
    """The 32 secret bytes of a private key file. Raises IdentityError."""
    lines = text.split()
    if not text.startswith(BEGIN) or not text.rstrip().endswith(END):
        raise IdentityError("it is no private key in OpenSSH's format")
    try:
        data = base64.b64decode("".join(lines[4:-4]), validate=True)
    except (binascii.Error, ValueError):
        raise IdentityError(DAMAGED) from None
    if not data.startswith(MAGIC):
        raise IdentityError(DAMAGED)
    cipher, rest = first_string(data[len(MAGIC) :])
    if cipher != WITHOUT_CIPHER:
        raise IdentityError("it has a passphrase, which a daemon cannot enter")
    derivation, rest = first_string(rest)
    options, rest = first_string(rest)
    if derivation != WITHOUT_CIPHER or options or rest[:4] != (1).to_bytes(4, "big"):
        raise IdentityError(DAMAGED)
    public, rest = first_string(rest[4:])
    private, rest = first_string(rest)
    kind, _ = first_string(public)
    if kind != KEY_TYPE:
        raise IdentityError(f"it is a key of type {_word(kind)}, not ssh-ed25519")
    if rest or len(private) < 8 or private[:4] != private[4:8]:
        raise IdentityError(DAMAGED)
    return _seed(public, private[8:])


def _seed(public: bytes, private: bytes) -> bytes:
    kind, rest = first_string(private)
    key, rest = first_string(rest)
    secret, rest = first_string(rest)
    _, padding = first_string(rest)
    seed = secret[:KEY_BYTES]
    if padding != bytes(range(1, 1 + len(padding))) or len(seed) != KEY_BYTES or secret[KEY_BYTES:] != key:
        raise IdentityError(DAMAGED)
    if public != _string(kind) + _string(key) or public_of(seed) != key:
        raise IdentityError(DAMAGED)
    return seed


def public_of(seed: bytes) -> bytes:
    """The public key of 32 secret bytes."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _word(kind: bytes) -> str:
    text = kind.decode("ascii", "replace")
    return text if text.isprintable() and len(text) <= 64 else "unknown"
