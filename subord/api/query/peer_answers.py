"""What we say to another node that asks us over a stream: the far end of `Shown.ask`.

Intuition: the telephone in the hall. Most callers want to know how we are; some want to know how all are who live
below us, and then we go and ask them first.
"""

from __future__ import annotations

import msgspec

from subord.api.handlers import changes, keys, members, problems
from subord.api.models import nodes
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.api.query import aggregate


async def answer(shown: NodeApi, question: Question) -> bytes:
    """The JSON document."""
    return msgspec.json.encode(await _document(shown, question))


async def _document(shown: NodeApi, question: Question) -> msgspec.Struct:
    document: msgspec.Struct
    match question.topic:
        case "status":
            document = nodes.status(shown)
        case "why":
            document = nodes.why(shown.settings, shown.why())
        case "roster":
            document = nodes.roster(shown.settings, shown.roster())
        case "members":
            document = members.own(shown)
        case "changes":
            document = changes.own(shown, question.words[0] if question.words else None)
        case "keys":
            ask = keys.all_keys if question.words == aggregate.EVERYBODY else keys.coverage
            document = await ask(shown, question.budget_s)
        case "problems":
            look = problems.of_tree if question.words == aggregate.EVERYBODY else problems.of_subtree
            document = await look(shown, question.budget_s)
        case "rotate":
            document = await keys.rotate(shown, question.words, question.budget_s)
    return document


async def of_root(shown: NodeApi, question: Question) -> bytes | AskFailure:
    """What the root of our tree says; it may be us. Takes a second more than the question's budget."""
    root = shown.snapshot().root
    if root is None:
        return AskFailure(f"{shown.address} knows no root just now")
    address = shown.settings.network.address_text_of(root)
    if address == shown.address:
        return await answer(shown, question)
    found = await shown.ask(address, question, question.budget_s + 1.0)
    return AskFailure(f"{address} (root) {found.reason}") if isinstance(found, AskFailure) else found
