"""Key rings: what a file may hold, who may read it, and that no sentence about it tells a secret."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from subord.sealing import keyfile
from subord.sealing.keys import KEYS_MAX, Keyring, KeyringError, key_of, keyring_of, new_key, parse, text_of

SECRETS = [bytes([number]) * 32 for number in range(1, KEYS_MAX + 2)]
WORDS = [base64.b64encode(secret).decode() for secret in SECRETS]


def test_a_ring_is_read_as_it_was_written() -> None:
    ring = keyring_of(key_of(SECRETS[0]), [key_of(SECRETS[1]), key_of(SECRETS[2])])
    assert parse(text_of(ring)) == ring
    assert ring.primary.secret == SECRETS[0]


def test_new_keys_differ() -> None:
    assert len({new_key() for _ in range(10)}) == 10


def test_nobody_prints_a_secret_by_mistake() -> None:
    key = key_of(SECRETS[0])
    ring = keyring_of(key)
    for text in (repr(key), str(key), f"{key}", repr(ring), f"{ring}"):
        assert key.name in text
        assert WORDS[0] not in text
        assert repr(SECRETS[0]) not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "0 keys are marked primary"),
        (f"key {WORDS[0]}", "0 keys are marked primary"),
        (f"primary {WORDS[0]}\nprimary {WORDS[1]}", "2 keys are marked primary"),
        (f"primary {WORDS[0]}\nkey", "line 2: a line is `primary KEY` or `key KEY`"),
        (f"primary {WORDS[0]}\n\n# x\nsecondary {WORDS[1]}", "line 4: a line is"),
        (f"primary {WORDS[0]} {WORDS[1]}", "line 1: a line is"),
        (f"primary {WORDS[0][:-5]}", "line 1: a key is 32 bytes in base 64"),
        ("primary !!!!", "line 1: a key is 32 bytes"),
        ("\n".join([f"primary {WORDS[0]}", *(f"key {word}" for word in WORDS[1:])]), "9 keys are more than the 8"),
    ],
)
def test_what_is_wrong_is_said_without_the_secret(text: str, words: str) -> None:
    with pytest.raises(KeyringError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert not any(word in str(caught.value) for word in WORDS)


def test_the_same_key_twice_is_one() -> None:
    assert len(parse(f"primary {WORDS[0]}\nkey {WORDS[0]}").keys) == 1


# -- the file -------------------------------------------------------------------------------------------------------


@pytest.fixture
def ring() -> Keyring:
    return keyring_of(key_of(SECRETS[0]), [key_of(SECRETS[1])])


def test_a_file_is_read_as_it_was_written(tmp_path: Path, ring: Keyring) -> None:
    path = tmp_path / "cluster.key"
    keyfile.write(str(path), ring)
    assert path.stat().st_mode & 0o777 == 0o600
    assert keyfile.read(str(path)) == ring
    assert [each.name for each in tmp_path.iterdir()] == ["cluster.key"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, ring: Keyring, mode: int) -> None:
    path = tmp_path / "cluster.key"
    keyfile.write(str(path), ring)
    path.chmod(mode)
    with pytest.raises(
        KeyringError, match=rf"mode {mode:04o} opens it to others; `chmod 600 .*`, and rotate the key"
    ):
        keyfile.read(str(path))


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, ring: Keyring) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    path = tmp_path / "cluster.key"
    keyfile.write(str(path), ring)
    os.chown(path, 12345, -1)
    with pytest.raises(KeyringError, match="belongs to user 12345"):
        keyfile.read(str(path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory; make it with"),
        (b"\xff\xfe", "not plain text"),
        (b"#" * 70000, "larger than"),
    ],
)
def test_what_is_no_ring_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "cluster.key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(KeyringError, match=words):
        keyfile.read(str(path))


def test_a_directory_is_no_ring(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match="Is a directory"):
        keyfile.read(str(tmp_path))


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, ring: Keyring) -> None:
    path = tmp_path / "cluster.key"
    keyfile.write(str(path), ring)
    (tmp_path / "cluster.key.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="symbolic"):
        keyfile.write(str(path), keyring_of(key_of(SECRETS[2])))
    assert keyfile.read(str(path)) == ring
