"""Malformed datagrams: no exception, no change, no growth (docs/protocol.md, S5 and S6).

The same with a million datagrams: tests/fuzz/long_run.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from subord.core.messages import Message, Versions
from subord.wire.codec import Fault, decode, encode
from tests.fuzz import corpus
from tests.fuzz.long_run import Options, options_of, run
from tests.fuzz.measure import kept_bytes
from tests.fuzz.node_fuzzer import CHUNK, SIZE_MAX, TARGET, BreachError, Fuzzer

pytestmark = pytest.mark.slow

SEED = 1
COUNT = 40_000
KEPT_BYTES_MAX = 8 * 1024  # of decoding 10,000 datagrams of about 200 bytes: caches of the interpreter
LONG_RUN = Path(__file__).with_name("long_run.py")


def spoiled(count: int) -> list[tuple[str, bytes]]:
    chance = Random(SEED)
    return [corpus.spoiled(chance, (1, 2, 3)) for _ in range(count)]


def take_all(fuzzer: Fuzzer, count: int) -> None:
    for _ in range(0, count, CHUNK):
        fuzzer.take(fuzzer.spoil(CHUNK))


# -- the corpus -----------------------------------------------------------------------------------------------------


def test_the_same_seed_makes_the_same_datagrams() -> None:
    assert spoiled(500) == spoiled(500)


def test_all_ways_are_used_and_most_results_are_malformed() -> None:
    made = spoiled(10_000)
    faults = Counter(way for way, data in made if isinstance(decode(data), Fault))
    assert set(faults) == {way.__name__ for way in corpus.WAYS}, "each of them makes faults"
    assert faults.total() > 0.8 * len(made)


def test_the_real_messages_that_are_spoiled_are_of_every_kind() -> None:
    chance = Random(SEED)
    kinds = {type(decode(encode(corpus.real(chance)))) for _ in range(500)}
    assert kinds == set(Message.__args__)


# -- a settled node -------------------------------------------------------------------------------------------------


def test_malformed_datagrams_change_nothing_and_use_no_memory() -> None:
    fuzzer = Fuzzer(SEED)
    take_all(fuzzer, COUNT)
    assert fuzzer.outcomes.total() == fuzzer.ways.total() == COUNT
    assert set(fuzzer.outcomes) == {
        *(fault.value for fault in Fault),
        *(kind.__name__ for kind in Message.__args__),
    }, "every fault occurs, and messages of every kind reach the core"
    assert fuzzer.size() < SIZE_MAX
    assert fuzzer.fullest["questions"] > 0, "the node was without leader, too"
    assert fuzzer.fullest["unanswered beats"] > 0


def test_the_node_works_afterwards() -> None:
    fuzzer = Fuzzer(SEED)
    take_all(fuzzer, 5_000)
    world = fuzzer.world
    for position in world.nodes.keys() - {TARGET}:
        world.vanish(position)
    world.run(300)
    world.start_all((1, 2, 6, 7))
    world.run_until(lambda: world.leaders() == {1: 0, 2: 1, 3: 1, 6: 3, 7: 3}, 300)


def test_decoding_keeps_nothing() -> None:
    assert kept_bytes(decode, (data for _, data in spoiled(10_000))) < KEPT_BYTES_MAX


# -- faults that the fuzzer notices ---------------------------------------------------------------------------------


def test_a_decoder_that_keeps_what_it_reads_is_noticed() -> None:
    kept: list[bytes] = []

    def leaking(data: bytes) -> Message | Fault:
        kept.append(data)
        return decode(data)

    assert kept_bytes(leaking, (data for _, data in spoiled(10_000))) > 10 * KEPT_BYTES_MAX


def test_a_decoder_that_keeps_one_datagram_in_a_hundred_is_noticed() -> None:
    kept: list[Message | Fault | bytes] = []

    def leaking(data: bytes) -> Message | Fault:
        if data.endswith(b"\x01"):
            kept.append(data)
        return decode(data)

    assert kept_bytes(leaking, (data for _, data in spoiled(10_000))) > KEPT_BYTES_MAX
    assert len(kept) < 2_000


def test_a_decoder_that_raises_is_noticed() -> None:
    def raising(data: bytes) -> Message | Fault:
        return decode(data) if data[-1:] != b"\xc2" else decode(data[: int(data)])

    fuzzer = Fuzzer(SEED, raising)
    with pytest.raises(BreachError, match=r"decode raised ValueError.* at [0-9a-f]+c2$"):
        take_all(fuzzer, COUNT)


def test_a_fault_that_changes_the_node_is_noticed() -> None:
    def changing(data: bytes) -> Message | Fault:
        read = decode(data)
        if read is Fault.OVERSIZED:
            fuzzer.node.downlink.slots.taken[60].heard_at += 1e-6
        return read

    fuzzer = Fuzzer(SEED, changing)
    with pytest.raises(BreachError, match=r"Fault.OVERSIZED changed the node: [0-9a-f]+$"):
        take_all(fuzzer, COUNT)


def test_a_table_without_bound_is_noticed() -> None:
    def leaking(data: bytes) -> Message | Fault:
        read = decode(data)
        if isinstance(read, Versions):
            fuzzer.node.search.peers.append(2)
        return read

    fuzzer = Fuzzer(SEED, leaking)
    with pytest.raises(BreachError, match=r"^peers: \d+ are more than 24, after "):
        take_all(fuzzer, COUNT)


def test_an_uncounted_table_is_noticed() -> None:
    def leaking(data: bytes) -> Message | Fault:
        read = decode(data)
        if isinstance(read, Versions):
            kept.append(data)
        return read

    fuzzer = Fuzzer(SEED, leaking)
    kept: list[bytes] = []
    fuzzer.node.kept = kept  # type: ignore[attr-defined]
    kept.extend(bytes(8) for _ in range(SIZE_MAX - 1000))
    with pytest.raises(BreachError, match=r"^the node has grown to \d+ values, more than 20000$"):
        take_all(fuzzer, COUNT)


# -- the long run ---------------------------------------------------------------------------------------------------


def test_the_long_run_counts_and_exits_with_0(tmp_path: Path) -> None:
    file = tmp_path / "fuzz.json"
    command = [sys.executable, str(LONG_RUN), "--count", "3000", "--seed", "5", "--json", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "exceptions 0" in ran.stdout
    result = json.loads(file.read_text())
    assert (result["count"], result["seed"], result["exceptions"]) == (3000, 5, 0)
    assert sum(result["outcomes"].values()) == sum(result["ways"].values()) == 3000
    assert result["memory_mib_after"] - result["memory_mib_before"] < 8


def test_the_long_run_exits_with_1_at_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    def raising(data: bytes) -> Message | Fault:
        raise OverflowError(len(data))

    assert run(Options(count=1000, seed=1), raising) == 1
    assert "decode raised OverflowError" in capsys.readouterr().err


LEAKING = """
import sys

from subord.wire.codec import decode
from tests.fuzz.long_run import Options, run

kept = []

def leaking(data):
    kept.append(data * 5)
    return decode(data)

sys.exit(run(Options(count=20_000, seed=1), leaking))
"""
"""In a process of its own: that of the tests may hold freed memory, which what leaks would fill first."""


def test_the_long_run_exits_with_1_when_memory_grows() -> None:
    command = [sys.executable, "-c", LEAKING]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=LONG_RUN.parents[2])
    assert ran.returncode == 1, ran.stderr
    assert "memory grew by" in ran.stderr


def test_the_options_of_the_long_run() -> None:
    assert options_of(["--count", "7"]) == Options(count=7, seed=1, atheris=False, json=None)
    assert options_of(["--atheris", "--seed", "3"]) == Options(count=1_000_000, seed=3, atheris=True, json=None)
