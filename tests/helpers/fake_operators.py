"""Operators without OpenSSH: a signature is `principal:` and a hash of a secret, the content and the namespace."""

from __future__ import annotations

from hashlib import blake2b

import trio

from subord.core.carriage.documents import Document
from subord.core.carriage.orders import Cluster, Order, Verdict, namespace_for, signed_content

CLUSTER: Cluster = ("", "127.0.0.0/24")


def sign(content: bytes, namespace: str, principal: str = "ann") -> bytes:
    """What ssh-keygen would print."""
    return f"{principal}:{blake2b(content + namespace.encode(), key=principal.encode()).hexdigest()}".encode()


def signed(order: Order, principal: str = "ann", cluster: Cluster = CLUSTER) -> Document:
    """The order as a document."""
    return Document(*order, sign(signed_content(cluster, order), namespace_for(order.name), principal))


class FakeVerifier:
    """`powers`: the operators of this node, and their namespaces. `asked`: how often a signature was judged, and
    `sources` by what neighbours they were offered.
    """

    def __init__(self, powers: dict[str, str] | None = None) -> None:
        every = "subord.members subord.keys subord.identity subord.files subord.metrics subord.shares"
        every += " subord.elastic subord.hosts subord.plans"
        self.powers = {"ann": every, "bob": every, "mia": "subord.members"} if powers is None else powers
        self.asked = 0
        self.sources: set[str] = set()

    async def verify(
        self,
        content: bytes,
        signature: bytes,
        namespace: str,
        at_ms: int,  # noqa: ARG002 - the keys have no end
        source: str = "",
    ) -> Verdict:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        self.sources.add(source)
        principal = signature.decode().partition(":")[0]
        if principal not in self.powers:
            return Verdict("unknown_principal")
        if namespace not in self.powers[principal].split():
            return Verdict("not_permitted", principal)
        if signature != sign(content, namespace, principal):
            return Verdict("altered", principal)
        return Verdict("", principal, f"SHA256:{principal}")
