"""What is found in the file of orders that a member has altered, repeated or made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from netlab.attack.genuine_orders import ORDERS, wrong_in

ALL = [f"genuine {tag} {node}" for tag in range(ORDERS) for node in ("a", "b")]
WHOLE = json.dumps({"missing": []})
BUSY = json.dumps({"missing": [{"cause": "busy", "addresses": ["b"]}]})
SILENT = json.dumps({"missing": [{"cause": "silent", "addresses": ["b"]}]})


@pytest.mark.parametrize(
    ("lines", "told", "found"),
    [
        (ALL, [WHOLE], []),
        ([*ALL, "genuine 0 liar"], [WHOLE], []),
        ([*ALL, "unsigned"], [WHOLE], ["unsigned"]),
        ([*ALL, "genuine 0 a"], [WHOLE], ["genuine 0 a: 2 times"]),
        ([*ALL, "genuine 9 a"], [WHOLE], ["a: 4 of 3 orders", WHOLE]),
        (ALL[:-1], [WHOLE], ["b: 2 of 3 orders", WHOLE]),
        (ALL[:-1], [SILENT], ["b: 2 of 3 orders", SILENT]),
        (ALL[:-1], ["no daemon"], ["b: 2 of 3 orders", "no daemon"]),
        (ALL[:-1], [BUSY], []),
        (ALL, [BUSY], []),
        (ALL[::2], [BUSY] * ORDERS, ["b: 0 of 3 orders", *[BUSY] * ORDERS]),
    ],
)
def test_false_second_and_missing_lines_are_found(
    tmp_path: Path, lines: list[str], told: list[str], found: list[str]
) -> None:
    file = tmp_path / "executed"
    file.write_text("".join(f"{line}\n" for line in lines))
    assert wrong_in(file, ["b", "a"], told) == found
