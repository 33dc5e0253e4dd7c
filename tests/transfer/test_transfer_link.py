"""The link between two transfer hosts: real connections, by certificates that were made for it."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from subord.runtime.frames import Frames
from subord.services.transfer.exchange import MESSAGE_BYTES_MAX, ExchangeError
from subord.services.transfer.linking import asking, certificate, link, serving
from subord.services.transfer.linking import counts as causes
from subord.services.transfer.linking.asking import Asker, LinkError
from subord.services.transfer.linking.certificate import CertificateError, Identity, mark_of
from subord.services.transfer.linking.context import GREETING, Ends, ends_of
from subord.services.transfer.linking.counts import Counts
from subord.services.transfer.linking.link import Key, Link
from subord.services.transfer.places import place_of
from subord.services.transfer.plan import Peer

Answer = Callable[[bytes], Awaitable[bytes]]


class Hosts(NamedTuple):
    """Two clusters that know each other, and one that both do not know but that knows both."""

    ours: Ends
    theirs: Ends
    stranger: Ends
    identities: tuple[Identity, Identity, Identity]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    folder = tmp_path_factory.mktemp("keys")
    a, b, c = (certificate.ensured(str(folder / name)) for name in "abc")
    return Hosts(ends_of(a, [b.text]), ends_of(b, [a.text]), ends_of(c, [a.text, b.text]), (a, b, c))


async def doubled(body: bytes) -> bytes:
    return body + body


class Served(NamedTuple):
    address: str
    counts: Counts
    nursery: trio.Nursery


@asynccontextmanager
async def serving_by(ends: Ends, answer: Answer = doubled, port: int = 0) -> AsyncIterator[Served]:
    (listener,) = await serving.bound("127.0.0.1", port)
    counts = Counts()
    async with trio.open_nursery() as nursery:
        await nursery.start(serving.serve, [listener], ends, answer, counts)
        yield Served(f"127.0.0.1:{listener.socket.getsockname()[1]}", counts, nursery)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def asker(ends: Ends, *addresses: str) -> AsyncIterator[tuple[Asker, Counts]]:
    counts = Counts(trio.current_time())
    own = Asker(addresses, ends, counts)
    try:
        yield own, counts
    finally:
        await own.aclose()


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - another task makes it true
            await trio.sleep(0.01)


async def refused_by(ends: Ends, *addresses: str) -> str:
    async with asker(ends, *addresses) as (own, _):
        with pytest.raises(LinkError) as raised:
            await own.ask(b"x")
    return str(raised.value)


# -- certificates -------------------------------------------------------------------------------------------------


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "below" / "key"
    first = certificate.ensured(str(path))
    assert certificate.ensured(str(path)) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["key"], "no part of it is left"
    assert certificate.der_of(first.text) == first.der
    assert first.fingerprint in repr(first)
    assert "PRIVATE" not in repr(first)


def _opened(path: Path) -> None:
    path.chmod(0o640)


def _shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def _of_another(path: Path) -> None:
    other = certificate.ensured(f"{path}.other").pem
    head = other.partition(b"-----BEGIN CERT")[0]
    path.write_bytes(head + b"-----BEGIN CERT" + path.read_bytes().partition(b"-----BEGIN CERT")[2])


def _removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_opened, "mode 0640 opens it to others"),
        (_shortened, "no private key with its certificate"),
        (_of_another, "the certificate is not of this key"),
        (_removed, "there is no such file; `subord transfer key` makes it"),
    ],
    ids=["opened", "shortened", "of another", "removed"],
)
def test_a_key_that_cannot_be_used_is_explained(spoil: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    certificate.ensured(str(path))
    spoil(path)
    with pytest.raises(CertificateError, match=said):
        certificate.read(str(path))


def test_a_place_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CertificateError, match="cannot be written"):
        certificate.ensured(str(tmp_path / "file" / "key"))


@pytest.mark.parametrize("text", ["", "!", "MIIAAA==", "AAAA"])
def test_what_is_no_certificate_is_refused(text: str, hosts: Hosts) -> None:
    with pytest.raises(CertificateError, match="subord transfer key"):
        ends_of(hosts.identities[0], [text])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.0.0.5:9720", ("10.0.0.5", 9720)),
        ("[::1]:9720", ("::1", 9720)),
        ("node-1.example:1", ("node-1.example", 1)),
        ("10.0.0.5", None),
        ("10.0.0.5:", None),
        ("10.0.0.5:0", None),
        ("10.0.0.5:65536", None),
        ("::1:9720", None),
        ("-a:1", None),
        ("a:1\n", None),
    ],
)
def test_places(text: str, place: tuple[str, int] | None) -> None:
    assert place_of(text) == place


# -- questions and answers ----------------------------------------------------------------------------------------


async def test_questions_are_answered_on_one_connection(hosts: Hosts) -> None:
    large = os.urandom(MESSAGE_BYTES_MAX // 2)
    async with serving_by(hosts.theirs) as served, asker(hosts.ours, served.address) as (own, counts):
        for body in (b"", b"a", large, b"b"):
            assert await own.ask(body) == body + body
        assert (counts.messages["asked"], counts.messages["answered"]) == (4, 4)
        assert counts.bytes["answered"] == 2 * counts.bytes["asked"] == 2 * (len(large) + 2)
        await until(lambda: served.counts.messages["told"] == 4)
        assert served.counts.messages["served"] == 4
        assert (counts.is_up, own.address, own.retry_in_s) == (True, served.address, 0)
        assert not served.counts.refused


async def test_questions_at_once_get_their_own_answers(hosts: Hosts) -> None:
    async def slow(body: bytes) -> bytes:
        await trio.sleep(0.01)
        return body

    found: dict[bytes, bytes] = {}
    async with serving_by(hosts.theirs, slow) as served, asker(hosts.ours, served.address) as (own, _):

        async def one(body: bytes) -> None:
            found[body] = await own.ask(body)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(one, b"%d" % number)
    assert found == {b"%d" % number: b"%d" % number for number in range(8)}


async def test_a_question_that_is_given_up_leaves_no_answer_behind(hosts: Hosts) -> None:
    async def answer(body: bytes) -> bytes:
        if body == b"late":
            await trio.sleep(0.2)
        return body

    async with serving_by(hosts.theirs, answer) as served, asker(hosts.ours, served.address) as (own, _):
        assert await own.ask(b"first") == b"first"
        with trio.move_on_after(0.05):
            await own.ask(b"late")
        await trio.sleep(0.3)
        assert await own.ask(b"next") == b"next"


async def test_the_first_address_that_accepts_us_is_asked(hosts: Hosts) -> None:
    async with (
        serving_by(hosts.theirs) as served,
        serving_by(hosts.stranger) as strange,
        asker(hosts.ours, "127.0.0.1:1", strange.address, served.address) as (own, _),
    ):
        assert await own.ask(b"x") == b"xx"
        assert own.address == served.address


# -- strangers ----------------------------------------------------------------------------------------------------


async def test_a_stranger_gets_no_word(hosts: Hosts) -> None:
    began = time.time()
    async with serving_by(hosts.theirs) as served:
        assert "does not accept this host" in await refused_by(hosts.stranger, served.address)
        await until(lambda: served.counts.refused)
        assert served.counts.refused == {"stranger": 1}
        assert served.counts.refused_last == "127.0.0.1: stranger"
        assert began <= served.counts.refused_at <= time.time()
        assert not served.counts.messages


async def test_a_stranger_hears_no_word(hosts: Hosts) -> None:
    async with serving_by(hosts.stranger) as served:
        said = await refused_by(hosts.ours, served.address)
        assert "shows a certificate that the plan does not name; nothing was sent to it" in said
        assert not served.counts.messages


async def test_no_certificate_and_an_older_tls_are_refused(hosts: Hosts) -> None:
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    older = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    older.check_hostname, older.verify_mode = False, ssl.CERT_NONE
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serving_by(hosts.theirs) as served:
        for context, cause in ((plain, "stranger"), (older, "broken")):
            context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)  # set by Python before 3.11.3
            served.counts.refused.clear()
            host, port = place_of(served.address) or ("", 0)
            secured = trio.SSLStream(await trio.open_tcp_stream(host, port), context)
            with pytest.raises(trio.BrokenResourceError):
                await secured.receive_some(1)  # after the handshake
            await trio.aclose_forcefully(secured)
            await until(lambda: served.counts.refused)
            assert served.counts.refused == {cause: 1}


def signed(by: Identity, key: Identity, *, ca: bool) -> Identity:
    """The key, with a certificate that another one has signed."""
    authority = x509.load_der_x509_certificate(by.der)
    own = x509.load_der_x509_certificate(key.der)
    made = (
        x509.CertificateBuilder()
        .subject_name(own.subject)
        .issuer_name(authority.subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(own.not_valid_before_utc)
        .not_valid_after(own.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(load_pem_private_key(by.pem, None), SHA256())  # type: ignore[arg-type]
    )
    private = key.pem.partition(b"-----BEGIN CERT")[0]
    return Identity(private + made.public_bytes(Encoding.PEM), made.public_bytes(Encoding.DER))


async def test_a_trusted_host_cannot_vouch_for_another(hosts: Hosts) -> None:
    """Even if its certificate is that of an authority, as other programs make them."""
    a, b, c = hosts.identities
    authority = signed(a, a, ca=True)
    theirs = ends_of(b, [authority.text])
    async with serving_by(theirs) as served, asker(ends_of(authority, [b.text]), served.address) as (own, _):
        assert await own.ask(b"x") == b"xx"
        await refused_by(ends_of(signed(authority, c, ca=False), [b.text]), served.address)
        await until(lambda: served.counts.refused)
        assert served.counts.refused == {"stranger": 1}


async def test_strangers_in_numbers_do_not_keep_the_other_cluster_out(hosts: Hosts) -> None:
    async with serving_by(hosts.theirs) as served, asker(hosts.ours, served.address) as (own, _):
        assert await own.ask(b"x") == b"xx"
        host, port = place_of(served.address) or ("", 0)
        silent = [await trio.open_tcp_stream(host, port) for _ in range(2 * serving.HANDSHAKES_OF_ONE_MAX)]
        await until(lambda: served.counts.refused["crowded"] == serving.HANDSHAKES_OF_ONE_MAX)
        assert await own.ask(b"y") == b"yy", "a connection that is accepted stays"
        for each in silent:
            await each.aclose()
        await until(lambda: served.counts.refused["broken"] == serving.HANDSHAKES_OF_ONE_MAX)


async def test_a_silent_stranger_is_not_waited_for(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HANDSHAKE_S_MAX", 0.05)
    async with serving_by(hosts.theirs) as served:
        host, port = place_of(served.address) or ("", 0)
        async with await trio.open_tcp_stream(host, port) as silent:
            assert await silent.receive_some(1) == b""
        assert served.counts.refused == {"slow": 1}


async def test_a_connection_is_heard_at_a_pace(hosts: Hosts) -> None:
    async with serving_by(hosts.theirs) as served, asker(hosts.ours, served.address) as (own, _):
        await own.ask(b"x")
        began = trio.current_time()
        for _ in range(3):
            await own.ask(b"x")
        assert trio.current_time() - began > 2 * serving.GAP_S


async def test_the_newest_connections_stay(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that ends is counted with its own address."""
    async with serving_by(hosts.theirs) as served, asker(hosts.ours, served.address) as (oldest, counts):
        with monkeypatch.context() as patches:
            patches.setattr(trio, "open_tcp_stream", partial(trio.open_tcp_stream, local_address="127.0.0.2"))
            await oldest.ask(b"x")
        newer = [Asker([served.address], hosts.ours, Counts()) for _ in range(serving.CONNECTIONS_MAX)]
        for each in newer:
            await each.ask(b"x")
        assert (served.counts.refused, served.counts.refused_last) == ({"crowded": 1}, "127.0.0.2: crowded")
        with pytest.raises(LinkError, match=r"was cut|has closed"):
            await oldest.ask(b"x")
        assert not counts.is_up
        assert counts.fault
        for each in newer:
            assert await each.ask(b"y") == b"yy"
            await each.aclose()


