"""Transfer queues for Prometheus, at the transfer host.

Input: what the agent has told last, and the time. Output: metric families; none at other nodes. While the agent has
told no figures, or transfer is off, there is the state alone. Invariant: figures that grow old are told by their age,
not left out, so an alert on them does not end when the agent does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from subord.api.node_api import Transfer
from subord.runtime.transfer.state import FAILED, NONE, OTHER_NODE, TRANSFERS, WORDS, State

LEAVING = ("waiting", "sending", "abroad", "ended", "returning", "unknown")
STAGES = ("taken", "here", "sought", "absent", "ended", "gone", "unknown")
COMING = (*STAGES, "held", "queued", "running", "suspended", "ending", "error")
"""The stages of such a job, and what the batch system says of one that is here."""


def families(transfer: Transfer, now: float) -> Iterator[Metric]:
    """All families about transfer queues. `now`: seconds since 1970."""
    found = transfer.state
    if not _is_host(transfer):
        return
    text = "How this node takes part as a transfer host: 1 for the word that is true, else 0"
    yield _by("state", text, "word", {word: float(word == found.word) for word in WORDS})
    if has_figures(found):
        yield from _jobs(found)
        yield from _room(found)
        yield from _link(found)
        yield from _files(found)
        yield from _ages(found, now)


def has_figures(state: State) -> bool:
    """The agent has told them since the present plan came."""
    return bool(state.cluster)


def _is_host(transfer: Transfer) -> bool:
    found = transfer.state
    if found.word in (NONE, OTHER_NODE):
        return False
    return bool(transfer.config.batch) or has_figures(found) or found.word in (TRANSFERS, FAILED)


def _jobs(found: State) -> Iterator[Metric]:
    text = "Jobs of this cluster that cross, by state; `unknown`: it is not known how they ended"
    yield _by("leaving", text, "state", dict.fromkeys(LEAVING, 0) | found.leaving)
    text = "Jobs of the other cluster that this one has records of, by state"
    yield _by("coming", text, "state", dict.fromkeys(COMING, 0) | found.coming)
    text = "Jobs of this cluster by what came of them, since the agent has the plan"
    yield _counts("left", text, "result", dict.fromkeys(("left", "ended", "returned", "unknown"), 0) | found.left)
    text = "Jobs of the other cluster by what came of them, since the agent has the plan"
    yield _counts("taken", text, "result", dict.fromkeys(("taken", "ended", "returned", "unknown"), 0) | found.taken)
    text = "Jobs that went back since there was no room for more records"
    yield CounterMetricFamily("subord_transfer_full", text, value=float(found.full))
    text = "Jobs here with a mark of a job of the other cluster that count for nothing, since their users are others"
    yield _gauge("forged", text, found.forged)


def _room(found: State) -> Iterator[Metric]:
    yield _gauge("coming_max", "Jobs of the other cluster that may be here", found.slots_max)
    yield _gauge("room", "Jobs of the other cluster that may come now", found.room)
    yield _gauge("offer", "Jobs that the other cluster takes now, as it said last", found.offer)
    held = {"given": found.permits_given, "held": found.permits_held}
    yield _by("permits", "Permits that are not used yet: given by this cluster, and held by it", "side", held)
    if found.pending is not None:
        yield _gauge("pending", "Jobs that wait in this cluster", found.pending)
    if found.peer_pending is not None:
        yield _gauge("peer_pending", "Jobs that wait in the other cluster, as it said last", found.peer_pending)
    yield _gauge("starters", "Methods that wait for the end of their job", found.starters)


def _link(found: State) -> Iterator[Metric]:
    yield _gauge("link_up", "1 if there is a connection to the other cluster, else 0", found.is_up)
    kinds = dict.fromkeys(("asked", "answered", "served", "told"), 0)
    yield _counts("messages", "Messages of both ends of the link by kind", "kind", kinds | found.messages)
    yield _counts("message_bytes", "Bytes of these messages", "kind", kinds | found.bytes)
    causes = dict.fromkeys(("stranger", "broken", "slow", "crowded", "unreadable", "unreachable"), 0)
    yield _counts("link_refused", "Connections to this end that were refused", "cause", causes | found.refusals)
    yield _counts("link_failed", "Connections and messages of this end that failed", "cause", causes | found.failures)


def _files(found: State) -> Iterator[Metric]:
    text = "Bytes of files of jobs that were sent to the other cluster and got from it"
    yield _counts("file_bytes", text, "direction", dict.fromkeys(("sent", "received"), 0) | found.files)
    causes = dict.fromkeys(("large", "changed", "denied", "disk", "kind", "wrong", "lost", "other"), 0)
    text = "Jobs whose files or results have not crossed, by cause"
    yield _counts("files_failed", text, "cause", causes | found.file_failures)
    text = "Working directories here of jobs that came with files, and of those that are kept for them"
    yield _gauge("directories", text, found.directories)


def _ages(found: State, now: float) -> Iterator[Metric]:
    yield CounterMetricFamily("subord_transfer_polls", "Looks at the batch system", value=float(found.looks))
    text = "Queries and commands of the batch system without an answer"
    yield CounterMetricFamily("subord_transfer_calls_failed", text, value=float(found.calls_failed))
    yield _gauge("poll_failed", "1 if the last look at the batch system failed, else 0", bool(found.fault))
    if found.at:
        text = "Age of the last look at the batch system that succeeded; absent before the first"
        yield _gauge("poll_age_seconds", text, max(0.0, now - found.at))
    yield _gauge(
        "link_fault", "1 if the last message to the other cluster has no answer, else 0", bool(found.link_fault)
    )
    if found.heard_at:
        text = "Age of the last answer of the other cluster; absent before the first"
        yield _gauge("answer_age_seconds", text, max(0.0, now - found.heard_at))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"subord_transfer_{name}", text, value=float(value))


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"subord_transfer_{name}", text, labels=(label,))
    for each, value in values.items():
        family.add_metric((each,), float(value))
    return family


def _counts(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"subord_transfer_{name}", text, labels=(label,))
    for each, value in values.items():
        family.add_metric((each,), float(value))
    return family
