"""Why a target has given no result: the words, and a sentence for each.

The words are fields of JSON documents and labels of metrics; the sentences are for operators. Invariant: a word that
the engine or the agent uses stands in this table, or is a verdict on a signature (carriage/verdicts.py, with spaces);
a word of a later release is shown as it is.
"""

from __future__ import annotations

from typing import Final

from subord.core.carriage.verdicts import SENTENCES as VERDICTS

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
CANCELLED: Final = "cancelled"
LEASE_OVER: Final = "lease over"
YOUNG_ROOT: Final = "young root"
"""Also why the targets of an order for all members may not be all."""
# -- of the agent, which does not act --
UNSIGNED: Final = "unsigned"
MALFORMED: Final = "malformed"
NOT_YET_VALID: Final = "not yet valid"
ORDER_EXPIRED: Final = "order expired"
OTHER_TARGETS: Final = "other targets"
TAG_USED: Final = "tag used"
CLOCK_BACK: Final = "clock went back"
DENIED: Final = "denied"
NO_POLICY: Final = "no policy"
BAD_MODE: Final = "bad mode"
BAD_POLICY: Final = "bad policy"
BAD_REVOKED: Final = "bad revoked list"
FAILED: Final = "failed"
NO_RECEIPT: Final = "no receipt"

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
    CANCELLED: "the order was cancelled before the node had given a result",
    LEASE_OVER: "no issuer that waits for the order could be heard any more, so the node ended what it had begun",
    YOUNG_ROOT: "the root had only just become root, and did not know the node yet when it passed the order on",
    UNSIGNED: "the order has no signature of an operator, which this service needs",
    MALFORMED: "the node's agent cannot read what the order says, or the order is valid for too long",
    NOT_YET_VALID: "the order is not valid yet by the clock of the node; set the clocks of the node and the operator",
    ORDER_EXPIRED: "the order is not valid any more by the clock of the node; give it again, or set the clocks",
    OTHER_TARGETS: "the operator has not signed the order for this node",
    TAG_USED: "the node knows another order with this tag, so it did not act; give the order again",
    CLOCK_BACK: "the clock of the node went back, and it has forgotten which orders of that time it has carried out",
    DENIED: "the policy of the node does not allow the operator to use the service as this user",
    NO_POLICY: "the node has no policy, so its agent carries out no order; see agent.policy",
    BAD_MODE: "the agent does not trust the operators file, the policy or the journal of the node: only root may own "
    "and change them",
    BAD_POLICY: "the policy of the node cannot be read; the log of its agent says why",
    BAD_REVOKED: "the agent of the node cannot read its list of revoked operators, and does not act until it gets "
    "one; the log of its agent says why",
    FAILED: "the service failed on the node; the log of its agent says why",
    NO_RECEIPT: "no receipt of the node for the answer, or a false one: another node may have answered in its place",
}
WORD_CHARS_MAX: Final = 32
KINDS_MAX: Final = 32
"""Different words in one answer; others count as REFUSED."""


def sentence(word: str) -> str:
    """The sentence of a word, also of a later release."""
    return SENTENCES.get(word) or VERDICTS.get(word.replace(" ", "_"), f"the node gave no result: {word}")


def of_verdict(word: str) -> str:
    """The cause that names a verdict of carriage/verdicts.py."""
    return word.replace("_", " ")
