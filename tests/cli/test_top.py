"""`subord top`: the text of the page, and the screen of a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from loops import over

from subord.cli import main
from subord.client import exit_codes
from subord.client.drawing import colourless
from subord.client.top_view import BARS_ASCII, Answers, page, spark
from subord.core.view import Liveness
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon, fixed_answer, hanging
from tests.browser.shares_world import STALE, shares_document
from tests.cli.test_cli_errors import ENVIRONMENT, SUBORD
from tests.cli.test_events import SOME, WALL, answer

pytestmark = pytest.mark.slow

TOP = [*SUBORD, "top", "--interval", "0.2", "--socket"]


@pytest.mark.parametrize(
    ("numbers", "bars", "text"),
    [
        ([], BARS_ASCII, ""),
        ([0, 0], BARS_ASCII, "  "),
        ([1, 0, 100, 50], BARS_ASCII, ". @="),
        ([1, 2, 4, 8], " ▁▂▃▄▅▆▇█", "▁▂▄█"),
    ],
)
def test_spark(numbers: list[int], bars: str, text: str) -> None:
    assert spark(numbers, bars) == text


def row(number: int, leader: int | None) -> dict[str, Any]:
    name = None if leader is None else f"10.0.0.{leader}"
    place = "root" if leader is None else "home"
    return {"address": f"10.0.0.{number}", "leader": name, "standing": "live", "place": place}


def answers_with(problem_count: int = 0, nodes: int = 9, note: str | None = None) -> Answers:
    tree = {"nodes": nodes, "at_home": nodes, "depth": 1, "down": 0, "stale": 0, "held": 0, "maintained": 0}
    tree["note"] = note
    tree["rows"] = [row(1, None), *(row(number, 1 if number < 7 else 2) for number in range(2, nodes + 1))]
    problem = {"kind": "lost", "nodes": 1, "addresses": ["10.0.0.3"], "ago_s": None}
    problems = [{**problem, "text": f"problem {number}"} for number in range(problem_count)]
    errors = {"nodes": nodes, "problems": problems, "more": 0, "silent": [], "silent_nodes": 0, "older_nodes": 0}
    return Answers(tree, {**errors, "note": None}, answer(SOME), 3.0, ())


def text_of(what: Answers, height: int = 60) -> list[str]:
    return colourless(page(what, height, WALL + 90, is_ascii=True)).splitlines()


def test_a_page() -> None:
    lines = text_of(answers_with(problem_count=1))
    assert lines[:4] == [
        "9 nodes, depth 1, all at home, root 10.0.0.1",
        "",
        "9 nodes answered, 1 problem  3.0 s ago",
        "  10.0.0.3: problem 0",
    ]
    assert lines[5] == f"4 changes in 30 min  |{'@':>29} |"
    assert re.fullmatch(
        r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  missing     10\.0\.0\.9         was below 10\.0\.0\.5", lines[6]
    )
    assert lines[-3:] == ["most subordinates", "  10.0.0.1  5  #####", "  10.0.0.2  3  ###"]


@over("height", [0, 1, 2, 5, 12, 23, 60])
@over("problem_count", [0, 3, 40])
def test_a_page_fits_its_screen(height: int, problem_count: int) -> None:
    lines = text_of(answers_with(problem_count), height)
    assert len(lines) <= height
    assert height < 1 or lines[0].startswith("9 nodes")
    if height >= 12:
        assert {"most subordinates"} <= set(lines)
        assert any("changes in" in line for line in lines)
        assert any("answered" in line for line in lines)


def order(service: str = "ping", **fields: Any) -> dict[str, Any]:
    counts = {"asked": 11, "told": 3, "missing": 1, "left_s": 0.4, "since_s": 4.0}
    return {"service": service, "issuer": "10.0.0.5", "own": False, **counts, **fields}


def test_orders_under_way_are_shown_with_their_coverage() -> None:
    held = [order(), order("keys", own=True, missing=0), *(order("errors") for _ in range(3))]
    lines = text_of(answers_with()._replace(orders={"orders": held, "ended": [order()]}))
    assert lines[1:5] == [
        "order ping from 10.0.0.5: 3 of 11 answered, 1 missing; ends within 0.4 s",
        "order keys: 3 of 11 answered; ends within 0.4 s",
        "order errors from 10.0.0.5: 3 of 11 answered, 1 missing; ends within 0.4 s",
        "and 2 more orders under way",
    ]
    lines = text_of(answers_with()._replace(orders={"orders": [], "ended": [order(own=True)]}))
    assert lines[1] == "no order under way; the last, 4.0 s ago: ping: 3 of 11 answered, 1 missing"
    assert text_of(answers_with()._replace(orders={"orders": [], "ended": []}))[1] == "no order under way"


def shares(**fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(shares_document(**fields))
    return found


def test_shares_are_shown_with_the_nodes_that_decide_on_them() -> None:
    lines = text_of(answers_with()._replace(shares=shares(missing=(STALE,))))
    classes = "web uses 57 of 60 %, batch uses 22.6 of 30 % (needy), test uses 9.33 of 10 %"
    assert lines[1] == f"shares: {classes}; 496 of 500 nodes in the decisions"
    many = shares(wanted={f"c{number}": 12.5 for number in range(8)})
    assert ", 2 more classes; 500 of 500 nodes" in text_of(answers_with()._replace(shares=many))[1]
    unknown = [{**each, "used": None} for each in many["classes"][:1]]
    assert "c0 uses ? of 12.5 %;" in text_of(answers_with()._replace(shares={**many, "classes": unknown}))[1]


def test_shares_that_are_off_or_not_known_are_said_to_be() -> None:
    off = {**shares(moments=0), "classes": []}
    assert text_of(answers_with()._replace(shares=off))[1] == "shares are off"
    assert text_of(answers_with()._replace(shares={**off, "version": None})) == text_of(answers_with())
    unknown = {**shares(), "address": None}
    assert text_of(answers_with()._replace(shares=unknown))[1] == "shares: the root has not told its figures"


def test_a_page_before_anything_is_known() -> None:
    assert text_of(Answers(None, None, None, 0.0, ["no daemon"]))[0] == "no daemon"


def test_once(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.liveness[5] = Liveness.MISSING
    changes = fixed_answer(json.dumps(answer(SOME)).encode())
    with fake_daemon(world.node(3), {"/v1/changes": changes}) as path:
        assert main(["top", "--once", "--socket", path]) == exit_codes.OK
    out = capsys.readouterr().out
    assert out.startswith("10 nodes, 1 down, depth 3, all at home, root 10.0.0.1\nno order under way\n\n")
    assert "  10.0.0.5: down: ended or vanished without goodbye\n" in out


def test_without_a_daemon(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--socket", "/nowhere"]) == exit_codes.DAEMON_UNREACHABLE
    assert capsys.readouterr().err.count("\n") == 1


def test_a_daemon_that_hangs_is_an_error_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_daemon(World().node(3), {"/v1/tree": hanging}) as path:
        assert main(["top", "--timeout", "0.3", "--socket", path]) == exit_codes.TRY_AGAIN


def test_a_hanging_daemon_is_reported_once_before_the_timeout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subord.client.daemon._slow_line", threading.Lock())
    monkeypatch.setattr("subord.client.daemon.SLOW_S", 0.1)
    hung = dict.fromkeys(("/v1/tree", "/v1/errors", "/v1/changes"), hanging)
    with fake_daemon(World().node(3), hung) as path:
        assert main(["top", "--once", "--timeout", "0.5", "--socket", path]) == exit_codes.TRY_AGAIN
    slow, ended = capsys.readouterr().err.splitlines()
    assert slow == f"subord: the daemon at {path} has not answered for 0.1 s; waiting up to 0.5 s"
    assert ended.startswith(f"subord: the daemon at {path} does not answer within 0.5 s")


def test_into_a_pipe_it_prints_page_after_page() -> None:
    with daemon(World()) as path:
        child = subprocess.Popen([*TOP, path], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        heads = (line for line in child.stdout if line.startswith("11 nodes, depth 3"))
        assert len([next(heads) for _ in range(3)]) == 3
        child.stdout.close()
        assert child.wait(30) == exit_codes.PIPE_CLOSED


# -- on a terminal --------------------------------------------------------------------------------------------------


class Terminal:
    """The keyboard and the screen of a child process, as a stream of bytes."""

    def __init__(self, master: int, child: subprocess.Popen[bytes]) -> None:
        self.master, self.child = master, child
        self.shown = ""

    def until(self, condition: Callable[[str], object]) -> None:
        deadline = time.monotonic() + 30
        while not condition(self.shown):
            assert time.monotonic() < deadline, self.shown[-3000:]
            try:
                self.shown += os.read(self.master, 65536).decode("utf-8", "replace")
            except OSError:  # its other end is closed: EIO
                assert condition(self.shown), self.shown[-3000:]

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())


@contextmanager
def terminal(path: str, *words: str, **variables: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm-256color", **variables}
    for name in ("NO_COLOR", "LINES", "COLUMNS"):  # the last two would hide the size of the terminal
        environment.pop(name, None)
    child = subprocess.Popen([*TOP, path, *words], env=environment, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    screen = Terminal(master, child)
    screen.resize(24, 80)
    try:
        yield screen
    finally:
        child.kill()
        child.wait()
        os.close(master)


@contextmanager
def daemon(world: World) -> Iterator[str]:
    with fake_daemon(world.node(3), {"/v1/changes": fixed_answer(json.dumps(answer(SOME)).encode())}) as path:
        yield path


def test_on_a_terminal_it_lives_until_q() -> None:
    world = World()
    with daemon(world) as path, terminal(path) as screen:
        screen.until(lambda shown: "11 nodes, depth 3" in shown)
        assert "\x1b[?1049h" in screen.shown  # the alternate screen
        assert "\x1b[1" in screen.shown  # bold
        world.liveness[5] = Liveness.MISSING
        screen.until(lambda shown: "10 nodes, 1 down" in shown)
        screen.resize(6, 30)
        screen.until(lambda shown: "…" in shown)
        assert screen.child.poll() is None
        screen.press("x")
        screen.press("q")
        screen.until(lambda shown: "\x1b[?1049l" in shown)
        assert screen.child.wait(30) == exit_codes.OK
    assert "Traceback" not in screen.shown


def test_what_was_typed_before_it_listened_counts() -> None:
    with daemon(World()) as path, terminal(path) as screen:
        screen.press("q")
        screen.until(lambda shown: "\x1b[?1049l" in shown)
        assert screen.child.wait(30) == exit_codes.OK


def test_without_colours_nothing_is_coloured() -> None:
    with daemon(World()) as path, terminal(path, "--no-color") as screen:
        screen.until(lambda shown: "11 nodes, depth 3" in shown)
        screen.press("q")
        screen.until(lambda shown: "\x1b[?1049l" in shown)
        assert screen.child.wait(30) == exit_codes.OK
    assert re.findall(r"\x1b\[[0-9;]*m", screen.shown.replace("\x1b[0m", "")) == []


def test_a_stopped_daemon_is_reported_and_waited_for() -> None:
    with daemon(World()) as path, terminal(path) as screen:
        screen.until(lambda shown: "11 nodes, depth 3" in shown)
        hidden = f"{path}.hidden"
        os.rename(path, hidden)
        screen.until(lambda shown: "no subord daemon answers" in shown)
        os.rename(hidden, path)
        before = len(screen.shown)
        screen.until(lambda shown: "11 nodes" in shown[before:] and "no subord" not in shown[-1500:])
        screen.child.send_signal(signal.SIGINT)
        screen.until(lambda shown: "\x1b[?1049l" in shown)
        assert screen.child.wait(30) == exit_codes.INTERRUPTED


def test_a_dumb_terminal_gets_pages() -> None:
    with daemon(World()) as path, terminal(path, TERM="dumb") as screen:
        screen.until(lambda shown: shown.count("11 nodes, depth 3") >= 2)
    assert "\x1b" not in screen.shown


def test_it_starts_without_rich() -> None:
    code = "import subord.cli.top, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert not {"msgspec", "trio", "rich"} & set(done.stdout.split())
