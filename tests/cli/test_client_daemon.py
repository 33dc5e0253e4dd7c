"""Every failure to get an answer is one line with its own exit code."""

from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from loops import over

from subord.client import exit_codes
from subord.client.daemon import SilentError, UnreachableError, _left_s, ask
from subord.client.errors import CommandError
from subord.client.options import add_asking
from tests.api.fake_node_api import World
from tests.api.served_node import fake_daemon, fixed_answer, hanging


def test_an_answer_is_a_document() -> None:
    with fake_daemon(World().node(4)) as path:
        assert ask(path, "/v1/status")["address"] == "10.0.0.4"


@over(
    ("body", "status", "exit_code", "sentence"),
    [
        (b"<html>", 200, exit_codes.DAEMON_UNREACHABLE, "is not a subord daemon"),
        (b"[1]", 200, exit_codes.DAEMON_UNREACHABLE, "is not a subord daemon"),
        (b"\xff", 500, exit_codes.DAEMON_UNREACHABLE, "is not a subord daemon"),
        (b'{"error": "no such"}', 404, exit_codes.NO_SUCH_NODE, "no such"),
        (b'{"error": "x\\u001b[31m"}', 504, exit_codes.TRY_AGAIN, r"x\?\[31m"),
        (b"{}", 500, exit_codes.INTERNAL, "HTTP status 500"),
    ],
)
def test_an_unusable_answer(body: bytes, status: int, exit_code: int, sentence: str) -> None:
    with fake_daemon(World().node(4), {"/x": fixed_answer(body, status)}) as path:
        with pytest.raises(CommandError, match=sentence) as caught:
            ask(path, "/x")
        assert caught.value.exit_code == exit_code


def test_an_older_daemon_that_does_not_know_the_question() -> None:
    with fake_daemon(World().node(4)) as path:
        with pytest.raises(CommandError, match=r"does not know /v1/horoscope: it runs an older release") as caught:
            ask(path, "/v1/horoscope?of=10.0.0.4")
        assert caught.value.exit_code == exit_codes.DAEMON_UNREACHABLE
        with pytest.raises(CommandError, match="is not an address") as caught:
            ask(path, "/v1/why?address=x")
        assert caught.value.exit_code == exit_codes.NO_SUCH_NODE


def test_a_daemon_that_hangs() -> None:
    with fake_daemon(World().node(4), {"/x": hanging}) as path:
        with pytest.raises(CommandError, match=r"does not answer within 0\.1 s") as caught:
            ask(path, "/x", timeout_s=0.1)
        assert caught.value.exit_code == exit_codes.TRY_AGAIN


def test_without_a_daemon_there_is_one_sentence() -> None:
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

    # Root, which often runs tests, may open every socket.
    monkeypatch.setattr("subord.client.daemon._UnixConnection.connect", refuse)
    with pytest.raises(CommandError, match="no permission for /run/c: use sudo, or join the group") as caught:
        ask("/run/c", "/v1/status")
    assert caught.value.exit_code == exit_codes.PERMISSION


@contextmanager
def partial_daemon(answer: bytes, *, hangs: bool = False) -> Iterator[str]:
    """The path of a socket whose server answers one question with these bytes, then closes it, or hangs."""
    ended = threading.Event()
    with TemporaryDirectory(prefix="s") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/c"
        listener.bind(path)
        listener.listen()

        def answer_once() -> None:
            with listener.accept()[0] as caller:
                while not caller.recv(4096).endswith(b"\r\n\r\n"):
                    pass
                caller.sendall(answer)
                if hangs:
                    ended.wait()

        thread = threading.Thread(target=answer_once)
        thread.start()
        try:
            yield path
        finally:
            ended.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"


@over("answer", [b"", b"HTTP/1.1", HEAD, HEAD + b'{"rows": [', HEAD + b'{"nodes": 1}', CHUNKS])
def test_a_daemon_that_stops_in_the_middle(answer: bytes) -> None:
    """Even if the received part is a JSON object."""
    with partial_daemon(answer) as path, pytest.raises(UnreachableError, match=r"broke off .*: is it stopping"):
        ask(path, "/v1/status")


@pytest.mark.parametrize("length", [2, 1 << 20])
def test_an_answer_is_whole_at_its_length(length: int) -> None:
    """The client does not wait for the end of the connection."""
    answer = f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{{{' ' * (length - 2)}}}".encode()
    with partial_daemon(answer, hangs=True) as path:
        assert ask(path, "/v1/status") == {}


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n", HEAD, HEAD + b"{"])
def test_a_daemon_that_hangs_in_the_middle(answer: bytes) -> None:
    with partial_daemon(answer, hangs=True) as path, pytest.raises(SilentError, match=r"within 0\.1 s"):
        ask(path, "/v1/status", timeout_s=0.1)


def test_the_slow_line_counts_towards_the_timeout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("subord.client.daemon._slow_line", threading.Lock())
    monkeypatch.setattr("subord.client.daemon.SLOW_S", 0.5)
    left_s: list[float] = []

    def left(until: float) -> float:
        left_s.append(until - time.monotonic())
        return _left_s(until)

    monkeypatch.setattr("subord.client.daemon._left_s", left)
    with fake_daemon(World().node(4), {"/x": hanging}) as path:
        began = time.monotonic()
        with pytest.raises(SilentError, match=r"does not answer within 0\.7 s"):
            ask(path, "/x", timeout_s=0.7)
        assert time.monotonic() - began >= 0.7
    assert left_s[0] < 0.3, "reading begins with the time that is left"
    assert capsys.readouterr().err == (
        f"subord: the daemon at {path} has not answered for 0.5 s; waiting up to 0.7 s\n"
    )


@over("text", ["0", "-1", "nan", "inf", "soon", "86401"])
def test_an_invalid_timeout(text: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_asking(parser)
    with pytest.raises(argparse.ArgumentError, match="must be seconds"):
        parser.parse_args(["--timeout", text])
