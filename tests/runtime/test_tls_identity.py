"""Streams prove the identities of both ends, and a peer with another identity than expected is refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from conditions import WAIT_S_MAX
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from host_authority import HostAuthority
from releases import RELEASES, wheel_of

from subord.core.identity.signer import Signer
from subord.runtime.frames import Frames, frame
from subord.runtime.security import proof
from subord.runtime.security.identity import Identity
from subord.runtime.security.peer_identity import (
    FOREIGN_KEY,
    NO_IDENTITY,
    HostAuthorities,
    HostAuthoritiesError,
    PeerIdentities,
)
from subord.runtime.security.tls import Judge, Shown, Tls, TlsError, certificates_of
from subord.sealing import authority as x509_authority
from subord.sealing.identity import Ed25519Signer, Verifier
from subord.sealing.keys import key_of, keyring_of, text_of

HERE, THERE = "127.0.0.1", "127.0.0.2"
ONE, OTHER = (Ed25519Signer(bytes([number]) * 32) for number in (1, 2))
RING = keyring_of(key_of(bytes(32)))


def identity(signer: Signer, certificate: bytes = b"", address: str = HERE) -> Identity:
    found = Identity(signer, "", address, 0.0)
    found.certificate = certificate
    return found


def tls(found: Identity | None, judge: Judge | None = None) -> Tls:
    return Tls(lambda: certificates_of(RING, HERE, found), judge=judge or (lambda _address, _shown: ""))


class Record:
    """A judge that refuses nothing, or everything for `reason`."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self.shown: list[tuple[str, Shown]] = []

    def __call__(self, address: str, shown: Shown) -> str:
        self.shown.append((address, shown))
        return self.reason


async def shake_hands(server: Tls, client: Tls) -> list[str]:
    """The errors of server and client; "": none."""
    left, right = (trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in socket.socketpair())
    errors = ["", ""]

    async def serve() -> None:
        try:
            await (await server.as_server(left, HERE)).send_all(b"x")
        except (TlsError, trio.BrokenResourceError) as error:
            errors[0] = str(error) or "closed"
        await trio.aclose_forcefully(left)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            stream = await client.as_client(right, HERE, (await client.names())[0])
            errors[1] = "" if await stream.receive_some(1) == b"x" else "closed"
        except (TlsError, trio.BrokenResourceError) as error:
            errors[1] = str(error) or "closed"
        await trio.aclose_forcefully(right)
    return errors


async def test_both_ends_learn_the_key_of_the_other() -> None:
    server, client = Record(), Record()
    assert await shake_hands(tls(identity(ONE), server), tls(identity(OTHER), client)) == ["", ""]
    assert server.shown == [(HERE, Shown(OTHER.key))]
    assert client.shown == [(HERE, Shown(ONE.key))]


async def test_a_refusal_by_each_end() -> None:
    one, other = tls(identity(ONE)), tls(identity(OTHER))
    refused = await shake_hands(tls(identity(ONE), Record(FOREIGN_KEY)), other)
    assert refused[0] == FOREIGN_KEY
    assert refused[1] != ""
    assert (await shake_hands(one, tls(identity(OTHER), Record(NO_IDENTITY))))[1] == NO_IDENTITY


@pytest.mark.parametrize("without", [None, identity(Verifier())])
async def test_a_node_without_identity(without: Identity | None) -> None:
    server, client = Record(), Record()
    assert await shake_hands(tls(without, server), tls(identity(ONE), client)) == ["", ""]
    assert client.shown == [(HERE, Shown())]
    assert server.shown == [(HERE, Shown(ONE.key))]


@pytest.mark.slow
async def test_the_host_certificate_travels_in_the_certificate_of_the_stream(tmp_path: Path) -> None:
    blob = HostAuthority(tmp_path, "-t", "rsa", "-b", "4096").blob(ONE.key, "-h", "-n", HERE)
    client = Record()
    assert await shake_hands(tls(identity(ONE, blob)), tls(identity(OTHER), client)) == ["", ""]
    assert client.shown == [(HERE, Shown(ONE.key, blob))]


