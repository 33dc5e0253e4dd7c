"""How this node follows the shares that an operator wants: one word, and why.

A node obeys, or it has no part in what is divided, and then the word says what to look at. Invariant: a text names
neither the node nor a time, so equal states of many nodes travel as one answer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NONE: Final = "none"
OFF: Final = "off"
STARTING: Final = "starting"
OBEYS: Final = "obeys"
NO_CLASSES: Final = "no classes"
NO_AGENT: Final = "no agent"
REFUSED: Final = "refused"
FAILED: Final = "failed"
WORDS: Final = (FAILED, REFUSED, NO_AGENT, NO_CLASSES, STARTING, NONE, OFF, OBEYS)
"""Those that need an operator first."""
SENTENCES: Final = {
    NONE: "no shares are set",
    OFF: "shares are off; the groups have the weights from before",
    STARTING: "the agent has not measured a whole round yet",
    OBEYS: "the groups of the classes have their weights",
    NO_CLASSES: "shares.classes of the node is empty, so nothing is divided there",
    NO_AGENT: "there is no agent on the node, or it cannot be reached: start subord-agent.socket",
    REFUSED: "the agent refuses the document",
    FAILED: "the agent cannot measure or set weights, which stay as they are",
}
DETAIL_CHARS_MAX: Final = 300
NOTES_MAX: Final = 8


class State(NamedTuple):
    """`word`: of WORDS. `detail`: why, without a full stop; "": the word says it. `notes`: what is odd but hinders
    nothing."""

    word: str
    detail: str = ""
    notes: tuple[str, ...] = ()
