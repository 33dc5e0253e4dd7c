"""Plain Ed25519 signatures, accepted without ssh-keygen: never what the real ssh-keygen would refuse."""

from __future__ import annotations

import base64
import random
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
from signers import MEMBERS, Signers

from subord.core.carriage.orders import Verdict
from subord.runtime.security import operators, plain_signature
from subord.runtime.security.operators import Operators

ORDER = b"forget node 3"
AT_MS = int(time.time() * 1000)
ORDER_OF_CURVE = (1 << 252) + 27742317777372353535851937790883648493
PLAIN, LEFT = True, False
"""Whether it is accepted in this process, or left to ssh-keygen."""


class Case(NamedTuple):
    """`of`: the key that signs. `change`: of the signature on the way."""

    lines: tuple[str, ...]
    is_plain: bool
    word: str
    of: str = "alice"
    content: bytes = ORDER
    change: Callable[[bytes], bytes] = bytes
    at_ms: int = AT_MS
    signed_for: str = MEMBERS
    hashed: str = "sha512"


def blob_of(signature: bytes) -> bytes:
    return base64.b64decode(b"".join(signature.split(b"\n")[1:-2]))


def armoured(blob: bytes) -> bytes:
    text = base64.b64encode(blob)
    rows = [text[first : first + 70] + b"\n" for first in range(0, len(text), 70)]
    return b"-----BEGIN SSH SIGNATURE-----\n" + b"".join(rows) + b"-----END SSH SIGNATURE-----\n"


