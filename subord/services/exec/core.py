"""What the issuer makes of all answers: how many nodes ended how, beside whom the answer covers.

Input is the answer of the engine; output is an ExecDocument. The results themselves go to the command while nodes
end (services/live.py).
"""

from __future__ import annotations

from collections import Counter

from subord.api.models.coverage import CoverageDocument
from subord.services.contract import Answered, Service
from subord.services.exec.outcome import EXITED, KILLED, Ended, decode
from subord.services.serving import of_coverage

UNREAD = "unreadable"


class ExecDocument(CoverageDocument, frozen=True, kw_only=True):
    """`ended`: nodes by how the command ended (`exited 0`, `killed 9`, `timed out`). `unshown`: nodes whose results
    were left out, because there are too many different ones."""

    ended: dict[str, int]
    unshown: int


def how(ended: Ended) -> str:
    """As the document and `subord exec` name it."""
    return f"{ended.how} {ended.number}" if ended.how in (EXITED, KILLED) else ended.how


def document(answered: Answered) -> CoverageDocument:
    """The coverage, and how many nodes ended how."""
    counts = Counter[str]()
    for result, nodes in answered.answer.groups:
        found = decode(result)
        counts[how(found) if isinstance(found, Ended) else UNREAD if found is None else "told"] += len(nodes)
    return of_coverage(ExecDocument, answered, ended=dict(counts), unshown=len(answered.answer.others))


SERVICE = Service(None, document, is_live=True)
