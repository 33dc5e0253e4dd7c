"""Nodes that the batch system itself has started and ended, as Slurm does with those of its power saving.

Inputs are the records, and what the batch system wants of its hosts at this poll; outputs are the nodes that it waits
for, and the records of nodes that it has powered down. What it wants is read anew at each poll, so nothing is lost
with a notification of it. Pure but for the memory of the poll before. Invariants: a node that the answer lacks, as
Slurm hides those that are powered down, is ended only if the next answer lacks it too; a machine from before the last
power-down is never taken for the one that is wanted now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from subord.services.batch.records import Host, Wanted
from subord.services.elastic.deciding import Decision, Start
from subord.services.elastic.options import Options
from subord.services.elastic.seen import Kind, Seen
from subord.services.elastic.stages import ADDING, Record, Stage

POWERED_DOWN: Final = "Slurm has powered it down"
GIVEN_UP: Final = "Slurm has given it up ({reason})"
HIDDEN: Final = "Slurm has powered it down, or does not have it any more"
AGAIN: Final = "Slurm has powered it down and wants it again, so its machine is started anew"
NAMED_MAX: Final = 8
"""In one sentence."""


class Asked(NamedTuple):
    """`start`: hosts without a record that the batch system waits for, by name. `end`: reasons, by name, for nodes
    that serve; `undo`: for those that are being added. `later`: names of wanted nodes that are still being removed.
    `given_up`: hosts that have not come, or did not answer, and are not used until a person has looked at them."""

    start: tuple[Host, ...] = ()
    end: Mapping[str, str] = {}
    undo: Mapping[str, str] = {}
    later: tuple[str, ...] = ()
    given_up: tuple[Host, ...] = ()


class Wanting:
    """The polls of one cluster."""

    def __init__(self) -> None:
        self._absent: set[str] = set()

    def asked(self, records: Mapping[str, Record], hosts: Iterable[Host]) -> Asked:
        """`records`: of before the question. `hosts`: that the batch system has started and ended."""
        known = {host.name: host for host in hosts if host.wanted != Wanted.NOTHING}
        ours = {name: each for name, each in records.items() if each.is_wanted}
        absent = ours.keys() - known.keys()
        gone = dict.fromkeys(absent & self._absent, HIDDEN)
        self._absent = absent
        for name in ours.keys() & known.keys():
            if reason := _reason(ours[name], known[name]):
                gone[name] = reason
        awaited = sorted(name for name, host in known.items() if host.wanted == Wanted.START)
        return Asked(
            start=tuple(known[name] for name in awaited if name not in records),
            end={name: why for name, why in gone.items() if ours[name].stage == Stage.SERVING},
            undo={name: why for name, why in gone.items() if ours[name].stage in ADDING},
            later=tuple(n for n in awaited if n in ours and ours[n].stage not in (*ADDING, Stage.SERVING)),
            given_up=tuple(known[name] for name in sorted(known) if is_given_up(known[name])),
        )


def is_given_up(host: Host) -> bool:
    return host.wanted == Wanted.END and host.word.partition("+")[0] == "DOWN"


def _reason(record: Record, host: Host) -> str:
    """Why a node is to be removed; "": it is not."""
    if host.wanted == Wanted.END:
        return GIVEN_UP.format(reason=host.reason or host.word) if is_given_up(host) else POWERED_DOWN
    is_old = record.stage == Stage.SERVING and host.wanted == Wanted.START
    return AGAIN if is_old else ""


# -- what is decided ------------------------------------------------------------------------------------------------


def obeyed(options: Options, seen: Seen, asked: Asked, missing: str = "") -> Decision:
    """In the place of deciding.decide, if the batch system decides. `missing`: why the plan cannot be followed."""
    fitting, why = [], list[str]()
    for host in asked.start:
        kind = None if missing else kind_for(host, seen.kinds)
        if not host.slots:
            why.append(f"{host.name} is not started: it is not in the partition {options.queue}")
        elif kind is None:
            why.append(f"{host.name} is not started: {missing or _no_kind(host)}")
        else:
            fitting.append(Start(host.name, kind._replace(slots=host.slots)))
    room = max(0, options.max_nodes - seen.paid)
    starts, held = fitting[:room], fitting[room:]
    if starts:
        why.insert(0, f"started: Slurm wants {_names([each.name for each in starts])}")
    if held:
        names = _names([each.name for each in held])
        why.append(
            f"Slurm wants {names}, and the cluster has its {options.max_nodes} nodes then; Slurm gives nodes up that "
            "have not come in its ResumeTimeout: publish a larger --max_nodes"
        )
    why.extend(f"{name} is removed: {reason}" for name, reason in {**asked.end, **asked.undo}.items())
    why.extend(f"{name} is started as soon as its machine from before has been ended" for name in asked.later)
    why.extend(map(_given_up, asked.given_up))
    if not why:
        why.append("no node is added or removed: Slurm decides, and it waits for no node and has powered none down")
    return Decision(starts=tuple(starts), needed=len(asked.start), why=tuple(why), is_full=bool(held) and not starts)


def overlooked(asked: Asked) -> tuple[str, ...]:
    """What is told if the batch system does not decide."""
    if not asked.start:
        return ()
    names = _names([host.name for host in asked.start])
    return (f"Slurm waits for {names}, which the plan does not have started: publish it with --decides slurm",)


def kind_for(host: Host, kinds: Sequence[Kind]) -> Kind | None:
    """The cheapest with enough slots; None: none has."""
    return next((each for each in kinds or (Kind(),) if not each.slots or each.slots >= host.slots), None)


def _no_kind(host: Host) -> str:
    return f"Slurm says that it has {host.slots} CPUs, and no kind of elastic.kinds that the plan allows has so many"


def _given_up(host: Host) -> str:
    reason = f" ({host.reason})" if host.reason else ""
    return (
        f"Slurm has given up {host.name}{reason}, and does not use it: see why, then "
        f"`scontrol update NodeName={host.name} State=RESUME`"
    )


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
