"""The first page's five minutes, typed as they stand there, with real daemons."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .lab_helpers import REPOSITORY, wait_until

PAGE = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Try it in the lab\n")[2].partition("\n## ")[0]
TYPED = [block for block in re.findall(r"^```sh\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE) if "lab " in block]
SHOWN = re.findall(r"^```text\n\$ (.*?)\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)


@pytest.fixture
def typed():
    """Types a block of the page, and returns what it prints. Its labs live in a directory of their own."""
    base = tempfile.mkdtemp(prefix="lab")  # short, for the sockets in it
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "TMPDIR": base, "XDG_RUNTIME_DIR": ""}

    def type_it(block):
        done = subprocess.run(
            ["bash", "-e", "-c", block],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{block}{done.stdout}{done.stderr}"
        return done.stdout

    yield type_it
    subprocess.run(["netns-lab/lab", "down"], cwd=REPOSITORY, env=environment, capture_output=True, check=False)
    shutil.rmtree(base)


def alternates(typed, position):
    """Where this node goes when its leader dies, best first."""
    return json.loads(typed(f"netns-lab/lab exec {position} -- subord status --json"))["alternates"]


@pytest.mark.lab
def test_the_first_five_minutes(typed):
    raised, healed, asked, returned = TYPED
    (_, tree), (_, tree_healed), (why, reasons) = SHOWN
    assert typed(raised).endswith(tree)
    for orphan in (4, 5):  # a node that has just started has not heard yet where to go; typing is slower
        wait_until(lambda orphan=orphan: alternates(typed, orphan)[:1] == ["10.0.0.3"], "it knows where to go")
    assert typed(healed).endswith(tree_healed)
    assert why == "subord why 10.0.0.4"
    assert typed(asked).splitlines()[:2] == reasons.splitlines()[:2]
    assert tree in typed(returned)
