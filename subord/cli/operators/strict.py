"""`subord operator strict`: nodes without identity are refused in the whole cluster, or taken again."""

from __future__ import annotations

import argparse
import json

from subord.client import exit_codes
from subord.client.orders import order


def run(arguments: argparse.Namespace) -> int:
    """Orders it at this node, from which it travels to all."""
    ordered = order(arguments, {"action": "strict", "to": arguments.to})
    is_on = arguments.to == "on"
    if arguments.json:
        said = {"strict": is_on, "principal": ordered["principal"]}
        print(json.dumps({"schema_version": ordered["schema_version"], **said}))
    else:
        print(f"strict mode is {arguments.to}: nodes without identity are {'refused' if is_on else 'taken'}")
    return exit_codes.OK
