"""Which orders and documents the agent of this node carries out, by signature and by the policy of the node.

Inputs are an order or a document, the operators file, the policy, and the list of revoked operators; output is a
verdict with a cause of carriage/engine/causes.py. The daemon is not trusted: it can withhold an order, and change
nothing of it.
Invariant: what is accepted was signed for this cluster, this node, this service and this time, by an operator that
may use the service as the user of the order, by the policy of this node.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import NamedTuple

from subord.agent import policy
from subord.agent.revoked import RevokedList
from subord.core.carriage.documents import Document
from subord.core.carriage.engine.acting import service_orders
from subord.core.carriage.engine.causes import (
    BAD_MODE,
    BAD_POLICY,
    BAD_REVOKED,
    DENIED,
    NO_POLICY,
    NOT_OFFERED,
    of_verdict,
)
from subord.core.carriage.engine.frames import Order
from subord.core.carriage.orders import Cluster, Verifier
from subord.core.carriage.verdicts import namespace_of
from subord.core.view import Position
from subord.runtime.security import operators_file

ROOT = "root"
WORDS_OF_POLICY = {"no_operators": NO_POLICY, "bad_mode": BAD_MODE, "unreadable": BAD_POLICY}


class Judged(NamedTuple):
    """`cause`: why the agent does not act; "": it does. `digest`: of what was signed. `detail`: for the log."""

    cause: str
    principal: str = ""
    user: str = ""
    expires_ms: int = 0
    run_ms: int = 0
    digest: bytes = b""
    detail: str = ""


class JudgedDocument(NamedTuple):
    """`cause`: why the document does not count; "": it does. `detail`: for the log."""

    cause: str
    principal: str = ""
    fingerprint: str = ""
    detail: str = ""


class Judge:
    """The judge of one node."""

    def __init__(
        self,
        cluster: Cluster,
        position: Position,
        *,
        verifier: Verifier,
        revoked: RevokedList,
        policy_path: str,
        offers: Callable[[str], bool],
        follows: Callable[[str], bool],
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`offers`: whether a service carries out orders on this node; `follows`: or documents."""
        self.cluster = cluster
        self.position = position
        self._verifier = verifier
        self._revoked = revoked
        self._policy_path = policy_path
        self._offers = offers
        self._follows = follows
        self._wall = wall

    @property
    def now_ms(self) -> int:
        return int(self._wall() * 1000)

    async def judge(self, order: Order, revoked: Document | None, source: str) -> Judged:
        """Whether the agent acts on an order. `revoked`: the list that came with it. `source`: the address
        of a node that asked directly. Its false signatures take of its own share, whatever issuer it names; orders
        that came along the tree are told apart by their issuer, which is not signed."""
        if not self._offers(order.service):
            return Judged(NOT_OFFERED)
        cause = service_orders.refusal(order, self.position, self.now_ms)
        authority = service_orders.decode(order.authority)
        if cause or authority is None:
            return Judged(cause)
        await self._revoked.take(revoked)
        if self._revoked.is_damaged:
            return Judged(BAD_REVOKED)
        content = service_orders.content_of(self.cluster, order, authority)
        verdict = await self._verifier.verify(
            content, authority.signature, namespace_of(order.service), self.now_ms, source or str(order.issuer)
        )
        word = verdict.word or self._revoked.word_for(verdict.principal, verdict.fingerprint)
        if word:
            return Judged(of_verdict(word), verdict.principal, authority.user)
        cause, detail = self._policy_says(verdict.principal, order.service, authority.user)
        digest = hashlib.sha256(content).digest()
        return Judged(
            cause, verdict.principal, authority.user, authority.expires_ms, authority.run_ms, digest, detail
        )

    async def judge_document(self, document: Document, revoked: Document | None) -> JudgedDocument:
        """Whether a document counts, for which the agent acts as ROOT. `revoked`: the list that came with it."""
        if not self._follows(document.kind):
            return JudgedDocument(NOT_OFFERED)
        await self._revoked.take(revoked)
        if self._revoked.is_damaged:
            return JudgedDocument(BAD_REVOKED)
        verdict = await self._revoked.judge(document)
        if verdict.word:
            return JudgedDocument(of_verdict(verdict.word), verdict.principal, verdict.fingerprint)
        cause, detail = self._policy_says(verdict.principal, document.kind, ROOT)
        return JudgedDocument(cause, verdict.principal, verdict.fingerprint, detail)

    def is_revoked(self, *names: str) -> bool:
        """Whether an operator with one of these names or fingerprints does not count any more."""
        return bool(self._revoked.word_for(*names))

    def _policy_says(self, principal: str, service: str, user: str) -> tuple[str, str]:
        """The cause, "" if it is allowed, and a detail. Reads the file each time, so changes count at once."""
        with operators_file.opened(self._policy_path) as file:
            if file.word:
                return WORDS_OF_POLICY[file.word], f"{self._policy_path}: {file.detail}"
            text = operators_file.read(file)
        try:
            is_allowed = policy.parse(text).allows(principal, service, user)
        except policy.PolicyError as error:
            return BAD_POLICY, f"{self._policy_path}: {error}"
        return "" if is_allowed else DENIED, ""
