"""Why a target has given no result: the words, and a sentence for each.

The words are fields of JSON documents and labels of metrics; the sentences are for operators. Invariant: a word that
the engine uses stands in this table; a word of a later release is shown as it is.
"""

from __future__ import annotations

from typing import Final

SILENT: Final = "silent"
DOWN: Final = "down"
LEFT: Final = "left"
UNKNOWN: Final = "unknown"
MOVED: Final = "moved"
OLDER: Final = "older release"
NOT_OFFERED: Final = "not offered"
NO_AGENT: Final = "no agent"
BUSY: Final = "busy"
EXPIRED: Final = "expired"
NO_TIME: Final = "no time"
TOO_LARGE: Final = "too large"
NO_COORDINATOR: Final = "no coordinator"
NO_JOURNAL: Final = "no journal"
OUTCOME_UNKNOWN: Final = "outcome unknown"
REFUSED: Final = "refused"

SENTENCES: Final = {
    SILENT: "the node does not acknowledge the order, though its place in the tree is known",
    DOWN: "the node is down, or its process ended before it answered",
    LEFT: "the node has left the cluster in order",
    UNKNOWN: "no member has this address",
    MOVED: "the node was moving to another leader and was not found again in time",
    OLDER: "the node runs a release of subord that does not know orders",
    NOT_OFFERED: "the node does not offer this service",
    NO_AGENT: "the node has no agent, which this service needs",
    BUSY: "a node on the way holds too many orders; try again",
    EXPIRED: "the node has the order, but did not answer before the time ran out",
    NO_TIME: "the time ran out before the node could be asked",
    TOO_LARGE: "the order or the result is larger than this release carries",
    NO_COORDINATOR: "no leader that knows these nodes could be reached",
    NO_JOURNAL: "the node cannot write to its disk that it acts, so it did not act",
    OUTCOME_UNKNOWN: "the node ended after it had begun to act, and does not act twice",
    REFUSED: "the node refused the order",
}
WORD_CHARS_MAX: Final = 32
KINDS_MAX: Final = 32
"""Different words in one answer; others count as REFUSED."""


def sentence(word: str) -> str:
    """The sentence of a word, also of a later release."""
    return SENTENCES.get(word, f"the node gave no result: {word}")
