"""What a node needs to prove its identity, and to check that of others.

The daemon signs with Ed25519 (RFC 8032), the simulator with a cheaper scheme of its own. Both are functions of their
arguments: no clock, no chance, no I/O.
"""

from __future__ import annotations

from typing import Final, Protocol

from subord.core.messages import KEY_BYTES, PROOF_BYTES

__all__ = ["KEY_BYTES", "NO_SIGNER", "PROOF_BYTES", "NoSigner", "Signer"]


class Signer(Protocol):
    """The identity of one node."""

    @property
    def key(self) -> bytes:
        """The public key, KEY_BYTES long; empty: the node has no identity."""

    def sign(self, content: bytes) -> bytes:
        """The proof, PROOF_BYTES long; empty without an identity."""

    def verify(self, key: bytes, content: bytes, proof: bytes) -> bool:
        """Whether the owner of `key` has signed `content`."""


class NoSigner:
    """A node without identity, as of releases before 0.3: proves nothing, and believes no proof."""

    key = b""

    def sign(self, content: bytes) -> bytes:  # noqa: ARG002 - the interface
        return b""

    def verify(self, key: bytes, content: bytes, proof: bytes) -> bool:  # noqa: ARG002 - the interface
        return False


NO_SIGNER: Final = NoSigner()
