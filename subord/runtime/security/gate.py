"""The gate in front of a node's documents: which orders count, whatever way they come.

In: documents of neighbours and of the control socket. Out: verdicts, which are counted, logged, and shown in `subord
errors`. The signature is judged by a Verifier; what needs no signature to be refused is refused before. Invariant: a
document enters the replicas of this node only after `judge` has accepted it, except from this node's own disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from subord.core.carriage.documents import Document, Documents
from subord.core.carriage.orders import Cluster, Verdict, Verifier, namespace_for, signed_content
from subord.core.carriage.verdicts import power_of, sentence
from subord.core.identity.revocations import Revocations
from subord.core.tables import BoundedMap
from subord.runtime.counters import Counters
from subord.sealing.admission import refusal

logger = logging.getLogger("subord")

SAID_MAX: Final = 256
SAID_AGAIN_S: Final = 3600.0
"""A neighbour offers a refused document again and again."""
NAME_SHOWN_MAX: Final = 64


class Gate:
    """The gate of one node."""

    def __init__(
        self,
        verifier: Verifier,
        cluster: Cluster,
        revocations: Revocations,
        counters: Counters,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.cluster = cluster
        self._verifier = verifier
        self._revocations = revocations
        self._counters = counters
        self._wall = wall
        self._said: BoundedMap[tuple[str, str], float] = BoundedMap(SAID_MAX)

    def sizes(self) -> dict[str, int]:
        """Entries by table."""
        return {"orders_logged": len(self._said)}

    async def judge(self, document: Document, peer: str = "") -> Verdict:
        """Whether the order counts at this node. `peer`: the address of the neighbour that offers it; "": none."""
        namespace = namespace_for(document.name)
        word = refusal(document, int(self._wall() * 1000))
        if word:
            verdict = Verdict(word)
        else:
            content = signed_content(self.cluster, document.order)
            verdict = await self._verifier.verify(content, document.signature, namespace, document.at_ms, peer)
            if not verdict.word and self._revocations.has_operator(verdict.principal, verdict.fingerprint):
                verdict = verdict._replace(word="revoked")
        self._note(document, power_of(namespace), verdict, peer)
        return verdict

    async def judge_given(self, document: Document, held: Documents) -> Verdict:
        """As `judge`, of an order that is given at this node: it must be newer than what the node holds, and be kept
        for as long, or the older version would count again."""
        old = held.by_name.get(document.name)
        if old is None or (document.version > old.version and document.expires_ms >= old.expires_ms):
            return await self.judge(document)
        self._note(document, power_of(namespace_for(document.name)), verdict := Verdict("replayed"))
        return verdict

    def _note(self, document: Document, power: str, verdict: Verdict, peer: str = "") -> None:
        name, principal = document.name[:NAME_SHOWN_MAX], verdict.principal[:NAME_SHOWN_MAX] or "an unknown operator"
        if not verdict.word:
            self._counters.orders_accepted[power] += 1
            words = "order %(order)s of %(principal)s accepted (power %(power)s, version %(version)s)"
            fields = {"order": name, "principal": principal, "power": power, "version": document.version}
            logger.info(words, fields)
            return
        self._counters.orders_refused[verdict.word] += 1
        way = f", passed on by {peer}," if peer else ""
        text = f"order {name} of {principal}{way} is refused: {sentence(verdict.word)}"
        self._counters.problems.note("order", text)
        said_at, now = self._said.get((name, verdict.word)), self._wall()
        if said_at is None or not 0 <= now - said_at < SAID_AGAIN_S:
            self._said[name, verdict.word] = now
            words = "order %(order)s of %(principal)s%(way)s refused (power %(power)s): %(reason)s"
            fields = {"order": name, "principal": principal, "way": way, "power": power or "none"}
            logger.warning(words, {**fields, "reason": sentence(verdict.word)})
