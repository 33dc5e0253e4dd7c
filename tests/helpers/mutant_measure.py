"""Measures which tests and campaign seeds run which functions of the core and the seal, and how long each takes.

The fast tests of FOLDERS run under coverage.py with a context for each test, and the campaign seeds by each mapping.
A test that opens a connection, binds an address or starts a process is noted and left out of the trials. Caches of
subord are emptied before each test, so that each test runs all code that it needs. Invariant: a test that is not
named at a function does not run it, and cannot notice a mutant of it; of tests that share a fixture of a module, each
is named where one is.

Runs in a child process of tests/helpers/mutant_trial.py, in a copy of the project.
"""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FOLDERS = ("core", "sealing", "sim", "runtime")
CAMPAIGN = "tests/sim/test_campaign.py"
"""Left out: seeds are a stage of their own."""
FORBIDDEN = ("socket.bind", "socket.connect", "subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec")
OPTIONS = (
    "-m",
    "not long and not lab and not deploy and not browser",
    "-q",
    "-p",
    "no:cacheprovider",
    "--no-header",
    "--tb=line",
    "-W",
    "ignore::pytest.PytestWarning",
)


class Watch:
    """A plugin of pytest: the time of each test, and whether it leaves the process."""

    def __init__(self, coverage: Any) -> None:
        self.tests: dict[str, float] = {}
        self.left_out: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.together: dict[str, set[str]] = {}  # tests with a fixture of their module, by file
        self._coverage = coverage
        self._event = ""
        sys.addaudithook(self._on_audit)

    def _on_audit(self, event: str, _: object) -> None:
        if event in FORBIDDEN:
            self._event = event

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not item.nodeid.startswith(CAMPAIGN)]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, None]:
        _empty_caches()
        self._event = ""
        self._coverage.switch_context(item.nodeid)
        began = time.process_time()
        yield
        self.tests[item.nodeid] = round(time.process_time() - began, 4)
        if self._event:
            self.left_out[item.nodeid] = self._event
        scopes = {each[-1].scope for each in item._fixtureinfo.name2fixturedefs.values()}
        if scopes & {"module", "class"}:
            self.together.setdefault(item.nodeid.split("::")[0], set()).add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = str(report.longrepr)


def _empty_caches() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("subord"):
            for each in vars(module).values():
                if hasattr(each, "cache_clear"):
                    each.cache_clear()


@contextmanager
def _covered(top: Path) -> Generator[Any, None, None]:
    from coverage import Coverage

    include = [str(top / "subord" / folder / "*") for folder in ("core", "sealing")]
    coverage = Coverage(data_file=None, config_file=False, include=include)
    coverage.start()
    try:
        yield coverage
    finally:
        coverage.stop()


def tests(top: Path, files: Iterable[str]) -> dict[str, Any]:
    """The results of the tests of these files: times, functions, failures."""
    with _covered(top) as coverage:
        watch = Watch(coverage)
        code = pytest.main([*OPTIONS, *files], plugins=[watch])
    ran = functions(top, coverage.get_data())
    for together in watch.together.values():
        for names in ran.values():
            names.update(together if names & together else ())
    return {
        "code": int(code),
        "failed": watch.failed,
        "tests": watch.tests,
        "left_out": watch.left_out,
        "functions": {function: sorted(names & watch.tests.keys()) for function, names in ran.items()},
    }


def seeds(top: Path, number: int, mapping: str) -> dict[str, Any]:
    """The functions that the seeds run by that mapping, and the failures."""
    broken: list[str] = []
    with _covered(top) as coverage:
        from subord.sim.campaign import try_seed

        coverage.switch_context(mapping)
        for seed in range(number):
            verdict = try_seed(seed, mapping)
            if verdict.broken:
                broken.append(f"{verdict.broken} at seed {seed} by {mapping}: {verdict.text}")
    return {"broken": broken, "functions": sorted(functions(top, coverage.get_data()))}


def functions(top: Path, data: Any) -> dict[str, set[str]]:
    """file:function -> the contexts that ran a line of its body."""
    found: dict[str, set[str]] = {}
    for measured in data.measured_files():
        path = Path(measured)
        lines = data.contexts_by_lineno(measured)
        for name, body in bodies(path.read_text(encoding="utf-8")).items():
            names = {context for line in body for context in lines.get(line, ()) if context}
            if names:
                found[f"{path.relative_to(top / 'subord')}:{name}"] = names
    return found


def bodies(source: str) -> dict[str, range]:
    """The lines of the body of each function and of each method."""
    found: dict[str, range] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = _lines(node)
        elif isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {f"{node.name}.{each.name}": _lines(each) for each in methods}
    return found


def _lines(function: ast.FunctionDef) -> range:
    last = function.end_lineno
    assert last is not None
    return range(function.body[0].lineno, last + 1)
