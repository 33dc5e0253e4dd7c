"""A passport office in town: papers come from files, are looked at again, and bad ones leave the good ones in use."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from subord.config.load import NO_KEY, load
from subord.runtime.security import certificates as module
from subord.runtime.security import proof
from subord.runtime.security.certificates import CertificatesError, SiteCertificates
from subord.runtime.security.credentials import Credentials, CredentialsError
from subord.runtime.security.tls import Certificates, Secure, Tls, TlsError
from subord.sealing.keys import Keyring, keyring_of, new_key, text_of

HERE = "127.0.0.1"
NOW = datetime.now(UTC)


class Office:
    """A site's own authority."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = Ed25519PrivateKey.generate()
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a site's own authority")])
        self.trusted = str(folder / "authority.pem")
        whole = x509.BasicConstraints(ca=True, path_length=None)
        stamped = self._builder(self.name, self.key, NOW + timedelta(days=9)).add_extension(whole, critical=True)
        Path(self.trusted).write_bytes(stamped.sign(self.key, None).public_bytes(Encoding.PEM))

    def _builder(self, name: x509.Name, key: Ed25519PrivateKey, until: datetime) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self.name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(NOW - timedelta(days=1)).not_valid_after(until)

    def stamp(self, name: str, address: str = HERE, days: int = 5) -> str:
        """Path of papers for that address."""
        key = Ed25519PrivateKey.generate()
        who = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
        stamped = self._builder(subject, key, NOW + timedelta(days=days)).add_extension(who, critical=False)
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + stamped.sign(self.key, None).public_bytes(Encoding.PEM)
        )
        return str(path)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def shake(server: Tls, client: Tls) -> list[str]:
    """What went wrong on each side; "": nothing."""
    pair = socket.socketpair()
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in pair]
    said = ["", ""]

    async def serve() -> None:
        try:
            await (await server.as_server(streams[0], HERE)).send_all(b"x")
        except TlsError as error:
            said[0] = str(error)
        except trio.BrokenResourceError:
            said[0] = "closed"
        await trio.aclose_forcefully(streams[0])

    async def call() -> None:
        try:
            stream = await client.as_client(streams[1], HERE, client.names[0])
            said[1] = "" if await stream.receive_some(1) == b"x" else "closed"
        except TlsError as error:
            said[1] = str(error)
        except trio.BrokenResourceError:
            said[1] = "closed"
        await trio.aclose_forcefully(streams[1])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        nursery.start_soon(call)
    return said


async def test_two_with_papers_of_one_authority_understand_each_other(office: Office) -> None:
    one, two = (Tls(SiteCertificates(office.stamp(name), office.trusted).issue) for name in ("one", "two"))
    assert await shake(one, two) == ["", ""]


async def test_papers_for_another_address_are_refused_by_both_sides(office: Office) -> None:
    good = Tls(SiteCertificates(office.stamp("good"), office.trusted).issue)
    bad = Tls(SiteCertificates(office.stamp("bad", "127.0.0.9"), office.trusted).issue)
    assert (await shake(good, bad))[0] == "tls_wrong_address"
    assert (await shake(bad, good))[1] == "tls_wrong_address"


def read(ours: str, trusted: str) -> Certificates:
    """Whatever they are worth."""
    return Certificates(Path(ours).read_bytes(), Path(trusted).read_text())


async def test_papers_that_have_expired_are_refused(office: Office) -> None:
    good = Tls(SiteCertificates(office.stamp("good"), office.trusted).issue)
    late = office.stamp("late", days=-1)
    papers = read(late, office.trusted)
    assert (await shake(good, Tls(lambda: {module.SITE: papers})))[0]
    assert (await shake(Tls(lambda: {module.SITE: papers}), good))[1]
    with pytest.raises(CertificatesError, match=r"good from .* only"):
        SiteCertificates(late, office.trusted)


def test_papers_for_somebody_else_are_not_taken(office: Office) -> None:
    with pytest.raises(CertificatesError, match=r"does not name the address 10\.0\.0\.1"):
        SiteCertificates(office.stamp("papers"), office.trusted, "10.0.0.1")


async def test_papers_alone_open_no_door_where_the_key_is_asked_for(office: Office) -> None:
    """The office stamps for the whole town."""
    rings = {"one": keyring_of(new_key()), "other": keyring_of(new_key())}

    def node(name: str, ring: Keyring) -> Tls:
        async def prove(stream: Secure, peer: str, calling: bool) -> bool:
            return await proof.shown(stream, ring, HERE, HERE, calling=calling)

        return Tls(SiteCertificates(office.stamp(name), office.trusted).issue, prove)

    assert await shake(node("a", rings["one"]), node("b", rings["one"])) == ["", ""]
    assert await shake(node("a", rings["one"]), node("b", rings["other"])) == ["tls_without_key", "tls_without_key"]
    without = Tls(SiteCertificates(office.stamp("c"), office.trusted).issue)
    assert (await shake(node("a", rings["one"]), without))[0] in ("tls_without_key", "tls_broken", "tls_too_slow")


