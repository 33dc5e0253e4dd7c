"""Both sides at their bounds: large messages, full records, strange messages, tasks of arrays."""

from __future__ import annotations

from signal import SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU
from typing import Any

import pytest
from loops import over
from msgspec.structs import replace

from subord.services.transfer import away, home
from subord.services.transfer.cells.interface import Being, Deed, Ended, Foreign, Leaving, Look
from subord.services.transfer.exchange import (
    ENTRIES_MAX,
    MESSAGE_BYTES_MAX,
    RELEASE,
    SPECS_BYTES_MAX,
    Answer,
    Care,
    ExchangeError,
    Message,
    Stage,
    State,
    decode_answer,
    decode_message,
    encode,
)
from subord.services.transfer.home import ABSENT_S, Start, Verb, verdict_of
from subord.services.transfer.jobs import End, Key, Spec, Wanted
from subord.services.transfer.mapping import Stays
from subord.services.transfer.permits import PERMITS_MAX
from subord.services.transfer.plan import Peer, Plan, TransferQueue, User
from subord.services.transfer.sides import book, desk
from subord.services.transfer.states import AwayRecord, HomeRecord, HomeState

SPEC = Spec(user="ada", name="job", script="true")
NOTHING = Look(0, ())


def plan(name: str, other: str, **changes: Any) -> Plan:
    return replace(
        Plan(
            host=1,
            cluster=name,
            peer=Peer(name=other, addresses=("10.0.0.1:7",), certificates=("MIIAAA==",)),
            queues=(TransferQueue(name="transfer"),),
            slots_max=5000,
            idle_pending_max=5000,
        ),
        **changes,
    )


class Pair:
    """Alpha sends to beta."""

    def __init__(self, **changes: Any) -> None:
        self.home = home.Home(plan("alpha", "beta"), 10, home.Kept(), 0.0)
        self.away = away.Away(plan("beta", "alpha", **changes), 20, away.Kept(), 0.0)
        self.now = 0.0

    def start(self, job: int | str, task: int = 0, spec: Spec | Stays = SPEC) -> Key | None:
        return self.home.start(Start(str(job), task, "transfer", spec, 1000), self.now)

    def exchange(self) -> tuple[Message, Answer]:
        to_bind, to_let_go = self.home.bonds()
        self.home.bound(to_bind, is_done=True)
        self.home.let_go(to_let_go, is_done=True)
        message = self.home.message(self.now)
        assert message is not None
        body = encode(message)
        assert len(body) <= MESSAGE_BYTES_MAX
        answer = decode_answer(encode(self.away.hear(decode_message(body), self.now)))
        assert self.home.heard(answer, self.now)
        return message, answer

    def ready(self) -> None:
        self.exchange()
        self.away.looked(NOTHING, self.now, self.now)


@pytest.mark.slow
def test_two_thousand_jobs_go_in_messages_of_a_thousand() -> None:
    pair = Pair()
    for job in range(2500):
        pair.start(job)
    pair.ready()
    sent = [len(pair.exchange()[0].submits) for _ in range(4)]
    assert sent == [0, ENTRIES_MAX, ENTRIES_MAX, 500]
    assert len(pair.away.book.live) == 2500


