"""The counter: one question, one answer, and nothing a client does ends the server."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from trio.testing import MockClock

from subord.api.http.host_check import host_check
from subord.api.http.server import (
    ANSWER_S_MAX,
    HEADER_BYTES_MAX,
    READERS_MAX,
    REQUEST_S_MAX,
    WAITING_MAX,
    News,
    Query,
    Response,
    Send,
    failure,
    serve,
)
from subord.api.http.sockets import bind_tcp, bind_unix
from tests.api.fake_shown import World


async def echo(query: Query) -> Response:
    await trio.lowlevel.checkpoint()
    return Response(json.dumps(dict(query)).encode())


async def shown(_: Query) -> Response:
    return await echo({"shown": ""})


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
        changes = {"/change": echo, "/both": echo}
        await nursery.start(partial(serve, changes=changes), {"/echo": echo, "/both": shown}, sock)
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
        (get("/echo", "HEAD"), 200, b"content-length: 2"),
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


NAMES = {"10.0.0.4": "node4.site", "10.0.0.5": "node5.site"}
OURS = [
    "10.0.0.4", "10.0.0.4:9717", "127.0.0.1:41000", "[::1]:9717", "[fd00::4]", "192.0.2.1", "localhost:9717",
    "LocalHost", "node4.site", "NODE4.site.:9717", "machine.example.org:9717", "machine", "proxy.example.org", "",
]  # fmt: skip
FOREIGN = [
    "evil.example:9717", "node5.site", "localhost.evil.example", "machine.evil.example", "10.0.0.4.evil.example",
    "10.0.0.4@evil.example", "evil.example:x", "evil.example/10.0.0.4", "[::1", "2130706433x", "-",
]  # fmt: skip


@pytest.mark.parametrize(("host", "ours"), [*((each, True) for each in OURS), *((each, False) for each in FOREIGN)])
async def test_only_known_names_are_answered(monkeypatch: pytest.MonkeyPatch, host: str, ours: bool) -> None:
    """A page of the Internet that resolves its own name to our address gets nothing (DNS rebinding)."""
    monkeypatch.setattr(socket, "gethostname", lambda: "machine.example.org")
    shown = World().node(4)
    shown.names = NAMES
    sock = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        is_our_host = host_check(shown, ("proxy.example.org",))
        await nursery.start(partial(serve, is_our_host=is_our_host), {"/echo": echo}, sock)
        version, header = ("1.1", f"Host: {host}\r\n") if host else ("1.0", "")
        answer = await talk(sock.getsockname()[1], f"GET /echo HTTP/{version}\r\n{header}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 200" if ours else b"HTTP/1.1 4")
        if not ours and b" 400 " not in answer:
            assert answer.startswith(b"HTTP/1.1 421")
            assert b"ask by address, or set node.web_names" in answer
            assert shown.counters.dropped == {"foreign_host": 1}
        nursery.cancel_scope.cancel()


async def test_the_name_in_a_whole_address_counts_before_the_header() -> None:
    shown = World().node(4)
    sock = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, is_our_host=host_check(shown)), {"/echo": echo}, sock)
        for name, status in (("10.0.0.4", b"200"), ("evil.example", b"421")):
            request = f"GET http://{name}/echo HTTP/1.1\r\nHost: 10.0.0.4\r\n\r\n".encode()
            assert (await talk(sock.getsockname()[1], request)).startswith(b"HTTP/1.1 " + status)
        nursery.cancel_scope.cancel()


async def test_a_client_that_leaves_early_is_no_error() -> None:
    async with serving() as port:
        for data in (b"", b"GET /ec", get("/echo")):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(data)
            await stream.aclose()
        assert (await talk(port, get("/echo"))).startswith(b"HTTP/1.1 200")


async def test_dawdlers_keep_nobody_from_an_answer(autojump_clock: MockClock) -> None:
    async with serving() as port:
        dawdlers = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2 * WAITING_MAX)]
        for each in dawdlers:
            with suppress(trio.BrokenResourceError):  # the first are out already
                await each.send_all(b"GET /echo")
        autojump_clock.autojump_threshold = 0.05  # real input and output need real moments
        started = trio.current_time()
        assert (await talk(port, get("/echo"))).startswith(b"HTTP/1.1 200")
        assert trio.current_time() - started < REQUEST_S_MAX / 2
        for each in dawdlers:
            assert await everything(each) == b""
            await each.aclose()


async def test_a_dawdler_is_sent_away(autojump_clock: MockClock) -> None:
    async with serving() as port, await trio.open_tcp_stream("127.0.0.1", port) as dawdler:
        await dawdler.send_all(b"GET /echo")
        autojump_clock.autojump_threshold = 0.05
        started = trio.current_time()
        assert await everything(dawdler) == b""
        assert trio.current_time() - started == pytest.approx(REQUEST_S_MAX, rel=0.1)


async def test_a_mistake_of_ours_ends_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def mistaken(_: Query) -> Response:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/echo": echo, "/mistaken": mistaken}, sock)
        assert (await talk(port, get("/mistaken"))).startswith(b"HTTP/1.1 500")
        assert (await talk(port, get("/echo"))).startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()
    assert "answering /mistaken failed" in caplog.text


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
        (get("/both"), 200, b'{"shown": ""}'),
        (get("/both?a=b", "POST"), 200, b'{"a": "b"}'),
        (get("/both", "PUT"), 405, b"allow: GET, POST"),
        (get("/both", "PUT"), 405, b"only GET and POST is served here"),
        (get("/none", "POST"), 404, b"served: /both, /change, /echo"),
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


# pytest-trio loses the reason of a skip inside an async test.
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_may_ask_and_change_nothing() -> None:
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


# -- news --------------------------------------------------------------------------------------------------------


async def clock(query: Query) -> News:
    """Says how often it has struck, for ever; `since` is where it begins."""
    await trio.lowlevel.checkpoint()

    async def strike(send: Send) -> None:
        number = int(query.get("since", "0"))
        while True:
            await send(f"data: {number}\n\n".encode())
            number += 1
            await trio.sleep(0.01)

    return News(strike)


async def flood(_: Query) -> News:
    await trio.lowlevel.checkpoint()

    async def pour(send: Send) -> None:
        while True:
            await send(b"x" * 65536)

    return News(pour)


@asynccontextmanager
async def serving_news() -> AsyncIterator[int]:
    sock = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/clock": clock, "/flood": flood, "/echo": echo}, sock)
        yield sock.getsockname()[1]
        nursery.cancel_scope.cancel()


async def read_until(stream: trio.SocketStream, piece: bytes) -> bytes:
    found = b""
    while piece not in found:
        found += await stream.receive_some(4096)
    return found


async def test_news_go_on_until_the_reader_leaves() -> None:
    async with serving_news() as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(get("/clock"))
        head = await read_until(stream, b"data: 3\n\n")
        assert b"200" in head.split(b"\r\n")[0]
        assert b"content-type: text/event-stream" in head
        await stream.aclose()
        assert b"200" in await talk(port, get("/echo"))


@pytest.mark.parametrize("path", ["/clock", "/clock?since=1"])  # a browser that comes back repeats its address
async def test_news_are_read_on_after_the_last_that_was_had(path: str) -> None:
    async with serving_news() as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(get(path, headers={"Last-Event-ID": "41"}))
            heard = await read_until(stream, b"data: 42\n\n")
            assert heard.partition(b"data: ")[2].startswith(b"41\n\n")


async def test_readers_leave_room_for_others() -> None:
    async with serving_news() as port:
        readers = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(READERS_MAX)]
        for reader in readers:
            await reader.send_all(get("/clock"))
            await read_until(reader, b"data: 1\n\n")
        answer = await talk(port, get("/clock"))
        assert b"503" in answer.split(b"\r\n")[0]
        assert b"try again later" in answer
        assert b"200" in await talk(port, get("/echo"))
        await readers.pop().aclose()
        while b"503" in (await talk_first(port)):  # noqa: ASYNC110 - the server hears of it at its next piece
            await trio.sleep(0.01)
        for reader in readers:
            await reader.aclose()


async def talk_first(port: int) -> bytes:
    """The first line of the answer to another reader."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(get("/clock"))
        return (await read_until(stream, b"\r\n")).split(b"\r\n")[0]


