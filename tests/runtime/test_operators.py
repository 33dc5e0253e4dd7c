"""Signatures of operators, verified by the real ssh-keygen or as it would: what is accepted, the word of a refusal,
and what neighbours can make a node do."""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
from conditions import until
from signers import MEMBERS, Signers

from subord.core.carriage.orders import Verdict
from subord.core.carriage.verdicts import SENTENCES
from subord.core.pacing.token_bucket import TokenBucket
from subord.runtime.security import operators, plain_signature
from subord.runtime.security.allowed_signers import Signer
from subord.runtime.security.operators import BURST, CACHED_MAX, FALSE_BURST, FALSE_PER_S, WAITING_MAX, Operators

ORDER = b"forget node 3"
AT_MS = int(time.time() * 1000)
YEAR_MS = 366 * 86_400_000


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    return Signers(tmp_path)


async def word(signers: Signers, signature: bytes, content: bytes = ORDER, at_ms: int = AT_MS) -> str:
    verdict = await Operators(str(signers.file)).verify(content, signature, MEMBERS, at_ms)
    assert verdict.word in SENTENCES or verdict.word == ""
    return verdict.word


# -- accepted -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
async def test_a_signature_of_an_operator_is_accepted(signers: Signers, kind: str) -> None:
    signers.key("alice", kind)
    file = signers.write("# operators", "bob {bob}", 'alice namespaces="subord.members,subord.keys" {alice}')
    found = await Operators(str(file)).verify(ORDER, signers.sign("alice", ORDER), MEMBERS, AT_MS)
    assert found == Verdict("", "alice", signers.fingerprint("alice"))


async def test_a_certificate_of_an_authority_of_the_file_is_accepted(signers: Signers) -> None:
    signers.key("authority")
    signers.key("alice")
    signers.keygen("-q", "-s", "authority", "-I", "laptop", "-n", "alice", "-V", "-1h:+1d", "alice.pub")
    signers.write('*,!mallory cert-authority,namespaces="subord.*" {authority}')
    signature = signers.sign("alice-cert.pub", ORDER)
    found = await Operators(str(signers.file)).verify(ORDER, signature, MEMBERS, AT_MS)
    assert found == Verdict("", "alice", signers.fingerprint("alice"))
    assert await word(signers, signature, at_ms=AT_MS + 2 * 86_400_000) == "key_expired"
    assert await word(signers, signers.sign("alice", ORDER)) == "unknown_principal", "the key without certificate"


async def test_a_key_counts_when_it_was_valid_at_the_time_of_signing(signers: Signers) -> None:
    signers.write('alice valid-before="20200101Z" {alice}')
    signature = signers.sign("alice", ORDER)
    assert await word(signers, signature) == "key_expired"
    assert await word(signers, signature, at_ms=1_500_000_000_000) == ""


# -- refused --------------------------------------------------------------------------------------------------------


async def test_each_cause_has_its_word(signers: Signers) -> None:
    signers.write('alice namespaces="subord.members" {alice}')
    good = signers.sign("alice", ORDER)
    assert await word(signers, b"") == "unsigned"
    assert await word(signers, good, b"forget node 4") == "altered"
    assert await word(signers, good.replace(b"A", b"B")) == "altered"
    assert await word(signers, b"garbage") == "altered"
    assert await word(signers, good + b"\n" + good) == "altered"
    assert await word(signers, signers.sign("alice", ORDER, "subord.keys")) == "wrong_namespace"
    assert await word(signers, signers.sign("mallory", ORDER)) == "unknown_principal"
    keys = signers.sign("alice", ORDER, "subord.keys")
    found = await Operators(str(signers.file)).verify(ORDER, keys, "subord.keys", AT_MS)
    assert found.word == "not_permitted"
    assert found.fingerprint == signers.fingerprint("alice")


async def test_a_key_that_is_not_valid_yet_is_refused(signers: Signers) -> None:
    signers.write('alice valid-after="20900101" {alice}')
    assert await word(signers, signers.sign("alice", ORDER)) == "key_expired"


async def test_an_expired_line_of_another_key_does_not_name_the_cause(signers: Signers) -> None:
    signers.write('alice valid-before="20200101" {alice}')
    assert await word(signers, signers.sign("mallory", ORDER)) == "unknown_principal"


