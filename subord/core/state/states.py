"""The states of a node, as one table of transitions.

A state is a phase, which others see, and an aim, which the search follows; the pairs below are all that exist.
Invariant: a state changes only through `Context.follow`, along this table. docs/protocol.md prints the table.
"""

from __future__ import annotations

import enum

from subord.core.view import Place


class Phase(enum.Enum):
    """The state of a node as its API and its log show it."""

    SEEKING = "seeking"  # started, without a first place yet
    ROOT = "root"  # no leader; searches for a lower root
    ATTACHED = "attached"  # has a leader
    ORPHAN = "orphan"  # lost its leader; keeps its subordinates and searches for the next leader
    LEAVING = "leaving"  # says goodbye
    GONE = "gone"


SETTLED = (Phase.ROOT, Phase.ATTACHED)
"""Phases with a place, in which a node may offer places to others."""


class Aim(enum.Enum):
    """What a node looks for."""

    NOTHING = "nothing"
    FIRST = "first place"
    NEXT = "next place"
    LOWER = "lower root"
    BETTER = "home or better place"


class State(enum.Enum):
    """A phase and an aim. The text below each state says what the node does on entry."""

    phase: Phase
    aim: Aim

    def __init__(self, phase: Phase, aim: Aim) -> None:
        self.phase, self.aim = phase, aim

    NEW = Phase.SEEKING, Aim.NOTHING
    """when the daemon starts: schedules an announcement; with `node.full_scan` asks all positions"""
    SEEKING = Phase.SEEKING, Aim.FIRST
    """proposes to its home, then to other candidates"""
    ROOT = Phase.ROOT, Aim.LOWER
    """leaves a leader that it still has (`Goodbye`, moved) and schedules an announcement; as its first place: sends
    `Back` to its computed subordinates; rests, then searches for a lower root"""
    HOME = Phase.ATTACHED, Aim.NOTHING
    """leaves another old leader (`Goodbye`, moved); stops announcing; drops subordinates that stand on its new path;
    reports its whole subtree; tells subordinates the new path; ends its search"""
    GUEST = Phase.ATTACHED, Aim.BETTER
    """the same as at home, but goes on to look for its home or a better place"""
    LEADER_LEAVING = Phase.ATTACHED, Aim.NEXT
    """keeps its place, and searches for the next leader; a home that leaves counts as lost (damping) when the next
    leader accepts the node"""
    ORPHAN = Phase.ORPHAN, Aim.NEXT
    """counts the loss of a home for damping; schedules an announcement; tells subordinates that their branch is
    orphaned; searches for the next leader"""
    LEAVING = Phase.LEAVING, Aim.NOTHING
    """ends its search; refuses proposals; sends `Goodbye` (leaving) with alternates to subordinates every `answer_s`,
    until all have left or the grace is over"""
    GONE = Phase.GONE, Aim.NOTHING
    """has sent `Goodbye` (left) to its leader; stops all timers; ignores every message"""


FOLLOWING = (State.HOME, State.GUEST)
"""States with a leader that stays."""


class Trigger(enum.Enum):
    """What leads a node from one state to the next."""

    BEGIN = "search begins"  # the node has started, and its full scan is over if it makes one
    AT_HOME = "accepted at home"  # the computed leader accepts its proposal
    AS_GUEST = "accepted as guest"  # another leader accepts its proposal
    ALONE = "no lower node"  # no lower node answers; or, by `performance`, the root says that it ranks before all
    NOTICE = "leader leaves"  # its leader says goodbye (leaving), and answers for a while only
    LOST = "leader lost"  # its leader is silent or has ended, refuses it, or displaces it
    LEAVE = "told to leave"  # the daemon ends, or starts again in another network
    DONE = "goodbyes said"  # its subordinates have left, or the grace is over


SETTLING = {
    Place.ROOT: (Trigger.ALONE, "no lower position answers"),
    Place.HOME: (Trigger.AT_HOME, "its computed leader"),
    Place.GUEST: (Trigger.AS_GUEST, "the nearest with a free guest slot"),
}
"""The trigger of each place, and the reason that is shown."""
ACCEPTED = {Trigger.AT_HOME: State.HOME, Trigger.AS_GUEST: State.GUEST}
SEARCHING = {**ACCEPTED, Trigger.ALONE: State.ROOT, Trigger.LEAVE: State.LEAVING}
LED = {Trigger.NOTICE: State.LEADER_LEAVING, Trigger.LOST: State.ORPHAN, Trigger.LEAVE: State.LEAVING}

NEXT: dict[State, dict[Trigger, State]] = {
    State.NEW: {Trigger.BEGIN: State.SEEKING, Trigger.AT_HOME: State.HOME, Trigger.LEAVE: State.LEAVING},
    State.SEEKING: SEARCHING,
    State.ROOT: {**ACCEPTED, Trigger.LEAVE: State.LEAVING},
    State.HOME: {Trigger.AT_HOME: State.HOME, **LED},
    State.GUEST: {**ACCEPTED, Trigger.ALONE: State.ROOT, **LED},
    State.LEADER_LEAVING: {**SEARCHING, Trigger.LOST: State.ORPHAN},
    State.ORPHAN: SEARCHING,
    State.LEAVING: {Trigger.LOST: State.LEAVING, Trigger.DONE: State.GONE},
    State.GONE: {},
}

ORPHANED_BRANCH = (
    "its leader is lost, or says in its guidance that their branch is orphaned (`adrift`)",
    "tells its subordinates, which keep their places; names its leader, if it has one, in hints",
    "it has a place again, or its leader says so; then tells its subordinates the new path",
)
"""How a node enters an orphaned branch, what it does there, and how it leaves it. The states `orphan`, those with a
leader, and `leaving` may stand in one. `Uplink.is_orphaned` derives it, so that no transition can forget it."""


def follow(state: State, trigger: Trigger) -> State:
    """The state after `trigger`. KeyError for a pair that the table lacks, which is a programming error."""
    return NEXT[state][trigger]
