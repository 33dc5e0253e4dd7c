"""The identity of a node on disk: made once, read again, and never replaced silently."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
import trio
import trio.testing
from host_authority import HostAuthority, keygen

from subord.runtime.security.identity import LOOK_S, Identity, opened
from subord.sealing.openssh import IdentityError, private_text

HERE = "10.0.0.7"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_start_makes_the_key_and_later_ones_read_it(tmp_path: Path, warnings: list[str]) -> None:
    before = os.umask(0o777)
    try:
        first = opened(str(tmp_path), HERE)
    finally:
        os.umask(before)
    assert first.is_saved
    assert sorted(os.listdir(tmp_path)) == ["identity", "identity.pub"]
    assert mode_of(tmp_path / "identity") == 0o600
    assert mode_of(tmp_path / "identity.pub") == 0o644
    assert keygen("-l", "-f", tmp_path / "identity").split()[1:4] == [first.fingerprint, "subord", HERE]
    assert keygen("-l", "-f", tmp_path / "identity.pub").split()[1] == first.fingerprint
    assert (
        keygen("-y", "-f", tmp_path / "identity").split()[:2] == ((tmp_path / "identity.pub").read_text().split()[:2])
    )
    again = opened(str(tmp_path), HERE)
    assert again.signer.key == first.signer.key
    assert again.since_s == pytest.approx(time.time(), abs=60)
    assert warnings == []


def test_a_lost_public_key_is_written_again(tmp_path: Path) -> None:
    opened(str(tmp_path), HERE)
    written = (tmp_path / "identity.pub").read_text()
    (tmp_path / "identity.pub").unlink()
    opened(str(tmp_path), HERE, makes=False)
    assert not (tmp_path / "identity.pub").exists()
    opened(str(tmp_path), HERE)
    assert (tmp_path / "identity.pub").read_text() == written


def test_a_check_makes_nothing(tmp_path: Path) -> None:
    assert opened(str(tmp_path), HERE, makes=False).signer.key == b""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "mode", "complaint"),
    [
        ("", 0o600, "it is no private key in OpenSSH's format: the identity of this node; restore it from a backup"),
        (private_text(bytes(32), "")[:-90] + "\n-----END OPENSSH PRIVATE KEY-----\n", 0o600, "it is damaged"),
        (private_text(bytes(32), ""), 0o644, "mode 0644 opens it to others; `chmod 600 "),
        ("\xff", 0o600, "not plain text, so this is no private key of a node"),
        ("x" * 70_000, 0o600, "larger than 65536 bytes"),
    ],
    ids=["empty", "cut", "mode", "binary", "large"],
)
def test_an_unusable_key_prevents_the_start(tmp_path: Path, text: str, mode: int, complaint: str) -> None:
    path = tmp_path / "identity"
    path.write_text(text)
    path.chmod(mode)
    for makes in (True, False):
        with pytest.raises(IdentityError) as raised:
            opened(str(tmp_path), HERE, makes=makes)
        assert str(raised.value).startswith(f"{path}: {complaint}")
    assert path.read_text() == text, "untouched"
    assert not (tmp_path / "identity.pub").exists()


def test_the_remedy_names_the_node(tmp_path: Path) -> None:
    (tmp_path / "identity").touch(mode=0o600)
    with pytest.raises(IdentityError, match=r"admit the node's new key: `subord forget 10\.0\.0\.7`$"):
        opened(str(tmp_path), HERE)


def test_a_symbolic_link_to_nothing_is_no_first_start(tmp_path: Path) -> None:
    (tmp_path / "identity").symlink_to(tmp_path / "not mounted")
    with pytest.raises(IdentityError, match="identity: there is no such file; "):
        opened(str(tmp_path), HERE)


def test_a_key_that_cannot_be_saved_is_not_used(tmp_path: Path, warnings: list[str]) -> None:
    found = opened(str(tmp_path / "none"), HERE)
    assert (found.signer.key, found.signer.sign(b"x")) == (b"", b"")
    assert found.fingerprint == ""
    assert found.private is None
    (warning,) = warnings
    assert warning == (
        f"{tmp_path}/none/identity: No such file or directory; the node runs without identity, as older releases do, "
        "until a restart can save one"
    )


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert opened(str(tmp_path), HERE).signer.key == b""
    assert os.listdir(tmp_path) == []
    assert "No space left on device" in warnings[0]


def test_an_interrupted_first_start_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "identity.new").write_text("half")
    assert opened(str(tmp_path), HERE).is_saved
    assert not (tmp_path / "identity.new").exists()


def test_without_a_state_directory_there_is_no_identity() -> None:
    """The other nodes would refuse the next process."""
    found = opened("", HERE)
    assert (found.signer.key, found.fingerprint, found.is_saved) == (b"", "", False)


# -- certificates ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> HostAuthority:
    return HostAuthority(tmp_path_factory.mktemp("authority"))


def certify(authority: HostAuthority, found: Identity, directory: Path, *options: str, at: int = 1) -> None:
    path = directory / "identity-cert.pub"
    path.write_text(authority.certified(found.signer.key, *options))
    os.utime(path, ns=(at, at))


def test_the_certificate_beside_the_key_is_shown(tmp_path: Path, authority: HostAuthority) -> None:
    certify(authority, opened(str(tmp_path), HERE), tmp_path, "-h", "-n", HERE, "-V", "-1h:20300101130000Z")
    found = opened(str(tmp_path), HERE)
    assert found.certificate
    assert found.expires_at == 1893502800
    assert found.complaint == ""


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-h", "-n", "10.0.0.8"), "it does not name the address 10.0.0.7 (`ssh-keygen -n 10.0.0.7`)"),
        (("-n", HERE), "it is for users; `ssh-keygen -h` makes one for hosts"),
    ],
)
def test_an_unusable_certificate_is_not_shown(
    tmp_path: Path, authority: HostAuthority, warnings: list[str], options: tuple[str, ...], complaint: str
) -> None:
    certify(authority, opened(str(tmp_path), HERE), tmp_path, *options)
    found = opened(str(tmp_path), HERE)
    assert found.certificate == b""
    assert found.complaint == f"{tmp_path}/identity-cert.pub: {complaint}"
    assert warnings[-1] == f"the certificate of this node's identity is not used: {found.complaint}"


def test_an_expired_certificate_is_shown_because_the_clock_may_be_wrong(
    tmp_path: Path, authority: HostAuthority, warnings: list[str]
) -> None:
    certify(authority, opened(str(tmp_path), HERE), tmp_path, "-h", "-n", HERE, "-V", "-2h:-1h")
    assert opened(str(tmp_path), HERE).certificate
    assert warnings[-1].endswith("identity-cert.pub: it is not valid now")


async def test_a_new_certificate_is_taken_without_a_restart(
    tmp_path: Path, authority: HostAuthority, autojump_clock: trio.testing.MockClock
) -> None:
    found = opened(str(tmp_path), HERE)
    renewed: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.renew_forever, lambda: renewed.append(found.certificate))
        certify(authority, found, tmp_path, "-h", "-n", HERE)
        await trio.sleep(LOOK_S * 1.5)
        assert renewed == [found.certificate]
        (tmp_path / "identity-cert.pub").write_text("spoilt")
        await trio.sleep(LOOK_S * 3)
        assert renewed == [found.certificate], "the former one stays in use"
        assert found.complaint.endswith("it is no certificate of an ed25519 key as `ssh-keygen -s` makes one")
        (tmp_path / "identity-cert.pub").unlink()
        await trio.sleep(LOOK_S * 1.5)
        assert renewed[1:] == [b""]
        assert found.expires_at is None
        nursery.cancel_scope.cancel()
