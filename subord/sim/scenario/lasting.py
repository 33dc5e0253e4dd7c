"""Steps that only the simulator plays: lasting faults, links of their own, and datagrams changed on the way."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from subord.sim.scenario.step_types import Seconds, Selector, Share, StepBase

FLAPS_MAX = 1000


class Link(StepBase, frozen=True, tag="link"):
    """Datagrams between `source` and `target`, both ways, are lost or late until the next `mend`. Simulator only."""

    source: Selector
    target: Selector
    loss: Share = 0.0
    delay_s: Seconds = 0.0
    per_kb_s: Seconds = 0.0  # more delay per 1,000 bytes of the datagram
    mtu: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0  # longer datagrams are lost; 0: no limit


class Flap(StepBase, frozen=True, tag="flap"):
    """These nodes are cut off or stopped for `away_s`, then back for `back_s`, `times` times. Simulator only.

    Takes this time.
    """

    nodes: Selector
    away_s: Seconds
    back_s: Seconds
    times: Annotated[int, msgspec.Meta(ge=1, le=FLAPS_MAX)] = 1
    how: Literal["cut", "pause"] = "cut"


class Settle(StepBase, frozen=True, tag="settle"):
    """Despite lasting faults each part of the network becomes one tree within the protocol's bound. Simulator only.

    Takes the time that this needs.
    """

    rests: bool = True  # also, no leader changes afterwards; else one moment as a tree suffices
    home: bool = True  # also, each node whose computed leader lives stands below it


class Replay(StepBase, frozen=True, tag="replay"):
    """For `for_s` this share of the datagrams between these nodes arrives again, `later_s` late. Simulator only."""

    source: Selector
    target: Selector
    share: Share
    later_s: Seconds
    for_s: Seconds = 60.0


class Flip(StepBase, frozen=True, tag="flip"):
    """For `for_s` this share of the datagrams has one flipped bit and is still readable. Simulator only."""

    source: Selector
    target: Selector
    share: Share
    for_s: Seconds = 10.0


class SetBack(StepBase, frozen=True, tag="set_back"):
    """Sets the wall clocks of the hosts back, effective at the next start of their daemons. Simulator only."""

    nodes: Selector
    seconds: Seconds


class Image(StepBase, frozen=True, tag="image"):
    """Saves the state of the disks. Simulator only."""

    nodes: Selector


class Restore(StepBase, frozen=True, tag="restore"):
    """Restores the disks from the last `image`, effective at the next start. Simulator only."""

    nodes: Selector


LieName = Literal["ages", "rows", "hides", "boots", "forges"]
DRAWN_LIES: tuple[LieName, ...] = ("ages", "rows", "hides", "boots")
"""Of clusters without identities; `forges` is drawn by the kind `impostors`."""


class Lie(StepBase, frozen=True, tag="lie"):
    """Until the next `mend` these nodes make false statements; then they restart. Simulator only.

    `ages`: impossible ages; `rows`: nodes that are elsewhere; `hides`: omits the branch; `boots`: raises its own boot
    number with every message; `forges`: rows of other nodes, with false, missing, or earlier proofs.
    """

    nodes: Selector
    what: LieName


class Pose(StepBase, frozen=True, tag="pose"):
    """For `for_s` these nodes send messages in the names of other nodes, past their daemons. Simulator only.

    Each message is a proposal, an acceptance or a goodbye. Takes no time. In a sealed cluster, or without identities,
    none is sent.
    """

    nodes: Selector
    per_s: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 10.0
    for_s: Annotated[float, msgspec.Meta(ge=0, le=600)] = 5.0


class Seize(StepBase, frozen=True, tag="seize"):
    """Until the next `mend` other hosts have these addresses, with keys of their own, and the former hosts are dead.

    No operator forgets the former hosts. Without identities nothing happens. Simulator only.
    """

    nodes: Selector


class Refit(StepBase, frozen=True, tag="refit"):
    """Until the next `mend` these daemons run with settings that the others refuse. Simulator only."""

    nodes: Selector
    fanout: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0  # default: that of the cluster
    guest_slots: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0  # default: those of the cluster
    timing: Literal["", "lab", "lan", "wan"] = ""  # default: that of the cluster


class Release(StepBase, frozen=True, tag="release"):
    """From its next start the daemon is of another release. Simulator only.

    `later`: one that also speaks a fictitious wire version 3.
    """

    nodes: Selector
    later: bool = True


class Twin(StepBase, frozen=True, tag="twin"):
    """Until the next `mend` two hosts with daemons use each of these addresses. Simulator only."""

    nodes: Selector


class Rotate(StepBase, frozen=True, tag="rotate"):
    """The operator makes one step of a change of keys. Simulator only.

    With `nodes = "root"` the step is made at the root, else by files on `nodes`. A step that the daemon or
    docs/security.md forbids is refused, such as `remove` while a running node lacks the newest ring. Takes no time.
    """

    nodes: Selector = "root"
    what: Literal["next", "install", "use", "remove"] = "next"  # `next`: the step that follows from the root's ring
    gap_s: Seconds = 0.0  # between two files
    forced: bool = False  # `remove` also while a running node lacks the newest ring


class Forget(StepBase, frozen=True, tag="forget"):
    """The operator says at a running node that those of `nodes` that are down are not expected. Simulator only."""

    nodes: Selector


Lasting: TypeAlias = (
    Link
    | Flap
    | Settle
    | Replay
    | Flip
    | SetBack
    | Image
    | Restore
    | Lie
    | Pose
    | Seize
    | Refit
    | Release
    | Twin
    | Rotate
    | Forget
)