@pytest.mark.parametrize("what", ["alice", "fingerprint"])
async def test_a_revoked_operator_is_refused_at_once(signers: Signers, what: str) -> None:
    judge = Operators(str(signers.write("admin,alice {alice}", "bob {bob}")))
    signed = {name: signers.sign(name, ORDER) for name in ("alice", "bob")}
    assert (await judge.verify(ORDER, signed["alice"], MEMBERS, AT_MS)).word == ""
    judge.revoke([signers.fingerprint("alice") if what == "fingerprint" else what])
    assert (await judge.verify(ORDER, signed["alice"], MEMBERS, AT_MS)).word == "revoked"
    assert (await judge.verify(ORDER, signed["bob"], MEMBERS, AT_MS)).word == ""
    judge.revoke([])
    assert (await judge.verify(ORDER, signed["alice"], MEMBERS, AT_MS)).word == ""


async def test_a_file_that_does_not_count(signers: Signers, tmp_path: Path) -> None:
    signature = signers.sign("alice", ORDER)
    assert await word(signers, signature) == "no_operators"
    for mode in (0o664, 0o646):
        signers.write("alice {alice}", mode=mode)
        assert await word(signers, signature) == "bad_mode"
    signers.write("alice {alice}", mode=0o600)
    assert await word(signers, signature) == ""
    signers.file.unlink()
    os.mkfifo(signers.file)
    assert await word(signers, signature) == "unreadable"
    signers.file.unlink()
    signers.write("#" * 2_000_000)
    assert await word(signers, signature) == "unreadable"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
async def test_a_file_of_a_foreign_user_does_not_count(signers: Signers) -> None:
    signers.write("alice {alice}")
    os.chown(signers.file, 12345, 0)
    assert await word(signers, signers.sign("alice", ORDER)) == "bad_mode"


async def test_a_change_of_the_file_counts_at_once(signers: Signers) -> None:
    judge = Operators(str(signers.write("bob {bob}")))
    signature = signers.sign("alice", ORDER)
    assert (await judge.verify(ORDER, signature, MEMBERS, AT_MS)).word == "unknown_principal"
    signers.write("alice {alice}")
    assert (await judge.verify(ORDER, signature, MEMBERS, AT_MS)).word == ""
    signers.write("bob {bob}")
    assert (await judge.verify(ORDER, signature, MEMBERS, AT_MS)).word == "unknown_principal"


# -- the program ----------------------------------------------------------------------------------------------------


async def test_without_ssh_keygen(signers: Signers) -> None:
    signers.key("alice", "ecdsa")
    signers.write("alice {alice}")
    signature = signers.sign("alice", ORDER)
    missing = Operators(str(signers.file), program=str(signers.top / "nothing"))
    assert (await missing.verify(ORDER, signature, MEMBERS, AT_MS)).word == "no_ssh_keygen"
    killed = Operators(str(signers.file), program=signers.program("kill -SYS $$"))
    assert (await killed.verify(ORDER, signature, MEMBERS, AT_MS)).word == "no_ssh_keygen"
    unknown = signers.program("echo 'No user exists for uid 7' >&2; exit 255")
    assert (await Operators(str(signers.file), program=unknown).verify(ORDER, signature, MEMBERS, AT_MS)).word == (
        "no_ssh_keygen"
    )


@pytest.mark.slow
async def test_a_hanging_ssh_keygen_is_killed(signers: Signers) -> None:
    signers.key("alice", "ecdsa")
    signers.write("alice {alice}")
    signature, pid = signers.sign("alice", ORDER), signers.top / "pid"
    program = signers.program(f"echo $$ > {pid}; trap '' TERM; while :; do sleep 0.05; done")
    judge = Operators(str(signers.file), program=program, process_s_max=2.0)
    with trio.fail_after(20):
        assert (await judge.verify(ORDER, signature, MEMBERS, AT_MS)).word == "busy"
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")  # noqa: ASYNC240


async def test_what_ssh_keygen_does_not_verify_is_not_accepted(signers: Signers) -> None:
    signers.key("alice", "ecdsa")
    signers.write("alice {alice}")
    signature = signers.sign("alice", ORDER)
    program = signers.program(
        "case $2 in find-principals) echo alice;; check-novalidate) exit 0;; *) exit 255;; esac"
    )
    judge = Operators(str(signers.file), program=program)
    assert (await judge.verify(ORDER, signature, MEMBERS, AT_MS)).word == "not_permitted"


