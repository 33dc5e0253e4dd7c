"""The counter: one question, one answer, and nothing a client does ends the server."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from subord.api.serve import CONNECTIONS_MAX, HEADER_BYTES_MAX, REQUEST_S_MAX, Query, Response, failure, serve
from subord.api.sockets import bind_tcp


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


async def talk(port: int, data: bytes) -> bytes:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
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


def test_a_failure_is_one_sentence_in_json() -> None:
    assert json.loads(failure(404, "gone").body) == {"error": "gone"}
