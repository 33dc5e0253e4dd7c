"""What is found in the file of orders that a member has altered, repeated or made."""

from __future__ import annotations

from pathlib import Path

import pytest
from netlab.attack.genuine_orders import ORDERS, wrong_in

ALL = [f"genuine {tag} {node}" for tag in range(ORDERS) for node in ("a", "b")]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (ALL, []),
        ([*ALL, "genuine 0 liar"], []),
        ([*ALL, "unsigned"], ["unsigned"]),
        ([*ALL, "genuine 0 a"], ["genuine 0 a: 2 times"]),
        ([*ALL, "genuine 9 a"], ["a: 4 of 3 orders", "told"]),
        (ALL[:-1], ["b: 2 of 3 orders", "told"]),
    ],
)
def test_false_second_and_missing_lines_are_found(tmp_path: Path, lines: list[str], found: list[str]) -> None:
    file = tmp_path / "executed"
    file.write_text("".join(f"{line}\n" for line in lines))
    assert wrong_in(file, ["b", "a"], ["told"]) == found
