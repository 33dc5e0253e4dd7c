"""The HTTP server: one request, one answer; no client can end it or block others."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
import trio.testing
from conditions import IO_S, WAIT_S_MAX
from loops import over
from trio.testing import MockClock

from subord.api.http.host_check import host_check
from subord.api.http.server import (
    ANSWER_S_MAX,
    BODY_BYTES_MAX,
    HEADER_BYTES_MAX,
    READ_BYTES,
    REQUEST_S_MAX,
    Call,
    EventStream,
    Query,
    Response,
    Send,
    failure,
    serve,
)
from subord.api.http.slots import ANSWERED_MAX, READERS_MAX, WAITING_MAX
from subord.api.http.sockets import bind_tcp, bind_unix
from subord.runtime import late
from tests.api.fake_node_api import World

LARGE_BYTES = 8 << 20
TURNS_MAX = 8
"""The listener begins, takes all connections, each is read, its handlers are found, it is handled, and answered."""


async def echo(query: Query) -> Response:
    await trio.lowlevel.checkpoint()
    return Response(json.dumps(dict(query)).encode())


async def ordered(call: Call) -> Response:
    return await echo({**call.query, "body": call.body.decode(), "owner": call.is_owner})  # type: ignore[dict-item]


async def shown(_: Query) -> Response:
    return await echo({"shown": ""})


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The port of a running server."""
    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/echo": echo, "/metrics/echo": echo}, sock)
        yield port
        nursery.cancel_scope.cancel()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@asynccontextmanager
async def serving_changes(sock: socket.socket) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        changes = {"/change": echo, "/both": echo}
        await nursery.start(
            partial(serve, changes=changes, orders={"/order": ordered}), {"/echo": echo, "/both": shown}, sock
        )
        yield
        nursery.cancel_scope.cancel()


async def exchange(port: int, data: bytes) -> bytes:
    return await exchange_on(await trio.open_tcp_stream("127.0.0.1", port), data)


async def exchange_on(stream: trio.SocketStream, data: bytes) -> bytes:
    async with stream:
        await stream.send_all(data)
        return await read_all(stream)


async def read_all(stream: trio.SocketStream) -> bytes:
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


@over(
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
        (get("/" + "x" * 2 * HEADER_BYTES_MAX), 431, b"not a valid HTTP request"),
        (b"\x00\xff\x16rubbish\r\n\r\n", 400, b"not a valid HTTP request"),
    ],
)
async def test_answers(request_bytes: bytes, status: int, piece: bytes) -> None:
    async with serving() as port:
        answer = await exchange(port, request_bytes)
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        assert piece in answer
        assert (await exchange(port, get("/echo"))).startswith(b"HTTP/1.1 200")


NAMES = {"10.0.0.4": "node4.site", "10.0.0.5": "node5.site"}
OWN_HOSTS = [
    "10.0.0.4", "10.0.0.4:9717", "127.0.0.1:41000", "[::1]:9717", "[fd00::4]", "192.0.2.1", "localhost:9717",
    "LocalHost", "node4.site", "NODE4.site.:9717", "machine.example.org:9717", "machine", "proxy.example.org", "",
]  # fmt: skip
FOREIGN_HOSTS = [
    "evil.example:9717", "node5.site", "localhost.evil.example", "machine.evil.example", "10.0.0.4.evil.example",
    "10.0.0.4@evil.example", "evil.example:x", "evil.example/10.0.0.4", "[::1", "2130706433x", "-",
]  # fmt: skip


@over(("host", "is_ours"), [*((each, True) for each in OWN_HOSTS), *((each, False) for each in FOREIGN_HOSTS)])
async def test_only_known_names_are_answered(monkeypatch: pytest.MonkeyPatch, host: str, is_ours: bool) -> None:
    """A page whose own name resolves to the address of this node gets nothing (DNS rebinding)."""
    monkeypatch.setattr(socket, "gethostname", lambda: "machine.example.org")
    node = World().node(4)
    node.names = NAMES
    sock = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        is_our_host = host_check(node, ("proxy.example.org",))
        await nursery.start(partial(serve, is_our_host=is_our_host), {"/echo": echo}, sock)
        version, header = ("1.1", f"Host: {host}\r\n") if host else ("1.0", "")
        answer = await exchange(sock.getsockname()[1], f"GET /echo HTTP/{version}\r\n{header}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 200" if is_ours else b"HTTP/1.1 4")
        if not is_ours and b" 400 " not in answer:
            assert answer.startswith(b"HTTP/1.1 421")
            assert b"ask by address, or set node.web_names" in answer
            assert node.counters.dropped == {"foreign_host": 1}
        nursery.cancel_scope.cancel()


