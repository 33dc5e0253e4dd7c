"""Rotation of keys while the cluster runs: how a ring follows from another.

First all nodes hold the new key beside the old one, then all seal with it, then all drop the old one. Each step makes
a ring with a higher revision, and of two rings the higher one counts.
"""

from __future__ import annotations

from subord.sealing.keys import KEYS_MAX, REVISION_MAX, Key, Keyring, KeyringError, keyring_of

STEP_MAX = 1 << 20  # bounds the revisions that one ring can use up


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


def newer(ours: Keyring, theirs: Keyring) -> Keyring | None:
    """The ring to hold after `theirs` came; None: no change. Raises KeyringError.

    Two different rings of one revision come from two halves of a cluster. Their union has the next revision, the same
    on every node, and holds all keys, or of more than KEYS_MAX without the lowest.
    """
    if theirs.revision > ours.revision + STEP_MAX:
        raise KeyringError(f"a ring of revision {theirs.revision} cannot follow ours of revision {ours.revision}")
    if theirs.revision != ours.revision:
        return theirs if theirs.revision > ours.revision else None
    if fingerprint(theirs) == fingerprint(ours):
        return None
    primary, other = sorted((ours.primary, theirs.primary), key=lambda key: key.id, reverse=True)
    both = {**ours.keys, **theirs.keys, other.id: other, primary.id: primary}
    rest = sorted(both.values(), key=lambda key: (key.id in (primary.id, other.id), key.id), reverse=True)
    return keyring_of(primary, rest[:KEYS_MAX], ours.revision + 1)


def fingerprint(ring: Keyring) -> str:
    """The names of the keys, primary first. It does not reveal secrets."""
    others = sorted(key.name for key in ring.keys.values() if key.id != ring.primary.id)
    return "+".join([ring.primary.name, *others])


def at_start(given: Keyring, kept: Keyring | None, kept_since: str) -> Keyring:
    """The ring at start. `given` is the operator's, `kept` that of the last process, which began with `kept_since`.

    A file without revision, written by hand, becomes the newest ring of the whole cluster. A file with a revision is
    a copy of a node's ring and counts as such. An unchanged file is older than what came by rotation.
    """
    if kept is None:
        return given
    if given.revision or fingerprint(given) in (kept_since, fingerprint(kept)):
        return kept if kept.revision >= given.revision else given
    return given._replace(revision=min(kept.revision + 1, REVISION_MAX - 1))
