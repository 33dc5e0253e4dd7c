"""Virtual machines for Prometheus, at the node that has the queues, and at each server.

Inputs: what the agent has told last, and the time. Output: metric families; none at other nodes. While the agent has
told nothing, there is the state alone. Invariant: figures that grow old are told by their age, not left out, so an
alert on them does not end when the agent does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from subord.api.node_api import Machines
from subord.runtime.machines.state import (
    FAILED,
    MANAGES,
    NONE,
    OTHER_NODE,
    SERVES,
    STATES,
    WORDS,
    Amount,
    KindCount,
    ServerState,
    State,
)

MIB: Final = 1 << 20
OF_KINDS: Final = ("on", "off", "open", "busy", "coming", "left_alone")
OF_SERVERS: Final = ("on", "off", "left_alone")
"""What of these the batch system does not have to say."""
OTHERS: Final = "others"
"""In place of a type: machines that are not ours."""


def families(machines: Machines, now: float) -> Iterator[Metric]:
    """All families about virtual machines. `now`: seconds since 1970."""
    found = machines.state
    if machines.uri or machines.server is not None:
        yield from _server(machines.server, now)
    if _has_queues(machines):
        text = "How this node, which has the queues, manages virtual machines: 1 for the word that is true, else 0"
        yield _by("state", text, "word", {word: float(word == found.word) for word in WORDS})
        if has_figures(found):
            yield from _round(found, now)


def has_figures(state: State) -> bool:
    """The agent has told them since the present plan came."""
    return bool(state.at or state.round or state.hindrance)


def _has_queues(machines: Machines) -> bool:
    found = machines.state
    if found.word in (NONE, OTHER_NODE, SERVES):
        return False
    return bool(machines.batch) or has_figures(found) or found.word in (MANAGES, FAILED)


# -- the queue's node -----------------------------------------------------------------------------------------------


def _round(found: State, now: float) -> Iterator[Metric]:
    if not found.is_unread:
        jobs = {"waiting": found.waiting, "unmet": found.unmet, "running": found.running}
        text = "Jobs of the queues of the plan; `unmet`: those that wait and get no machine now"
        yield _by("jobs", text, "state", jobs)
    yield from _kinds(found.kinds, OF_SERVERS if found.is_unread else OF_KINDS)
    servers = {
        "all": found.servers_all,
        "unreachable": found.unreachable,
        "overbooked": found.overbooked,
        "drained": found.drained,
    }
    yield _by("servers", "Servers as the queue's node sees them", "state", servers)
    yield from _amounts(found)
    images = {"used": found.store * MIB, "most": found.store_most * MIB}
    yield _by("images_bytes", "What images of machines take, and may take", "what", images)
    yield _gauge("pending", "Actions whose effect is not seen yet", found.pending)
    yield _gauge("templates_lacking", "Types whose template is on no server that answers", len(found.lacking))
    yield from _totals(found)
    yield _gauge("round_failed", "1 if the batch system did not answer in the last round, else 0", bool(found.fault))
    yield _gauge("round_hindered", "1 if the last round was not allowed to decide, else 0", bool(found.hindrance))
    parts = {"ask": found.ask_s, "decide": found.decide_s, "order": found.order_s}
    yield _by("round_seconds", "How long the parts of the last round took", "part", parts)
    if found.at:
        yield _gauge("round_age_seconds", "Age of the last round; absent before the first", max(0.0, now - found.at))


def _kinds(kinds: tuple[KindCount, ...], states: tuple[str, ...]) -> Iterator[Metric]:
    text = "Virtual machines by type, of all servers; `left_alone`: paused, or in a state that is not known"
    family = GaugeMetricFamily("subord_machines", text, labels=("type", "state"))
    for each in kinds:
        for state in states:
            family.add_metric((each.type or OTHERS, state), float(getattr(each, state)))
    yield family


def _amounts(found: State) -> Iterator[Metric]:
    amounts = {"have": found.have, "used": found.used, "headroom": found.headroom}
    cores = {what: each.cores for what, each in amounts.items()}
    text = "Cores of all servers: what machines may have, what they have, and what is to stay free"
    yield _by("cores", text, "what", cores)
    memory = {what: each.memory * MIB for what, each in amounts.items()}
    yield _by("memory_bytes", "Memory of all servers, less their reserves", "what", memory)


def _totals(found: State) -> Iterator[Metric]:
    totals = found.totals
    names = ("opened", "closed", "started", "moved", "cloned", "stopped", "deleted")
    text = "Actions whose effect was seen, since the process that decides has begun"
    yield _counted("actions", text, "action", {each: getattr(totals, each) for each in names})
    text = "Actions that came to nothing: refused by a server, without an effect in time, or too late to be done"
    failed = {"refused": totals.refused, "lost": totals.lost, "expired": totals.expired}
    yield _counted("actions_failed", text, "result", failed)
    for name, text, number in (
        ("rounds", "Rounds of the process that decides", totals.rounds),
        ("messages", "Messages to servers and from them", totals.messages),
        ("message_bytes", "Bytes of these messages", totals.message_bytes),
    ):
        yield CounterMetricFamily(f"subord_machines_{name}", text, value=float(number))


# -- a server -------------------------------------------------------------------------------------------------------


def _server(found: ServerState | None, now: float) -> Iterator[Metric]:
    is_up = found is not None and not found.fault and found.at > 0
    yield _gauge("server_up", "1 if libvirt of this server answers its agent, else 0", is_up)
    if found is None:
        return
    faults = sum(1 for each in found.machines if each.fault)
    yield _gauge("server_faults", "Machines of this server whose last change failed", faults)
    orders = {"obeyed": found.obeyed, "refused": found.refused}
    yield _counted("server_orders", "Orders to this server, since its agent has started", "result", orders)
    if not is_up:
        return
    counts = Counter((each.state, "yes" if each.type else "no") for each in found.machines)
    text = "Virtual machines of this server by state; `ours`: of a type of the plan"
    family = GaugeMetricFamily("subord_machines_server_machines", text, labels=("state", "ours"))
    for state in STATES:
        for ours in ("yes", "no"):
            family.add_metric((state, ours), float(counts[state, ours]))
    yield family
    for name, what, amounts in _server_amounts(found):
        yield _by(f"server_{name}", f"{what} of this server: what machines may have, and have", "what", amounts)
    text = "1 if machines have more of this server than they may, else 0"
    yield _gauge("server_overbooked", text, _is_overbooked(found.have, found.used))
    yield _gauge("server_drained", "1 if no machine starts at this server, else 0", found.is_drained)
    text = "Age of the list of machines of this server"
    yield _gauge("server_age_seconds", text, max(0.0, now - found.at))


def _server_amounts(found: ServerState) -> Iterator[tuple[str, str, Mapping[str, float]]]:
    have, used = found.have, found.used
    yield "cores", "Cores", {"have": have.cores, "used": used.cores}
    yield "memory_bytes", "Memory, less the reserve,", {"have": have.memory * MIB, "used": used.memory * MIB}
    yield "disk_bytes", "Local disk", {"have": have.disk * MIB, "used": used.disk * MIB}
    yield "slots", "Slots for machines", {"have": have.slots, "used": used.slots}


def _is_overbooked(have: Amount, used: Amount) -> bool:
    return used.cores > have.cores or used.memory > have.memory or used.disk > have.disk or used.slots > have.slots


# -- shapes ---------------------------------------------------------------------------------------------------------


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"subord_machines_{name}", text, value=float(value))


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"subord_machines_{name}", text, labels=(label,))
    for each, value in values.items():
        family.add_metric((each,), float(value))
    return family


def _counted(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"subord_machines_{name}", text, labels=(label,))
    for each, value in values.items():
        family.add_metric((each,), float(value))
    return family