def test_only_the_key_pair_of_the_certificate_counts() -> None:
    """The holder of the cluster's key writes into a certificate what it likes."""
    authority = x509_authority.authority_of(RING.primary)
    ours = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, x509_authority.NODE)])
    decoy = x509.NameAttribute(x509.NameOID.COMMON_NAME, "x" + "y" * 40)

    def identity_of(subject: x509.Name, public: object) -> tuple[bytes, bytes]:
        builder = x509_authority._certificate(subject, authority.certificate.subject, public)  # type: ignore[arg-type]
        certificate = builder.serial_number(1).sign(authority.key, None)
        return x509_authority.identity_in(certificate.public_bytes(Encoding.DER))

    assert identity_of(ours, ONE.private.public_key()) == (ONE.key, b"")
    assert identity_of(x509.Name([*ours, decoy]), ONE.private.public_key()) == (ONE.key, b"")
    assert identity_of(x509.Name([decoy]), ONE.private.public_key()) == (b"", b"")
    assert identity_of(x509.Name([*ours, *ours]), ONE.private.public_key()) == (b"", b"")
    assert identity_of(ours, ec.generate_private_key(ec.SECP256R1()).public_key()) == (b"", b"")


# -- former releases ------------------------------------------------------------------------------------------------


def started(release: str, code: str, *words: str, passed: int | None = None) -> subprocess.Popen[str]:
    """A process with the former release, which gets the key ring on its standard input."""
    old = subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[] if passed is None else [passed],
        env={**os.environ, "PYTHONPATH": str(wheel_of(release))},
    )
    assert old.stdin
    old.stdin.write(text_of(RING))
    old.stdin.close()
    return old


OLD_SERVER = """
import socket, sys, trio
try:
    from subord.runtime.tls import Tls, papers_of as certificates_of
except ImportError:  # of 0.1
    from subord.runtime.security.tls import Tls, certificates_of
from subord.sealing.keys import parse

async def main():
    ring = parse(sys.stdin.read())
    tls = Tls(lambda: certificates_of(ring, "127.0.0.1"))
    listening = trio.socket.from_stdlib_socket(socket.create_server(("127.0.0.1", 0)))
    print(listening.getsockname()[1], flush=True)
    sock, _ = await listening.accept()
    stream = await tls.as_server(trio.SocketStream(sock), "127.0.0.1")
    await stream.send_all(b"x")
    sock, _ = await listening.accept()  # now it calls
    stream = await tls.as_client(trio.SocketStream(sock), "127.0.0.1", ring.primary.name)
    print("got", await stream.receive_some(1), flush=True)

trio.run(main)
"""


@pytest.mark.parametrize("release", RELEASES)
async def test_a_former_release_connects_both_ways_and_has_no_identity(release: str) -> None:
    old = started(release, OLD_SERVER)
    assert old.stdout
    with old, trio.fail_after(WAIT_S_MAX):
        try:
            port, record = int(await trio.to_thread.run_sync(old.stdout.readline)), Record()
            ours = tls(identity(ONE, b"a certificate by OpenSSH"), record)
            async with await trio.open_tcp_stream(HERE, port) as raw:
                assert await (await ours.as_client(raw, HERE, RING.primary.name)).receive_some(1) == b"x"
            async with await trio.open_tcp_stream(HERE, port) as raw:
                await (await ours.as_server(raw, HERE)).send_all(b"x")
                assert await trio.to_thread.run_sync(old.stdout.readline) == "got b'x'\n"
        finally:
            old.kill()
    assert record.shown == [(HERE, Shown())] * 2


# -- beside certificates of the site's authority --------------------------------------------------------------------


async def prove_both(
    one: Callable[[trio.SocketStream], object], other: Callable[[trio.SocketStream], object]
) -> list[object]:
    """What both ends of a connection return."""
    found: list[object] = [None, None]
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in socket.socketpair()]

    async def run(number: int, end: Callable[[trio.SocketStream], object]) -> None:
        try:
            found[number] = await end(streams[number])  # type: ignore[misc]
        except trio.BrokenResourceError:
            found[number] = "broken"
        if found[number] is None:
            await streams[number].aclose()

    with trio.fail_after(WAIT_S_MAX):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, 0, one)
            nursery.start_soon(run, 1, other)
    for stream in streams:
        await trio.aclose_forcefully(stream)
    return found


