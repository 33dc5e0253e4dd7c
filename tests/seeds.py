"""The commands of simulated campaigns: seeds that are played, and deliberate faults that they must find.

A campaign is a module with `play(seed)`, which gives a Verdict. For each fault the package `subord` is copied, one
text of the copy is replaced, and seeds are played against the copy until one breaks an invariant, or enough have
passed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))

from tests.mutations import Mutation, copied, mutated  # noqa: E402 - found by the line above

TEXT_CHARS_MAX: Final = 600


class Verdict(NamedTuple):
    """`broken`: the invariant; "": none. `counts`: how often what happened."""

    seed: int
    broken: str = ""
    text: str = ""
    counts: Mapping[str, int] = MappingProxyType({})


class Caught(NamedTuple):
    """`seed`: that broke an invariant; None: none did."""

    name: str
    seed: int | None
    text: str


def run_seeds(words: Sequence[str], description: str, play: Callable[[int], Verdict]) -> int:
    """The command of a campaign; 1 if an invariant is broken."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: %(default)s)")
    given = parser.parse_args(words)
    began, played, broken, counts = time.process_time(), 0, 0, Counter[str]()
    try:
        for seed in range(given.first, given.first + given.seeds):
            verdict = play(seed)
            played += 1
            counts.update(verdict.counts)
            if verdict.broken:
                broken += 1
                print(f"seed {seed}: {verdict.text[:TEXT_CHARS_MAX]}", flush=True)
    except KeyboardInterrupt:
        print("stopped before the end")
    lasted_s = time.process_time() - began
    told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{played} seeds, {broken} broken, {lasted_s:.0f} s of processor time; {told}")
    return 1 if broken else 0


def run_faults(words: Sequence[str], description: str, campaign: str, faults: Sequence[Mutation]) -> int:
    """The command of the faults of a campaign; 1 if one survives."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a fault (default: all)")
    parser.add_argument("--seeds", type=int, default=500, help="that a fault may survive (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: %(default)s)")
    given = parser.parse_args(words)
    survived = 0
    for fault in faults:
        if not given.names or fault.name in given.names:
            caught = caught_by(campaign, fault, given.first, given.seeds)
            survived += caught.seed is None
            print(f"{fault.name:24} {caught.seed!s:>5}  {caught.text[:120]}", flush=True)
    return 1 if survived else 0


def caught_by(campaign: str, fault: Mutation, first: int, seeds: int) -> Caught:
    """`campaign`: the name of its module. The seeds are played in a process of their own."""
    with tempfile.TemporaryDirectory(prefix="subord-faults-") as directory:
        package = copied(REPOSITORY / "subord", Path(directory))
        (package / fault.file).write_text(mutated(fault), encoding="utf-8")
        inside = [campaign, directory, str(first), str(seeds)]
        ran = subprocess.run([sys.executable, __file__, *inside], stdout=subprocess.PIPE, text=True, check=True)
    seed, _, text = ran.stdout.partition(" ")
    return Caught(fault.name, int(seed) if seed.strip() != "none" else None, text.strip())


def _play_copy(campaign: str, directory: Path, first: int, seeds: int) -> str:
    """Of the package in a directory."""
    sys.path.insert(0, str(directory))
    import subord

    assert subord.__file__ is not None
    assert Path(subord.__file__).is_relative_to(directory), f"{subord.__file__} is not the copy"
    play: Callable[[int], Verdict] = import_module(campaign).play
    for seed in range(first, first + seeds):
        try:
            verdict = play(seed)
        except Exception as error:  # a fault may break more than an invariant
            return f"{seed} {type(error).__name__}: {error}"
        if verdict.broken:
            return f"{seed} {verdict.text}"
    return "none"


if __name__ == "__main__":
    print(_play_copy(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