async def test_the_name_in_a_whole_address_counts_before_the_header() -> None:
    node = World().node(4)
    sock = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, is_our_host=host_check(node)), {"/echo": echo}, sock)
        for name, status in (("10.0.0.4", b"200"), ("evil.example", b"421")):
            request = f"GET http://{name}/echo HTTP/1.1\r\nHost: 10.0.0.4\r\n\r\n".encode()
            assert (await exchange(sock.getsockname()[1], request)).startswith(b"HTTP/1.1 " + status)
        nursery.cancel_scope.cancel()


async def test_a_client_that_leaves_early_is_no_error() -> None:
    async with serving() as port:
        for data in (b"", b"GET /ec", get("/echo")):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(data)
            await stream.aclose()
        assert (await exchange(port, get("/echo"))).startswith(b"HTTP/1.1 200")


async def test_slow_clients_do_not_block_others(autojump_clock: MockClock) -> None:
    async with serving() as port:
        slow_clients = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2 * WAITING_MAX)]
        for each in slow_clients:
            with suppress(trio.BrokenResourceError):  # the first are disconnected already
                await each.send_all(b"GET /echo")
        autojump_clock.autojump_threshold = IO_S
        started = trio.current_time()
        assert (await exchange(port, get("/echo"))).startswith(b"HTTP/1.1 200")
        assert trio.current_time() - started < REQUEST_S_MAX / 2
        for each in slow_clients:
            assert await read_all(each) == b""
            await each.aclose()


async def test_a_slow_client_is_disconnected(autojump_clock: MockClock) -> None:
    async with serving() as port, await trio.open_tcp_stream("127.0.0.1", port) as slow_client:
        await slow_client.send_all(b"GET /echo")
        autojump_clock.autojump_threshold = IO_S
        started = trio.current_time()
        assert await read_all(slow_client) == b""
        assert trio.current_time() - started == pytest.approx(REQUEST_S_MAX, rel=0.1)


async def test_what_the_daemon_loads_first_takes_no_time_of_the_client(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async def load(_: str) -> bool:
        await trio.sleep(2 * REQUEST_S_MAX)
        return True

    monkeypatch.setattr("subord.runtime.late.load", load)
    autojump_clock.autojump_threshold = IO_S
    async with serving() as port:
        assert (await exchange(port, get("/echo"))).startswith(b"HTTP/1.1 200")


class Turns(trio.abc.Instrument):
    """The turns of the event loop, and in which of them each client had something to read."""

    def __init__(self, clients: list[socket.socket]) -> None:
        self.count = 0
        self.answered: dict[socket.socket, int] = {}
        self._clients = clients

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002
        self.count += 1
        for each in select.select(self._clients, (), (), 0)[0]:
            self.answered.setdefault(each, self.count)


@pytest.mark.parametrize("is_awaited", [True, False])
async def test_requests_that_come_together_are_answered_in_few_turns(is_awaited: bool, tmp_path: Path) -> None:
    """A turn of a daemon that gets little of a processor takes half a second."""
    assert await late.load("h11")  # which takes turns of its own
    sock = bind_unix(tmp_path / "sock")
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(ANSWERED_MAX)]
        for each in clients:
            each.connect(str(tmp_path / "sock"))
            each.sendall(get("/echo"))
        trio.lowlevel.add_instrument(turns := Turns(clients))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(serve, {"/echo": echo}, sock, awaited={"/echo"} if is_awaited else ()))
                with trio.fail_after(WAIT_S_MAX):
                    while len(turns.answered) < len(clients):  # noqa: ASYNC110 - an instrument must not set events
                        await trio.sleep(0.001)
                nursery.cancel_scope.cancel()
        finally:
            trio.lowlevel.remove_instrument(turns)
        assert all(each.recv(READ_BYTES).startswith(b"HTTP/1.1 200") for each in clients)
    assert max(turns.answered.values()) <= TURNS_MAX


BURST = 150


