"""Two drivers with batch systems in memory: jobs cross, are suspended and deleted, end once, and survive deaths."""

from __future__ import annotations

import getpass
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import passing_time
import pytest
import trio
import trio.testing

from subord.runtime.record_file import RecordsError
from subord.services.batch.records import Refused
from subord.services.transfer import exchange
from subord.services.transfer.answering import Caller
from subord.services.transfer.cells.interface import Being, Deed
from subord.services.transfer.driving import exchanging
from subord.services.transfer.driving.driver import Driver, Site
from subord.services.transfer.exchange import ExchangeError, Stage, decode_answer, decode_message, encode
from subord.services.transfer.jobs import End, Spec, Wanted
from subord.services.transfer.linking.asking import LinkError
from subord.services.transfer.local import (
    ACCEPTED,
    AGAIN,
    DONE,
    ERROR,
    EXIT,
    PENDING,
    SENT,
    SIGNAL,
    WRONG,
    Answer,
    Request,
    Sense,
    Start,
    Want,
    answer_in,
    line_of,
)
from subord.services.transfer.plan import Peer, Plan, TransferQueue, User
from subord.services.transfer.records import Records
from subord.services.transfer.states import AwayRecord, HomeRecord, HomeState
from subord.services.transfer.thresholds import NOT_KNOWN
from tests.transfer.cell_in_memory import MemoryCell, MemoryLink

pytestmark = pytest.mark.slow
"""They write files, and ask by sockets."""

ME = getpass.getuser()
QUEUE = "transfer"
WAIT_S_MAX = 900.0
"""By a clock that jumps."""


def plan_of(name: str, other: str, **changed: Any) -> Plan:
    peer = Peer(name=other, addresses=("127.0.0.1:7118",), certificates=("AAAA",))
    own: dict[str, Any] = {
        "host": 1,
        "cluster": name,
        "peer": peer,
        "queues": (TransferQueue(name=QUEUE),),
        "slots_max": 8,
        "users": (User(theirs=ME, ours="ann"),),
    }
    return Plan(**{**own, **changed})


@dataclass
class Side:
    """One cluster: `driver` None: its agent is dead."""

    plan: Plan
    folder: Path
    cell: MemoryCell = field(default_factory=MemoryCell)
    link: MemoryLink = field(default_factory=MemoryLink)
    driver: Driver | None = None
    fails: bool = False

    @property
    def socket(self) -> str:
        return str(self.folder / "methods")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Driver]:
        records = Records(str(self.folder))
        try:
            driver = self.driver = await Driver.begun(self.plan, Site(records, self.cell, self.link, self.socket))
            async with trio.open_nursery() as nursery:
                await nursery.start(driver.serve)
                yield driver
                nursery.cancel_scope.cancel()
        finally:
            self.driver = None
            records.close()


@dataclass
class Starter:
    """A method of a job, which asks again after its agent has died, as starting.py does."""

    side: Side
    job: str
    task: int = 0
    words: list[Answer] = field(default_factory=list)
    is_alive: bool = True
    tries: int = 0

    async def run(self) -> None:
        while self.is_alive and not self.end:
            self.tries += 1
            try:
                async with await trio.open_unix_socket(self.side.socket) as stream:
                    await stream.send_all(line_of(self._request()))
                    await self._hear(stream)
            except (OSError, trio.BrokenResourceError):
                pass
            await trio.sleep(2)

    def _request(self) -> Start:
        attempt = next((each.number for each in reversed(self.words) if each.word == ACCEPTED), 0)
        was_sent = any(each.word == SENT for each in self.words)
        return Start(job=self.job, task=self.task, queue=f"{QUEUE}@host", attempt=attempt, was_sent=was_sent)

    async def _hear(self, stream: trio.SocketStream) -> None:
        data = b""
        while part := await stream.receive_some(4096):
            data += part
            *lines, data = data.split(b"\n")
            self.words += [answer_in(each) for each in lines]
            if self.end:
                return

    @property
    def end(self) -> Answer | None:
        return next((each for each in self.words if each.word in (EXIT, SIGNAL, AGAIN, ERROR, WRONG)), None)


async def asked(side: Side, request: Request) -> Answer:
    async with await trio.open_unix_socket(side.socket) as stream:
        await stream.send_all(line_of(request))
        return answer_in(await stream.receive_some(4096))


async def until(condition: Callable[[], object], what: str) -> None:
    for _ in range(int(WAIT_S_MAX)):
        if condition():
            return
        await trio.sleep(1)
    raise AssertionError(f"never happened: {what}")


