"""What is async has none of the mistakes that ruff's own ASYNC rules do not know: lost goodbyes, swallowed
cancellation, nurseries left early."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PARTS = 8
LINT = """
import gc, sys
import libcst
from flake8_async import main

gc.disable()
kept, Wrapper, visit = [], libcst.MetadataWrapper, libcst.MetadataWrapper.visit

def wrapper(module, **options):
    if not kept or kept[0].module is not module:
        kept[:] = [Wrapper(module, **options)]
    return kept[0]

def visited(self, visitor):
    visit(self, visitor)
    return self.module

libcst.MetadataWrapper, Wrapper.visit = wrapper, visited
sys.exit(main())
"""
"""Without flake8 around it, whose own checks would run, too, and be ignored; and without the collection of garbage,
of which there is little. As nothing is mended, all visitors see the same module, so the places of its nodes are found
out once, and not for each of them, which takes half of the time."""
ASLEEP_IN_FINALLY = """
import trio


async def work() -> None:
    try:
        await trio.sleep(1)
    finally:
        await trio.sleep(1)
"""


def linted(files: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LINT, "--enable", "ASYNC1", "--disable", "ASYNC124", *files]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False, timeout=600)


def files_with_async() -> list[str]:
    """The check is slow, so only where something is async."""
    found = [path for folder in ("subord", "tests") for path in (TOP / folder).rglob("*.py")]
    return sorted(str(path) for path in found if "async def " in path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_known_mistake_in_what_is_async(part: int) -> None:
    files = files_with_async()[part::PARTS]
    assert len(files) > 20
    ran = linted(files)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
def test_a_mistake_is_found(tmp_path: Path) -> None:
    (tmp_path / "mistaken.py").write_text(ASLEEP_IN_FINALLY)
    ran = linted([str(tmp_path / "mistaken.py")])
    assert ran.returncode == 1
    assert "ASYNC102" in ran.stdout
