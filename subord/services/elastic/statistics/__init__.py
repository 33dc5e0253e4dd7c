"""One line of statistics for each poll: eight columns of CSV without a head, as the text's balancer writes them.

Input is what a poll saw; output is a line. The plots are made of these lines.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple


class Statistics(NamedTuple):
    """Of one poll, in the order of COLUMNS. `time`: seconds since 1970. Averages are seconds; `avg_load` is of the
    hosts."""

    time: float
    num_hosts: int
    running: int
    queued: int
    slots: int
    avg_duration: float
    avg_wait: float
    avg_load: float

    def line(self) -> str:
        """With its end. Times are UTC."""
        time = datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d %H:%M:%S")
        counts = f"{self.num_hosts},{self.running},{self.queued},{self.slots}"
        return f"{time},{counts},{self.avg_duration:.1f},{self.avg_wait:.1f},{self.avg_load:.2f}\n"


def read(text: str) -> list[Statistics]:
    """Lines of `line`; those that are none, such as one that was cut off by a full disk, are left out."""
    found = []
    for line in text.splitlines():
        try:
            time, *numbers = line.split(",")
            seconds = datetime.strptime(time, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
            hosts, running, queued, slots, duration, wait, load = numbers
            found.append(
                Statistics(
                    seconds,
                    int(hosts),
                    int(running),
                    int(queued),
                    int(slots),
                    float(duration),
                    float(wait),
                    float(load),
                )
            )
        except ValueError:
            continue
    return found
