"""`subord operator`: what it prints of an operators file, and of a daemon that judges real signatures."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from schemas import fits
from signers import Signers

from subord.cli import main, operators
from subord.cli.operators import check
from subord.client import exit_codes
from subord.client.daemon import ask
from subord.client.errors import CommandError
from subord.client.orders import signing
from subord.client.orders.signing import KEY_VARIABLE, sign
from subord.core.carriage.verdicts import POWERS
from subord.runtime.security import operators_file

WAIT_S = 30.0


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys of the user that runs the tests, and no installed daemon."""
    for name in (KEY_VARIABLE, "SUDO_USER", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.ssh").mkdir(parents=True)
    monkeypatch.setattr(check, "DAEMON_USER", "no-such-user")
    monkeypatch.setattr(signing, "sign", sign)  # conftest.py has replaced it


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers(tmp_path_factory.mktemp("signers"))


def fitting(name: str, text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    fits(f"operator-{name}", document)
    return document


def test_the_command_and_the_daemon_agree() -> None:
    assert operators.FILE == operators_file.DEFAULT
    assert operators.POWERS == POWERS


# -- check ----------------------------------------------------------------------------------------------------------


def checked(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    code = main(["operator", "check", str(file)])
    text = capsys.readouterr().out
    assert main(["operator", "check", str(file), "--json"]) == code
    return code, fitting("check", capsys.readouterr().out), text


def test_a_good_file(signers: Signers, capsys: pytest.CaptureFixture[str]) -> None:
    file = signers.write(
        "ann,root {ann}",
        'ben namespaces="subord.members",valid-before="20990101Z" {ben}',
        '*@x.org cert-authority,namespaces="subord.*,!subord.identity" {authority}',
    )
    code, found, text = checked(file, capsys)
    assert code == exit_codes.OK
    assert found["ok"]
    assert not found["doubts"]
    assert [each["powers"] for each in found["operators"]] == [
        list(POWERS),
        ["members"],
        ["files", "hosts", "keys", "members", "metrics", "plans", "shares"],
    ]
    lines = text.splitlines()
    assert lines[0] == f"{file}: ok, 3 operators"
    assert lines[2].split() == [
        "ann,root",
        "files,",
        "hosts,",
        "identity,",
        "keys,",
        "members,",
        "metrics,",
        "plans,",
        "shares",
        "ssh-ed25519",
        signers.fingerprint("ann"),
    ]
    assert lines[3].endswith("valid until 2099-01-01T00:00Z")
    assert lines[4].endswith("signs certificates")


def test_doubts_are_no_faults(signers: Signers, capsys: pytest.CaptureFixture[str]) -> None:
    file = signers.write(
        'ann namespaces="subord.member" {ann}',
        'old valid-before="20200101" {old}',
        'later valid-after="20990101" {later}',
        "ben {ann}",
    )
    code, found, text = checked(file, capsys)
    assert code == exit_codes.OK
    assert [each["line"] for each in found["doubts"]] == [1, 2, 3, 4]
    assert "doubt: line 1: namespace 'subord.member' is none of subord: subord.files, " in text
    assert "not valid until 2020-01-01T" in text


@pytest.mark.parametrize(
    ("lines", "mode", "words"),
    [
        (("ann {ann}", "ben valid-before=20990101 {ben}"), 0o644, "fault: line 2: the options are not readable"),
        (("# none",), 0o644, "fault: it names no operator, so no order is taken"),
        (("ann {ann}",), 0o664, "its mode is 0664; chmod 644"),
    ],
)
def test_faults(
    signers: Signers, capsys: pytest.CaptureFixture[str], lines: tuple[str, ...], mode: int, words: str
) -> None:
    code, found, text = checked(signers.write(*lines, mode=mode), capsys)
    assert code == exit_codes.CONFIGURATION
    assert not found["ok"]
    assert words in text


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = checked(tmp_path / "none", capsys)
    assert code == exit_codes.CONFIGURATION
    assert "there is no such file" in found["faults"][0]["text"]


@pytest.mark.skipif(os.geteuid() != 0, reason="root can give files to other users")
def test_the_user_of_the_daemon_must_be_able_to_read_it(
    signers: Signers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "DAEMON_USER", "nobody")
    code, _, text = checked(signers.write("ann {ann}", mode=0o600), capsys)
    assert code == exit_codes.CONFIGURATION
    assert "user nobody of the daemon cannot read it; chmod 644" in text
    assert checked(signers.write("ann {ann}"), capsys)[0] == exit_codes.OK


# -- with a daemon --------------------------------------------------------------------------------------------------


@contextmanager
def running(signers: Signers, folder: Path) -> Iterator[str]:
    """A daemon alone on the loopback address; yields the path of its socket."""
    path, port = folder / "s", free_port(socket.SOCK_DGRAM, "127.0.0.1")
    settings = (
        "cluster.network=127.0.0.0/29",
        f"cluster.port={port}",
        "cluster.timing=lab",
        "node.address=127.0.0.1",
        f"node.control_socket={path}",
        f"node.operators={signers.file}",
    )
    words = [word for each in settings for word in ("--set", each)]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "subord", "run", *words], stderr=log)
    try:
        until = time.monotonic() + WAIT_S
        while True:
            try:
                ask(str(path), "/v1/status")
                break
            except CommandError:
                assert time.monotonic() < until, (folder / "log").read_text()
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
        yield str(path)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def daemon(signers: Signers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(signers, tmp_path_factory.mktemp("daemon")) as path:
        yield path


class Asked:
    """The command with its daemon and a key."""

    def __init__(self, path: str, signers: Signers, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = path
        self._signers = signers
        self._capsys = capsys

    def __call__(self, *words: str, key: str = "ann") -> tuple[int, str, str]:
        named = ["--key", str(self._signers.key(key))] if words[0] in ("sign", "revoke", "strict") else []
        until = time.monotonic() + WAIT_S
        while True:
            code = main(["operator", *words, *named, "--socket", self._path])
            out, err = self._capsys.readouterr()
            if "too many signatures" not in err or time.monotonic() > until:
                return code, out, err
            time.sleep(0.2)  # all tests share one daemon, which says to try again


@pytest.fixture
def asked(daemon: str, signers: Signers, capsys: pytest.CaptureFixture[str]) -> Asked:
    signers.write("ann {ann}", 'ben namespaces="subord.members" {ben}', "nonsense")
    return Asked(daemon, signers, capsys)


pytestmark = pytest.mark.slow


def test_who_shows_the_operators_and_marks_own_keys(asked: Asked, signers: Signers, tmp_path: Path) -> None:
    (tmp_path / "home/.ssh/id_ed25519.pub").write_text(signers.public("ben"))
    (tmp_path / "home/.ssh/id_rsa.pub").write_text(signers.public("mallory"))
    code, out, _ = asked("who")
    assert code == exit_codes.OK
    lines = out.splitlines()
    assert lines[0] == f"2 operators in {signers.file}"
    assert not lines[2].endswith("your key")
    assert lines[3].endswith("your key")
    assert f"1 line with faults: see `subord operator check {signers.file}`" in lines
    assert f"your key {tmp_path}/home/.ssh/id_rsa.pub is not among them (a certificate may be)" in lines
    found = fitting("who", asked("who", "--json")[1])
    assert [each["known"] for each in found["own"]] == [True, False]


def test_a_dry_run_tells_the_verdict_of_each_power(asked: Asked, signers: Signers) -> None:
    code, out, _ = asked("sign", "--dry-run")
    assert code == exit_codes.OK
    assert [line.split()[:4] for line in out.splitlines()] == [[each, "accepted", "as", "ann,"] for each in POWERS]
    code, out, _ = asked("sign", "--dry-run", key="ben")
    assert code == exit_codes.NOT_REACHED
    assert out.splitlines()[3].split()[:3] == ["keys", "refused,", "not_permitted:"]
    assert "accepted as ben" in out.splitlines()[4]
    code, out, _ = asked("sign", "--dry-run", "--power", "keys", "--json", key="mallory")
    assert code == exit_codes.NOT_REACHED
    (found,) = fitting("sign", out)["orders"]
    assert (found["power"], found["word"]) == ("keys", "unknown_principal")


def test_a_file_that_does_not_count_is_told(asked: Asked, signers: Signers) -> None:
    signers.file.chmod(0o666)
    assert "only its owner may write to it (its mode is 0666; chmod 644)" in asked("who")[1]
    assert "bad_mode" in asked("sign", "--dry-run", "--power", "keys")[1]


def test_an_operator_is_revoked_and_comes_back(asked: Asked, signers: Signers) -> None:
    assert asked("revoked") == (exit_codes.OK, "nothing is revoked\n", "")
    code, _, err = asked("revoke", "ann", "--reason", "envy", key="ben")
    assert code == exit_codes.PERMISSION
    assert "does not give the operator this power" in err
    code, out, _ = asked("revoke", "ben", "--reason", "left", "--json")
    assert code == exit_codes.OK
    assert fitting("revoke", out) == {
        "schema_version": 1, "kind": "operator", "what": "ben", "revoked": True, "principal": "ann"
    }  # fmt: skip
    assert "revoked: " in asked("sign", "--dry-run", "--power", "members", key="ben")[1]
    assert "revoked" in asked("who")[1].splitlines()[3]
    (found,) = fitting("revoked", asked("revoked", "--json")[1])["revocations"]
    assert (found["what"], found["reason"], found["kind"]) == ("ben", "left", "operator")
    assert asked("revoked")[1].splitlines()[1].split()[:2] == ["ben", "operator"]
    assert asked("revoke", "ben", "--undo")[:2] == (exit_codes.OK, "operator ben is no longer revoked\n")
    assert asked("sign", "--dry-run", "--power", "members", key="ben")[0] == exit_codes.OK


def test_a_principal_of_a_line_with_several_is_revoked(asked: Asked, signers: Signers) -> None:
    signers.write("ann {ann}", "first,second {ben}")
    assert asked("revoke", "second", "--reason", "left")[0] == exit_codes.OK
    assert "revoked: " in asked("sign", "--dry-run", "--power", "members", key="ben")[1]
    assert asked("revoke", "second", "--undo")[0] == exit_codes.OK


def test_a_node_that_no_node_has_met_has_no_key_to_revoke(asked: Asked) -> None:
    """A lab of several nodes is in tests/lab/test_lab_identities.py."""
    code, _, err = asked("revoke", "--node", "127.0.0.3", "--reason", "stolen")
    assert code == exit_codes.NO_SUCH_NODE
    assert "no key is pinned to 127.0.0.3" in err
    code, _, err = asked("revoke", "--node", "127.0.0.3", "--undo")
    assert code == exit_codes.NO_SUCH_NODE
    assert "127.0.0.3 is not revoked" in err


def test_strict_mode_is_switched_on_and_off(asked: Asked) -> None:
    assert asked("strict", "on", key="ben")[0] == exit_codes.PERMISSION
    assert asked("strict", "on")[1] == "strict mode is on: nodes without identity are refused\n"
    found = fitting("strict", asked("strict", "off", "--json")[1])
    assert found == {"schema_version": 1, "strict": False, "principal": "ann"}


@pytest.mark.parametrize(
    "words", ["sign", "strict", "strict maybe", "revoke ann", "revoke --reason x", "revoke ann --reason x --undo"]
)
def test_a_wrong_command_line(words: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["operator", *words.split()])
    assert caught.value.code == exit_codes.USAGE
