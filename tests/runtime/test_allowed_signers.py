"""The operators file as subord explains it, compared with what ssh-keygen makes of it."""

from __future__ import annotations

import subprocess
from math import inf
from pathlib import Path

import pytest
from signers import MEMBERS, Signers

from subord.core.carriage.verdicts import POWERS, SENTENCES, sentence
from subord.runtime.security.allowed_signers import Fault, Signer, doubts, matches, parse, repeated
from subord.runtime.security.sshsig import SshsigError, public_key_of, signature_of

ORDER = b"order"
LINES = (
    "alice {alice}",
    "  alice,bob\t{alice} a comment",
    '"alice smith" {alice}',
    '"alice {alice}',
    'alice namespaces="subord.*,!subord.keys" {alice}',
    'alice namespaces="subord.keys, subord.members" {alice}',
    'alice NAMESPACES="subord.members",Valid-After="20200101",VALID-BEFORE="20990101Z" {alice}',
    'alice valid-after="202001011200",valid-before="20990101120000Z" {alice}',
    'alice valid-before="20200101" {alice}',
    "alice valid-before=20990101 {alice}",
    'alice valid-before="tomorrow" {alice}',
    'alice valid-after="20990101",valid-before="20200101" {alice}',
    'alice namespaces="file",namespaces="subord.members" {alice}',
    "alice cert-authority {alice}",
    'alice cert-authority namespaces="subord.*" {alice}',
    "alice no-touch-required {alice}",
    "alice",
    "{alice}",
    "alice ssh-ed25519 AAAAnonsense",
    "alice ssh-ed25519",
    "alice ssh-dss {alice}",
)


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    return Signers(tmp_path)


def one(signers: Signers, line: str) -> Signer:
    (found,) = parse(signers.write(line).read_text())
    assert isinstance(found, Signer)
    return found


@pytest.mark.parametrize("line", LINES)
def test_a_line_counts_as_for_ssh_keygen(signers: Signers, line: str) -> None:
    signers.write(line.replace("{alice}", " {alice} "))
    signers.write(line if "{alice}" not in line else line.replace("{alice}", signers.public("alice")))
    (signers.top / "sig").write_bytes(signers.sign("alice", ORDER))
    command = ["ssh-keygen", "-Y", "find-principals", "-f", str(signers.file), "-s", str(signers.top / "sig")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    (found,) = parse(signers.file.read_text())
    is_plain = isinstance(found, Signer) and not found.is_authority and found.is_valid(1_800_000_000)
    assert is_plain == (ran.returncode == 0), ran.stderr
    if is_plain:
        assert isinstance(found, Signer)
        assert list(found.principals) == ran.stdout.splitlines()
        assert found.fingerprint == signers.fingerprint("alice")


def test_comments_and_empty_lines_are_left_out(signers: Signers) -> None:
    found = parse(signers.write("# alice", "", "  # bob", "carol {carol}").read_text())
    assert [each.line for each in found] == [4]


def test_powers_follow_the_namespaces(signers: Signers) -> None:
    every = ("files", "hosts", "identity", "keys", "members", "metrics", "plans", "shares")
    assert one(signers, "alice {alice}").powers == POWERS == every
    assert one(signers, 'alice namespaces="subord.members,file" {alice}').powers == ("members",)
    assert one(signers, 'alice namespaces="subord.*,!subord.keys" {alice}').powers == (
        "files",
        "hosts",
        "identity",
        "members",
        "metrics",
        "plans",
        "shares",
    )
    assert one(signers, 'alice namespaces="file" {alice}').powers == ()


@pytest.mark.parametrize(
    ("patterns", "text", "expected"),
    [
        (("subord.?eys",), "subord.keys", True),
        (("subord.keys",), "subordXkeys", False),
        (("[s]ubord.keys",), "subord.keys", False),
        (("*", "!subord.keys"), "subord.keys", False),
        (("!subord.keys",), "subord.members", False),
    ],
)
def test_patterns_are_those_of_openssh(patterns: tuple[str, ...], text: str, expected: bool) -> None:
    assert matches(patterns, text) is expected


def test_times_are_local_unless_they_say_otherwise(signers: Signers) -> None:
    assert one(signers, 'alice valid-after="19700102Z" {alice}').valid_after == 86_400
    assert one(signers, 'alice valid-after="197001020000Z" {alice}').valid_before == inf
    assert one(signers, 'alice valid-before="19700102000001Z" {alice}').valid_before == 86_401


def test_doubtful_lines_are_named(signers: Signers) -> None:
    assert list(doubts(one(signers, 'alice namespaces="subord.*" {alice}'))) == []
    (text,) = doubts(one(signers, 'alice namespaces="subord.member" {alice}'))
    assert "subord.member" in text
    assert "subord.identity, subord.keys, subord.members" in text
    assert list(doubts(one(signers, "* cert-authority {alice}"))) == []
    assert len(list(doubts(one(signers, "* {alice}")))) == 1


def test_a_key_with_two_names_is_named(signers: Signers) -> None:
    lines = ('alice namespaces="subord.keys" {alice}', "alice {alice}", "root {alice}", "root cert-authority {alice}")
    found = [each for each in parse(signers.write(*lines).read_text()) if isinstance(each, Signer)]
    assert [(one.line, other.line) for one, other in repeated(found)] == [(1, 3)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("alice valid-until=3 {alice}", "the options are not readable from 'valid-until=3'"),
        ('alice valid-until="3" {alice}', "the option 'valid-until' is unknown"),
        ('alice valid-after="20990101",valid-before="20200101" {alice}', "not later than valid-after"),
        ('alice namespaces="" {alice}', "must be written namespaces="),
        ('"alice {alice}', "the quotation mark of the principals has no end"),
        ("alice,,bob {alice}", "a principal is empty"),
        ("alice ssh-rsa {alice:key}", "the key is not of the type ssh-rsa"),
        ("alice ssh-ed25519 AAAA", "the key is not readable: it is too short"),
    ],
)
def test_a_fault_says_what_is_wrong(signers: Signers, line: str, words: str) -> None:
    key = signers.public("alice")
    (found,) = parse(line.replace("{alice:key}", key.split()[1]).replace("{alice}", key))
    assert isinstance(found, Fault)
    assert words in found.what


def test_what_is_no_signature_is_told_from_one(signers: Signers) -> None:
    good = signers.sign("alice", ORDER)
    assert signature_of(good).namespace == MEMBERS
    body = good.split(b"\n", 1)[1]
    for bad in (b"", b"x", body, good[:60], good.replace(b"U1NI", b"U1NJ"), good.replace(b"END SSH", b"ENX SSH")):
        with pytest.raises(SshsigError):
            signature_of(bad)
    with pytest.raises(SshsigError, match="too short"):
        public_key_of(b"\0\0\0\x0bssh-ed25519\0\0\0\x20abc")
    with pytest.raises(SshsigError, match="not supported"):
        public_key_of(b"\0\0\0\4none")


def test_each_word_has_a_sentence() -> None:
    assert sentence("no_operators", "/file").startswith("this node has no operators file /file, so")
    assert sentence("later") == "the order was refused: later"
    assert all(text and not text.endswith(".") for text in SENTENCES.values())
