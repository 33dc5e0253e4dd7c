"""The part of the transfer host in a plan: runs a Driver, and tells each daemon that is connected its states.

Inputs are the plan, the configuration of the node, and connections of its daemon; outputs are states. Invariants: as
those of services/role.py; a driver is made when the one before has ended, because the records have one writer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Final

import msgspec
import trio

from subord.config.schema import TransferConfig, listener_of
from subord.runtime.record_file import RecordsError
from subord.runtime.transfer import state
from subord.runtime.transfer.state import JOBS_MAX, PACE_S, State
from subord.runtime.transfer.talk import encode_said
from subord.services import role
from subord.services.acting import Context, Handed
from subord.services.batch.adapter import environment_of
from subord.services.transfer.cells.choosing import cell_of
from subord.services.transfer.cells.interface import Cell
from subord.services.transfer.checking import hosting_fault
from subord.services.transfer.data.spool import DiskUse
from subord.services.transfer.driving.driver import Driver, Site, SocketError
from subord.services.transfer.driving.telling import Both, Seen, state_of
from subord.services.transfer.driving.unit import lacking
from subord.services.transfer.driving.waking import Wake
from subord.services.transfer.linking.certificate import CertificateError, mark_of, read
from subord.services.transfer.linking.context import ends_of
from subord.services.transfer.linking.link import Key, Link
from subord.services.transfer.plan import Plan
from subord.services.transfer.records import Records
from subord.services.transfer.thresholds import sensor_fault

logger = logging.getLogger("subord")
HALTED: Final = "no job crosses, and those that are away run on"


def _cell(config: TransferConfig, plan: Plan) -> Cell:
    queues = tuple(each.name for each in plan.queues)
    environment = environment_of(config.batch_environment)
    return cell_of(config.batch, queues, environment, remote=plan.opt_out, uid_min=plan.uid_min)


async def _link(config: TransferConfig, plan: Plan) -> Link:
    """Raises CertificateError."""
    peer = plan.peer
    assert peer is not None
    key = Key(config.key, await trio.to_thread.run_sync(mark_of, config.key))
    ends = await trio.to_thread.run_sync(lambda: ends_of(read(config.key), peer.certificates))
    return Link(peer, ends, listener_of(config.listen) if config.listen else None, key)


make_cell: Callable[[TransferConfig, Plan], Cell] = _cell
make_link: Callable[[TransferConfig, Plan], Awaitable[Link]] = _link


class Role(role.Role):
    """From when this node becomes the transfer host of a plan until another one takes over, or the daemon is gone."""

    NAME = "transfer"
    ALONE = "no job crosses until it is back"
    REVOKED = "the operator of the plan counts no more: no job crosses until there is another plan"

    def __init__(self, handed: Handed, plan: Plan, context: Context) -> None:
        super().__init__(handed)
        self._plan = plan
        self._context = context
        self._state = State(word=state.TRANSFERS, version=self.order.version, batch=context.transfer.batch)
        self._number = 0
        """Of the state."""
        self._unit_fault = ""
        self._wake = Wake()

    async def manage(self) -> str:
        """Until it is cancelled; the fault that hinders it."""
        context, config, plan = self._context, self._context.transfer, self._plan
        if fault := await trio.to_thread.run_sync(hosting_fault, config):
            return f"{fault}; {HALTED}"
        self._unit_fault = await trio.to_thread.run_sync(lacking, config.socket)
        if self._unit_fault:
            logger.error("transfer: %s", self._unit_fault)
        try:
            link = await make_link(config, plan)
            with closing(await trio.to_thread.run_sync(Records, context.directory)) as records:
                if fault := await trio.to_thread.run_sync(records.rename, plan.cluster, plan.peer_name):
                    return f"{fault}; {HALTED}"
                site = Site(records, make_cell(config, plan), link, config.socket)
                driver = await Driver.begun(plan, site, self._wake.call)
                await self._run(driver, link)
        except (RecordsError, CertificateError) as error:
            return f"{error}; {HALTED}"
        except BaseExceptionGroup as group:
            errors, others = group.split((RecordsError, SocketError))
            if errors is None or others is not None:
                raise
            first = _first(errors)
            remedy = f": {self._unit_fault or 'correct transfer.socket'}" if isinstance(first, SocketError) else ""
            return f"{first}{remedy}; {HALTED}"
        return ""

    async def _run(self, driver: Driver, link: Link) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(driver.serve)
            while True:
                self._state = self._seen(driver, link)
                self._number += 1
                self.note()
                await self.check_revoked()
                is_large = len(self._state.jobs) == JOBS_MAX
                await trio.sleep(self._plan.poll_s if is_large else PACE_S)
                await self._wake.wait(self._plan.poll_s)

    def _seen(self, driver: Driver, link: Link) -> State:
        polling, exchanging, starters = driver.polling, driver.exchanging, driver.starters
        last = max(driver.packing.faults, driver.coming.faults, key=lambda each: each.at)
        seen = Seen(
            at=polling.at,
            fault=polling.fault,
            looks=polling.looks,
            calls_failed=polling.failed,
            heard_at=exchanging.heard_at,
            asked_at=exchanging.asked_at,
            link_fault=exchanging.fault,
            listening_fault=link.listening_fault,
            key_fault=link.key_fault,
            unit_fault=self._unit_fault,
            sensor_fault=sensor_fault(self._context.transfer.batch, self._plan.queues, starters.silent_s),
            starters=len(starters),
            files={"sent": driver.coming.sent, "received": driver.received},
            file_failures=driver.packing.faults.failed + driver.coming.faults.failed,
            directories=len(driver.coming.places),
            waiting=driver.packing.waiting(),
            spool=_spool(driver.packing.disk_use),
            file_fault=last.last,
            file_fault_at=last.at,
        )
        sides = driver.sides
        both = Both(sides.home, sides.away, sides.counts.home, sides.counts.away, sides.clock(), tuple(sides.over))
        return state_of(both, seen, link.counts, self.order.version, self._context.transfer.batch)

    def fail(self, fault: str) -> None:
        """As role.Role."""
        self._state = msgspec.structs.replace(self._state, word=state.FAILED, detail=fault)

    def news(self, sent: int) -> tuple[Iterator[bytes], int]:
        """The present state."""
        return map(encode_said, (self._state,)), max(sent, self._number)


def _spool(found: DiskUse | None) -> dict[str, int]:
    return {} if found is None else {"bytes": found.used, "free": found.free}


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
