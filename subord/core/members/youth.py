"""For how long a root may not know members that are on their way to it.

Input is a node that is root, and whether its process has started without knowledge of other members; output is
Youth, in seconds of the node's clock. After a takeover, and after a restart with a register, only nodes are on their
way that have lost a root. At the first start of a cluster, a node whose home is up without a daemon also waits
`host_patience_s` for it, and no register names this node. Invariant: every youth ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from subord.core.members.writer import GRACE_S, UP_DELAY_S
from subord.core.node import Node
from subord.core.settings import Timing

YOUNG_S: Final = 5.0
"""For so long a new root may not know nodes that have lost a root, or that no register has yet."""
YOUNG_S_MAX: Final = GRACE_S + 5.0
"""By then a root has written as down what stays away: GRACE_S after a look, which may be late by some seconds."""


class Youth(NamedTuple):
    """`lasts_until`: nodes may be on their way until then. `ends_at`: the root waits for nothing any more."""

    lasts_until: float
    ends_at: float


def first_s(timing: Timing) -> float:
    """Seconds from the start of a process until nodes that have started with it have joined, and are written."""
    return timing.host_patience_s + timing.attempts * timing.answer_s + UP_DELAY_S


def youth_of(node: Node, *, is_first: bool) -> Youth:
    """The youth of a root. `is_first`: its process has started without knowledge of other members."""
    lasts_until = node.placed_at + YOUNG_S
    if is_first:
        lasts_until = max(lasts_until, node.started_at + first_s(node.context.timing))
    return Youth(lasts_until, max(lasts_until, node.placed_at + YOUNG_S_MAX))
