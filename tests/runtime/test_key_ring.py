"""The caretaker's key cabinet: whose bunch counts, who is told of it, and what is left of it tomorrow."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from conditions import until

from subord.runtime.security.key_ring import FILE_NAME, RunningKeyRing
from subord.sealing import keyfile
from subord.sealing.keyfile import Kept
from subord.sealing.keys import Key, Keyring, KeyringError, key_of, keyring_of, text_of
from subord.sealing.rotation import fingerprint, install

ONE, TWO, THREE = (key_of(bytes([number]) * 32) for number in (1, 2, 3))


def ring(*keys: Key, revision: int = 0) -> Keyring:
    return keyring_of(keys[0], keys[1:], revision)


class Cabinet:
    """The operator's file, the state directory, and the daemons that live on them."""

    def __init__(self, top: Path, given: Keyring) -> None:
        self.file = top / "cluster.key"
        self.state = top / "state"
        self.state.mkdir()
        self.kept = self.state / FILE_NAME
        self.give(given)

    def give(self, given: Keyring) -> None:
        """The operator writes the file."""
        self.file.touch(mode=0o600)
        self.file.write_text(text_of(given))

    def keeping(self) -> RunningKeyRing:
        return RunningKeyRing(str(self.file), str(self.state))


@pytest.fixture
def cabinet(tmp_path: Path) -> Cabinet:
    return Cabinet(tmp_path, ring(ONE))


