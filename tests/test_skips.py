"""The summary of skipped tests at the end of a test run (tests/helpers/skips.py)."""

from __future__ import annotations

import re
from pathlib import Path

import disks
import pytest
import skips
from loops import over

TESTS = Path(__file__).parent


@over(
    ("reason", "packages"),
    [
        ("no chromium here: apt-get install chromium chromium-driver", ("chromium", "chromium-driver")),
        ("`nft` is not installed: on Debian `apt-get install nftables`.", ("nftables",)),
        ("promtool is not installed (Debian: apt-get install prometheus)", ("prometheus",)),
        ("no compiler: apt-get install g++ libc6.1-dev.", ("g++", "libc6.1-dev")),
        ("root may read everything", ()),
    ],
)
def test_packages_that_a_reason_names(reason: str, packages: tuple[str, ...]) -> None:
    assert skips.packages(reason) == packages


def test_one_command_installs_all() -> None:
    reasons = ["no zsh: apt-get install zsh", "no a: apt-get install zsh fish", "no zsh: apt-get install zsh", "root"]
    assert list(skips.summary(reasons)) == [
        "     2 need zsh",
        "     1 need fish zsh",
        "     1 root",
        "To run the tests that need packages: apt-get install fish zsh",
    ]


def test_ci_owes_packages_and_rights() -> None:
    assert skips.demand("no zsh: apt-get install zsh") == "CI must install it"
    assert skips.demand("root may read everything") == ""
    assert skips.demand(f"{skips.RIGHTS}: unshare: Operation not permitted").startswith("CI must run as root")


def test_a_test_of_disks_that_cannot_mount_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "_in_child", lambda _: (disks.NOT_HERE, "unshare: Operation not permitted"))

    def test() -> None:
        """It would need a disk."""

    with pytest.raises(pytest.skip.Exception) as skipped:
        disks.apart(test)()
    assert skips.demand(str(skipped.value))


def test_nothing_skipped_says_nothing() -> None:
    assert list(skips.summary([])) == []


def test_no_reason_names_packages_in_another_form() -> None:
    """Such a package would be missing in the command, and CI would skip its tests."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in TESTS.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\(Debian: (?!apt-get install )", line) and path != Path(__file__)
    ]
    assert found == []
