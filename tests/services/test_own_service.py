"""docs/services.md, "Your own service in thirty lines": its files and its line are typed into a copy, and run."""

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
PAGE = (REPOSITORY / "docs" / "services.md").read_text()
FILE_OF = re.compile(r"Its `(\w+\.py)`[^\n]*\n\n```python\n(.*?)```", re.DOTALL)
LINE = 'NAMES: Final = ("ping", "errors", "keys", "kernel")'
LINES_MAX = 45


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The product with the service of the page: one folder, one line."""
    shutil.copytree(REPOSITORY / "subord", tmp_path / "subord", ignore=shutil.ignore_patterns("__pycache__"))
    files = FILE_OF.findall(PAGE)
    folder = tmp_path / "subord" / "services" / "kernel"
    assert [name for name, _ in files] == ["__init__.py", "core.py", "command.py"]
    for name, text in files:
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    registry = tmp_path / "subord" / "services" / "__init__.py"
    before = registry.read_text()
    assert f"```python\n{LINE}\n```" in PAGE
    after = re.sub(r"^NAMES: Final = .*$", LINE, before, flags=re.MULTILINE)
    assert sum(a != b for a, b in zip(before.splitlines(), after.splitlines(), strict=True)) == 1
    registry.write_text(after)
    return tmp_path


def test_the_page_keeps_its_promise() -> None:
    lines = [line for _, text in FILE_OF.findall(PAGE) for line in text.splitlines() if line.strip()]
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
