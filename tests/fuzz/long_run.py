"""A million malformed datagrams for the decoder and for a settled node (tests/fuzz/node_fuzzer.py).

    .venv/bin/python tests/fuzz/long_run.py --count 1000000 [--seed N] [--json docs/figures/fuzz.json]
    .venv/bin/python tests/fuzz/long_run.py --count 1000000 --atheris

The memory of the process must be the same before and after; caches are filled before. Progress goes to stderr, the
result to stdout; the exit code is 0 when all invariants held, 1 when not, 2 for wrong arguments.

`--atheris` is guided by coverage: the package `atheris` (extra `fuzz`: pip install '.[fuzz]') observes which branches
of subord a datagram reaches, and mutates those that reached new ones. It ends the process itself, and leaves a
violating datagram in a file `crash-...` of the current directory.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NoReturn

REPOSITORY = Path(__file__).resolve().parents[2]
for each in (REPOSITORY, REPOSITORY / "tests" / "helpers"):
    if str(each) not in sys.path:
        sys.path.insert(0, str(each))

if TYPE_CHECKING:
    from tests.fuzz.node_fuzzer import Decode, Fuzzer

WARM_UP = 200_000  # datagrams before memory is measured, for caches and allocator
PROGRESS_EVERY = 100_000
REST_EVERY = 100  # datagrams of the run guided by coverage
GROWTH_MIB_MAX = 2.0


@dataclass(frozen=True)
class Options:
    count: int = 1_000_000
    seed: int = 1
    atheris: bool = False
    json: Path | None = None


def options_of(words: list[str]) -> Options:
    parser = argparse.ArgumentParser(description="malformed datagrams for the decoder and a node")
    parser.add_argument("--count", type=int, default=Options.count, help="datagrams (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=Options.seed, help="the same seed, the same datagrams")
    parser.add_argument("--atheris", action="store_true", help="guided by coverage; needs the package atheris")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
    given = parser.parse_args(words)
    if given.count < 1:
        parser.error("--count must be at least 1")
    if given.atheris and given.json:
        parser.error("--json needs a run without --atheris, which ends the process itself")
    return Options(given.count, given.seed, given.atheris, given.json)


# -- from a seed ----------------------------------------------------------------------------------------------------


def run(options: Options, decode: Decode | None = None) -> int:
    """The exit code. `decode` may be another than the wire's, to test the run."""
    from subord.wire import codec  # late, so that --atheris can instrument it
    from tests.fuzz import node_fuzzer

    try:
        return _fuzz(options, node_fuzzer.Fuzzer(options.seed, decode or codec.decode))
    except node_fuzzer.BreachError as breach:
        print(f"fuzz: {breach}", file=sys.stderr)
        return 1


def _fuzz(options: Options, fuzzer: Fuzzer) -> int:
    from tests.fuzz.measure import resident_mib

    _feed(fuzzer, min(WARM_UP, options.count))
    fuzzer.ways.clear()
    fuzzer.outcomes.clear()
    gc.collect()
    before, began = resident_mib(), time.monotonic()
    for done in range(0, options.count, PROGRESS_EVERY):
        _feed(fuzzer, min(PROGRESS_EVERY, options.count - done))
        progress = f"{fuzzer.outcomes.total()} datagrams, {time.monotonic() - began:.1f} s, {resident_mib():.1f} MiB"
        print(progress, file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    gc.collect()
    result = _result(options, fuzzer, seconds, before, resident_mib())
    print(_text(result))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    growth = result["memory_mib_after"] - result["memory_mib_before"]
    if growth > GROWTH_MIB_MAX:
        print(f"fuzz: memory grew by {growth:.1f} MiB, more than {GROWTH_MIB_MAX}", file=sys.stderr)
        return 1
    return 0


def _feed(fuzzer: Fuzzer, count: int) -> None:
    from tests.fuzz.node_fuzzer import CHUNK

    for done in range(0, count, CHUNK):
        fuzzer.take(fuzzer.spoil(min(CHUNK, count - done)))


def _result(options: Options, fuzzer: Fuzzer, seconds: float, before: float, after: float) -> dict[str, object]:
    import subord
    from tests.fuzz.measure import machine

    return {
        "machine": machine(),
        "version": subord.__version__,
        "seed": options.seed,
        "count": fuzzer.outcomes.total(),
        "seconds": round(seconds, 1),
        "exceptions": 0,  # one ends the run
        "memory_mib_before": round(before, 1),
        "memory_mib_after": round(after, 1),
        "outcomes": dict(sorted(fuzzer.outcomes.items())),
        "ways": dict(sorted(fuzzer.ways.items())),
        "fullest": dict(fuzzer.fullest),
    }


def _text(result: dict[str, object]) -> str:
    counted = "\n".join(f"  {name:20} {number}" for name, number in result["outcomes"].items())
    return (
        f"{result['count']} datagrams of seed {result['seed']} in {result['seconds']} s: exceptions 0, "
        f"memory {result['memory_mib_before']} MiB before, {result['memory_mib_after']} MiB after\n{counted}"
    )


# -- guided by coverage ---------------------------------------------------------------------------------------------


def run_atheris(options: Options) -> NoReturn:
    """Does not return: libFuzzer ends the process, with 0 when all invariants held."""
    try:
        import atheris
    except ImportError:
        sys.exit("fuzz: --atheris needs the package atheris: pip install '.[fuzz]'; nothing was run")
    with atheris.instrument_imports(include=["subord"]):
        from tests.fuzz import corpus, node_fuzzer

    fuzzer = node_fuzzer.Fuzzer(options.seed)

    def one(data: bytes) -> None:
        fuzzer.feed([data])
        if fuzzer.outcomes.total() % REST_EVERY == 0:
            fuzzer.rest()

    def mutate(data: bytes, bytes_max: int, seed: int) -> bytes:
        """Half of them are made as in the other run, as a start."""
        chance = Random(seed)
        if chance.random() < 0.5:
            return corpus.spoiled(chance, fuzzer.numbers())[1][:bytes_max]
        mutated: bytes = atheris.Mutate(data, bytes_max)
        return mutated

    words = [sys.argv[0], f"-atheris_runs={options.count}", f"-seed={options.seed}", "-max_len=1300", "-verbosity=1"]
    atheris.Setup(words, one, custom_mutator=mutate)
    atheris.Fuzz()
    sys.exit(0)


def main() -> int:
    options = options_of(sys.argv[1:])
    if options.atheris:
        run_atheris(options)
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