def test_large_scripts_are_spread_over_messages() -> None:
    pair = Pair()
    large = replace(SPEC, script="x" * 250_000)
    for job in range(40):
        pair.start(job, spec=large)
    pair.ready()
    pair.exchange()
    sent = [len(pair.exchange()[0].submits) for _ in range(3)]
    assert sent == [SPECS_BYTES_MAX // 250_100, SPECS_BYTES_MAX // 250_100, 40 - 2 * (SPECS_BYTES_MAX // 250_100)]


@pytest.mark.slow
def test_no_more_permits_are_held_than_a_message_names() -> None:
    """Large jobs use up few permits with each message, and many wait for one."""
    pair = Pair()
    large = replace(SPEC, script="x" * 250_000)
    for job in range(2 * PERMITS_MAX + 100):
        pair.start(job, spec=large)
    pair.ready()
    for _ in range(4):
        message, answer = pair.exchange()
        assert len(message.holds) + message.permits == PERMITS_MAX
        assert len(pair.home.sending.held) == PERMITS_MAX
        assert len(answer.grants) == message.permits
    assert len(pair.away.permits) == PERMITS_MAX
    assert len(pair.away.book.live) == 3 * (SPECS_BYTES_MAX // 250_100)


def test_deletions_of_many_jobs_go_in_messages_of_a_thousand() -> None:
    pair = Pair()
    for job in range(1500):
        pair.start(job)
    pair.ready()
    for _ in range(4):
        pair.exchange()
    for job in range(1500):
        assert pair.home.want(str(job), 0, Wanted.DELETED, pair.now)
    assert [len(pair.exchange()[0].cares) for _ in range(3)] == [1000, 500, 0]
    assert all(each.wanted == Wanted.DELETED for each in pair.away.book.alive())


def test_tasks_of_an_array_are_jobs_of_their_own() -> None:
    pair = Pair()
    keys = [pair.start(7, task) for task in (1, 2, 3)]
    assert [each and each.task for each in keys] == [1, 2, 3]
    pair.ready()
    pair.exchange()
    assert [each.key.task for each in pair.exchange()[0].submits] == [1, 2, 3]
    pair.home.want("7", 2, Wanted.DELETED, 1.0)
    pair.home.looked([Leaving("7", 1), Leaving("7", 2), Leaving("7", 3, is_suspended=True)], 5.0)
    pair.now = 6.0
    pair.exchange()
    wanted = {each.key.task: each.wanted for each in pair.away.book.alive()}
    assert wanted == {1: Wanted.RUN, 2: Wanted.DELETED, 3: Wanted.SUSPENDED}


def test_home_takes_no_more_than_its_records_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "RECORDS_MAX", 2)
    pair = Pair()
    assert pair.start(1)
    assert pair.start(2)
    assert pair.start(3) is None
    assert pair.home.refused == 1
    assert pair.start(1, task=0) is None, "another attempt is another record"
    assert pair.home.refused == 2


def test_away_takes_no_more_than_its_records_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "RECORDS_MAX", 2)
    monkeypatch.setattr(away, "RECORDS_MAX", 2)
    pair = Pair()
    for job in range(5):
        pair.start(job)
    pair.ready()
    for _ in range(3):
        pair.exchange()
    assert len(pair.away.book) == 2
    assert pair.away.offer(pair.now) == 0
    strange = Care(Key("alpha", "77", 0, 5), Wanted.RUN, 0, True)
    message = Message(cluster="alpha", to="beta", life=10, number=99, to_life=20, cares=(strange,))
    pair.away.hear(message, pair.now)
    assert (len(pair.away.book), pair.away.refused) == (2, 1)


@over(
    ("changes", "why"),
    [
        ({"cluster": "gamma"}, "does not name gamma"),
        ({"to": "gamma"}, "and not gamma"),
        ({"release": RELEASE + 1}, "earlier release"),
        ({"number": 1}, "later message"),
        ({"life": 9, "number": 7}, "later message"),
        ({"forgets": (Key("beta", "1", 0, 1),)}, "jobs of another cluster"),
    ],
)
def test_messages_that_are_not_heeded(changes: dict[str, Any], why: str) -> None:
    pair = Pair()
    pair.exchange()
    message = Message(cluster="alpha", to="beta", life=10, number=2, to_life=20, permits=3)
    pair.away.looked(NOTHING, 0.0, 0.0)
    answer = pair.away.hear(replace(message, **changes), 1.0)
    assert why in answer.refused
    assert answer.grants == ()
    assert pair.away.changes().records == {}


