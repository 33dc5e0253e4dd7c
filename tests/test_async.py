"""What is async has none of the mistakes that ruff's own ASYNC rules do not know: lost goodbyes, swallowed
cancellation, nurseries left early."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PARTS = 8
LINT = TOP / "tests" / "helpers" / "async_lint.py"
ASLEEP_IN_FINALLY = """
import trio


async def work() -> None:
    try:
        await trio.sleep(1)
    finally:
        await trio.sleep(1)
"""

MISTAKEN = """
import time
from contextlib import asynccontextmanager

import trio
import trio as t


class Worker:
    async def loops(self, event: trio.Event) -> None:
        while not event.is_set():
            await trio.sleep(1)
        with trio.move_on_after(1):
            print("nothing to wait for")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.swallows)
            return

    async def swallows(self) -> None:
        for each in range(3):
            try:
                await t.lowlevel.checkpoint() if each else time.sleep(1)
            except BaseException:
                pass
            try:
                await self.swallows()
            except trio.Cancelled:
                await trio.sleep(1)
                if each:
                    raise
        else:
            trio.sleep(1)

    async def fails(self, timeout: float) -> int:  # noqa: ASYNC109
        with trio.CancelScope(), trio.fail_after(timeout):
            return 1 if [each async for each in self.yields()] else await self.fails(2)


@asynccontextmanager
async def opened():
    with trio.CancelScope():
        yield 1
    async with trio.open_nursery() as nursery:
        yield 2
    match nursery:
        case None if await opened():
            pass
        case _:
            trio.lowlevel.checkpoint()


async def waits() -> None:
    while True:
        if await trio.sleep(1) or trio.sleep(2):
            continue
        break
    sync = lambda: trio.sleep(1)


async def yields():
    if waits:
        with trio.CancelScope():
            yield 1
    while waits:
        yield 2


async def idles() -> None:
    pass
"""
"""With some more, for all checks together."""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False, timeout=600)


def linted(files: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return run(str(LINT), "--enable", "ASYNC1", "--disable", "ASYNC124", *files)


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


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--disable-noqa",)])
def test_the_short_way_finds_all_that_flake8_async_finds(tmp_path: Path, more: Sequence[str]) -> None:
    (tmp_path / "mistaken.py").write_text(MISTAKEN)
    words = ("--enable", "ASYNC", "--disable", "ASYNC999", *more, str(tmp_path / "mistaken.py"))
    short, whole = run(str(LINT), *words), run("-m", "flake8_async", *words)
    assert len(set(re.findall(r"ASYNC\d{3}", whole.stdout))) >= 11, whole.stdout
    assert (short.stdout, short.stderr, short.returncode) == (whole.stdout, whole.stderr, 1)
