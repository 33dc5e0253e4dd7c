"""Malformed datagrams by the thousand: no exception, no change, no growth (docs/protocol.md, S5 and S6).

The same on a larger scale, one command: tests/fuzz/long_run.py.
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
from tests.fuzz.siege import CHUNK, FITS_IN_MAX, TARGET, BreachError, Siege

pytestmark = pytest.mark.slow

SEED = 1
COUNT = 40_000
KEPT_BYTES_MAX = 8 * 1024  # of decoding 10,000 datagrams of some 200 bytes: caches of the interpreter
LONG_RUN = Path(__file__).with_name("long_run.py")


def spoiled(count: int) -> list[tuple[str, bytes]]:
    chance = Random(SEED)
    return [corpus.spoiled(chance, (1, 2, 3)) for _ in range(count)]


def besiege(siege: Siege, count: int) -> None:
    for _ in range(0, count, CHUNK):
        siege.take(siege.spoil(CHUNK))


# -- the corpus -----------------------------------------------------------------------------------------------------


def test_the_same_seed_makes_the_same_datagrams() -> None:
    assert spoiled(500) == spoiled(500)


def test_all_ways_of_spoiling_are_used_and_most_of_what_they_make_is_malformed() -> None:
    made = spoiled(10_000)
    faults = Counter(way for way, data in made if isinstance(decode(data), Fault))
    assert set(faults) == {way.__name__ for way in corpus.WAYS}, "each of them makes faults"
    assert faults.total() > 0.8 * len(made)


def test_the_real_messages_that_are_spoiled_are_of_every_kind() -> None:
    chance = Random(SEED)
    kinds = {type(decode(encode(corpus.real(chance)))) for _ in range(500)}
    assert kinds == set(Message.__args__)


# -- a node under siege ---------------------------------------------------------------------------------------------


def test_malformed_datagrams_break_nothing_change_nothing_and_stay_nowhere() -> None:
    siege = Siege(SEED)
    besiege(siege, COUNT)
    assert siege.outcomes.total() == siege.ways.total() == COUNT
    assert set(siege.outcomes) == {
        *(fault.value for fault in Fault),
        *(kind.__name__ for kind in Message.__args__),
    }, "every fault comes up, and some of every kind get through to the core"
    assert siege.fits_in() < FITS_IN_MAX
    assert siege.fullest["questions"] > 0, "it was in need, too"
    assert siege.fullest["vain beats"] > 0


def test_the_node_goes_on_working_afterwards() -> None:
    siege = Siege(SEED)
    besiege(siege, 5_000)
    world = siege.world
    for position in world.nodes.keys() - {TARGET}:
        world.vanish(position)
    world.run(300)
    world.start_all((1, 2, 6, 7))
    world.run_until(lambda: world.leaders() == {1: 0, 2: 1, 3: 1, 6: 3, 7: 3}, 300)


def test_decoding_keeps_nothing() -> None:
    assert kept_bytes(decode, (data for _, data in spoiled(10_000))) < KEPT_BYTES_MAX


# -- the siege would notice ------------------------------------------------------------------------------------------


def test_a_decoder_that_keeps_what_it_reads_is_noticed() -> None:
    kept: list[bytes] = []

    def leaking(data: bytes) -> Message | Fault:
        kept.append(data)
        return decode(data)

    assert kept_bytes(leaking, (data for _, data in spoiled(10_000))) > 10 * KEPT_BYTES_MAX


def test_a_decoder_that_remembers_one_in_a_hundred_senders_is_noticed() -> None:
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

    siege = Siege(SEED, raising)
    with pytest.raises(BreachError, match=r"decode raised ValueError.* at [0-9a-f]+c2$"):
        besiege(siege, COUNT)


def test_a_fault_that_changes_the_node_is_noticed() -> None:
    def meddling(data: bytes) -> Message | Fault:
        read = decode(data)
        if read is Fault.OVERSIZED:
            siege.node.downlink.slots.taken[60].heard_at += 1e-6
        return read

    siege = Siege(SEED, meddling)
    with pytest.raises(BreachError, match=r"Fault.OVERSIZED and yet it changed the node: [0-9a-f]+$"):
        besiege(siege, COUNT)


def test_a_table_without_bound_is_noticed() -> None:
    def hoarding(data: bytes) -> Message | Fault:
        read = decode(data)
        if isinstance(read, Versions):
            siege.node.joining.peers.append(2)
        return read

    siege = Siege(SEED, hoarding)
    with pytest.raises(BreachError, match=r"^peers: \d+ are more than 24, after "):
        besiege(siege, COUNT)


def test_a_store_that_nobody_counts_is_noticed() -> None:
    def hoarding(data: bytes) -> Message | Fault:
        read = decode(data)
        if isinstance(read, Versions):
            diary.append(data)
        return read

    siege = Siege(SEED, hoarding)
    diary: list[bytes] = []
    siege.node.diary = diary  # type: ignore[attr-defined]
    diary.extend(bytes(8) for _ in range(FITS_IN_MAX - 1000))
    with pytest.raises(BreachError, match=r"^the node has grown to \d+ values, more than 20000$"):
        besiege(siege, COUNT)


# -- the long run ---------------------------------------------------------------------------------------------------


def test_the_long_run_counts_and_ends_well(tmp_path: Path) -> None:
    file = tmp_path / "fuzz.json"
    command = [sys.executable, str(LONG_RUN), "--count", "3000", "--seed", "5", "--json", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "exceptions 0" in ran.stdout
    result = json.loads(file.read_text())
    assert (result["count"], result["seed"], result["exceptions"]) == (3000, 5, 0)
    assert sum(result["outcomes"].values()) == sum(result["ways"].values()) == 3000
    assert result["memory_mib_after"] - result["memory_mib_before"] < 8


def test_the_long_run_ends_badly_when_something_raises(capsys: pytest.CaptureFixture[str]) -> None:
    def raising(data: bytes) -> Message | Fault:
        raise OverflowError(len(data))

    assert run(Options(count=1000, seed=1), raising) == 1
    assert "decode raised OverflowError" in capsys.readouterr().err


def test_the_long_run_ends_badly_when_memory_grows(capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[bytes] = []

    def leaking(data: bytes) -> Message | Fault:
        kept.append(data * 5)
        return decode(data)

    assert run(Options(count=20_000, seed=1), leaking) == 1
    assert "memory grew by" in capsys.readouterr().err


def test_the_options_of_the_long_run() -> None:
    assert options_of(["--count", "7"]) == Options(count=7, seed=1, atheris=False, json=None)
    assert options_of(["--atheris", "--seed", "3"]) == Options(count=1_000_000, seed=3, atheris=True, json=None)
