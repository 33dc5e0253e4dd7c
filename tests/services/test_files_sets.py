"""A set of files on one node, with real files: what is in place after each document, failure and kill."""

from __future__ import annotations

import errno
import itertools
import os
import pwd
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from conditions import until
from file_state import state_of
from loops import over

from subord.core.carriage.documents import Document
from subord.core.carriage.published import SETS_MAX, WITHDRAWN, Content, Published, mark_of, order_of
from subord.services.acting import Context, Handed
from subord.services.exec.account import account_of
from subord.services.files import agent, commands
from subord.services.files.delivery import LEFT_S_MAX
from subord.services.files.listing import contents
from subord.services.files.manifest import DIRECTORY, STAGED, Entry, Manifest, opening
from subord.services.files.outcome import FilesError
from subord.services.files.sets import agent as sets_agent
from subord.services.files.sets import answering, exchange, keeping
from subord.services.files.sets.publishing import _files
from subord.services.files.sets.record import Sets
from subord.services.files.sets.words import Differing, Followed, Seen, decode_followed
from subord.services.files.staging import Owner
from subord.services.files.task import Wanted
from tests.services.test_files_delivery import CHUNK, filled, picture, unmounted

ME = pwd.getpwuid(os.geteuid()).pw_name
OWN = Owner(os.geteuid(), os.getegid())
POSITION = 7
NAME = "motd"


class Contents:
    """The daemon's blobs."""

    def __init__(self) -> None:
        self.bundles: dict[bytes, bytes] = {}
        self.asked: list[int] = []
        self.sources: set[int] = {1}
        self.reason: FilesError | None = None

    def content(self, socket: str, blob: bytes, source: int, holder: str) -> Any:
        assert (socket, holder) == ("socket", f"set.{NAME}") or holder == "set.other"
        one = self

        class Content:
            def fetch(self, pause: Callable[[], None], _: float) -> bool:
                pause()
                one.asked.append(source)
                if one.reason is not None:
                    raise one.reason
                return source in one.sources

            def chunks(self, _: Callable[[], None]) -> Iterator[bytes]:
                data = one.bundles[blob]
                return (data[at : at + CHUNK] for at in range(0, len(data), CHUNK))

            def release(self) -> None:
                pass

        return Content()


