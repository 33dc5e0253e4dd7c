"""Rotation of keys: which ring follows from which, by tables and at random."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import over

from subord.sealing.keys import KEYS_MAX, REVISION_MAX, Key, Keyring, KeyringError, key_of, keyring_of, parse, text_of
from subord.sealing.rotation import STEP_MAX, at_start, fingerprint, install, newer, remove, use

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


# -- two rings that meet --------------------------------------------------------------------------------------------


def test_the_higher_revision_wins() -> None:
    low, high = ring(ONE, TWO, revision=1), ring(THREE, revision=2)
    assert newer(low, high) is high
    assert newer(high, low) is None


def test_the_same_ring_changes_nothing() -> None:
    assert newer(ring(ONE, TWO, THREE, revision=1), ring(ONE, THREE, TWO, revision=1)) is None


def test_two_halves_of_a_cluster_lose_no_key() -> None:
    start = ring(ONE)
    ours, theirs = install(start, TWO), install(start, THREE)
    found = newer(ours, theirs)
    assert found is not None
    assert found.keys.keys() == {ONE.id, TWO.id, THREE.id}
    assert (found.primary, found.revision) == (ONE, 2)


@given(rings, rings)
def test_both_sides_come_to_the_same(ours: Keyring, theirs: Keyring) -> None:
    here, there = newer(ours, theirs) or ours, newer(theirs, ours) or theirs
    assert here.revision == there.revision
    assert fingerprint(here) == fingerprint(there)
    assert here.keys == there.keys


@given(rings, rings)
def test_a_union_is_bounded_and_keeps_both_primaries(ours: Keyring, theirs: Keyring) -> None:
    ours, theirs = ours._replace(revision=5), theirs._replace(revision=5)
    found = newer(ours, theirs)
    if found is None:
        assert fingerprint(ours) == fingerprint(theirs)
        return
    both = {**ours.keys, **theirs.keys}
    assert found.revision == 6
    assert found.primary in (ours.primary, theirs.primary)
    assert {ours.primary.id, theirs.primary.id} <= found.keys.keys() <= both.keys()
    assert len(found.keys) == min(len(both), KEYS_MAX)
    assert parse(text_of(found)) == found


@given(st.lists(rings, min_size=2, max_size=6), st.integers(0, 2**32))
def test_in_any_order_of_meetings_all_end_with_one_ring(held: list[Keyring], seed: int) -> None:
    chance = Random(seed)
    for _ in range(20 * len(held)):
        a, b = chance.sample(range(len(held)), 2)
        held[a], held[b] = newer(held[a], held[b]) or held[a], newer(held[b], held[a]) or held[b]
    for number in range(2 * (len(held) - 1)):  # and once along a chain, in both directions
        a = min(number, 2 * (len(held) - 1) - number - 1)
        held[a], held[a + 1] = newer(held[a], held[a + 1]) or held[a], newer(held[a + 1], held[a]) or held[a + 1]
    assert len({(fingerprint(each), each.revision) for each in held}) == 1


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
            ring(THREE, revision=3),
            id="file changed by hand",
        ),
        pytest.param(
            ring(THREE, revision=9),
            ring(TWO, revision=2),
            fingerprint(ring(ONE)),
            ring(THREE, revision=9),
            id="with a revision",
        ),
        pytest.param(ring(ONE, TWO), ring(TWO, revision=2), "", ring(ONE, TWO, revision=3), id="unknown"),
    ],
)
def test_the_ring_at_start(given_: Keyring, kept: Keyring | None, since: str, expected: Keyring) -> None:
    assert at_start(given_, kept, since) == expected


def test_a_file_changed_by_hand_wins_everywhere() -> None:
    kept = ring(TWO, ONE, revision=7)
    found = at_start(ring(THREE), kept, fingerprint(ring(ONE)))
    assert newer(kept, found) is found


@pytest.mark.parametrize("count", [2, 3, 8])
def test_one_of_many_is_removed(count: int) -> None:
    keys = [key_of(bytes([number]) * 32) for number in range(count)]
    ring = keyring_of(keys[0], keys[1:], 5)
    left = remove(ring, keys[-1].name)
    assert (left.primary, list(left.keys.values()), left.revision) == (keys[0], keys[:-1], 6)


def test_no_ring_uses_up_all_revisions_at_once() -> None:
    ours = keyring_of(key_of(bytes(32)), (), 1)
    with pytest.raises(KeyringError, match="cannot follow"):
        newer(ours, ours._replace(revision=ours.revision + STEP_MAX + 1))


def test_a_copy_of_an_older_ring_does_not_win_over_what_came_since() -> None:
    """A ring that is deployed to new nodes, and then forgotten there, must not roll the cluster back."""
    first, second, third = (key_of(bytes([number]) * 32) for number in range(3))
    copied = keyring_of(second, (first,), 2)
    kept = keyring_of(third, (second,), 4)
    assert at_start(copied, kept, "the one before") == kept
    assert at_start(copied._replace(revision=0), kept, "the one before").revision == 5, "written by hand"
    assert at_start(copied._replace(revision=9), kept, "the one before").revision == 9