@pytest.fixture
def clock() -> trio.testing.MockClock:
    return trio.testing.MockClock()


@pytest.fixture
async def sides(tmp_path: Path, clock: trio.testing.MockClock) -> tuple[Side, Side]:
    await trio.lowlevel.checkpoint()
    passing_time.start(clock)
    found = []
    for name, other in (("one", "two"), ("two", "one")):
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        found.append(Side(plan_of(name, other), folder))
    here, there = found
    here.link.peer, there.link.peer = there.link, here.link
    return here, there


SPEC = Spec(user=ME, name="sleeper", script="sleep 1\n")


@asynccontextmanager
async def crossing(here: Side, there: Side, *jobs: str) -> AsyncIterator[list[Starter]]:
    """Both agents run, and these jobs of `here` are in its transfer queue."""
    starters = [Starter(here, each) for each in jobs]
    async with here.running(), there.running(), trio.open_nursery() as nursery:
        for each in starters:
            here.cell.add(each.job, SPEC)
            nursery.start_soon(each.run)
        yield starters
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("end", "answer"),
    [
        pytest.param(End(), Answer(EXIT, 0), id="well"),
        pytest.param(End(status=7), Answer(EXIT, 7), id="status"),
        pytest.param(End(signal=15), Answer(SIGNAL, 15), id="signal"),
    ],
)
async def test_a_job_crosses_and_its_end_comes_back(
    sides: tuple[Side, Side],
    end: End,
    answer: Answer,
    clock: object,
) -> None:
    here, there = sides
    async with crossing(here, there, "12") as (starter,):
        await until(lambda: any(each.being == Being.RUNNING for each in there.cell.jobs.values()), "it runs")
        assert here.cell.bound == {("12", 0)}
        assert [each.word for each in starter.words] == [ACCEPTED, SENT]
        assert [user for _, user in there.cell.submitted] == ["ann"]
        there.cell.end("1001", end)
        await until(lambda: starter.end, "its end is told")
        assert starter.end == answer
        del here.cell.leaving["12", 0]
        assert here.driver is not None
        await until(lambda: not here.driver.sides.home.desk.records, "it is forgotten at home")
        await until(lambda: not there.driver.sides.away.book.records, "it is forgotten away")
        assert here.cell.bound == set()
        assert len(here.driver.starters) == 0
        (over,) = here.driver.sides.over
        assert (over.key.job, over.user, over.id, over.end) == ("12", ME, "1001", end), "it is kept for a while"


def on_disk(side: Side) -> tuple[dict[str, HomeRecord], dict[str, AwayRecord]]:
    """By marks."""
    with closing(sqlite3.connect(side.folder / "transfer" / "jobs.db")) as file:
        rows = {table: dict(file.execute(f"select mark, body from {table}")) for table in ("home", "away")}
    of_home = {mark: msgspec.json.decode(body, type=HomeRecord) for mark, body in rows["home"].items()}
    of_away = {mark: msgspec.json.decode(body, type=AwayRecord) for mark, body in rows["away"].items()}
    return of_home, of_away


async def test_what_follows_from_a_record_is_done_when_it_is_on_the_disk(
    sides: tuple[Side, Side], clock: object
) -> None:
    """Otherwise a process that dies in between would not know of the job, and it could run twice."""
    here, there = sides
    seen = Counter[str]()
    starters = dict[str, Starter]()

    def asked_of(body: bytes) -> None:
        for submit in decode_message(body).submits:
            seen["sent"] += 1
            assert on_disk(here)[0][submit.key.mark].state == HomeState.SENDING
            assert here.cell.bound >= {submit.key.work}, "it is bound before"

    def answered(body: bytes) -> None:
        for told in decode_answer(body).states:
            seen[told.stage] += 1
            assert on_disk(there)[1][told.key.mark].stage in (told.stage, Stage.HERE)

    def submitted(mark: str) -> None:
        seen["submitted"] += 1
        assert on_disk(there)[1][mark].stage == Stage.TAKEN

    def bound(work: tuple[str, int]) -> None:
        seen["bound"] += 1
        assert [each.is_bound for each in on_disk(here)[0].values() if each.key.work == work] == [True]

    def acted(deed: Deed, mark: str) -> None:
        seen[deed] += 1
        assert on_disk(there)[1][mark].is_released == (deed == Deed.RELEASE)

    here.link.on_ask, here.link.on_answer = asked_of, answered
    here.cell.on_bind, there.cell.on_submit, there.cell.on_act = bound, submitted, acted
    async with crossing(here, there, "12", "14", "16") as found:
        starters.update({each.job: each for each in found})

        def end_those_that_run() -> bool:
            for number in [each for each, job in there.cell.jobs.items() if job.being == Being.RUNNING]:
                assert on_disk(there)[1][there.cell.jobs[number].mark].is_released, "it was released before"
                there.cell.end(number, End(status=4))
            return all(each.end for each in found)

        await until(end_those_that_run, "all have ended")
    assert {each.end for each in found} == {Answer(EXIT, 4)}
    assert (seen["sent"], seen["submitted"], seen["bound"], seen[Deed.RELEASE]) == (3, 3, 3, 3)
    assert seen[Stage.ENDED] >= 3