def test_a_home_whose_clock_was_set_back_is_heard_again() -> None:
    pair = Pair()
    pair.exchange()
    pair.home = home.Home(plan("alpha", "beta"), 3, home.Kept(), 0.0)
    _, answer = pair.exchange()
    assert "later message" in answer.refused
    assert pair.home.sending.refused == answer.refused
    _, answer = pair.exchange()
    assert answer.refused == ""


def test_a_user_without_an_account() -> None:
    pair = Pair(same_users=False, users=(User(theirs="bob", ours="bob"),))
    key = pair.start(1)
    assert key is not None
    pair.ready()
    for _ in range(4):
        pair.exchange()
    verdict = verdict_of(pair.home.desk.records[key])
    assert verdict is not None
    assert verdict.verb == Verb.STAY
    assert "ada has no account" in verdict.reason


def test_nothing_leaves_before_it_is_bound_and_it_is_let_go_before_its_verdict() -> None:
    pair = Pair()
    key = pair.start(1)
    assert key is not None
    pair.ready()
    assert pair.home.bonds() == ([key], [])
    assert pair.home.bonds() == ([], []), "it is being bound"
    assert pair.home.message(0.0).permits == 0  # type: ignore[union-attr]
    pair.home.bound([key], is_done=False)
    assert pair.home.bonds() == ([key], []), "again"
    pair.home.bound([key], is_done=True)
    assert pair.home.message(0.0).permits == 1  # type: ignore[union-attr]
    pair.home.news()
    pair.home.want("1", 0, Wanted.DELETED, 1.0)
    assert pair.home.news() == []
    assert pair.home.bonds() == ([], [key])
    pair.home.let_go([key], is_done=True)
    assert [each.state for each in pair.home.news()] == [HomeState.ENDED]


def left(pair: Pair) -> Key:
    """A job whose process at home has ended, as when its host has died. The other side has it."""
    key = pair.start(1)
    assert key is not None
    pair.ready()
    while pair.home.desk.records[key].state != HomeState.ABROAD:
        pair.exchange()
    pair.home.leave(key, 10.0)
    return key


def test_a_job_whose_starter_is_gone_is_put_back() -> None:
    """The batch system takes it for running, and has not noticed that its host has died."""
    pair = Pair()
    left(pair)
    running, stopped = Leaving("1", 0), Leaving("1", 0, is_suspended=True)
    for began in (10.0 + ABSENT_S - 1, 10.0 + ABSENT_S, 10.0 + 2 * ABSENT_S - 1):
        pair.home.looked([running], began)
        assert pair.home.stranded() == [("1", 0)] * (began == 10.0 + ABSENT_S)
    pair.home.looked([stopped], 300.0)
    assert pair.home.stranded() == [], "a starter that is stopped cannot connect"
    pair.home.looked([running], 301.0)
    assert pair.home.stranded() == []
    pair.home.looked([running._replace(is_ending=True)], 301.0 + ABSENT_S)
    assert pair.home.stranded() == []
    pair.home.looked([running], 301.0 + ABSENT_S)
    assert pair.home.stranded() == [("1", 0)]
    pair.start(1)
    pair.home.looked([running], 500.0)
    assert pair.home.stranded() == [], "its starter is here"


def test_a_job_that_is_put_back_is_bound_before() -> None:
    """It may have been let go for a starter that has died with the agent, and would run here."""
    pair = Pair()
    key = left(pair)
    kept = home.Kept((replace(pair.home.desk.records[key], state=HomeState.ENDED, end=End(), is_bound=False),))
    again = home.Home(pair.home.plan, 11, kept, 0.0)
    again.looked([Leaving("1", 0)], 0.0)
    again.looked([Leaving("1", 0)], ABSENT_S)
    assert again.stranded() == []
    assert again.bonds() == ([key], [])
    again.bound([key], is_done=True)
    again.looked([Leaving("1", 0)], ABSENT_S + 5)
    assert (again.stranded(), again.bonds()) == ([("1", 0)], ([], []))
    again.looked([], ABSENT_S + 10, [("1", 0)])
    assert again.bonds() == ([], [key])
    assert again.recalls([("1", 0)]) == {"transfer": ["1"]}


