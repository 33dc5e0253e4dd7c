"""Host certificates of nodes, as the real ssh-keygen makes them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from host_authority import HostAuthority

from subord.sealing.host_certificates import (
    Authorities,
    authorities_in,
    blob_in,
    judged,
    own_word,
)
from subord.sealing.openssh import IdentityError, blob_of, public_of

KEY, OTHER_KEY = public_of(bytes(range(32))), public_of(bytes(32))
HERE = "10.0.0.7"
NOW = time.time()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> HostAuthority:
    return HostAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> HostAuthority:
    return HostAuthority(tmp_path_factory.mktemp("other"))


def word(blob: bytes, authorities: Authorities, *, address: str = HERE, key: bytes = KEY, now_s: float = NOW) -> str:
    return judged(blob, key, address, now_s, authorities).word


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("-h", "-n", HERE), ""),
        (("-h", "-n", f"node7,{HERE}", "-V", "-1h:+1h"), ""),
        (("-h", "-n", "10.0.0.8"), "other_address"),
        (("-h", "-n", "10.0.0.77"), "other_address"),
        (("-h", "-n", "node7"), "other_address"),
        (("-h",), "other_address"),  # no principals: for OpenSSH any host
        (("-n", HERE), "of_a_user"),
        (("-h", "-n", HERE, "-V", "-2h:-1h"), "not_valid_now"),
        (("-h", "-n", HERE, "-V", "+1h:+2h"), "not_valid_now"),
        (("-h", "-n", HERE, "-O", "critical:later@example.org=1"), "restricted"),
        (("-h", "-n", HERE, "-O", "extension:later@example.org=1"), ""),
    ],
)
def test_what_a_certificate_must_say(authority: HostAuthority, options: tuple[str, ...], found: str) -> None:
    blob = authority.blob(KEY, *options)
    assert word(blob, authorities_in(authority.line)) == found
    assert own_word(blob, KEY, HERE, NOW).word == found


def test_the_hours_of_a_certificate(authority: HostAuthority) -> None:
    blob = authority.blob(KEY, "-h", "-n", HERE, "-V", "20300101120000Z:20300101130000Z")
    known, begin_s = authorities_in(authority.line), 1893499200.0
    assert [word(blob, known, now_s=begin_s + after_s) for after_s in (-1, 0, 3599, 3600)] == [
        "not_valid_now",
        "",
        "",
        "not_valid_now",
    ]
    assert judged(blob, KEY, HERE, begin_s, known).until_s == begin_s + 3600


def test_an_address_in_another_spelling(authority: HostAuthority) -> None:
    blob = authority.blob(KEY, "-h", "-n", "FD00:0::7")
    assert word(blob, authorities_in(authority.line), address="fd00::7") == ""
    assert word(blob, authorities_in(authority.line), address="fd00::7%eth0") == ""
    assert word(blob, authorities_in(authority.line), address="fd00::8") == "other_address"


def test_a_certificate_of_another_key_or_authority(authority: HostAuthority, other: HostAuthority) -> None:
    blob, known = authority.blob(KEY, "-h", "-n", HERE), authorities_in(authority.line)
    assert word(blob, known, key=OTHER_KEY) == "other_key"
    assert word(other.blob(KEY, "-h", "-n", HERE), known) == "unknown_authority"
    assert word(other.blob(KEY, "-h", "-n", HERE), authorities_in(authority.line + other.line)) == ""


@pytest.mark.parametrize(
    "kind", [("-t", "rsa", "-b", "2048"), ("-t", "ecdsa"), ("-t", "ecdsa", "-b", "384"), ("-t", "ecdsa", "-b", "521")]
)
def test_authorities_of_other_types(tmp_path: Path, kind: tuple[str, ...]) -> None:
    one = HostAuthority(tmp_path, *kind)
    blob, known = one.blob(KEY, "-h", "-n", HERE), authorities_in(one.line)
    assert word(blob, known) == ""
    altered = bytearray(blob)
    altered[-1] ^= 1
    assert word(bytes(altered), known) in ("altered", "malformed")


def test_a_signature_with_sha1_is_too_weak(tmp_path: Path) -> None:
    one = HostAuthority(tmp_path, "-t", "rsa", "-b", "2048")
    assert word(one.blob(KEY, "-h", "-n", HERE, "-t", "rsa-sha2-256"), authorities_in(one.line)) == ""
    assert word(one.blob(KEY, "-h", "-n", HERE, "-t", "ssh-rsa"), authorities_in(one.line)) == "weak"


def test_no_altered_certificate_counts(authority: HostAuthority) -> None:
    blob, known = authority.blob(KEY, "-h", "-n", HERE), authorities_in(authority.line)
    for at in range(len(blob)):
        altered = blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]
        assert word(altered, known) != "", at
    for end in range(0, len(blob), 3):
        assert word(blob[:end], known) == "malformed"
    assert word(blob + b"x", known) == "malformed"
    assert word(blob_of(KEY), known) == "malformed"


def test_lines_of_known_hosts(authority: HostAuthority, other: HostAuthority) -> None:
    blob, line = authority.blob(KEY, "-h", "-n", HERE), authority.line.strip()

    def by(text: str) -> str:
        return word(blob, authorities_in(text))

    assert by(f"# the site's\n\n@cert-authority * {line}\n") == ""
    assert by(f"@cert-authority node*,10.0.0.? {line}") == ""
    assert by(f"@cert-authority 10.0.1.* {line}") == "unknown_authority"
    assert by(f"@cert-authority 10x0.0.7 {line}") == "unknown_authority"
    assert by(f"@cert-authority *,!{HERE} {line}") == "unknown_authority"
    assert by(f"{line}\n@revoked * {line}") == "revoked"
    assert by(f"{line}\n@revoked * {other.line}") == ""


def test_a_revoked_key_of_a_node(authority: HostAuthority, tmp_path: Path) -> None:
    blob = authority.blob(KEY, "-h", "-n", HERE)
    public = Path(authority.path.parent / "node.pub").read_text(encoding="utf-8")
    assert word(blob, authorities_in(f"{authority.line}@revoked * {public}")) == "revoked"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "there is no authority in it; a line is TYPE KEY"),
        ("# nothing\n", "there is no authority in it"),
        ("\n10.0.0.1 ssh-ed25519 AAAA\n", "line 2: no key of an authority"),
        ("ssh-ed25519\n", "line 1: no key of an authority"),
        ("ssh-ed25519 AAAA\n", "line 1: the key is damaged"),
        ("ssh-ed25519 ????\n", "line 1: the key is damaged"),
        ("sk-ssh-ed25519@openssh.com AAAA\n", r"line 1: keys in hardware \(sk-ssh-ed25519@openssh.com\) cannot"),
        ("@cert-authority * ssh-dss AAAA\n", "line 1: no key of an authority"),
    ],
)
def test_the_error_of_a_file_of_authorities(text: str, complaint: str) -> None:
    with pytest.raises(IdentityError, match=f"^{complaint}"):
        authorities_in(text)


def test_too_many_authorities(authority: HostAuthority) -> None:
    with pytest.raises(IdentityError, match="it has 65 authorities, more than 64"):
        authorities_in(authority.line * 65)


@pytest.mark.parametrize("text", ["", "ssh-ed25519 AAAA", "ssh-ed25519-cert-v01@openssh.com", "x" * 9000])
def test_no_certificate(text: str) -> None:
    with pytest.raises(IdentityError, match="it is no certificate of an ed25519 key"):
        blob_in(text)
