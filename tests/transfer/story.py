"""Stories of jobs that cross: commands to a home and an away side, `----`, and exactly what they do.

    plan slots=2 idle=4 lease=30 permit=60  both sides anew
    start 7 | start 7 bad=1 | start 7 again  a starter calls, with a request, or for a new attempt
    want 7 suspended                        a method of the queue calls
    gone 7                                  the starter of a job has died
    queue 7 8 | queue 7:suspended 8:ending  what the home cell shows in its transfer queue
    cell pending=3 7:running 7/5:held       what the away cell shows, by the number of the job, or the id behind it
    submitted 7 as 21 | submitted 7 refused | submitted 7 silent
    accounting 7 status=3 | accounting nothing
    exchange | exchange lost | exchange unanswered
    late                                    the last message that was lost arrives now
    at 30                                   time passes
    restart home | restart away             the process dies, and starts from what it wrote
    copy away | restore away                a copy of its records; it dies, and starts from the copy

The home side is `alpha`, the away side `beta`; a job is told by its number, and by its attempt if that is not the
first. `work` follows each command by itself: what is due is written, and told as done; bonds are made at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.transfer import away, home
from subord.services.transfer.cells.interface import Being, Ended, Foreign, Leaving, Look, Sought, Submitted
from subord.services.transfer.exchange import Answer, Message, decode_answer, decode_message, encode
from subord.services.transfer.home import Start, verdict_of
from subord.services.transfer.jobs import End, Key, Spec, Wanted
from subord.services.transfer.plan import Peer, Plan, TransferQueue
from tests.transfer.world import Disk

BEGINS_MS: Final = 1000


class Story:
    def __init__(self) -> None:
        self.now = 0.0
        self.lines = list[str]()
        self.disks = {"home": Disk(), "away": Disk()}
        self.attempts = dict[str, int]()
        self.lost: Message | None = None
        self.searches: tuple[Sought, ...] = ()

    def play(self, command: str) -> list[str]:
        """What is done then, one thing a line."""
        verb, *words = command.split()
        self.lines = []
        getattr(self, f"_{verb}")(*words)
        self._work()
        return self.lines

    def say(self, line: str) -> None:
        self.lines.append(line)

    # -- both sides -------------------------------------------------------------------------------------------------

    def _plan(self, *words: str) -> None:
        given = {"slots": 2, "idle": 4, "lease": 30, "permit": 60} | {
            name: int(value) for name, _, value in (each.partition("=") for each in words)
        }
        for name, other in (("alpha", "beta"), ("beta", "alpha")):
            plan = Plan(
                host=1,
                cluster=name,
                peer=Peer(name=other, addresses=("10.0.0.1:7",), certificates=("MIIAAA==",)),
                queues=(TransferQueue(name="transfer"),),
                slots_max=given["slots"],
                idle_pending_max=given["idle"],
                lease_s=given["lease"],
                permit_s=given["permit"],
                same_users=True,
            )
            if name == "alpha":
                self.home_plan = plan
            else:
                self.away_plan = plan
        self._restart("home")
        self._restart("away")

    def _restart(self, side: str) -> None:
        begun = self.disks[side].begin(BEGINS_MS)
        if side == "home":
            self.home = home.Home(self.home_plan, begun.life, begun.home, self.now)
        else:
            self.away = away.Away(self.away_plan, begun.life, begun.away, self.now)
            self.searches = ()
        self._write()

    def _copy(self, side: str) -> None:
        self.disks[side].copy()

    def _restore(self, side: str) -> None:
        life = self.disks[side].life
        self.disks[side].restore(self.disks[side].copies[-1])
        self.disks[side].life = life
        self._restart(side)

    def _at(self, when: str) -> None:
        assert float(when) >= self.now, f"{when} is over"
        self.now = float(when)
        self.home.tick(self.now)

    def _write(self) -> None:
        if hasattr(self, "home"):
            self.disks["home"].write(self.home.changes(), away.Changes({}))
        if hasattr(self, "away"):
            self.away.written = self.disks["away"].write(home.Changes({}), self.away.changes())

    def _work(self) -> None:
        work = self.away.due(self.now, 100)
        to_bind, to_let_go = self.home.bonds()
        self._write()
        self.home.bound(to_bind, is_done=True)
        self.home.let_go(to_let_go, is_done=True)
        self._write()
        for record in work.submits:
            self.say(f"beta submits {self.name(record.key)}")
        for deed, ids in work.deeds:
            self.say(f"beta: {deed} {' '.join(ids)}")
        if work.searches:
            self.searches = work.searches
            self.say(f"beta searches the accounting for {len(work.searches)}")
        for news in self.home.news():
            verdict = verdict_of(news)
            what = news.state if verdict is None else " ".join(filter(None, map(str, verdict)))
            self.say(f"starter of {self.name(news.key)}: {what}")

    # -- home -------------------------------------------------------------------------------------------------------

    def _start(self, job: str, *words: str) -> None:
        again = "again" in words
        pairs = (each.partition("=") for each in words if "=" in each)
        requests = tuple((name, value) for name, _, value in pairs)
        spec = Spec(user="ada", name="job", script="true", requests=requests)
        attempt = 0 if again else self.attempts.get(job, 0)
        was_sent = "sent" in words
        start = Start(job, 0, "transfer", spec, BEGINS_MS + int(self.now), attempt, was_sent, again)
        key = self.home.start(start, self.now)
        assert key is not None
        self.attempts.setdefault(job, key.attempt)
        self.say(f"{self.name(key)} is {self.home.desk.records[key].state}")

    def _want(self, job: str, wanted: str) -> None:
        self.home.want(job, 0, Wanted(wanted), self.now)

    def _gone(self, job: str) -> None:
        self.home.leave(self._key(job), self.now)

    def _told(self, job: str) -> None:
        self.home.told(self._key(job))

    def _queue(self, *words: str) -> None:
        jobs = (each.partition(":") for each in words)
        leaving = [Leaving(job, 0, state == "suspended", state == "ending") for job, _, state in jobs]
        self.home.looked(leaving, self.now)

    # -- away -------------------------------------------------------------------------------------------------------

    def _cell(self, *words: str) -> None:
        pending, foreign = 0, list[Foreign]()
        for each in words:
            if each.startswith("pending="):
                pending = int(each.partition("=")[2])
                continue
            name, _, being = each.partition(":")
            job, _, number = name.partition("/")
            key = self._key(job)
            record = self.away.book.records.get(key)
            own = number or (record.id if record is not None else "")
            unstarted = being == "error"
            foreign.append(Foreign(key.mark, own, Being(being), "no such directory" * unstarted, unstarted, "ada"))
        self.away.looked(Look(pending, tuple(foreign)), self.now, self.now)

    def _submitted(self, job: str, how: str, number: str = "") -> None:
        outcome: Any = Submitted(number)
        if how == "refused":
            outcome = Refused("unknown resource bad")
        elif how == "silent":
            outcome = Unavailable(Fault.SLOW, "it does not answer")
        self.away.submitted(self._key(job), outcome, self.now)

    def _accounting(self, *words: str) -> None:
        ended = []
        if words != ("nothing",):
            job, *rest = words
            numbers = {name: int(value) for name, _, value in (each.partition("=") for each in rest)}
            key = self._key(job)
            record = self.away.book.records[key]
            end = End(status=numbers.get("status", 0), signal=numbers.get("signal", 0))
            ended = [Ended(key.mark, record.id or "?", end, owner="ada")]
        self.away.accounted(self.searches, ended, self.now, self.now)

    # -- the exchange -----------------------------------------------------------------------------------------------

    def _exchange(self, how: str = "") -> None:
        message = self.home.message(self.now)
        assert message is not None
        self._write()
        message = decode_message(encode(message))
        self.say(f"alpha: {', '.join(self._message(message)) or 'nothing'}")
        if how == "lost":
            self.lost = message
            return
        answer = self._heard(message)
        if how != "unanswered":
            self.home.heard(decode_answer(encode(answer)), self.now)

    def _late(self) -> None:
        assert self.lost is not None
        self._heard(self.lost)

    def _heard(self, message: Message) -> Answer:
        answer = self.away.hear(message, self.now)
        self._write()
        self.say(f"beta: {', '.join(self._answer(answer)) or 'nothing'}")
        return answer

    def _message(self, message: Message) -> Iterator[str]:
        if message.permits:
            yield f"wants {message.permits} permits"
        for submit in message.submits:
            yield f"sends {self.name(submit.key)}"
        for care in message.cares:
            yield f"{'has' if care.is_abroad else 'asks for'} {self.name(care.key)}, {care.wanted}"
        for key in message.forgets:
            yield f"forgets {self.name(key)}"

    def _answer(self, answer: Answer) -> Iterator[str]:
        if answer.refused:
            yield answer.refused
        if answer.grants:
            yield f"grants {len(answer.grants)}"
        for state in answer.states:
            being = f" {state.being}" if state.being else ""
            end = f" status {state.end.status} signal {state.end.signal}" if state.end else ""
            yield f"{self.name(state.key)} is {state.stage}{being}{end}"
        for key in answer.forgotten:
            yield f"forgot {self.name(key)}"

    # -- names ------------------------------------------------------------------------------------------------------

    def _key(self, job: str) -> Key:
        name, _, attempt = job.partition("'")
        keys = self.home.desk.attempts((name, 0))
        if attempt:
            return keys[-1]
        return Key("alpha", name, 0, self.attempts[name])

    def name(self, key: Key) -> str:
        """Of a later attempt with a stroke."""
        return key.job if key.attempt == self.attempts.get(key.job, key.attempt) else f"{key.job}'"
