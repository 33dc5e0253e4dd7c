"""Finding a node that knows the whole tree.

Input: this node's path and roster. Output: the root's roster, or the largest one that could be had. The search asks
the root first, then the nodes that answers name, then the path from below.
"""

from __future__ import annotations

from subord.api.models import nodes
from subord.api.models.members import RosterDocument
from subord.api.node_api import NodeApi
from subord.api.query.peer import ASK_S_MAX, TreeReport, Walk

HOPS_MAX = 16
"""Nodes that are asked before the search ends."""
NAMED_MAX = 4
"""Nodes that a note names of those that the root does not list."""
ASK_SHARE = 0.45
"""One node gets this share of the time that is left, while there is another one to ask."""


async def find_roster(node: NodeApi) -> TreeReport[RosterDocument]:
    """The root's roster, or the largest one that could be had. Takes at most `ASK_S_MAX`."""
    own = best = nodes.roster(node.settings, node.roster())
    walk = Walk(node, own.root, ASK_S_MAX)
    waiting = [*nodes.path(node), *_above(own)]  # the last one is asked first
    asked = {own.owner}
    while waiting and not best.is_root and len(asked) <= HOPS_MAX:
        address = waiting.pop()
        if address in asked:
            continue
        asked.add(address)
        share = 1.0 if asked.issuperset(waiting) else ASK_SHARE
        answer = await walk.ask(address, "roster", RosterDocument, share)
        if answer is None:
            continue
        if answer.is_root or len(answer.rows) >= len(best.rows):
            best = answer
        waiting += _above(answer)
    if best.is_root:
        return _of_root(best, own.owner)
    return TreeReport(best, best.owner, f"{_why_not_root(own, walk)}: this is what {best.owner} knows")


def _why_not_root(own: RosterDocument, walk: Walk) -> str:
    if own.root is None or own.root == own.owner:
        return f"{own.owner} knows no root just now"
    if own.root in walk.failures:
        return walk.failures[own.root].reason
    return f"no node above {own.owner} says that it is the root (it was {own.root})"


def _of_root(roster: RosterDocument, asker: str) -> TreeReport[RosterDocument]:
    """All that the root lists. `asker` stands in its tree, and other nodes may have told the root that they do."""
    unlisted = dict.fromkeys(roster.unlisted)
    if all(row.address != asker for row in roster.rows):
        unlisted[asker] = None
    if not unlisted:
        return TreeReport(roster, roster.owner, None)
    named = ", ".join(list(unlisted)[:NAMED_MAX]) + (" and others" if len(unlisted) > NAMED_MAX else "")
    note = f"{roster.owner} (root) does not list {named}: a leader above does not report it"
    return TreeReport(roster, roster.owner, note)


def _above(roster: RosterDocument) -> list[str]:
    """The owner's leader and root; the root comes last, because it is asked first."""
    return [address for address in (roster.leader, roster.root) if address is not None]
