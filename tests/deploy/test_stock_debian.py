"""README's commands on a stock Debian with only the packages that README names, and the Python of that Debian.

Debian 12 has the oldest supported Python, Debian 13 a newer one. The clone has the committed tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from clean_machine import make_root, obstacle, overlaid
from stock_root import StockRoot, readme

pytestmark = pytest.mark.lab
PACKAGES, (DEMO, TEST) = readme()
HARD_TO_QUOTE = "Büro 2"
"""A space and a letter that is not ASCII, as in a person's name."""
SYSTEM_PYTHON = {"bookworm": "3.11", "trixie": "3.13"}

Make = Callable[[str, str], StockRoot]


@pytest.fixture(scope="module")
def stock() -> Iterator[Make]:
    """Makes a root of a release, in which a user types. Roots of one release begin as copies of one."""
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="subord-stock-")))
        folder.chmod(0o755)  # users without rights pass through

        def make(release: str, user: str) -> StockRoot:
            base = folder / release
            if not base.exists():
                make_root(base, PACKAGES, release)
            return StockRoot(stack.enter_context(overlaid(base, folder / f"{release}-{user}")), user)

        yield make


def test_the_two_commands() -> None:
    assert (DEMO, TEST) == ("./dev demo", "./dev test")
    assert {"python3", "python3-venv"} <= set(PACKAGES)


@pytest.mark.parametrize(
    ("release", "user", "folder"),
    [
        ("bookworm", "visitor", HARD_TO_QUOTE),
        pytest.param("bookworm", "root", "src", marks=pytest.mark.long),
        pytest.param("trixie", "root", "src", marks=pytest.mark.long),
    ],
)
def test_the_commands_of_readme(stock: Make, release: str, user: str, folder: str) -> None:
    """The whole demo; with the oldest Python also the first tier of the tests, without rights a part of it."""
    root = stock(release, user)
    clone = root.clone(folder)
    demo = root.typed(DEMO, clone)
    assert demo.returncode == 0, demo.stdout[-3000:]
    assert f"making .venv with Python {SYSTEM_PYTHON[release]}." in demo.stdout
    assert re.search(r"30 nodes, depth 3, all at home, root 10\.0\.0\.1\n", demo.stdout)
    assert "All of it is gone again." in demo.stdout
    installed = set(root.typed("ls .venv/bin", clone).stdout.split())
    assert "subord" in installed
    assert installed.isdisjoint({"mkdocs", "ansible", "mypy", "pytest", "ruff"})
    if release == "bookworm":
        some = " -n 2 --dist loadgroup tests/cli tests/sealing" if user == "visitor" else ""
        tests = root.typed(f"{TEST} --quick{some}", clone)
        assert tests.returncode == 0, tests.stdout[-3000:]
        assert re.search(r" \d{3,4} passed", tests.stdout.splitlines()[-1])
