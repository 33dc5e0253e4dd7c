"""Late imports: in a thread, and a failed one costs a connection and not the daemon."""

from __future__ import annotations

import errno
import importlib
import socket
import sys
import threading

import pytest
import trio

from subord.api.http import server
from subord.runtime import late
from subord.runtime.security.tls import Tls, TlsError

UNUSED = "this"  # a module of the standard library that nothing imports


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delitem(sys.modules, UNUSED, raising=False)
    return UNUSED


async def test_a_module_is_loaded_once(unloaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await late.load(unloaded)
    assert unloaded in sys.modules
    monkeypatch.setattr(importlib, "import_module", lambda _: pytest.fail("it was loaded"))
    assert await late.load(unloaded)


async def test_what_is_loaded_takes_no_turn_of_the_event_loop(unloaded: str) -> None:
    """A checkpoint would notice the cancellation."""
    assert await late.load(unloaded)
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await late.load(unloaded)
    assert not scope.cancelled_caught


@pytest.mark.parametrize("error", [ImportError("another release"), OSError(errno.EMFILE, "too many open files")])
async def test_a_failure_is_logged(
    error: Exception, unloaded: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    assert not await late.load(unloaded)
    assert caplog.messages == [f"{unloaded} cannot be loaded: {error}; after an upgrade restart the daemon"]


async def test_a_disk_that_does_not_answer_stops_neither_the_loop_nor_the_end(
    unloaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(importlib, "import_module", lambda _: answers.wait(60))
    with trio.move_on_after(0.05) as scope:
        await late.load(unloaded)
    answers.set()
    assert scope.cancelled_caught


async def _not_loaded(_: str) -> bool:
    await trio.lowlevel.checkpoint()
    return False


async def test_without_h11_the_server_closes_connections_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, {}, listener.dup())
            for loads, begin in ((_not_loaded, b""), (late.load, b"HTTP/1.1 404")):
                monkeypatch.setattr(server.late, "load", loads)
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    try:
                        answer = b"".join([piece async for piece in stream])
                    except trio.BrokenResourceError:  # closed before the request was read
                        answer = b""
                assert answer[: len(begin)] == begin
                assert bool(answer) == bool(begin)
            nursery.cancel_scope.cancel()


async def test_without_x509_a_handshake_fails_as_without_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late, "load", _not_loaded)
    with pytest.raises(TlsError, match="tls_no_papers"):
        await Tls(dict).names()
