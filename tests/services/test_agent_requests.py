"""The agent's request to the daemon, which may answer anything, or nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loops import over

from subord.services.control import HEAD_BYTES_MAX, ControlError, UnansweredError, post

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
BYTES_MAX = 1 << 20


@contextmanager
def answering(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A daemon that reads one request, and then does this."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield str(path)
        thread.join()


def test_an_answer_may_come_in_many_pieces(tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000

    def answer(connection: socket.socket) -> None:
        data = HEAD % len(content) + content
        for at in range(0, len(data), 7919):
            connection.sendall(data[at : at + 7919])

    with answering(tmp_path / "socket", answer) as path:
        found = post(path, "/v1/x", 5.0, BYTES_MAX)
    assert (found.body, found.is_json) == (content, False)


@over(
    ("data", "said"),
    [
        (b"", "breaks off"),
        (b"SSH-2.0\r\n\r\n", "malformed"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "malformed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "malformed"),
        (HEAD % 5 + b"four", "breaks off"),
        (HEAD % 3 + b"four", "malformed"),
        (HEAD % (BYTES_MAX + 1), "malformed"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (HEAD_BYTES_MAX // 6), "malformed"),
        (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "503"),
        (
            b'HTTP/1.1 404 No\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{"error": "none"}',
            "none",
        ),
        (b"HTTP/1.1 404 No\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{", "malformed"),
    ],
)
def test_what_is_no_answer(data: bytes, said: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    top = tmp_path_factory.mktemp("node")
    with (
        answering(top / "socket", lambda connection: connection.sendall(data)) as path,
        pytest.raises(ControlError, match=said),
    ):
        post(path, "/v1/x", 5.0, BYTES_MAX)


@over(
    ("data", "is_for_now"),
    [
        (HEAD % 5 + b"four", True),
        (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", False),
    ],
)
def test_what_may_be_answered_later(data: bytes, is_for_now: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    top = tmp_path_factory.mktemp("node")
    with (
        answering(top / "socket", lambda connection: connection.sendall(data)) as path,
        pytest.raises(ControlError) as raised,
    ):
        post(path, "/v1/x", 5.0, BYTES_MAX)
    assert isinstance(raised.value, UnansweredError) == is_for_now


def test_a_daemon_that_does_not_answer_in_time(tmp_path: Path) -> None:
    is_over = threading.Event()

    def wait(_: socket.socket) -> None:
        is_over.wait(5.0)

    with answering(tmp_path / "socket", wait) as path:
        with pytest.raises(ControlError, match=r"within 0\.05 s"):
            post(path, "/v1/x", 0.05, BYTES_MAX)
        is_over.set()


def test_no_daemon(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="No such file"):
        post(str(tmp_path / "socket"), "/v1/x", 1.0, BYTES_MAX)
