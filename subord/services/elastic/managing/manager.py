"""Polls the batch system of a cluster, decides, and has nodes added and removed.

Inputs are a plan, and the answers of the batch system and the supplier; outputs are records, walks of nodes through
their stages, and a State for the daemon. Invariants: the records of all nodes that a poll adds or removes are on the
disk before the first work; a question without an answer, or a fault of ours, ends nothing: the next poll asks again;
under a plan for trial nothing is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from subord.runtime.elastic.state import MANAGES, POLLS_MAX, Poll, State
from subord.runtime.record_file import RecordsError
from subord.services.batch.naming import next_names
from subord.services.batch.records import Queue, Unavailable
from subord.services.elastic.clock import Clock
from subord.services.elastic.deciding import Decision, decide, not_added
from subord.services.elastic.managing import telling
from subord.services.elastic.managing.advancing import begun, removed
from subord.services.elastic.managing.kept import InThread, Kept
from subord.services.elastic.managing.looking import Looking, Own
from subord.services.elastic.managing.losing import Losing
from subord.services.elastic.managing.renewing import Renewing
from subord.services.elastic.managing.sighting import MINUTE_S, Sight, Sighting
from subord.services.elastic.managing.walking import Walks
from subord.services.elastic.managing.wanting import Asked, Wanting, obeyed, overlooked
from subord.services.elastic.managing.working import Cluster, Working
from subord.services.elastic.options import SLURM, Options
from subord.services.elastic.plan import Plan
from subord.services.elastic.seen import Kind, Seen
from subord.services.elastic.stages import REMOVING, Record, Stage
from subord.services.elastic.suppliers import Failed

logger = logging.getLogger("subord")
END_S: Final = 7.0
"""For works under way when the manager is to end; the agent has 10 s."""
TELL_S: Final = 1.0
PAUSE_S_MIN: Final = 1.0
ASKED_S_MIN: Final = 2.0
"""Between two polls for which the manager is asked."""
STARTS_FAILED: Final = 3
IDLE: Final = "no job waits, and it is idle"
DECIDED: Final = "elastic: decided: "
"""Begins the line of the log for a poll that adds or removes nodes."""


class Manager:
    """`plan`: one that is not off. `version`: of its document. `tell`: gets a State after each poll, and after
    changes of stages, at most one in TELL_S. What `tell` raises ends the manager."""

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        tell: Callable[[State], Awaitable[None]],
        *,
        version: int = 0,
        clock: Clock | None = None,
        in_thread: InThread = trio.to_thread.run_sync,
    ) -> None:
        if plan.options is None:
            raise ValueError("the plan is off")
        self._cluster = cluster
        self._plan = plan
        self._options: Options = plan.options
        self._tell = tell
        self._version = version
        self._clock = clock = clock or Clock()
        self._kept = Kept(cluster.records, in_thread)
        self._sighting = Sighting(
            cluster, self._kept, clock, plan.prefixes, self._options.lookback_window_min * MINUTE_S
        )
        self._losing = Losing(cluster.wait_s)
        self._wanting = Wanting()
        self._is_asked = trio.Event()
        self._looking = Looking(self._options.queue, cluster.master, kinds_of(plan, cluster))
        working = Working(cluster, plan, self._kept, clock)
        self._walks = Walks(self._kept, working, clock, cluster.wait_s, self._mark)
        self._renewing = Renewing(self._kept, working, plan.mark, clock, self._mark)
        self._is_dirty = trio.Event()
        self._polls: list[Poll] = []
        self._sight: Sight | None = None
        self._seen: Seen | None = None
        self._decision = Decision()
        self._notes: tuple[str, ...] = ()
        self._fault = ""
        self._at = self._next_at = self._blocked_since = 0.0

    async def run(self) -> None:
        """Until it is cancelled: works under way then have END_S to end, and records stay. Raises RecordsError: the
        records could not be read at the start."""
        await self._kept.load()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_changes)
            try:
                if not self._plan.is_trial:
                    self._walks.start(nursery)
                while True:
                    await self._poll_once(nursery)
                    await self._pause()
            finally:
                self._walks.end(END_S)

    def poll_soon(self) -> None:
        """Poll now, or ASKED_S_MIN after the last poll."""
        self._is_asked.set()

    async def _pause(self) -> None:
        """Until the next poll."""
        left_s = min(self._next_at - self._clock.now(), float(self._options.interval_s))  # the clock may be set back
        pause_s = max(PAUSE_S_MIN, left_s)
        soon_s = min(pause_s, ASKED_S_MIN)
        await self._clock.sleep(soon_s)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wake, nursery.cancel_scope)
            await self._clock.sleep(pause_s - soon_s)
            nursery.cancel_scope.cancel()
        self._is_asked = trio.Event()

    async def _wake(self, scope: trio.CancelScope) -> None:
        await self._is_asked.wait()
        scope.cancel()

    # -- polls ----------------------------------------------------------------------------------------------------

    async def _poll_once(self, nursery: trio.Nursery) -> None:
        self._next_at = self._clock.now() + self._options.interval_s
        try:
            fault = await self._poll()
        except RecordsError as error:
            fault = str(error)
        except Exception as error:  # a fault of ours; the next poll may do
            logger.exception("elastic: a poll failed")
            fault = f"this release has failed ({type(error).__name__}): the log of the agent has the details"
        if fault and fault != self._fault:
            logger.error("elastic: %s", fault)
        self._fault = fault
        if not self._plan.is_trial:
            self._walks.start(nursery)
            self._renewing.start(nursery)
        self._mark()

    async def _poll(self) -> str:
        """A fault; "": there was none."""
        if not self._plan.is_trial:
            await self._set_clock_back(self._clock.now())
        sight = await self._sighting.sight()
        if isinstance(sight, str):
            return f"{sight}; nothing was decided: the next poll asks again"
        now, lost = self._clock.now(), list[Record]()
        if not self._plan.is_trial:
            lost = self._losing.lost(sight.serving, sight.hosts, sight.listed, now)
        duration_s, wait_s = self._sighting.averages.duration_s, self._sighting.averages.wait_s
        seen = self._looking.seen(sight.queue, sight.hosts, self._own(sight, lost), duration_s)
        asked = self._wanting.asked({**sight.coming, **sight.serving, **sight.going}, sight.wanted)
        decision = self._decided(seen, asked, now)
        self._sight, self._seen, self._decision, self._at = sight, seen, decision, now
        self._notes = tuple(telling.notes(sight, self._walks.failing))
        name = self._options.queue
        self._polls.append(telling.poll_of(seen, sight.queue, sight.hosts, name, (duration_s, wait_s)))
        del self._polls[:-POLLS_MAX]
        self._note_block(decision, now)
        if not self._plan.is_trial:
            self._walks.unwanted = asked.undo
            await self._change(decision, asked, sight, lost, now)
        return "; ".join(sight.faults)

    async def _set_clock_back(self, now: float) -> None:
        """If the clock was set back, nothing is waited for as long as that. Raises RecordsError."""
        await self._kept.not_after(now)
        self._walks.failing = self._walks.failing.not_after(now)
        self._blocked_since = min(self._blocked_since, now)

    def _decided(self, seen: Seen, asked: Asked, now: float) -> Decision:
        if self._options.decides == SLURM:
            return obeyed(self._options, seen, asked, wrong_kinds(self._plan, self._cluster))
        decision = self._possible(decide(self._options, seen, self._kept.counters.changed_at), now)
        return decision._replace(why=(*decision.why, *overlooked(asked)))

    async def _change(self, decision: Decision, asked: Asked, sight: Sight, lost: list[Record], now: float) -> None:
        """Raises RecordsError."""
        reasons = {**dict.fromkeys(decision.remove, IDLE), **asked.end}
        taken = {each.name for each in lost}
        gone = [removed(self._kept.records[name], now, why) for name, why in reasons.items() if name not in taken]
        names = {
            self._cluster.master,
            *self._kept.records,
            *(host.name for host in (*sight.hosts, *sight.wanted)),
            *(sight.listed or ()),
            *sight.unknown,
        }
        kind = decision.kind
        new = [
            begun(each.name, each.number, kind.name, kind.slots, now)
            for each in next_names(self._plan.prefix, names, decision.add)
        ]
        new += [begun(each.name, 0, each.kind.name, each.kind.slots, now, is_wanted=True) for each in decision.starts]
        if records := (*lost, *gone, *new):
            await self._kept.put(*records, changed_at=now)
            if gone or new:
                logger.info("%s%s", DECIDED, "; ".join(decision.why))
            for each in records:
                logger.info("elastic: %s: %s%s", each.name, each.stage, f": {each.reason}" if each.reason else "")
        if decision.terminate:
            self._notes = (*self._notes, await self._terminate(sight))

    def _own(self, sight: Sight, lost: list[Record]) -> Own:
        """A node that serves, and that the batch system does not have, is paid for like one that is coming."""
        leaving = {each.name for each in lost if each.stage in REMOVING}
        known = {host.name for host in sight.hosts if host.slots} - {
            each.name for each in lost if each.stage not in REMOVING
        }
        serving = {name: each for name, each in sight.serving.items() if name not in leaving}
        coming = {**sight.coming, **{name: each for name, each in serving.items() if name not in known}}
        paid = {
            name: each.entered_at if each.paid_since is None else each.paid_since for name, each in serving.items()
        }
        return Own(
            up_since={**paid, self._cluster.master: self._clock.shown(self._cluster.paid_since)},
            coming={name: each.slots for name, each in coming.items()},
            going={*sight.going, *leaving},
            unknown=len(sight.unknown),
        )

    def _possible(self, decision: Decision, now: float) -> Decision:
        """No node is added with kinds that the configuration lacks, or soon after others that could not be added."""
        wrong, left_s = wrong_kinds(self._plan, self._cluster), self._walks.failing.until - now
        if not wrong and left_s > 0:
            wrong = f"the last nodes could not be added, so the next one is begun in {left_s:.0f} s"
        if not wrong or not decision.add:
            return decision
        return decision._replace(add=0, why=(f"{not_added(decision.needed)}: {wrong}",), kind=Kind())

    def _note_block(self, decision: Decision, now: float) -> None:
        coming = self._kept.coming.values()
        fails = self._walks.failing.rounds > 0 or any(
            each.stage == Stage.STARTING and each.tries >= STARTS_FAILED for each in coming
        )
        is_full = decision.is_full and not decision.add and not decision.starts
        is_blocked = is_full if decision.needed and not fails else fails and bool(decision.needed or coming)
        self._blocked_since = (self._blocked_since or now) if is_blocked else 0.0

    async def _terminate(self, sight: Sight) -> str:
        """End the queue's node, the last one; the sentence says what came of it."""
        if self._kept.records or sight.unknown:
            return "the cluster stays: other nodes are still paid for"
        if not sight.is_list_known:
            return "the cluster stays: the supplier does not say which nodes there are"
        queue, hosts = await self._cluster.adapter.queue(), await self._cluster.adapter.hosts()
        if isinstance(queue, Unavailable) or isinstance(hosts, Unavailable):
            return "the cluster stays: the batch system gave no answer"
        assert isinstance(queue, Queue)
        if queue.jobs or any(host.used or host.busy for host in hosts):
            return f"the cluster stays: {len(queue.jobs)} jobs have not ended, such as those that are held"
        stopped = await self._cluster.supplier.stop(self._cluster.master)
        if isinstance(stopped, Failed):
            return f"the queue's node could not be ended, which the next poll tries again: {stopped.reason}"
        logger.info("elastic: the cluster ends: the supplier was told to end %s", self._cluster.master)
        return f"the supplier was told to end {self._cluster.master}, the last node"

    # -- telling --------------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        self._is_dirty.set()

    async def _tell_changes(self) -> None:
        while True:
            await self._is_dirty.wait()
            self._is_dirty = trio.Event()
            state = self._state()
            self._polls = []
            await self._tell(state)
            await trio.sleep(TELL_S)

    def _state(self) -> State:
        seen, counters, options = self._seen, self._kept.counters, self._options
        hosts = self._sight.hosts if self._sight is not None else ()
        unknown = telling.unknown_in(self._sight)
        nodes = telling.table(self._kept.records, hosts, seen, self._cluster.master, unknown)
        state = State(
            word=MANAGES,
            version=self._version,
            is_trial=self._plan.is_trial,
            batch=self._cluster.batch,
            queue=telling.cut(options.queue),
            master=telling.cut(self._cluster.master),
            at=self._at,
            next_at=self._next_at,
            fault=telling.cut(self._fault or self._kept.fault),
            why=telling.sentences(self._notes, self._decision.why),
            needed=self._decision.needed,
            min_nodes=options.min_nodes,
            max_nodes=options.max_nodes,
            changed_at=max(0.0, counters.changed_at),
            blocked_since=self._blocked_since,
            added=counters.added,
            removed=counters.removed,
            undone=counters.undone,
            nodes=nodes.nodes,
            left_out=nodes.left_out,
            polls=tuple(self._polls),
        )
        return telling.with_sight(state, seen, self._sight)


def kinds_of(plan: Plan, cluster: Cluster) -> tuple[Kind, ...]:
    """The cheapest first."""
    wanted = plan.kinds or tuple(cluster.kinds)
    return tuple(Kind(name, cluster.kinds[name]) for name in wanted if name in cluster.kinds)


def wrong_kinds(plan: Plan, cluster: Cluster) -> str:
    """Which kinds of the plan the configuration lacks; "": none."""
    missing = [name for name in plan.kinds if name not in cluster.kinds]
    if not missing:
        return ""
    return f"the plan wants nodes of the kind {missing[0]}, which elastic.kinds of the queue's node lacks"
