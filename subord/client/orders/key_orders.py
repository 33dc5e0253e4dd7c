"""Gives orders of a service that the agent of a node signs with the key of its configuration, through its daemon.

Inputs are an order and the path of the daemon's socket; output is the document of the daemon. One signed order is
given again until it is over or its time is, because an answer of the daemon has less time than an order may take;
each node carries it out once. All functions block.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from subord.client.daemon import DAEMON_GRACE_S, Document, change
from subord.client.orders.service_order import signed_order
from subord.core.carriage.engine.causes import BUSY, EXPIRED

ANSWER_S_MAX: Final = 8.0
"""Of one request; the daemon waits no longer for an order."""
PAUSE_S: Final = 0.5
AGAIN: Final = frozenset((EXPIRED, BUSY))
"""Causes of a node that may still answer the same order."""


class KeyOrder(NamedTuple):
    """`key`: the file of the private key. `user`: in the place of a user of the node. `positions`: of the targets,
    such as 1-3,7."""

    service: str
    key: str
    user: str
    payload: bytes
    positions: str


def given(order: KeyOrder, socket: str, time_s: float, is_over: Callable[[Document], bool]) -> Document:
    """The last answer of the daemon. Raises CommandError."""
    arguments = Namespace(
        socket=socket, timeout=ANSWER_S_MAX, operator_key=order.key, user=order.user, receipts=False
    )
    until = time.monotonic() + time_s
    path = f"/v1/{order.service}"
    signing_path = f"{path}/cluster"
    body = signed_order(arguments, order.service, order.payload, order.positions, time_s, signing_path=signing_path)
    while True:
        budget_s = max(PAUSE_S, min(ANSWER_S_MAX, until - time.monotonic()))
        found = change(socket, f"{path}?budget={budget_s:.3f}", budget_s + DAEMON_GRACE_S, body=body)
        if is_over(found) or time.monotonic() + PAUSE_S >= until:
            return found
        time.sleep(PAUSE_S)


def may_answer(found: Document) -> bool:
    """Whether a node that is missing may still answer the same order."""
    return any(each["cause"] in AGAIN for each in found["missing"])


def key_fault(setting: str, key: str, what: str) -> str:
    """Why a private key cannot sign, with what to do; "": nothing speaks against it. `what`: that it signs."""
    if not key:
        return f"{setting} is empty: name the key that signs {what}"
    try:
        with Path(key).open("rb"):
            mode = Path(key).stat().st_mode
    except OSError as error:
        return f"{setting} {key} cannot be read ({error.strerror or error}): make the key, or correct {setting}"
    return f"{setting} {key} can be read by other users: chmod 600 it" if mode & 0o077 else ""
