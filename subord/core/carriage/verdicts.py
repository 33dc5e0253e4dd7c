"""Why the signature of an order does not count: the words, and a sentence for each.

The words are labels of metrics and fields of JSON documents; the sentences are for operators. Invariant: a word that
a node or a command uses stands in this table.
"""

from __future__ import annotations

from typing import Final

from subord.core.carriage.orders import NAMESPACES

ACCEPTED: Final = ""
POWERS: Final = tuple(sorted({each.rpartition(".")[2] for each in NAMESPACES.values()}))
"""The last words of the namespaces."""
SENTENCES: Final = {
    "unsigned": "the order has no signature; only orders that an operator signed are taken",
    "expired": "the order has expired; give it again",
    "from_the_future": "the order is dated more than an hour ahead of this node's clock; set the clocks of both",
    "altered": "the signature does not fit the order: one of them was changed or damaged after signing",
    "wrong_namespace": "the signature was made for another purpose, so it does not count for this order",
    "unknown_principal": "no line of this node's operators file has the key of the signature",
    "not_permitted": "this node's operators file does not give the operator this power (namespaces=)",
    "key_expired": "the key or certificate of the operator was not valid when the order was signed",
    "revoked": "the operator or the key is revoked",
    "replayed": "this node holds a newer version of the order already, or one that is kept for longer; give it again",
    "no_operators": "this node has no operators file, so it takes no orders; see node.operators",
    "bad_mode": "this node's operators file does not count: it must belong to root or the daemon's user, and only "
    "its owner may write to it",
    "unreadable": "this node's operators file cannot be read",
    "malformed": "what the order says cannot be read by the nodes of this release",
    "unknown_kind": "this release does not know such orders",
    "no_ssh_keygen": "ssh-keygen is missing on this node, or does not run: apt-get install openssh-client",
    "busy": "this node checks too many signatures, or ssh-keygen does not end in time; try again",
}


def sentence(word: str, path: str = "") -> str:
    """The sentence of a word, also of a later release. `path`: of the operators file of the node that judged."""
    text = SENTENCES.get(word, f"the order was refused: {word}")
    return text.replace("operators file", f"operators file {path}", 1) if path else text


def power_of(namespace: str) -> str:
    """`members` of `subord.members`."""
    return namespace.rpartition(".")[2]


def namespace_of(power: str) -> str:
    """The namespace that gives a power of POWERS."""
    return f"subord.{power}"
