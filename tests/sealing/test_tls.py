"""Both sides show certificates, which name the address of the peer."""

from __future__ import annotations

import socket

import pytest
import trio

from subord.runtime.security.tls import Certificates, Tls, TlsError, certificates_of
from subord.sealing.authority import authority_of
from subord.sealing.keys import Keyring, key_of, keyring_of

ONE, TWO = (key_of(bytes([number]) * 32) for number in (1, 2))
HERE = "127.0.0.1"


async def pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    left, right = socket.socketpair()
    return trio.SocketStream(trio.socket.from_stdlib_socket(left)), trio.SocketStream(
        trio.socket.from_stdlib_socket(right)
    )


async def handshake(server: Tls, client: Tls, *, name: str | None = None, client_at: str = HERE) -> list[str]:
    """The errors of server and client; "": none."""
    there, here = await pair()
    said = ["", ""]

    async def serve() -> None:
        try:
            stream = await server.as_server(there, client_at)
            await stream.send_all(b"x")
        except TlsError as error:
            said[0] = str(error)
            await there.aclose()  # or the client would wait for data
        except trio.BrokenResourceError:
            said[0] = "closed"

    async with there, here, trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            stream = await client.as_client(here, HERE, name or (await client.names())[0])
            said[1] = "" if await stream.receive_some(1) == b"x" else "closed"
        except TlsError as error:
            said[1] = str(error)
        except trio.BrokenResourceError:
            said[1] = "closed"
        await here.aclose()
    return said


def ring_of(*keys: int) -> Keyring:
    ring = [(ONE, TWO)[number - 1] for number in keys]
    return keyring_of(ring[0], ring[1:])


def tls(*keys: int, address: str = HERE) -> Tls:
    return Tls(lambda: certificates_of(ring_of(*keys), address))


async def test_two_nodes_with_the_same_key_connect() -> None:
    assert await handshake(tls(1), tls(1)) == ["", ""]


def test_the_authority_is_the_same_everywhere() -> None:
    assert authority_of(ONE).pem == authority_of(key_of(bytes([1]) * 32)).pem
    assert authority_of(ONE).pem != authority_of(TWO).pem


async def test_another_key_is_refused_by_tls() -> None:
    server, client = await handshake(tls(1), tls(2))
    assert server
    assert client


async def test_a_client_at_another_address_is_refused() -> None:
    assert (await handshake(tls(1), tls(1), client_at="127.0.0.9"))[0] == "tls_wrong_address"


async def test_a_server_at_another_address_is_refused() -> None:
    assert (await handshake(tls(1, address="127.0.0.9"), tls(1)))[1] == "tls_wrong_address"


@pytest.mark.parametrize(("server", "client"), [((2, 1), (1,)), ((1, 2), (2, 1)), ((1,), (1, 2))])
async def test_a_rotation_may_be_under_way(server: tuple[int, ...], client: tuple[int, ...]) -> None:
    assert await handshake(tls(*server), tls(*client)) == ["", ""]


async def test_a_client_with_a_new_primary_tries_the_old_key_next() -> None:
    old, new = tls(1), tls(2, 1)
    assert (await handshake(old, new))[1]
    assert await handshake(old, new, name=(await new.names())[1]) == ["", ""]


async def test_a_ring_is_replaced_while_it_is_used() -> None:
    rings = {"server": ring_of(1), "client": ring_of(1)}
    server = Tls(lambda: certificates_of(rings["server"], HERE))
    client = Tls(lambda: certificates_of(rings["client"], HERE))
    assert await handshake(server, client) == ["", ""]
    rings["server"] = ring_of(2)
    assert await handshake(server, client) == ["", ""], "no side knows of the change yet"
    server.renew()
    assert (await handshake(server, client))[1]
    rings["client"] = ring_of(2, 1)
    client.renew()
    assert await handshake(server, client) == ["", ""]


async def test_after_a_failure_the_old_certificates_stay() -> None:
    papers = [certificates_of(ring_of(1), HERE)]
    server, client = Tls(lambda: papers[0]), tls(1)
    assert await handshake(server, client) == ["", ""]
    papers[0] = {"site": Certificates(b"no papers", authority_of(ONE).pem)}
    with pytest.raises(OSError, match="PEM"):
        server.renew()
    assert await handshake(server, client) == ["", ""]


async def test_plain_text_is_no_handshake() -> None:
    there, here = await pair()
    async with there, here:
        await here.send_all(b"\x00\x00\x00\x05hello" * 10)
        with pytest.raises(TlsError):
            await tls(1).as_server(there, HERE)
