"""How an agent publishes a table of hosts, and finds out whether nodes have applied it, through its daemon.

Inputs are a table, the context of the agent, and a key; output is a fault, in which stands what was left unchanged,
or "". The order is signed with the key by ssh-keygen, as by commands (client/orders). All functions block. Invariant:
a table that the daemon holds already is not published again.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from subord.client.daemon import DAEMON_GRACE_S, Document, ask
from subord.client.errors import CommandError
from subord.client.orders import order
from subord.client.text import count as counted
from subord.core.carriage.documents import HOSTS
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime.hosts.state import APPLIED, OFF, mark_of
from subord.services.acting import Context
from subord.services.hosts.table import Table, TableError, encode, outside

PUBLISH: Final = {"action": "publish", "name": HOSTS}
NO_KEY: Final = "elastic.key is empty: name the key that signs hosts tables; nothing was published"
AT_ONCE_MAX: Final = 500
"""Nodes of one question: their positions stand in its first line."""
ASK_S: Final = 5.0


def publish(table: Table, context: Context, key: str) -> str:
    """Give all nodes a table; why it was not given, "": it counts. `key`: the file of a private key."""
    if not key:
        return NO_KEY
    if not os.path.exists(key):
        return f"elastic.key: there is no file {key}; nothing was published"
    if context.network is not None and (others := outside(table, context.network)):
        text = f"{others[0].address} of {others[0].name} is no address of the cluster's network"
        return f"{text}: correct what starts nodes; nothing was published"
    try:
        body = encode(table)
        if _held(context)["mark"] != mark_of(body):
            order(Namespace(socket=context.socket, timeout=ASK_S, operator_key=key), PUBLISH, body)
    except TableError as error:
        return f"{error}; nothing was published"
    except CommandError as error:
        return str(error)
    return ""


def unapplied(table: Table, addresses: Iterable[str], context: Context) -> str:
    """Which of the nodes with these addresses have not applied a table, and why; "": all have."""
    try:
        mark = mark_of(encode(table))
        positions = _positions(addresses, context)
        faults = [each for some in _portions(positions) for each in _faults(_asked(some, context), mark)]
    except TableError as error:
        return str(error)
    except CommandError as error:
        return f"the nodes could not be asked: {error}"
    return "; ".join(faults[:3])


def _held(context: Context) -> Document:
    """The table that the daemon holds. Raises CommandError."""
    return ask(context.socket, "/v1/hosts/table", ASK_S, gives_up_s=0)


def _asked(positions: Ranges, context: Context) -> Document:
    """Raises CommandError."""
    nodes = ",".join(f"{first}-{last}" for first, last in positions.pairs)
    return ask(context.socket, f"/v1/hosts?budget={ASK_S:g}&nodes={nodes}", ASK_S + DAEMON_GRACE_S, gives_up_s=0)


def _positions(addresses: Iterable[str], context: Context) -> Iterator[int]:
    """Raises TableError."""
    for each in addresses:
        position = None if context.network is None else context.network.position_of(each)
        if position is None:
            raise TableError(f"{each} is no address of the cluster's network: correct what starts nodes")
        yield position


def _portions(positions: Iterable[int]) -> Iterator[Ranges]:
    rest = iter(sorted({*positions}))
    while some := list(islice(rest, AT_ONCE_MAX)):
        yield Ranges.of(some)


def _faults(found: Document, mark: str) -> Iterator[str]:
    """`10.0.0.7: refused: ...`. A node whose configuration says that it follows no table has its names elsewhere."""
    for each in found["states"]:
        is_other = each["mark"] != mark
        if each["state"] != OFF and (is_other or each["state"] != APPLIED):
            why = f"it has version {each['version']} of the table" if is_other else each["detail"] or each["text"]
            yield f"{_some(each['addresses'], each['nodes'])}: {each['state']}: {why}"
    for each in found["missing"]:
        yield f"{_some(each['addresses'], each['count'])}: {each['cause']}: {each['text']}"
    if found["unread"]:
        yield f"the answers of {counted(found['unread'], 'node')} cannot be read: they are of another release"


def _some(addresses: list[str], count: int) -> str:
    first = addresses[0] if addresses else "a node"
    return first if count == 1 else f"{first} and {count - 1} more"
