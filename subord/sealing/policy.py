"""How each message is sealed: with or without a ticket, and whether it may be repeated.

Input are a sealer, a message, its bytes and the receiver; output is the datagram. The daemon
(runtime/net/transport.py) and the simulator (sim/world/sealed.py) both use it.
"""

from __future__ import annotations

from typing import Final

from subord.core.messages import Beat, Echo, Message, Pong, Probe
from subord.sealing.sealer import End, Sealer

ROUTINE: Final = (Beat, Echo, Pong)
TIMED: Final = (Probe,)  # after a challenge a new probe is sent instead


def seal_message(sealer: Sealer, message: Message, data: bytes, end: End) -> bytes:
    """The sealed datagram of `message`, whose bytes are `data`, for `end`."""
    is_routine, is_timed = isinstance(message, ROUTINE), isinstance(message, TIMED)
    return sealer.seal(data, end, is_routine=is_routine, is_repeatable=not is_timed)