def test_a_job_that_was_let_go_is_bound_again_before_it_is_put_back() -> None:
    """Its starter has died before it has read how it ended, and the job would run here."""
    pair = Pair()
    key = left(pair)
    pair.home.start(Start("1", 0, "transfer", SPEC, 1000, key.attempt, was_sent=True), 10.0)
    pair.home.desk.finish(pair.home.desk.records[key], HomeState.ENDED, end=End())
    assert pair.home.bonds() == ([], [key])
    pair.home.let_go([key], is_done=True)
    pair.home.leave(key, 11.0)
    pair.home.looked([Leaving("1", 0)], 11.0 + ABSENT_S)
    assert (pair.home.stranded(), pair.home.bonds()) == ([], ([key], []))


@pytest.mark.parametrize("state", [HomeState.WAITING, HomeState.SENDING])
def test_a_starter_that_waits_for_the_first_look_is_not_gone(state: HomeState) -> None:
    """An agent that was started again hears a starter when a look has shown its job, however late that is."""
    pair = Pair()
    key = left(pair)
    record = replace(pair.home.desk.records[key], state=state, wanted=Wanted.RUN, spec=SPEC)
    again = home.Home(pair.home.plan, 11, home.Kept((record,)), 0.0)
    again.looked([Leaving("1", 0)], 10 * ABSENT_S)
    assert (again.stranded(), again.bonds()) == ([], ([], []))
    again.looked([Leaving("1", 0)], 11 * ABSENT_S)
    is_bound_first = state == HomeState.SENDING
    assert (again.stranded(), again.bonds()) == (([], ([key], [])) if is_bound_first else ([("1", 0)], ([], [])))


def test_a_job_that_runs_without_a_starter_is_not_let_go() -> None:
    """It could not be kept from other queues, in which it would run for a second time."""
    pair = Pair()
    key = left(pair)
    pair.home.looked([Leaving("1", 0)], 11.0)
    pair.home.desk.finish(pair.home.desk.records[key], HomeState.ENDED, end=End())
    assert pair.home.bonds() == ([], [])
    pair.home.looked([], 12.0, [("1", 0)])
    assert pair.home.bonds() == ([], [key])


def test_a_bond_that_the_batch_system_has_forgotten_is_made_again() -> None:
    pair = Pair()
    key = left(pair)
    assert pair.home.bonds() == ([], [])
    pair.home.looked([Leaving("1", 0)], 11.0, loose=[("1", 0), ("9", 0)])
    assert pair.home.bonds() == ([key], [])
    pair.home.looked([Leaving("1", 0)], 12.0, loose=[("1", 0)])
    assert pair.home.bonds() == ([], []), "it is being bound"
    pair.home.bound([key], is_done=True)
    assert pair.home.bonds() == ([], [])


def test_jobs_of_a_third_cluster_are_left_alone() -> None:
    pair = Pair()
    foreign = (
        Foreign("sb.gamma.7.0.5", "1", Being.HELD, owner="ada"),
        Foreign("sb.alpha.7.0.5", "2", Being.RUNNING, owner="ada"),
    )
    pair.away.looked(Look(0, foreign), 0.0, 0.0)
    assert [each.key.cluster for each in pair.away.book.alive()] == ["alpha"]
    assert pair.away.due(0.0, 9).deeds == ()
    _, answer = pair.exchange()
    assert [(each.key.job, each.stage) for each in answer.states] == [("7", Stage.HERE)]
    assert list(pair.home.desk.strange) == [Key("alpha", "7", 0, 5)]


