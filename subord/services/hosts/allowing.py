"""Which names a table may give on a node that holds a plan of elastic growth.

Inputs are a table, and the plan that an operator has signed; output is a sentence without a full stop, "" if nothing
speaks against the table. A key that was stolen from the queue's node can so give no other name, such as that of a
file server or a mirror, an address. Where Slurm decides, nodes have the names of its configuration, which a plan does
not say, so nothing is limited. The table that the node has accepted already is not judged again: another plan may
count since. Of the plan only the fields of _Growth are read (services/elastic/plan.py has all), so those of later
releases count as well. All functions block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from subord.core.address.network import Network
from subord.core.decoding import UNREADABLE
from subord.services.acting import Context, Handed
from subord.services.batch.naming import number_of
from subord.services.hosts.table import Entry, Table
from subord.services.newest import held

PLANS: Final = "elastic"
"""The folder of the plan (services/elastic/agent.py)."""
SLURM: Final = "slurm"


class _Options(msgspec.Struct, frozen=True):
    decides: str = ""


class _Growth(msgspec.Struct, frozen=True):
    """`manager`: the position of the queue's node; 0: the plan is off, and does not say it."""

    manager: int
    prefix: str
    options: _Options | None = None
    former: tuple[str, ...] = ()


_growth = msgspec.json.Decoder(_Growth)


def not_allowed(handed: Handed, table: Table, context: Context, folder: str) -> str:
    """By the plan that this node holds. `folder`: of tables. Raises NotKeptError."""
    before = held(context.directory, folder, handed.cluster, handed.is_revoked)
    if before is not None and before.order == handed.document.order:
        return ""
    found = held(context.directory, PLANS, handed.cluster, handed.is_revoked)
    return "" if found is None else fault_of(table, found.body, context.network)


def fault_of(table: Table, body: bytes, network: Network | None) -> str:
    """By the body of a plan. Pure."""
    try:
        plan = _growth.decode(body)
    except UNREADABLE:
        return ""
    if plan.options is not None and plan.options.decides == SLURM:
        return ""
    others = [each for each in table.entries if not _is_numbered(each.name, (plan.prefix, *plan.former))]
    wrong = others[1:]  # the queue's node has the one name that has no number
    if plan.manager and network is not None:
        wrong = [each for each in others if network.position_of(each.address) != plan.manager] or wrong
    return _sentence(wrong[0], plan.prefix) if wrong else ""


def _sentence(wrong: Entry, prefix: str) -> str:
    return (
        f"the table gives {wrong.name} the address {wrong.address}, and by the plan of the operator it has names "
        f"such as {prefix}001, and one of the queue's node; see which nodes hold the key of the table"
    )


def _is_numbered(name: str, prefixes: Iterable[str]) -> bool:
    return "." not in name and any(number_of(each, name) is not None for each in prefixes)
