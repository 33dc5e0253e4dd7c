"""Every way not to get an answer is one line with its own exit code."""

from __future__ import annotations

import argparse
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from subord.cli import exit_codes
from subord.cli.client import UnreachableError, add_timeout, ask
from subord.cli.errors import CommandError
from tests.api.fake_shown import World
from tests.api.served_node import fake_daemon, never, says


def test_an_answer_is_a_document() -> None:
    with fake_daemon(World().node(4)) as path:
        assert ask(path, "/v1/status")["address"] == "10.0.0.4"


@pytest.mark.parametrize(
    ("body", "status", "exit_code", "sentence"),
    [
        (b"<html>", 200, exit_codes.DAEMON_UNREACHABLE, "is no subord daemon"),
        (b"[1]", 200, exit_codes.DAEMON_UNREACHABLE, "is no subord daemon"),
        (b"\xff", 500, exit_codes.DAEMON_UNREACHABLE, "is no subord daemon"),
        (b'{"error": "no such"}', 404, exit_codes.NO_SUCH_NODE, "no such"),
        (b'{"error": "x\\u001b[31m"}', 504, exit_codes.TRY_AGAIN, r"x\?\[31m"),
        (b"{}", 500, exit_codes.INTERNAL, "HTTP status 500"),
    ],
)
def test_an_answer_that_is_none(body: bytes, status: int, exit_code: int, sentence: str) -> None:
    with fake_daemon(World().node(4), {"/x": says(body, status)}) as path:
        with pytest.raises(CommandError, match=sentence) as caught:
            ask(path, "/x")
        assert caught.value.exit_code == exit_code


def test_a_daemon_that_hangs() -> None:
    with fake_daemon(World().node(4), {"/x": never}) as path:
        with pytest.raises(CommandError, match=r"does not answer within 0\.1 s") as caught:
            ask(path, "/x", timeout_s=0.1)
        assert caught.value.exit_code == exit_codes.TRY_AGAIN


def test_nobody_there() -> None:
    with TemporaryDirectory(prefix="s") as folder:
        path = Path(folder) / "c"
        for _ in range(2):
            with pytest.raises(UnreachableError, match=r"is it running\? see `subord run`") as caught:
                ask(str(path), "/v1/status")
            assert caught.value.exit_code == exit_codes.DAEMON_UNREACHABLE
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(str(path)) if not path.exists() else None


def test_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError

    # Root, as whom tests often run, may open every socket.
    monkeypatch.setattr("subord.cli.client._UnixConnection.connect", refuse)
    with pytest.raises(CommandError, match="no permission") as caught:
        ask("/run/c", "/v1/status")
    assert caught.value.exit_code == exit_codes.PERMISSION


def test_a_daemon_that_stops_in_the_middle() -> None:
    with TemporaryDirectory(prefix="s") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/c"
        listener.bind(path)
        listener.listen()

        def hang_up() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(UnreachableError, match="broke off"):
            ask(path, "/v1/status")
        thread.join()


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon", "86401"])
def test_a_timeout_that_is_none(text: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_timeout(parser)
    with pytest.raises(argparse.ArgumentError, match="must be seconds"):
        parser.parse_args(["--timeout", text])
