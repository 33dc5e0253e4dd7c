"""A socket that cannot be opened is one sentence; no other process's socket is touched."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from subord.api.http.sockets import PATH_BYTES_MAX, BindError, bind_tcp, bind_unix


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory with a short name: pytest's own can be longer than a socket path may be."""
    with TemporaryDirectory(prefix="s") as name:
        yield Path(name)


def test_the_socket_is_for_owner_and_group(folder: Path) -> None:
    sock = bind_unix(folder / "c")
    assert stat.S_IMODE((folder / "c").stat().st_mode) == 0o660
    sock.close()


def test_a_stale_socket_file_is_replaced(folder: Path) -> None:
    bind_unix(folder / "c").close()
    assert (folder / "c").exists()
    bind_unix(folder / "c").close()


def test_the_socket_of_a_live_daemon_is_left_alone(folder: Path) -> None:
    first = bind_unix(folder / "c")
    with pytest.raises(BindError, match="another daemon answers"):
        bind_unix(folder / "c")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(folder / "c"))
    first.close()


def test_a_file_that_is_no_socket_is_left_alone(folder: Path) -> None:
    (folder / "c").write_text("precious")
    with pytest.raises(BindError, match="is no socket; it was left as it is"):
        bind_unix(folder / "c")
    assert (folder / "c").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("none/c", "does not exist: create it"), ("x" * PATH_BYTES_MAX, "longer than 107 bytes")],
)
def test_an_impossible_path_is_one_sentence(folder: Path, name: str, sentence: str) -> None:
    with pytest.raises(BindError, match=sentence) as caught:
        bind_unix(folder / name)
    assert "\n" not in str(caught.value)


def test_the_longest_path_works(folder: Path) -> None:
    name = "x" * (PATH_BYTES_MAX - len(os.fsencode(folder)) - 1)
    bind_unix(folder / name).close()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_taken_port_is_one_sentence(address: str) -> None:
    try:
        first = bind_tcp(address, 0)
    except BindError as error:
        pytest.skip(str(error))
    with first:
        port = first.getsockname()[1]
        with pytest.raises(BindError, match="is taken by another program"):
            bind_tcp(address, port)


def test_an_address_of_another_host_is_one_sentence() -> None:
    with pytest.raises(BindError, match=r"this host has no address 192\.0\.2\.1"):
        bind_tcp("192.0.2.1", 0)
