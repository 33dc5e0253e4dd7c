"""Asks an added node for a step, through the daemon of the queue's node, with the key of its configuration.

Inputs are a step, the address of a node, and the context of the agent; output is a Result, or the text why there is
none. All functions block. Invariant: nothing is raised for what the daemon or a node does.
"""

from __future__ import annotations

from typing import Final

from subord.client.daemon import Document
from subord.client.errors import CommandError
from subord.client.orders import key_orders
from subord.client.orders.key_orders import KeyOrder
from subord.core.carriage.engine.causes import DENIED
from subord.services.acting import Context
from subord.services.elastic.task import USER, Result, Task, encode

SERVICE: Final = "elastic"
POLICY_HINT: Final = f'services = ["{SERVICE}"], users = ["{USER}"] there'


def step(task: Task, address: str, context: Context, time_s: float) -> Result | str:
    """What the node at an address says of a step; the text: why it has not answered within `time_s`."""
    position = None if context.network is None else context.network.position_of(address)
    if position is None:
        return f"{address} is no address of the cluster's network; no order was given: correct what starts nodes"
    if fault := key_fault(context.elastic.key):
        return f"{fault}; no order was given"
    order = KeyOrder(SERVICE, context.elastic.key, USER, encode(task), f"{position}-{position}")
    try:
        return _said(key_orders.given(order, context.socket, time_s, lambda found: not _may_answer(found)), address)
    except CommandError as error:
        return str(error)


def key_fault(key: str) -> str:
    """Why a private key cannot sign, with what to do; "": nothing speaks against it."""
    return key_orders.key_fault("elastic.key", key, "orders to added nodes")


def _may_answer(found: Document) -> bool:
    return not found["steps"] and key_orders.may_answer(found)


def _said(found: Document, address: str) -> Result | str:
    for each in found["steps"]:
        return Result(each["fault"], each["changed"], each["slots"])
    for each in found["missing"]:
        hint = f"; allow the operator of elastic.key {POLICY_HINT}" if each["cause"] == DENIED else ""
        return f"{address} {each['cause']}: {each['text']}{hint}"
    return f"the answer of {address} cannot be read: it runs another release; install the same release on all nodes"