async def test_a_starter_hears_that_its_job_is_sent_before_it_is(sides: tuple[Side, Side], clock: object) -> None:
    here, there = sides

    async with crossing(here, there) as _, trio.open_nursery() as nursery:
        starter = Starter(here, "12")
        told = list[Answer]()

        def asked_of(body: bytes) -> None:
            if decode_message(body).submits:
                told.extend(heard)

        heard = list[Answer]()

        async def tell(word: Answer) -> None:
            heard.append(word)
            await trio.lowlevel.checkpoint()

        here.link.on_ask = asked_of
        here.cell.add("12", SPEC)
        assert here.driver is not None
        caller = Caller(1, os.getuid())
        nursery.start_soon(here.driver.starters.start, caller, Start(job=starter.job, queue=QUEUE), tell)
        await until(lambda: there.cell.jobs, "it is away")
        assert [each.word for each in told] == [ACCEPTED, SENT]
        nursery.cancel_scope.cancel()


async def test_suspend_resume_and_terminate_follow(sides: tuple[Side, Side], clock: object) -> None:
    here, there = sides
    async with crossing(here, there, "12") as (starter,):
        await until(lambda: any(each.being == Being.RUNNING for each in there.cell.jobs.values()), "it runs")
        for wanted, being in ((Wanted.SUSPENDED, Being.SUSPENDED), (Wanted.RUN, Being.RUNNING)):
            began = trio.current_time()
            leaving = here.cell.leaving["12", 0]
            here.cell.leaving["12", 0] = leaving._replace(is_suspended=wanted == Wanted.SUSPENDED)
            assert (await asked(here, Want(job="12", wanted=wanted))).word == DONE
            await until(lambda being=being: there.cell.jobs["1001"].being == being, being)
            assert trio.current_time() - began <= 2 * here.plan.poll_s
        assert (await asked(here, Want(job="12", wanted=Wanted.DELETED))).word == DONE
        await until(lambda: starter.end, "its end is told")
        assert starter.end == Answer(SIGNAL, 9)
        assert (Deed.DELETE, "1001") in there.cell.deeds
    assert here.cell.kept == []


async def test_a_burst_stays_within_what_was_offered(sides: tuple[Side, Side], clock: object) -> None:
    here, there = sides
    jobs = [str(each) for each in range(100, 140)]
    async with crossing(here, there, *jobs) as starters:

        def end_those_that_run() -> bool:
            there.cell.start_jobs()
            for number, job in list(there.cell.jobs.items()):
                if job.being == Being.RUNNING:
                    there.cell.end(number, End(status=int(job.mark.split(".")[2]) % 8))
            return all(each.end for each in starters)

        await until(end_those_that_run, "all have ended")
        assert there.cell.most <= there.plan.slots_max
        left = {each.job: each.end for each in starters if each.end.word != AGAIN}
        assert {job: end.number for job, end in left.items()} == {each: int(each) % 8 for each in left}
        assert len({mark for mark, _ in there.cell.submitted}) == len(there.cell.submitted), "a job was sent twice"
        assert max(map(len, here.cell.described)) > 1, "jobs were described singly"
        for cell in (here.cell, there.cell):
            gaps = [later - sooner for sooner, later in zip(cell.looks, cell.looks[1:], strict=False)]
            assert min(gaps) >= here.plan.poll_s - 0.01


async def test_a_job_that_is_refused_goes_home_and_is_marked(
    sides: tuple[Side, Side],
    clock: object,
) -> None:
    here, there = sides
    there.cell.refuses = "no queue has so much memory"
    async with crossing(here, there, "12") as (starter,):
        await until(lambda: starter.end, "it goes home")
        assert starter.end == Answer(AGAIN, 0)
        assert here.cell.kept == ["12"]
        assert here.cell.bound == set()


