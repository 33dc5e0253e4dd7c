"""What becomes of one frame on the long way from one site to another.

Intuition: a letter and a mail train. First it waits behind those that came before (bandwidth), unless the sack is
full (queue); then it travels (delay); and some trains never arrive (loss).

Pure: a link, the present moment and one draw of chance come in, and the moment of arrival goes out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

QUEUE_BYTES_MAX = 1 << 18

Fate = Literal["carried", "lost", "queue_full"]


@dataclass(frozen=True, kw_only=True)
class Link:
    """Between two sites, the same in both directions, each of which has a queue and a bandwidth of its own."""

    delay_s: float  # one way
    loss: float = 0.0  # share of all frames, from 0 to 1
    bits_per_s: float | None = None  # None: without end
    queue_bytes_max: int = QUEUE_BYTES_MAX  # waiting for their turn; those under way do not count


class Passage(NamedTuple):
    """`arrives_at` holds for what is carried; `free_at`: when the next frame can begin. Seconds on one clock."""

    fate: Fate
    arrives_at: float
    free_at: float


def trembling(link: Link, share: float, draw: float) -> Link:
    """The link with another delay, by at most `share` of its own more or less. `draw` is from [0, 1)."""
    return replace(link, delay_s=link.delay_s * (1 + share * (2 * draw - 1)))


def passage(link: Link, free_at: float, frame_bytes: int, now: float, draw: float) -> Passage:
    """Of a frame that comes to the link now; the link is busy until `free_at`. `draw` is from [0, 1).

    A frame that finds the link free always begins. What is lost has taken its time on the link all the same.
    """
    ends_at = now
    if link.bits_per_s is not None:
        begins_at = max(now, free_at)
        waiting_bytes = (begins_at - now) * link.bits_per_s / 8
        if waiting_bytes > 0 and waiting_bytes + frame_bytes > link.queue_bytes_max:
            return Passage("queue_full", now, free_at)
        ends_at = begins_at + frame_bytes * 8 / link.bits_per_s
    return Passage("lost" if draw < link.loss else "carried", ends_at + link.delay_s, ends_at)
