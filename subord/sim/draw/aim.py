"""What the drawing of scenarios is limited to: options of `subord simulate` for campaigns with one purpose.

The seed decides everything that an aim leaves open; the same seed with the same aim is the same scenario.
"""

from __future__ import annotations

import msgspec

FANOUT_MAX = 1024
NODES_MAX = 10_000


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """None and () leave it to the seed."""

    fanout: int | None = None
    guest_slots: int | None = None
    nodes: tuple[int, int] | None = None  # fewest and most
    kinds: tuple[str, ...] = ()  # of faults and clusters; see kinds.py
    services: bool = False  # orders while the faults happen; see services/play.py
    rounds: bool = False  # orders that append a line, each with a fault; see services/rounds.py

    @property
    def options(self) -> str:
        """As typed after `subord simulate`, each with a leading space."""
        words = []
        if self.fanout is not None:
            words.append(f" --fanout {self.fanout}")
        if self.guest_slots is not None:
            words.append(f" --guest-slots {self.guest_slots}")
        if self.nodes is not None:
            fewest, most = self.nodes
            words.append(f" --nodes {fewest}" if fewest == most else f" --nodes {fewest}-{most}")
        if self.kinds:
            words.append(f" --kinds {','.join(self.kinds)}")
        words += [f" --{name}" for name in ("services", "rounds") if getattr(self, name)]
        return "".join(words)


ANY = Aim()