async def test_what_cannot_be_described_stays(sides: tuple[Side, Side], clock: object) -> None:
    here, there = sides
    async with crossing(here, there):
        here.cell.add("13", Refused("job 13 has a terminal"))
        starter = Starter(here, "13")
        await starter.run()
        assert starter.end == Answer(AGAIN, 0)
        assert here.cell.kept == ["13"]
        assert there.cell.submitted == []


async def test_a_job_of_another_user_is_not_sent(sides: tuple[Side, Side], clock: object) -> None:
    here, _ = sides
    other = Caller(1, os.getuid() + 12_345)

    async def tell(word: Answer) -> None:
        raise AssertionError(word)

    async with here.running() as driver:
        here.cell.add("13", SPEC)
        with pytest.raises(ValueError, match="of another user"):
            await driver.starters.start(other, Start(job="13", queue=QUEUE), tell)
        with pytest.raises(ValueError, match="of another user"):
            await driver.starters.want(other, Want(job="13", wanted=Wanted.DELETED))
        here.cell.add("14", Spec(user="nobody-here", name="x", script="true\n"))
        with pytest.raises(ValueError, match="has no account"):
            await driver.starters.start(other, Start(job="14", queue=QUEUE), tell)
        assert driver.sides.home.desk.records == {}


@pytest.mark.parametrize("job", ["12", "13"], ids=["that could cross", "that stays"])
async def test_an_obstacle_gives_no_right_to_a_job_of_another_user(
    sides: tuple[Side, Side], clock: object, job: str
) -> None:
    """It would end the job, keep it at home, or take its end away from its own starter."""
    here, _ = sides
    other = Caller(1, os.getuid() + 12_345)
    here.cell.add("12", SPEC)
    here.cell.add("13", Refused("job 13 has a terminal"))

    async def tell(word: Answer) -> None:
        raise AssertionError(word)

    async with here.running() as driver:
        for obstacle in ("x", ""):
            with pytest.raises(ValueError, match="of another user"):
                await driver.starters.start(other, Start(job=job, queue=QUEUE, obstacle=obstacle), tell)
        assert driver.sides.home.desk.records == {}
        assert here.cell.kept == []


@pytest.mark.parametrize(
    ("job", "task", "obstacle"),
    [("12", 0, ""), ("12", 0, "x"), ("14", 3, ""), ("99", 0, "x")],
    ids=["that waits", "that waits, with an obstacle", "a task that is not there", "that is not there"],
)
async def test_only_what_is_in_a_transfer_queue_is_sent(
    sides: tuple[Side, Side], clock: object, job: str, task: int, obstacle: str
) -> None:
    here, there = sides
    here.cell.specs["12"] = SPEC
    here.cell.add("14", SPEC, task=1)

    async def tell(word: Answer) -> None:
        raise AssertionError(word)

    async with here.running() as driver, there.running():
        request = Start(job=job, task=task, queue=QUEUE, obstacle=obstacle)
        assert await driver.starters.start(Caller(1, os.getuid()), request, tell) == Answer(AGAIN)
        assert driver.sides.home.desk.records == {}
        assert here.cell.described == []
    assert (here.cell.kept, there.cell.submitted) == ([], [])


async def test_a_starter_may_begin_before_its_job_is_shown_in_the_queue(
    sides: tuple[Side, Side], clock: object
) -> None:
    here, there = sides
    async with crossing(here, there), trio.open_nursery() as nursery:
        starter = Starter(here, "12")
        assert here.driver is not None
        await until(lambda: here.cell.looks, "it was looked before")
        nursery.start_soon(starter.run)
        await trio.sleep(here.plan.poll_s + 1)
        assert (starter.words, there.cell.submitted) == ([], [])
        here.cell.add("12", SPEC)
        await until(lambda: there.cell.jobs, "it is away")
        assert [each.word for each in starter.words] == [ACCEPTED, SENT]
        assert starter.tries == 1
        nursery.cancel_scope.cancel()


