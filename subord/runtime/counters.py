"""Counters of one daemon, for /metrics and `subord status`.

They are plain numbers, so that counting costs one addition; api/handlers/metrics.py adds the names and units of
Prometheus at a scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

from subord.runtime.problems import RecentProblems


class Histogram:
    """Counts of observations up to each bound, in seconds."""

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds_s, seconds)] += 1
        self.sum_s += seconds


ROUND_TRIP_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
HEALING_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


class Counters:
    """Everything counted since the daemon started."""

    def __init__(self) -> None:
        self.messages_sent: Counter[str] = Counter()  # by message type, e.g. "beat"
        self.messages_received: Counter[str] = Counter()
        self.bytes_sent: Counter[str] = Counter()  # UDP payload bytes by message type
        self.bytes_received: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()  # dropped input by reason, e.g. "malformed"
        self.reports_sent = self.reports_received = 0  # along edges
        self.orders_accepted: Counter[str] = Counter()  # orders of operators by power or service, e.g. "keys"
        self.orders_refused: Counter[str] = Counter()  # by reason, a word of core/carriage/verdicts.py or causes.py
        self.orders_given: Counter[str] = Counter()  # orders to nodes, of this node, that ended, by service
        self.orders_told = 0  # nodes that answered them
        self.orders_missing: Counter[str] = Counter()  # nodes that did not, by cause, a word of causes.py
        self.send_errors: Counter[str] = Counter()  # by errno name, e.g. "EHOSTUNREACH"
        self.round_trip = Histogram(ROUND_TRIP_BOUNDS_S)  # beat to its answer
        self.detection = Histogram(HEALING_BOUNDS_S)  # last sign of life of a lost leader to giving it up
        self.healing = Histogram(HEALING_BOUNDS_S)  # giving a leader up to having the next
        self.loop_lag = Histogram(ROUND_TRIP_BOUNDS_S)  # lateness of the node's timer
        self.jobs_done = 0.0  # sum of the weights of reported jobs
        self.readings_failed: Counter[str] = Counter()  # of a source of performance, by reason, e.g. "missing"
        self.spool_records = self.spool_bytes = self.spool_bytes_max = 0  # of the ledger, on this node
        self.spool_oldest_at = 0.0  # when the oldest of these was written, since 1970; 0: none
        self.spool_state: Literal["", "keeps", "fails"] = ""  # "": this node has none
        self.sink_state: Literal["", "stores", "fails"] = ""  # of this node as a sink; "": it is none
        self.records_accepted = self.records_refused = 0  # of writers of this node
        self.records_stored = 0  # by this node as a sink
        self.records_missing = 0  # that its database lacks since it was restored
        self.problems = RecentProblems()
        self.tables: Callable[[], Mapping[str, int]] = dict  # entries by table, outside the core

    def spool_age_s(self, now: float) -> float:
        """Of the oldest record that waits on this node, at a time since 1970; 0: none waits."""
        return max(0.0, now - self.spool_oldest_at) if self.spool_oldest_at else 0.0
