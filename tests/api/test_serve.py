"""The counter: one question, one answer, and nothing a client does ends the server."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from trio.testing import MockClock

from subord.api.serve import CONNECTIONS_MAX, HEADER_BYTES_MAX, REQUEST_S_MAX, Query, Response, failure, serve
from subord.api.sockets import bind_tcp, bind_unix


async def echo(query: Query) -> Response:
    await trio.lowlevel.checkpoint()
    return Response(json.dumps(dict(query)).encode())


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The port of a running server."""
    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/echo": echo}, sock)
        yield port
        nursery.cancel_scope.cancel()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@asynccontextmanager
async def serving_changes(sock: socket.socket) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, changes={"/change": echo}), {"/echo": echo}, sock)
        yield
        nursery.cancel_scope.cancel()


async def talk(port: int, data: bytes) -> bytes:
    return await talk_on(await trio.open_tcp_stream("127.0.0.1", port), data)


async def talk_on(stream: trio.SocketStream, data: bytes) -> bytes:
    async with stream:
        await stream.send_all(data)
        return await everything(stream)


async def everything(stream: trio.SocketStream) -> bytes:
    answer = b""
    try:
        async for piece in stream:
            answer += piece
    except trio.BrokenResourceError:
        pass  # the server closed with input unread
    return answer


def get(target: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *(f"{k}: {v}" for k, v in (headers or {}).items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.mark.parametrize(
    ("request_bytes", "status", "piece"),
    [
        (get("/echo?a=1&b=x%20y"), 200, b'{"a": "1", "b": "x y"}'),
        (get("/none"), 404, b"served: /echo"),
        (get("/echo", "POST"), 405, b"only GET"),
        (get("/echo", "HEAD"), 405, b"allow: GET"),
        (get("/echo", "POST", {"Content-Length": "3"}) + b"abc", 413, b"a body"),
        (get("/echo", "HEAD", {"Content-Length": "3"}) + b"abc", 413, b"content-length"),
        (get("http://[/echo"), 400, b"malformed"),
        (get("/echo?" + "&".join("abcdefghi")), 400, b"malformed"),
        (get("/" + "x" * 2 * HEADER_BYTES_MAX), 431, b"no HTTP request"),
        (b"\x00\xff\x16rubbish\r\n\r\n", 400, b"no HTTP request"),
    ],
)
async def test_answers(request_bytes: bytes, status: int, piece: bytes) -> None:
    async with serving() as port:
        answer = await talk(port, request_bytes)
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        assert piece in answer
        assert (await talk(port, get("/echo"))).startswith(b"HTTP/1.1 200")


async def test_a_client_that_leaves_early_is_no_error() -> None:
    async with serving() as port:
        for data in (b"", b"GET /ec", get("/echo")):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(data)
            await stream.aclose()
        assert (await talk(port, get("/echo"))).startswith(b"HTTP/1.1 200")


async def test_dawdlers_are_sent_away_and_others_wait_for_room(autojump_clock: MockClock) -> None:
    async with serving() as port:
        dawdlers = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        for each in dawdlers:
            await each.send_all(b"GET /echo")
        autojump_clock.autojump_threshold = 0.05  # real input and output need real moments
        started = trio.current_time()
        assert (await talk(port, get("/echo"))).startswith(b"HTTP/1.1 200")
        assert trio.current_time() - started == pytest.approx(REQUEST_S_MAX, rel=0.1)
        for each in dawdlers:
            assert await everything(each) == b""
            await each.aclose()


# -- what changes something -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_bytes", "status", "piece"),
    [
        (get("/change?key=x", "POST"), 200, b'{"key": "x"}'),
        (get("/change", "POST", {"Content-Length": "0"}), 200, b"{}"),
        (get("/change", "POST", {"Content-Length": "1"}) + b"x", 413, b"a body"),
        (get("/change"), 405, b"allow: POST"),
        (get("/change", "HEAD"), 405, b"allow: POST"),
        (get("/change", "PUT"), 405, b"only POST is served here"),
        (get("/echo", "POST"), 405, b"allow: GET"),
        (get("/none", "POST"), 404, b"served: /change, /echo"),
    ],
)
async def test_a_change_is_asked_for_by_post_alone(
    tmp_path: Path, request_bytes: bytes, status: int, piece: bytes
) -> None:
    path = tmp_path / "control.sock"
    async with serving_changes(bind_unix(path)):
        answer = await talk_on(await trio.open_unix_socket(path), request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d" % status)
    assert piece in answer


async def test_over_tcp_nobody_is_the_owner() -> None:
    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with serving_changes(sock):
        assert (await talk(port, get("/change", "POST"))).startswith(b"HTTP/1.1 403")
        assert (await talk(port, get("/echo"))).startswith(b"HTTP/1.1 200")


async def as_nobody(work: Callable[[], bytes]) -> bytes:
    """What comes of it in a process of another user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, work())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said: bytes = await trio.to_thread.run_sync(pipe.read)
    await trio.to_thread.run_sync(os.waitpid, child, 0)
    return said


async def test_another_user_may_ask_and_change_nothing() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    with TemporaryDirectory(prefix="s") as folder:
        path = Path(folder) / "control.sock"
        sock = bind_unix(path)
        os.chmod(folder, 0o755)
        path.chmod(0o666)

        def ask(data: bytes) -> bytes:
            with socket.socket(socket.AF_UNIX) as stream:
                stream.settimeout(20.0)
                stream.connect(str(path))
                stream.sendall(data)
                return stream.recv(4096)

        async with serving_changes(sock):
            assert (await as_nobody(partial(ask, get("/echo")))).startswith(b"HTTP/1.1 200")
            refused = await as_nobody(partial(ask, get("/change", "POST")))
        assert refused.startswith(b"HTTP/1.1 403")
        assert b"only root and the daemon's own user may change something: nothing was changed" in refused


def test_a_failure_is_one_sentence_in_json() -> None:
    assert json.loads(failure(404, "gone").body) == {"error": "gone"}