@pytest.mark.parametrize("turns", [1, 12])
async def test_a_burst_is_answered_without_a_refusal(turns: int, tmp_path: Path) -> None:
    """What does not fit waits in the kernel."""

    async def some_turns_later(_: Query) -> Response:
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        return Response(b"{}")

    def ask() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "sock"))
            client.sendall(get("/later"))
            begins.append(client.recv(READ_BYTES)[:12])

    assert await late.load("h11")
    begins: list[bytes] = []
    sock = bind_unix(tmp_path / "sock")
    threads = trio.CapacityLimiter(BURST)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve, {"/later": some_turns_later}, sock, awaited={"/later"}))
        async with trio.open_nursery() as asking:
            for _ in range(BURST):
                asking.start_soon(partial(trio.to_thread.run_sync, ask, limiter=threads))
        nursery.cancel_scope.cancel()
    assert begins == [b"HTTP/1.1 200"] * BURST


async def test_a_client_that_has_ended_its_input_gets_a_long_answer_whole(tmp_path: Path) -> None:
    """More than the kernel keeps of a connection, and the input ends while it is sent."""
    sock = bind_unix(tmp_path / "sock")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve, {"/large": large}, sock, awaited={"/large"}))
        async with await trio.open_unix_socket(str(tmp_path / "sock")) as stream:
            await stream.send_all(get("/large"))
            answer = bytes(await stream.receive_some(10))
            await stream.send_eof()
            answer += await read_all(stream)
        assert len(answer.partition(b"\r\n\r\n")[2]) == LARGE_BYTES
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_awaited", [True, False])
async def test_a_client_that_has_left_before_it_is_answered_costs_nothing_else(
    is_awaited: bool, tmp_path: Path
) -> None:
    async def at_once(_: Query) -> Response:
        return Response(b"{}")

    sock = bind_unix(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.connect(str(tmp_path / "sock"))
        left.sendall(get("/at-once"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve, {"/at-once": at_once}, sock, awaited={"/at-once"} if is_awaited else ()))
        answer = await exchange_on(await trio.open_unix_socket(str(tmp_path / "sock")), get("/at-once"))
        assert answer.startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()


async def large(_: Query) -> Response:
    """More than the kernel keeps of one connection."""
    await trio.lowlevel.checkpoint()
    return Response(bytes(LARGE_BYTES))


@pytest.mark.slow
async def test_a_client_that_reads_slowly_gets_its_answer_and_delays_no_other() -> None:
    """The answers of all but one of those that are made at once wait for their readers."""
    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/echo": echo, "/large": large}, sock)
        slow = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(ANSWERED_MAX - 1)]
        for each in slow:
            await each.send_all(get("/large"))
            assert await each.receive_some(10)
        for _ in range(3):
            assert (await exchange(port, get("/echo"))).startswith(b"HTTP/1.1 200")
        for each in slow:
            assert len((await read_all(each)).partition(b"\r\n\r\n")[2]) == LARGE_BYTES
            await each.aclose()
        nursery.cancel_scope.cancel()


async def test_a_failing_handler_ends_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def failing_handler(_: Query) -> Response:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/echo": echo, "/mistaken": failing_handler}, sock)
        assert (await exchange(port, get("/mistaken"))).startswith(b"HTTP/1.1 500")
        assert (await exchange(port, get("/echo"))).startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()
    assert "answering /mistaken failed" in caplog.text