@pytest.mark.parametrize(
    ("text", "mode", "complaint"),
    [
        ("", 0o600, "there is no certificate in it"),
        (
            "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n",
            0o600,
            "there is no certificate in it",
        ),
        (None, 0o644, "mode 0644 opens it to others"),
        ("gone", 0, "there is no such file; it must hold a private key and then its certificate, in PEM"),
        ("primary x\n", 0o600, "there is no certificate in it; it must hold a private key and then its cert"),
        ("\xff", 0o600, "so this is no PEM file"),
    ],
)
def test_papers_that_cannot_be_used_say_why(office: Office, text: str | None, mode: int, complaint: str) -> None:
    path = Path(office.stamp("papers"))
    if text == "gone":
        path.unlink()
    else:
        path.write_text(path.read_text() if text is None else text)
        path.chmod(mode)
    with pytest.raises(CertificatesError, match=complaint) as raised:
        SiteCertificates(str(path), office.trusted)
    assert str(raised.value).startswith(f"node.certificate: {path}: ")
    assert "key generate" not in str(raised.value), "that is about the key ring"
    assert "PRIVATE" not in str(raised.value)


def spoil(path: str) -> None:
    Path(path).write_text("spoilt")
    os.utime(path, ns=(2, 2))


async def test_new_papers_are_shown_without_a_restart_and_bad_ones_are_left(
    office: Office, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    path = office.stamp("papers")
    papers = SiteCertificates(path, office.trusted)
    tls = Tls(papers.issue)
    tls.renew()
    caplog.set_level(logging.INFO, "subord")
    logging.getLogger("subord").propagate = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(papers.renew_forever, tls.renew)
        first = papers.expires_at
        office.stamp("papers", days=7)
        os.utime(path, ns=(1, 1))
        await trio.sleep(module.LOOK_S * 1.5)
        assert papers.expires_at - first == pytest.approx(2 * 86400, abs=2)
        kept = tls.contexts()
        spoil(path)
        await trio.sleep(module.LOOK_S * 3)
        assert tls.contexts() is kept
        nursery.cancel_scope.cancel()
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1, "said once"
    assert "the old ones go on" in errors[0]


# -- the guard room -------------------------------------------------------------------------------------------------


def guard(tmp_path: Path, address: str, *assignments: str) -> Credentials:
    return Credentials(load(None, ["cluster.network=10.0.0.0/8", *assignments]), address)


async def test_nobody_runs_in_the_open_unless_told_to(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError) as raised:
        guard(tmp_path, "10.0.0.1")
    assert str(raised.value) == NO_KEY
    assert guard(tmp_path, "10.0.0.1", "cluster.insecure=true").keeping is None
    assert guard(tmp_path, HERE).keeping is None
    assert guard(tmp_path, "::1").keeping is None


async def test_what_is_wrong_with_keys_or_papers_is_said_at_once(tmp_path: Path, office: Office) -> None:
    ring = tmp_path / "cluster.key"
    ring.touch(mode=0o600)
    ring.write_text(text_of(keyring_of(new_key())))
    key = f"cluster.key_file={ring}"
    assert guard(tmp_path, "10.0.0.1", key).tls is not None
    papers = f"node.certificate={office.stamp('papers', '10.0.0.1')}"
    assert guard(tmp_path, "10.0.0.1", key, papers, f"node.authorities={office.trusted}").expires_at is not None
    with pytest.raises(CredentialsError, match=f"^node.authorities: {ring}: there is no certificate in it"):
        guard(tmp_path, "10.0.0.1", key, papers, f"node.authorities={ring}")
    metrics = "node.metrics=127.0.0.1:9717", f"node.metrics_certificate={tmp_path}/none"
    with pytest.raises(CredentialsError, match=f"^node.metrics_certificate: {tmp_path}/none: there is no such file"):
        guard(tmp_path, "10.0.0.1", key, *metrics)
    ring.write_text("nonsense")
    with pytest.raises(CredentialsError, match="line 1"):
        guard(tmp_path, "10.0.0.1", key)


async def test_metrics_papers_make_a_context_for_callers_without_papers(tmp_path: Path, office: Office) -> None:
    papers = office.stamp("metrics")
    room = guard(
        tmp_path,
        "10.0.0.1",
        "cluster.insecure=true",
        "node.metrics=127.0.0.1:9717",
        f"node.metrics_certificate={papers}",
    )
    assert isinstance(room.metrics_context, ssl.SSLContext)
    assert room.metrics_context.verify_mode == ssl.CERT_NONE
