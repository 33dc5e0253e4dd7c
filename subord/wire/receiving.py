"""What becomes of the content of a datagram before the core sees it (docs/protocol/wire.md).

Inputs are the content, its sender, the way it came, and the time. Output is an Arrival: a message for the core, or
the reason to drop it; and whether the sender is to learn the versions that this node speaks. The daemon and the
simulator hold one Receiver per process. Invariant: the answers and reports that one sender can cause are bounded.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from subord.core.messages import Announce, Message, Versions
from subord.core.pacing.token_bucket import TokenBucket
from subord.wire.codec import Fault, Wire
from subord.wire.versions import PeerVersions

VERSION_ANSWERS_PER_S: Final = 100.0  # to datagrams of unknown or lower versions, against use as a reflector
UNREADABLE_PER_S: Final = 5.0  # datagrams of unknown versions that are reported to the core


class Arrival(NamedTuple):
    """`message` None: dropped, for the reason `dropped`."""

    message: Message | None
    dropped: str = ""
    is_for_core: bool = True  # False: the message is known here to have no further effect
    answer_versions: bool = False  # send `Versions` to the sender, before anything else
    is_unreadable: bool = False  # report the unknown version to the core


class Receiver:
    """Reads the datagrams of one process. `versions`: those of its peers."""

    def __init__(self, wire: Wire, versions: PeerVersions, now: float) -> None:
        self._wire = wire
        self._versions = versions
        self._answers = TokenBucket(VERSION_ANSWERS_PER_S, now)
        self._reports = TokenBucket(UNREADABLE_PER_S, now)

    def receive(self, peer: Hashable, content: bytes, now: float, *, by_multicast: bool) -> Arrival:
        """Decode `content`, which is not sealed any more. `peer` is the sender as the table of versions knows it."""
        message = self._wire.decode(content)
        if isinstance(message, Fault):
            # Of a multicast datagram every node of the link would answer.
            is_ours = message is Fault.VERSION and not by_multicast
            return Arrival(
                None,
                message.value,
                answer_versions=is_ours and self._answers.admit(now),
                is_unreadable=is_ours and self._reports.admit(now),
            )
        # Only announcements may come by multicast: one datagram must not make every node of the link act.
        if isinstance(message, Announce) != by_multicast:
            return Arrival(None, "not_for_multicast" if by_multicast else "announce_by_unicast")
        if isinstance(message, Versions):
            # Without a common version the core reports the peer.
            return Arrival(message, is_for_core=not self._versions.told(peer, message.spoken, now))
        is_news = not by_multicast and self._versions.heard(peer, content[1], now)
        return Arrival(message, answer_versions=is_news and self._answers.admit(now))
