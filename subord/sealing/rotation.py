"""Changing keys while the cluster runs: which ring follows from which. Pure.

Intuition: new locks for a house whose people are never all at home. First everybody gets the new key beside the old
one, then everybody begins to use it, and only when nobody needs the old one any more it is thrown away. Each of the
three makes a ring with a higher revision, and of two rings that meet the higher one wins.
"""

from __future__ import annotations

from subord.sealing.keys import KEYS_MAX, REVISION_MAX, Key, Keyring, KeyringError, keyring_of

STEP_MAX = 1 << 20  # nobody may use up all revisions at once


def install(ring: Keyring, key: Key) -> Keyring:
    """Everybody is to understand it. Raises KeyringError."""
    return keyring_of(ring.primary, (*ring.keys.values(), key), ring.revision + 1)


def use(ring: Keyring, name: str) -> Keyring:
    """Everybody is to begin with it. Raises KeyringError."""
    return keyring_of(_named(ring, name), ring.keys.values(), ring.revision + 1)


def remove(ring: Keyring, name: str) -> Keyring:
    """Nobody is to understand it any more. Raises KeyringError."""
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
    """What we hold after we have seen theirs; None: what we had. Raises KeyringError.

    Two rings of one revision that differ were made in two halves of a cluster: no key of either is lost (but the
    lowest, where there are more than KEYS_MAX), and the union has the next revision, the same wherever it is made.
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
    """Names of the keys, primary first: says nothing about the secrets."""
    others = sorted(key.name for key in ring.keys.values() if key.id != ring.primary.id)
    return "+".join([ring.primary.name, *others])


def at_start(given: Keyring, kept: Keyring | None, kept_since: str) -> Keyring:
    """`given` by the operator, `kept` from the last life, which had begun with one of fingerprint `kept_since`.

    Whoever writes a file by hand, which has no revision, is obeyed, and by the whole cluster: it becomes the newest.
    A file with a revision is a copy of somebody's ring, and counts as such. One that was not touched is older than
    what came by rotation.
    """
    if kept is None:
        return given
    if given.revision or fingerprint(given) in (kept_since, fingerprint(kept)):
        return kept if kept.revision >= given.revision else given
    return given._replace(revision=min(kept.revision + 1, REVISION_MAX - 1))
