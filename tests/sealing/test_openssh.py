"""Keys of nodes in OpenSSH's formats, compared with ssh-keygen."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from subord.core.identity.signer import KEY_BYTES, PROOF_BYTES
from subord.sealing.identity import Ed25519Signer, Verifier, new_seed
from subord.sealing.openssh import IdentityError, fingerprint, private_text, public_line, public_of, seed_in

SEED = bytes(range(32))


def keygen(*arguments: object) -> str:
    command = ["ssh-keygen", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def made_by_keygen(path: Path, *arguments: str) -> str:
    keygen("-q", "-f", path, *(arguments or ("-t", "ed25519", "-N", "")))
    return path.read_text()


def test_ssh_keygen_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "identity"
    for comment in ("subord 10.0.0.1", "", "1234567"):  # each with another padding
        path.touch(mode=0o600)
        path.write_text(private_text(SEED, comment))
        assert keygen("-y", "-f", path).split()[:2] == public_line(public_of(SEED), comment).split()[:2]


def test_what_ssh_keygen_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "identity"
    seed = seed_in(made_by_keygen(path))
    assert public_line(public_of(seed), "x").split()[:2] == Path(f"{path}.pub").read_text().split()[:2]
    assert keygen("-l", "-f", path).split()[1] == fingerprint(public_of(seed))


def test_the_text_is_read_again() -> None:
    assert seed_in(private_text(SEED, "subord fd00::1")) == SEED
    assert fingerprint(b"") == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-t", "ed25519", "-N", "secret"), "it has a passphrase, which a daemon cannot enter"),
        (("-t", "ecdsa", "-N", ""), "it is a key of type ecdsa-sha2-nistp256, not ssh-ed25519"),
        (("-t", "ecdsa", "-N", "", "-m", "PEM"), "it is no private key in OpenSSH's format"),
    ],
)
def test_another_kind_of_key_is_named(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(IdentityError, match=f"^{complaint}$"):
        seed_in(made_by_keygen(tmp_path / "identity", *arguments))


def test_no_altered_byte_is_read_as_another_key() -> None:
    text = private_text(SEED, "")
    for at in range(len(text)):
        altered = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
        with suppress(IdentityError):
            assert seed_in(altered) == SEED, at
    for end in range(len(text) - 1):
        with pytest.raises(IdentityError):
            seed_in(text[:end])


def test_signatures() -> None:
    signer, other = Ed25519Signer(new_seed()), Ed25519Signer(SEED)
    proof = signer.sign(b"content")
    assert (len(signer.key), len(proof)) == (KEY_BYTES, PROOF_BYTES)
    assert other.verify(signer.key, b"content", proof)
    assert Verifier().verify(signer.key, b"content", proof), "also by a node without identity"
    assert (Verifier().key, Verifier().sign(b"content")) == (b"", b"")
    assert not other.verify(signer.key, b"contend", proof)
    assert not other.verify(other.key, b"content", proof)
    for key, signature in ((b"", proof), (signer.key, b""), (signer.key[1:], proof), (signer.key, proof[1:])):
        assert not other.verify(key, b"content", signature)
    assert not other.verify(signer.key, b"content", bytes([proof[0] ^ 1]) + proof[1:])
    assert SEED.hex() not in repr(other)
