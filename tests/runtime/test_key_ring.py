"""The running key ring: which ring is taken, its subscribers, and what a restart finds."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from conditions import until

from subord.core.carriage.documents import Document
from subord.runtime.security.key_ring import FILE_NAME, RunningKeyRing
from subord.sealing import keyfile
from subord.sealing.keyfile import Kept
from subord.sealing.keys import Key, Keyring, KeyringError, key_of, keyring_of, text_of
from subord.sealing.rotation import fingerprint, install, ring_order

ONE, TWO, THREE = (key_of(bytes([number]) * 32) for number in (1, 2, 3))


def ring(*keys: Key, revision: int = 0) -> Keyring:
    return keyring_of(keys[0], keys[1:], revision)


class Site:
    """The operator's file and the state directory of one node."""

    def __init__(self, top: Path, given: Keyring) -> None:
        self.file = top / "cluster.key"
        self.state = top / "state"
        self.state.mkdir()
        self.kept = self.state / FILE_NAME
        self.write(given)

    def write(self, given: Keyring) -> None:
        """The operator writes the file."""
        self.file.touch(mode=0o600)
        self.file.write_text(text_of(given))

    def key_ring(self) -> RunningKeyRing:
        return RunningKeyRing(str(self.file), str(self.state))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, ring(ONE))