@over(
    ("slots", "most", "stage"), [(1, 1, Stage.TAKEN), (4, 4, Stage.TAKEN), (5, 4, Stage.GONE), (1000, 2, Stage.GONE)]
)
def test_a_job_with_more_slots_than_may_come_goes_home(slots: int, most: int, stage: Stage) -> None:
    pair = Pair(slots_max=most)
    key = pair.start(1, spec=replace(SPEC, parallel="mpi", slots=slots))
    assert key is not None
    pair.ready()
    for _ in range(3):
        pair.exchange()
    record = pair.away.book.records[key]
    assert record.stage == stage
    if stage == Stage.GONE:
        assert f"{slots} slots" in record.reason
        pair.home.let_go([key], is_done=True)
        verdict = verdict_of(pair.home.desk.records[key])
        assert verdict is not None
        assert verdict.verb == Verb.STAY


def test_of_the_limit_a_parallel_job_takes_as_much_as_another() -> None:
    """docs/transfer.md says so under Limits."""
    pair = Pair(slots_max=4)
    for job in range(6):
        pair.start(job, spec=replace(SPEC, parallel="mpi", slots=4))
    pair.ready()
    for _ in range(4):
        pair.exchange()
    assert len(pair.away.book.live) == 4


# -- marks, which every user of the cell can give a job ------------------------------------------------------------

BY_TABLE: Any = {"same_users": False, "users": (User(theirs="ada", ours="ann"),)}


@over(
    ("changes", "owner", "live"),
    [
        ({}, "ada", 1),
        ({}, "root", 0),
        ({}, "", 0),
        ({"users": (User(theirs="ada", ours="ann"),)}, "ada", 0),
        (BY_TABLE, "ann", 1),
        (BY_TABLE, "ada", 0),
        (BY_TABLE, "eve", 0),
    ],
)
def test_a_mark_counts_only_with_a_user_as_whom_jobs_come(changes: Any, owner: str, live: int) -> None:
    pair = Pair(**changes)
    forged = Foreign("sb.alpha.7.0.5", "2", Being.RUNNING, owner=owner)
    for now in (0.0, 5.0):
        pair.away.looked(Look(0, (forged,)), now, now)
    assert len(pair.away.book.live) == live, "it takes no slot"
    assert pair.away.watching.forged == 1 - live
    assert pair.away.due(5.0, 9).deeds == ()
    pair.away.looked(NOTHING, 10.0, 10.0)
    assert pair.away.watching.forged == 0


def test_a_job_of_another_user_does_not_stand_for_one_that_is_sought() -> None:
    pair = Pair(**BY_TABLE)
    key = abroad(pair)
    restarted(pair, AwayRecord(key=key, stage=Stage.TAKEN, life=20, user="ann", spec=SPEC))
    forged = Foreign(key.mark, "2", Being.RUNNING, owner="eve")
    pair.away.looked(Look(0, (forged,)), 5.0, 5.0)
    assert pair.away.book.records[key].stage == Stage.SOUGHT
    entry = Ended(key.mark, "3", End(status=0), owner="eve")
    pair.exchange()
    pair.away.accounted(pair.away.due(6.0, 9).searches, [entry], 6.0, 6.0)
    assert pair.away.book.records[key].stage == Stage.SOUGHT
    own = Foreign(key.mark, "4", Being.RUNNING, owner="ann")
    pair.away.looked(Look(0, (forged, own)), 10.0, 10.0)
    record = pair.away.book.records[key]
    assert (record.stage, record.id, record.user) == (Stage.HERE, "4", "ann")
    pair.away.looked(Look(0, (forged._replace(being=Being.HELD), own)), 15.0, 15.0)
    assert [ids for deed, ids in pair.away.due(15.0, 9).deeds if deed == Deed.DELETE] == [], "it is no stray"


def test_the_end_of_a_job_that_is_sought_is_that_of_its_user() -> None:
    pair = Pair(**BY_TABLE)
    key = abroad(pair)
    restarted(pair, AwayRecord(key=key, stage=Stage.TAKEN, life=20, user="ann", spec=SPEC))
    pair.away.looked(NOTHING, 5.0, 5.0)
    ends = [
        Ended(key.mark, "3", End(status=0), owner="eve"),
        Ended(key.mark, "4", End(status=7), owner="ann"),
        Ended(key.mark, "5", End(status=0), owner="eve"),
    ]
    pair.away.accounted(pair.away.due(6.0, 9).searches, ends, 6.0, 6.0)
    record = pair.away.book.records[key]
    assert (record.stage, record.id) == (Stage.ENDED, "4")


