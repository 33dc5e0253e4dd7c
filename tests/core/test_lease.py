"""When a leased service is to end: renewals, cancellations, and the time."""

from __future__ import annotations

from loops import over

from subord.core.carriage.engine.acting.lease import Lease


@over(
    ("renewals", "now", "cause"),
    [
        ((), 4.9, ""),
        ((), 5.0, "lease over"),
        (((4.0, 10.0),), 13.9, ""),
        (((4.0, 10.0),), 14.0, "lease over"),
        (((4.0, 0.1),), 4.9, ""),  # another issuer has less left
        (((1.0, 999.0),), 16.0, "lease over"),  # no renewal is for more than 15 s
        (((5.0, 10.0),), 6.0, "lease over"),  # too late
        (((2.0, None),), 2.0, "cancelled"),
        (((2.0, None), (2.5, 10.0)), 3.0, "cancelled"),
        (((5.0, None),), 6.0, "lease over"),
    ],
)
def test_a_lease_of_five_seconds(renewals: tuple[tuple[float, float | None], ...], now: float, cause: str) -> None:
    lease = Lease(5.0, 0.0)
    for at, lease_s in renewals:
        if lease_s is None:
            lease.cancel(at)
        else:
            lease.renew(lease_s, at)
    assert lease.cause(now) == cause
