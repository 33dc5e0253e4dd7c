"""Steps that only the simulator can play: faults that last, links that differ, datagrams that change on the way."""

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
    per_kb_s: Seconds = 0.0  # more delay for every 1,000 bytes of the datagram
    mtu: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0  # longer datagrams are lost; 0: none


class Flap(StepBase, frozen=True, tag="flap"):
    """These nodes are cut off, or stopped, for `away_s` and back for `back_s`, so many times. Simulator only.

    Takes this time.
    """

    nodes: Selector
    away_s: Seconds
    back_s: Seconds
    times: Annotated[int, msgspec.Meta(ge=1, le=FLAPS_MAX)] = 1
    how: Literal["cut", "pause"] = "cut"


class Settle(StepBase, frozen=True, tag="settle"):
    """While faults last, each part of the network becomes one tree within the bound of the protocol. Simulator only.

    Takes the time that it needs.
    """

    rests: bool = True  # and no leader changes from then on; else one moment as a tree is enough
    home: bool = True  # and each node whose computed leader lives stands below it


class Replay(StepBase, frozen=True, tag="replay"):
    """Of the datagrams between these nodes in the next `for_s` this share arrives twice, late. Simulator only."""

    source: Selector
    target: Selector
    share: Share
    later_s: Seconds
    for_s: Seconds = 60.0


class Flip(StepBase, frozen=True, tag="flip"):
    """Of the datagrams in the next `for_s` this share has a flipped bit and can still be read. Simulator only."""

    source: Selector
    target: Selector
    share: Share
    for_s: Seconds = 10.0


class SetBack(StepBase, frozen=True, tag="set_back"):
    """The wall clock of the hosts is set back: it counts at the next start of their daemons. Simulator only."""

    nodes: Selector
    seconds: Seconds


class Image(StepBase, frozen=True, tag="image"):
    """An image of the disks is taken as they are now. Simulator only."""

    nodes: Selector


class Restore(StepBase, frozen=True, tag="restore"):
    """The hosts have their disks of the last `image` again; it counts at the next start. Simulator only."""

    nodes: Selector


LieName = Literal["ages", "rows", "hides", "boots"]


class Lie(StepBase, frozen=True, tag="lie"):
    """Until the next `mend` these nodes say what is false, and start again then. Simulator only.

    `ages` says that nodes have stood where they stand for no time, or for longer than can be; `rows` lists nodes
    that are elsewhere; `hides` leaves out the branch; `boots` counts the own starts higher with every message.
    """

    nodes: Selector
    what: LieName


class Refit(StepBase, frozen=True, tag="refit"):
    """These daemons start again with settings that the others refuse, until the next `mend`. Simulator only."""

    nodes: Selector
    fanout: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0  # not given: that of the cluster
    guest_slots: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0  # not given: those of the cluster
    timing: Literal["", "lab", "lan", "wan"] = ""  # not given: that of the cluster


class Release(StepBase, frozen=True, tag="release"):
    """From its next start the daemon of these nodes is of another release. Simulator only.

    A later one speaks a pretended version 3 of the wire besides version 1.
    """

    nodes: Selector
    later: bool = True


class Twin(StepBase, frozen=True, tag="twin"):
    """Until the next `mend` each of these addresses has two hosts with a daemon. Simulator only."""

    nodes: Selector


class Rotate(StepBase, frozen=True, tag="rotate"):
    """The operator of a sealed cluster makes a step of a change of keys: by the root, or by files. Simulator only.

    Named by `root` alone, the root makes the new key ring, which goes down the edges. Other nodes get a file one
    after another, by chance, and read it again. A step that the daemon or docs/security.md forbids is not made, such
    as `remove` while a running node does not have the newest ring. Takes no time.
    """

    nodes: Selector = "root"
    what: Literal["next", "install", "use", "remove"] = "next"  # `next`: what follows from the ring of the root
    gap_s: Seconds = 0.0  # between two files
    forced: bool = False  # `remove` in any case


Lasting: TypeAlias = (
    Link | Flap | Settle | Replay | Flip | SetBack | Image | Restore | Lie | Refit | Release | Twin | Rotate
)
