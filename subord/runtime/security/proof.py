"""Mutual proof of a common key, after a TLS handshake with certificates of the site's own authority.

The authority may also certify hosts outside the cluster, so a certificate alone does not admit a node. Each side
sends 32 random bytes; then, for each of its keys, the key's identity and an HMAC of role, both random values and both
addresses. One key in common is enough. The certificates prove the addresses, so a proof cannot be relayed.
"""

from __future__ import annotations

import hmac
import os

from subord.runtime.frames import Frames, Stream, frame
from subord.sealing.header import endpoint
from subord.sealing.keys import ID_BYTES, INFO_PROOF, Keyring, derive

NONCE_BYTES = 32
MAC_BYTES = 32
PROOF_BYTES_MAX = 16 * (ID_BYTES + MAC_BYTES)


async def shown(stream: Stream, ring: Keyring, caller: str, called: str, *, calling: bool) -> bool:
    """Whether the other side proves a key of `ring`; proves the keys of this side, too.

    `caller`, `called`: addresses; `calling`: whether this side opened the stream. Raises trio.BrokenResourceError.
    """
    frames, ours = Frames(stream), os.urandom(NONCE_BYTES)
    await stream.send_all(frame(ours))
    theirs = await frames.next(NONCE_BYTES)
    if theirs is None or len(theirs) != NONCE_BYTES:
        return False
    challenge = (ours + theirs if calling else theirs + ours) + endpoint(caller, 0) + endpoint(called, 0)
    await stream.send_all(frame(_proof(ring, challenge, calling=calling)))
    proof = await frames.next(PROOF_BYTES_MAX)
    return proof is not None and not frames.rest and _is_proof(proof, ring, challenge, calling=not calling)


def _proof(ring: Keyring, challenge: bytes, *, calling: bool) -> bytes:
    return b"".join(key.id + _mac(key.secret, challenge, calling=calling) for key in ring.keys.values())


def _is_proof(proof: bytes, ring: Keyring, challenge: bytes, *, calling: bool) -> bool:
    step = ID_BYTES + MAC_BYTES
    found = False
    for at in range(0, len(proof), step):
        key = ring.keys.get(proof[at : at + ID_BYTES])
        if key is not None:
            expected = _mac(key.secret, challenge, calling=calling)
            found |= hmac.compare_digest(proof[at + ID_BYTES : at + step], expected)
    return found


def _mac(secret: bytes, challenge: bytes, *, calling: bool) -> bytes:
    role = b"caller" if calling else b"called"
    return hmac.digest(derive(secret, INFO_PROOF), role + challenge, "sha256")
