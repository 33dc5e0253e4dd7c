"""The cluster's keys, and what is derived from them.

A key ring is a text file, one key per line, at most KEYS_MAX; # begins a comment:

 primary  iT0zq...=    seals the first datagrams to a peer
 key      8Jw1f...=    opens datagrams, and seals the answers to them
 revision 3            grows with every change; absent: 0 (rotation.py)

Derived with HKDF-SHA256 (RFC 5869), no salt, each from the whole key; `info` names the purpose. Test vectors are in
tests/sealing/vectors.json.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SECRET_BYTES: Final = 32
ID_BYTES: Final = 4
KEYS_MAX: Final = 8
REVISION_MAX: Final = 1 << 62
INFO_ID, INFO_DATAGRAM, INFO_AUTHORITY = b"subord 1 key id", b"subord 1 datagram", b"subord 1 authority"
INFO_PROOF = b"subord 1 proof"
ROLES = ("primary", "key")


class KeyringError(Exception):
    """An unusable key ring. One sentence for the operator, without secrets."""


class Key(NamedTuple):
    """One secret. `id` names it in the clear and does not reveal the secret."""

    id: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"Key({self.name})"

    @property
    def name(self) -> str:
        """The name for the operator: eight hexadecimal digits."""
        return self.id.hex()


class Keyring(NamedTuple):
    """`keys` by identity, `primary` among them. Of two rings the one with the higher `revision` is newer."""

    primary: Key
    keys: dict[bytes, Key]
    revision: int = 0

    def __repr__(self) -> str:
        return f"Keyring({self.primary.name} of {', '.join(key.name for key in self.keys.values())})"


def key_of(secret: bytes) -> Key:
    """The key of `secret`, which has SECRET_BYTES."""
    return Key(derive(secret, INFO_ID, ID_BYTES), secret)


def new_key() -> Key:
    """A random key of the system's generator."""
    return key_of(os.urandom(SECRET_BYTES))


def keyring_of(primary: Key, others: Iterable[Key] = (), revision: int = 0) -> Keyring:
    """Raises KeyringError for too many keys, equal identities, or when no revision is left."""
    every = (primary, *others)
    keys = {key.id: key for key in every}
    if len({key.secret for key in every}) != len(keys):
        raise KeyringError("two keys have the same identity: generate one of them anew")
    if len(keys) > KEYS_MAX:
        raise KeyringError(f"{len(keys)} keys are more than the {KEYS_MAX} that a key ring may hold: remove old ones")
    if revision >= REVISION_MAX:
        raise KeyringError("this key ring has been changed too often: write a new one without a revision")
    return Keyring(primary, keys, revision)


def derive(secret: bytes, info: bytes, length: int = SECRET_BYTES) -> bytes:
    """RFC 5869 with SHA-256 and an empty salt."""
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)


def parse(text: str) -> Keyring:
    """Raises KeyringError, which names the line but not its content."""
    primary: list[Key] = []
    others: list[Key] = []
    revision = 0
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0] not in (*ROLES, "revision"):
            raise KeyringError(f"line {number}: a line is `primary KEY`, `key KEY` or `revision NUMBER`")
        if words[0] == "revision":
            revision = _revision_in(words[1], number)
        else:
            (primary if words[0] == "primary" else others).append(_key_in(words[1], number))
    if len(primary) != 1:
        raise KeyringError(f"{len(primary)} keys are marked primary: exactly one has to be")
    return keyring_of(primary[0], others, revision)


def _revision_in(word: str, number: int) -> int:
    if word.isascii() and word.isdigit() and len(word) <= len(str(REVISION_MAX)) and int(word) < REVISION_MAX:
        return int(word)
    raise KeyringError(f"line {number}: a revision is a whole number below 2^62")


def _key_in(word: str, number: int) -> Key:
    try:
        secret = base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise KeyringError(
            f"line {number}: a key is {SECRET_BYTES} bytes in base 64, as `subord key generate` prints it"
        )
    return key_of(secret)


def text_of(ring: Keyring) -> str:
    """The text of the file, primary first."""
    others = [key for key in ring.keys.values() if key.id != ring.primary.id]
    lines = ["# subord key ring: keep it secret, the same on all nodes", _line("primary", ring.primary)]
    lines += [_line("key", key) for key in others]
    lines += [f"revision {ring.revision}"] if ring.revision else []
    return "\n".join(lines) + "\n"


def _line(role: str, key: Key) -> str:
    return f"{role:8} {base64.b64encode(key.secret).decode()}  # {key.name}"
