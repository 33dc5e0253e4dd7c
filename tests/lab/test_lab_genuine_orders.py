"""What is found in the file of orders that a member has altered, repeated or made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from netlab.attack.genuine_orders import ORDERS, busy_in, wrong_in

ALL = [f"genuine {number} tag{number} {node}" for number in range(ORDERS) for node in ("a", "b")]
WHOLE = json.dumps({"missing": []})
BUSY = json.dumps({"missing": [{"cause": "busy", "addresses": ["b"]}]})


@pytest.mark.parametrize(
    ("lines", "told", "found"),
    [
        (ALL, [WHOLE], []),
        ([*ALL, "genuine 0 tag0 liar"], [WHOLE], []),
        ([*ALL, "unsigned"], [WHOLE], ["unsigned"]),
        ([*ALL, "genuine 0 tag0 a"], [WHOLE], ["genuine 0 tag0 a: 2 times"]),
        ([*ALL, "genuine 9 tag9 a"], [WHOLE], ["a: 4 of 3 orders, 4 times", WHOLE]),
        ([*ALL, "genuine 0 again b"], [BUSY, WHOLE], []),
        ([*ALL, "genuine 0 again b"], [WHOLE], ["b: 3 of 3 orders, 4 times", WHOLE]),
        ([*ALL, "genuine 0 again a"], [BUSY], ["a: 3 of 3 orders, 4 times", BUSY]),
        (ALL[:-1], [WHOLE], ["b: 2 of 3 orders, 2 times", WHOLE]),
        (ALL[:-1], [BUSY], ["b: 2 of 3 orders, 2 times", BUSY]),
    ],
)
def test_false_second_and_missing_lines_are_found(
    tmp_path: Path, lines: list[str], told: list[str], found: list[str]
) -> None:
    file = tmp_path / "executed"
    file.write_text("".join(f"{line}\n" for line in lines))
    assert wrong_in(file, ["b", "a"], told) == found


@pytest.mark.parametrize(
    ("answer", "busy"),
    [
        (json.dumps({"missing": []}), []),
        (json.dumps({"missing": [{"cause": "busy", "addresses": ["b", "c"]}]}), ["b", "c"]),
        (json.dumps({"missing": [{"cause": "silent", "addresses": ["b"]}]}), []),
        ("the daemon does not answer", []),
    ],
)
def test_only_nodes_that_are_busy_get_an_order_again(answer: str, busy: list[str]) -> None:
    assert busy_in(answer) == busy
