"""Do you have the key? Asked after a TLS handshake by papers of a site's own authority.

Intuition: the passport office stamps for the whole town, also for those who have no business in this house. So after
the passport the doorkeeper asks for the pass word, and says it, too; and because it goes with both addresses, which
the passports have proved, nobody can carry it from one door to another.

Each side sends 32 random bytes; then, for each of its keys, the key's identity and an HMAC of role, both random words
and both addresses. One key in common is enough.
"""

from __future__ import annotations

import hmac
import os

from subord.runtime.net.frames import Frames, Stream, frame
from subord.sealing.header import endpoint
from subord.sealing.keys import ID_BYTES, INFO_PROOF, Keyring, derive

WORD_BYTES = 32
MAC_BYTES = 32
PROOF_BYTES_MAX = 16 * (ID_BYTES + MAC_BYTES)


async def shown(stream: Stream, ring: Keyring, caller: str, called: str, *, calling: bool) -> bool:
    """Whether the other side has a key of ours; it is told that we have, too. Raises trio.BrokenResourceError."""
    frames, word = Frames(stream), os.urandom(WORD_BYTES)
    await stream.send_all(frame(word))
    theirs = await frames.next(WORD_BYTES)
    if theirs is None or len(theirs) != WORD_BYTES:
        return False
    words = (word + theirs if calling else theirs + word) + endpoint(caller, 0) + endpoint(called, 0)
    await stream.send_all(frame(_proof(ring, words, calling=calling)))
    said = await frames.next(PROOF_BYTES_MAX)
    return said is not None and not frames.rest and _is_proof(said, ring, words, calling=not calling)


def _proof(ring: Keyring, words: bytes, *, calling: bool) -> bytes:
    return b"".join(key.id + _mac(key.secret, words, calling=calling) for key in ring.keys.values())


def _is_proof(said: bytes, ring: Keyring, words: bytes, *, calling: bool) -> bool:
    step = ID_BYTES + MAC_BYTES
    found = False
    for at in range(0, len(said), step):
        key = ring.keys.get(said[at : at + ID_BYTES])
        if key is not None:
            expected = _mac(key.secret, words, calling=calling)
            found |= hmac.compare_digest(said[at + ID_BYTES : at + step], expected)
    return found


def _mac(secret: bytes, words: bytes, *, calling: bool) -> bytes:
    role = b"caller" if calling else b"called"
    return hmac.digest(derive(secret, INFO_PROOF), role + words, "sha256")
