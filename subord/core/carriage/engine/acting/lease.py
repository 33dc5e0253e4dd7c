"""For how long a leased service may go on with one order: until no issuer was heard for LEASE_S, or one cancels it.

Inputs are renewals and cancellations with the time; output is why the service is to end. The agent of a node keeps
the lease, and not its daemon, so what runs ends also when the daemon has ended or hangs. Invariant: a lease that is
over, or cancelled, stays so.
"""

from __future__ import annotations

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import CANCELLED, LEASE_OVER


class Lease:
    """The lease of one run."""

    def __init__(self, lease_s: float, now: float) -> None:
        self.until = now + min(lease_s, bounds.LEASE_S)
        self._is_cancelled = False

    def renew(self, lease_s: float, now: float) -> None:
        """An issuer still waits; what it has left never shortens the lease."""
        if now < self.until:
            self.until = max(self.until, now + min(lease_s, bounds.LEASE_S))

    def cancel(self, now: float) -> None:
        """The order is cancelled."""
        if now < self.until:
            self.until, self._is_cancelled = now, True

    def cause(self, now: float) -> str:
        """Why the service is to end; "": it may go on."""
        if now < self.until:
            return ""
        return CANCELLED if self._is_cancelled else LEASE_OVER
