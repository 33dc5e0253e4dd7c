"""Mechanically made mutants of subord/core and subord/sealing, and which of them no test and no campaign notices.

    ./dev mutants [--sample N] [--seed N] [--seeds N] [--tests-s S] [--jobs N] [--only TEXT]
                  [--again | --survivors | --show] [--write]

mutmut lists the mutants: a number increased, an operator replaced, None assigned, an argument or a case left out, and
so on; tests/helpers/mutant_sample.py excludes some and draws the sample. Each mutant is written into a copy of the
project and is tried with what runs its function (tests/helpers/mutant_map.py): the tests about it, then others, then
the campaign seeds, until one fails or a limit of processor time is reached. Before that, the same tests and seeds
must pass without a mutant.

Each result is at once a line of dist/mutants/results.jsonl. A stopped run continues, if neither the package nor the
tests have changed. --again forgets the results and measurements. --survivors keeps the caught ones, whatever changed,
and tries the others again; with --tests-s 1000 with every test that runs their function. --show tries none. Progress
goes to stderr, the count and the survivors to stdout. --write writes docs/figures/mutants.json, from which
docs/build_mutants.py makes the tables; notes on a survivor are a line of tests/mutants.toml, identified by file,
function and text. The exit code is 0 unless the control fails (1) or an argument is wrong (2).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any, Self, TypeVar

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tests" / "helpers")]

import mutant_map  # noqa: E402 - found by the line above
import mutant_sample  # noqa: E402
from mutant_map import ControlError, Map  # noqa: E402
from mutant_sample import Mutant  # noqa: E402

FIGURES = TOP / "docs" / "figures" / "mutants.json"
KNOWN = TOP / "tests" / "mutants.toml"
KEPT = TOP / "dist" / "mutants"
TESTS_S = 25.0
"""As measured, which is about twice the time without coverage."""
T = TypeVar("T")
COPIED = ("subord", "tests", "docs", "deploy", "netns-lab", "dev", "pyproject.toml", "constraints.txt")


@dataclass(frozen=True)
class Result:
    """`caught` is "tests", "campaign" or "time"; "": it survived. `by` is the test or the seed."""

    file: str
    function: str
    number: int
    line: int
    before: str
    after: str
    caught: str
    by: str
    cpu_s: float
    state: str  # the digest of package and tests

    @property
    def key(self) -> tuple[str, str, int]:
        return self.file, self.function, self.number

    @property
    def text(self) -> tuple[str, str, str, str]:
        return self.file, self.function, self.before, self.after

    def __str__(self) -> str:
        how = f"{self.caught}: {self.by}" if self.caught else "SURVIVED"
        change = f"{self.before} -> {self.after or '(left out)'}"
        return f"{self.file}:{self.line} {self.function}: {change} [{self.cpu_s:.1f} s, {how}]"


def state_of(top: Path, seeds: int) -> str:
    tests = (top / name for name in mutant_map.test_files(top))
    return f"{mutant_map.digest([*mutant_map.shared(top), *tests])}-{seeds}"


# -- results that are kept ------------------------------------------------------------------------------------------


def written(path: Path) -> dict[tuple[str, str, int], Result]:
    """The last result of each mutant. A truncated line is skipped."""
    found: dict[tuple[str, str, int], Result] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            result = Result(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[result.key] = result
    return found


def still_good(mutant: Mutant, result: Result | None, state: str, survivors: bool) -> bool:
    """Whether the mutant need not be tried again."""
    if result is None or (mutant.before, mutant.after) != (result.before, result.after):
        return False
    return bool(result.caught) if survivors else result.state == state


def known_survivors(path: Path = KNOWN) -> dict[tuple[str, str, str, str], dict[str, str]]:
    """The notes on survivors, by file, function and text."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", []) if path.exists() else []
    return {(each["file"], each["function"], each["before"], each["after"]): each for each in entries}


# -- trials ---------------------------------------------------------------------------------------------------------


class Trier:
    """A process that tries mutants in its own copy of the project."""

    def __init__(self, copy: Path) -> None:
        words = [sys.executable, str(copy / "tests" / "helpers" / "mutant_trial.py")]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST"))}
        self._process = subprocess.Popen(
            words, cwd=copy, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process that tries mutants ended: see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        with self._process as process:  # closes its pipes
            process.terminate()


def copied(source: Path, target: Path) -> Path:
    target.mkdir()
    leave_out = shutil.ignore_patterns(".venv", "dist", "*.webp")
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=leave_out)
        else:
            shutil.copy2(source / name, target / name)
    return target


