"""Rotation of keys while the cluster runs: how a ring follows from another.

First all nodes hold the new key beside the old one, then all seal with it, then all drop the old one. Each step makes
a ring with a higher revision, which an operator signs as the document RING; of two rings the higher one counts.
"""

from __future__ import annotations

from subord.core.carriage.documents import NEVER_MS, RING
from subord.core.carriage.orders import Order
from subord.sealing.keys import Key, Keyring, KeyringError, keyring_of, parse, text_of

VERSION_MAX = 1 << 31  # of a document


def install(ring: Keyring, key: Key) -> Keyring:
    """All nodes accept `key`. Raises KeyringError."""
    return keyring_of(ring.primary, (*ring.keys.values(), key), ring.revision + 1)


def use(ring: Keyring, name: str) -> Keyring:
    """All nodes seal with it. Raises KeyringError."""
    return keyring_of(_named(ring, name), ring.keys.values(), ring.revision + 1)


def remove(ring: Keyring, name: str) -> Keyring:
    """All nodes drop it. Raises KeyringError."""
    gone = _named(ring, name)
    if gone == ring.primary:
        raise KeyringError(f"{name} is the primary key: `subord key use` another one first")
    return keyring_of(ring.primary, (key for key in ring.keys.values() if key != gone), ring.revision + 1)


def _named(ring: Keyring, name: str) -> Key:
    for key in ring.keys.values():
        if key.name == name:
            return key
    raise KeyringError(f"there is no key {name}; `subord key list` shows them")


def followed(ours: Keyring, theirs: Keyring) -> Keyring | None:
    """The ring to hold after the signed ring `theirs` was taken; None: ours.

    Of two signed rings of one revision all nodes come to hold the same document (core/carriage/documents.py), which
    this node has just taken: it counts.
    """
    is_behind = theirs.revision >= ours.revision and theirs.revision > 0
    return theirs if is_behind and fingerprint(theirs) != fingerprint(ours) else None


def ring_order(ring: Keyring, at_ms: int) -> Order:
    """The order that makes all nodes hold `ring`. Raises KeyringError."""
    if not 0 < ring.revision <= VERSION_MAX:
        raise KeyringError(f"a key ring of revision {ring.revision} cannot be sent: revisions end at {VERSION_MAX}")
    return Order(RING, ring.revision, at_ms, NEVER_MS, text_of(ring).encode())


def ring_of(order: Order) -> Keyring | None:
    """The ring of such an order; None: it is unreadable."""
    try:
        ring = parse(order.body.decode("ascii"))
    except (KeyringError, UnicodeDecodeError):
        return None
    return ring if ring.revision == order.version else None


def fingerprint(ring: Keyring) -> str:
    """The names of the keys, primary first. It does not reveal secrets."""
    others = sorted(key.name for key in ring.keys.values() if key.id != ring.primary.id)
    return "+".join([ring.primary.name, *others])


def at_start(given: Keyring, kept: Keyring | None, kept_since: str) -> Keyring:
    """The ring at start. `given` is the operator's, `kept` that of the last process, which began with `kept_since`.

    A file without revision, written by hand, is the ring of this node until the next signed one. A file with a
    revision counts by it, like a copy of a node's ring. An unchanged file is older than what came by rotation.
    """
    if kept is None:
        return given
    if given.revision or fingerprint(given) in (kept_since, fingerprint(kept)):
        return kept if kept.revision >= given.revision else given
    return given._replace(revision=kept.revision)
