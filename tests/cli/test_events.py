"""`subord events`: its output, and that no failure of the daemon ends it while it follows."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
import trio
from loops import over

from subord.api.http.server import Handler, Query, Response
from subord.cli import events, main
from subord.client import exit_codes
from subord.client.daemon import UnreachableError
from subord.client.errors import CommandError
from subord.client.options import duration
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon, fixed_answer
from tests.cli.test_cli_errors import ENVIRONMENT, SUBORD

WALL = 1_700_000_000.0


def change(number: int, kind: str, **fields: Any) -> dict[str, Any]:
    base = {"number": number, "wall": WALL + number, "kind": kind, "address": "10.0.0.9", "leader": None, "old": None}
    return {**base, "place": None, **fields}


SOME = [
    change(1, "root", place="root"),
    change(2, "joined", leader="10.0.0.4", place="home"),
    change(3, "moved", leader="10.0.0.5", old="10.0.0.4", place="guest"),
    change(4, "missing", old="10.0.0.5"),
]


def answer(changes: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"source": "10.0.0.1", "token": "1.2.3", "missed": False, "changes": changes, "note": None, **fields}


@contextmanager
def serving_changes(document: Mapping[str, Any]) -> Iterator[str]:
    with fake_daemon(World().node(1), {"/v1/changes": fixed_answer(json.dumps(document).encode())}) as path:
        yield path


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_changes_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with serving_changes(answer(SOME, note="10.0.0.1 (root) does not answer")) as path:
        assert main(["events", "--socket", path]) == exit_codes.OK
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "2023-11-14 22:13:21  root        10.0.0.9",
        "2023-11-14 22:13:22  joined      10.0.0.9         below 10.0.0.4",
        "2023-11-14 22:13:23  moved       10.0.0.9         10.0.0.4 -> 10.0.0.5, guest",
        "2023-11-14 22:13:24  missing     10.0.0.9         was below 10.0.0.5",
    ]
    assert err == "subord: incomplete: 10.0.0.1 (root) does not answer\n"


def test_changes_as_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with serving_changes(answer(SOME)) as path:
        assert main(["events", "--json", "--socket", path]) == exit_codes.OK
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == SOME


def test_only_the_latest(capsys: pytest.CaptureFixture[str]) -> None:
    latest = change(9, "root", wall=time.time() - 30)
    with serving_changes(answer([*SOME, latest])) as path:
        assert main(["events", "--json", "--since", "1min", "--socket", path]) == exit_codes.OK
        assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [latest]
        assert main(["events", "--json", "--since", "10s", "--socket", path]) == exit_codes.OK
        assert capsys.readouterr().out == ""


@over(("text", "seconds"), [("90", 90), ("90s", 90), ("10min", 600), ("1.5 h", 5400), ("2d", 172800), ("3m", 180)])
def test_times(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@over("text", ["", "soon", "-1s", "0", "1y", "9999d", "nan", "1e999"])
def test_invalid_times(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be a time such as"):
        duration(text)


# -- following ------------------------------------------------------------------------------------------------------


def test_following_survives_failures_of_the_daemon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each failure and its end are reported once, missed changes are reported, and the last token is used again."""
    gone = UnreachableError("no subord daemon answers at /s: is it running?")
    hung = CommandError("does not answer within 5 s", exit_codes.TRY_AGAIN)
    answers: list[Any] = [
        answer(SOME[:1], token="t1"),
        gone,
        hung,
        gone,
        answer([], token="t1", note="10.0.0.1 (root) does not answer"),
        answer(SOME[1:2], token="t2", missed=True),
        KeyboardInterrupt(),
    ]
    asked = []

    def ask(path: str, target: str, timeout_s: float) -> Any:
        asked.append(target)
        next_answer = answers.pop(0)
        if isinstance(next_answer, BaseException):
            raise next_answer
        return next_answer

    monkeypatch.setattr(events, "ask", ask)
    monkeypatch.setattr(events, "pause", lambda _: None)
    assert main(["events", "--follow", "--json", "--socket", "/s"]) == exit_codes.INTERRUPTED
    _, err = capsys.readouterr()
    assert asked == ["/v1/changes", *["/v1/changes?since=t1"] * 5, "/v1/changes?since=t2"]
    assert err.splitlines() == [
        "subord: waiting: no subord daemon answers at /s: is it running?",
        "subord: continuing",
        "subord: some changes were missed: the daemon does not have them any more",
    ]


def test_a_permanent_failure_ends_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [answer([]), CommandError("no permission for /s", exit_codes.PERMISSION)]

    def ask(*_: object) -> Any:
        next_answer = answers.pop(0)
        if isinstance(next_answer, Exception):
            raise next_answer
        return next_answer

    monkeypatch.setattr(events, "ask", ask)
    assert main(["events", "--follow", "--socket", "/s"]) == exit_codes.PERMISSION


def numbered() -> Handler:
    """One new change for each request."""
    numbers = count(1)

    async def handler(_: Query) -> Response:
        await trio.lowlevel.checkpoint()
        number = next(numbers)
        return Response(json.dumps(answer([change(number, "root")], token=f"t{number}")).encode())

    return handler


@contextmanager
def following(path: str, *words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [*SUBORD, "events", "--follow", "--json", "--socket", path, *words]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, **options) as child:
        try:
            yield child
        finally:
            child.kill()


def test_ctrl_c_ends_it_quietly() -> None:
    daemon = fake_daemon(World().node(1), {"/v1/changes": numbered()})
    with daemon as path, following(path, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert [json.loads(child.stdout.readline())["number"] for _ in range(2)] == [1, 2]
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=30)[1] == b""
        assert child.returncode == exit_codes.INTERRUPTED


def test_a_closed_pipe_ends_it_without_changes() -> None:
    with serving_changes(answer(SOME)) as path:
        reader, writer = os.pipe()
        with following(path, stdout=writer) as child:
            os.close(writer)
            assert os.read(reader, 1)
            os.close(reader)
            assert child.wait(30) == exit_codes.PIPE_CLOSED
            assert child.stderr is not None
            assert child.stderr.read() == b""


def test_nothing_heavy_is_imported() -> None:
    imported = "subord.cli.events, subord.cli.members, subord.services.errors.command, subord.cli.tree"
    code = f"import {imported}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert not {"msgspec", "trio", "rich"} & set(done.stdout.split())