async def test_a_job_that_is_known_is_of_its_user_after_a_restart(sides: tuple[Side, Side], clock: object) -> None:
    here, there = sides
    async with trio.open_nursery() as nursery:
        starter = Starter(here, "12")
        here.cell.add("12", SPEC)
        nursery.start_soon(starter.run)
        async with here.running(), there.running():
            await until(lambda: there.cell.jobs, "it is away")
        starter.is_alive = False
        nursery.cancel_scope.cancel()

    async def tell(word: Answer) -> None:
        raise AssertionError(word)

    async with here.running() as driver:
        (key,) = driver.sides.home.desk.records
        for attempt in (0, key.attempt):
            request = Start(job="12", queue=QUEUE, obstacle="x", attempt=attempt)
            with pytest.raises(ValueError, match="of another user"):
                await driver.starters.start(Caller(1, os.getuid() + 12_345), request, tell)
        assert driver.sides.home.desk.records[key].wanted == Wanted.RUN
        assert not driver.sides.home.desk.memos[key].is_here


async def test_a_starter_that_comes_during_a_write_hears_when_its_own_record_is_on_the_disk(
    sides: tuple[Side, Side], clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = sides
    write, begun, goes_on = Records.write, trio.Event(), threading.Event()
    goes_on.set()
    told = dict[str, bool]()

    def slow(records: Records, *changes: Any) -> int:
        if not goes_on.is_set():
            trio.from_thread.run_sync(begun.set)
        assert goes_on.wait(60)
        return write(records, *changes)

    monkeypatch.setattr(Records, "write", slow)
    async with here.running() as driver, trio.open_nursery() as nursery:
        for job in ("12", "14"):
            here.cell.add(job, SPEC)
        await until(lambda: driver.sides.presence.shown("14", 0), "both are shown")

        def start(job: str) -> None:
            async def tell(word: Answer) -> None:
                if word.word == ACCEPTED:
                    await trio.lowlevel.checkpoint()
                    told[job] = any(each.key.job == job for each in on_disk(here)[0].values())

            nursery.start_soon(driver.starters.start, Caller(1, os.getuid()), Start(job=job, queue=QUEUE), tell)

        goes_on.clear()
        start("12")
        await begun.wait()
        start("14")
        with trio.fail_after(WAIT_S_MAX):
            while not driver.sides.home.desk.newest(("14", 0)):
                await trio.to_thread.run_sync(time.sleep, 0.01)
                clock.jump(0.1)  # while the thread waits, time does not pass by itself
        goes_on.set()
        await until(lambda: len(told) == 2, "both are accepted")
        nursery.cancel_scope.cancel()
    assert told == {"12": True, "14": True}


@pytest.mark.parametrize("who", ["home", "away", "both"])
async def test_agents_die_and_each_job_ends_once(
    sides: tuple[Side, Side],
    who: str,
    clock: object,
) -> None:
    here, there = sides
    starters = [Starter(here, str(each)) for each in range(20, 24)]
    async with trio.open_nursery() as nursery:
        for each in starters:
            here.cell.add(each.job, SPEC)
            nursery.start_soon(each.run)
        async with here.running(), there.running():
            await until(lambda: len(there.cell.jobs) == 4, "all are away")
        if who == "home":
            async with there.running():
                await trio.sleep(40)
        if who == "away":
            async with here.running():
                await trio.sleep(40)
        for each in list(there.cell.jobs):
            if there.cell.jobs[each].being == Being.RUNNING:
                there.cell.end(each, End(status=3))
        async with here.running(), there.running():

            def end_those_that_run() -> bool:
                for number in [each for each, job in there.cell.jobs.items() if job.being == Being.RUNNING]:
                    there.cell.end(number, End(status=3))
                return all(each.end for each in starters)

            await until(end_those_that_run, "all have ended")
        nursery.cancel_scope.cancel()
    assert [each.end for each in starters] == [Answer(EXIT, 3)] * 4
    assert len(there.cell.submitted) == 4
    assert all(each.tries >= 2 for each in starters)


async def test_a_link_that_is_cut_is_told_and_jobs_go_on(
    sides: tuple[Side, Side],
    clock: object,
) -> None:
    here, there = sides
    async with crossing(here, there, "12", "14") as starters:
        await until(lambda: len(there.cell.jobs) == 2, "both are away")
        here.link.is_cut = True
        for each in list(there.cell.jobs):
            there.cell.start_jobs()
            there.cell.end(each, End(status=5))
        assert here.driver is not None
        own = here.driver.exchanging
        await until(lambda: own.fault, "the fault is known")
        await trio.sleep(120)
        assert [each.end for each in starters] == [None, None]
        assert await asked(here, Sense()) == Answer(PENDING, NOT_KNOWN)
        here.link.is_cut = False
        await until(lambda: all(each.end for each in starters), "their ends are told")
        assert {each.end for each in starters} == {Answer(EXIT, 5)}
        assert own.fault == ""
        assert await asked(here, Sense()) == Answer(PENDING, 0)


async def test_a_batch_system_that_is_silent_is_told_and_asked_again(
    sides: tuple[Side, Side],
    clock: object,
) -> None:
    here, there = sides
    there.cell.is_silent = True
    async with crossing(here, there, "12") as (starter,):
        assert there.driver is not None
        await until(lambda: there.driver.polling.fault, "the fault is known")
        await trio.sleep(30)
        assert there.cell.submitted == []
        there.cell.is_silent = False
        await until(lambda: there.cell.jobs or starter.end, "it is away")
        assert there.driver.polling.fault == ""


async def test_records_that_cannot_be_written_end_the_driver(
    sides: tuple[Side, Side],
    clock: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, _ = sides
    starter = Starter(here, "12")
    here.cell.add("12", SPEC)

    def full(*_: object) -> int:
        raise RecordsError("the disk is full")

    monkeypatch.setattr(Records, "write", full)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope(), pytest.RaisesGroup(RecordsError, flatten_subgroups=True):
            async with here.running():
                nursery.start_soon(starter.run)
                await trio.sleep(60)
        nursery.cancel_scope.cancel()
    assert starter.words == [], "it was told what is not on the disk"


async def test_what_is_no_message_is_refused_and_counted(
    sides: tuple[Side, Side],
    clock: object,
) -> None:
    here, _ = sides
    async with here.running() as driver:
        with pytest.raises(ExchangeError):
            await driver.exchanging.answer(b"\xc1")
        assert driver.exchanging.unreadable == 1


@asynccontextmanager
async def answering(side: Side, answer: Callable[[bytes], Awaitable[bytes]]) -> AsyncIterator[None]:
    """In place of its driver."""
    async with trio.open_nursery() as nursery:
        await nursery.start(side.link.serve, answer)
        yield
        nursery.cancel_scope.cancel()


async def test_what_a_driver_answers_is_written_before_it_ends(sides: tuple[Side, Side], clock: object) -> None:
    """Of the link of these tests: a file that is closed while a thread writes it can end the process."""
    here, there = sides
    events = list[str]()

    async def write(_body: bytes) -> bytes:
        events.append("writes")
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        events.append("written")
        return b""

    async def ask() -> None:
        with suppress(LinkError):
            await here.link.ask(b"")

    async with trio.open_nursery() as nursery:
        async with answering(there, write):
            nursery.start_soon(ask)
            await until(lambda: events, "it is asked")
        events.append("closed")
    assert events == ["writes", "written", "closed"]


async def test_a_peer_that_always_has_more_is_asked_at_a_pace(sides: tuple[Side, Side], clock: object) -> None:
    here, there = sides

    async def more(body: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        message = decode_message(body)
        answer = exchange.Answer(
            cluster="two", life=1, home_life=message.life, number=message.number, changed=1, is_more=True
        )
        return encode(answer)

    async with answering(there, more), here.running():
        await trio.sleep(20)
    assert 10 <= here.link.asked <= 20 / exchanging.GAP_S + 1


async def test_what_the_peer_writes_is_logged_once_for_each_cause_and_as_one_line(
    sides: tuple[Side, Side], clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = sides
    numbers = iter(range(1000))

    async def refuses(body: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        message = decode_message(body)
        why = f"no {next(numbers)}\n\x1b[2Jroot: all is well"
        return encode(
            exchange.Answer(cluster="two", life=1, home_life=message.life, number=message.number, refused=why)
        )

    async with answering(there, refuses), here.running() as driver:
        await until(lambda: here.link.asked > 5, "it was asked")
        assert driver.exchanging.fault.isprintable()
        here.link.is_cut = True
        await until(lambda: "does not answer" in driver.exchanging.fault, "it is cut")
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [each.isprintable() for each in said] == [True, True], said
    assert "the other cluster refuses: no 0\\n\\x1b[2Jroot" in said[0]
    assert "does not answer" in said[1]


async def test_a_reason_of_the_peer_is_logged_as_one_line(
    sides: tuple[Side, Side], clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = sides
    there.cell.refuses = "no\nroot: all is well"
    async with crossing(here, there, "12") as (starter,):
        await until(lambda: starter.end, "it goes back")
    said = [each.getMessage() for each in caplog.records if "job 12" in each.getMessage()]
    assert said
    assert all(each.isprintable() for each in said), said