async def test_a_principal_of_a_later_line_of_the_key_can_be_revoked(signers: Signers) -> None:
    """ssh-keygen names the principals of the first line alone."""
    judge = Operators(str(signers.write("alice {alice}", "admin {alice}", "bob {bob}")))
    signed = {each: signers.sign(each, ORDER) for each in ("alice", "bob")}
    assert (await judge.verify(ORDER, signed["alice"], MEMBERS, AT_MS)).word == ""
    judge.revoke(["admin"])
    assert judge.revoked_keys() == {signers.fingerprint("alice")}
    assert (await judge.verify(ORDER, signed["alice"], MEMBERS, AT_MS)).word == "revoked"
    assert (await judge.verify(ORDER, signed["bob"], MEMBERS, AT_MS)).word == ""
    signers.file.unlink()
    assert judge.revoked_keys() == frozenset()


# -- bounds ---------------------------------------------------------------------------------------------------------


class Counted:
    """An `Operators` that counts the starts of its program, at times that the test sets."""

    def __init__(self, signers: Signers) -> None:
        self._starts = signers.top / "starts"
        self.now = 0.0
        program = signers.program(f'echo >> {self._starts}; exec ssh-keygen "$@"')
        self.judge = Operators(str(signers.file), program=program, clock=lambda: self.now)

    @property
    def starts(self) -> int:
        return len(self._starts.read_text().splitlines()) if self._starts.exists() else 0

    async def word(self, signature: bytes, content: bytes = ORDER, source: str = "") -> str:
        return (await self.judge.verify(content, signature, MEMBERS, AT_MS, source)).word


async def test_a_verdict_is_found_once(signers: Signers) -> None:
    signers.key("alice", "ecdsa")
    signers.write("alice {alice}")
    counted, good, bad = Counted(signers), signers.sign("alice", ORDER), signers.sign("mallory", ORDER)
    for _ in range(3):
        assert await counted.word(good) == ""
    assert counted.starts == 2, "find-principals and verify"
    for _ in range(3):
        assert await counted.word(bad) == "unknown_principal"
    assert counted.starts == 3
    counted.now += 61
    assert await counted.word(good) == ""
    assert counted.starts == 3
    assert await counted.word(bad) == "unknown_principal"
    assert counted.starts == 4, "refusals are checked again"


async def test_a_plain_signature_needs_no_process(signers: Signers) -> None:
    """The verdict is that of ssh-keygen (test_plain_signature.py). Beyond a rate ssh-keygen decides after all."""
    signers.write("alice {alice}")
    counted = Counted(signers)
    signed = {content: signers.sign("alice", content) for content in (b"1", b"2", b"3", b"4")}
    counted.judge._plain_bucket = TokenBucket(1.0, 0.0, 2.0)
    assert [await counted.word(signed[each], each) for each in signed] == [""] * 4
    assert counted.starts == 4, "for two of four"
    counted.judge.revoke(["alice"])
    assert await counted.word(signed[b"1"], b"1") == "revoked"
    counted.now += 1
    assert await counted.word(signed[b"2"], b"2") == "revoked"
    assert counted.starts == 6


async def test_false_signatures_of_a_neighbour_are_not_tried_here_either(
    signers: Signers, monkeypatch: pytest.MonkeyPatch
) -> None:
    signers.write("alice {alice}")
    counted, signature = Counted(signers), signers.sign("alice", ORDER)
    tried: list[bytes] = []
    real = plain_signature.signer_of

    def signer_of(*given: Any) -> Signer | None:
        tried.append(given[1])
        return real(*given)

    monkeypatch.setattr(plain_signature, "signer_of", signer_of)
    words = [await counted.word(signature, b"%d" % number, "10.0.0.9") for number in range(30)]
    assert words == ["altered"] * FALSE_BURST + ["busy"] * (30 - FALSE_BURST)
    assert len(tried) == FALSE_BURST


async def test_the_same_order_from_many_neighbours_is_verified_once(signers: Signers) -> None:
    signers.key("alice", "ecdsa")
    signers.write("alice {alice}")
    counted, good = Counted(signers), signers.sign("alice", ORDER)
    words: list[str] = []

    async def offer() -> None:
        words.append(await counted.word(good))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(offer)
    assert words == [""] * 5
    assert counted.starts == 2


