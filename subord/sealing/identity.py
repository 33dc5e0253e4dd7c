"""The identity of this node: an Ed25519 key (RFC 8032), with which it signs what it says.

In: the 32 secret bytes. Out: signatures, and whether those of others hold. A public key is parsed for each check:
that takes 1 us of 80.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from subord.core.identity.signer import KEY_BYTES


class Verifier:
    """Implements `Signer` (core/identity/signer.py) for a node without identity, which still checks signatures."""

    key = b""

    def sign(self, content: bytes) -> bytes:  # noqa: ARG002 - the interface
        return b""

    @staticmethod
    def verify(key: bytes, content: bytes, proof: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(proof, content)
        except (InvalidSignature, ValueError):  # ValueError: the key has another length
            return False
        return True


class Ed25519Signer(Verifier):
    """Implements `Signer` for a node with identity."""

    def __init__(self, seed: bytes) -> None:
        """`seed`: the KEY_BYTES secret bytes."""
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        """Also the private key of the certificates for streams."""
        self.key = self.private.public_key().public_bytes_raw()

    def sign(self, content: bytes) -> bytes:
        return self.private.sign(content)


def new_seed() -> bytes:
    """Secret bytes of the system's generator."""
    return os.urandom(KEY_BYTES)
