"""The answers to questions of other nodes over a stream: the far end of `NodeApi.ask`.

Some questions are about this node; others are about its subtree, and this node asks its subordinates first.
"""

from __future__ import annotations

import msgspec

from subord.api.handlers import changes, keys, members, problems
from subord.api.models import nodes
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.api.query import aggregate


async def answer(node: NodeApi, question: Question) -> bytes:
    """The JSON document."""
    return msgspec.json.encode(await _document(node, question))


async def _document(node: NodeApi, question: Question) -> msgspec.Struct:
    document: msgspec.Struct
    match question.topic:
        case "status":
            document = nodes.status(node)
        case "why":
            document = nodes.why(node.settings, node.why())
        case "roster":
            document = nodes.roster(node.settings, node.roster())
        case "members":
            document = members.own(node)
        case "changes":
            document = changes.own(node, question.words[0] if question.words else None)
        case "keys":
            ask = keys.all_keys if question.words == aggregate.WHOLE_TREE else keys.coverage
            document = await ask(node, question.budget_s)
        case "problems":
            look = problems.of_tree if question.words == aggregate.WHOLE_TREE else problems.of_subtree
            document = await look(node, question.budget_s)
        case "rotate":
            document = await keys.rotate(node, question.words, question.budget_s)
    return document


async def of_root(node: NodeApi, question: Question) -> bytes | AskFailure:
    """The answer of the root of this tree, which may be this node. Takes a second more than the question's budget."""
    root = node.snapshot().root
    if root is None:
        return AskFailure(f"{node.address} knows no root just now")
    address = node.settings.network.address_text_of(root)
    if address == node.address:
        return await answer(node, question)
    found = await node.ask(address, question, question.budget_s + 1.0)
    return AskFailure(f"{address} (root) {found.reason}") if isinstance(found, AskFailure) else found
