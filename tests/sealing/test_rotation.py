"""Rotation of keys: which ring follows from which, by tables and at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.core.carriage.documents import NEVER_MS, RING, is_within_bounds
from subord.sealing.keys import KEYS_MAX, REVISION_MAX, Key, Keyring, KeyringError, key_of, keyring_of, parse, text_of
from subord.sealing.rotation import (
    VERSION_MAX,
    at_start,
    fingerprint,
    followed,
    install,
    remove,
    ring_of,
    ring_order,
    use,
)

KEYS = [key_of(bytes([number]) * 32) for number in range(1, 2 * KEYS_MAX + 1)]
ONE, TWO, THREE, *_ = KEYS
UNKNOWN = "00000000"

numbers = st.integers(0, len(KEYS) - 1)
rings = st.builds(
    lambda chosen, revision: ring(*(KEYS[number] for number in chosen), revision=revision),
    st.lists(numbers, min_size=1, max_size=KEYS_MAX, unique=True),
    st.integers(0, 3),
)


def ring(*keys: Key, revision: int = 0) -> Keyring:
    """The first key is primary."""
    return keyring_of(keys[0], keys[1:], revision)


# -- install, use, remove -------------------------------------------------------------------------------------------


def test_a_whole_rotation() -> None:
    first = ring(ONE)
    second = install(first, TWO)
    third = use(second, TWO.name)
    last = remove(third, ONE.name)
    assert [fingerprint(each).split("+") for each in (first, second, third, last)] == [
        [ONE.name],
        [ONE.name, TWO.name],
        [TWO.name, ONE.name],
        [TWO.name],
    ]
    assert [each.revision for each in (first, second, third, last)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("before", "name", "words"),
    [
        (ring(ONE, TWO), UNKNOWN, f"there is no key {UNKNOWN}; `subord key list` shows them"),
        (ring(ONE, TWO), "", "there is no key "),
        (ring(ONE, TWO), THREE.name, f"there is no key {THREE.name}"),
        (ring(ONE, TWO), ONE.name.upper() + " ", "there is no key "),
    ],
)
def test_only_a_key_of_the_ring_can_be_used_or_removed(before: Keyring, name: str, words: str) -> None:
    for change in (use, remove):
        with pytest.raises(KeyringError) as caught:
            change(before, name)
        assert words in str(caught.value)


def test_the_primary_key_is_not_removed() -> None:
    with pytest.raises(KeyringError, match=f"{ONE.name} is the primary key: `subord key use` another one first"):
        remove(ring(ONE, TWO), ONE.name)


def test_a_full_ring_takes_no_more() -> None:
    with pytest.raises(KeyringError, match=f"{KEYS_MAX + 1} keys are more than the {KEYS_MAX}"):
        install(ring(*KEYS[:KEYS_MAX]), KEYS[KEYS_MAX])


@pytest.mark.parametrize(
    "change", [lambda r: install(r, THREE), lambda r: use(r, TWO.name), lambda r: remove(r, TWO.name)]
)
def test_no_change_leads_to_a_ring_that_cannot_be_read(change: Callable[[Keyring], Keyring]) -> None:
    last = change(ring(ONE, TWO, revision=REVISION_MAX - 2))
    assert parse(text_of(last)) == last
    with pytest.raises(KeyringError, match="changed too often"):
        change(ring(ONE, TWO, revision=REVISION_MAX - 1))


# -- signed rings ---------------------------------------------------------------------------------------------------


@over(
    ("ours", "theirs", "expected"),
    [
        pytest.param(ring(ONE, TWO, revision=1), ring(THREE, revision=2), ring(THREE, revision=2), id="newer"),
        pytest.param(ring(ONE, TWO, revision=2), ring(ONE, revision=1), None, id="older"),
        pytest.param(ring(ONE, TWO, revision=1), ring(ONE, TWO, revision=1), None, id="the same"),
        pytest.param(
            ring(ONE, TWO, revision=1), ring(ONE, THREE, revision=1), ring(ONE, THREE, revision=1), id="one of two"
        ),
        pytest.param(ring(ONE), ring(TWO), None, id="no revision"),
        pytest.param(ring(ONE), ring(TWO, revision=1 << 31), ring(TWO, revision=1 << 31), id="a leap"),
    ],
)
def test_the_ring_after_a_signed_one(ours: Keyring, theirs: Keyring, expected: Keyring | None) -> None:
    assert followed(ours, theirs) == expected


@given(rings)
def test_a_ring_survives_its_order(before: Keyring) -> None:
    after = before._replace(revision=before.revision + 1)
    order = ring_order(after, 1_800_000_000_000)
    assert (order.name, order.version, order.expires_ms) == (RING, after.revision, NEVER_MS)
    assert ring_of(order) == after


@pytest.mark.parametrize(
    "change", [{"body": b""}, {"body": b"primary \xff"}, {"body": b"primary x\nrevision 1\n"}, {"version": 2}]
)
def test_an_order_of_a_ring_that_cannot_be_read_has_none(change: dict[str, Any]) -> None:
    assert ring_of(ring_order(ring(ONE, revision=1), 1)._replace(**change)) is None


@pytest.mark.parametrize("revision", [0, VERSION_MAX + 1])
def test_only_a_revision_of_a_document_can_be_sent(revision: int) -> None:
    with pytest.raises(KeyringError, match=f"a key ring of revision {revision} cannot be sent"):
        ring_order(ring(ONE, revision=revision), 1)


def test_a_full_ring_fits_a_document() -> None:
    order = ring_order(ring(*KEYS[:KEYS_MAX], revision=VERSION_MAX), 1)
    assert is_within_bounds(order)


def test_a_fingerprint_tells_no_secret_and_knows_no_order() -> None:
    assert fingerprint(ring(ONE, TWO, THREE)) == fingerprint(ring(ONE, THREE, TWO))
    assert fingerprint(ring(ONE, TWO)) != fingerprint(ring(TWO, ONE))
    assert fingerprint(ring(ONE)) == ONE.name


# -- a start --------------------------------------------------------------------------------------------------------


@over(
    ("given_", "kept", "since", "expected"),
    [
        pytest.param(ring(ONE), None, "", ring(ONE), id="nothing kept"),
        pytest.param(
            ring(ONE),
            ring(TWO, ONE, revision=2),
            fingerprint(ring(ONE)),
            ring(TWO, ONE, revision=2),
            id="file unchanged",
        ),
        pytest.param(
            ring(ONE, revision=3),
            ring(TWO, revision=2),
            fingerprint(ring(ONE)),
            ring(ONE, revision=3),
            id="file unchanged and newer",
        ),
        pytest.param(
            ring(THREE),
            ring(TWO, ONE, revision=2),
            fingerprint(ring(ONE)),
            ring(THREE, revision=2),
            id="file changed by hand",
        ),
        pytest.param(
            ring(THREE, revision=9),
            ring(TWO, revision=2),
            fingerprint(ring(ONE)),
            ring(THREE, revision=9),
            id="with a revision",
        ),
        pytest.param(ring(ONE, TWO), ring(TWO, revision=2), "", ring(ONE, TWO, revision=2), id="unknown"),
    ],
)
def test_the_ring_at_start(given_: Keyring, kept: Keyring | None, since: str, expected: Keyring) -> None:
    assert at_start(given_, kept, since) == expected


def test_a_file_changed_by_hand_holds_until_the_next_signed_ring() -> None:
    kept = ring(TWO, ONE, revision=7)
    by_hand = at_start(ring(THREE), kept, fingerprint(ring(ONE)))
    assert by_hand == ring(THREE, revision=7)
    signed = use(kept, ONE.name)
    assert followed(by_hand, signed) == signed
    with_revision = at_start(ring(THREE, revision=9), kept, fingerprint(ring(ONE)))
    assert followed(with_revision, signed) is None


@pytest.mark.parametrize("count", [2, 3, 8])
def test_one_of_many_is_removed(count: int) -> None:
    keys = [key_of(bytes([number]) * 32) for number in range(count)]
    ring = keyring_of(keys[0], keys[1:], 5)
    left = remove(ring, keys[-1].name)
    assert (left.primary, list(left.keys.values()), left.revision) == (keys[0], keys[:-1], 6)


def test_a_copy_of_an_older_ring_does_not_win_over_what_came_since() -> None:
    """A ring that is deployed to new nodes, and then forgotten there, must not roll the cluster back."""
    first, second, third = (key_of(bytes([number]) * 32) for number in range(3))
    copied = keyring_of(second, (first,), 2)
    kept = keyring_of(third, (second,), 4)
    assert at_start(copied, kept, "the one before") == kept
    assert at_start(copied._replace(revision=0), kept, "the one before").revision == 4, "written by hand"
    assert at_start(copied._replace(revision=9), kept, "the one before").revision == 9
