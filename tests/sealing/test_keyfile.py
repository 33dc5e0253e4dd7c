"""The key ring on disk: only private files are read, and a failed write leaves the old file."""

from __future__ import annotations

import base64
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loops import over

from subord.sealing.keyfile import FILE_BYTES_MAX, Kept, read, read_kept, write_kept
from subord.sealing.keys import KeyringError, key_of, keyring_of, text_of
from subord.sealing.rotation import fingerprint

WAIT_S_MAX = 20.0
SECRETS = [bytes([number]) * 32 for number in (1, 2, 3)]
WORDS = [base64.b64encode(secret).decode() for secret in SECRETS]
ONE, TWO, THREE = map(key_of, SECRETS)
RING = keyring_of(ONE, [TWO], revision=3)
KEPT = Kept(RING, "01234567+89abcdef")
OTHER = Kept(keyring_of(THREE, revision=4), "")


def file_of(path: Path, content: str | bytes = text_of(RING), mode: int = 0o600) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return str(path)


def complaint(path: object) -> str:
    """The message of `read`, which must not contain a secret."""
    with pytest.raises(KeyringError) as caught:
        read(str(path))
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert not any(word[:10] in text for word in WORDS)
    assert not any(secret.hex()[:10] in text for secret in SECRETS)
    return text


# -- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_private_file_is_read(tmp_path: Path, mode: int) -> None:
    assert read(file_of(tmp_path / "cluster.key", mode=mode)) == RING


@pytest.mark.parametrize("mode", [0o640, 0o644, 0o660, 0o604, 0o601, 0o610, 0o620])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = file_of(tmp_path / "cluster.key", mode=mode)
    assert complaint(path) == (f"{path}: mode {mode:04o} opens it to others; `chmod 600 {path}`, and change the key")


@pytest.mark.parametrize("owner", [12345, 65534])
def test_a_file_of_another_user_is_refused(tmp_path: Path, owner: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    path = file_of(tmp_path / "cluster.key")
    os.chown(path, owner, -1)
    assert f"belongs to user {owner}, which could read it" in complaint(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "not plain text, so this is no key ring"),
        (f"primary {WORDS[0]} # Schlüssel", "not plain text"),
        (b"#" * (FILE_BYTES_MAX + 1), f"larger than {FILE_BYTES_MAX} bytes, so this is no key ring"),
        ("", "0 keys are marked primary"),
        ("# primary\n", "0 keys are marked primary"),
    ],
)
def test_what_is_no_ring_is_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    assert words in complaint(file_of(tmp_path / "cluster.key", content))


def test_the_order_of_the_lines_is_free(tmp_path: Path) -> None:
    assert read(file_of(tmp_path / "cluster.key", f"key {WORDS[1]}\nrevision 3\nprimary {WORDS[0]}")) == RING


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    text = text_of(RING)
    assert read(file_of(tmp_path / "cluster.key", text + "#" * (FILE_BYTES_MAX - len(text)))) == RING


@over(
    "line",
    [
        f"primary {WORDS[1]} {WORDS[2]}",
        f"primary{WORDS[1]}",
        f"secondary {WORDS[1]}",
        WORDS[1],
        f"key {WORDS[1][:-4]}",
        f"key {WORDS[1]}{WORDS[2]}",
        f"key {SECRETS[1].hex()}",
        f"revision {WORDS[1]}",
        f"revision {SECRETS[1].hex()}",
    ],
)
def test_a_malformed_line_is_named_and_not_shown(tmp_path: Path, line: str) -> None:
    path = file_of(tmp_path / "cluster.key", f"# ours\nprimary {WORDS[0]}\n{line}\n")
    assert complaint(path).startswith(f"{path}: line 3: ")


def test_a_missing_file_is_reported_with_the_remedy(tmp_path: Path) -> None:
    assert "there is no such file; copy it from another node, or make the first one with" in complaint(
        tmp_path / "cluster.key"
    )


def test_a_directory_is_no_ring_and_leaves_nothing_open(tmp_path: Path) -> None:
    complaint(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    assert "Is a directory" in complaint(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_a_device_is_no_ring(path: str) -> None:
    assert "not a regular file" in complaint(path)


def test_a_pipe_is_no_ring_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cluster.key", 0o600)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(complaint(tmp_path / "cluster.key")), daemon=True)
    reader.start()
    reader.join(WAIT_S_MAX)
    assert "not a regular file" in said[0]


def test_a_link_is_as_private_as_its_target(tmp_path: Path) -> None:
    path = tmp_path / "link"
    path.symlink_to("cluster.key")
    assert "there is no such file" in complaint(path)
    target = file_of(tmp_path / "cluster.key")
    assert read(str(path)) == RING
    os.chmod(target, 0o644)
    assert "mode 0644" in complaint(path)


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    assert "Permission denied; it must be readable for the daemon's user" in complaint(
        file_of(tmp_path / "cluster.key", mode=0o000)
    )


# -- what is kept ---------------------------------------------------------------------------------------------------


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def full_disk() -> Iterator[None]:
    """The kernel lets no file of this process grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


@pytest.mark.parametrize("kept", [KEPT, OTHER, Kept(RING, fingerprint(RING))])
def test_what_is_kept_is_read_as_it_was_written(tmp_path: Path, kept: Kept) -> None:
    path = str(tmp_path / "keyring")
    write_kept(path, KEPT)
    write_kept(path, kept)
    assert read_kept(path) == kept
    assert read(path) == kept.ring
    assert names(tmp_path) == ["keyring"]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_what_is_kept_is_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "keyring"
    with umask(mask):
        write_kept(str(path), KEPT)
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_was_kept_yet(tmp_path: Path) -> None:
    assert read_kept(str(tmp_path / "keyring")) is None
    assert read_kept(str(tmp_path / "nowhere" / "keyring")) is None


def test_a_kept_file_without_its_first_line_belongs_to_no_ring(tmp_path: Path) -> None:
    assert read_kept(file_of(tmp_path / "keyring")) == Kept(RING, "")


@pytest.mark.parametrize(("content", "mode"), [(b"", 0o600), (b"\x00" * 100, 0o600), (text_of(RING), 0o644)])
def test_a_kept_file_that_is_spoiled_or_open_is_refused(tmp_path: Path, content: str | bytes, mode: int) -> None:
    with pytest.raises(KeyringError):
        read_kept(file_of(tmp_path / "keyring", content, mode))


def test_an_interrupted_write_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "keyring"
    file_of(tmp_path / "keyring.new", "primary", 0o644)
    write_kept(str(path), KEPT)
    assert read_kept(str(path)) == KEPT
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["keyring"]


def test_a_link_does_not_redirect_a_write(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "keyring.new").symlink_to(victim)
    write_kept(str(tmp_path / "keyring"), KEPT)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "keyring").is_symlink()


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = str(tmp_path / "keyring")
    write_kept(path, KEPT)
    before = len(os.listdir("/proc/self/fd"))
    with full_disk(), pytest.raises(OSError, match="File too large"):
        write_kept(path, OTHER)
    assert read_kept(path) == KEPT
    assert names(tmp_path) == ["keyring"]
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_unwritable_directory_raises(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        write_kept(str(tmp_path / "nowhere" / "keyring"), KEPT)
    (tmp_path / "keyring").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_kept(str(tmp_path / "keyring"), KEPT)
    assert names(tmp_path) == ["keyring"]
