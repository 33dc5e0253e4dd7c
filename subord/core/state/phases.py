"""The phases of a node, as a table of transitions.

A phase changes only through `follow`, along this table. docs/protocol.md prints the table and its diagram.
"""

from __future__ import annotations

import enum


class Phase(enum.Enum):
    """The state of a node's search for a place."""

    SEEKING = "seeking"  # started, without a first place yet
    ROOT = "root"  # no leader; searches for a lower root
    ATTACHED = "attached"  # has a leader
    ORPHAN = "orphan"  # lost its leader; keeps its subordinates and searches for the next leader
    LEAVING = "leaving"  # says goodbye
    GONE = "gone"


SETTLED = (Phase.ROOT, Phase.ATTACHED)
"""Phases with a place, in which a node may offer places to others."""


class Trigger(enum.Enum):
    """What moves a node from one phase to the next."""

    ACCEPTED = "accepted by a leader"
    ALONE = "no lower position answers"
    LOST = "leader lost, or displaced"
    LEAVE = "told to leave"
    DONE = "goodbyes said"


NEXT: dict[Phase, dict[Trigger, Phase]] = {
    Phase.SEEKING: {Trigger.ACCEPTED: Phase.ATTACHED, Trigger.ALONE: Phase.ROOT, Trigger.LEAVE: Phase.LEAVING},
    Phase.ROOT: {Trigger.ACCEPTED: Phase.ATTACHED, Trigger.LEAVE: Phase.LEAVING},
    Phase.ATTACHED: {
        Trigger.ACCEPTED: Phase.ATTACHED,
        Trigger.LOST: Phase.ORPHAN,
        Trigger.ALONE: Phase.ROOT,
        Trigger.LEAVE: Phase.LEAVING,
    },
    Phase.ORPHAN: {Trigger.ACCEPTED: Phase.ATTACHED, Trigger.ALONE: Phase.ROOT, Trigger.LEAVE: Phase.LEAVING},
    Phase.LEAVING: {Trigger.LOST: Phase.LEAVING, Trigger.DONE: Phase.GONE},
    Phase.GONE: {},
}


def follow(phase: Phase, trigger: Trigger) -> Phase:
    """The phase after `trigger`. KeyError for a pair that the table lacks, which is a programming error."""
    return NEXT[phase][trigger]


def mermaid() -> str:
    """The table as a Mermaid state diagram."""
    edges = [
        f"  {phase.value} --> {then.value}: {trigger.value}"
        for phase, row in NEXT.items()
        for trigger, then in row.items()
    ]
    return "\n".join(["stateDiagram-v2", "  [*] --> seeking", *edges, "  gone --> [*]"])


if __name__ == "__main__":
    print(mermaid())
