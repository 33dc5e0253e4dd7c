"""What a node that does not manage any more has left of its cluster.

Inputs are the records, the plan that counts now, and the configuration; output is a text for people. A node that was
being drained, and could serve, serves again: nothing else would let jobs start there while no plan names this node.
Invariant: nothing is raised for what the batch system or the disk does; what could not be done is told, and done when
the plan is handed over the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Final

import trio

from subord.client.text import count
from subord.runtime.record_file import RecordsError
from subord.services.acting import Context
from subord.services.batch.adapter import Adapter, adapter_of, environment_of
from subord.services.batch.records import Done as Settled
from subord.services.elastic.clock import Clock
from subord.services.elastic.managing.advancing import served_again
from subord.services.elastic.plan import Plan
from subord.services.elastic.records import Records
from subord.services.elastic.stages import Record, Stage

logger = logging.getLogger("subord")
UNDRAIN_S: Final = 20.0
"""For all nodes; the daemon waits for a word about the plan."""
NAMED_MAX: Final = 3
NO_TIME: Final = "the batch system has not answered in time"
make_adapter: Callable[..., Adapter] = adapter_of


async def left_over(context: Context, plan: Plan, clock: Clock) -> str:
    """What is left, after drained nodes serve again; "": nothing."""
    try:
        with closing(await trio.to_thread.run_sync(Records, context.directory)) as records:
            kept = await trio.to_thread.run_sync(records.all)
            drained = [each for each in kept.values() if _may_serve(each)]
            faults = await _served_again(drained, records, context, plan, clock)
            return _told(await trio.to_thread.run_sync(records.all), faults)
    except RecordsError as error:
        return str(error)


def _may_serve(record: Record) -> bool:
    """Slurm has powered down those that it has asked for itself."""
    is_ours = not (record.is_undone or record.is_lost or record.is_wanted)
    return record.stage == Stage.DRAINING and is_ours


async def _served_again(
    drained: list[Record], records: Records, context: Context, plan: Plan, clock: Clock
) -> dict[str, str]:
    """Why nodes stay drained, by name. Raises RecordsError."""
    config, faults = context.elastic, {each.name: NO_TIME for each in drained}
    if not drained or not config.batch:
        return dict.fromkeys(faults, "elastic.batch of this node is empty")
    environment = environment_of(config.batch_environment)
    adapter = make_adapter(config.batch, plan.options.queue if plan.options is not None else "", environment)
    with trio.move_on_after(UNDRAIN_S):
        for each in drained:
            done = await adapter.undrain(each.name)
            if not isinstance(done, Settled):
                faults[each.name] = done.reason
                continue
            del faults[each.name]
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(records.put, served_again(each, clock.now()))
            logger.info("elastic: %s serves again, as this node does not manage any more", each.name)
    return faults


def _told(kept: dict[str, Record], faults: dict[str, str]) -> str:
    if not kept:
        return ""
    idle = sum(each.stage != Stage.SERVING for each in kept.values())
    some = f", {idle} of which {'does' if idle == 1 else 'do'} not serve" if idle else ""
    stay = "stays" if len(kept) == 1 else "stay"
    text = f"{count(len(kept), 'node')} that this node has added {stay}{some}: only a plan that names this node "
    parts = [f"{text}removes {'it' if len(kept) == 1 else 'them'}"]
    parts += [f"{name} stays drained: {why}" for name, why in list(faults.items())[:NAMED_MAX]]
    if len(faults) > NAMED_MAX:
        parts.append(f"{len(faults) - NAMED_MAX} more stay drained")
    return "; ".join(parts)
