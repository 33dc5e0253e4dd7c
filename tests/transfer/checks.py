"""Invariants of two simulated clusters, each with arithmetic of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from subord.services.transfer.cells.interface import Being
from subord.services.transfer.exchange import Answer, Submit
from subord.services.transfer.home import Verb, Verdict
from subord.services.transfer.jobs import Key, Wanted
from tests.transfer.batch import Job
from tests.transfer.world import BrokenError, World

if TYPE_CHECKING:
    from tests.transfer.agent import Agent

WAY_S = 8
"""Of a message and two commands, in a calm world."""


def check_verdict(world: World, job: Job, key: Key, verdict: Verdict) -> None:
    """What the batch system at home is told of an attempt is true, and stays so."""
    runs = world.by_key[key]
    if any(each.ended is None for each in runs):
        raise BrokenError(f"early: {key} is over at home as {verdict}, and runs")
    match verdict.verb:
        case Verb.AGAIN | Verb.STAY:
            if runs:
                raise BrokenError(f"home: {key} goes home as {verdict}, and has run abroad: {runs}")
            could_run = len(job.words) == 3 and not (job.requests or job.killed or world.is_rough)
            if verdict.verb == Verb.STAY and could_run and key.cluster not in world.doubts:
                raise BrokenError(f"marked: {key} could run abroad: {verdict}")
        case Verb.EXIT:
            if not runs or (runs[0].status, runs[0].signal) != (verdict.number, 0):
                raise BrokenError(f"status: {key} ends as {verdict}, and truly as {runs}")
        case Verb.KILL:
            true = (runs[0].signal if runs else 9) == verdict.number
            is_lost = job.killed and key.cluster in world.doubts  # it ended by itself while it was being deleted
            if not (true or is_lost) or (not runs and not job.killed):
                raise BrokenError(f"signal: {key} ends as {verdict}, and truly as {runs}")
        case Verb.ERROR:
            world.counts["unknown"] += 1
            if key.cluster not in world.doubts:
                raise BrokenError(f"unknown: {key} ends as {verdict}, and no memory was lost: {runs}")
    world.returned.add(key)


def check_permits(agent: Agent, taken: Sequence[Submit], answer: Answer, now: float) -> None:
    """Each job that came had a permit of this life, whose lease was not over, and that no other job has used."""
    for each in taken:
        granted = agent.grants.pop(each.permit, None)
        if granted is None:
            raise BrokenError(f"permit: {each.key} came with {each.permit}, which is none")
        if now >= granted + agent.plan.lease_s:
            raise BrokenError(f"lease: {each.key} came {now - granted:.0f} s after its permit")
    for number in answer.grants:
        agent.grants[number] = now
    idle = agent.plan.idle
    if not answer.grants or idle is None:
        return
    new = sum(each.being in (None, Being.HELD) and each.wanted != Wanted.DELETED for each in agent.away.book.alive())
    coming = new + _permits(agent)
    assert answer.pending is not None
    if answer.pending + coming > idle + 1:
        raise BrokenError(f"idle: {answer.pending} wait and {coming} come where {idle} are to wait")


def _permits(agent: Agent) -> int:
    now = agent.clock()
    return sum(now < until for until in agent.away.permits._until.values())


def check_room(agent: Agent) -> None:
    """Foreign jobs in the batch system, those that are still to be submitted, and permits are not above the limit."""
    if not agent.is_alive:
        return
    book = agent.away.book
    marks = {job.mark for job in agent.batch.jobs.values() if job.mark and _counts(agent, job)}
    marks |= {each.key.mark for each in book.alive() if each.spec is not None}
    permits = _permits(agent)
    if len(marks) + permits > agent.plan.slots_max:
        raise BrokenError(f"limit: {len(marks)} foreign jobs and {permits} permits of {agent.plan.slots_max}")


def _counts(agent: Agent, job: Job) -> bool:
    """Not a job that was submitted twice, and is held until it is deleted."""
    record = agent.away.book.records.get(job.key) if job.key else None
    return job.being != Being.HELD or (record is not None and record.id == job.id)


def check_wants(agent: Agent, job: Job, since: int) -> None:
    """In a calm world a job that is suspended or deleted at home is so abroad within two polls."""
    key = job.starter.key
    if key is None or agent.world.now - since <= 2 * agent.plan.poll_s + WAY_S:
        return
    for run in agent.world.by_key[key]:
        assert agent.peer is not None
        there = next((each for each in agent.peer.batch.jobs.values() if each.run is run), None)
        is_late = run.began > since + 2 * agent.plan.poll_s + WAY_S
        if is_late or (there is not None and there.being == Being.RUNNING):
            raise BrokenError(f"wants: {key} still runs {agent.world.now - since} s after it was to be stopped")


def check_looks(agent: Agent) -> None:
    looks = agent.looks[-2:]
    if len(looks) == 2 and looks[1] - looks[0] < min(5, agent.plan.poll_s) and agent.world.now == looks[1]:
        raise BrokenError(f"polls: {looks} are {looks[1] - looks[0]} s apart")


def settled(agents: Iterable[Agent]) -> str:
    """What is still to be done; ""."""
    for agent in agents:
        batch = agent.batch
        if batch.jobs:
            job = next(iter(batch.jobs.values()))
            return f"stuck: {len(batch.jobs)} jobs at {batch.name}: {job}"
        if agent.home.desk.records or agent.home.desk.strange:
            return f"kept: {agent.batch.name} has records of its own jobs: {agent.records()[:2]}"
        if agent.away.book.records:
            return (
                f"kept: {agent.batch.name} has records of foreign jobs: {list(agent.away.book.records.values())[:2]}"
            )
    return ""


def check_ends(world: World, agents: Iterable[Agent]) -> None:
    """Each job of each cluster has ended once, as it truly did."""
    for agent in agents:
        for job in agent.batch.done.values():
            if job.mark or job.outcome in ("lost", "unknown"):
                continue
            if not job.outcome:
                raise BrokenError(f"outcome: {job} has none")
            runs = world.runs[agent.batch.name, job.id]
            if not runs:
                if not job.killed:
                    raise BrokenError(f"never: {job} has not run, and ended")
                continue
            last = runs[-1]
            if job.outcome != f"{last.status} {last.signal}" and not (job.killed and job.outcome == "0 9"):
                raise BrokenError(f"outcome: {job} truly ended as {last}")
