"""Files and pages: their text, and the reasons of failures."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loops import over

from subord.config.performance import Place
from subord.runtime.jobs import fetching
from subord.runtime.jobs.fetching import BYTES_MAX, file_text, page_text
from subord.runtime.jobs.readings import ReadingError


def reason(path: Path) -> str:
    with pytest.raises(ReadingError) as caught:
        file_text(str(path))
    return caught.value.reason


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "jobs"
    assert reason(file) == "missing"
    file.write_text("42\n")
    assert file_text(str(file)) == "42\n"
    file.write_bytes(b"4\xff")
    assert reason(file) == "garbled"
    file.write_bytes(b"1" * (BYTES_MAX + 1))
    assert reason(file) == "too_large"
    file.write_bytes(b"1" * BYTES_MAX)
    assert len(file_text(str(file))) == BYTES_MAX


def test_a_pipe_or_device_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert [reason(each) for each in (tmp_path / "pipe", tmp_path, Path("/dev/zero"))] == ["unreadable"] * 3
    (tmp_path / "file").touch()
    assert reason(tmp_path / "file" / "below") == "unreadable"


@contextmanager
def server(*parts: bytes, is_open: bool = False) -> Iterator[tuple[Place, list[bytes]]]:
    """Sends this to each caller; `open`: does not close the connection."""
    asked: list[bytes] = []
    stop = threading.Event()

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(65536))
            try:
                for part in parts:
                    connection.sendall(part)
                if is_open:
                    stop.wait()
            except OSError:
                pass  # the other side has had enough

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        yield Place("127.0.0.1", listener.getsockname()[1], "/metrics?x=1"), asked
        stop.set()
        thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        (HEAD, b"Content-Length: 5\r\n\r\n", b"x 42\n"),
        (HEAD + b"Content-Length: 5\r\n\r\nx", b" 4", b"2\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nx \r\n3\r\n42\n\r\n0\r\n\r\n",),
        (HEAD + b"\r\nx 42\n",),  # to the end of the connection
    ],
)
def test_a_page(parts: tuple[bytes, ...]) -> None:
    with server(*parts) as (place, asked):
        assert page_text(place) == "x 42\n"
    assert asked[0].startswith(b"GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1")
    assert b"Accept: text/plain; version=0.0.4\r\n" in asked[0]


@over(
    ("parts", "expected"),
    [
        ((b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",), "unreadable"),
        ((b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",), "unreadable"),
        ((b"SSH-2.0-x\r\n",), "unreadable"),
        ((), "unreadable"),
        ((HEAD + b"Content-Length: 50\r\n\r\nx 42\n",), "unreadable"),
        ((HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nx ",), "unreadable"),
        ((HEAD + b"\r\n\xff",), "garbled"),
        ((HEAD + b"\r\n", b"x" * (BYTES_MAX + 1)), "too_large"),
        ((HEAD + b"Content-Length: 99999999\r\n\r\n", b"x" * (BYTES_MAX + 1)), "too_large"),
    ],
)
def test_invalid_pages(parts: tuple[bytes, ...], expected: str) -> None:
    with server(*parts) as (place, _), pytest.raises(ReadingError) as caught:
        page_text(place)
    assert caught.value.reason == expected


@pytest.mark.parametrize("parts", [(), (b"HTTP/1.1 200",), (HEAD + b"\r\nx 4",)])
def test_a_page_without_an_end_times_out(parts: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_S_MAX", 0.1)
    with server(*parts, is_open=True) as (place, _), pytest.raises(ReadingError) as caught:
        page_text(place)
    assert caught.value.reason == "slow"


def test_an_endless_page_in_small_pieces_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece comes in time."""
    times = iter(range(0, 1000, 3))
    monkeypatch.setattr(fetching.time, "monotonic", lambda: float(next(times)))
    with server(HEAD + b"\r\nx 42\n") as (place, _), pytest.raises(ReadingError) as caught:
        page_text(place)
    assert caught.value.reason == "slow"


def test_no_process_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ReadingError) as caught:
        page_text(Place("127.0.0.1", port, "/"))
    assert caught.value.reason == "missing"
