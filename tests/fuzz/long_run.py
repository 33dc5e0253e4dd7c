"""A million malformed datagrams at the decoder and at a settled node, in one command.

    .venv/bin/python tests/fuzz/long_run.py --count 1000000 [--seed N] [--json docs/figures/fuzz.json]
    .venv/bin/python tests/fuzz/long_run.py --count 1000000 --atheris

Intuition: tests/fuzz/siege.py, for a quarter of a minute instead of a second. Every fault must leave the node as it
was, nothing may raise, no table may exceed its bound, and the memory of the process must be the same before and after
(what is cached at first use is warmed up before). Progress goes to stderr, the result to stdout; the exit code is 0
when all is well, 1 when not, 2 for wrong arguments.

`--atheris` lets coverage choose what is smudged next: the package `atheris` (extra `fuzz`: pip install '.[fuzz]')
watches which branches of subord a datagram reaches, and goes on from those that reached new ones. It ends the process
itself, and leaves a datagram that broke something in a file `crash-...` of the current directory.
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
    from tests.fuzz.siege import Decode, Siege

WARM_UP = 200_000  # datagrams before memory is measured: until the allocator has what it needs
PROGRESS_EVERY = 100_000
REST_EVERY = 100  # datagrams of the run guided by coverage: it asks what each of them reached
GROWTH_MIB_MAX = 2.0


@dataclass(frozen=True)
class Options:
    count: int = 1_000_000
    seed: int = 1
    atheris: bool = False
    json: Path | None = None


def options_of(words: list[str]) -> Options:
    parser = argparse.ArgumentParser(description="malformed datagrams, by the million")
    parser.add_argument("--count", type=int, default=Options.count, help="datagrams (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=Options.seed, help="the same seed, the same datagrams")
    parser.add_argument("--atheris", action="store_true", help="guided by coverage; needs the package atheris")
    parser.add_argument("--json", type=Path, help="write the result into this file, too")
    given = parser.parse_args(words)
    if given.count < 1:
        parser.error("--count must be at least 1")
    if given.atheris and given.json:
        parser.error("--json is for the run without --atheris, which ends the process before anything can be written")
    return Options(given.count, given.seed, given.atheris, given.json)


# -- from a seed ----------------------------------------------------------------------------------------------------


def run(options: Options, decode: Decode | None = None) -> int:
    """The exit code. `decode` may be another than the wire's, to see that the run would end badly."""
    from subord.wire import codec  # late, so that --atheris can watch it
    from tests.fuzz import siege

    try:
        return _besiege(options, siege.Siege(options.seed, decode or codec.decode))
    except siege.BreachError as breach:
        print(f"fuzz: {breach}", file=sys.stderr)
        return 1


def _besiege(options: Options, siege: Siege) -> int:
    from tests.fuzz.measure import resident_mib

    _throw(siege, min(WARM_UP, options.count))
    siege.ways.clear()
    siege.outcomes.clear()
    gc.collect()
    before, began = resident_mib(), time.monotonic()
    for done in range(0, options.count, PROGRESS_EVERY):
        _throw(siege, min(PROGRESS_EVERY, options.count - done))
        said = f"{siege.outcomes.total()} datagrams, {time.monotonic() - began:.1f} s, {resident_mib():.1f} MiB"
        print(said, file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    gc.collect()
    result = _result(options, siege, seconds, before, resident_mib())
    print(_text(result))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    growth = result["memory_mib_after"] - result["memory_mib_before"]
    if growth > GROWTH_MIB_MAX:
        print(f"fuzz: memory grew by {growth:.1f} MiB, more than {GROWTH_MIB_MAX}", file=sys.stderr)
        return 1
    return 0


def _throw(siege: Siege, count: int) -> None:
    from tests.fuzz.siege import CHUNK

    for done in range(0, count, CHUNK):
        siege.take(siege.spoil(min(CHUNK, count - done)))


def _result(options: Options, siege: Siege, seconds: float, before: float, after: float) -> dict[str, object]:
    import subord
    from tests.fuzz.measure import machine

    return {
        "machine": machine(),
        "version": subord.__version__,
        "seed": options.seed,
        "count": siege.outcomes.total(),
        "seconds": round(seconds, 1),
        "exceptions": 0,  # one would have ended the run
        "memory_mib_before": round(before, 1),
        "memory_mib_after": round(after, 1),
        "outcomes": dict(sorted(siege.outcomes.items())),
        "ways": dict(sorted(siege.ways.items())),
        "fullest": dict(siege.fullest),
    }


def _text(result: dict[str, object]) -> str:
    counted = "\n".join(f"  {name:20} {number}" for name, number in result["outcomes"].items())
    return (
        f"{result['count']} datagrams of seed {result['seed']} in {result['seconds']} s: exceptions 0, "
        f"memory {result['memory_mib_before']} MiB before, {result['memory_mib_after']} MiB after\n{counted}"
    )


# -- guided by coverage ---------------------------------------------------------------------------------------------


def run_atheris(options: Options) -> NoReturn:
    """Does not return: libFuzzer ends the process, with 0 when nothing broke."""
    try:
        import atheris
    except ImportError:
        sys.exit("fuzz: --atheris needs the package atheris: pip install '.[fuzz]'; nothing was run")
    with atheris.instrument_imports(include=["subord"]):
        from tests.fuzz import corpus, siege

    besieged = siege.Siege(options.seed)

    def one(data: bytes) -> None:
        besieged.throw([data])
        if besieged.outcomes.total() % REST_EVERY == 0:
            besieged.rest()

    def smudge(data: bytes, bytes_max: int, seed: int) -> bytes:
        """Half of them are spoiled as in the other run, so that it does not begin with an empty table."""
        chance = Random(seed)
        if chance.random() < 0.5:
            return corpus.spoiled(chance, besieged.numbers())[1][:bytes_max]
        mutated: bytes = atheris.Mutate(data, bytes_max)
        return mutated

    words = [sys.argv[0], f"-atheris_runs={options.count}", f"-seed={options.seed}", "-max_len=1300", "-verbosity=1"]
    atheris.Setup(words, one, custom_mutator=smudge)
    atheris.Fuzz()
    sys.exit(0)


def main() -> int:
    options = options_of(sys.argv[1:])
    if options.atheris:
        run_atheris(options)
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
