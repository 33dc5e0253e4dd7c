"""Signing with the operator's key: which key is taken, and what happens when it does not sign."""

from __future__ import annotations

import argparse
import os
import pty
import pwd
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from signers import MEMBERS, Signers

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.orders import signing
from subord.client.orders.signing import KEY_VARIABLE, add_key_option, key_of, own_keys, sign

ORDER = b"order"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without keys, and no agent."""
    for name in (KEY_VARIABLE, "SUDO_USER", "SSH_AUTH_SOCK", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.ssh").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    return Signers(tmp_path)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_key_option(parser)
    return parser.parse_args(words)


def is_of(signers: Signers, name: str, signature: bytes) -> bool:
    """Whether ssh-keygen verifies it as the order, signed by this key."""
    signers.write(f"{name} {{{name}}}")
    (signers.top / "sig").write_bytes(signature)
    command = ["ssh-keygen", "-Y", "verify", "-f", str(signers.file), "-I", name, "-n", MEMBERS]
    ran = subprocess.run([*command, "-s", str(signers.top / "sig")], input=ORDER, capture_output=True, check=False)
    return ran.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_the_named_key_signs(signers: Signers, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    key = signers.key("ann", kind)
    assert is_of(signers, "ann", sign(ORDER, MEMBERS, options("--key", str(key))))
    assert capfd.readouterr() == ("", "")


def test_the_key_is_chosen_in_order(signers: Signers, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = home / ".ssh"
    for name in ("id_rsa", "id_ecdsa.pub", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk.pub"):
        (ssh / name).touch()
        assert key_of(options()) == str(ssh / name)
    (signers.top / "variable").touch()
    (signers.top / "option").touch()
    monkeypatch.setenv(KEY_VARIABLE, str(signers.top / "variable"))
    assert key_of(options()) == str(signers.top / "variable")
    assert key_of(options("--key", str(signers.top / "option"))) == str(signers.top / "option")


def test_under_sudo_the_keys_of_the_user_come_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".ssh/id_ed25519").touch()
    user = home.parent / "ann"
    (user / ".ssh").mkdir(parents=True)
    (user / ".ssh/id_rsa").touch()

    def found(name: str) -> object:
        if name != "ann":
            raise KeyError(name)
        return SimpleNamespace(pw_dir=str(user))

    monkeypatch.setattr(pwd, "getpwnam", found)
    for name, folder in (("ann", user), ("root", home), ("gone", home)):
        monkeypatch.setenv("SUDO_USER", name)
        assert Path(key_of(options())).parent == folder / ".ssh"
    monkeypatch.setenv("SUDO_USER", "ann")
    (user / ".ssh/id_rsa").unlink()
    assert key_of(options()) == str(home / ".ssh/id_ed25519")


def failure(*words: str) -> CommandError:
    with pytest.raises(CommandError) as caught:
        sign(ORDER, MEMBERS, options(*words))
    return caught.value


def test_without_a_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure()
    assert error.exit_code == exit_codes.PERMISSION
    assert f"in {home}/.ssh; name one with --key or $SUBORD_OPERATOR_KEY" in str(error)
    assert str(failure("--key", "/no/key")).startswith("--key: there is no file /no/key")
    monkeypatch.setenv(KEY_VARIABLE, "/no/other")
    assert str(failure()).startswith("$SUBORD_OPERATOR_KEY: there is no file /no/other")


def test_without_ssh_keygen(signers: Signers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "SSH_KEYGEN", str(signers.top / "nothing"))
    error = failure("--key", str(signers.key("ann")))
    assert error.exit_code == exit_codes.CONFIGURATION
    assert "apt-get install openssh-client" in str(error)


def test_what_is_no_key_or_open_to_others(signers: Signers) -> None:
    bad = signers.top / "bad"
    bad.write_text("no key\n")
    bad.chmod(0o600)
    error = failure("--key", str(bad))
    assert error.exit_code == exit_codes.USAGE
    assert f"{bad} is no SSH key, or one that is damaged or lacks its .pub file" in str(error)
    assert "No such file" not in str(error), "it is there"
    key = signers.key("ann")
    key.with_name("ann.pub").unlink()
    key.chmod(0o644)
    assert "chmod 600" in str(failure("--key", str(key)))


def test_an_unknown_reason_is_passed_on(signers: Signers, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "printf 'Signing data on standard input\\nthe key is tired\\n' >&2; exit 255"
    monkeypatch.setattr(signing, "SSH_KEYGEN", signers.program(words))
    key = signers.key("ann")
    assert str(failure("--key", str(key))) == f"{key} did not sign: the key is tired; nothing was changed"


def test_a_touch_is_asked_for_at_once(
    signers: Signers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "Confirm user presence for key ED25519-SK SHA256:x"
    monkeypatch.setattr(signing, "SSH_KEYGEN", signers.program(f"echo '{words}' >&2; cat >/dev/null; echo signature"))
    assert sign(ORDER, MEMBERS, options("--key", str(signers.key("ann")))) == b"signature\n"
    assert capsys.readouterr().err == f"{words}\n"


# -- ssh-agent ------------------------------------------------------------------------------------------------------


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 10
    while not socket.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    yield
    process.terminate()
    process.wait()


@pytest.mark.usefixtures("agent")
def test_of_a_public_key_the_agent_signs(signers: Signers, home: Path) -> None:
    key = signers.key("ann")
    alone = home / ".ssh/id_ed25519.pub"
    alone.write_text(key.with_name("ann.pub").read_text())
    assert "`ssh-add` adds it" in str(failure("--key", str(alone)))
    subprocess.run(["ssh-add", "-q", str(key)], check=True)
    assert is_of(signers, "ann", sign(ORDER, MEMBERS, options("--key", str(alone))))
    assert is_of(signers, "ann", sign(ORDER, MEMBERS, options())), "of ~/.ssh, too"
    subprocess.run(["ssh-add", "-q", "-D"], check=True)
    subprocess.run(["ssh-add", "-q", "-c", str(key)], check=True)
    assert "does not sign" in str(failure("--key", str(alone))), "no user confirms"


def test_without_agent_it_is_said_what_to_do(signers: Signers, home: Path) -> None:
    alone = home / ".ssh/id_ed25519.pub"
    alone.write_text(signers.public("ann"))
    assert "SSH_AUTH_SOCK" in str(failure())
    assert own_keys() == [str(alone)]


# -- passphrase -----------------------------------------------------------------------------------------------------


def with_terminal(words: str, typed: str) -> tuple[int, str]:
    """Run this Python with a terminal of its own; `typed` is typed when it asks. Its exit code and output."""
    ours, theirs = pty.openpty()
    code = f"import os\nos.open({os.ttyname(theirs)!r}, os.O_RDWR)\n{words}"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        asked = b""
        while b"passphrase" not in asked:
            assert select.select([ours], [], [], 20)[0], "it does not ask"
            asked += os.read(ours, 1024)
        os.write(ours, typed.encode())
        printed, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
    return process.returncode, printed.decode()


@pytest.mark.slow
def test_the_passphrase_is_asked_for_on_the_terminal(signers: Signers) -> None:
    key = signers.key("ann", passphrase="open sesame")
    words = f"""
import argparse
from subord.client.orders.signing import sign
found = sign({ORDER!r}, {MEMBERS!r}, argparse.Namespace(operator_key={str(key)!r}))
open({str(signers.top / "result")!r}, "wb").write(found)
"""
    assert with_terminal(words, "open sesame\n") == (0, "")
    assert is_of(signers, "ann", (signers.top / "result").read_bytes())
    code, printed = with_terminal(words, "wrong\n")
    assert code
    assert "the passphrase is wrong" in printed


def test_without_a_terminal_the_command_ends(signers: Signers) -> None:
    key = signers.key("ann", passphrase="open sesame")
    words = f"""
import argparse
from subord.client.errors import guarded
from subord.client.orders.signing import sign
raise SystemExit(guarded(lambda: len(sign(b"", "n", argparse.Namespace(operator_key={str(key)!r})))))
"""
    command = [sys.executable, "-c", words]
    ran = subprocess.run(command, capture_output=True, start_new_session=True, check=False, timeout=30)
    assert ran.returncode == exit_codes.PERMISSION
    assert b"there is no terminal to ask for it" in ran.stderr