async def saved(keeping: RunningKeyRing) -> None:
    """What `save_forever` does until all is written down."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.save_forever)
        await until(lambda: keeping.is_saved, "the ring is written down")
        nursery.cancel_scope.cancel()


# -- what is offered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (ring(TWO, ONE, revision=6), ring(TWO, ONE, revision=6)),
        (ring(ONE, revision=6), ring(ONE, revision=6)),
        (ring(TWO, ONE, revision=4), None),
        (ring(THREE), None),
        (ring(ONE, TWO, revision=5), None),
        (ring(ONE, THREE, revision=5), ring(ONE, TWO, THREE, revision=6)),
    ],
    ids=["newer", "newer and smaller", "older", "foreign and older", "the same", "another half"],
)
def test_an_offer_is_taken_when_it_is_newer(cabinet: Cabinet, offered: Keyring, expected: Keyring | None) -> None:
    cabinet.give(ring(ONE, TWO, revision=5))
    keeping = cabinet.keeping()
    told: list[Keyring] = []
    keeping.taken.append(told.append)
    keeping.offer(text_of(offered))
    assert told == ([] if expected is None else [expected])
    assert keeping.ring == (expected or ring(ONE, TWO, revision=5))


@pytest.mark.parametrize("text", ["", "hello", "primary x", "key \x00", "primary " + "A" * 4000])
def test_a_malformed_offer_changes_nothing(cabinet: Cabinet, text: str) -> None:
    keeping = cabinet.keeping()
    with pytest.raises(KeyringError):
        keeping.offer(text)
    assert keeping.ring == ring(ONE)
    assert keeping.is_saved


def test_everybody_in_the_house_is_told_in_order(cabinet: Cabinet) -> None:
    keeping = cabinet.keeping()
    told: list[tuple[str, Keyring]] = []
    keeping.taken += [lambda found: told.append(("first", found)), lambda found: told.append(("second", found))]
    fresh = install(keeping.ring, TWO)
    keeping.take(fresh)
    assert told == [("first", fresh), ("second", fresh)]


# -- what outlives us -----------------------------------------------------------------------------------------------


async def test_a_ring_that_came_outlives_us(cabinet: Cabinet) -> None:
    keeping = cabinet.keeping()
    keeping.take(ring(TWO, ONE, revision=1))
    assert not keeping.is_saved
    await saved(keeping)
    later = cabinet.keeping()
    assert later.ring == ring(TWO, ONE, revision=1)
    assert later.is_saved


async def test_of_several_rings_the_last_is_written_down(cabinet: Cabinet) -> None:
    keeping = cabinet.keeping()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.save_forever)
        for revision in range(1, 6):
            keeping.take(ring(TWO, ONE, revision=revision))
            await trio.lowlevel.checkpoint()
        await until(lambda: keeping.is_saved, "the last is written down")
        nursery.cancel_scope.cancel()
    assert cabinet.keeping().ring.revision == 5


async def test_the_operators_ring_is_never_written(cabinet: Cabinet) -> None:
    before = cabinet.file.read_bytes()
    keeping = cabinet.keeping()
    assert keeping.is_saved
    await keeping.save()
    assert not cabinet.kept.exists()
    keeping.take(ring(TWO, revision=1))
    await keeping.save()
    assert cabinet.file.read_bytes() == before


async def test_without_a_directory_nothing_is_saved_and_that_is_said(cabinet: Cabinet) -> None:
    keeping = RunningKeyRing(str(cabinet.file), "")
    assert keeping.is_saved, "a restart would begin with the same"
    keeping.take(ring(TWO, revision=1))
    await keeping.save()
    assert not keeping.is_saved
    assert list(cabinet.state.iterdir()) == []
    assert RunningKeyRing(str(cabinet.file), "").ring == ring(ONE)


async def test_a_disk_that_does_not_take_it_is_said(cabinet: Cabinet, warnings: list[str]) -> None:
    keeping = cabinet.keeping()
    cabinet.state.rmdir()
    keeping.take(ring(TWO, revision=1))
    await keeping.save()
    assert not keeping.is_saved
    assert warnings[-1] == f"{cabinet.kept}: No such file or directory; new keys are lost when this daemon ends"


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"", 0o600, "0 keys are marked primary"),
        (b"\xff", 0o600, "not plain text"),
        (b"# since 1\nprimary x\n", 0o600, "line 2: a key is 32 bytes"),
        (text_of(ring(TWO, revision=7)).encode(), 0o644, "mode 0644 opens it to others"),
    ],
)
async def test_a_broken_state_file_is_left_and_replaced(
    cabinet: Cabinet, warnings: list[str], content: bytes, mode: int, words: str
) -> None:
    cabinet.kept.write_bytes(content)
    cabinet.kept.chmod(mode)
    keeping = cabinet.keeping()
    assert keeping.ring == ring(ONE)
    (line,) = warnings
    assert line.startswith(f"the keys that came by rotation cannot be used, going on with {cabinet.file}: ")
    assert words in line
    keeping.take(ring(ONE, TWO, revision=8))
    await saved(keeping)
    assert cabinet.keeping().ring == ring(ONE, TWO, revision=8)


def test_without_the_operators_file_there_is_no_start(cabinet: Cabinet) -> None:
    cabinet.file.unlink()
    with pytest.raises(KeyringError, match="there is no such file"):
        cabinet.keeping()


# -- the operator's hand --------------------------------------------------------------------------------------------


def read_again(keeping: RunningKeyRing) -> None:
    """What SIGHUP does."""
    keeping.obey(keeping.read_again())


async def test_a_file_that_was_not_touched_is_no_news(cabinet: Cabinet) -> None:
    keeping = cabinet.keeping()
    keeping.take(ring(TWO, ONE, revision=4))
    for each in (keeping, cabinet.keeping()):
        before = each.ring
        read_again(each)
        assert each.ring == before, "it is older than what came by rotation"


async def test_a_file_changed_by_hand_is_read_again_and_outlives_us(cabinet: Cabinet) -> None:
    keeping = cabinet.keeping()
    keeping.take(ring(TWO, ONE, revision=4))
    cabinet.give(ring(THREE, ONE))
    found = keeping.read_again()
    assert keeping.ring == ring(TWO, ONE, revision=4), "it was only read"
    keeping.take(ring(TWO, revision=5))  # meanwhile
    keeping.obey(found)
    assert keeping.ring == ring(THREE, ONE, revision=6), "newer than what came meanwhile"
    assert keeping.since == fingerprint(found)
    await saved(keeping)
    later = cabinet.keeping()
    read_again(later)
    assert later.ring == keeping.ring


async def test_a_file_that_catches_up_with_the_rotation_changes_nothing(cabinet: Cabinet) -> None:
    """Whoever lays the newest ring out for all nodes and reloads them makes no new revision of each."""
    keeping = cabinet.keeping()
    keeping.take(ring(TWO, ONE, revision=4))
    cabinet.give(ring(TWO, ONE))
    read_again(keeping)
    assert (keeping.ring.revision, keeping.since) == (4, fingerprint(ring(TWO, ONE)))
    await saved(keeping)
    assert cabinet.keeping().ring.revision == 4


@pytest.mark.parametrize("given", [ring(THREE), ring(THREE, revision=9)])
async def test_a_file_changed_between_two_lives_wins_and_is_written_down(cabinet: Cabinet, given: Keyring) -> None:
    keyfile.write_kept(str(cabinet.kept), Kept(ring(TWO, revision=2), fingerprint(ring(ONE))))
    cabinet.give(given)
    keeping = cabinet.keeping()
    assert keeping.ring == given._replace(revision=max(3, given.revision))
    assert not keeping.is_saved
    await saved(keeping)
    assert keyfile.read_kept(str(cabinet.kept)) == Kept(keeping.ring, fingerprint(given))


def test_a_spoiled_file_is_not_read_again(cabinet: Cabinet) -> None:
    keeping = cabinet.keeping()
    cabinet.file.chmod(0o644)
    with pytest.raises(KeyringError, match="mode 0644"):
        keeping.read_again()
    assert keeping.ring == ring(ONE)
