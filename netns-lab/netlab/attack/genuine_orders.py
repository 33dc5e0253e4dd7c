"""Orders of an operator while a member lies about orders: each appends a line to one file, once on each node.

Inputs are a lab, the position where the orders are given, and the file; outputs are what the answers say, and what in
the file must not be: lines of false orders, second lines, and missing lines of nodes that the liar is not above. A
member that repeats orders can fill the places for orders of a node. The answer names this node as busy, and the order
is given to it again, as an operator does.
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
TIMES_MAX: Final = 10
"""An order is given, to nodes that are busy."""


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
    for number in range(ORDERS):
        line = f'echo "{GENUINE} {number} $SUBORD_TAG $SUBORD_NODE" >> {file}'
        targets: tuple[str, ...] = ("-a",)
        for _ in range(TIMES_MAX):
            command = ("subord", "exec", *targets, "-n", "--json", "-t", ORDER_S_MAX, "--shell", line)
            done = lab.run(at, *command)
            told.append((done.stdout or done.stderr).strip().rpartition("\n")[-1])
            busy = busy_in(told[-1])
            if not busy:
                break
            targets = ("-w", ",".join(busy))
        time.sleep(seconds / ORDERS)
    return told


def wrong_in(file: Path, beside: Iterable[str], told: Sequence[str]) -> list[str]:
    """What was executed and must not be, or more than once; nodes of other branches, `beside`, that did not execute
    them all, or more than they were given, and then what the answers said.

    A node that an answer names as busy may still get that order by a copy of the liar, which is genuine. So each
    order is executed once by its tag, and as often besides as it was given again.
    """
    lines = Counter(file.read_text().splitlines())
    genuine = [line.split() for line in lines if line.startswith(f"{GENUINE} ")]
    found = [line for line in lines if not line.startswith(f"{GENUINE} ")]
    found += [f"{line}: {times} times" for line, times in lines.items() if times > 1]
    executed = Counter(words[-1] for words in genuine)
    numbers = Counter(node for node, _ in {(words[-1], words[1]) for words in genuine})
    again = Counter(address for answer in told for address in busy_in(answer))
    wrong = [
        f"{each}: {numbers[each]} of {ORDERS} orders, {executed[each]} times"
        for each in sorted(beside)
        if numbers[each] != ORDERS or executed[each] > ORDERS + again[each]
    ]
    return found + wrong + (list(told) if wrong else [])


def busy_in(answer: str) -> list[str]:
    """The addresses that an answer names as busy; none if it is no answer, but an error."""
    with suppress(ValueError):
        missing = json.loads(answer)["missing"]
        return [address for each in missing if each["cause"] == BUSY for address in each["addresses"]]
    return []
