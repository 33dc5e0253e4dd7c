"""Orders of an operator while a member lies about orders: each appends a line to one file, once on each node.

Inputs are a lab, the position where the orders are given, and the file; outputs are what the answers say, and what in
the file must not be: lines of false orders, second lines, and missing lines of nodes that the liar is not above.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from netlab.attack.order_lies import GENUINE
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.lab import Lab
from subord.core.carriage.engine.causes import BUSY

ORDERS: Final = 3
ORDER_S_MAX: Final = "20"
"""An order ends when all nodes have told; a busy machine may need long for that."""
READY_S_MAX: Final = 120.0


def wait_until_obeyed(lab: Lab, at: int, addresses: Iterable[str]) -> None:
    """Until all these nodes carry out an order: some may still move after an earlier lie. Raises LabError."""
    targets = ",".join(addresses)
    command = ("subord", "exec", "-w", targets, "-n", "-q", "-t", ORDER_S_MAX, "true")
    if not wait_until(lambda: lab.run(at, *command).returncode == 0, READY_S_MAX, 0.5):
        raise LabError(f"{targets} do not all carry out an order within {READY_S_MAX:g} s.")


def give(lab: Lab, at: int, file: Path, seconds: float) -> list[str]:
    """One order after the other to all nodes; the liar repeats the earlier ones meanwhile. What each answer says of
    its coverage, as JSON, one line each."""
    told = []
    file.write_text("")
    line = f'echo "{GENUINE} $SUBORD_TAG $SUBORD_NODE" >> {file}'
    command = ("subord", "exec", "-a", "-n", "--json", "-t", ORDER_S_MAX, "--shell", line)
    for _ in range(ORDERS):
        done = lab.run(at, *command)
        told.append((done.stdout or done.stderr).strip().rpartition("\n")[-1])
        time.sleep(seconds / ORDERS)
    return told


def wrong_in(file: Path, beside: Iterable[str], told: Sequence[str]) -> list[str]:
    """What was executed and must not be, or more than once; nodes of other branches, `beside`, that did not execute
    each order, and then what the answers said. A liar can fill the places for orders of a node: an order that the
    answer names as `busy` there need not be executed, but one must be.
    """
    lines = Counter(file.read_text().splitlines())
    found = [line for line in lines if not line.startswith(f"{GENUINE} ")]
    found += [f"{line}: {times} times" for line, times in lines.items() if times > 1]
    by_node = Counter(line.split()[-1] for line in lines)
    busy = Counter(address for answer in told for address in _busy_in(answer))
    short = [
        f"{each}: {by_node[each]} of {ORDERS} orders"
        for each in sorted(beside)
        if not max(1, ORDERS - busy[each]) <= by_node[each] <= ORDERS
    ]
    return found + short + (list(told) if short else [])


def _busy_in(answer: str) -> list[str]:
    """The addresses that an answer names as busy; none if it is no answer, but an error."""
    with suppress(ValueError):
        missing = json.loads(answer)["missing"]
        return [address for each in missing if each["cause"] == BUSY for address in each["addresses"]]
    return []