# -- faults -------------------------------------------------------------------------------------------------------


async def test_an_unreadable_message_ends_its_connection_alone(hosts: Hosts) -> None:
    async def answer(body: bytes) -> bytes:
        if body == b"bad":
            raise ExchangeError("it cannot be read")
        return body

    async with serving_by(hosts.theirs, answer) as served:
        assert "127.0.0.1" in await refused_by_body(hosts.ours, served.address, b"bad")
        assert served.counts.refused == {"unreadable": 1}
        async with asker(hosts.ours, served.address) as (own, _):
            assert await own.ask(b"good") == b"good"


async def refused_by_body(ends: Ends, address: str, body: bytes) -> str:
    async with asker(ends, address) as (own, _):
        with pytest.raises(LinkError) as raised:
            await own.ask(body)
    return str(raised.value)


async def test_too_long_a_frame_ends_the_connection(hosts: Hosts) -> None:
    async with serving_by(hosts.theirs) as served:
        host, port = place_of(served.address) or ("", 0)
        secured = trio.SSLStream(await trio.open_tcp_stream(host, port), hosts.ours.client, https_compatible=True)
        frames = Frames(secured)
        assert await frames.next(64) == GREETING
        await secured.send_all((MESSAGE_BYTES_MAX + 1).to_bytes(4, "big") + b"x")
        found = None
        with suppress(trio.BrokenResourceError):  # it is closed, without a farewell
            found = await frames.next(64)
        assert found is None
        await trio.aclose_forcefully(secured)
        assert not served.counts.messages