def end(signer: Signer, certificate: bytes = b"", *, calling: bool) -> Callable[[trio.SocketStream], object]:
    return lambda stream: proof.shown(
        stream, RING, HERE, THERE, calling=calling, signer=signer, certificate=certificate
    )


async def test_the_proof_of_the_key_also_proves_the_identities() -> None:
    assert await prove_both(end(ONE, b"certificate", calling=True), end(OTHER, calling=False)) == [
        Shown(OTHER.key),
        Shown(ONE.key, b"certificate"),
    ]
    assert await prove_both(end(Verifier(), calling=True), end(OTHER, calling=False)) == [Shown(OTHER.key), Shown()]


class Liar(Verifier):
    """Shows the key of another node."""

    def __init__(self, forge: Callable[[bytes], bytes]) -> None:
        self.key = ONE.key
        self._forge = forge

    def sign(self, content: bytes) -> bytes:
        return self._forge(content)


async def test_a_key_without_its_signature_is_refused() -> None:
    forgeries = (
        OTHER.sign,
        lambda _: b"",
        lambda _: bytes(64),
        lambda content: ONE.sign(content.replace(b"caller", b"called")),  # what the other end would sign
        lambda content: ONE.sign(content)[:-1],
    )
    for forge in forgeries:
        found = await prove_both(end(Liar(forge), calling=True), end(OTHER, calling=False))
        assert found[1] is None


async def test_a_reflected_proof_is_refused() -> None:
    async def reflect(stream: trio.SocketStream) -> None:
        frames = Frames(stream)
        for _ in range(3):
            await stream.send_all(frame(await frames.next(4096) or b""))

    assert (await prove_both(end(ONE, calling=True), reflect))[0] is None


OLD_PROOF = """
import socket, sys, trio
try:
    from subord.runtime import proof
except ImportError:  # of 0.1
    from subord.runtime.security import proof
from subord.sealing.keys import parse

async def main():
    ring = parse(sys.stdin.read())
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=int(sys.argv[1]))))
    is_shown = await proof.shown(stream, ring, "127.0.0.1", "127.0.0.2", calling=sys.argv[2] == "calling")
    print(is_shown, flush=True)
    await stream.receive_some(1)  # without TLS two frames might arrive as one
    await stream.send_all(b"\\0\\0\\0\\x01x")  # the next frame: the opening

trio.run(main)
"""


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("role", ["calling", "called"])
async def test_a_former_release_proves_its_key_and_no_identity(role: str, release: str) -> None:
    left, right = socket.socketpair()
    with left, right:
        old = started(release, OLD_PROOF, str(right.fileno()), role, passed=right.fileno())
        assert old.stdout
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(left))
        with old, trio.fail_after(WAIT_S_MAX):
            assert await end(ONE, b"certificate", calling=role == "called")(stream) == Shown()  # type: ignore[misc]
            assert await trio.to_thread.run_sync(old.stdout.readline) == "True\n"
            await stream.send_all(b"x")
            assert await Frames(stream).next(1) == b"x"


# -- the decision ---------------------------------------------------------------------------------------------------


def peers(pinned: bytes = b"", *, strict: bool = False, authorities: HostAuthorities | None = None) -> PeerIdentities:
    found = PeerIdentities(authorities)
    found.pinned = lambda address: pinned if address == HERE else b""
    found.is_strict = lambda: strict
    return found


@pytest.mark.parametrize(
    ("pinned", "strict", "shown", "reason"),
    [
        (b"", False, b"", ""),
        (b"", True, b"", "tls_no_identity"),
        (ONE.key, False, b"", "tls_no_identity"),
        (ONE.key, True, b"", "tls_no_identity"),
        (b"", False, ONE.key, ""),
        (b"", True, ONE.key, ""),
        (ONE.key, False, ONE.key, ""),
        (OTHER.key, False, ONE.key, "tls_foreign_key"),
        (OTHER.key, True, ONE.key, "tls_foreign_key"),
    ],
)
def test_pinned_identities(pinned: bytes, strict: bool, shown: bytes, reason: str) -> None:
    known = peers(pinned, strict=strict)
    assert known.judge(HERE, Shown(shown)) == reason
    assert known.key_of(HERE) == (shown if not reason else b"")
    assert known.is_certified(HERE, shown) is None
    assert not known.certifies


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> HostAuthority:
    return HostAuthority(tmp_path_factory.mktemp("authority"))


