"""Certificates of a site's authority: from files, read again on changes; unusable ones leave the old ones in use."""

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
from subord.runtime.security.tls import Certificates, Secure, Shown, Tls, TlsError
from subord.sealing.keys import Keyring, keyring_of, new_key, text_of

HERE = "127.0.0.1"
NOW = datetime.now(UTC)


class Authority:
    """The site's own authority."""

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

    def issue(self, name: str, address: str = HERE, days: int = 5) -> str:
        """Path of a file with a certificate for that address."""
        key = Ed25519PrivateKey.generate()
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
        stamped = self._builder(subject, key, NOW + timedelta(days=days)).add_extension(names, critical=False)
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + stamped.sign(self.key, None).public_bytes(Encoding.PEM)
        )
        return str(path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def handshake(server: Tls, client: Tls) -> list[str]:
    """The error on each side; "": none."""
    pair = socket.socketpair()
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in pair]
    errors = ["", ""]

    async def serve() -> None:
        try:
            await (await server.as_server(streams[0], HERE)).send_all(b"x")
        except TlsError as error:
            errors[0] = str(error)
        except trio.BrokenResourceError:
            errors[0] = "closed"
        await trio.aclose_forcefully(streams[0])

    async def call() -> None:
        try:
            stream = await client.as_client(streams[1], HERE, (await client.names())[0])
            errors[1] = "" if await stream.receive_some(1) == b"x" else "closed"
        except TlsError as error:
            errors[1] = str(error)
        except trio.BrokenResourceError:
            errors[1] = "closed"
        await trio.aclose_forcefully(streams[1])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        nursery.start_soon(call)
    return errors


async def test_certificates_of_one_authority_are_accepted(authority: Authority) -> None:
    one, two = (Tls(SiteCertificates(authority.issue(name), authority.trusted).issue) for name in ("one", "two"))
    assert await handshake(one, two) == ["", ""]


async def test_a_certificate_for_another_address_is_refused_by_both_sides(authority: Authority) -> None:
    good = Tls(SiteCertificates(authority.issue("good"), authority.trusted).issue)
    bad = Tls(SiteCertificates(authority.issue("bad", "127.0.0.9"), authority.trusted).issue)
    assert (await handshake(good, bad))[0] == "tls_wrong_address"
    assert (await handshake(bad, good))[1] == "tls_wrong_address"


def read(ours: str, trusted: str) -> Certificates:
    return Certificates(Path(ours).read_bytes(), Path(trusted).read_text())


async def test_expired_certificates_are_refused(authority: Authority) -> None:
    good = Tls(SiteCertificates(authority.issue("good"), authority.trusted).issue)
    late = authority.issue("late", days=-1)
    files = read(late, authority.trusted)
    assert (await handshake(good, Tls(lambda: {module.SITE: files})))[0]
    assert (await handshake(Tls(lambda: {module.SITE: files}), good))[1]
    with pytest.raises(CertificatesError, match=r"valid from .* only"):
        SiteCertificates(late, authority.trusted)


def test_a_certificate_for_another_node_is_rejected(authority: Authority) -> None:
    with pytest.raises(CertificatesError, match=r"does not name the address 10\.0\.0\.1"):
        SiteCertificates(authority.issue("files"), authority.trusted, "10.0.0.1")


async def test_a_certificate_without_the_key_is_refused(authority: Authority) -> None:
    """The authority also certifies hosts outside the cluster."""
    rings = {"one": keyring_of(new_key()), "other": keyring_of(new_key())}

    def node(name: str, ring: Keyring) -> Tls:
        async def prove(stream: Secure, peer: str, calling: bool) -> Shown | None:
            return await proof.shown(stream, ring, HERE, HERE, calling=calling)

        return Tls(SiteCertificates(authority.issue(name), authority.trusted).issue, prove)

    assert await handshake(node("a", rings["one"]), node("b", rings["one"])) == ["", ""]
    assert await handshake(node("a", rings["one"]), node("b", rings["other"])) == [
        "tls_without_key",
        "tls_without_key",
    ]
    without = Tls(SiteCertificates(authority.issue("c"), authority.trusted).issue)
    assert (await handshake(node("a", rings["one"]), without))[0] in ("tls_without_key", "tls_broken", "tls_too_slow")


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
def test_the_error_of_an_unusable_file(authority: Authority, text: str | None, mode: int, complaint: str) -> None:
    path = Path(authority.issue("files"))
    if text == "gone":
        path.unlink()
    else:
        path.write_text(path.read_text() if text is None else text)
        path.chmod(mode)
    with pytest.raises(CertificatesError, match=complaint) as raised:
        SiteCertificates(str(path), authority.trusted)
    assert str(raised.value).startswith(f"node.certificate: {path}: ")
    assert "key generate" not in str(raised.value), "that is about the key ring"
    assert "PRIVATE" not in str(raised.value)