async def test_too_long_an_answer_is_not_read(hosts: Hosts) -> None:
    async def answer(_body: bytes) -> bytes:
        return bytes(MESSAGE_BYTES_MAX + 1)

    async with serving_by(hosts.theirs, answer) as served:
        assert "sent too much" in await refused_by_body(hosts.ours, served.address, b"x")


async def test_an_answer_that_does_not_come_is_not_waited_for(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_body: bytes) -> bytes:
        await trio.sleep_forever()

    monkeypatch.setattr(asking, "ANSWER_S_MAX", 0.1)
    async with serving_by(hosts.theirs, answer) as served:
        assert "has not answered within 0.1 s" in await refused_by_body(hosts.ours, served.address, b"x")


async def test_each_address_has_a_deadline(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "CONNECT_S_MAX", 0.1)
    (mute,) = await serving.bound("127.0.0.1", 0)
    async with mute, serving_by(hosts.theirs) as served:
        address = f"127.0.0.1:{mute.socket.getsockname()[1]}"
        assert "is silent for 0.1 s" in await refused_by(hosts.ours, address)
        async with asker(hosts.ours, address, served.address) as (own, _):
            assert await own.ask(b"x") == b"xx"


async def test_the_link_comes_back_by_itself_and_waits_longer_each_time(
    hosts: Hosts, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    (own_listener,) = await serving.bound("127.0.0.1", 0)
    port = own_listener.socket.getsockname()[1]
    await own_listener.aclose()
    async with asker(hosts.ours, f"127.0.0.1:{port}") as (own, counts):
        waits = []
        for _ in range(8):
            with pytest.raises(LinkError, match="cannot be reached"):
                await own.ask(b"x")
            waits.append(round(own.retry_in_s, 2))
            with pytest.raises(LinkError, match="cannot be reached"):
                await own.ask(b"x")
            await trio.sleep(own.retry_in_s)
        assert waits == [0.25, 0.5, 1, 2, 4, 8, 15, 15]
        assert counts.failed == {"unreachable": 8}, "it does not try before"


async def test_the_cause_stays_the_same_while_a_fault_lasts(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions in the pause after a failure have its cause, so that a fault is logged once."""
    monkeypatch.setattr(asking, "RETRY_S", asking.RETRY_S_MAX)
    async with serving_by(hosts.theirs) as served, asker(hosts.stranger, served.address) as (own, counts):
        for failed in (1, 1):
            with pytest.raises(LinkError) as raised:
                await own.ask(b"x")
            assert (raised.value.cause, counts.failed.total()) == (causes.STRANGER, failed)
            assert "does not accept this host" in str(raised.value)


async def test_a_restarted_host_is_asked_again(hosts: Hosts) -> None:
    async with asker(hosts.ours, "127.0.0.1:1") as (own, counts):
        port = 0
        for _ in range(2):
            async with serving_by(hosts.theirs, port=port) as served:
                port = (place_of(served.address) or ("", 0))[1]
                own._addresses = (served.address,)
                await trio.sleep(own.retry_in_s)
                assert await own.ask(b"x") == b"xx"
                assert counts.is_up
            with pytest.raises(LinkError):
                await own.ask(b"x")
            assert not counts.is_up


async def test_a_port_in_use_is_explained() -> None:
    (listener,) = await serving.bound("127.0.0.1", 0)
    async with listener:
        with pytest.raises(serving.ListenError, match=r"Address already in use; no job comes .* \[transfer\]"):
            await serving.bound("127.0.0.1", listener.socket.getsockname()[1])


async def test_two_links_of_two_plans_ask_each_other(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them can listen only when its port is free."""
    monkeypatch.setattr(link, "LISTEN_AGAIN_S", 0.05)
    listeners = [(await serving.bound("127.0.0.1", 0))[0] for _ in range(2)]
    ports = [each.socket.getsockname()[1] for each in listeners]
    a, b, _ = hosts.identities
    await listeners[0].aclose()
    peers = [
        Peer(name="other", addresses=(f"127.0.0.1:{ports[1 - own]}",), certificates=(other.text,))
        for own, other in ((0, b), (1, a))
    ]
    ends = [ends_of(own, peer.certificates) for own, peer in zip((a, b), peers, strict=True)]
    links = [Link(peer, own, ("127.0.0.1", port)) for peer, own, port in zip(peers, ends, ports, strict=True)]
    async with trio.open_nursery() as nursery:
        for each in links:
            nursery.start_soon(each.serve, doubled)
        await until(lambda: "Address already in use" in links[1].listening_fault)
        await until(lambda: not links[0].listening_fault)
        assert await links[1].ask(b"x") == b"xx"
        await listeners[1].aclose()
        await until(lambda: not links[1].listening_fault)
        assert await links[0].ask(b"y") == b"yy"
        nursery.cancel_scope.cancel()


# -- another key ---------------------------------------------------------------------------------------------------


async def asked_until(link: Link, wanted: str = "") -> None:
    """A question has this cause of a failure; "": it has an answer. The other end may not listen yet, and after a
    failure there is a pause."""
    with trio.fail_after(20):
        while True:
            cause = ""
            try:
                assert await link.ask(b"x") == b"xx"
            except LinkError as error:
                cause = error.cause
            if cause == wanted:
                return
            await trio.sleep(0.05)


def replace(key: Path, pem: bytes) -> None:
    new = key.with_suffix(".new")
    new.write_bytes(pem)
    new.chmod(0o600)
    new.replace(key)


async def two_links(hosts: Hosts, key: Path, *, named: int) -> tuple[Link, Link]:
    """Ours with a file of its key; the plan of the other one names the certificate of this number."""
    listeners = [(await serving.bound("127.0.0.1", 0))[0] for _ in range(2)]
    ports = [each.socket.getsockname()[1] for each in listeners]
    a, b, _ = hosts.identities
    replace(key, a.pem)
    ours = Peer(name="other", addresses=(f"127.0.0.1:{ports[1]}",), certificates=(b.text,))
    theirs = Peer(name="other", addresses=(f"127.0.0.1:{ports[0]}",), certificates=(hosts.identities[named].text,))
    for each in listeners:
        await each.aclose()
    return (
        Link(ours, ends_of(a, ours.certificates), ("127.0.0.1", ports[0]), Key(str(key), mark_of(str(key)))),
        Link(theirs, ends_of(b, theirs.certificates), ("127.0.0.1", ports[1])),
    )


async def test_a_key_that_was_replaced_counts_without_a_restart(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both directions, also of a connection that was open."""
    monkeypatch.setattr(link, "KEY_LOOK_S", 0.05)
    monkeypatch.setattr(asking, "RETRY_S_MAX", 0.05)
    ours, theirs = await two_links(hosts, tmp_path / "key", named=2)
    async with trio.open_nursery() as nursery:
        for each in (ours, theirs):
            nursery.start_soon(each.serve, doubled)
        for each in (ours, theirs):
            await asked_until(each, causes.STRANGER)
        replace(tmp_path / "key", hosts.identities[2].pem)
        for each in (ours, theirs):
            await asked_until(each)
        assert ours.key_fault == ""
        nursery.cancel_scope.cancel()


async def test_a_key_that_cannot_be_read_again_is_told_and_the_one_before_stays(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "KEY_LOOK_S", 0.05)
    ours, theirs = await two_links(hosts, tmp_path / "key", named=0)
    async with trio.open_nursery() as nursery:
        for each in (ours, theirs):
            nursery.start_soon(each.serve, doubled)
        await asked_until(ours)
        replace(tmp_path / "key", b"no key")
        await until(lambda: ours.key_fault)
        assert "there is no private key with its certificate in it" in ours.key_fault
        assert ours.key_fault.endswith("; the key from before stays in use")
        await asked_until(ours)
        await asked_until(theirs)
        replace(tmp_path / "key", hosts.identities[0].pem)
        await until(lambda: not ours.key_fault)
        nursery.cancel_scope.cancel()