class Node:
    """Files to publish, where they go, and the directory of the agent."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.source, self.folder, self.agent = (top / each for each in ("source", "srv", "agent"))
        for each in (self.source, self.folder, self.agent):
            each.mkdir()
        self.target = self.folder / "here"
        self.blobs = Contents()
        self.sets = Sets(str(self.agent))
        self.version = 0
        self.options: dict[str, Any] = {}
        patch.setattr(sets_agent, "Content", self.blobs.content)

    def document(
        self, *, name: str = NAME, to: Path | None = None, version: int = 0, at_ms: int = 0, **options: Any
    ) -> Document:
        """The next version, with the files of `source` as they are now."""
        self.version = version or self.version + 1
        path = os.fsencode(to or self.target)
        check, after = options.pop("check", ""), options.pop("after", "")
        found = _files(os.fsencode(self.source), path, keeps_owners=False)
        manifest = Manifest(os.path.dirname(path), tuple(each.entry for each in found), check, after)
        bundle = opening(manifest) + b"".join(contents(found))
        blob = mark_of(order_of("x", 1, 1, Published(path, None, Content(bundle[-32:].rjust(32), 1, 0, 0)))) * 4
        self.blobs.bundles[blob] = bundle
        content = options.pop("content", Content(blob, 1, len(found), 0))
        said = Published(path, options.pop("nodes", None), content, **options)
        return Document(*order_of(name, self.version, at_ms or self.version, said))

    def follow(self, document: Document, cause: str = "", sources: tuple[int, ...] = (), **options: Any) -> Followed:
        """What the agent tells the daemon."""
        handed = Handed(document, cause, "ann", "SHA256:x", lambda *_: False, POSITION, sources)
        context = Context(ME, "ann", b"", float("inf"), "10.0.0.7", str(self.agent), "socket")
        found = decode_followed(trio.run(agent.follow, handed._replace(**options), context))
        assert found is not None
        return found

    def publish(self, cause: str = "", **options: Any) -> Followed:
        return self.follow(self.document(**options), cause)

    def restart(self) -> None:
        """The agent ends, and starts again."""
        keeping.recover(self.sets)

    def wanted(self, document: Document) -> Wanted:
        return Wanted(document.tag, document.version, document.at_ms, mark_of(document.order))

    def look(self, document: Document) -> Seen:
        return answering.look(self.sets, self.wanted(document), OWN, lambda: None)

    def diff(self, document: Document) -> list[tuple[bytes, str]]:
        found = answering.compare(self.sets, self.wanted(document), OWN, lambda: None)
        return [(each.path, each.how) for each in found.paths]

    @property
    def hidden(self) -> list[Path]:
        return sorted(self.folder.glob(os.fsdecode(STAGED) + "*"))

    @property
    def previous(self) -> dict[str, Any]:
        (path,) = self.hidden
        return picture(path)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_the_directory_is_as_published_and_the_version_before_is_kept(node: Node) -> None:
    filled(node.source)
    first = node.document()
    assert node.look(first) == Seen(NAME, "missing")
    blob, _ = node.blobs.bundles.keys(), None
    assert node.follow(first) == Followed("current", holds=tuple(blob))
    assert picture(node.target) == picture(node.source)
    assert node.look(first) == Seen(NAME, "current", 1)
    assert node.hidden == []
    before = picture(node.source)
    (node.source / "run").unlink()
    (node.source / "d" / "new").write_text("two")
    second = node.document()
    found = node.follow(second)
    assert (found.state, len(found.holds)) == ("current", 2)
    assert picture(node.target) == picture(node.source)
    assert node.previous == before
    assert node.look(second) == Seen(NAME, "current", 2)
    assert node.look(first) == Seen(NAME, "overtaken", 2)


def test_a_document_that_comes_again_changes_nothing(node: Node) -> None:
    (node.source / "a").write_text("a")
    document = node.document(after=f"echo ran >> {node.agent}/ran")
    for _ in range(3):
        assert node.follow(document).state == "current"
        node.restart()
    assert (node.agent / "ran").read_text() == "ran\n"
    assert node.blobs.asked == [1], "the content is fetched once"


def test_drift_is_seen_named_and_healed_by_the_next_version(node: Node) -> None:
    filled(node.source)
    node.publish()
    document = node.document()
    node.follow(document)
    (node.target / "run").chmod(0o700)
    (node.target / "d" / "e" / "deep").write_text("drift")
    (node.target / "d" / "link").unlink()
    (node.target / "d" / "link").symlink_to("elsewhere")
    (node.target / "d" / "empty").unlink()
    (node.target / "extra").mkdir()
    (node.target / "extra" / "more").touch()
    assert node.look(document) == Seen(NAME, "drifted", 2, differing=5)
    assert node.diff(document) == [
        (b"d/e/deep", "other content"),
        (b"d/empty", "missing"),
        (b"d/link", "other content"),
        (b"run", "other mode"),
        (b"extra", "not of the set"),
    ]
    assert node.follow(document).state == "current", "drift is healed only if asked"
    assert node.look(document).state == "drifted"
    again = node.document()
    node.follow(again)
    assert node.look(again) == Seen(NAME, "current", 3)
    assert picture(node.target) == picture(node.source)
    assert (node.hidden[0] / "d" / "e" / "deep").read_text() == "drift"


def test_a_directory_that_is_gone_or_no_directory_is_drift(node: Node) -> None:
    (node.source / "d").mkdir()
    (node.source / "d" / "a").write_text("a")
    document = node.document()
    node.follow(document)
    os.rename(node.target / "d", node.target / "away")
    (node.target / "d").symlink_to("/etc")
    assert node.diff(document) == [(b"d", "other kind"), (b"away", "not of the set")]
    os.rename(node.target, node.folder / "other")
    assert node.diff(document) == [(b".", "missing")]
    node.target.symlink_to("/etc")
    assert node.diff(document) == [(b".", "other kind")]


def test_what_is_as_wanted_already_stays(node: Node) -> None:
    (node.source / "a").write_text("a")
    node.publish(after=f"echo $SUBORD_SET $SUBORD_VERSION >> {node.agent}/ran")
    inode = node.target.stat().st_ino
    node.publish(after=f"echo $SUBORD_SET $SUBORD_VERSION >> {node.agent}/ran")
    assert node.target.stat().st_ino == inode
    assert (node.agent / "ran").read_text() == "motd 1\nmotd 2\n", "once for each version"


# -- the place ------------------------------------------------------------------------------------------------


def test_files_of_no_set_are_replaced_only_if_asked(node: Node) -> None:
    (node.source / "a").write_text("a")
    node.target.mkdir()
    (node.target / "precious").write_text("mine")
    document = node.document()
    assert node.follow(document) == Followed("failed", "occupied")
    assert node.look(document) == Seen(NAME, "failed", 0, "occupied", str(node.target))
    assert (node.target / "precious").read_text() == "mine"
    assert node.publish(replaces=True).state == "current"
    assert (node.target / "a").read_text() == "a"
    assert (node.hidden[0] / "precious").read_text() == "mine"


@over(
    ("make", "cause"),
    [
        (lambda path: path.write_text("a file"), "not a directory"),
        (lambda path: path.symlink_to("/etc"), "symlink in the path"),
        (os.mkfifo, "special file"),
    ],
)
def test_what_is_no_directory_stays(
    make: Callable[[Path], Any], cause: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        node = Node(tmp_path_factory.mktemp("node"), patch)
        make(node.target)
        before = state_of(node.target)
        assert node.publish(replaces=True) == Followed("failed", cause)
        assert state_of(node.target) == before
        assert node.hidden == []


def test_no_symlink_leads_out_of_the_way_to_the_directory(node: Node, tmp_path: Path) -> None:
    """The user that owns a directory on the way exchanges it for a link while the files are staged."""
    (tmp_path / "outside").mkdir()
    (node.source / "a").write_text("a")
    (node.folder / "on").mkdir()
    (node.folder / "away").symlink_to(tmp_path / "outside")
    to = node.folder / "away" / "here"
    assert node.publish(to=to) == Followed("failed", "symlink in the path")
    attack = f"mv {node.folder}/on {node.folder}/off && ln -s {tmp_path}/outside {node.folder}/on"
    assert node.publish(name="other", version=1, to=node.folder / "on" / "here", check=attack).state == "current"
    assert list((tmp_path / "outside").iterdir()) == []
    assert (node.folder / "off" / "here" / "a").read_text() == "a"


def test_a_place_that_is_missing_full_or_not_writable(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.publish(to=node.folder / "no" / "here") == Followed("failed", "no directory")
    real = os.mkdir
    for code, cause in ((errno.ENOSPC, "disk full"), (errno.EROFS, "read-only"), (errno.EACCES, "not permitted")):

        def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None, code: int = code) -> None:
            if dir_fd is not None:
                raise OSError(code, os.strerror(code))
            real(path, mode)

        with monkeypatch.context() as patch:
            patch.setattr(os, "mkdir", mkdir)
            document = node.document(name="other", version=node.version + 1)
            found = node.follow(document)
        assert found == Followed("failed", cause)
        assert node.hidden == []
        assert node.look(document).cause == cause
    assert node.follow(document).state == "current", "the daemon tries again"


@over(("code", "cause"), [(errno.EINVAL, "no exchange"), (errno.EBUSY, "mount point")])
def test_a_file_system_that_cannot_exchange(code: int, cause: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patch:
        node = Node(tmp_path_factory.mktemp("node"), patch)
        (node.source / "a").write_text("one")
        node.publish()
        (node.source / "a").write_text("two")
        patch.setattr(exchange, "_renameat2", fail)
        assert node.publish().cause == cause
        assert (node.target / "a").read_text() == "one"
        assert node.hidden == []


def test_a_directory_is_of_one_set(node: Node) -> None:
    (node.source / "a").write_text("a")
    node.publish()
    for to in (node.target, node.target / "below", node.folder):
        assert node.publish(name="other", version=1, to=to) == Followed("failed", "taken")
    assert node.publish(name="other", version=2, to=node.folder / "here2").state == "current"
    assert node.publish(version=9, to=node.folder / "moved") == Followed(
        "failed", "other directory", node_holds(node)
    )


def node_holds(node: Node) -> tuple[bytes, ...]:
    record = node.sets.get(NAME)
    assert record is not None
    return record.holds


# -- content and commands -------------------------------------------------------------------------------------


def test_the_content_comes_from_another_node_if_the_publisher_is_gone(node: Node) -> None:
    (node.source / "a").write_text("a")
    node.blobs.sources = {4}
    document = node.document()
    assert node.follow(document).cause == "no content"
    assert node.look(document).cause == "no content"
    node.blobs.asked.clear()
    assert node.follow(document, sources=(3, 4)).state == "current"
    assert node.blobs.asked == [1, 3, 4]


def test_a_cache_that_is_full_says_so(node: Node) -> None:
    node.blobs.reason = FilesError("cache full", "raise its bound")
    assert node.publish().cause == "cache full"


def test_content_that_is_not_as_listed(node: Node) -> None:
    (node.source / "a").write_text("right")
    document = node.document()
    (blob,) = node.blobs.bundles
    node.blobs.bundles[blob] = node.blobs.bundles[blob][:-5] + b"wrong"
    assert node.follow(document).cause == "hash mismatch"
    assert not node.target.exists()
    other = node.document(to=node.folder / "there")
    said = Published(os.fsencode(node.target), None, Content(blob_of(other), 1, 1, 1))
    assert node.follow(Document(*order_of(NAME, 9, 9, said))).cause == "malformed"
    beside = (Entry(b"here", DIRECTORY, 0o755), Entry(b"beside", DIRECTORY, 0o755))
    node.blobs.bundles[blob] = opening(Manifest(os.fsencode(node.folder), beside))
    said = Published(os.fsencode(node.target), None, Content(blob, 1, 1, 1))
    assert node.follow(Document(*order_of(NAME, 10, 10, said))).cause == "malformed"
    assert sorted(each.name for each in node.folder.iterdir()) == []


def blob_of(document: Document) -> bytes:
    from subord.core.carriage.published import read

    said = read(document.order)
    assert said is not None
    return said.content.blob


def test_a_check_that_fails_changes_nothing(node: Node) -> None:
    (node.source / "a").write_text("one")
    node.publish()
    (node.source / "a").write_text("two")
    document = node.document(check='echo "$SUBORD_TARGET" $(cat "$SUBORD_STAGED/a"); exit 3')
    assert node.follow(document).cause == "check failed"
    assert node.look(document) == Seen(NAME, "failed", 1, "check failed", f"exit code 3: {node.target} two")
    assert (node.target / "a").read_text() == "one"
    assert node.hidden == []


def test_the_command_after_runs_once_also_if_it_fails(node: Node) -> None:
    document = node.document(after=f"echo x >> {node.agent}/ran; exit 1")
    assert node.follow(document).state == "current"
    assert node.look(document) == Seen(NAME, "failed", 1, "after failed", "exit code 1")
    node.follow(document)
    assert (node.agent / "ran").read_text() == "x\n"


# -- documents --------------------------------------------------------------------------------------------------


def test_what_is_refused_or_older_changes_nothing(node: Node) -> None:
    (node.source / "a").write_text("one")
    first = node.document()
    assert node.follow(first, "unsigned") == Followed("failed", "refused")
    assert "no signature" in node.look(first).detail
    node.follow(first)
    (node.source / "a").write_text("two")
    second = node.document()
    node.follow(second)
    assert node.follow(first).state == "overtaken"
    assert node.follow(second, "altered").cause == "refused"
    assert (node.target / "a").read_text() == "two"
    assert node.follow(first, is_revoked=lambda *_: True).state == "current", "its operator was revoked since"
    assert (node.target / "a").read_text() == "one"


def test_of_two_documents_with_one_version_the_same_counts_everywhere(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for order in itertools.permutations((0, 1)):
        with pytest.MonkeyPatch.context() as patch:
            node = Node(tmp_path_factory.mktemp("node"), patch)
            (node.source / "a").write_text("of ann")
            both = [node.document(version=1, at_ms=5)]
            (node.source / "a").write_text("of bob")
            both.append(node.document(version=1, at_ms=6))
            for each in order:
                node.follow(both[each])
            assert (node.target / "a").read_text() == "of bob"
            assert node.look(both[0]).state == "overtaken"
            assert node.look(both[1]).state == "current"


def test_a_set_that_is_withdrawn_or_for_others_is_released(node: Node) -> None:
    (node.source / "a").write_text("one")
    assert node.publish(nodes=((8, 9),)) == Followed("released")
    assert list(node.sets.all()) == [], "of sets for others nothing is kept"
    assert node.publish(nodes=((1, 7),)).state == "current"
    (node.source / "a").write_text("two")
    node.publish()
    assert node.publish(nodes=((8, 9),)) == Followed("released")
    assert (node.target / "a").read_text() == "two"
    (node.source / "a").write_text("three")
    assert node.publish(name="other", version=1).cause == "occupied", "the directory has files of no set"
    assert node.publish(name="other", version=2, replaces=True).state == "current"


def test_gc_deletes_what_no_set_names(node: Node) -> None:
    (node.source / "a").write_text("one")
    node.publish()
    (node.source / "a").write_text("three")
    node.publish()
    prune = lambda: (4, 99)  # noqa: E731
    found = answering.collect(node.sets, takes_previous=False, prune=prune)
    assert (found.directories, found.files_bytes, found.chunks, found.blob_bytes) == (0, 0, 4, 99)
    found = answering.collect(node.sets, takes_previous=True, prune=prune)
    assert (found.directories, found.files_bytes) == (1, 3)
    assert node.hidden == []
    (node.source / "a").write_text("four")
    node.publish()
    old = node.document()
    assert node.publish(content=Content(WITHDRAWN, 1, 0, 0)) == Followed("released")
    found = answering.collect(node.sets, takes_previous=False, prune=prune)
    assert (found.directories, found.files_bytes) == (1, 5)
    assert (node.target / "a").read_text() == "four"
    assert node.follow(old).state == "overtaken", "a recording of it does not count"


def test_an_error_after_the_exchange_loses_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    (node.source / "a").write_text("one")
    node.publish()
    (node.source / "a").write_text("two")
    document, real = node.document(), exchange._renameat2

    def exchanged(*words: Any) -> None:
        real(*words)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(exchange, "_renameat2", exchanged)
        assert node.follow(document).state == "failed"
    assert (node.target / "a").read_text() == "two"
    assert (node.hidden[0] / "a").read_text() == "one"
    assert node.follow(document).state == "current"
    assert (node.hidden[0] / "a").read_text() == "one"
    record = node.sets.get(NAME)
    assert record is not None
    assert record.previous is not None
    assert record.previous.version == 1


# -- file systems that hang -----------------------------------------------------------------------------------------

HUNG_S_MAX = 10.0
"""So that a test ends also if nothing releases its threads."""


class Hung:
    """Work in threads that ends when it is released."""

    def __init__(self) -> None:
        self.begun, self.released = list[object](), threading.Event()

    def work(self, *words: object, **_: object) -> Any:
        self.begun.append(words[0])
        self.released.wait(HUNG_S_MAX)
        return Differing(Seen(NAME, "current"))


@pytest.fixture
def hung() -> Iterator[Hung]:
    made = Hung()
    yield made
    made.released.set()


async def with_threads_left(nursery: trio.Nursery, hung: Hung) -> None:
    """What else needs a thread gets one, while those that hang have all that they may have."""
    with trio.fail_after(HUNG_S_MAX / 2):
        await until(lambda: len(hung.begun) >= sets_agent.COMPARISONS_MAX, "they are under way")
        await trio.testing.wait_all_tasks_blocked(0.05)
        await trio.to_thread.run_sync(os.getpid)
    hung.released.set()
    nursery.cancel_scope.cancel()


async def test_comparisons_that_hang_leave_others_their_threads(
    hung: Hung, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also documents of sets are followed."""
    monkeypatch.setattr(answering, "compare", hung.work)
    monkeypatch.setattr(answering, "collect", hung.work)
    context = Context(ME, "ann", b"", float("inf"), "10.0.0.7", str(tmp_path), "socket")
    account = account_of(ME)
    assert account is not None
    patched = Node(tmp_path, monkeypatch)
    wanted, document = patched.wanted(patched.document()), patched.document()
    threads = int(trio.to_thread.current_default_thread_limiter().total_tokens)
    async with trio.open_nursery() as nursery:
        for number in range(threads + 1):
            nursery.start_soon(
                *((sets_agent.compared, wanted, account, context) if number % 2 else (collected, context))
            )
        with trio.fail_after(HUNG_S_MAX / 2):
            handed = Handed(document, "", "ann", "SHA256:x", lambda *_: False, POSITION, ())
            assert await sets_agent.follow(handed, account, context)
        await with_threads_left(nursery, hung)


