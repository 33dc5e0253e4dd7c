"""`subord operator sign --dry-run`: whether this node would take an order of the operator's key, for each power."""

from __future__ import annotations

import argparse
import json

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.orders import order
from subord.client.text import columns, printable
from subord.core.carriage.verdicts import POWERS


def run(arguments: argparse.Namespace) -> int:
    """Prints the verdicts; NOT_REACHED: the node refuses one of them."""
    verdicts = []
    for power in dict.fromkeys(arguments.power or POWERS):
        ordered = order(arguments, {"action": "test", "power": power})
        verdicts += [each for answer in ordered["judged"] for each in answer["orders"]]
    is_accepted = not any(each["word"] for each in verdicts)
    if arguments.json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "accepted": is_accepted, "orders": verdicts}))
    else:
        rows = [
            [each["power"], f"refused, {each['word']}: {each['sentence']}" if each["word"] else _accepted(each)]
            for each in verdicts
        ]
        print("\n".join(columns([[printable(cell) for cell in row] for row in rows])))
    return exit_codes.OK if is_accepted else exit_codes.NOT_REACHED


def _accepted(verdict: dict[str, str]) -> str:
    return f"accepted as {verdict['principal']}, key {verdict['fingerprint']}"