async def failing(_: Query) -> News:
    await trio.lowlevel.checkpoint()

    async def fail(send: Send) -> None:
        await send(b"data: 0\n\n")
        raise ZeroDivisionError

    return News(fail)


async def test_news_that_fail_end_for_one_reader(caplog: pytest.LogCaptureFixture) -> None:
    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/echo": echo, "/failing": failing}, sock)
        assert b"data: 0" in await talk(port, get("/failing"))
        assert (await talk(port, get("/echo"))).startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()
    assert "telling the news failed" in caplog.text


async def silent(_: Query) -> News:
    """Never says anything."""
    await trio.lowlevel.checkpoint()

    async def nothing(_: Send) -> None:
        await trio.sleep_forever()

    return News(nothing)


async def test_a_reader_that_left_makes_room_though_there_are_no_news() -> None:
    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/silent": silent}, sock)
        for _ in range(3 * READERS_MAX):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(get("/silent"))
                first = await read_until(stream, b"\r\n\r\n")
                while b"503" in first:
                    async with await trio.open_tcp_stream("127.0.0.1", port) as again:
                        await again.send_all(get("/silent"))
                        first = await read_until(again, b"\r\n\r\n")
        nursery.cancel_scope.cancel()


async def test_a_reader_that_stops_reading_is_dropped(autojump_clock: MockClock) -> None:
    async with serving_news() as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(get("/flood"))
            await stream.receive_some(10)
            await trio.sleep(2 * ANSWER_S_MAX)
            with trio.move_on_after(1000):
                await everything(stream)
                return
        raise AssertionError("it was not dropped")
