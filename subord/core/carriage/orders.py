"""Orders of operators: what an operator signs, and the verdict on a signature.

Inputs are documents and the cluster that they are for; output is the content that the signature covers. A document of
a kind without a namespace is no order. Invariant: the content names the cluster, so an order for one cluster is none
for another.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import msgspec

NAMESPACES: Final = {
    "forget": "subord.members",
    "maintain": "subord.members",
    "ring": "subord.keys",
    "revoked": "subord.identity",
    "strict": "subord.identity",
    "files": "subord.files",
    "metrics": "subord.metrics",
    "shares": "subord.shares",
    "elastic": "subord.plans",
    "hosts": "subord.hosts",
    "machines": "subord.plans",
    "transfer": "subord.plans",
}
"""By kind of document. Orders of a service have its own name, so a key for its orders alone signs no plan of it. The
last word is the power that the operator needs (ssh-keygen(1), ALLOWED SIGNERS)."""
TEST: Final = "test"
"""Kind of an order that is judged and never stored; its name ends in the power."""
HEAD: Final = b"subord 1 order\n"

Cluster = tuple[str, str]
"""`cluster.name`, and the network as in messages.Terms."""
_encode = msgspec.msgpack.Encoder().encode


class Verdict(NamedTuple):
    """`word`: why the signature does not count; "": it does. `principal`: as this node's file names the operator."""

    word: str
    principal: str = ""
    fingerprint: str = ""


class Verifier(Protocol):
    """Judges signatures in the format of SSHSIG (OpenSSH, PROTOCOL.sshsig)."""

    async def verify(self, content: bytes, signature: bytes, namespace: str, at_ms: int, source: str = "") -> Verdict:
        """Whether an operator of this node has signed `content` for `namespace`, with a key valid at `at_ms`.

        `source`: the address of the neighbour that offers it; "": it is given at this node.
        """


class Order(NamedTuple):
    """What an operator says. `at_ms`: when; `expires_ms`: until when nodes take it; both since 1970."""

    name: str
    version: int
    at_ms: int
    expires_ms: int
    body: bytes


def signed_content(cluster: Cluster, order: Order) -> bytes:
    """What the signature of an order covers."""
    return HEAD + _encode((cluster, *order))


def namespace_for(name: str) -> str:
    """The namespace that the signature of a document is for; "": it is no order."""
    kind, _, tag = name.partition("/")
    if kind == TEST:
        return next((each for each in NAMESPACES.values() if each.endswith(f".{tag}")), "")
    return NAMESPACES.get(kind, "")
