"""Tries mutants in a copy of the project: runs the tests and the campaign seeds in turn, until one notices the
mutant.

    python COPY/tests/helpers/mutant_trial.py

Reads one JSON document per line from stdin and answers each with one on stdout:

    {"collect": [test files]}               imports them, for their compiled form
    {"measure": [test files]}               the result of tests/helpers/mutant_measure.py; for a campaign
                                            {"measure": [], "seeds": N, "mapping": ..}
    {"file": .., "code": .., "stages": [..]} (caught, by, processor seconds) of the module with that text

A stage is a list of tests or a list of (seed, mapping), with its limit of processor seconds. The packages that subord
and the tests need are imported once; subord and the tests themselves are imported from the copy in a child process
for each stage, so that every import finds the mutant. Invariants: the module is restored afterwards; a stage that
reaches its limit of time or memory counts as noticed, "by the time limit" if it was the time.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
MEMORY_MAX = 4 << 30
MEASURE_S = 1800.0
WAITS_S = 60.0  # beyond SLOWER times the limit of processor seconds: a mutant may wait for ever
SLOWER = 6  # a busy machine gives a process a share of a processor
NEEDED = (
    *("pytest", "_pytest.python", "trio", "trio.testing", "msgspec.json", "hypothesis", "hypothesis.stateful"),
    *("cryptography.hazmat.primitives.ciphers.aead", "cryptography.x509", "h11", "prometheus_client"),
    *("argparse", "asyncio", "concurrent.futures.process", "multiprocessing", "statistics", "tomllib", "ssl"),
)


# -- one stage, in a child process ----------------------------------------------------------------------------------


class Chosen:
    """A plugin of pytest: only these tests, in this order."""

    def __init__(self, names: list[str]) -> None:
        self._order = {name: number for number, name in enumerate(names)}
        self.failed = ""

    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        # The first failing example suffices; shrinking takes long.
        phases = [Phase.explicit, Phase.reuse, Phase.generate]
        settings.register_profile("mutants", settings.get_profile("subord"), phases=phases)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def by_tests(names: list[str]) -> str:
    """The first of these tests that fails; "": none."""
    from mutant_measure import OPTIONS

    pytest = importlib.import_module("pytest")
    chosen = Chosen(names)
    files = list(dict.fromkeys(name.split("::")[0] for name in names))
    code = int(pytest.main([*OPTIONS, "-x", "--tb=no", *files], plugins=[chosen]))
    if code == 0:
        return ""
    return chosen.failed or "the collection of the tests"


def by_seeds(played: list[tuple[int, str]]) -> str:
    """The first of these seeds that fails, with its invariant; "": none."""
    campaign = importlib.import_module("subord.sim.campaign")
    for seed, mapping in played:
        verdict = campaign.try_seed(seed, mapping)
        if verdict.broken:
            return f"{verdict.broken} at seed {seed} by {mapping}"
    return ""


def in_child(work: Callable[[], Any], cpu_s: float) -> tuple[str, Any, float]:
    """("", the result, processor seconds) of a child; instead of "": "time" or how it ended."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _be_child(work, write_end, cpu_s)
    os.close(write_end)
    data, in_time = _read_all(read_end, SLOWER * cpu_s + WAITS_S)
    os.close(read_end)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # processes that it may have left
    used_s = round(usage.ru_utime + usage.ru_stime, 2)
    signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if not in_time or signalled == signal.SIGXCPU or (signalled == signal.SIGKILL and used_s >= cpu_s):
        return "time", None, used_s
    if not data:
        return f"the process ended with status {status}", None, used_s
    return "", json.loads(data), used_s


def _be_child(work: Callable[[], Any], write_end: int, cpu_s: float) -> None:
    """Does not return."""
    os.setpgid(0, 0)
    limit = int(cpu_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    try:
        answer = json.dumps(work()).encode()
    except BaseException as error:  # a failing import is noticed, too
        answer = json.dumps(f"{type(error).__name__}: {error}"[:200]).encode()
    with os.fdopen(write_end, "wb") as pipe:
        pipe.write(answer)
    os._exit(0)


def _read_all(end: int, wait_s: float) -> tuple[bytes, bool]:
    """(the data until the end, whether the end came in time)."""
    until, data = time.monotonic() + wait_s, bytearray()
    while True:
        ready, _, _ = select.select([end], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return bytes(data), False
        piece = os.read(end, 1 << 16)
        if not piece:
            return bytes(data), True
        data += piece


# -- the requests ---------------------------------------------------------------------------------------------------


@contextmanager
def exchanged(file: str, code: str) -> Generator[None, None, None]:
    """The module has that text; its modification time fits no compiled form."""
    path = TOP / "subord" / file
    whole, times = path.read_bytes(), path.stat()
    try:
        path.write_text(code, encoding="utf-8")
        os.utime(path, (times.st_atime, times.st_mtime + 1000))
        yield
    finally:
        path.write_bytes(whole)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def tried(stages: list[dict[str, Any]]) -> dict[str, Any]:
    """How it was noticed, `caught` being "tests", "campaign" or "time"; "": not noticed."""
    sys.dont_write_bytecode = True
    total_s = 0.0
    for stage in stages:
        tests, seeds, cpu_s = stage["tests"], stage["seeds"], stage["cpu_s"]
        how, by, used_s = in_child(lambda: by_tests(tests) if tests else by_seeds(seeds), cpu_s)  # noqa: B023
        total_s += used_s
        what = "the tests" if tests else "the campaign"
        if how == "time":
            return {"caught": "time", "by": f"{what}, {cpu_s:.0f} s", "cpu_s": round(total_s, 2)}
        if how or by:
            return {"caught": "tests" if tests else "campaign", "by": by or how, "cpu_s": round(total_s, 2)}
    return {"caught": "", "by": "", "cpu_s": round(total_s, 2)}


def collected(files: list[str]) -> dict[str, Any]:
    """Import all test files once, so that their compiled form exists for each trial."""
    from mutant_measure import OPTIONS

    pytest = importlib.import_module("pytest")
    how, code, _ = in_child(lambda: int(pytest.main([*OPTIONS, "--collect-only", *files])), 120)
    return {"code": how or code}


def measured(asked: dict[str, Any]) -> dict[str, Any]:
    """Of test files, or of the campaign by a mapping."""
    import mutant_measure

    files, seeds, mapping = asked["measure"], asked["seeds"], asked["mapping"]
    how, found, _ = in_child(
        lambda: mutant_measure.tests(TOP, files) if files else mutant_measure.seeds(TOP, seeds, mapping), MEASURE_S
    )
    if how or not isinstance(found, dict):
        raise SystemExit(f"{files or mapping} could not be measured: {how or found}")
    return found


def main() -> None:
    os.chdir(TOP)
    sys.path[:0] = [str(TOP), str(TOP / "tests" / "helpers")]
    for name in NEEDED:
        importlib.import_module(name)
    assert not any(name.startswith("subord") for name in sys.modules)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        asked = json.loads(line)
        if "collect" in asked:
            answer = collected(asked["collect"])
        elif "measure" in asked:
            answer = measured(asked)
        elif asked["code"] is None:  # the control
            answer = tried(asked["stages"])
        else:
            with exchanged(asked["file"], asked["code"]):
                answer = tried(asked["stages"])
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