async def saved(key_ring: RunningKeyRing) -> None:
    """Run `save_forever` until the ring is saved."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(key_ring.save_forever)
        await until(lambda: key_ring.is_saved, "the ring is saved")
        nursery.cancel_scope.cancel()


# -- signed rings ---------------------------------------------------------------------------------------------------


def document(found: Keyring) -> Document:
    return Document(*ring_order(found, 1), b"signed")


@pytest.mark.parametrize(
    ("signed", "expected"),
    [
        (ring(TWO, ONE, revision=6), ring(TWO, ONE, revision=6)),
        (ring(ONE, revision=6), ring(ONE, revision=6)),
        (ring(TWO, ONE, revision=4), None),
        (ring(ONE, TWO, revision=5), None),
        (ring(ONE, THREE, revision=5), ring(ONE, THREE, revision=5)),
    ],
    ids=["newer", "newer and smaller", "older", "the same", "another one of the same revision"],
)
def test_a_signed_ring_is_taken_when_it_is_newer(site: Site, signed: Keyring, expected: Keyring | None) -> None:
    site.write(ring(ONE, TWO, revision=5))
    key_ring = site.key_ring()
    told: list[Keyring] = []
    key_ring.taken.append(told.append)
    forget = Document("forget/a", 9, 1, 2, text_of(ring(THREE, revision=9)).encode(), b"signed")
    key_ring.follow([forget, document(signed)])
    assert told == ([] if expected is None else [expected])
    assert key_ring.ring == (expected or ring(ONE, TWO, revision=5))


def test_a_signed_ring_that_cannot_be_read_changes_nothing(site: Site) -> None:
    key_ring = site.key_ring()
    key_ring.follow([document(ring(TWO, revision=1))._replace(body=b"primary x")])
    assert key_ring.ring == ring(ONE)


async def test_a_document_on_the_disk_undoes_no_file_but_brings_what_is_newer(site: Site) -> None:
    """The daemon ended between the two writes; or the operator has changed the file since."""
    keyfile.write_kept(str(site.kept), Kept(ring(TWO, ONE, revision=4), fingerprint(ring(ONE))))
    site.write(ring(THREE, ONE))
    key_ring = site.key_ring()
    key_ring.catch_up([document(ring(TWO, ONE, revision=4))])
    assert key_ring.ring == ring(THREE, ONE, revision=4)
    key_ring.catch_up([document(ring(TWO, revision=5))])
    assert key_ring.ring == ring(TWO, revision=5)


@pytest.mark.parametrize(
    ("theirs", "is_another"),
    [(ring(ONE, TWO, revision=5), False), (ring(ONE, revision=5), True), (ring(ONE, TWO, revision=6), True)],
)
def test_the_ring_of_an_older_release_is_compared_and_not_taken(
    site: Site, theirs: Keyring, is_another: bool
) -> None:
    site.write(ring(ONE, TWO, revision=5))
    key_ring = site.key_ring()
    assert key_ring.is_another(text_of(theirs)) == is_another
    assert key_ring.ring == ring(ONE, TWO, revision=5)


@pytest.mark.parametrize("text", ["", "hello", "primary x", "key \x00", "primary " + "A" * 4000])
def test_a_malformed_text_is_an_error(site: Site, text: str) -> None:
    with pytest.raises(KeyringError):
        site.key_ring().is_another(text)


def test_subscribers_are_notified_in_order(site: Site) -> None:
    key_ring = site.key_ring()
    told: list[tuple[str, Keyring]] = []
    key_ring.taken += [lambda found: told.append(("first", found)), lambda found: told.append(("second", found))]
    fresh = install(key_ring.ring, TWO)
    key_ring.take(fresh)
    assert told == [("first", fresh), ("second", fresh)]


# -- restarts -------------------------------------------------------------------------------------------------------


async def test_a_received_ring_survives_a_restart(site: Site) -> None:
    key_ring = site.key_ring()
    key_ring.take(ring(TWO, ONE, revision=1))
    assert not key_ring.is_saved
    await saved(key_ring)
    later = site.key_ring()
    assert later.ring == ring(TWO, ONE, revision=1)
    assert later.is_saved


async def test_the_last_of_several_rings_is_saved(site: Site) -> None:
    key_ring = site.key_ring()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(key_ring.save_forever)
        for revision in range(1, 6):
            key_ring.take(ring(TWO, ONE, revision=revision))
            await trio.lowlevel.checkpoint()
        await until(lambda: key_ring.is_saved, "the last is saved")
        nursery.cancel_scope.cancel()
    assert site.key_ring().ring.revision == 5


async def test_the_operators_ring_is_never_written(site: Site) -> None:
    before = site.file.read_bytes()
    key_ring = site.key_ring()
    assert key_ring.is_saved
    await key_ring.save()
    assert not site.kept.exists()
    key_ring.take(ring(TWO, revision=1))
    await key_ring.save()
    assert site.file.read_bytes() == before


async def test_without_a_directory_nothing_is_saved(site: Site) -> None:
    key_ring = RunningKeyRing(str(site.file), "")
    assert key_ring.is_saved, "a restart would begin with the same"
    key_ring.take(ring(TWO, revision=1))
    await key_ring.save()
    assert not key_ring.is_saved
    assert list(site.state.iterdir()) == []
    assert RunningKeyRing(str(site.file), "").ring == ring(ONE)


async def test_a_failed_write_is_logged(site: Site, warnings: list[str]) -> None:
    key_ring = site.key_ring()
    site.state.rmdir()
    key_ring.take(ring(TWO, revision=1))
    await key_ring.save()
    assert not key_ring.is_saved
    assert warnings[-1] == f"{site.kept}: No such file or directory; new keys are lost when this daemon ends"


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"", 0o600, "0 keys are marked primary"),
        (b"\xff", 0o600, "not plain text"),
        (b"# since 1\nprimary x\n", 0o600, "line 2: a key is 32 bytes"),
        (text_of(ring(TWO, revision=7)).encode(), 0o644, "mode 0644 opens it to others"),
    ],
)
async def test_a_broken_state_file_is_ignored_and_replaced(
    site: Site, warnings: list[str], content: bytes, mode: int, words: str
) -> None:
    site.kept.write_bytes(content)
    site.kept.chmod(mode)
    key_ring = site.key_ring()
    assert key_ring.ring == ring(ONE)
    (line,) = warnings
    assert line.startswith(f"the saved key ring cannot be used, continuing with {site.file}: ")
    assert words in line
    key_ring.take(ring(ONE, TWO, revision=8))
    await saved(key_ring)
    assert site.key_ring().ring == ring(ONE, TWO, revision=8)


def test_without_the_operators_file_there_is_no_start(site: Site) -> None:
    site.file.unlink()
    with pytest.raises(KeyringError, match="there is no such file"):
        site.key_ring()


# -- the operator's hand --------------------------------------------------------------------------------------------


def read_again(key_ring: RunningKeyRing) -> None:
    """As on SIGHUP."""
    key_ring.apply(key_ring.read_again())


async def test_an_unchanged_file_changes_nothing(site: Site) -> None:
    key_ring = site.key_ring()
    key_ring.take(ring(TWO, ONE, revision=4))
    for each in (key_ring, site.key_ring()):
        before = each.ring
        read_again(each)
        assert each.ring == before, "it is older than what came by rotation"


async def test_a_changed_file_is_applied_and_survives_a_restart(site: Site) -> None:
    key_ring = site.key_ring()
    key_ring.take(ring(TWO, ONE, revision=4))
    site.write(ring(THREE, ONE))
    found = key_ring.read_again()
    assert key_ring.ring == ring(TWO, ONE, revision=4), "it was only read"
    key_ring.take(ring(TWO, revision=5))  # meanwhile
    key_ring.apply(found)
    assert key_ring.ring == ring(THREE, ONE, revision=5), "of the revision that came meanwhile"
    assert key_ring.since == fingerprint(found)
    await saved(key_ring)
    later = site.key_ring()
    read_again(later)
    assert later.ring == key_ring.ring


async def test_a_changed_file_before_any_rotation_needs_no_copy(site: Site) -> None:
    key_ring = site.key_ring()
    site.write(ring(TWO, ONE))
    read_again(key_ring)
    assert (key_ring.ring, key_ring.is_saved) == (ring(TWO, ONE), True)
    assert site.key_ring().ring == ring(TWO, ONE)


async def test_a_file_that_catches_up_with_the_rotation_changes_nothing(site: Site) -> None:
    """Distributing the newest ring to all nodes and reloading them creates no new revision."""
    key_ring = site.key_ring()
    key_ring.take(ring(TWO, ONE, revision=4))
    site.write(ring(TWO, ONE))
    read_again(key_ring)
    assert (key_ring.ring.revision, key_ring.since) == (4, fingerprint(ring(TWO, ONE)))
    await saved(key_ring)
    assert site.key_ring().ring.revision == 4


@pytest.mark.parametrize("given", [ring(THREE), ring(THREE, revision=9)])
async def test_a_file_changed_between_two_starts_wins_and_is_saved(site: Site, given: Keyring) -> None:
    keyfile.write_kept(str(site.kept), Kept(ring(TWO, revision=2), fingerprint(ring(ONE))))
    site.write(given)
    key_ring = site.key_ring()
    assert key_ring.ring == given._replace(revision=max(2, given.revision))
    assert not key_ring.is_saved
    await saved(key_ring)
    assert keyfile.read_kept(str(site.kept)) == Kept(key_ring.ring, fingerprint(given))


def test_a_malformed_file_is_rejected(site: Site) -> None:
    key_ring = site.key_ring()
    site.file.chmod(0o644)
    with pytest.raises(KeyringError, match="mode 0644"):
        key_ring.read_again()
    assert key_ring.ring == ring(ONE)