def test_a_number_that_the_cell_gave_is_that_of_the_job() -> None:
    """Some hosts write the names of users in another way than the plan."""
    pair = Pair()
    key = abroad(pair)
    record = pair.away.book.records[key]
    pair.away.book.put(replace(record, stage=Stage.HERE, id="2", being=Being.HELD, spec=None), 1.0)
    pair.away.looked(Look(0, (Foreign(key.mark, "2", Being.RUNNING, owner="ADA"),)), 5.0, 5.0)
    assert (pair.away.book.records[key].being, pair.away.watching.forged) == (Being.RUNNING, 0)


def test_strange_jobs_are_bounded_and_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until home knows all of them, nothing leaves: one may be an attempt of a job that would leave."""
    monkeypatch.setattr(desk, "RECORDS_MAX", 2)
    pair = Pair()
    pair.start(99)
    foreign = [Foreign(f"sb.alpha.{each}.0.5", str(each), Being.RUNNING, owner="ada") for each in (7, 8, 9)]
    pair.away.looked(Look(0, tuple(foreign)), 0.0, 0.0)
    for times in (1, 2):
        _, answer = pair.exchange()
        assert [each.key.job for each in answer.states] == ["7", "8", "9"]
        assert (len(pair.home.desk.strange), pair.home.desk.strange_left_out) == (2, times)
        assert pair.home.sending.ready() == []
    pair.home.desk.drop(Key("alpha", "7", 0, 5))
    pair.home.desk.drop(Key("alpha", "8", 0, 5))
    monkeypatch.setattr(desk, "RECORDS_MAX", 3)
    pair.exchange()
    assert (len(pair.home.desk.strange), pair.home.desk.strange_left_out) == (3, 2)
    assert [each.job for each in pair.home.sending.ready()] == ["99"]


@over("body", [b"", b"\x90", b"\xc1", b"\x91" * 100_000, b"x" * (MESSAGE_BYTES_MAX + 1)])
def test_what_cannot_be_read(body: bytes) -> None:
    for decode in (decode_message, decode_answer):
        with pytest.raises(ExchangeError, match="the other cluster has sent"):
            decode(body)


# -- away after a death --------------------------------------------------------------------------------------------


def restarted(pair: Pair, *records: AwayRecord, written: int = 99) -> None:
    pair.away = away.Away(pair.away.plan, 21, away.Kept(records, written), pair.now)


def looked(pair: Pair, *seconds: float) -> None:
    """Nothing is there, neither in the batch system nor in the accounting."""
    for each in seconds:
        pair.now = each
        pair.away.looked(NOTHING, each, each)
        pair.away.accounted(pair.away.due(each, 9).searches, (), each, each)


def abroad(pair: Pair, job: str = "1") -> Key:
    key = pair.start(job)
    assert key is not None
    pair.ready()
    for _ in range(2):
        pair.exchange()
    assert pair.home.desk.records[key].state == HomeState.ABROAD
    return key


def test_a_job_that_waits_held_and_is_deleted_after_a_death_is_not_unknown() -> None:
    pair = Pair()
    key = abroad(pair)
    record = AwayRecord(key=key, stage=Stage.HERE, life=20, id="5", being=Being.HELD)
    restarted(pair, record)
    pair.home.want("1", 0, Wanted.DELETED, pair.now)
    pair.exchange()
    looked(pair, 5.0, 70.0, 75.0)
    assert pair.away.book.records[key].stage == Stage.GONE


@over(("written", "stage"), [(4, Stage.UNKNOWN), (5, Stage.TAKEN)])
def test_an_older_copy_is_noticed_by_what_home_has_heard(written: int, stage: Stage) -> None:
    """Of a job that was only taken in the copy it cannot be told whether it has run."""
    pair = Pair()
    pair.away.written = 5
    key = abroad(pair)
    assert pair.home.changes().peer == (20, 5)
    restarted(pair, AwayRecord(key=key, stage=Stage.TAKEN, life=20, user="ada", spec=SPEC), written=written)
    pair.exchange()
    looked(pair, 5.0, 70.0, 75.0)
    assert pair.away.book.records[key].stage == stage


def sent(pair: Pair) -> Key:
    """It has arrived, but the answer is lost."""
    key = pair.start(1)
    assert key is not None
    pair.ready()
    pair.exchange()
    message = pair.home.message(pair.now)
    assert message is not None
    assert [each.key for each in message.submits] == [key]
    pair.away.hear(message, pair.now)
    assert pair.away.book.records[key].stage == Stage.TAKEN
    return key


@over(("heard", "stage"), [(4, Stage.ABSENT), (6, Stage.UNKNOWN)])
def test_the_limit_of_what_an_older_copy_and_a_lost_accounting_leave(heard: int, stage: Stage) -> None:
    """If home has heard no later state of the records than the copy has, nothing says that the job has come."""
    pair = Pair()
    pair.away.written = heard
    key = sent(pair)
    pair.now = 6.0
    restarted(pair, written=5)
    pair.exchange()
    looked(pair, 7.0, 70.0, 75.0)
    assert pair.away.book.records[key].stage == stage


def test_nothing_is_decided_of_earlier_jobs_before_home_is_heard() -> None:
    pair = Pair()
    key = abroad(pair)
    restarted(pair, AwayRecord(key=key, stage=Stage.TAKEN, life=20, user="ada", spec=SPEC))
    looked(pair, 5.0, 70.0, 75.0, 900.0)
    assert pair.away.book.records[key].stage == Stage.SOUGHT
    assert pair.away.due(900.0, 9).submits == ()


@over(
    ("end", "verb", "number"),
    [
        (End(signal=15), Verb.KILL, 15),
        (End(signal=64), Verb.KILL, 64),
        *((End(signal=each), Verb.KILL, 9) for each in (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU)),
        (End(status=255), Verb.EXIT, 255),
    ],
)
def test_a_signal_that_stops_does_not_stop_the_shell_that_waits(end: End, verb: Verb, number: int) -> None:
    """It would not end, and neither would the job in the transfer queue."""
    record = HomeRecord(key=Key("alpha", "7", 0, 1), state=HomeState.ENDED, end=end)
    verdict = verdict_of(record)
    assert verdict is not None
    assert (verdict.verb, verdict.number) == (verb, number)


@over("end", [End(signal=-1), End(signal=65), End(status=-1), End(status=256)])
def test_an_end_that_cannot_be_is_not_heeded(end: End) -> None:
    pair = Pair()
    key = abroad(pair)
    pair.now = 6.0
    message = pair.home.message(pair.now)
    assert message is not None
    answer = pair.away.hear(message, pair.now)
    told = State(key, Stage.ENDED, Wanted.RUN, "1", None, "", end)
    with pytest.raises(ExchangeError):
        decode_answer(encode(replace(answer, states=(told,))))


def test_an_answer_to_an_earlier_message_is_left_alone() -> None:
    pair = Pair()
    key = pair.start(1)
    assert key is not None
    pair.ready()
    pair.exchange()
    pair.home.bound([key], is_done=True)
    sent = pair.home.message(0.0)
    late = pair.home.message(6.0)
    assert sent is not None
    assert late is not None
    absent = pair.away.hear(late, 6.0)
    assert [each.stage for each in absent.states] == [Stage.ABSENT]
    pair.home.message(7.0)
    assert not pair.home.heard(absent, 7.0)
    assert pair.home.desk.records[key].state == HomeState.SENDING
