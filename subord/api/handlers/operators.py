"""The operators of this node: what its operators file grants, and what is revoked.

Input: the file of `node.operators` and the list of revocations. Output: one document. The file is read in a thread,
at most one at a time; nothing is decided here (runtime/security/operators.py).
"""

from __future__ import annotations

import time
from math import inf
from typing import Final

import trio

from subord.api.models.document import time_text
from subord.api.models.operators import FaultDocument, OperatorDocument, OperatorsDocument, RevocationDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.verdicts import sentence
from subord.core.identity.revocations import Entries
from subord.runtime.security import allowed_signers, operators_file
from subord.runtime.security.allowed_signers import Fault, Signer

LINES_MAX: Final = 512
_ONE = trio.CapacityLimiter(1)


async def find(node: NodeApi) -> OperatorsDocument:
    """What this node knows of operators."""
    path, entries = node.operators_path, node.tracker.membership.revocations.entries
    return await trio.to_thread.run_sync(of_file, path, entries, limiter=_ONE)


def of_file(path: str, entries: Entries, now_s: float | None = None) -> OperatorsDocument:
    """The document of the file at `path`; blocks."""
    now_s = time.time() if now_s is None else now_s
    with operators_file.opened(path) as file:
        lines = [] if file.word else allowed_signers.parse(operators_file.read(file))
        word, text = file.word, f"{sentence(file.word, path)} ({file.detail})" if file.word else ""
    revoked = {each.what for each in entries if each.kind == "operator"}
    signers = [each for each in lines if isinstance(each, Signer)]
    return OperatorsDocument(
        file=path,
        word=word,
        sentence=text,
        operators=tuple(_shown(each, revoked, now_s) for each in signers[:LINES_MAX]),
        more=max(0, len(signers) - LINES_MAX),
        faults=tuple(FaultDocument(line=each.line, text=each.what) for each in lines if isinstance(each, Fault))[
            :LINES_MAX
        ],
        revocations=tuple(
            RevocationDocument(
                kind=each.kind, what=each.what, reason=each.reason, time=time_text(each.at_ms / 1000), by=each.by
            )
            for each in entries
        ),
    )


def _shown(signer: Signer, revoked: set[str], now_s: float) -> OperatorDocument:
    return OperatorDocument(
        line=signer.line,
        principals=signer.principals,
        key_type=signer.key_type,
        fingerprint=signer.fingerprint,
        authority=signer.is_authority,
        powers=signer.powers,
        valid_after=time_text(signer.valid_after) if signer.valid_after else None,
        valid_before=time_text(signer.valid_before) if signer.valid_before < inf else None,
        valid=signer.is_valid(now_s),
        revoked=not revoked.isdisjoint((*signer.principals, signer.fingerprint)),
    )
