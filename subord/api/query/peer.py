"""The one way to ask other nodes: one node, the root, or one node after the other.

Input: an address, a topic and the form of its document. Output: the document, decoded and checked, or an `AskFailure`
whose reason begins with the address. No question takes longer than its time, and nothing that another node does
raises.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
import trio

from subord.api.models import nodes
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.core.decoding import UNREADABLE
from subord.runtime.net.peer_query import Topic, Words

ASK_S_MAX = 0.8
"""For all questions of one request: the command line promises an answer within one second."""
BUDGET_SHARE = 0.8
"""Of the time of a question, for the further questions of the asked node."""
Form = TypeVar("Form")


async def ask(
    node: NodeApi,
    address: str,
    topic: Topic,
    form: type[Form],
    timeout_s: float,
    *,
    words: Words = (),
    is_root: bool = False,
) -> Form | AskFailure:
    """The document of the node at `address`; `is_root`: a failure calls it the root."""
    found: Form | AskFailure = AskFailure("does not answer")
    # `NodeApi.ask` keeps to its time by contract; a bug there must not block the command.
    with trio.move_on_after(timeout_s):
        answer = await node.ask(address, Question(topic, words, timeout_s * BUDGET_SHARE), timeout_s)
        found = answer if isinstance(answer, AskFailure) else _read(answer, form)
    if isinstance(found, AskFailure):
        return msgspec.structs.replace(found, reason=f"{address}{' (root)' if is_root else ''} {found.reason}")
    return found


def _read(answer: bytes, form: type[Form]) -> Form | AskFailure:
    try:
        return msgspec.json.decode(answer, type=form)
    except UNREADABLE:
        return AskFailure("answers something else than was asked (does it run this version?)", "unreadable")


async def ask_root(
    node: NodeApi, topic: Topic, form: type[Form], timeout_s: float = ASK_S_MAX, *, words: Words = ()
) -> Form | AskFailure | None:
    """The document of the root of this tree; None: this node is the root, and has to answer itself."""
    address = nodes.address(node.settings, node.snapshot().root)
    if address is None:
        return AskFailure(f"{node.address} knows no root just now")
    if address == node.address:
        return None
    return await ask(node, address, topic, form, timeout_s, words=words, is_root=True)


class TreeReport(msgspec.Struct, Generic[Form], frozen=True):
    """The document of `asked`; `note`: why it is not that of the whole tree, None if it is."""

    report: Form
    asked: str
    note: str | None

    @property
    def complete(self) -> bool:
        return self.note is None


class Walk:
    """Questions to one node after the other, among them `root`, within `budget_s`.

    Each gets a share of the time that is left, so one silent node does not prevent an answer of the next.
    """

    def __init__(self, node: NodeApi, root: str | None, budget_s: float) -> None:
        self._node = node
        self._root = root
        self._until = trio.current_time() + budget_s
        self.failures: dict[str, AskFailure] = {}
        """By address, in the order of the questions."""

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - trio.current_time())

    async def ask(self, address: str, topic: Topic, form: type[Form], share: float) -> Form | None:
        """The document; None: there is none, and `failures` has the reason."""
        timeout_s, is_root = self.left_s * share, address == self._root
        found = await ask(self._node, address, topic, form, timeout_s, is_root=is_root)
        if isinstance(found, AskFailure):
            self.failures[address] = found
            return None
        return found