def corrupt(path: str) -> None:
    Path(path).write_text("spoilt")
    os.utime(path, ns=(2, 2))


async def test_new_certificates_take_effect_without_a_restart_and_bad_ones_are_ignored(
    authority: Authority, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    path = authority.issue("files")
    files = SiteCertificates(path, authority.trusted)
    tls = Tls(files.issue)
    tls.renew()
    caplog.set_level(logging.INFO, "subord")
    logging.getLogger("subord").propagate = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.renew_forever, tls.renew)
        first = files.expires_at
        authority.issue("files", days=7)
        os.utime(path, ns=(1, 1))
        await trio.sleep(module.LOOK_S * 1.5)
        assert files.expires_at - first == pytest.approx(2 * 86400, abs=2)
        kept = tls.contexts()
        corrupt(path)
        await trio.sleep(module.LOOK_S * 3)
        assert tls.contexts() is kept
        nursery.cancel_scope.cancel()
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1, "logged once"
    assert "the old ones stay in use" in errors[0]


# -- credentials ----------------------------------------------------------------------------------------------------


def credentials(tmp_path: Path, address: str, *assignments: str) -> Credentials:
    return Credentials(load(None, ["cluster.network=10.0.0.0/8", *assignments]), address)


async def test_a_node_without_a_key_needs_insecure(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError) as raised:
        credentials(tmp_path, "10.0.0.1")
    assert str(raised.value) == NO_KEY
    assert credentials(tmp_path, "10.0.0.1", "cluster.insecure=true").key_ring is None
    assert credentials(tmp_path, HERE).key_ring is None
    assert credentials(tmp_path, "::1").key_ring is None


async def test_errors_of_keys_or_certificates_prevent_the_start(tmp_path: Path, authority: Authority) -> None:
    ring = tmp_path / "cluster.key"
    ring.touch(mode=0o600)
    ring.write_text(text_of(keyring_of(new_key())))
    key = f"cluster.key_file={ring}"
    assert credentials(tmp_path, "10.0.0.1", key).tls is not None
    files = f"node.certificate={authority.issue('files', '10.0.0.1')}"
    assert (
        credentials(tmp_path, "10.0.0.1", key, files, f"node.authorities={authority.trusted}").expires_at is not None
    )
    with pytest.raises(CredentialsError, match=f"^node.authorities: {ring}: there is no certificate in it"):
        credentials(tmp_path, "10.0.0.1", key, files, f"node.authorities={ring}")
    metrics = "node.metrics=127.0.0.1:9717", f"node.metrics_certificate={tmp_path}/none"
    with pytest.raises(CredentialsError, match=f"^node.metrics_certificate: {tmp_path}/none: there is no such file"):
        credentials(tmp_path, "10.0.0.1", key, *metrics)
    ring.write_text("nonsense")
    with pytest.raises(CredentialsError, match="line 1"):
        credentials(tmp_path, "10.0.0.1", key)


async def test_the_metrics_certificate_serves_clients_without_certificates(
    tmp_path: Path, authority: Authority
) -> None:
    files = authority.issue("metrics")
    created = credentials(
        tmp_path,
        "10.0.0.1",
        "cluster.insecure=true",
        "node.metrics=127.0.0.1:9717",
        f"node.metrics_certificate={files}",
    )
    assert isinstance(created.metrics_context, ssl.SSLContext)
    assert created.metrics_context.verify_mode == ssl.CERT_NONE
