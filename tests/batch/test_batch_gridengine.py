"""The answers of Grid Engine 8.1.9, as recorded from a real one, and what its adapter makes of those that are not
whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from loops import over
from said_commands import Answer, SaidCommands

from subord.services.batch.arrays import TASKS_MAX, Expansion, ranges_of
from subord.services.batch.faults import AnswerError
from subord.services.batch.gridengine import accounting
from subord.services.batch.gridengine.adapter import GridEngine
from subord.services.batch.gridengine.hosts import Row, bytes_of, rows_in
from subord.services.batch.gridengine.queue import ids_in, jobs_in, state_of, waiting
from subord.services.batch.gridengine.registration import (
    Registered,
    group_in,
    queue_in,
    steps_to_add,
    steps_to_remove,
)
from subord.services.batch.records import (
    Done,
    Fault,
    Host,
    HostState,
    JobState,
    NewHost,
    Place,
    Refused,
    Unavailable,
    slots_of,
    tasks_of,
)
from subord.services.batch.running import Ran

RECORDED = Path(__file__).parent / "recorded"
SILENT = Ran(
    1,
    b"",
    "error: commlib error: got select error (Connection refused)\n"
    'error: unable to send message to qmaster using port 6444 on host "head": got send error\n',
)
NO_FILE = Ran(1, b"", "/room/accounting: No such file or directory\nno jobs running since startup\n")
PENDING = (
    "<job_info><job_info><job_list><JB_job_number>9</JB_job_number><state>qw</state><slots>{slots}</slots>"
    "<JB_submission_time>2026-10-25T01:30:00</JB_submission_time><tasks>{tasks}</tasks></job_list></job_info></job_info>"
)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


# -- qstat ------------------------------------------------------------------------------------------------------


def test_jobs() -> None:
    jobs = jobs_in(recorded("qstat.xml"))
    wide = next(job for job in jobs if job.id == "6")
    assert (wide.state, wide.slots, wide.queue, wide.owner, wide.submitted) == (
        JobState.RUNNING,
        5,
        "all.q",
        "ann",
        None,
    )
    assert {each.host for each in wide.places} == {"h1", "h2"}, "it is listed once for each of its hosts"
    assert sum(each.slots for each in wide.places) == 5
    assert wide.requests == (("pe smp", "5"),)
    assert wide.name == "a%lt;b>&'c", "Grid Engine writes a wrong entity for <"
    array = {job.task: job.state for job in jobs if job.id == "7"}
    queued = JobState.QUEUED
    assert array == {1: JobState.SUSPENDED, 6: queued, 11: queued, 16: queued}
    others = {job.id: job for job in jobs if not job.occupies and job.id != "7"}
    assert {job.id: job.state for job in others.values()} == {
        "4": JobState.ERROR,
        "8": queued,
        "9": JobState.HELD,
        "10": queued,
        "11": queued,
        "12": queued,
    }
    assert (others["11"].queues, others["11"].may_use("all.q")) == (("other.q",), False)
    assert (others["10"].queues, others["10"].may_use("all.q")) == ((), True)
    assert (others["12"].slots, dict(others["12"].requests)) == (
        2,
        {"pe smp": "2-5", "h_vmem": "1G", "mem_free": "1M"},
    )
    assert jobs_in(recorded("qstat-empty.xml")) == []


def test_a_job_that_waits_for_a_time_is_held() -> None:
    ids = ids_in(recorded("qstat-waiting.xml"))
    assert ids == {"10"}
    jobs = waiting(jobs_in(recorded("qstat.xml")), ids)
    assert [job.state for job in jobs if job.id == "10"] == [JobState.HELD]
    assert [job.state for job in jobs if job.id == "8"] == [JobState.QUEUED]


@over(
    ("word", "state"),
    [
        ("qw", JobState.QUEUED),
        ("Rq", JobState.QUEUED),
        ("hqw", JobState.HELD),
        ("hRwq", JobState.HELD),
        ("Eqw", JobState.ERROR),
        ("Ehqw", JobState.ERROR),
        ("r", JobState.RUNNING),
        ("t", JobState.RUNNING),
        ("Rr", JobState.RUNNING),
        ("hr", JobState.RUNNING),
        ("s", JobState.SUSPENDED),
        ("S", JobState.SUSPENDED),
        ("T", JobState.SUSPENDED),
        ("dr", JobState.ENDING),
        ("dRs", JobState.ENDING),
        ("", JobState.OTHER),
        ("!", JobState.OTHER),
    ],
)
def test_states(word: str, state: JobState) -> None:
    assert state_of(word) == state


def test_the_local_time_is_utc() -> None:
    """In an hour that comes twice where the clocks change."""
    (job,) = jobs_in(PENDING.format(slots=1, tasks="7"))
    assert (job.submitted, job.task) == (1792891800.0, 7)


def test_tasks_beyond_the_bound_are_one_record() -> None:
    jobs = jobs_in(PENDING.format(slots=4, tasks="1-75000"))
    assert len(jobs) == TASKS_MAX + 1
    assert (jobs[-1].task, jobs[-1].tasks) == (TASKS_MAX + 1, 75000 - TASKS_MAX)
    assert (tasks_of(jobs), slots_of(jobs)) == (75000, 300000)


@over(
    ("text", "numbers"),
    [
        ("1-16:5", [1, 6, 11, 16]),
        ("1-20:5", [1, 6, 11, 16]),
        ("3", [3]),
        ("3,7-9,20-22:2", [3, 7, 8, 9, 20, 22]),
        ("1-4%2", [1, 2, 3, 4]),
    ],
)
def test_ranges(text: str, numbers: list[int]) -> None:
    assert [each for part in ranges_of(text) for each in part] == numbers


@over("text", ["", "x", "1-", "5-1", "1-5:0", "-3", "1,,2", "1-9999999999999", "1 2", "\u0661"])
def test_wrong_ranges(text: str) -> None:
    with pytest.raises(ValueError, match="not a range"):
        ranges_of(text)


def test_all_arrays_share_the_bound() -> None:
    head, element, tail = re.fullmatch(
        r"(.*?)(<job_list>.*</job_list>)(.*)", PENDING.format(slots=1, tasks="1-3")
    ).groups()  # type: ignore[union-attr]
    jobs = jobs_in(head + element * 3 + tail, Expansion(4))
    assert [(job.task, job.tasks) for job in jobs] == [(1, 1), (2, 1), (3, 1), (1, 1), (2, 2), (1, 3)]


def test_a_huge_range_takes_no_time() -> None:
    (job,) = jobs_in(PENDING.format(slots=1, tasks="1-999999999999"), Expansion(0))
    assert job.tasks == 999999999999


def test_odd_characters_of_names() -> None:
    text = PENDING.format(slots=1, tasks="1").replace(
        "<state>", "<JB_name>a\x01&amp;\x7f\ufffd]]&gt;</JB_name><state>"
    )
    (job,) = jobs_in(text)
    assert job.name == "a?&?\ufffd]]>"


@over(
    "text",
    [
        "",
        "error: no qmaster",
        recorded("qstat.xml")[:3000],
        recorded("qstat.xml")[:-12],
        PENDING.format(slots="many", tasks="1"),
        PENDING.format(slots=1, tasks="1-x"),
        PENDING.format(slots=1, tasks="1").replace("<JB_job_number>9", "<JB_job_number>"),
        PENDING.format(slots=1, tasks="1").replace("2026-10-25T01:30:00", "10/25/2026 01:30:00"),
        '<!DOCTYPE a [<!ENTITY b "c">]>' + PENDING.format(slots=1, tasks="1"),
    ],
)
def test_an_answer_that_is_none(text: str) -> None:
    with pytest.raises(AnswerError):
        jobs_in(text)


# -- qhost ------------------------------------------------------------------------------------------------------


def test_hosts() -> None:
    hosts = {row.name: row.host("all.q") for row in rows_in(recorded("qhost.xml"))}
    assert {each.name: each.slots for each in hosts.values()} == {"h1": 2, "h2": 4, "h3": 3}, "no global"
    assert (hosts["h1"].is_drained, hosts["h1"].state, hosts["h1"].is_usable) == (True, HostState.UP, False)
    assert (hosts["h2"].used, hosts["h2"].busy, hosts["h2"].is_usable) == (4, 4, True)
    assert (hosts["h2"].cpus, hosts["h2"].load is not None) == (2, True)
    assert hosts["h3"] == Host(
        "h3", 3, 0, 0, HostState.DOWN, is_drained=False, word="u", load=None, cpus=None, memory=None
    )
    other = {row.name: row.host("none.q") for row in rows_in(recorded("qhost.xml"))}
    assert [(each.slots, each.used, each.busy) for each in other.values()][1] == (0, 0, 4)


@over(
    ("letters", "state", "is_drained"),
    [
        ("", HostState.UP, False),
        ("a", HostState.UP, False),
        ("d", HostState.UP, True),
        ("D", HostState.UP, True),
        ("au", HostState.DOWN, False),
        ("dau", HostState.DOWN, True),
        ("E", HostState.ERROR, False),
        ("o", HostState.ERROR, False),
        ("s", HostState.SUSPENDED, False),
        ("C", HostState.SUSPENDED, False),
    ],
)
def test_states_of_hosts(letters: str, state: HostState, is_drained: bool) -> None:
    (row,) = rows_in(
        "<qhost><host name='n1'><hostvalue name='num_proc'>4</hostvalue><hostvalue name='load_avg'>0.1</hostvalue>"
        "<hostvalue name='mem_total'>1.0G</hostvalue><queue name='all.q'><queuevalue name='slots'>4</queuevalue>"
        f"<queuevalue name='slots_used'>1</queuevalue><queuevalue name='state_string'>{letters}</queuevalue>"
        "</queue></host></qhost>"
    )
    host = row.host("all.q")
    assert (host.state, host.is_drained, host.word, host.memory) == (state, is_drained, letters, 1 << 30)


def test_sizes() -> None:
    assert [bytes_of(each) for each in ("-", "0.0", "512.0K", "23.5G", "1.5T")] == [
        None,
        0,
        512 << 10,
        int(23.5 * (1 << 30)),
        int(1.5 * (1 << 40)),
    ]


@over("text", ["", recorded("qhost.xml")[:2000], recorded("qhost.xml").replace("'slots_used'>", "'slots_used'>x")])
def test_hosts_that_are_none(text: str) -> None:
    with pytest.raises(AnswerError):
        rows_in(text)


# -- qacct ------------------------------------------------------------------------------------------------------


def test_jobs_that_have_ended() -> None:
    found = {(each.id, each.task): each for each in accounting.finished_in(recorded("qacct.txt"))}
    assert {key: (each.status, each.signal, each.slots) for key, each in found.items()} == {
        ("1", None): (3, 0, 2),
        ("2", 4): (0, 0, 1),
        ("2", 5): (0, 0, 1),
        ("3", None): (137, 9, 1),
        ("5", None): (137, 9, 1),
    }
    for each in found.values():
        assert each.started is not None
        assert each.submitted <= each.started <= each.ended


def _entry(**changed: str) -> str:
    """The first entry, with other values."""
    text = recorded("qacct.txt").split("=" * 62)[1]
    for field, value in changed.items():
        text, count = re.subn(rf"^{field} .*$", f"{field} {value}", text, flags=re.MULTILINE)
        assert count == 1
    return "=" * 62 + text


def test_a_run_after_which_the_job_was_queued_again_is_no_end() -> None:
    again = _entry(failed="25  : rescheduling", exit_status="0")
    assert accounting.finished_in(again) == []
    (one,) = accounting.finished_in(again + _entry(exit_status="4"))
    assert one.status == 4


def test_parts_of_a_parallel_job_count_once() -> None:
    early, late = _entry(end_time="Thu Nov 26 11:48:00 2026"), _entry(end_time="Thu Nov 26 11:49:00 2026")
    (one,) = accounting.finished_in(late + early)
    assert one.ended == 1795693740.0


def test_a_job_that_never_started() -> None:
    (one,) = accounting.finished_in(_entry(start_time="-/-", failed="1  : assumedly before job"))
    assert one.started is None
    assert accounting.finished_in(_entry(end_time="-/-")) == []


@over("changed", [{"slots": "x"}, {"exit_status": ""}, {"end_time": "26.11.2026"}, {"taskid": "x"}])
def test_wrong_entries(changed: dict[str, str]) -> None:
    with pytest.raises(AnswerError, match="job '2'"):
        accounting.finished_in(_entry(**changed))


def test_entries_that_are_cut() -> None:
    text = recorded("qacct.txt")
    assert len(accounting.finished_in(text[300:])) == 4
    with pytest.raises(AnswerError, match="no "):
        accounting.finished_in(text[: text.rindex("exit_status")])
    assert accounting.finished_in("Total System Usage\n") == []
    assert accounting.words_for(1795693740.5) == ("qacct", "-j", "-b", "202611251149")


# -- the adapter ------------------------------------------------------------------------------------------------


def adapter(**answers: Answer) -> GridEngine:
    return GridEngine(SaidCommands({"qstat -u * -s ha": recorded("qstat-waiting.xml")} | answers))


async def test_answers_of_a_whole_adapter() -> None:
    engine = adapter(qstat=recorded("qstat.xml"), qhost=recorded("qhost.xml"), qacct=recorded("qacct.txt"))
    queue, hosts, history = await engine.queue(), await engine.hosts(), await engine.history(0.0)
    assert not isinstance(queue, Unavailable)
    assert [job.state for job in queue.jobs if job.id == "10"] == [JobState.HELD]
    assert queue.now > 1795693700
    assert not isinstance(hosts, Unavailable)
    assert [each.name for each in hosts] == ["h1", "h2", "h3"]
    assert not isinstance(history, Unavailable)
    assert (len(history.jobs), history.since) == (5, 0.0)
    ends = [each.ended for each in history.jobs]
    later = await engine.history(ends[-1])
    assert not isinstance(later, Unavailable)
    assert len(later.jobs) == ends.count(ends[-1])


@over("said", [NO_FILE, Ran(1, b"", "error: job id 999 not found\n"), "Total System Usage\n"])
async def test_an_empty_accounting_is_no_fault(said: Answer) -> None:
    assert await adapter(qacct=said).history(7.0) == ((), 7.0)


@pytest.mark.slow
async def test_many_entries_are_cut() -> None:
    text = "".join(
        _entry(jobnumber=str(each), end_time=f"Thu Nov 26 {each // 3600:02}:{each // 60 % 60:02}:{each % 60:02} 2026")
        for each in range(8000)
    )
    history = await adapter(qacct=text).history(0.0)
    assert not isinstance(history, Unavailable)
    assert history.jobs[-1].id == "7999"
    assert 5000 < len(history.jobs) < 8000
    assert history.since == history.jobs[0].ended


@over(
    ("said", "fault", "words"),
    [
        (SILENT, Fault.SILENT, "see that sge_qmaster runs"),
        (Ran(1, b"", 'error: cell directory "/x" doesn\'t exist\n'), Fault.SILENT, "set SGE_ROOT and SGE_CELL"),
        (Ran(1, b"", 'denied: host "n1" is neither submit nor admin host\n'), Fault.RIGHTS, "qconf -ah HOST"),
        (Ran(-11, b"", ""), Fault.FAILED, "was ended by signal 11: it printed nothing"),
        (Unavailable(Fault.SLOW, "has not ended in 20 s"), Fault.SLOW, "has not ended"),
        (recorded("qstat.xml")[:3000], Fault.GARBLED, "Grid Engine 8.1.9 is known here"),
    ],
)
async def test_faults(said: Answer, fault: Fault, words: str) -> None:
    engine = adapter(**dict.fromkeys(("qstat", "qhost", "qacct", "qmod", "qconf"), said))
    answers = [await engine.queue(), await engine.hosts(), await engine.drain("n1"), await engine.remove("n1")]
    answers += [await engine.add(NewHost("n1", 1))] if fault != Fault.GARBLED else []
    for each in answers:
        assert isinstance(each, Unavailable)
        assert (each.fault, words in each.reason) == (fault, True), each


# -- registration -----------------------------------------------------------------------------------------------


def test_the_configuration_of_a_queue() -> None:
    found = queue_in(recorded("qconf-sq.txt"))
    assert (found.members, dict(found.slots)) == (("@allhosts",), {"h1": 2, "h2": 4, "h3": 3})
    found = queue_in("hostlist  NONE\nslots 1,[@big=8],[n1=x]\nprolog NONE,[n2=/bin/true]\n")
    assert (found.members, dict(found.slots), set(found.named)) == ((), {"@big": 8}, {"@big", "n1", "n2"})
    assert group_in("group_name @allhosts\nhostlist n1 n2\n") == ("n1", "n2")
    assert group_in("group_name @allhosts\nhostlist NONE\n") == ()


EMPTY = Registered(
    frozenset(), frozenset(), frozenset(), frozenset(), {"@allhosts": ()}, {"all.q": queue_in("hostlist @allhosts\n")}
)
WHOLE = Registered(
    frozenset({"n1"}),
    frozenset({"n1"}),
    frozenset({"n1"}),
    frozenset({"n1"}),
    {"@allhosts": ("n1", "n2"), "@big": ("n1",)},
    {"all.q": queue_in("hostlist @allhosts\nslots 1,[n1=4]\n"), "x.q": queue_in("hostlist n1\n")},
)


def test_steps() -> None:
    added = [" ".join(each.words) for each in steps_to_add(EMPTY, "n1", 4, "all.q", "@allhosts")]
    assert added == [
        "qconf -ah n1",
        "qconf -as n1",
        "qconf -Ae /dev/stdin",
        "qconf -rattr queue slots [n1=4] all.q",
        "qconf -aattr hostgroup hostlist n1 @allhosts",
    ]
    assert list(steps_to_add(WHOLE, "n1", 4, "all.q", "@allhosts")) == []
    (slots,) = steps_to_add(WHOLE, "n1", 5, "all.q", "@allhosts")
    assert "[n1=5]" in slots.words
    removed = [" ".join(each.words) for each in steps_to_remove(WHOLE, "n1", is_up=True)]
    assert removed == [
        "qconf -dattr hostgroup hostlist n1 @allhosts",
        "qconf -dattr hostgroup hostlist n1 @big",
        "qconf -purge queue * all.q@n1",
        "qconf -dattr queue hostlist n1 x.q",
        "qconf -ke n1",
        "qconf -de n1",
        "qconf -dconf n1",
        "qconf -dh n1",
        "qconf -ds n1",
    ]
    assert [each.words[1] for each in steps_to_remove(WHOLE, "n1", is_up=True) if each.may_fail] == ["-ke"]
    assert "qconf -ke n1" not in [" ".join(each.words) for each in steps_to_remove(WHOLE, "n1", is_up=False)]
    assert list(steps_to_remove(EMPTY, "n1", is_up=True)) == []


def _qconf() -> dict[str, Answer]:
    """A cell with n1 and the host of the qmaster."""
    return {
        "qconf -sh": "n1\nhead\n",
        "qconf -ss": "head\n",
        "qconf -sel": "n1\nhead\n",
        "qconf -sconfl": Ran(1, b"", "no config defined\n"),
        "qconf -shgrpl": "@allhosts\n",
        "qconf -shgrp @allhosts": "group_name @allhosts\nhostlist n1\n",
        "qconf -sql": "all.q\n",
        "qconf -sq all.q": "hostlist @allhosts\nslots 1,[n1=4]\n",
        "qconf -sss": "head\n",
        "qhost": "<qhost/>",
        "qstat": recorded("qstat-empty.xml"),
    }


@over(
    ("changed", "words"),
    [
        ({"qconf -sql": "b.q\n", "qconf -sq b.q": ""}, "has no queue all.q"),
        ({"qconf -shgrpl": Ran(1, b"", "no host group list defined\n")}, "has no host group @allhosts"),
        ({"qconf -sq all.q": "hostlist NONE\n"}, "all.q does not have the hosts of @allhosts"),
    ],
)
async def test_a_queue_that_is_not_set_up(changed: dict[str, Answer], words: str) -> None:
    commands = SaidCommands(_qconf() | changed)
    refused = await GridEngine(commands).add(NewHost("n2", 4))
    assert isinstance(refused, Refused)
    assert words in refused.reason
    assert "nothing was changed" in refused.reason


async def test_the_host_of_the_qmaster_stays() -> None:
    commands = SaidCommands(_qconf())
    refused = await GridEngine(commands).remove("head")
    assert isinstance(refused, Refused)
    assert "head is the host of the qmaster" in refused.reason
    assert not any(each.split()[1][:2] in ("-d", "-k") for each in commands.ran if each.startswith("qconf"))


async def test_a_host_without_an_address() -> None:
    commands = SaidCommands(_qconf() | {"qconf -ah": Ran(1, b"", 'can\'t resolve hostname "n2"\n')})
    outcome = await GridEngine(commands).add(NewHost("n2", 4))
    assert isinstance(outcome, Unavailable)
    assert "give the qmaster's host the name and address first" in outcome.reason
    assert sum(each.startswith("qconf -ah") for each in commands.ran) == 1, "the rest is not tried"


async def test_another_actor_may_do_the_same_meanwhile() -> None:
    """The command says that it is done already, and ends with 1."""
    lists = iter(("n1\nhead\n", "n1\nhead\nn2\n", "n1\nhead\nn2\n", "n1\nhead\nn2\n"))
    others: Callable[[], str] = lambda: "head\nn1\nn2\n"  # noqa: E731
    commands = SaidCommands(
        _qconf()
        | {
            "qconf -sh": lists.__next__,
            "qconf -ss": others,
            "qconf -sel": others,
            "qconf -shgrp @allhosts": "group_name @allhosts\nhostlist n1 n2\n",
            "qconf -sq all.q": "hostlist @allhosts\nslots 1,[n1=4],[n2=4]\n",
            "qconf -ah": Ran(1, b"", 'adminhost "n2" already exists\n'),
            "qconf -sss": "head\n",
            "qconf -shgrpl": "@allhosts\n",
        }
    )
    assert await GridEngine(commands).add(NewHost("n2", 4)) == Done(is_changed=True)


async def test_a_job_that_starts_while_the_host_is_drained_stays() -> None:
    rows = recorded("qhost.xml")
    before = re.sub(r"('slots_used'>)\d", r"\g<1>0", rows)
    answers = iter((before, before, rows))
    commands = SaidCommands(
        _qconf()
        | {
            "qhost": lambda: next(answers, rows),
            "qmod": "",
            "qstat": iter((recorded("qstat-empty.xml"), recorded("qstat.xml"))).__next__,
            "qstat -u * -s ha": recorded("qstat-waiting.xml"),
        }
    )
    refused = await GridEngine(commands).remove("h1")
    assert isinstance(refused, Refused)
    assert "the host stays drained" in refused.reason
    assert not any(each.startswith(("qconf -d", "qconf -k", "qconf -p")) for each in commands.ran)


def test_rows_say_what_a_host_is() -> None:
    assert Row("n1", 4, 0.5, None, ()).host("all.q") == Host(
        "n1", 0, 0, 0, HostState.UP, is_drained=False, word="", load=0.5, cpus=4, memory=None
    )
    assert Place("n1", 2).slots == 2
