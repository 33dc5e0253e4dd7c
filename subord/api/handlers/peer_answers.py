"""The answers to questions of other nodes over a stream: the far end of `NodeApi.ask`.

Most questions are about this node. Those for keys and problems come from nodes of release 0.2, which do not know
orders: this node asks its branch by an order. Release 0.4 drops them, and `rotate`, of release 0.1.
"""

from __future__ import annotations

import msgspec

from subord.api.handlers import changes, keys, members, problems
from subord.api.models import nodes
from subord.api.node_api import NodeApi, Question
from subord.api.query.older_nodes import WHOLE_TREE


async def answer(node: NodeApi, question: Question) -> bytes:
    """The JSON document."""
    return msgspec.json.encode(await _document(node, question))


async def _document(node: NodeApi, question: Question) -> msgspec.Struct:  # noqa: PLR0911 - one return per topic
    words, budget_s = question.words, question.budget_s
    is_whole = words == WHOLE_TREE
    match question.topic:
        case "status":
            return members.status(node)
        case "why":
            return members.why(node)
        case "roster":
            return nodes.roster(node.settings, node.roster())
        case "members":
            return members.own(node)
        case "changes":
            return changes.of_peer(node, words[0] if words else None)
        case "keys":
            return await keys.of_branch(node, budget_s, is_whole=is_whole)
        case "problems":
            return await problems.of_branch(node, budget_s, is_whole=is_whole)
        case "rotate":  # of an older release
            return keys.refused()
