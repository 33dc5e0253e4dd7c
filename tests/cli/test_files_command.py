"""`subord files push` as it is typed: what it gives to the daemon and signs, what it prints, and its exit codes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from loops import over

from subord.cli import main
from subord.client import exit_codes
from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.core.carriage.blobs.manifests import decode as decode_chunks
from subord.core.carriage.blobs.manifests import name_of
from subord.runtime.blobs.store import BlobError
from subord.services.files.outcome import Pushed
from subord.services.files.sets.results import encode
from subord.services.files.stream import Stream
from subord.services.files.task import Push, decode
from subord.services.serving import signed_handlers
from tests.api.fake_node_api import PAPER, FakeNode, World
from tests.api.served_node import fake_daemon
from tests.cli.test_json import fitting

POSITION = 1
Said = pytest.CaptureFixture[str]


class Blobs:
    """What the command gives."""

    position = POSITION

    def __init__(self) -> None:
        self.chunks: dict[bytes, bytes] = {}
        self.holders: list[tuple[str, float]] = []
        self.complaint = ""

    async def add(self, chunk: bytes) -> bytes:
        if self.complaint:
            raise BlobError(self.complaint)
        self.chunks[name_of(chunk)] = chunk
        return name_of(chunk)

    async def join(self, manifest: bytes, holder: str, keep_s: float) -> bytes:
        self.chunks[name_of(manifest)] = manifest
        self.holders.append((holder, keep_s))
        return name_of(manifest)

    def stream(self, blob: bytes) -> Stream:
        return Stream(self.chunks[name] for name in decode_chunks(self.chunks[blob]).chunks)


class Stage:
    """A fake node, and what nodes answer."""

    def __init__(self) -> None:
        self.world = World()
        self.answer(how="changed", made=1)
        self.node: FakeNode = self.world.node(POSITION)
        self.blobs = self.node.held_blobs = Blobs()  # type: ignore[attr-defined]

    def answer(self, *positions: int, **pushed: Any) -> None:
        self.world.lying |= dict.fromkeys(positions or sorted(PAPER), encode(Pushed(**pushed)))

    def type(self, *words: str) -> int:
        """The exit code."""
        with fake_daemon(self.node, orders=signed_handlers(self.node)) as path:
            try:
                return main(["files", "push", "--socket", path, *words])
            except SystemExit as error:
                return int(str(error.code))

    @property
    def tasks(self) -> list[Push | None]:
        return [decode(payload) for payload in self.node.orders.payloads]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("content of a")
    return Stage()


def test_what_is_signed_is_the_hash_of_everything(stage: Stage, tmp_path: Path, capsys: Said) -> None:
    content = os.urandom(2 * CHUNK_BYTES_MAX)
    (tmp_path / "b").write_bytes(content)
    words = ("-w", "10.0.0.[2-3]", "--to", "/srv/x/", "--check", "c", "--after", "d", "-t", "30", "a", "b")
    assert stage.type(*words) == exit_codes.OK
    (task,) = stage.tasks
    assert task is not None
    assert (task.source, task.is_trial) == (POSITION, False)
    stream = stage.blobs.stream(task.blob)
    manifest = stream.manifest()
    assert (manifest.to, manifest.check, manifest.after) == (b"/srv/x", "c", "d")
    assert [(each.path, each.size, each.owner) for each in manifest.entries] == [
        (b"a", 12, ""),
        (b"b", 2 * CHUNK_BYTES_MAX, ""),
    ]
    assert b"".join(stream.pieces(12 + len(content))) == b"content of a" + content
    ((tag, keep_s),) = stage.blobs.holders
    assert (tag, keep_s) == (stage.node.orders.signed[0]["tag"].hex(), 35.0)
    out, err = capsys.readouterr()
    assert out == "10.0.0.[2-3]: changed, 1 made\n"
    assert err.startswith("2 of 2 ended in ")


def test_the_target_is_where_the_files_are(stage: Stage, tmp_path: Path) -> None:
    assert stage.type("-a", "-q", "a") == exit_codes.OK
    (task,) = stage.tasks
    assert task is not None
    assert stage.blobs.stream(task.blob).manifest().to == os.fsencode(tmp_path)


@over(
    ("words", "code", "said"),
    [
        ("a", exit_codes.USAGE, "say on which nodes"),
        ("-w 10.0.0.1 -x 10.0.0.1 a", exit_codes.NO_SUCH_NODE, "no node is left"),
        ("-a none", exit_codes.USAGE, "none: No such file or directory; nothing was pushed"),
        ("-a a /etc/hostname", exit_codes.USAGE, "several directories: give --to"),
        ("-a --to srv a", exit_codes.USAGE, "is not absolute"),
        ("-a a a", exit_codes.USAGE, "a: it is listed twice; nothing was pushed"),
        ("-a /", exit_codes.USAGE, "has no name"),
        ("-a", exit_codes.USAGE, "required: PATH"),
        ("-a -t 0 a", exit_codes.USAGE, "must be seconds"),
    ],
)
def test_what_is_refused_changes_nothing(
    words: str, code: int, said: str, capsys: Said, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("here")
    (folder / "a").touch()
    stage = Stage()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert stage.type(*words.split()) == code
    assert said in capsys.readouterr().err
    assert stage.tasks == []


def test_a_cache_without_room_is_told(stage: Stage, capsys: Said) -> None:
    stage.blobs.complaint = "the cache of blobs has no room"
    assert stage.type("-a", "a") == exit_codes.NOT_REACHED
    assert "the cache of blobs has no room: nothing was kept" in capsys.readouterr().err
    assert stage.tasks == []


def test_failures_and_missing_nodes_are_named(stage: Stage, capsys: Said) -> None:
    stage.answer(3, 4, how="disk full", detail="No space left on device")
    stage.answer(5, how="unchanged", unchanged=1)
    stage.world.hung = {8}
    stage.world.lying |= {9: b"\xff"}
    assert stage.type("-a", "--to", "/srv", "a") == exit_codes.NOT_REACHED
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "10.0.0.[1-2,6-7,10-11]: changed, 1 made",
        "10.0.0.5: unchanged, 1 as it was",
    ]
    first, second, last = err.splitlines()
    assert first == "subord: 10.0.0.[3-4]: no room on the disk (No space left on device)"
    assert second.startswith("subord: the results of 1 node are not shown")
    assert last.startswith("10 of 11 ended in ")
    assert last.endswith("missing: 10.0.0.8 silent")


def test_json(stage: Stage, capsys: Said) -> None:
    stage.answer(3, how="check failed", detail="exit code 1")
    stage.world.hung = {2}
    assert stage.type("-w", "10.0.0.[1-3]", "--to", "/srv", "--json", "a") == exit_codes.NOT_REACHED
    found = fitting("files push", capsys.readouterr().out)
    assert (found["asked"], found["told"], found["ended"]) == (3, 2, {"changed": 1, "check failed": 1})
    assert [(each["nodes"], each["ended"], each["detail"]) for each in found["nodes"]] == [
        (["10.0.0.1"], "changed", ""),
        (["10.0.0.3"], "check failed", "exit code 1"),
    ]


def test_a_dry_run_is_signed_as_one(stage: Stage, capsys: Said) -> None:
    stage.answer(how="would change", replaced=1, detail="other a\x1b")
    assert stage.type("-a", "--to", "/srv", "--dry-run", "a") == exit_codes.OK
    assert [each.is_trial for each in stage.tasks if each is not None] == [True]
    assert capsys.readouterr().out == "10.0.0.[1-11]: would change, 1 replaced (other a?)\n"
