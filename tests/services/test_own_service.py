"""docs/services.md, "Your own service" and "A report in thirty lines": both are typed into a copy, and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE, REPORT_PAGE = (REPOSITORY / "docs" / "services.md").read_text().split("\n## A report in thirty lines\n")
FILE_OF = re.compile(r"Its `(\w+\.py)`[^\n]*\n\n```python\n(.*?)```", re.DOTALL)
LINE = 'NAMES: Final = ("ping", "errors", "keys", "kernel")'
REPORT_LINE = 'NAMES: Final = ("ping", "errors", "keys", "load")'
LINES_MAX = 45
TRIALS = 50  # of a command, until the first record


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The product with the service of the page: one folder, one line."""
    assert f"```python\n{LINE}\n```" in PAGE
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
    after = re.sub(r"^NAMES: Final = .*$", line, before, flags=re.MULTILINE)
    assert sum(a != b for a, b in zip(before.splitlines(), after.splitlines(), strict=True)) == 1
    registry.write_text(after)
    return tmp_path


def test_the_page_keeps_its_promise() -> None:
    for page in (PAGE, REPORT_PAGE):
        lines = [line for _, text in FILE_OF.findall(page) for line in text.splitlines() if line.strip()]
        assert len(lines) <= LINES_MAX


@pytest.mark.slow
def test_a_daemon_serves_it_and_its_command_asks_it(copy: Path, tmp_path: Path) -> None:
    socket = tmp_path / "s"
    subord = [sys.executable, "-P", "-m", "subord"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "NO_COLOR": "1"}
    settings = ('cluster.network="127.0.0.1/32"', "cluster.insecure=true", f'node.control_socket="{socket}"')
    options = [word for each in settings for word in ("--set", each)]
    daemon = subprocess.Popen([*subord, "run", *options], env=environment, stderr=subprocess.DEVNULL)
    try:
        asked = [*subord, "wait", "--state", "placed", "--socket", str(socket)]
        subprocess.run(asked, env=environment, check=True, timeout=60)
        words = [*subord, "kernel", "--socket", str(socket)]
        done = subprocess.run(
            [*words, "--json"], check=False, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert (found["asked"], found["told"], found["missing"]) == (1, 1, [])
        assert found["kernels"] == {os.uname().release: 1}
        done = subprocess.run(words, check=False, env=environment, capture_output=True, text=True, timeout=60)
        first, last = done.stdout.splitlines()
        assert first == f"{os.uname().release}: 1"
        assert last.startswith("1 of 1 answered in ")
    finally:
        daemon.terminate()
        daemon.wait(30)


@pytest.mark.slow
def test_a_daemon_publishes_the_report_and_its_command_shows_the_fold(tmp_path: Path) -> None:
    assert REPORT_LINE in REPORT_PAGE
    copy, socket = typed(tmp_path, REPORT_PAGE, "load", REPORT_LINE), tmp_path / "s"
    subord = [sys.executable, "-P", "-m", "subord"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "NO_COLOR": "1"}
    settings = ('cluster.network="127.0.0.1/32"', "cluster.insecure=true", f'node.control_socket="{socket}"')
    options = [word for each in settings for word in ("--set", each)]
    daemon = subprocess.Popen([*subord, "run", *options], env=environment, stderr=subprocess.DEVNULL)
    try:
        waits = [*subord, "wait", "--state", "placed", "--socket", str(socket)]
        subprocess.run(waits, env=environment, check=True, timeout=60)

        def shown() -> subprocess.CompletedProcess[str]:
            words = [*subord, "load", "--socket", str(socket)]
            return subprocess.run(words, check=False, env=environment, capture_output=True, text=True, timeout=60)

        done = next(found for _ in range(TRIALS) if (found := shown()).returncode == 0)
        median, busiest, last = done.stdout.splitlines()
        assert float(median.removeprefix("median ")) >= 0
        assert [position for position, _ in json.loads(busiest.removeprefix("busiest "))] == [1]
        assert re.fullmatch(r"1 of 1 reported, the oldest \d+ ms ago", last)
    finally:
        daemon.terminate()
        daemon.wait(30)
