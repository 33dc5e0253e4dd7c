"""The phases of a node's life, as a table.

Rule 1: a phase changes only through `follow`, and only along this table.
Rule 2: the picture in docs/protocol.md is printed from this table (`python -m subord.core.state.phases`).
"""

from __future__ import annotations

import enum


class Phase(enum.Enum):
    """What a node is doing about its place."""

    SEEKING = "seeking"  # just started; asks for its first place
    ROOT = "root"  # nobody above; looks for somebody at a slow pace
    ATTACHED = "attached"  # has a leader
    ORPHAN = "orphan"  # lost its leader; holds its subordinates and asks for the next place
    LEAVING = "leaving"  # says goodbye
    GONE = "gone"


SETTLED = (Phase.ROOT, Phase.ATTACHED)
"""Has a place, and may offer one to others."""


class Trigger(enum.Enum):
    """What moves a node from one phase to the next."""

    ACCEPTED = "accepted by a leader"
    ALONE = "nobody lower answers"
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


def follow(phase: Phase, cue: Trigger) -> Phase:
    """The phase after `cue`. A pair that is not in the table is a bug of ours: KeyError."""
    return NEXT[phase][cue]


def mermaid() -> str:
    """The table as a Mermaid state diagram."""
    edges = [
        f"  {phase.value} --> {then.value}: {cue.value}" for phase, row in NEXT.items() for cue, then in row.items()
    ]
    return "\n".join(["stateDiagram-v2", "  [*] --> seeking", *edges, "  gone --> [*]"])


if __name__ == "__main__":
    print(mermaid())