async def test_a_flood_is_refused_as_busy(signers: Signers) -> None:
    signers.write("alice {alice}")
    counted, signature = Counted(signers), signers.sign("mallory", ORDER)
    words = [await counted.word(signature, b"%d" % number, f"{number}") for number in range(int(BURST) + 3)]
    assert words == ["unknown_principal"] * int(BURST) + ["busy"] * 3
    counted.now += 1
    assert [await counted.word(signature, b"later %d" % number, f"{number}") for number in range(6)] == (
        ["unknown_principal"] * 5 + ["busy"]
    )


async def test_a_flood_of_one_neighbour_leaves_room_for_the_orders_of_others(signers: Signers) -> None:
    """One sends false signatures all the time; another one sends a genuine order each second."""
    signers.write("alice {alice}")
    counted, false = Counted(signers), signers.sign("mallory", ORDER)
    refused: Counter[str] = Counter()
    seconds = 12
    for second in range(seconds):
        for number in range(30):
            refused[await counted.word(false, b"%d" % (30 * second + number), "10.0.0.9")] += 1
            counted.now += 1 / 30
        genuine = b"genuine %d" % second
        assert await counted.word(signers.sign("alice", genuine), genuine, "10.0.0.2") == ""
    assert refused["unknown_principal"] == pytest.approx(FALSE_BURST + FALSE_PER_S * seconds, abs=1)
    assert refused["busy"] > 200
    assert await counted.word(signers.sign("alice", ORDER), ORDER, "10.0.0.9") == "busy"
    assert await counted.word(signers.sign("alice", ORDER), ORDER) == "", "given at this node"
    counted.now += 2
    other = b"of the neighbour that has sent false ones"
    assert await counted.word(signers.sign("alice", other), other, "10.0.0.9") == "", "it only waits"


async def test_genuine_orders_of_one_neighbour_use_up_no_share(signers: Signers) -> None:
    signers.write("alice {alice}")
    counted = Counted(signers)
    contents = [b"%d" % number for number in range(int(BURST))]
    assert {await counted.word(signers.sign("alice", each), each, "10.0.0.2") for each in contents} == {""}
    assert counted.judge.sizes() == {"verdicts": int(BURST), "false_signers": 0}


async def test_only_some_wait_for_their_turn(signers: Signers) -> None:
    signers.write("alice {alice}")
    signature = signers.sign("alice", ORDER)
    judge = Operators(str(signers.file), program=signers.program("exec sleep 60"), process_s_max=60.0)
    words: list[str] = []

    async def offer(number: int) -> None:
        words.append((await judge.verify(b"%d" % number, signature, MEMBERS, AT_MS)).word)

    async with trio.open_nursery() as nursery:
        for number in range(WAITING_MAX + 4):
            nursery.start_soon(offer, number)
        await until(lambda: len(words) >= 3, "some are told so")
        await trio.sleep(0.2)
        nursery.cancel_scope.cancel()
    assert words == ["busy"] * 3


async def test_the_table_of_verdicts_is_bounded(signers: Signers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "CACHED_MAX", 3)
    assert CACHED_MAX == 1024
    signers.write("alice {alice}")
    counted, signature = Counted(signers), signers.sign("mallory", ORDER)
    for number in range(5):
        await counted.word(signature, b"%d" % number)
    assert counted.judge.sizes() == {"verdicts": 3, "false_signers": 1}


async def test_the_table_of_neighbours_is_bounded(signers: Signers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "SOURCES_MAX", 3)
    signers.write("alice {alice}")
    counted, signature = Counted(signers), signers.sign("mallory", ORDER)
    for number in range(5):
        await counted.word(signature, b"%d" % number, f"10.0.0.{number}")
    assert counted.judge.sizes()["false_signers"] == 3


@pytest.mark.slow
async def test_one_verification_takes_little_time(signers: Signers) -> None:
    """`pytest -s tests/runtime/test_operators.py -k little_time` prints the figure of docs/security.md."""
    signers.key("alice", "ecdsa")
    signers.write('alice namespaces="subord.members" {alice}')
    judge, took = Operators(str(signers.file)), []
    for number in range(20):
        content = b"order %d" % number
        signature = signers.sign("alice", content)
        before = time.perf_counter()
        assert (await judge.verify(content, signature, MEMBERS, AT_MS)).word == ""
        took.append(time.perf_counter() - before)
    print(f"\nmedian of 20 verifications: {statistics.median(took) * 1000:.1f} ms")
    assert statistics.median(took) < 1