# -- changes -----------------------------------------------------------------------------------------


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
        (get("/none", "POST"), 404, b"served: /both, /change, /echo, /order"),
        (
            get("/order?a=b", "POST", {"Content-Length": "3"}) + b"abc",
            200,
            b'{"a": "b", "body": "abc", "owner": true}',
        ),
        (get("/order", "POST"), 200, b'{"body": "", "owner": true}'),
        (get("/order"), 405, b"allow: POST"),
        (get("/order", "PUT"), 405, b"only POST is served here"),
        (get("/order", "POST", {"Content-Length": str(BODY_BYTES_MAX)}) + b"a" * BODY_BYTES_MAX, 200, b"aaa"),
        (get("/order", "POST", {"Content-Length": "70000"}) + b"a" * 70_000, 413, b"more than 65536 bytes"),
        (get("/order", "POST", {"Transfer-Encoding": "chunked"}) + b"3\r\nabc\r\n0\r\n\r\n", 200, b'"abc"'),
        (get("/echo", "POST", {"Content-Length": "1"}) + b"x", 413, b"a body"),
    ],
)
async def test_a_change_is_asked_for_by_post_alone(
    tmp_path: Path, request_bytes: bytes, status: int, piece: bytes
) -> None:
    path = tmp_path / "control.sock"
    async with serving_changes(bind_unix(path)):
        answer = await exchange_on(await trio.open_unix_socket(path), request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d" % status)
    assert piece in answer


async def test_changes_over_tcp_are_refused() -> None:
    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with serving_changes(sock):
        assert (await exchange(port, get("/change", "POST"))).startswith(b"HTTP/1.1 403")
        assert (await exchange(port, get("/echo"))).startswith(b"HTTP/1.1 200")


async def as_another_user(work: Callable[[], bytes]) -> bytes:
    """The output of `work` in a process of another user."""
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
        output: bytes = await trio.to_thread.run_sync(pipe.read)
    await trio.to_thread.run_sync(os.waitpid, child, 0)
    return output


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
            assert (await as_another_user(partial(ask, get("/echo")))).startswith(b"HTTP/1.1 200")
            refused = await as_another_user(partial(ask, get("/change", "POST")))
        assert refused.startswith(b"HTTP/1.1 403")
        assert b"only root and the daemon's own user may make changes: nothing was changed" in refused


def test_a_failure_is_one_sentence_in_json() -> None:
    assert json.loads(failure(404, "gone").body) == {"error": "gone"}


# -- events --------------------------------------------------------------------------------------------------------


async def clock(query: Query) -> EventStream:
    """Sends ascending numbers without end, beginning at `since`."""
    await trio.lowlevel.checkpoint()

    async def count_up(send: Send) -> None:
        number = int(query.get("since", "0"))
        while True:
            await send(f"data: {number}\n\n".encode())
            number += 1
            await trio.sleep(0.01)

    return EventStream(count_up)


async def flood(_: Query) -> EventStream:
    await trio.lowlevel.checkpoint()

    async def send_without_end(send: Send) -> None:
        while True:
            await send(b"x" * 65536)

    return EventStream(send_without_end)


@asynccontextmanager
async def serving_events() -> AsyncIterator[int]:
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


async def test_events_continue_until_the_reader_leaves() -> None:
    async with serving_events() as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(get("/clock"))
        head = await read_until(stream, b"data: 3\n\n")
        assert b"200" in head.split(b"\r\n")[0]
        assert b"content-type: text/event-stream" in head
        await stream.aclose()
        assert b"200" in await exchange(port, get("/echo"))


@pytest.mark.parametrize("path", ["/clock", "/clock?since=1"])  # a browser that reconnects repeats the URL
async def test_reading_continues_after_the_last_event(path: str) -> None:
    async with serving_events() as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(get(path, headers={"Last-Event-ID": "41"}))
            heard = await read_until(stream, b"data: 42\n\n")
            assert heard.partition(b"data: ")[2].startswith(b"41\n\n")


async def test_metrics_are_asked_for_in_a_format() -> None:
    prometheus = {
        "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    }
    async with serving() as port:
        assert b'{"format": "openmetrics"}' in await exchange(port, get("/metrics/echo", headers=prometheus))
        assert b"{}" in await exchange(port, get("/metrics/echo", headers={"Accept": "text/plain, */*"}))
        assert b"{}" in await exchange(port, get("/echo", headers=prometheus)), "other paths know no formats"


async def test_readers_leave_room_for_others() -> None:
    async with serving_events() as port:
        readers = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(READERS_MAX)]
        for reader in readers:
            await reader.send_all(get("/clock"))
            await read_until(reader, b"data: 1\n\n")
        answer = await exchange(port, get("/clock"))
        assert b"503" in answer.split(b"\r\n")[0]
        assert b"try again later" in answer
        assert b"200" in await exchange(port, get("/echo"))
        await readers.pop().aclose()
        while b"503" in (await first_line(port)):  # noqa: ASYNC110 - the server notices it at its next piece
            await trio.sleep(0.01)
        for reader in readers:
            await reader.aclose()


async def first_line(port: int) -> bytes:
    """The first line of the answer to another reader."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(get("/clock"))
        return (await read_until(stream, b"\r\n")).split(b"\r\n")[0]


async def failing(_: Query) -> EventStream:
    await trio.lowlevel.checkpoint()

    async def fail(send: Send) -> None:
        await send(b"data: 0\n\n")
        raise ZeroDivisionError

    return EventStream(fail)


async def test_failing_events_end_for_one_reader(caplog: pytest.LogCaptureFixture) -> None:
    sock = bind_tcp("127.0.0.1", 0)
    port: int = sock.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, {"/echo": echo, "/failing": failing}, sock)
        assert b"data: 0" in await exchange(port, get("/failing"))
        assert (await exchange(port, get("/echo"))).startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()
    assert "sending events failed" in caplog.text


async def silent(_: Query) -> EventStream:
    """Never sends an event."""
    await trio.lowlevel.checkpoint()

    async def nothing(_: Send) -> None:
        await trio.sleep_forever()

    return EventStream(nothing)


async def test_a_request_without_a_slot_is_told_so(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def endless(call: Call) -> Response:
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    async with trio.open_nursery() as nursery:
        sock = bind_unix(tmp_path / "socket")
        await nursery.start(partial(serve, orders={"/wait": endless}, awaited=("/wait",)), {}, sock)
        streams = [await trio.open_unix_socket(str(tmp_path / "socket")) for _ in range(ANSWERED_MAX + 1)]
        for stream in streams:
            await stream.send_all(b"POST /wait HTTP/1.1\r\nHost: a\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()
        answer = await read_all(streams[-1])
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"nothing was done" in answer
        nursery.cancel_scope.cancel()
    for stream in streams:
        await stream.aclose()


async def test_a_reader_that_left_frees_its_slot_without_events() -> None:
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
    async with serving_events() as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(get("/flood"))
            await stream.receive_some(10)
            await trio.sleep(2 * ANSWER_S_MAX)
            with trio.move_on_after(1000):
                await read_all(stream)
                return
        raise AssertionError("it was not dropped")


@pytest.mark.parametrize(
    ("request_line", "begin", "said"),
    [
        ("POST /awaited", b"HTTP/1.1 200", b"{}"),
        ("GET /read", b"HTTP/1.1 503", b"not made this answer within 10 s"),
        ("POST /other", b"", b""),
    ],
)
async def test_what_a_client_is_told_late(
    tmp_path: Path, request_line: str, begin: bytes, said: bytes, autojump_clock: MockClock
) -> None:
    """Orders of a busy daemon end late; a client without an answer could not tell what was done. A POST that is cut
    off may have had its effect, so its client must not read `try again`."""

    async def slow(_: Call | Query) -> Response:
        await trio.sleep(2 * ANSWER_S_MAX)
        return Response(b"{}")

    assert await late.load("h11")  # the clock must not jump meanwhile
    async with trio.open_nursery() as nursery:
        sock = bind_unix(tmp_path / "socket")
        orders = {"/awaited": slow, "/other": slow}
        await nursery.start(partial(serve, orders=orders, awaited=("/awaited",)), {"/read": slow}, sock)
        async with await trio.open_unix_socket(str(tmp_path / "socket")) as stream:
            await stream.send_all(f"{request_line} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            answer = await read_all(stream)
            assert answer[: len(b"HTTP/1.1 200")] == begin
            assert said in answer
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("leaves", [True, False])
async def test_an_answer_is_made_only_while_its_client_waits(tmp_path: Path, leaves: bool) -> None:
    """Where the path says so; other requests are carried through."""
    began, ended, told = trio.Event(), trio.Event(), trio.Event()

    async def waiting(call: Call) -> Response:
        began.set()
        try:
            await told.wait()
        finally:
            ended.set()
        return Response(b"{}")

    async with trio.open_nursery() as nursery:
        sock = bind_unix(tmp_path / "socket")
        orders = {"/awaited": waiting, "/other": waiting}
        await nursery.start(partial(serve, orders=orders, awaited=("/awaited",)), {}, sock)
        with trio.fail_after(5):
            async with await trio.open_unix_socket(str(tmp_path / "socket")) as stream:
                path = "awaited" if leaves else "other"
                await stream.send_all(f"POST /{path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                await began.wait()
                if not leaves:
                    await stream.send_eof()
                    told.set()
                    assert (await stream.receive_some(99)).startswith(b"HTTP/1.1 200")
            await ended.wait()
        nursery.cancel_scope.cancel()
