"""An order of `files` as the agent carries it out: content from the daemon, which is not trusted, and outcomes."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from loops import over

from subord.core.carriage.blobs.blobs import NO_ROOM
from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.core.carriage.blobs.manifests import Manifest as Chunks
from subord.core.carriage.blobs.manifests import name_of
from subord.runtime.blobs.store import BlobError
from subord.services.acting import Context, recover_all
from subord.services.control import UnansweredError
from subord.services.files import content, delivery, outcome
from subord.services.files.agent import act
from subord.services.files.manifest import FILE, Entry, Manifest, digest_of, opening
from subord.services.files.outcome import Pushed
from subord.services.files.sets import results
from subord.services.files.task import Push, encode
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon

TAG = bytes(range(16))
ME = pwd.getpwuid(os.geteuid()).pw_name
CONTENT = os.urandom(CHUNK_BYTES_MAX + 99)
Change = Callable[[bytes], bytes]


class Blobs:
    """What the daemon has. It lies if `change` is given."""

    position = 1

    def __init__(self, target: Path, change: Change = lambda chunk: chunk) -> None:
        entry = Entry(b"a", FILE, 0o640, "", "", len(CONTENT), digest_of([CONTENT]), ((0, len(CONTENT)),))
        data = opening(Manifest(os.fsencode(target), (entry,))) + CONTENT
        parts = [data[at : at + CHUNK_BYTES_MAX] for at in range(0, len(data), CHUNK_BYTES_MAX)]
        listing = Chunks(len(data), tuple(map(name_of, parts))).encode()
        self.blob = name_of(listing)
        self.names = tuple(map(name_of, parts))
        self.chunks = {name_of(each): each for each in (*parts, listing)}
        self.change = change
        """Of what is taken."""
        self.changes_checked = True
        """Also of what is asked for once more."""
        self.reasons: list[str] = []
        self.released: list[str] = []
        self.checked: list[bytes] = []
        self.part_chunks = 4
        self.waits = 0

    async def fetch(self, blob: bytes, source: int, holder: str, keep_s: float) -> None:
        assert (blob, source, holder) == (self.blob, 7, TAG.hex())
        assert keep_s == content.KEEP_S
        if self.reasons:
            raise BlobError(self.reasons.pop())
        if self.waits:
            self.waits -= 1
            await trio.sleep_forever()

    async def part(self, blob: bytes, first: int) -> list[bytes]:
        names = [blob, *self.names]
        end = 1 + first + self.part_chunks
        return [self.change(self.chunks.get(name, b"")) for name in names[first + bool(first) : end]]

    async def chunk(self, name: bytes) -> bytes:
        self.checked.append(name)
        if name not in self.chunks:
            raise BlobError("the chunk is not on this node")
        return self.change(self.chunks[name]) if self.changes_checked else self.chunks[name]

    def release(self, blob: bytes, holder: str) -> None:
        assert blob == self.blob
        self.released.append(holder)


def context(directory: Path, socket: str, user: str = ME) -> Context:
    return Context(user, "ann", TAG, 60.0, "10.0.0.7", str(directory), socket)


def pushed(
    top: Path, blobs: Blobs, user: str = ME, payload: bytes | None = None, run: Any = act, **options: Any
) -> Pushed:
    node = World().node(1)
    node.held_blobs = blobs  # type: ignore[attr-defined]
    (top / "agent").mkdir(exist_ok=True)
    with fake_daemon(node) as socket:
        data = trio.run(run, payload or encode(Push(blobs.blob, 7, **options)), context(top / "agent", socket, user))
    found = outcome.decode(data)
    assert found is not None
    return found


def test_the_content_comes_from_the_daemon(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    assert pushed(tmp_path, blobs, is_trial=True) == Pushed("would change", 1, detail="new a")
    assert pushed(tmp_path, blobs) == Pushed("changed", 1)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert pushed(tmp_path, blobs) == Pushed("unchanged", unchanged=1)
    assert blobs.released == [TAG.hex()] * 3


def test_the_content_comes_in_parts(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.part_chunks = 1
    assert pushed(tmp_path, blobs) == Pushed("changed", 1)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert blobs.checked == []


def test_a_damaged_chunk_is_asked_for_once_more(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path, lambda chunk: chunk[:-1])
    blobs.changes_checked = False
    assert pushed(tmp_path, blobs) == Pushed("changed", 1)
    assert blobs.checked == [blobs.blob, *blobs.names]


def test_a_daemon_that_gives_no_more_changes_nothing(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.part_chunks = 0
    assert pushed(tmp_path, blobs) == Pushed("no content", detail="the daemon has it no more")
    assert not (tmp_path / "a").exists()


def test_it_waits_for_content_that_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subord.services.blob_paths.WAIT_S_MAX", 0.05)
    blobs = Blobs(tmp_path)
    blobs.waits = 2
    assert (pushed(tmp_path, blobs)).how == "changed"


def breaking_off(times: int) -> Any:
    """A daemon that breaks off so many answers."""
    left, post = [times], content.post

    def ask(*arguments: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise UnansweredError("the daemon breaks off its answer")
        return post(*arguments)

    return ask


def test_a_daemon_that_breaks_off_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "ATTEMPT_S", 0.0)
    monkeypatch.setattr(content, "post", breaking_off(content.ATTEMPTS_MAX - 1))
    assert pushed(tmp_path, Blobs(tmp_path)).how == "changed"


def test_a_daemon_that_always_breaks_off_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "ATTEMPT_S", 0.0)
    monkeypatch.setattr(content, "post", breaking_off(content.ATTEMPTS_MAX))
    assert pushed(tmp_path, Blobs(tmp_path)) == Pushed("no content", detail="the daemon breaks off its answer")


@over(
    ("change", "said"),
    [
        (lambda chunk: chunk[:-1] + bytes([chunk[-1] ^ 1]), "other bytes than the name says"),
        (lambda _: b"", "other bytes than the name says"),
    ],
)
def test_a_daemon_that_lies_changes_nothing(
    change: Change, said: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("node")
    blobs = Blobs(top, change)
    found = pushed(top, blobs)
    assert found.how == "no content"
    assert said in found.detail
    assert not (top / "a").exists()


@pytest.mark.slow
def test_content_that_does_not_come(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.reasons = ["the cache of blobs has no room"]
    assert pushed(tmp_path, blobs) == Pushed("no content", detail="the cache of blobs has no room")
    blobs.chunks.popitem()
    assert (pushed(tmp_path, blobs)).how == "no content"
    data = trio.run(act, encode(Push(blobs.blob, 7)), context(tmp_path, str(tmp_path / "no socket")))
    assert outcome.decode(data).how == "no content"  # type: ignore[union-attr]
    assert not (tmp_path / "a").exists()


@over(
    ("reason", "word"),
    [
        (NO_ROOM, "cache full"),
        ("the cache of blobs cannot be written: No space left on device", "cache full"),
        ("the cache of blobs cannot be written: Read-only file system", "no content"),
    ],
)
def test_a_cache_that_does_not_take_it(reason: str, word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    top = tmp_path_factory.mktemp("node")
    blobs = Blobs(top)
    blobs.reasons = [reason]
    assert pushed(top, blobs) == Pushed(word, detail=reason)
    assert pushed(top, blobs).how == "changed"


def test_what_the_agent_does_not_do(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    assert (pushed(tmp_path, blobs, payload=b"\xff")).how == "other release"
    assert pushed(tmp_path, blobs, user="no-such-user") == Pushed("no such user", detail="no-such-user")
    assert pushed(tmp_path, blobs, user="daemon") == Pushed("only as root", detail="daemon")


def test_the_end_of_its_time_removes_what_is_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = Blobs(tmp_path)
    scopes = list[trio.CancelScope]()
    real = content.Content.chunks

    def chunks(self: content.Content, pause: Callable[[], None]) -> Any:
        for number, each in enumerate(real(self, pause)):
            if number:
                trio.from_thread.run_sync(scopes[0].cancel)
            yield each

    async def limited(payload: bytes, given: Context) -> bytes:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            return await act(payload, given)
        return results.encode(Pushed("cancelled"))

    monkeypatch.setattr(content.Content, "chunks", chunks)
    assert pushed(tmp_path, blobs, run=limited).how == "cancelled"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["agent"]
    assert list((tmp_path / "agent" / "files").iterdir()) == []
    assert blobs.released == [TAG.hex()]


def test_an_agent_that_starts_undoes_what_was_left(tmp_path: Path) -> None:
    recover_all(str(tmp_path))
    (tmp_path / "files").mkdir()
    recover_all(str(tmp_path))
    (tmp_path / "files" / f"{TAG.hex()}.part").touch()
    recover_all(str(tmp_path))
    assert list((tmp_path / "files").iterdir()) == []


def test_what_cannot_be_recovered_is_logged_and_takes_nothing_else_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "files" / "sets").mkdir(parents=True)
    (tmp_path / "files" / "sets" / "web.set").mkdir()
    (tmp_path / "files" / f"{TAG.hex()}.part").touch()
    recover_all(str(tmp_path))
    assert [each.name for each in (tmp_path / "files").iterdir()] == ["sets"]
    assert "the record of the set web cannot be read: " in caplog.text
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "files").touch()
    recover_all(str(tmp_path / "other"))
    assert "has left of the service files stays as it is" in caplog.text


def test_a_failure_of_a_recovery_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "files" / "x").mkdir(parents=True)
    monkeypatch.setattr(delivery, "recover", fail)
    recover_all(str(tmp_path))
    assert "Input/output error" in caplog.text