def certifying(authority: HostAuthority) -> HostAuthorities:
    return HostAuthorities(f"{authority.path}.pub")


def test_certified_identities(authority: HostAuthority) -> None:
    good = authority.blob(ONE.key, "-h", "-n", HERE)
    elsewhere = authority.blob(ONE.key, "-h", "-n", THERE)
    ours = certifying(authority)
    for pinned in (b"", ONE.key, OTHER.key):  # a replaced machine with a certificate needs no operator
        for strict in (False, True):
            known = peers(pinned, strict=strict, authorities=ours)
            assert known.judge(HERE, Shown(ONE.key, good)) == ""
            assert known.is_certified(HERE, ONE.key) is True
            assert known.is_certified(HERE, OTHER.key) is None
    severe, lenient = peers(strict=True, authorities=ours), peers(authorities=ours)
    for certificate, reason in ((b"", "missing"), (elsewhere, "other_address"), (good[:-1], "malformed")):
        assert severe.judge(HERE, Shown(ONE.key, certificate)) == f"tls_certificate_{reason}"
        assert lenient.judge(HERE, Shown(ONE.key, certificate)) == ""
        assert lenient.is_certified(HERE, ONE.key) is False
        assert peers(OTHER.key, authorities=ours).judge(HERE, Shown(ONE.key, certificate)) == FOREIGN_KEY
        assert peers(ONE.key, authorities=ours).judge(HERE, Shown(ONE.key, certificate)) == ""


def test_a_certificate_counts_until_it_expires(authority: HostAuthority) -> None:
    now_s = 1893499200.0
    known = PeerIdentities(certifying(authority), lambda: now_s)
    shown = Shown(ONE.key, authority.blob(ONE.key, "-h", "-n", HERE, "-V", "20300101120000Z:20300101130000Z"))
    assert known.judge(HERE, shown) == ""
    assert known.is_certified(HERE, ONE.key) is True
    now_s += 3600
    assert known.is_certified(HERE, ONE.key) is False
    known.forget(HERE)
    assert known.is_certified(HERE, ONE.key) is None


async def test_new_authorities_are_read_without_a_restart(
    authority: HostAuthority, tmp_path: Path, autojump_clock: trio.testing.MockClock, warnings: list[str]
) -> None:
    path = tmp_path / "authorities"
    path.write_text(authority.line)
    known = PeerIdentities(HostAuthorities(str(path)))
    good = Shown(ONE.key, authority.blob(ONE.key, "-h", "-n", HERE))
    known.judge(HERE, good)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(known.renew_forever)
        path.write_text("nonsense")
        os.utime(path, ns=(1, 1))
        await trio.sleep(600)
        assert known.is_certified(HERE, ONE.key) is True
        assert len(warnings) == 1
        assert "the old ones stay in use: cluster.host_authorities: " in warnings[0]
        path.write_text(HostAuthority(tmp_path / "other").line)
        os.utime(path, ns=(2, 2))
        await trio.sleep(600)
        assert known.is_certified(HERE, ONE.key) is False
        assert known.key_of(HERE) == ONE.key
        known.is_strict = lambda: True
        assert known.judge(HERE, good) == "tls_certificate_unknown_authority"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "No such file or directory"), ("", "there is no authority in it"), ("\xff", "not plain text")],
)
def test_the_error_of_unusable_authorities(tmp_path: Path, text: str | None, complaint: str) -> None:
    path = tmp_path / "authorities"
    if text is not None:
        path.write_text(text, encoding="latin-1")
    with pytest.raises(HostAuthoritiesError, match=f"^cluster.host_authorities: {path}: {complaint}"):
        HostAuthorities(str(path))


def test_the_table_of_identities_is_bounded() -> None:
    known = PeerIdentities()
    for number in range(10_000):
        known.judge(f"10.0.{number >> 8}.{number & 255}", Shown(ONE.key))
    assert len(known) == 8192
