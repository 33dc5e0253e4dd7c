"""docs/services.md, "Your own service" and "A report in thirty lines": both are typed into a copy, and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from subord.services import NAMES

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE, REPORT_PAGE = (REPOSITORY / "docs" / "services.md").read_text().split("\n## A report in thirty lines\n")
FILE_OF = re.compile(r"Its `(\w+\.py)`[^\n]*\n\n```python\n(.*?)```", re.DOTALL)
LINE, REPORT_LINE = '"kernel",', '"load",'
LINES_MAX = 45
TRIALS = 50  # of a command, until the first record


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The product with the service of the page: one folder, one line."""
    assert f"```text\n    {LINE}\n```" in PAGE
    return typed(tmp_path, PAGE, "kernel", LINE)


def typed(tmp_path: Path, page: str, name: str, line: str) -> Path:
    """A copy of the product with the files of a page."""
    shutil.copytree(REPOSITORY / "subord", tmp_path / "subord", ignore=shutil.ignore_patterns("__pycache__"))
    files = FILE_OF.findall(page)
    folder = tmp_path / "subord" / "services" / name
    assert [file for file, _ in files] == ["__init__.py", "core.py", "command.py"]
    for file, text in files:
        folder.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    registry = tmp_path / "subord" / "services" / "__init__.py"
    before = registry.read_text()
    last = f'    "{NAMES[-1]}",\n'
    assert before.count(last) == 1
    after = before.replace(last, f"{last}    {line}\n")
    registry.write_text(after)
    return tmp_path


def test_the_page_keeps_its_promise() -> None:
    for page in (PAGE, REPORT_PAGE):
        lines = [line for _, text in FILE_OF.findall(page) for line in text.splitlines() if line.strip()]
        assert len(lines) <= LINES_MAX


@contextmanager
def daemon_of(copy: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """A daemon of the copy that has its place; a command of the copy that asks it."""
    subord = [sys.executable, "-P", "-m", "subord"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "NO_COLOR": "1"}
    at = f"{tmp_path}/s"
    settings = ('cluster.network="127.0.0.1/32"', "cluster.insecure=true", f'node.control_socket="{at}"')

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        told = [*subord, *words, "--socket", at]
        return subprocess.run(told, check=False, env=environment, capture_output=True, text=True, timeout=60)

    options = [word for each in settings for word in ("--set", each)]
    daemon = subprocess.Popen([*subord, "run", *options], env=environment, stderr=subprocess.DEVNULL)
    try:
        assert command("wait", "--state", "placed").returncode == 0
        yield command
    finally:
        daemon.terminate()
        daemon.wait(30)


@pytest.mark.slow
def test_a_daemon_serves_it_and_its_command_asks_it(copy: Path, tmp_path: Path) -> None:
    with daemon_of(copy, tmp_path) as command:
        done = command("kernel", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert (found["asked"], found["told"], found["missing"]) == (1, 1, [])
        assert found["kernels"] == {os.uname().release: 1}
        first, last = command("kernel").stdout.splitlines()
        assert first == f"{os.uname().release}: 1"
        assert last.startswith("1 of 1 answered in ")


@pytest.mark.slow
def test_a_daemon_publishes_the_report_and_its_command_shows_the_fold(tmp_path: Path) -> None:
    assert f"Add the line `{REPORT_LINE}`" in REPORT_PAGE
    copy = typed(tmp_path, REPORT_PAGE, "load", REPORT_LINE)
    with daemon_of(copy, tmp_path) as command:
        done = next(found for _ in range(TRIALS) if (found := command("load")).returncode == 0)
        median, busiest, last = done.stdout.splitlines()
        assert float(median.removeprefix("median ")) >= 0
        assert [position for position, _ in json.loads(busiest.removeprefix("busiest "))] == [1]
        assert re.fullmatch(r"1 of 1 reported, the oldest \d+ ms ago", last)
