"""`subord exec` as it is typed: which nodes it names, what it prints, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from loops import over

from subord.api.http.server import Call
from subord.cli import main
from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.node_sets import choice
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.services.exec import earlier, giving, running
from subord.services.exec.outcome import Command, Ended, Listing, Part, Piece, encode
from subord.services.exec.targets import Targets, waves
from subord.services.exec.task import Fetch, List, Run, Stop, decode, keeps_all, output_bytes_for
from subord.services.exec.words import STATES, batch
from subord.services.giving import Told
from subord.services.serving import signed_handlers
from tests.api.fake_node_api import PAPER, FakeNode, World
from tests.api.served_node import fake_daemon
from tests.cli.test_json import SCHEMAS, fitting

NODE = 1
EVERY = sorted(PAPER)
TAG, OTHER = bytes(16), bytes(range(16))
TRUE = encode(Ended("exited"))
STDIN = running._stdin
Said = pytest.CaptureFixture[str]


class Stage:
    """A fake node, and what nodes answer."""

    def __init__(self, at: int = NODE) -> None:
        self.world = World()
        self.world.lying = dict.fromkeys(EVERY, TRUE)
        self.node: FakeNode = self.world.node(at)
        self.payloads: list[Any] = []

    def answer(self, *positions: int, **ended: Any) -> None:
        self.world.lying |= dict.fromkeys(positions or EVERY, encode(Ended(**ended)))

    def type(self, *words: str) -> int:
        """The exit code."""
        with fake_daemon(self.node, orders=signed_handlers(self.node)) as path:
            try:
                return main(["exec", "--socket", path, *words])
            except SystemExit as error:
                return int(str(error.code))

    @property
    def asked(self) -> list[Any]:
        """The positions of each order; None: all members."""
        return [None if targets is None else list(targets) for _, targets, _ in self.node.orders.given]

    @property
    def tasks(self) -> list[Any]:
        return [decode(payload) for payload in self.node.orders.payloads]


@pytest.fixture(autouse=True)
def _of_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "groups").write_text("front: 10.0.0.[1-3]\n")
    monkeypatch.setenv(choice.FILE_VARIABLE, str(tmp_path / "groups"))
    monkeypatch.setattr(running, "_stdin", lambda: b"")


@pytest.fixture
def stage() -> Stage:
    return Stage()


# -- which nodes ---------------------------------------------------------------------------------------------


@over(
    ("words", "positions"),
    [
        ("-w 10.0.0.[4-5]", [4, 5]),
        ("-w 10.0.0.4 -w 10.0.0.[9,2]", [2, 4, 9]),
        ("-w 10.0.0.[1-4]!10.0.0.2", [1, 3, 4]),
        ("-w 10.0.0.[1-4]&10.0.0.[3-9]", [3, 4]),
        ("-w 10.0.0.[1-4]^10.0.0.[3-6]", [1, 2, 5, 6]),
        ("-w @front", [1, 2, 3]),
        ("-g front -w 10.0.0.9", [1, 2, 3, 9]),
        ("-w 10.0.0.[1-4] -x @front", [4]),
        ("-x 10.0.0.[2-11]", [1]),
        ("-a -x 10.0.0.[2-11]", [1]),
        ("--below 10.0.0.2", [2, 4, 5, 8, 9, 10, 11]),
        ("--below 10.0.0.4 -x 10.0.0.4", [8, 9]),
        ("--state root", [1]),
        ("-a", None),
    ],
)
def test_the_nodes_that_words_name(words: str, positions: list[int] | None) -> None:
    stage = Stage()
    assert stage.type(*words.split(), "-n", "true") == exit_codes.OK
    assert stage.asked == [positions]


@over(
    ("words", "code", "said"),
    [
        ("true", exit_codes.USAGE, "say on which nodes"),
        ("-a", exit_codes.USAGE, "say which command"),
        ("-a --", exit_codes.USAGE, "say which command"),
        ("-w 10.0.0.1 -x 10.0.0.1 true", exit_codes.NO_SUCH_NODE, "no node is left"),
        ("-x 10.0.0.[1-11] true", exit_codes.NO_SUCH_NODE, "no node is left"),
        ("-w 10.0.0.1&10.0.0.2 true", exit_codes.NO_SUCH_NODE, "names no node"),
        ("-w @nosuch true", exit_codes.USAGE, "nosuch"),
        ("-g nosuch true", exit_codes.USAGE, "nosuch"),
        ("--state held true", exit_codes.NO_SUCH_NODE, "names no node"),
        ("-w 192.0.2.1 true", exit_codes.NO_SUCH_NODE, "no address of the network"),
        ("--below 10.0.0.77 true", exit_codes.NO_SUCH_NODE, "not in the tree"),
        ("-a --batch 0 true", exit_codes.USAGE, "--batch"),
        ("-a --batch 101% true", exit_codes.USAGE, "--batch"),
        ("-a -t 0 true", exit_codes.USAGE, "--timeout"),
        ("-a --shell echo a", exit_codes.USAGE, "--shell takes one word"),
        ("-a --env =x true", exit_codes.USAGE, "NAME=VALUE"),
        (f"-a -u {'x' * 33} true", exit_codes.USAGE, "-u takes a name of at most 32 characters"),
        (
            f"-a --chdir /{'x' * 4096} true",
            exit_codes.USAGE,
            "the order has 4097 bytes of a directory, of at most 4096",
        ),
        ("-a true" + " x" * 4096, exit_codes.USAGE, "the order has 4097 words, of at most 4096"),
        ("--fetch 12 10.0.0.1", exit_codes.USAGE, "is no tag"),
    ],
)
def test_what_is_wrong_runs_nothing(words: str, code: int, said: str, capsys: Said) -> None:
    stage = Stage()
    assert stage.type(*words.split()) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert stage.asked == []


def test_all_but_some_needs_all_members(capsys: Said) -> None:
    """At a node that reaches no root: its own branch would look like all."""
    stage = Stage(at=7)
    for words in (
        "-x 10.0.0.1",
        "-a --batch 2",
        "--below 10.0.0.7",
        "--state live",
        "-w @members:live",
        "-x @members:x",
    ):
        assert stage.type(*words.split(), "true") == exit_codes.TRY_AGAIN
        assert "not all members are known just now" in capsys.readouterr().err
    assert stage.asked == []


def test_a_branch_of_a_new_root_is_not_taken_for_the_whole_branch(capsys: Said) -> None:
    """Nodes of it may be on their way to the root still."""
    stage = Stage(at=1)
    stage.world.newly_placed = {1}
    for words in ("--below 10.0.0.2", "-a -x 10.0.0.1", "--state live"):
        assert stage.type(*words.split(), "true") == exit_codes.TRY_AGAIN
        assert "10.0.0.1 (root) has only just become root" in capsys.readouterr().err
    assert stage.asked == []


def test_the_states_are_those_of_sets() -> None:
    assert STATES == choice.WORDS


def places(count: int) -> Targets:
    return Targets([{"position": each, "address": ""} for each in range(1, count + 1)], is_every=True)


@over(
    ("text", "count", "sizes"),
    [
        ("3", 7, [3, 3, 1]),
        ("50%", 7, [3, 3, 1]),
        ("29%", 100, [29, 29, 29, 13]),
        ("1%", 3, [1, 1, 1]),
        ("100%", 7, [7]),
        ("9", 7, [7]),
    ],
)
def test_waves(text: str, count: int, sizes: list[int]) -> None:
    found = waves(places(count), batch(text))
    assert [len(each.places) for each in found] == sizes
    assert not any(each.is_every for each in found), "a member that joins meanwhile belongs to no wave"
    assert waves(places(count), None) == [places(count)]


def test_the_output_of_all_nodes_fits_an_answer() -> None:
    assert output_bytes_for(1) == output_bytes_for(28) == 31_000
    assert 1_700 < output_bytes_for(500) < 1_800
    assert output_bytes_for(100_000) == 256
    assert (keeps_all(1_024), keeps_all(1_025)) == (False, True)


# -- what the nodes get -------------------------------------------------------------------------------------


def test_the_task(stage: Stage) -> None:
    words = "-a -t 2.5 --chdir /tmp --env A=b=c --env D= -- ls -l --"
    assert stage.type(*words.split()) == exit_codes.OK
    pairs = ((b"A", b"b=c"), (b"D", b""))
    assert stage.tasks == [Run((b"ls", b"-l", b"--"), pairs, b"/tmp", 2_500)]
    ((_, _, left_s),) = stage.node.orders.given
    assert left_s == 17.5


def test_a_shell_gets_one_word(stage: Stage) -> None:
    assert stage.type("-a", "--shell", "a | b") == exit_codes.OK
    assert stage.tasks[0].words == (b"/bin/sh", b"-c", b"a | b")


def test_a_dry_run_asks_the_nodes(stage: Stage, capsys: Said) -> None:
    stage.answer(how="would run")
    stage.answer(3, how="no such user", detail="slurm")
    assert stage.type("-a", "--dry-run", "-u", "slurm", "true") == exit_codes.NOT_REACHED
    assert stage.tasks[0].is_trial
    assert capsys.readouterr().err.splitlines() == [
        "subord: 10.0.0.3: there is no such user (slurm)",
        "11 of 11 answered the dry run",
    ]


def test_too_much_input_is_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.setattr(running, "_stdin", lambda: bytes(32_769))
    assert stage.type("-a", "cat") == exit_codes.USAGE
    assert "of at most 32768, with 32769 bytes of standard input" in capsys.readouterr().err
    assert stage.asked == []
    assert stage.type("-a", "-n", "cat") == exit_codes.OK


@pytest.fixture
def given_stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    saved = os.dup(0)

    def give(data: bytes) -> None:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        os.dup2(reading, 0)
        os.close(reading)
        opened.append(io.TextIOWrapper(os.fdopen(os.dup(0), "rb")))
        monkeypatch.setattr(sys, "stdin", opened[-1])

    opened: list[io.TextIOWrapper] = []
    yield give
    for each in opened:
        each.close()
    os.dup2(saved, 0)
    os.close(saved)


def test_standard_input(given_stdin: Callable[[bytes], None]) -> None:
    given_stdin(b"from\0afar")
    assert STDIN() == b"from\0afar"
    given_stdin(bytes(50_000))
    assert len(STDIN()) == 32_769


# -- what is printed ------------------------------------------------------------------------------------------


def test_lines_of_each_node(stage: Stage, capsys: Said) -> None:
    stage.answer(how="exited", output=Part(b"one\n\ntwo"), errors=Part(b"oops\n"))
    assert stage.type("-w", "10.0.0.[9-10]", "x") == exit_codes.OK
    out, err = capsys.readouterr()
    assert out == "".join(f"10.0.0.{n}: {text}\n" for n in (9, 10) for text in ("one", "", "two"))
    lines = err.splitlines()
    assert lines[:2] == ["10.0.0.9: oops", "10.0.0.10: oops"]
    assert lines[2].startswith("2 of 2 ended in ")


def test_folded(stage: Stage, capsys: Said) -> None:
    stage.answer(how="exited", output=Part(b"a\nb\n"))
    stage.answer(3, 4, how="exited", number=1, output=Part(b"a\nb\n"))
    stage.answer(5, how="exited", output=Part(b"c"))
    assert stage.type("-a", "-b", "x") == exit_codes.NOT_REACHED
    out, err = capsys.readouterr()
    rule = "-" * 15
    expected = [rule, "10.0.0.[1-4,6-11] (10)", rule, "a", "b", rule, "10.0.0.5", rule, "c"]
    assert out.splitlines() == expected
    assert err.splitlines()[0] == "subord: 10.0.0.[3-4]: exit code 1"


def test_bytes_are_passed_on_as_they_are(stage: Stage, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    stage.answer(how="exited", output=Part(b"\xff\x1b[31m\r\n"))
    assert stage.type("-w", "10.0.0.1", "x") == exit_codes.OK
    assert capfdbinary.readouterr().out == b"10.0.0.1: \xff\x1b[31m\r\n"


def test_a_terminal_gets_no_control_characters(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    stage.answer(how="exited", output=Part(b"a\tb\x1b]0;title\x07\xff\r\n"))
    for option in ("-q", "-b"):
        assert stage.type("-w", "10.0.0.1", option, "x") == exit_codes.OK
    assert "10.0.0.1: a       b?]0;title?" in capsys.readouterr().out.splitlines()[0]


def test_what_is_cut_is_said_where_it_is(stage: Stage, capsys: Said) -> None:
    stage.answer(how="exited", output=Part(b"a\n", b"z\n", 7), is_kept=True)
    stage.answer(2, how="exited", output=Part(b"a\n", b"z\n", 7))
    assert stage.type("-w", "10.0.0.[1-2]", "x") == exit_codes.OK
    out, err = capsys.readouterr()
    assert out.splitlines() == [f"10.0.0.{n}: {letter}" for n in (1, 2) for letter in "az"]
    tag = stage.node.orders.signed[0]["tag"].hex()
    assert err.splitlines()[:2] == [
        f"subord: 10.0.0.1: 7 bytes of output are cut here; all of it: subord exec --fetch {tag} NODE",
        "subord: 10.0.0.2: 7 bytes of output are cut here; the node does not keep all of it",
    ]


@over(
    ("ended", "text", "code"),
    [
        ({"how": "exited", "number": 3}, "exit code 3", 3),
        ({"how": "killed", "number": 9}, "killed by signal 9", 137),
        ({"how": "timed out"}, "ended when its time was over (-t)", 124),
        ({"how": "not found"}, "command not found", 127),
        ({"how": "not executable", "detail": "Permission denied"}, "not executable (Permission denied)", 126),
        ({"how": "user not permitted"}, "the agent may not act as this user", 125),
        ({"how": "of a later release"}, "of a later release", 125),
        ({"how": "of a later release", "number": 3}, "of a later release", 125),
        ({"how": "not running"}, "no such command runs", 125),
    ],
)
def test_exit_codes(ended: dict[str, Any], text: str, code: int, capsys: Said) -> None:
    stage = Stage()
    stage.answer(2, **ended)
    stage.answer(3, how="exited", number=1)
    assert stage.type("-a", "-n", "x") == exit_codes.NOT_REACHED
    assert stage.type("-a", "-n", "-S", "x") == code
    assert text in capsys.readouterr().err


def test_missing_nodes_are_named_last(stage: Stage, capsys: Said) -> None:
    stage.world.hung = {4, 5}
    assert stage.type("-a", "true") == exit_codes.NOT_REACHED
    assert stage.type("-a", "-q", "-S", "true") == exit_codes.NOT_REACHED
    out, err = capsys.readouterr()
    assert out == ""
    assert all("9 of 11 ended in" in line and "missing: 10.0.0.[4-5] silent" in line for line in err.splitlines())
    assert len(err.splitlines()) == 2


def test_quiet(stage: Stage, capsys: Said) -> None:
    assert stage.type("-a", "-q", "true") == exit_codes.OK
    assert capsys.readouterr() == ("", "")


def test_json(stage: Stage, capsys: Said) -> None:
    stage.answer(2, how="killed", number=15, output=Part(b"\xff"), errors=Part("ä".encode()))
    stage.world.hung = {4}
    assert stage.type("-w", "10.0.0.[1-4]", "--json", "true") == exit_codes.NOT_REACHED
    *nodes, last = capsys.readouterr().out.splitlines()
    assert (SCHEMAS / "exec-node.json").exists()
    found = {each["node"]: each for each in (fitting("exec-node", line) for line in nodes)}
    assert sorted(found) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    killed = found["10.0.0.2"]
    assert (killed["ended"], killed["exit_code"], killed["signal"]) == ("killed", 143, 15)
    assert (killed["output"], killed["output_base64"]) == ("\N{REPLACEMENT CHARACTER}", "/w==")
    assert (killed["errors"], killed["errors_base64"]) == ("ä", None)
    covered = fitting("exec", last)
    assert (covered["asked"], covered["told"], covered["ended"]) == (4, 3, {"exited 0": 2, "killed 15": 1})


def test_waves_stop_at_the_first_failure(stage: Stage, capsys: Said) -> None:
    stage.answer(5, how="exited", number=2)
    assert stage.type("-a", "--batch", "4", "--json", "true") == exit_codes.NOT_REACHED
    assert stage.asked == [[1, 2, 3, 4], [5, 6, 7, 8]]
    covered = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (covered["asked"], covered["told"]) == (8, 8)
    assert covered["not_begun"] == ["10.0.0.9", "10.0.0.10", "10.0.0.11"]
    assert stage.type("-a", "--batch", "4", "true") == exit_codes.NOT_REACHED
    assert "subord: not begun after the failure: 10.0.0.[9-11]" in capsys.readouterr().err.splitlines()


@over("words", ["", "-b"])
def test_a_wave_that_cannot_be_given_shows_what_the_others_did(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """The second order breaks off after the result of one of its nodes, as when the daemon ends."""
    stage.answer(how="exited", output=Part(b"x\n"))

    def give(*given: Any) -> Iterator[Any]:
        if given[2].positions == "1-4":
            yield from giving.give(*given)
            return
        yield Told(Ended("exited", output=Part(b"y\n")), ["10.0.0.5"])
        raise CommandError("the daemon has ended", exit_codes.DAEMON_UNREACHABLE)

    monkeypatch.setattr(running, "give", give)
    assert stage.type("-a", *words.split(), "--batch", "4", "true") == exit_codes.DAEMON_UNREACHABLE
    out, err = capsys.readouterr()
    assert "10.0.0.[1-4]" in out if words else "10.0.0.4: x\n10.0.0.5: y" in out
    assert "subord: without an answer, so it may have run: 10.0.0.[6-8]" in err.splitlines()
    assert "subord: not begun after the failure: 10.0.0.[9-11]" in err.splitlines()


def test_no_wave_begins_after_a_word_of_a_later_release(stage: Stage) -> None:
    stage.answer(3, how="of a later release")
    assert stage.type("-a", "--batch", "4", "true") == exit_codes.NOT_REACHED
    assert stage.asked == [[1, 2, 3, 4]]


def test_waves_of_all_nodes(stage: Stage) -> None:
    assert stage.type("-a", "--batch", "50%", "true") == exit_codes.OK
    assert stage.asked == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11]]
    tags = {each["tag"] for each in stage.node.orders.signed}
    assert len(tags) == 3


def test_results_of_another_release_are_counted(stage: Stage, capsys: Said) -> None:
    stage.world.lying |= {2: b"\xff\xff"}
    assert stage.type("-a", "true") == exit_codes.NOT_REACHED
    assert "the results of 1 node" in capsys.readouterr().err


def test_list(stage: Stage, capsys: Said) -> None:
    command = Command(TAG, "ann", "root", "sleep 9")
    stage.world.lying = dict.fromkeys(EVERY, encode(Listing(())))
    stage.world.lying |= {
        4: encode(Listing((command,))),
        5: encode(Listing((command, msgspec.structs.replace(command, tag=OTHER)))),
    }
    assert stage.type("--list") == exit_codes.OK
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{TAG.hex()}  ann as root  10.0.0.[4-5]  sleep 9",
        f"{OTHER.hex()}  ann as root  10.0.0.5  sleep 9",
    ]
    assert err.startswith("11 of 11 answered in ")
    assert stage.type("--list", "-w", "10.0.0.5", "--json", "-q") == exit_codes.OK
    first, _ = capsys.readouterr().out.splitlines()
    assert fitting("exec-running", first)["nodes"] == ["10.0.0.5"]
    assert stage.asked == [None, [5]]
    assert stage.tasks == [List(), List()]


def test_cancel(stage: Stage, capsys: Said) -> None:
    stage.answer(how="not running")
    assert stage.type("--cancel", TAG.hex()) == exit_codes.NO_SUCH_NODE
    assert "not running on any node" in capsys.readouterr().err
    stage.answer(3, 4, how="exited")
    assert stage.type("--cancel", TAG.hex()) == exit_codes.OK
    assert "subord: ended on 2 of 11 nodes" in capsys.readouterr().err.splitlines()
    assert stage.tasks == [Stop(TAG), Stop(TAG)]


def refusing(stage: Stage) -> None:
    """Three nodes do not do as asked, each for another reason."""
    stage.answer(6, how="other release")
    stage.answer(7, how="no such user", detail="slurm")
    stage.world.lying |= {8: b"\xff\xff"}


REFUSED = [
    "subord: 10.0.0.6: the agent does not understand the order: it runs another release",
    "subord: 10.0.0.8: the answer is of another release",
    "subord: 10.0.0.7: there is no such user (slurm)",
]


def test_list_names_the_nodes_that_list_nothing(stage: Stage, capsys: Said) -> None:
    stage.world.lying = dict.fromkeys(EVERY, encode(Listing(())))
    refusing(stage)
    for words in (("--list",), ("--list", "-q"), ("--list", "--json")):
        assert stage.type(*words) == exit_codes.NOT_REACHED
        *refused, last = capsys.readouterr().err.splitlines()
        assert refused == REFUSED
        assert last.startswith("11 of 11 answered in ")
    stage.answer(how="exited")
    assert stage.type("--list") == exit_codes.NOT_REACHED
    assert "subord: 10.0.0.[1-11]: the answer is of another release" in capsys.readouterr().err


def test_cancel_names_the_nodes_where_the_command_may_go_on(stage: Stage, capsys: Said) -> None:
    stage.answer(how="not running")
    refusing(stage)
    assert stage.type("--cancel", TAG.hex()) == exit_codes.NOT_REACHED
    assert set(REFUSED) <= set(capsys.readouterr().err.splitlines())
    stage.answer(3, 4, how="exited")
    assert stage.type("--cancel", TAG.hex(), "-q") == exit_codes.NOT_REACHED
    lines = capsys.readouterr().err.splitlines()
    assert set(REFUSED) <= set(lines)
    assert lines[-1] == "subord: ended on 2 of 11 nodes"


def test_results_that_the_daemon_has_not_shown_are_counted(
    stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give(*words: Any) -> Iterator[Any]:
        for each in giving.give(*words):
            yield each if isinstance(each, Told) else {**each, "unshown": 2}

    monkeypatch.setattr(earlier, "give", give)
    stage.answer(how="exited")
    assert stage.type("--cancel", TAG.hex()) == exit_codes.NOT_REACHED
    assert "the results of 2 nodes are not shown" in capsys.readouterr().err
    stage.world.lying = dict.fromkeys(EVERY, encode(Listing(())))
    assert stage.type("--list") == exit_codes.NOT_REACHED
    assert "the results of 2 nodes are not shown" in capsys.readouterr().err


def test_another_terminal_shows_what_a_command_is_told(stage: Stage, capsys: Said) -> None:
    groups = ((encode(Ended("exited", 3, Part(b"one\n"))), Ranges.of((2, 3))), (TRUE, Ranges.of((4,))))
    answer = Answer(targets=Ranges.of((2, 3, 4, 5)), groups=groups, missing=(("down", Ranges.of((5,))),))
    stage.node.orders.awaited[TAG] = answer
    assert stage.type("--attach", TAG.hex()) == exit_codes.NOT_REACHED
    out, err = capsys.readouterr()
    assert out == "10.0.0.2: one\n10.0.0.3: one\n"
    first, last = err.splitlines()
    assert first == "subord: 10.0.0.[2-3]: exit code 3"
    assert last.startswith("3 of 4 ended in ")
    assert last.endswith("; missing: 10.0.0.5 down")
    assert stage.type("--attach", TAG.hex(), "-b", "-q", "-S") == 3
    assert stage.asked == [], "no order is given"
    assert stage.type("--attach", OTHER.hex()) == exit_codes.NO_SUCH_NODE
    assert "no command on this node waits" in capsys.readouterr().err
    assert stage.type("--attach", "x") == exit_codes.USAGE


@pytest.mark.parametrize(("owner", "tag", "status"), [(False, TAG.hex(), 403), (True, "x", 400), (True, "", 404)])
async def test_only_root_and_the_daemon_follow(owner: bool, tag: str, status: int) -> None:
    node = World().node(NODE)
    response = await signed_handlers(node)["/v1/exec/follow"](Call({"tag": tag}, b"", is_owner=owner))
    assert response.status == status


def test_fetch(stage: Stage, capsys: Said) -> None:
    stage.world.lying |= {3: encode(Piece(4, b"data"))}
    tag = bytes(16).hex()
    assert stage.type("--fetch", tag, "10.0.0.3") == exit_codes.OK
    assert capsys.readouterr() == ("data", "data")
    assert stage.tasks == [Fetch(bytes(16), 1), Fetch(bytes(16), 2)]
    stage.answer(3, how="not kept")
    assert stage.type("--fetch", tag, "10.0.0.3") == exit_codes.NOT_REACHED
    assert "keeps no such output" in capsys.readouterr().err
    assert stage.type("--fetch", tag, "10.0.0.[3-4]") == exit_codes.USAGE


def test_fetching_waits_for_a_node_that_is_busy(stage: Stage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.world.lying |= {3: encode(Piece(4, b"data"))}
    busy = {"missing": [{"cause": "busy", "count": 1, "addresses": ["10.0.0.3"]}]}
    given: list[Any] = []

    def give(*words: Any) -> Iterator[Any]:
        given.append(words)
        return iter((busy,)) if len(given) in refused else giving.give(*words)

    monkeypatch.setattr(earlier, "give", give)
    monkeypatch.setattr(earlier, "BUSY_S", 0.0)
    refused = {1, 2, 4}
    assert stage.type("--fetch", TAG.hex(), "10.0.0.3") == exit_codes.OK
    assert capsys.readouterr() == ("data", "data")
    refused = set(range(100))
    assert stage.type("--fetch", TAG.hex(), "10.0.0.3") == exit_codes.TRY_AGAIN
    assert "10.0.0.3 is busy, perhaps it checks too many signatures" in capsys.readouterr().err
