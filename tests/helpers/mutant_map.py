"""Which tests and seeds a mutant is tried with, and in which order.

Input is the map that tests/helpers/mutant_measure.py measures, kept in dist/mutants/map.json. It is measured again
for each changed test file, and wholly when the package, the helpers or conftest.py changed; each measurement ends
with the control: the same tests or seeds without a mutant, run as mutants are tried. Invariant: a mutant is tried
with tests that run its function and neither open connections nor start processes, first those that run the fewest
functions, then one of each test function; with all of them if they take no more than the given time, and with all
seeds if one runs its function.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mutant_measure import FOLDERS

NEAR_FILES = 4
NEAR_S = 4.0
LIMIT_S = 20.0
LIMIT_TIMES = 5
"""A stage may take LIMIT_TIMES its time without a mutant, and LIMIT_S."""
MAPPINGS = ("ip", "latency", "performance")
FILES_AT_ONCE = 6

Map = dict[str, Any]
Piece = tuple[list[str], str]  # test files, or none and a mapping
Ask = Callable[[dict[str, Any]], dict[str, Any]]


class ControlError(Exception):
    """A test or seed fails without a mutant."""


def digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def shared(top: Path) -> list[Path]:
    """What every test depends on. These programs themselves are not included; `--again` forgets the map."""
    helpers = (path for path in (top / "tests" / "helpers").glob("*.py") if not path.stem.startswith("mutant_"))
    return [*(top / "subord").rglob("*.py"), *helpers, top / "tests" / "conftest.py", top / "pyproject.toml"]


def test_files(top: Path) -> dict[str, str]:
    """Each file of fast tests, with its digest."""
    found = (path for folder in FOLDERS for path in sorted((top / "tests" / folder).glob("test_*.py")))
    return {str(path.relative_to(top)): digest([path]) for path in found}


def fitting(known: Map | None, top: Path, seeds: int) -> Map:
    """The part of a map that is valid for the files below `top`."""
    now = digest(shared(top))
    if known is None or known["shared"] != now or known["number"] != seeds:
        return {"shared": now, "number": seeds, "files": {}, "seeds": {}}
    files = test_files(top)
    kept = {file: each for file, each in known["files"].items() if files.get(file) == each["digest"]}
    return {**known, "files": kept}


def missing(known: Map, top: Path) -> list[Piece]:
    """The pieces to measure: some test files, or the seeds by a mapping."""
    stale = [file for file in test_files(top) if file not in known["files"]]
    files = [(stale[first : first + FILES_AT_ONCE], "") for first in range(0, len(stale), FILES_AT_ONCE)]
    return [*(([], mapping) for mapping in MAPPINGS if mapping not in known["seeds"]), *files]


def measured(piece: Piece, top: Path, seeds: int, ask: Ask) -> Map:
    """The part of the map for that piece. Raises ControlError if something fails without a mutant.

    It runs twice: measured, and as mutants are tried.
    """
    files, mapping = piece
    found = ask({"measure": files, "seeds": seeds, "mapping": mapping})
    if mapping:
        _control(found["broken"], [_seeds(seeds, mapping)], ask)
        return {"files": {}, "seeds": {mapping: found["functions"]}}
    digests = test_files(top)
    part = {file: {**_of_file(found, file), "digest": digests[file]} for file in files}
    times = {name: used_s for each in part.values() for name, used_s in each["tests"].items()}
    failed = [name for name in found["failed"] if name not in found["left_out"]]
    _control(failed, [_tests(sorted(times, key=lambda name: times[name]), times)] if times else [], ask)
    return {"files": part, "seeds": {}}


def _of_file(found: dict[str, Any], file: str) -> dict[str, Any]:
    """Functions refer to tests by number, because the names of tests are long and repeated."""
    left_out = [name for name in found["left_out"] if name.startswith(file + "::")]
    tests = {
        name: used_s
        for name, used_s in found["tests"].items()
        if name.startswith(file + "::") and name not in found["left_out"]
    }
    number = {name: index for index, name in enumerate(tests)}
    functions = {name: [number[each] for each in ran if each in number] for name, ran in found["functions"].items()}
    return {
        "digest": "",
        "tests": tests,
        "left_out": left_out,
        "functions": {name: numbers for name, numbers in functions.items() if numbers},
    }


def _control(failed: list[str], stages: list[dict[str, Any]], ask: Ask) -> None:
    if failed:
        raise ControlError("without a mutant: " + "; ".join(failed))
    outcome = ask({"file": "", "code": None, "stages": stages})
    if outcome["caught"]:
        raise ControlError(f"without a mutant: {outcome['caught']}: {outcome['by']}")


def runs(known: Map) -> dict[str, int]:
    """How many functions each test runs: a test of few functions is about them, others run a whole cluster."""
    found: Counter[str] = Counter()
    for each in known["files"].values():
        tests = list(each["tests"])
        for numbers in each["functions"].values():
            found.update(tests[number] for number in numbers)
    return found


def stages(known: Map, file: str, function: str, specific: dict[str, int], tests_s: float) -> list[dict[str, Any]]:
    """For a mutant of that function: near tests, others for `tests_s`, seeds. `specific`: the result of `runs`."""
    name = f"{file}:{function}"
    times: dict[str, float] = {}
    for each in known["files"].values():
        tests = list(each["tests"])
        times |= {tests[number]: each["tests"][tests[number]] for number in each["functions"].get(name, ())}
    near, others = _near(sorted(times, key=lambda test: (specific[test], times[test], test)), times, tests_s)
    found = [_tests(some, times) for some in (near, others) if some]
    return found + _played([each for each in MAPPINGS if name in known["seeds"].get(each, ())], known["number"])


def _near(tests: list[str], times: dict[str, float], tests_s: float) -> tuple[list[str], list[str]]:
    """(the first tests, of a few files; others for `tests_s`, cheap ones first)."""
    near: list[str] = []
    files: set[str] = set()
    near_s = others_s = 0.0
    for test in tests:
        file = test.split("::")[0]
        if near_s + times[test] <= NEAR_S and (file in files or len(files) < NEAR_FILES):
            near.append(test)
            files.add(file)
            near_s += times[test]
    others: list[str] = []
    for test in _mixed([test for test in tests if test not in set(near)], times):
        if others_s + times[test] <= tests_s:
            others.append(test)
            others_s += times[test]
    return near, sorted(others, key=lambda test: times[test])


def _mixed(tests: list[str], times: dict[str, float]) -> list[str]:
    """One of each test function first, cheap ones before: parameters of one test find the same faults."""
    seen: Counter[str] = Counter()
    order: list[tuple[int, float, str]] = []
    for test in sorted(tests, key=lambda test: (times[test], test)):
        function = test.split("[")[0]
        order.append((seen[function], times[test], test))
        seen[function] += 1
    return [test for _, _, test in sorted(order)]


def _played(able: list[str], number: int) -> list[dict[str, Any]]:
    """By `ip` if these seeds run the function, else by the other mappings that do, in turn."""
    if "ip" in able:
        able = ["ip"]
    if not able:
        return []
    seeds = [(seed, able[seed % len(able)]) for seed in range(number)]
    return [{"tests": [], "seeds": seeds, "cpu_s": LIMIT_S + number}]


def _seeds(number: int, mapping: str) -> dict[str, Any]:
    return {
        "tests": [],
        "seeds": [(seed, mapping) for seed in range(number)],
        "cpu_s": LIMIT_S + LIMIT_TIMES * number,
    }


def _tests(names: list[str], times: dict[str, float]) -> dict[str, Any]:
    cpu_s = LIMIT_S + LIMIT_TIMES * sum(times[name] for name in names)
    return {"tests": names, "seeds": [], "cpu_s": round(cpu_s, 1)}


def read(path: Path) -> Map | None:
    known: Map | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return known


def sizes(known: Map | None) -> tuple[int, int]:
    """(number of tests that are run, number of tests left out because they leave the process)."""
    files = known["files"].values() if known else ()
    return sum(len(each["tests"]) for each in files), sum(len(each["left_out"]) for each in files)
