"""`subord files publish` and what follows, as it is typed: what is signed, what is printed, and the exit codes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from loops import over

from subord.cli import main
from subord.client import exit_codes
from subord.client.orders import signing
from subord.core.carriage.documents import NEVER_MS, Document
from subord.core.carriage.orders import Verdict
from subord.core.carriage.published import SETS_MAX, Published, mark_of, order_of, read
from subord.services.files.outcome import Pushed
from subord.services.files.sets.results import encode
from subord.services.files.sets.words import Collected, Difference, Differing, Looked, Seen
from subord.services.files.task import Await, Collect, Compare, Look, decode
from subord.services.serving import signed_handlers
from tests.api.fake_node_api import PAPER, FakeNode, World
from tests.api.served_node import fake_daemon
from tests.cli.test_files_command import POSITION, Blobs, Said
from tests.cli.test_json import fitting

NAME = "motd"


class Stage:
    """A fake node with documents, and what nodes answer."""

    def __init__(self) -> None:
        self.world = World()
        self.node: FakeNode = self.world.node(POSITION)
        self.blobs = self.node.held_blobs = Blobs()  # type: ignore[attr-defined]
        self.answer(Looked((Seen(NAME, "current", 1),)))

    def answer(self, result: Any, *positions: int) -> None:
        self.world.lying |= dict.fromkeys(positions or sorted(PAPER), encode(result))

    def see(self, *positions: int, name: str = NAME, **seen: Any) -> None:
        self.answer(Looked((Seen(name, **seen),)), *positions)

    def type(self, *words: str) -> int:
        """The exit code."""
        with fake_daemon(self.node, orders=signed_handlers(self.node)) as path:
            try:
                return main(["files", *words, "--socket", path])
            except SystemExit as error:
                return int(str(error.code))

    def publish(self, *words: str) -> int:
        return self.type("publish", "-a", "--name", NAME, "--to", "/srv/motd", *words, "here")

    @property
    def tasks(self) -> list[Any]:
        return [decode(payload) for payload in self.node.orders.payloads]

    def document(self, name: str = NAME) -> Document:
        return self.node.tracker.membership.documents.by_name[f"files/{name}"]

    def said(self, name: str = NAME) -> Published:
        found = read(self.document(name).order)
        assert found is not None
        return found

    def put(self, *documents: Document, principal: str = "bob") -> None:
        """What other nodes have sent."""
        self.node.tracker.membership.take_documents(
            [(each, Verdict("", principal, "x")) for each in documents], "edge"
        )


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a").write_text("welcome\n")
    return Stage()


def test_a_version_is_a_document_that_names_everything_by_its_hash(stage: Stage, capsys: Said) -> None:
    words = ("--check", "c", "--after", "d")
    code = stage.type("publish", "-w", "10.0.0.[2-3]", "--name", NAME, "--to", "/srv/motd/", *words, "here")
    assert code == exit_codes.OK
    document, said = stage.document(), stage.said()
    assert (document.version, document.expires_ms) == (1, NEVER_MS)
    assert (said.to, said.nodes, said.replaces, said.past) == (b"/srv/motd", ((2, 3),), False, ())
    assert (said.content.source, said.content.entries, said.content.size) == (POSITION, 2, 8)
    stream = stage.blobs.stream(said.content.blob)
    manifest = stream.manifest()
    assert (manifest.to, manifest.check, manifest.after) == (b"/srv", "c", "d")
    assert [each.path for each in manifest.entries] == [b"motd", b"motd/a"]
    assert b"".join(stream.pieces(8)) == b"welcome\n"
    (task,) = stage.tasks
    assert isinstance(task, Await)
    assert (task.set.version, task.set.mark, task.wait_ms) == (1, mark_of(document.order), 600_000)
    out, err = capsys.readouterr()
    assert out.splitlines() == ["motd version 1: 2 paths, 8 bytes, at /srv/motd", "  10.0.0.[2-3]: current"]
    assert err.startswith("2 of 2 ended in ")


def test_the_next_version_lists_the_one_before_and_rollback_brings_it_back(stage: Stage, capsys: Said) -> None:
    assert stage.publish("-q") == exit_codes.OK
    first = stage.said().content
    Path("here/a").write_text("two")
    stage.see(state="current", version=2)
    assert stage.publish("-q") == exit_codes.OK
    assert [(each.version, each.by, each.content) for each in stage.said().past] == [(1, "ann", first)]
    assert stage.type("rollback", NAME, "--no-wait") == exit_codes.OK
    assert stage.document().version == 3
    assert stage.said().content == type(first)(first.blob, first.source, first.entries, first.size, 1)
    assert capsys.readouterr().out == (
        "motd version 3, as version 1: 2 paths, 8 bytes, at /srv/motd; see `subord files status motd`\n"
    )
    assert stage.type("rollback", NAME, "2", "--no-wait", "--json") == exit_codes.OK
    found = fitting("files rollback", capsys.readouterr().out)
    assert [(each["version"], each["of"], each["bytes"]) for each in found["sets"]] == [(4, 2, 3)]
    assert stage.type("history", NAME) == exit_codes.OK
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], line[2], line[3]) for line in lines] == [
        ("4", "ann", "2 paths, 3 bytes, as version 2"),
        ("3", "ann", "2 paths, 8 bytes, as version 1"),
        ("2", "ann", "2 paths, 3 bytes"),
        ("1", "ann", "2 paths, 8 bytes"),
    ]
    assert stage.type("history", NAME, "--json") == exit_codes.OK
    found = fitting("files history", capsys.readouterr().out)
    assert [each["version"] for each in found["versions"]] == [4, 3, 2, 1]


@over(
    ("words", "code", "said"),
    [
        ("publish --name a here", exit_codes.USAGE, "say on which nodes"),
        ("publish -w 10.0.0.1 -x 10.0.0.1 --name a here", exit_codes.NO_SUCH_NODE, "no node is left"),
        ("publish -a --name a none", exit_codes.USAGE, "none: No such file or directory; nothing was published"),
        ("publish -a --name a here/a", exit_codes.USAGE, "is no directory; nothing was published"),
        ("publish -a --name a --to srv here", exit_codes.USAGE, "is not absolute"),
        ("publish -a --name a --to / here", exit_codes.USAGE, "a directory of its own"),
        ("publish -a --name A-b here", exit_codes.USAGE, "is no name of a set"),
        ("publish -a here", exit_codes.USAGE, "required: --name"),
        ("rollback none", exit_codes.USAGE, "there is no set 'none'"),
        ("history none", exit_codes.USAGE, "there is no set 'none'"),
        ("status none", exit_codes.USAGE, "there is no set 'none'"),
        ("status", exit_codes.NOT_REACHED, "no set of files is published"),
    ],
)
def test_what_is_refused_changes_nothing(
    words: str, code: int, said: str, capsys: Said, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("here")
    (folder / "here").mkdir()
    (folder / "here" / "a").touch()
    stage = Stage()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert stage.type(*words.split()) == code
    assert said in capsys.readouterr().err
    assert len(stage.node.tracker.membership.documents) == 0


@pytest.mark.slow
def test_a_directory_is_of_one_set_and_sets_have_a_bound(stage: Stage, capsys: Said) -> None:
    assert stage.publish("--no-wait") == exit_codes.OK
    for to in ("/srv/motd", "/srv/motd/below", "/srv"):
        assert stage.type("publish", "-a", "--name", "other", "--to", to, "here") == exit_codes.USAGE
        assert "the directory is that of the set motd" in capsys.readouterr().err
    assert stage.type("publish", "-a", "--name", NAME, "--to", "/etc/motd", "here") == exit_codes.USAGE
    assert "the set motd is at /srv/motd: withdraw it first" in capsys.readouterr().err
    assert stage.type("withdraw", NAME) == exit_codes.OK
    assert capsys.readouterr().out == "motd version 2: withdrawn; its files stay where they are\n"
    assert stage.type("withdraw", NAME) == exit_codes.USAGE
    assert stage.type("status", NAME) == exit_codes.USAGE
    for number in range(SETS_MAX):
        words = ("--name", f"n{number}", "--to", f"/srv/n{number}", "--no-wait", "here")
        assert stage.type("publish", "-a", *words) == exit_codes.OK
    capsys.readouterr()
    assert stage.publish() == exit_codes.NOT_REACHED
    assert f"there are {SETS_MAX} sets" in capsys.readouterr().err


def test_of_two_operators_at_once_one_is_told(stage: Stage, capsys: Said) -> None:
    """The document of the other one comes while the nodes are asked."""
    assert stage.publish("--no-wait") == exit_codes.OK
    said, real = stage.said(), stage.node.orders.order

    async def order(*words: Any, **options: Any) -> Any:
        mine = stage.document()
        stage.put(Document(*order_of(NAME, mine.version, mine.at_ms + 5, said), b"signed"))
        return await real(*words, **options)

    stage.node.orders.order = order  # type: ignore[method-assign]
    assert stage.publish() == exit_codes.NOT_REACHED
    assert "version 2 of bob counts, and not this one" in capsys.readouterr().err
    assert stage.type("status") == exit_codes.OK
    assert "another document has the same version, and this one counts" in capsys.readouterr().out


def test_a_version_that_another_operator_has_given_meanwhile(stage: Stage, capsys: Said) -> None:
    assert stage.publish("--no-wait") == exit_codes.OK
    old, real = stage.document(), signing.sign

    def sign(content: bytes, namespace: str, arguments: Any) -> bytes:
        stage.put(Document(*order_of(NAME, 2, old.at_ms + 1, stage.said()), b"signed"))
        return real(content, namespace, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signing, "sign", sign)
        assert stage.publish() == exit_codes.PERMISSION
    assert "this node holds a newer version of the order already" in capsys.readouterr().err


def test_status_names_each_state_with_its_nodes(stage: Stage, capsys: Said) -> None:
    assert stage.publish("--no-wait") == exit_codes.OK
    capsys.readouterr()
    stage.see(state="current", version=1)
    assert stage.type("status") == exit_codes.OK
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith("motd version 1 of ann, ")
    assert out.splitlines()[0].endswith(": 2 paths, 8 bytes, at /srv/motd")
    assert out.splitlines()[1:] == ["  10.0.0.[1-11]: current"]
    assert err.startswith("11 of 11 answered in ")
    (look,) = stage.tasks
    assert isinstance(look, Look)
    stage.see(2, state="drifted", version=1, differing=2)
    stage.see(3, 4, state="failed", cause="disk full", detail="/srv")
    stage.see(5, state="missing")
    stage.see(6, state="staged", version=0)
    stage.see(7, state="failed", version=1, cause="after failed", detail="exit code 1")
    stage.world.hung = {8}
    assert stage.type("status", NAME) == exit_codes.NOT_REACHED
    out, err = capsys.readouterr()
    assert out.splitlines()[1:] == [
        "  10.0.0.[1,9-11]: current",
        "  10.0.0.6: staged",
        "  10.0.0.2: drifted, 2 paths differ: see `subord files diff motd 10.0.0.2`, publish again to restore",
        "  10.0.0.[3-4]: failed, no room on the disk (/srv)",
        "  10.0.0.7: failed, the files are in place, but the command after them failed (exit code 1)",
        "  10.0.0.5: missing",
    ]
    assert err.endswith("missing: 10.0.0.8 silent\n")
    assert stage.type("status", "--json") == exit_codes.NOT_REACHED
    found = fitting("files status", capsys.readouterr().out)
    assert found["ended"] == {"current": 4, "drifted": 1, "failed": 3, "missing": 1, "staged": 1}
    assert [each["name"] for each in found["sets"]] == [NAME]


def refusing(stage: Stage) -> None:
    """Nodes that answer, and tell nothing of the set."""
    stage.answer(Pushed("other release"), 3, 4)
    stage.answer(Pushed("no such user", detail="ann"), 5)
    stage.answer(Pushed("of a later release"), 6)
    stage.answer(Pushed("changed"), 10)
    stage.answer(Collected(0, 0, 0, 0), 7)
    stage.answer(Looked(()), 8)


REFUSED = [
    "  10.0.0.5: failed, there is no such user or group (ann)",
    "  10.0.0.[7-8,10]: failed, the node has answered something else",
    "  10.0.0.6: failed, of a later release",
    "  10.0.0.[3-4]: failed, the agent does not understand the order: it runs another release",
]


def test_a_node_that_refuses_to_tell_of_a_set_has_failed(stage: Stage, capsys: Said) -> None:
    stage.see(state="current")
    refusing(stage)
    for words in (("publish", "-a", "--name", NAME, "--to", "/srv/motd", "here"), ("rollback", NAME), ("status",)):
        if words[0] == "rollback":
            Path("here/a").write_text("two")
            stage.publish("--no-wait")
            capsys.readouterr()
        assert stage.type(*words) == exit_codes.NOT_REACHED
        assert capsys.readouterr().out.splitlines()[1:] == ["  10.0.0.[1-2,9,11]: current", *REFUSED]
    assert stage.publish("-q") == exit_codes.NOT_REACHED
    assert capsys.readouterr().out.splitlines()[1:] == ["  10.0.0.[1-2,9,11]: current", *REFUSED]
    assert stage.type("status", "--json") == exit_codes.NOT_REACHED
    found = fitting("files status", capsys.readouterr().out)
    assert [(each["state"], each["cause"]) for each in found["nodes"]] == [
        ("current", ""),
        ("failed", "no such user"),
        ("failed", "not told"),
        ("failed", "of a later release"),
        ("failed", "other release"),
    ]


def test_a_set_that_nobody_asked_for_is_passed_over(stage: Stage, capsys: Said) -> None:
    assert stage.publish("--no-wait") == exit_codes.OK
    capsys.readouterr()
    stage.answer(Looked((Seen("other", "failed"), Seen(NAME, "current", 1))), 2)
    assert stage.type("status") == exit_codes.OK
    assert capsys.readouterr().out.splitlines()[1:] == ["  10.0.0.[1-11]: current"]
    stage.answer(Looked((Seen("other", "current", 1),)), 3)
    assert stage.type("status") == exit_codes.NOT_REACHED
    assert capsys.readouterr().out.splitlines()[2:] == ["  10.0.0.3: failed, the node has answered something else"]


def test_a_node_fails_only_for_its_own_sets(stage: Stage, capsys: Said) -> None:
    for name, nodes in (("one", "10.0.0.[1-2]"), ("two", "10.0.0.[2-3]")):
        words = ("--name", name, "--to", f"/srv/{name}", "--no-wait", "here")
        assert stage.type("publish", "-w", nodes, *words) == exit_codes.OK
    capsys.readouterr()
    stage.answer(Pushed("only as root"), 1)
    stage.answer(Looked((Seen("one", "current", 1), Seen("two", "current", 1))), 2)
    stage.answer(Looked((Seen("two", "current", 1),)), 3)
    assert stage.type("status") == exit_codes.NOT_REACHED
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" ")]
    assert lines == [
        "  10.0.0.2: current",
        "  10.0.0.1: failed, files are written as root only",
        "  10.0.0.[2-3]: current",
    ]


def test_several_sets_are_shown_for_their_own_nodes(stage: Stage, capsys: Said) -> None:
    for name, nodes in (("one", "10.0.0.[1-2]"), ("two", "10.0.0.[2-3]")):
        words = ("--name", name, "--to", f"/srv/{name}", "--no-wait", "here")
        assert stage.type("publish", "-w", nodes, *words) == exit_codes.OK
    capsys.readouterr()
    stage.answer(Looked((Seen("one", "current", 1), Seen("two", "missing"))), 1)
    stage.answer(Looked((Seen("one", "current", 1), Seen("two", "current", 1))), 2)
    stage.answer(Looked((Seen("one", "missing"), Seen("two", "current", 1))), 3)
    assert stage.type("status") == exit_codes.OK
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if line.startswith(" ")] == ["  10.0.0.[1-2]: current", "  10.0.0.[2-3]: current"]


def test_diff_lists_path_by_path(stage: Stage, capsys: Said) -> None:
    assert stage.publish("--no-wait") == exit_codes.OK
    seen = Seen(NAME, "drifted", 1, differing=5)
    paths = (Difference(b"a\x1b", "other content"), Difference(b"d/\xff", "not of the set"))
    stage.answer(Differing(seen, paths, 3), 4)
    capsys.readouterr()
    assert stage.type("diff", NAME, "10.0.0.4") == exit_codes.NOT_REACHED
    out, err = capsys.readouterr()
    assert out.splitlines() == ["other content: a?", "not of the set: d/\\xff"]
    assert err.startswith("subord: and 3 paths more\n1 of 1 answered in ")
    assert isinstance(stage.tasks[-1], Compare)
    assert stage.type("diff", NAME, "10.0.0.4", "--json") == exit_codes.NOT_REACHED
    found = fitting("files diff", capsys.readouterr().out)
    assert (found["left_out"], found["state"]["differing"], len(found["paths"])) == (3, 5, 2)
    stage.answer(Differing(Seen(NAME, "current", 1)), 4)
    assert stage.type("diff", NAME, "10.0.0.4") == exit_codes.OK
    stage.world.hung = {4}
    capsys.readouterr()
    assert stage.type("diff", NAME, "10.0.0.4") == exit_codes.NOT_REACHED
    assert "missing: 10.0.0.4 silent" in capsys.readouterr().err
    assert stage.type("diff", NAME, "10.0.0.[4-5]") == exit_codes.USAGE


def test_diff_says_why_a_node_tells_no_paths(stage: Stage, capsys: Said) -> None:
    assert stage.publish("--no-wait") == exit_codes.OK
    refusing(stage)
    stage.answer(Differing(Seen("other", "current", 1)), 9)
    for node, line in ((3, REFUSED[3]), (5, REFUSED[0]), (8, REFUSED[1]), (9, REFUSED[1])):
        capsys.readouterr()
        assert stage.type("diff", NAME, f"10.0.0.{node}") == exit_codes.NOT_REACHED
        said = line.partition(":")[2]
        assert capsys.readouterr().err.splitlines()[0] == f"subord: 10.0.0.{node}:{said}"
    assert stage.type("diff", NAME, "10.0.0.3", "--json") == exit_codes.NOT_REACHED
    found = fitting("files diff", capsys.readouterr().out)
    assert (found["state"]["nodes"], found["state"]["cause"]) == (["10.0.0.3"], "other release")


def test_gc_says_which_nodes_have_refused(stage: Stage, capsys: Said) -> None:
    stage.answer(Collected(0, 0, 0, 0))
    refusing(stage)
    stage.answer(Collected(0, 0, 0, 0), 7)
    assert stage.type("gc") == exit_codes.NOT_REACHED
    out, _ = capsys.readouterr()
    freed = "0 bytes freed (0 previous versions, 0 chunks)"
    assert sorted(out.splitlines()) == [
        f"10.0.0.5: {freed}; not all: there is no such user or group (ann)",
        f"10.0.0.6: {freed}; not all: of a later release",
        f"10.0.0.[1-2,7,9,11]: {freed}",
        f"10.0.0.[3-4]: {freed}; not all: the agent does not understand the order: it runs another release",
        f"10.0.0.[8,10]: {freed}; not all: the node has answered something else",
    ]
    assert stage.type("gc", "--json") == exit_codes.NOT_REACHED
    found = fitting("files gc", capsys.readouterr().out)
    assert sum(len(each["nodes"]) for each in found["freed"] if each["detail"]) == 6


def test_gc_says_what_was_freed(stage: Stage, capsys: Said) -> None:
    stage.answer(Collected(0, 0, 0, 0))
    stage.answer(Collected(1, 100, 3, 900), 4, 5)
    stage.answer(Collected(0, 0, 1, 5, "motd: no directory"), 6)
    assert stage.type("gc", "--previous") == exit_codes.NOT_REACHED
    out, _ = capsys.readouterr()
    assert sorted(out.splitlines()) == [
        "10.0.0.6: 5 bytes freed (0 previous versions, 1 chunk); not all: motd: no directory",
        "10.0.0.[1-3,7-11]: 0 bytes freed (0 previous versions, 0 chunks)",
        "10.0.0.[4-5]: 1000 bytes freed (1 previous version, 3 chunks)",
    ]
    assert stage.tasks == [Collect(True)]
    stage.answer(Collected(1, 100, 3, 900))
    assert stage.type("gc", "--json") == exit_codes.OK
    found = fitting("files gc", capsys.readouterr().out)
    assert [(each["directories"], each["chunk_bytes"]) for each in found["freed"]] == [(1, 900)]
    assert len(found["freed"][0]["nodes"]) == len(PAPER)


def test_publish_in_json(stage: Stage, capsys: Said) -> None:
    stage.see(3, state="failed", cause="occupied", detail="/srv/motd")
    stage.world.hung = {2}
    assert stage.publish("--json") == exit_codes.NOT_REACHED
    found = fitting("files publish", capsys.readouterr().out)
    assert (found["asked"], found["told"], found["ended"]) == (
        len(PAPER),
        len(PAPER) - 1,
        {"current": 9, "failed": 1},
    )
    assert [(each["nodes"], each["state"], each["cause"]) for each in found["nodes"]][1] == (
        ["10.0.0.3"],
        "failed",
        "occupied",
    )


def test_what_a_directory_is_named_here_and_there(stage: Stage) -> None:
    os.rename("here", "there")
    assert stage.type("publish", "-a", "--name", NAME, "--no-wait", "there") == exit_codes.OK
    assert stage.said().to == os.fsencode(os.path.abspath("there"))