class Trials:
    """Measures, and tries mutants, on several processes; each result is written at once."""

    def __init__(self, directory: Path, seeds: int, jobs: int) -> None:
        self._top = copied(TOP, directory / "0")
        self._directory = directory
        self._lock = Lock()
        self._seeds = seeds
        self._jobs = jobs
        self._free: SimpleQueue[Trier] = SimpleQueue()
        self._map: Map = {}
        self.state = state_of(self._top, seeds)

    def __enter__(self) -> Self:
        first = Trier(self._top)
        first.ask({"collect": list(mutant_map.test_files(self._top))})
        self._free.put(first)
        for number in range(1, self._jobs):
            self._free.put(Trier(copied(self._top, self._directory / str(number))))
        return self

    def __exit__(self, *_: object) -> None:
        while not self._free.empty():
            self._free.get().close()

    def _each(self, things: Sequence[T], do: Callable[[T, Trier], None]) -> None:
        def done(thing: T) -> None:
            trier = self._free.get()
            try:
                do(thing, trier)
            finally:
                self._free.put(trier)

        with ThreadPoolExecutor(self._jobs) as pool:
            list(pool.map(done, things))

    def measure(self, kept: Path) -> None:
        """Measure what is not measured yet, with the control. Raises ControlError."""
        self._map = mutant_map.fitting(mutant_map.read(kept), self._top, self._seeds)
        pieces = mutant_map.missing(self._map, self._top)
        print(f"{len(pieces)} groups of tests or seeds to measure without a mutant", file=sys.stderr, flush=True)

        def measured(piece: mutant_map.Piece, trier: Trier) -> None:
            part = mutant_map.measured(piece, self._top, self._seeds, trier.ask)
            with self._lock:
                self._map["files"] |= part["files"]
                self._map["seeds"] |= part["seeds"]
                kept.write_text(json.dumps(self._map), encoding="utf-8")
                print("measured:", *piece[0], piece[1], file=sys.stderr, flush=True)

        self._each(pieces, measured)

    def run(self, mutants: Sequence[Mutant], tests_s: float, path: Path) -> None:
        """Each result becomes a line of `path`."""
        specific = mutant_map.runs(self._map)

        def tried(mutant: Mutant, trier: Trier) -> None:
            stages = mutant_map.stages(self._map, mutant.file, mutant.function, specific, tests_s)
            answer = trier.ask({"file": mutant.file, "code": mutant.code, "stages": stages})
            fields = {key: value for key, value in asdict(mutant).items() if key != "code"}
            result = Result(**fields, **answer, state=self.state)
            with self._lock, path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(result)) + "\n")
                print(result, file=sys.stderr, flush=True)

        self._each(mutants, tried)


# -- the command ----------------------------------------------------------------------------------------------------


def summary(results: Iterable[Result]) -> list[str]:
    """How many were caught by what, and each survivor."""
    found = list(results)
    how = Counter(each.caught for each in found)
    caught = len(found) - how[""]
    share = f" ({100 * caught / len(found):.1f} %)" if found else ""
    by = f"tests {how['tests']}, campaign {how['campaign']}, time limit {how['time']}"
    head = f"{caught} of {len(found)} mutants were caught{share}: {by}; {sum(each.cpu_s for each in found):.0f} s"
    known = known_survivors()
    lines = [head]
    for each in found:
        if not each.caught:
            note = known.get(each.text)
            lines += [str(each), f"    {note['kind']}: {note['why']}" if note else "    not judged yet"]
    return lines


def document(results: Sequence[Result], about: dict[str, Any]) -> str:
    """One mutant a line."""
    rows = []
    for each in results:
        fields = asdict(each)
        del fields["state"]
        rows.append("  " + json.dumps(fields))
    head = json.dumps(about, indent=1).removesuffix("\n}")
    return head + ',\n "mutants": [\n' + ",\n".join(rows) + "\n ]\n}\n"


def main(words: list[str]) -> int:
    given = _arguments(words)
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / "results.jsonl"
    if given.again:
        path.unlink(missing_ok=True)
        (KEPT / "map.json").unlink(missing_ok=True)
    left_out: Counter[str] = Counter()
    paths = [each for each in mutant_sample.modules(TOP) if given.only in str(each.relative_to(TOP))]
    possible = mutant_sample.candidates(TOP, paths, left_out)
    mutants = mutant_sample.sampled(possible, given.sample, given.seed)
    print(f"{len(mutants)} of {len(possible)} mutants", file=sys.stderr, flush=True)
    if not given.show:
        try:
            _try(mutants, given, path)
        except ControlError as error:
            print(error, file=sys.stderr)
            return 1
    found = written(path)
    results = [found[each.key] for each in mutants if each.key in found]
    print(*summary(results), sep="\n")
    if given.write:
        tests, outside = mutant_map.sizes(mutant_map.read(KEPT / "map.json"))
        about = {
            "possible": len(possible),
            "left_out": dict(sorted(left_out.items())),
            "seed": given.seed,
            "seeds": given.seeds,
            "tests": tests,
            "tests_left_out": outside,
        }
        FIGURES.write_text(document(results, about), encoding="utf-8")
    return 0


def _try(mutants: Sequence[Mutant], given: argparse.Namespace, path: Path) -> None:
    """The mutants that have no valid result."""
    with (
        tempfile.TemporaryDirectory(prefix="subord-mutants-") as directory,
        Trials(Path(directory), given.seeds, given.jobs) as trials,
    ):
        former = written(path)
        due = [each for each in mutants if not still_good(each, former.get(each.key), trials.state, given.survivors)]
        print(f"{len(due)} of them to try", file=sys.stderr, flush=True)
        trials.measure(KEPT / "map.json")
        trials.run(due, given.tests_s, path)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev mutants", description="mutants of the core and the seal, and the survivors"
    )
    parser.add_argument("--sample", type=int, default=300, help="how many mutants (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=50, help="campaign seeds for each (default: %(default)s)")
    parser.add_argument(
        "--tests-s", type=float, default=TESTS_S, help="seconds of tests for each, as measured (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--only", default="", help="only files whose path contains this text")
    parser.add_argument("--again", action="store_true", help="forget the results of former runs")
    parser.add_argument("--survivors", action="store_true", help="try again only survivors")
    parser.add_argument("--show", action="store_true", help="try none, print the known results")
    parser.add_argument("--write", action="store_true", help="write docs/figures/mutants.json")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
