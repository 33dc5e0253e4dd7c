"""Counters of the kernel as sums over devices that never go back.

Input are all counters of one moment, those of devices with a label `device`; output is one counter for each name,
which counts how much all devices have grown since the first round. Invariants: a device that appears adds nothing at
once, whatever it has counted elsewhere, and one that goes takes nothing away; a counter that went back, as those of
idle processors sometimes do, or because 32 bits were full, adds nothing in that round. So a sum over interfaces that
come and go gives no rate that no interface had.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from subord.services.metrics.kernel import DEVICE, Samples
from subord.services.metrics.rates import is_counter

_LABEL: Final = "{" + DEVICE


class Growth:
    """The sums of one node."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._sums: dict[str, float] = defaultdict(float)

    def of(self, samples: Samples) -> Samples:
        """The gauges as they are, and the sums in place of the counters."""
        found: dict[str, float] = {}
        counters: dict[str, float] = {}
        for name, value in samples.items():
            if not is_counter(name):
                found[name] = value
                continue
            counters[name] = value
            total = name.partition(_LABEL)[0]
            self._sums[total] += max(0.0, value - self._before.get(name, value))
            found[total] = self._sums[total]
        self._before = counters
        return found
