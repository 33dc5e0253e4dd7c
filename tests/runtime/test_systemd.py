"""Notifications on a real notify socket."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
import trio.testing

from subord.runtime.systemd import Systemd


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory with a short name: a socket path has 107 bytes."""
    with TemporaryDirectory(prefix="s") as name:
        yield Path(name)


@pytest.fixture
def supervisor(folder: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(folder / "notify"))
        sock.setblocking(False)
        yield sock


@pytest.fixture
def environment(folder: Path, supervisor: socket.socket) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(folder / "notify")}


def received(supervisor: socket.socket) -> list[str]:
    """All notifications so far; `tell` has sent its own when it returns."""
    datagrams = []
    while True:
        try:
            datagrams.append(supervisor.recv(4096).decode())
        except BlockingIOError:
            return datagrams


def test_ready_status_stopping(supervisor: socket.socket, environment: dict[str, str]) -> None:
    systemd = Systemd(environment)
    systemd.tell("READY=1")
    systemd.status("subordinate of 10.0.0.1, level 2, 14 below")
    systemd.status("subordinate of 10.0.0.1, level 2, 14 below")
    systemd.status("root, 15 below")
    systemd.tell("STOPPING=1", "STATUS=saying goodbye")
    assert received(supervisor) == [
        "READY=1",
        "STATUS=subordinate of 10.0.0.1, level 2, 14 below",
        "STATUS=root, 15 below",
        "STOPPING=1\nSTATUS=saying goodbye",
    ]


def test_an_abstract_socket_and_one_with_an_at_in_its_path(folder: Path) -> None:
    name = f"subord-test-{os.getpid()}"
    for bound, told in [(f"\0{name}", f"@{name}"), (str(folder / "user@1000"),) * 2]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.bind(bound)
            sock.setblocking(False)
            Systemd({"NOTIFY_SOCKET": told}).tell("READY=1")
            assert received(sock) == ["READY=1"]


def test_a_missing_supervisor_is_ignored(folder: Path, supervisor: socket.socket) -> None:
    Systemd({}).tell("READY=1")
    for path in (str(folder / "none"), "x" * 200):
        Systemd({"NOTIFY_SOCKET": path}).tell("READY=1")
    assert received(supervisor) == []


def test_a_supervisor_that_does_not_read_does_not_block(
    supervisor: socket.socket, environment: dict[str, str]
) -> None:
    systemd = Systemd(environment)
    for _ in range(5000):
        systemd.tell("WATCHDOG=1")
    assert 0 < len(received(supervisor)) < 5000


def test_without_a_file_descriptor_left(supervisor: socket.socket, environment: dict[str, str]) -> None:
    systemd = Systemd(environment)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_free = os.dup(0)
    os.close(first_free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
        systemd.tell("READY=1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert received(supervisor) == []


async def test_two_watchdog_notifications_a_period(
    supervisor: socket.socket, environment: dict[str, str], autojump_clock: trio.testing.MockClock
) -> None:
    systemd = Systemd({**environment, "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())})
    with trio.move_on_after(3.5):
        await systemd.notify_watchdog()
    assert received(supervisor) == ["WATCHDOG=1"] * 4


@pytest.mark.parametrize(
    "watchdog",
    [{}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"}],
)
async def test_without_a_watchdog_no_notifications(
    supervisor: socket.socket, environment: dict[str, str], watchdog: dict[str, str]
) -> None:
    with trio.fail_after(10):
        await Systemd({**environment, **watchdog}).notify_watchdog()
    assert received(supervisor) == []
