"""The answers to questions of other nodes over a stream: the far end of `NodeApi.ask`.

Some questions are about this node; others are about its subtree, and this node asks its subordinates first.
"""

from __future__ import annotations

import msgspec

from subord.api.handlers import changes, keys, members, problems
from subord.api.models import nodes
from subord.api.node_api import NodeApi, Question
from subord.api.query import aggregate


async def answer(node: NodeApi, question: Question) -> bytes:
    """The JSON document."""
    return msgspec.json.encode(await _document(node, question))


async def _document(node: NodeApi, question: Question) -> msgspec.Struct:  # noqa: PLR0911 - one return per topic
    words, budget_s = question.words, question.budget_s
    is_whole = words == aggregate.WHOLE_TREE
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
            return await (keys.all_keys if is_whole else keys.coverage)(node, budget_s)
        case "problems":
            return await (problems.of_tree if is_whole else problems.of_subtree)(node, budget_s)
        case "rotate":  # of an older release
            return keys.refused()
