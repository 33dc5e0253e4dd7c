"""Mutual proof of a common key and of identities, after a TLS handshake with certificates of the site's authority.

The authority may also certify hosts outside the cluster, so a certificate alone does not admit a node. Each side
sends 32 random bytes; then, for each of its keys, the key's identity and an HMAC of role, both random values and both
addresses. One key in common is enough. The certificates prove the addresses, so a proof cannot be relayed.

An entry MARK follows with the public key of the node, zeros if it has none. Releases before 0.3 read over it and send
none. If both sides sent one, each sends a third frame: its signature over the same content, then its certificate by
OpenSSH.
"""

from __future__ import annotations

import hmac
import os

from subord.core.identity.signer import KEY_BYTES, NO_SIGNER, PROOF_BYTES, Signer
from subord.runtime.frames import Frames, Stream, frame
from subord.runtime.security.tls import Shown
from subord.sealing.header import endpoint
from subord.sealing.identity import Verifier
from subord.sealing.keys import ID_BYTES, INFO_PROOF, Keyring, derive

NONCE_BYTES = 32
MAC_BYTES = 32
FRAME_BYTES_MAX = 16 * (ID_BYTES + MAC_BYTES)
MARK = b"node"  # in place of the identity of a key
NO_KEY = bytes(KEY_BYTES)
CERTIFICATE_BYTES_MAX = 4096
SIGNED = b"subord 1 stream "


async def shown(
    stream: Stream,
    ring: Keyring,
    caller: str,
    called: str,
    *,
    calling: bool,
    signer: Signer = NO_SIGNER,
    certificate: bytes = b"",
) -> Shown | None:
    """The identity of the other side if it proves a key of `ring`, else None; proves those of this side, too.

    `caller`, `called`: addresses; `calling`: whether this side opened the stream. `certificate`: of the identity of
    this side. Raises trio.BrokenResourceError.
    """
    frames, ours = Frames(stream), os.urandom(NONCE_BYTES)
    await stream.send_all(frame(ours))
    theirs = await frames.next(NONCE_BYTES)
    if theirs is None or len(theirs) != NONCE_BYTES:
        return None
    challenge = (ours + theirs if calling else theirs + ours) + endpoint(caller, 0) + endpoint(called, 0)
    mark = MARK + (signer.key or NO_KEY)
    await stream.send_all(frame(_proof(ring, challenge, calling=calling) + mark))
    proof = await frames.next(FRAME_BYTES_MAX)
    if proof is None or not _is_proof(proof, ring, challenge, calling=not calling):
        return None
    found: Shown | None = Shown()
    if proof[-len(mark) :].startswith(MARK):
        await stream.send_all(frame(signer.sign(_signed(challenge, calling=calling)) + certificate))
        last = await frames.next(PROOF_BYTES + CERTIFICATE_BYTES_MAX)
        found = _identity(proof[-KEY_BYTES:], last, _signed(challenge, calling=not calling))
    return None if frames.rest else found


def _identity(key: bytes, last: bytes | None, signed: bytes) -> Shown | None:
    """What the third frame proves; None: it is wrong."""
    if last is None or (key == NO_KEY) != (not last):
        return None
    if not last:
        return Shown()
    proof, certificate = last[:PROOF_BYTES], last[PROOF_BYTES:]
    return Shown(key, certificate) if Verifier.verify(key, signed, proof) else None


def _signed(challenge: bytes, *, calling: bool) -> bytes:
    return SIGNED + _role(calling=calling) + challenge


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
    return hmac.digest(derive(secret, INFO_PROOF), _role(calling=calling) + challenge, "sha256")


def _role(*, calling: bool) -> bytes:
    return b"caller" if calling else b"called"