def in_blob(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda signature: armoured(change(blob_of(signature)))


def malleated(blob: bytes) -> bytes:
    """The same signature with another number for the same point."""
    number = int.from_bytes(blob[-32:], "little") + ORDER_OF_CURVE
    return blob[:-32] + number.to_bytes(32, "little")


def with_loose_bits(signature: bytes) -> bytes:
    """Base64 whose last character has bits that mean nothing."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    head, equals, rest = signature.partition(b"=")
    assert equals, "the signature is to end with padding"
    return head[:-1] + bytes([letters[letters.index(head[-1]) + 1]]) + equals + rest


OTHER_HASH = in_blob(lambda blob: blob.replace(b"sha512", b"sha256"))
RESERVED = in_blob(lambda blob: blob.replace(MEMBERS.encode() + bytes(4), MEMBERS.encode() + b"\0\0\0\1x"))
CASES = {
    "a key": Case(("alice {alice}",), PLAIN, ""),
    "a comment, an empty line, other keys before": Case(("# a", "", "bob {bob}", "alice {alice}"), PLAIN, ""),
    "no comment behind the key": Case(("alice {alice:key}",), PLAIN, ""),
    "more spaces, tabs": Case(("alice \t {alice}",), PLAIN, ""),
    "several names": Case(("alice,admin@example.org {alice}",), PLAIN, ""),
    "the name is permitted": Case(('alice namespaces="subord.keys,subord.members" {alice}',), PLAIN, ""),
    "a pattern permits": Case(('alice namespaces="subord.*" {alice}',), PLAIN, ""),
    "another name is permitted": Case(('alice namespaces="subord.keys" {alice}',), LEFT, "not_permitted"),
    "a pattern that excepts": Case(('alice namespaces="subord.*,!subord.members" {alice}',), LEFT, "not_permitted"),
    "within its time": Case(('alice valid-after="20200101Z",valid-before="20990101Z" {alice}',), PLAIN, ""),
    "to the minute, to the second": Case(
        ('alice valid-after="202001010000Z",valid-before="20990101000000Z" {alice}',), PLAIN, ""
    ),
    "the last second": Case(('alice valid-before="20200101000001Z" {alice}',), PLAIN, "", at_ms=1_577_836_801_999),
    "a second later": Case(
        ('alice valid-before="20200101000001Z" {alice}',), LEFT, "key_expired", at_ms=1_577_836_802_000
    ),
    "the first second": Case(('alice valid-after="20200101000001Z" {alice}',), PLAIN, "", at_ms=1_577_836_801_000),
    "a second earlier": Case(
        ('alice valid-after="20200101000001Z" {alice}',), LEFT, "key_expired", at_ms=1_577_836_800_999
    ),
    "expired": Case(('alice valid-before="20200101Z" {alice}',), LEFT, "key_expired"),
    "not valid yet": Case(('alice valid-after="20990101Z" {alice}',), LEFT, "key_expired"),
    "the local time": Case(('alice valid-before="20990101" {alice}',), LEFT, ""),
    "no day of the calendar": Case(('alice valid-before="20990231Z" {alice}',), LEFT, ""),
    "an option twice": Case(
        ('alice valid-before="20990101Z",valid-before="20990101Z" {alice}',), LEFT, "unknown_principal"
    ),
    "an unknown option": Case(('alice no-touch-required="x" {alice}',), LEFT, "unknown_principal"),
    "options in capitals": Case(('alice NAMESPACES="subord.*" {alice}',), LEFT, ""),
    "a name in quotation marks": Case(('"alice" {alice}',), LEFT, ""),
    "a pattern as name": Case(("ali* {alice}",), LEFT, ""),
    "an exception as name": Case(("!alice {alice}",), LEFT, "not_permitted"),
    "an authority": Case(("alice cert-authority {alice}",), LEFT, "unknown_principal"),
    "an authority before": Case(("* cert-authority {bob}", "alice {alice}"), LEFT, ""),
    "a named authority before": Case(("bob cert-authority {alice}", "alice {alice}"), PLAIN, ""),
    "a broken line before": Case(("bob ssh-ed25519 AAAA", "alice {alice}"), LEFT, ""),
    "an option twice before": Case(
        ('bob valid-before="20990101Z",valid-before="20990101Z" {bob}', "alice {alice}"), LEFT, ""
    ),
    "a long line before": Case((f"bob {{bob}} {'x' * 1_000}", "alice {alice}"), LEFT, ""),
    "the other hash": Case(("alice {alice}",), PLAIN, "", hashed="sha256"),
    "a broken line behind": Case(("alice {alice}", "bob ssh-ed25519 AAAA"), PLAIN, ""),
    "another kind of key before": Case(("bob {bob.ecdsa}", "alice {alice}"), LEFT, ""),
    "another kind of key behind": Case(("alice {alice}", "bob {bob.ecdsa}"), PLAIN, ""),
    "the key in a comment": Case(("bob {bob} {alice:key}",), LEFT, "unknown_principal"),
    "the key in a line that is off": Case(("#alice {alice}",), LEFT, "unknown_principal"),
    "two lines, the first permits": Case(('alice namespaces="subord.members" {alice}', "root {alice}"), PLAIN, ""),
    "two lines of a name, the second permits": Case(('alice namespaces="x" {alice}', "alice {alice}"), LEFT, ""),
    "two lines, only the second name is permitted": Case(
        ('alice namespaces="x" {alice}', "root {alice}"), LEFT, "not_permitted"
    ),
    "an unknown key": Case(("alice {alice}",), LEFT, "unknown_principal", of="mallory"),
    "an empty file": Case((), LEFT, "unknown_principal"),
    "ecdsa": Case(("alice {alice.ecdsa}",), LEFT, "", of="alice.ecdsa"),
    "rsa": Case(("alice {alice.rsa}",), LEFT, "", of="alice.rsa"),
    "another content": Case(("alice {alice}",), LEFT, "altered", content=b"forget node 4"),
    "no content": Case(("alice {alice}",), LEFT, "altered", content=b""),
    "another namespace": Case(("alice {alice}",), LEFT, "wrong_namespace", signed_for="subord.keys"),
    "the namespace of a longer name": Case(("alice {alice}",), LEFT, "wrong_namespace", signed_for=f"{MEMBERS}x"),
    "an altered signature": Case(
        ("alice {alice}",), LEFT, "altered", change=in_blob(lambda blob: blob[:-40] + b"x" + blob[-39:])
    ),
    "an altered key": Case(
        ("alice {alice}",), LEFT, "unknown_principal", change=in_blob(lambda blob: blob[:40] + b"x" + blob[41:])
    ),
    "an altered namespace": Case(
        ("alice {alice}",),
        LEFT,
        "altered",
        signed_for="subord.memberz",
        change=in_blob(lambda blob: blob.replace(b"subord.memberz", b"subord.members")),
    ),
    "the name of another hash": Case(("alice {alice}",), LEFT, "altered", change=OTHER_HASH),
    "an unknown hash": Case(
        ("alice {alice}",), LEFT, "altered", change=in_blob(lambda blob: blob.replace(b"sha512", b"sha384"))
    ),
    "a reserved field": Case(("alice {alice}",), LEFT, "", change=RESERVED),
    "another number for the same point": Case(("alice {alice}",), LEFT, "", change=in_blob(malleated)),
    "bytes behind the signature": Case(("alice {alice}",), LEFT, "altered", change=in_blob(lambda b: b + b"x")),
    "a short signature": Case(("alice {alice}",), LEFT, "altered", change=in_blob(lambda blob: blob[:-1])),
    "version 2": Case(("alice {alice}",), LEFT, "altered", change=in_blob(lambda blob: blob[:9] + b"\2" + blob[10:])),
    "no line feed at the end": Case(("alice {alice}",), PLAIN, "", change=bytes.rstrip),
    "text behind the armour": Case(("alice {alice}",), LEFT, "altered", change=lambda text: text + b"x"),
    "text before the armour": Case(("alice {alice}",), LEFT, "altered", change=lambda text: b"x" + text),
    "ends of lines of Windows": Case(
        ("alice {alice}",), LEFT, "unknown_principal", change=lambda text: text.replace(b"\n", b"\r\n")
    ),
    "no armour": Case(("alice {alice}",), LEFT, "altered", change=blob_of),
    "nothing in the armour": Case(("alice {alice}",), LEFT, "altered", change=lambda _: armoured(b"")),
    "loose bits": Case(("alice {alice}",), LEFT, "unknown_principal", change=with_loose_bits),
    "unsigned": Case(("alice {alice}",), LEFT, "unsigned", change=lambda _: b""),
}


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    found = Signers(tmp_path_factory.mktemp("signers"))
    for name in ("alice", "bob", "mallory"):
        found.key(name)
    for kind in ("ecdsa", "rsa"):
        found.key(f"alice.{kind}", kind)
    found.key("bob.ecdsa", "ecdsa")
    return found


def written(signers: Signers, lines: tuple[str, ...]) -> str:
    text = [each.replace("{alice:key}", " ".join(signers.public("alice").split()[:2])) for each in lines]
    return signers.write(*text).read_text()


async def by_ssh_keygen(signers: Signers, *given: object, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    with monkeypatch.context() as patched:
        patched.setattr(operators, "PLAIN_BURST", 0.0)
        return await Operators(str(signers.file)).verify(*given)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
async def test_both_say_the_same(signers: Signers, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    text = written(signers, case.lines)
    signature = case.change(signers.sign(case.of, ORDER, case.signed_for, f"hashalg={case.hashed}"))
    found = plain_signature.signer_of(signature, case.content, MEMBERS, text, case.at_ms // 1000)
    assert (found is not None) is case.is_plain
    given = (case.content, signature, MEMBERS, case.at_ms)
    theirs = await by_ssh_keygen(signers, *given, monkeypatch=monkeypatch)
    assert theirs.word == case.word
    assert await Operators(str(signers.file)).verify(*given) == theirs
    if found is not None:
        assert (found.principals[0], found.fingerprint) == (theirs.principal, theirs.fingerprint)


ALPHABET = '\0\t\n\r !"#*,-./0A=Z@_az\x0b\x85\u2028é'


@pytest.mark.slow
async def test_no_change_of_a_byte_is_accepted_that_ssh_keygen_refuses(
    signers: Signers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the operators file, and of the signature."""
    chance = random.Random(1)
    line = 'alice,root namespaces="subord.*",valid-before="20990101Z" {alice:key}'
    text, signature = written(signers, ("# first", "bob {bob}", line)), signers.sign("alice", ORDER).decode()
    accepted: set[tuple[str, str]] = set()
    while len(accepted) < 40:
        changed, armour = (mutated(text, chance), signature)
        if chance.random() < 0.5:
            changed, armour = text, mutated(signature, chance)
        found = plain_signature.signer_of(armour.encode(), ORDER, MEMBERS, changed, AT_MS // 1000)
        if found is not None and (changed, armour) not in accepted:
            accepted.add((changed, armour))
            signers.file.write_text(changed)
            theirs = await by_ssh_keygen(signers, ORDER, armour.encode(), MEMBERS, AT_MS, monkeypatch=monkeypatch)
            assert theirs == Verdict("", found.principals[0], found.fingerprint), (changed, armour)


def mutated(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text))
    return text[:at] + chance.choice((chance.choice(ALPHABET), "")) + text[at + chance.randrange(2) :]