async def collected(context: Context) -> None:
    await sets_agent.collected(context, takes_previous=True)


async def test_documents_that_hang_leave_others_their_threads(
    hung: Hung, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of each set one is carried out at a time, so all that a cluster may have go on beside each other."""
    monkeypatch.setattr(sets_agent, "_followed", hung.work)
    monkeypatch.setattr(sets_agent, "encode_followed", lambda _: b"")
    context = Context(ME, "ann", b"", float("inf"), "10.0.0.7", str(tmp_path), "socket")
    account = account_of(ME)
    assert account is not None
    patched = Node(tmp_path, monkeypatch)
    threads = int(trio.to_thread.current_default_thread_limiter().total_tokens)
    async with trio.open_nursery() as nursery:
        for number in range(threads + 1):
            document = patched.document(name=f"n{number}")
            handed = Handed(document, "", "ann", "SHA256:x", lambda *_: False, POSITION, ())
            nursery.start_soon(sets_agent.follow, handed, account, context)
        await until(lambda: len(hung.begun) >= SETS_MAX, "one of each set is under way")
        await with_threads_left(nursery, hung)


# -- the end of the process ---------------------------------------------------------------------------------------

KILLED = 9


def killed_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """The process dies before the call with this number that changes the disk; the calls so far."""
    calls = [0]

    def counted(real: Any) -> Any:
        def call(*words: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == number:
                os._exit(KILLED)
            return real(*words, **options)

        return call

    for name in ("mkdir", "symlink", "open", "rename", "replace", "unlink", "fsync"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    monkeypatch.setattr(exchange, "_renameat2", counted(exchange._renameat2))
    monkeypatch.setattr(commands, "failure", counted(commands.failure))
    return calls


def in_child(run: Callable[[], object]) -> int:
    """The exit code of a process that does this."""
    child = os.fork()
    if not child:
        try:
            run()
            os._exit(0)
        except BaseException:  # noqa: ASYNC103
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED), (code, signal)
    return code


forks = pytest.mark.filterwarnings("ignore:This process")  # of fork beside threads


def interrupted(node: Node, is_exchanged: bool) -> tuple[Document, Path]:
    """The second version, whose process has ended beside its exchange; and where its command after it writes."""
    ran, real = node.agent / "ran", exchange._renameat2
    (node.source / "a").write_text("one")
    assert node.publish().state == "current"
    (node.source / "a").write_text("two")
    document = node.document(after=f"echo x >> {ran}")

    def end(*words: Any) -> None:
        if is_exchanged:
            real(*words)
        os._exit(KILLED)

    def carry_out() -> None:
        exchange._renameat2 = end
        node.follow(document)

    assert in_child(carry_out) == KILLED
    return document, ran


def phase(node: Node) -> str:
    record = node.sets.get(NAME)
    assert record is not None
    return record.phase


@forks
@pytest.mark.parametrize("is_exchanged", [False, True])
def test_a_set_waits_for_a_file_system_that_is_not_mounted(
    node: Node, is_exchanged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if the daemon hands the document, or one without the set, over meanwhile."""
    document, ran = interrupted(node, is_exchanged)
    before = picture(node.folder)
    away = unmounted(node.folder)
    node.restart()
    assert f"{node.folder} is another directory now; its file system may not be mounted" in caplog.text
    assert node.follow(document) == Followed("failed", "failed", (node_blob(node),))
    assert (picture(node.folder), picture(away), phase(node)) == ({}, before, "activating")
    node.folder.rmdir()
    away.rename(node.folder)
    node.restart()
    assert (node.target / "a").read_text() == ("two" if is_exchanged else "one")
    assert node.follow(document).state == "current"
    assert (node.target / "a").read_text() == "two"
    assert node.previous["a"][1] == b"one"
    assert ran.read_text() == "x\n"


def node_blob(node: Node) -> bytes:
    """Of the version before."""
    return next(iter(node.blobs.bundles))


@forks
def test_a_set_whose_file_system_never_comes_is_staged_again(node: Node) -> None:
    document, _ = interrupted(node, is_exchanged=False)
    unmounted(node.folder)
    record = node.agent / "files" / "sets" / f"{NAME}.set"
    for age_s, left in ((LEFT_S_MAX - 60, "activating"), (LEFT_S_MAX + 60, "")):
        os.utime(record, (0, time.time() - age_s))
        node.restart()
        assert phase(node) == left
    assert node.follow(document).state == "current"


@forks
@pytest.mark.parametrize("is_exchanged", [False, True])
def test_a_set_on_a_device_with_another_number_is_mended(node: Node, is_exchanged: bool) -> None:
    document, ran = interrupted(node, is_exchanged)
    record = node.sets.get(NAME)
    assert record is not None
    inode, place = (1, record.inode[1]), (1, record.place[1])
    node.sets.put(NAME, msgspec.structs.replace(record, inode=inode, place=place))
    node.restart()
    assert phase(node) == ("due" if is_exchanged else "")
    assert node.follow(document).state == "current"
    assert node.previous["a"][1] == b"one"
    assert ran.read_text() == "x\n"


@forks
def test_a_record_of_an_earlier_release_without_a_place_counts(node: Node) -> None:
    document, _ = interrupted(node, is_exchanged=False)
    path = node.agent / "files" / "sets" / f"{NAME}.set"
    path.write_bytes(msgspec.msgpack.encode(msgspec.msgpack.decode(path.read_bytes())[:9]))
    unmounted(node.folder)
    node.restart()
    assert phase(node) == ""
    assert node.follow(document).state == "current"


@pytest.mark.slow
def test_an_agent_that_is_killed_leaves_the_whole_of_one_version(tmp_path_factory: pytest.TempPathFactory) -> None:
    """At each call that changes the disk; then it starts again, and the daemon hands the document over again."""
    for number in itertools.count(1):
        with pytest.MonkeyPatch.context() as patch:
            node = Node(tmp_path_factory.mktemp("node"), patch)
            ran = node.agent / "ran"
            (node.source / "a").write_text("one")
            (node.source / "d").mkdir()
            node.publish()
            before = picture(node.target)
            (node.source / "a").write_text("two")
            (node.source / "d" / "b").write_text("two")
            document, after = node.document(after=f"echo x >> {ran}"), picture(node.source)

            def carry_out(node: Node = node, document: Document = document, number: int = number) -> None:
                with pytest.MonkeyPatch.context() as inner:
                    killed_at(inner, number)
                    node.follow(document)

            code = in_child(carry_out)
            assert picture(node.target) in (before, after)
            node.restart()
            assert picture(node.target) in (before, after)
            assert len(node.hidden) <= 1
            assert node.follow(document).state == "current"
            assert picture(node.target) == after
            assert node.previous == before
            seen = node.look(document)
            assert (seen.state, seen.cause) in (("current", ""), ("failed", "after unknown"))
            times = len(ran.read_text()) // 2 if ran.exists() else 0
            assert times == 1 or (times == 0 and seen.cause == "after unknown")
        if code == 0:
            break
    assert number > 30, "it was killed at many points"
