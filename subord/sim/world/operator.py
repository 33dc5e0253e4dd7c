"""The operator of a simulated cluster, and how its nodes judge orders.

Inputs are orders and documents; outputs are documents and verdicts. The signature is a keyed hash with a secret that
only the operator and the judges have, which a lying member cannot make; what is signed, and what is refused before
the signature is judged, is the same as in the daemon.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

from subord.core.carriage.documents import Document
from subord.core.carriage.orders import Cluster, Order, Verdict, signed_content
from subord.core.identity.revocations import Revocations
from subord.sealing.admission import refusal

NAME = "operator"


class Operator:
    """One operator with all powers."""

    def __init__(self, cluster: Cluster, secret: bytes, name: str = NAME) -> None:
        self.name = name
        self._cluster = cluster
        self._secret = secret

    def sign(self, order: Order) -> Document:
        """The order as a document."""
        return Document(*order, self._signature(order))

    def judge(self, document: Document, revocations: Revocations, now_ms: int) -> Verdict:
        """As runtime/security/gate.py does with ssh-keygen."""
        word = refusal(document, now_ms)
        if not word and not compare_digest(document.signature, self._signature(document.order)):
            word = "altered"
        if not word and revocations.has_operator(self.name):
            word = "revoked"
        return Verdict(word, self.name)

    def _signature(self, order: Order) -> bytes:
        return blake2b(signed_content(self._cluster, order), key=self._secret, digest_size=32).digest()
