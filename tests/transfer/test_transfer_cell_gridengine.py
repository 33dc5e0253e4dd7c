"""The answers of Grid Engine 8.1.9, as recorded from real cells, and what a cell makes of damaged ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from said_commands import Answer, SaidCommands

from subord.config.schema import TransferConfig
from subord.services.batch import running
from subord.services.batch.faults import AnswerError
from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.batch.running import Ran
from subord.services.transfer.cells.gridengine import accounting, describing, submitting
from subord.services.transfer.cells.gridengine.adapter import UNSURE_S, GridEngineCell
from subord.services.transfer.cells.gridengine.looking import Detail, details_in
from subord.services.transfer.cells.interface import Being, Deed, Foreign, Leaving, Look, Sought, Submitted
from subord.services.transfer.driving import role
from subord.services.transfer.jobs import Spec
from subord.services.transfer.plan import Plan, TransferQueue

RECORDED = Path(__file__).parent / "recorded"
QUEUE = "transfer1"
SPEC = Spec(user="ann", name="n", script="exit 0\n")
MARK = "sb.home.7.0.1795715165000"
ALL, SHOW, SUBMIT = "qstat -u * -f -r -xml", "qstat -xml -j", "runuser"
EMPTY = "<job_info><queue_info></queue_info><job_info></job_info></job_info>"
SILENT = Ran(
    1,
    b"",
    "error: commlib error: got select error (Connection refused)\n"
    'Unable to run job: unable to send message to qmaster using port 1 on host "b-head": got send error.\nExiting.\n',
)
MISSING = Unavailable(Fault.MISSING, "qstat is not on this node")


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def cell(answers: dict[str, Answer], clock: Clock | None = None) -> tuple[GridEngineCell, SaidCommands]:
    said = SaidCommands({"id -u": "6001\n"} | answers)
    return GridEngineCell(said, (QUEUE,), "/accounting", clock=clock or Clock()), said


# -- looks --------------------------------------------------------------------------------------------------------


async def test_foreign_jobs_are_found_by_their_marks() -> None:
    own, said = cell({ALL: recorded("qstat-away.xml"), SHOW: recorded("qstat-j-away.xml")})
    look = await own.look()
    assert isinstance(look, Look)
    assert look.foreign == (
        Foreign("sb.home.21.0.1795715165000", "18", Being.SUSPENDED, owner="ann"),
        Foreign("sb.home.23.5.1795715165002", "20", Being.RUNNING, owner="ann"),
        Foreign("sb.home.25.0.1795715165002", "22", Being.RUNNING, owner="ann"),
        Foreign("sb.home.26.0.1795715165003", "23", Being.RUNNING, owner="ann"),
        Foreign("sb.home.22.0.1795715165001", "19", Being.QUEUED, owner="ann"),
        Foreign("sb.home.12.0.1795715165003", "24", Being.QUEUED, is_unstarted=True, owner="ann"),
        Foreign("sb.home.24.0.1795715165002", "21", Being.HELD, is_unstarted=True, owner="ann"),
    )
    assert (look.pending, look.leaving, look.bound) == (2, (), ())
    assert await own.look() == look
    assert said.ran == [ALL, f"{SHOW} 18,19,20,21,22,23,24", ALL], "one query, but for the first look"


async def test_jobs_in_the_transfer_queue_and_those_that_wait() -> None:
    """A job that may only run in the transfer queue does not wait for a slot of this cell."""
    own, _ = cell({ALL: recorded("qstat-home.xml"), SHOW: recorded("qstat-j.xml")})
    look = await own.look()
    assert isinstance(look, Look)
    assert set(look.leaving) == {
        Leaving("5", 0, user="ann"),
        Leaving("7", 2, user="ann"),
        Leaving("7", 4, is_suspended=True, user="ann"),
        Leaving("11", 0, is_ending=True, user="ann"),
        Leaving("12", 0, user="ann"),
        Leaving("13", 0, user="ann"),
    }
    assert (look.pending, look.foreign) == (1, ())


async def test_the_reason_of_an_error_is_asked_for_once() -> None:
    own, said = cell({ALL: recorded("qstat-error.xml"), SHOW: recorded("qstat-j-away.xml")})
    first = await own.look()
    assert isinstance(first, Look)
    assert {each.id: each.being for each in first.foreign} == {"22": Being.RUNNING, "24": Being.ERROR}
    said.answers[SHOW] = recorded("qstat-j-error.xml").replace(">10<", ">24<")
    second, third = await own.look(), await own.look()
    assert second == third
    assert isinstance(second, Look)
    assert "can't open output file" in second.foreign[1].reason
    assert said.ran == [ALL, f"{SHOW} 22,24", ALL, f"{SHOW} 24", ALL]


BONDS = "<JB_context><context_list><VA_variable>subord_bound</VA_variable></context_list></JB_context>"


async def test_a_bound_job_is_one_that_was_started_before_and_is_held() -> None:
    for word, bound in (("hRwq", True), ("Rq", False), ("hqw", False), ("hr", False)):
        text = recorded("qstat-error.xml").replace("<state>Eqw<", f"<state>{word}<")
        own, _ = cell(
            {ALL: text, SHOW: recorded("qstat-j-away.xml").replace("<JB_deadline>", f"{BONDS}<JB_deadline>")}
        )
        look = await own.look()
        assert isinstance(look, Look)
        assert look.bound == ((("24", 0),) if bound else ()), word
        assert look.restarting == ((("24", 0),) if "R" in word and "q" in word else ()), word


@pytest.mark.parametrize(
    "context",
    [
        "",
        "<JB_context><context_list><VA_variable>project</VA_variable></context_list></JB_context>",
        "<JB_env_list><job_sublist><VA_variable>subord_bound</VA_variable></job_sublist></JB_env_list>",
        f"{BONDS.replace('context', 'env')}<JB_env_list></JB_env_list><JB_context></JB_context>",
    ],
)
async def test_a_hold_of_an_administrator_is_no_bond(context: str) -> None:
    text = recorded("qstat-error.xml").replace("<state>Eqw<", "<state>hRwq<")
    own, _ = cell({ALL: text, SHOW: recorded("qstat-j-away.xml").replace("<JB_deadline>", f"{context}<JB_deadline>")})
    look = await own.look()
    assert isinstance(look, Look)
    assert (look.bound, look.restarting) == ((), (("24", 0),))


async def test_marks_are_asked_for_after_a_submission_without_an_answer() -> None:
    clock = Clock()
    own, said = cell({ALL: EMPTY, SUBMIT: Unavailable(Fault.SLOW, "qsub has not ended")}, clock)
    assert await own.look() == Look(0, ())
    assert isinstance(await own.submit(MARK, "ann", SPEC), Unavailable)
    said.answers |= {ALL: recorded("qstat-away.xml"), SHOW: recorded("qstat-j-away.xml")}
    look = await own.look()
    assert isinstance(look, Look)
    assert len(look.foreign) == 7
    clock.now = UNSURE_S
    assert await own.look() == look
    assert [each.startswith(SHOW) for each in said.ran] == [False, False, False, False, True, False]


async def test_a_look_that_misses_marks_is_none() -> None:
    own, said = cell({ALL: recorded("qstat-away.xml"), SHOW: SILENT})
    assert isinstance(await own.look(), Unavailable)
    said.answers[SHOW] = recorded("qstat-j-away.xml")[:-200]
    garbled = await own.look()
    assert isinstance(garbled, Unavailable)
    assert garbled.fault == Fault.GARBLED


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (SILENT, Fault.SILENT),
        (MISSING, Fault.MISSING),
        ("", Fault.GARBLED),
        (recorded("qstat-away.xml")[:900], Fault.GARBLED),
        ("<!DOCTYPE x []><x/>", Fault.GARBLED),
        (Ran(1, b"", "error: no permission"), Fault.RIGHTS),
        (Ran(-9, b"", ""), Fault.FAILED),
        (Ran(1, b"", "error: failed receiving gdi request response for mid=1"), Fault.SILENT),
    ],
    ids=str,
)
async def test_what_is_no_look_says_why(answer: Answer, fault: Fault) -> None:
    own, _ = cell({ALL: answer, SHOW: answer})
    for outcome in (await own.look(), await own.describe(["5"]), await own.keep("5")):
        assert isinstance(outcome, Unavailable)
        assert outcome.fault == fault


def test_details_of_a_text_without_jobs() -> None:
    assert details_in(recorded("qstat-j-none.xml")) == {}
    assert details_in(recorded("qstat-j.xml")) == dict.fromkeys("567", Detail(""))


def test_a_qmaster_that_was_started_again_names_tasks_as_its_spool_does() -> None:
    """And a job may be called by characters that XML forbids."""
    text = recorded("qstat-j.xml")
    spooled = text.replace("ulong_sublist>", "JATASK:       1.>").replace("<JB_job_name>", "<JB_job_name>\x01")
    assert "<JATASK:       1.>" in spooled
    assert "</JATASK:       1.>" in spooled
    assert details_in(spooled) == details_in(text)
    whole, other = (describing.specs_in(each, ["transfer"], "remote") for each in (text, spooled))
    assert whole.keys() == other.keys() == {*"567"}


# -- submissions --------------------------------------------------------------------------------------------------


async def test_a_submission_tells_the_number() -> None:
    own, said = cell({SUBMIT: "17\n", ALL: EMPTY})
    assert await own.submit(MARK, "ann", SPEC) == Submitted("17")
    own, said = cell({SUBMIT: "18.5-5:1\n"})
    assert await own.submit("sb.home.7.5.1795715165000", "ann", SPEC) == Submitted("18")
    assert said.ran[0] == "id -u -- ann"
    assert said.ran[1].startswith("runuser -u ann -- env qsub -terse -clear -C  -h -w e -A sb.home.7.5.")
    assert "-t 5-5:1" in said.ran[1]
    assert said.given == [b"", b"exit 0\n"]


def test_the_words_of_a_submission() -> None:
    spec = Spec(
        user="ann",
        name="3 a/b",
        script="",
        arguments=("-h", "x"),
        environment=(("A", "b c"), ("B", "x,y"), ("SGE_ROOT", "/x"), ("BASH_FUNC_f%%", "()")),
        directory="/d",
        shell="/bin/bash",
        output="/o",
        is_merged=True,
        requests=(("h_rt", "60"), ("arch", "lx*"), ("remote", "TRUE")),
        wishes=(("big", "1"), ("remote", "TRUE")),
        queue="all.q",
        parallel="smp",
        slots=4,
        project="p",
        may_rerun=True,
    )
    words = submitting.words_for(MARK, spec, is_verified=False, remote="remote")
    assert words == (
        *("env", "B=x,y", "qsub", "-terse", "-clear", "-C", "", "-h", "-w", "n", "-A", MARK, "-N", "j3_a_b"),
        *("-r", "y", "-wd", "/d", "-S", "/bin/bash", "-o", "/o", "-j", "y", "-P", "p"),
        *("-soft", "-l", "big=1", "-hard", "-l", "h_rt=60", "-l", "arch=lx*", "-q", "all.q", "-pe", "smp", "4"),
        *("-v", "A=b c", "-v", "B", "--", "-h", "x"),
    )
    stays = submitting.words_for(MARK, spec, is_verified=False, remote="remote", stays=True)
    begin = words.index("-q")
    assert stays == (*words[:begin], "-l", "remote=FALSE", *words[begin:])


UNKNOWN = Ran(1, b"", 'Unable to run job: unknown resource "remote".\nExiting.\n')
NO_QUEUE = Ran(1, b"", "Unable to run job: error: no suitable queues.\nExiting.\n")


@pytest.mark.parametrize(
    ("first", "second", "outcome", "submissions"),
    [
        ("17\n", "18\n", Submitted("17"), [True]),
        (UNKNOWN, "18\n", Submitted("18"), [True, False]),
        (NO_QUEUE, "18\n", Submitted("18"), [True, False]),
        (NO_QUEUE, NO_QUEUE, Refused, [True, False]),
        (SILENT, "18\n", Unavailable, [True]),
    ],
    ids=str,
)
async def test_a_foreign_job_is_marked_so_that_it_does_not_go_on(
    first: Answer, second: Answer, outcome: Submitted | type, submissions: list[bool]
) -> None:
    """A cell without such queues has no such complex, and some queues lack it."""

    def answer() -> str | Ran | Unavailable:
        said_now = first if "remote=FALSE" in said.ran[-1] else second
        assert not callable(said_now)
        return said_now

    own, said = cell({SUBMIT: answer})
    found = await own.submit(MARK, "ann", SPEC)
    assert isinstance(found, outcome) if isinstance(outcome, type) else found == outcome
    assert ["remote=FALSE" in each for each in said.ran if each.startswith(SUBMIT)] == submissions


MEASURES = "HOSTNAME ARCH NCPU\nglobal - -\nb-run1 lx-amd64 2\n    Host Resource(s):      hl:mem_free=900M\n"


@pytest.mark.parametrize(
    ("measures", "rest", "levels", "outcome"),
    [
        (MEASURES, "verification: found suitable queue(s)\n", ["e", "e", "v", "n"], Submitted("18")),
        (MEASURES, NO_QUEUE, ["e", "e", "v"], Refused),
        (MEASURES.replace("hl:", "hc:"), "", ["e", "e"], Refused),
        (SILENT, "", ["e", "e"], Unavailable),
        (MEASURES, SILENT, ["e", "e", "v"], Unavailable),
    ],
    ids=["fits", "does not fit", "a consumable", "qhost is silent", "qsub is silent"],
)
async def test_what_hosts_measure_is_no_reason_to_refuse(
    measures: Answer, rest: Answer, levels: list[str], outcome: Submitted | type
) -> None:
    """Grid Engine verifies as if no host had told any value, and calls mem_free an unknown resource then."""

    def level() -> str:
        words = said.ran[-1].split()
        return words[words.index("-w") + 1]

    def answer() -> str | Ran | Unavailable:
        assert not callable(rest)
        assert ("mem_free=16M" in said.ran[-1]) == (level() != "v")
        assert "h_rt=600" in said.ran[-1]
        return {"e": NO_QUEUE, "v": rest, "n": "18\n"}[level()]

    own, said = cell({SUBMIT: answer, "qhost -F mem_free,h_rt": measures})
    found = await own.submit(MARK, "ann", replace(SPEC, requests=(("mem_free", "16M"), ("h_rt", "600"))))
    assert isinstance(found, outcome) if isinstance(outcome, type) else found == outcome
    submits = [each.split() for each in said.ran if each.startswith(SUBMIT)]
    assert [each[each.index("-w") + 1] for each in submits] == levels


@pytest.mark.parametrize("name", ["arch", "num_proc", "mem_total", "swap_total", "virtual_total"])
async def test_what_a_host_has_for_good_is_verified(name: str) -> None:
    """Grid Engine knows these values while it verifies, so a job that it refuses for them would wait for ever."""

    def answer() -> str | Ran | Unavailable:
        words = said.ran[-1].split()
        level = words[words.index("-w") + 1]
        return {"e": NO_QUEUE, "v": "verification: found suitable queue(s)\n", "n": "18\n"}[level]

    measures = f"b-run1 lx-amd64 2\n    Host Resource(s):      hl:{name}=1\n   hl:mem_free=9G\n"
    own, said = cell({SUBMIT: answer, f"qhost -F {name}": measures, f"qhost -F {name},mem_free": measures})
    assert isinstance(await own.submit(MARK, "ann", replace(SPEC, requests=((name, "2"),))), Refused)
    said.ran.clear()
    await own.submit(MARK, "ann", replace(SPEC, requests=((name, "2"), ("mem_free", "1G"))))
    assert [f"{name}=2" in each for each in said.ran if " -w v " in each] == [True]
    assert "mem_free" not in next(each for each in said.ran if " -w v " in each)


@pytest.mark.parametrize("queue", [QUEUE, f"all.q,{QUEUE}@b-head"])
async def test_a_foreign_job_names_no_transfer_queue(queue: str) -> None:
    own, said = cell({SUBMIT: "17\n"})
    refused = await own.submit(MARK, "ann", replace(SPEC, queue=queue))
    assert isinstance(refused, Refused)
    assert "nothing was submitted" in refused.reason
    assert not [each for each in said.ran if each.startswith(SUBMIT)]


@pytest.mark.parametrize(
    ("transfer", "words"), [((), ()), (("transfer",), ("-q", "!transfer")), (("one", "two"), ("-q", "!one&!two"))]
)
def test_a_job_that_has_come_does_not_leave_again(transfer: tuple[str, ...], words: tuple[str, ...]) -> None:
    said = submitting.words_for(MARK, SPEC, transfer, is_verified=True)
    assert tuple(said[said.index("-q") :][:2] if "-q" in said else ()) == words


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ('Unable to run job: unknown resource "nosuch".\nExiting.\n', "unknown resource"),
        ("Unable to run job: error: no suitable queues.\nExiting.\n", "no suitable queues"),
        ('Unable to run job: Job was rejected because job requests unknown queue "no.q".\nExiting.\n', "no.q"),
        ("runuser: user zoe does not exist or the user entry does not contain all the required fields", "zoe"),
    ],
)
async def test_what_can_never_run_here_is_refused(said: str, wrong: str) -> None:
    own, _ = cell({SUBMIT: Ran(1, b"", said), "id -u -- none": Ran(1, b"", "id: \u2018none\u2019: no such user")})
    outcome = await own.submit(MARK, "zoe", SPEC)
    assert isinstance(outcome, Refused)
    assert wrong in outcome.reason
    assert "nothing was submitted" in outcome.reason


@pytest.mark.parametrize("user", ["root", "", "-x", "a b", "0"])
async def test_nothing_is_submitted_as_such_a_user(user: str) -> None:
    own, said = cell({})
    assert isinstance(await own.submit(MARK, user, SPEC), Refused)
    assert said.ran == []


@pytest.mark.parametrize(
    ("user", "number", "form", "why"),
    [
        ("toor", "0\n", Refused, "user number 0"),
        ("sgeadmin", "999\n", Refused, "below 1000"),
        ("zoe", Ran(1, b"", "id: \u2018zoe\u2019: no such user"), Refused, "zoe has no account here"),
        ("ann", "", Unavailable, "no number of a user"),
        ("ann", Ran(1, b"", "id: cannot"), Unavailable, "id"),
        ("ann", MISSING, Unavailable, "not on this node"),
    ],
)
async def test_the_number_of_a_user_counts_and_not_the_name(
    user: str, number: Answer, form: type[Refused | Unavailable], why: str
) -> None:
    own, said = cell({"id -u": number, SUBMIT: "17\n"})
    outcome = await own.submit(MARK, user, SPEC)
    assert isinstance(outcome, form)
    assert why in outcome.reason
    assert said.ran == [f"id -u -- {user}"], "nothing was submitted"


@pytest.mark.parametrize(("uid_min", "is_taken"), [(999, True), (1000, False)])
async def test_the_plan_says_from_which_number_on(uid_min: int, is_taken: bool) -> None:
    said = SaidCommands({"id -u": "999\n", SUBMIT: "17\n"})
    own = GridEngineCell(said, (QUEUE,), "/accounting", uid_min=uid_min)
    assert isinstance(await own.submit(MARK, "ann", SPEC), Submitted) == is_taken


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (SILENT, Fault.SILENT),
        (Ran(1, b"", "Unable to run job: Error reading answer list from qmaster.\nExiting.\n"), Fault.SILENT),
        (Ran(1, b"", 'Unable to run job: denied: host "x" is no submit host.\nExiting.\n'), Fault.RIGHTS),
        (Ran(127, b"", "env: 'qsub': No such file or directory"), Fault.FAILED),
        ("something\n", Fault.GARBLED),
        (MISSING, Fault.MISSING),
    ],
    ids=str,
)
async def test_a_submission_without_an_outcome(answer: Answer, fault: Fault) -> None:
    own, _ = cell({SUBMIT: answer})
    outcome = await own.submit(MARK, "ann", SPEC)
    assert isinstance(outcome, Unavailable)
    assert outcome.fault == fault


# -- deeds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "line"),
    [
        (Deed.RELEASE, "qrls -h u 7 8"),
        (Deed.HOLD, "qhold -h u 7 8"),
        (Deed.SUSPEND, "qmod -sj 7 8"),
        (Deed.RESUME, "qmod -usj 7 8"),
        (Deed.DELETE, "qdel 7 8"),
    ],
)
async def test_deeds_do_no_harm_where_they_do_not_fit(deed: Deed, line: str) -> None:
    harmless = (
        'denied: job "8" does not exist\ninvalid queue or job "8"\nroot - job 7 is already suspended\n'
        "Modify operation can not be applied on job 7 in pending/hold state\n"
        "root has registered the job 7 for deletion"
    )
    own, said = cell({line: Ran(1, harmless.encode(), "")})
    assert await own.act(deed, ["7", "8", "-all", "*"]) is None
    assert said.ran == [line]
    said.answers[line] = Ran(1, harmless.encode(), "something else")
    assert isinstance(await own.act(deed, ["7", "8"]), Unavailable)
    said.answers[line] = SILENT
    silent = await own.act(deed, ["7", "8"])
    assert isinstance(silent, Unavailable)
    assert silent.fault == Fault.SILENT
    assert await own.act(deed, []) is None


async def test_jobs_are_marked_and_bound_by_a_hold_of_the_system() -> None:
    gone = b'denied: job "8" does not exist'
    own, said = cell(
        {
            "qalter": Ran(1, b"modified context of job 7\n" + gone, ""),
            "qhold": "modified hold of job-array task 7.3\n",
            "qrls": Ran(3, gone, ""),
        }
    )
    assert await own.bind([("7", 3), ("8", 0)]) is None
    assert await own.bind([("7", 4)]) is None
    assert await own.unbind([("7", 3), ("8", 0)]) is None
    assert said.ran == ["qalter -ac subord_bound=true 7 8", "qhold -h s 7.3 8", "qhold -h s 7.4", "qrls -h s 7.3 8"]


async def test_a_job_that_cannot_be_marked_is_not_bound() -> None:
    own, said = cell({"qalter": SILENT})
    assert isinstance(await own.bind([("7", 0)]), Unavailable)
    assert len(said.ran) == 1


# -- ends ---------------------------------------------------------------------------------------------------------


def ends(*sought: Sought) -> dict[str, tuple[int, int, str, bool]]:
    found = accounting.ended_in(recorded("accounting"), sought)
    return {each.id: (each.end.status, each.end.signal, each.end.failed, each.has_run) for each in found}


def test_ends_are_those_of_the_last_run() -> None:
    """`exit 137` is no signal; a run that was queued again, or could not start, is no end."""
    marks = {"7": "sb.home.12.0.2", "8": "sb.home.12.0.3", "9": "sb.home.12.0.4", "10": "sb.home.12.0.5"}
    marks |= {"18": "sb.home.21.0.1795715165000", "19": "sb.home.22.0.1795715165001"}
    assert ends(*(Sought(mark, job) for job, mark in marks.items())) == {
        "7": (137, 0, "", True),
        "8": (143, 15, "", True),
        "9": (3, 0, "", True),
        "18": (137, 9, "", True),
    }
    assert ends(Sought("sb.home.12.0.4", "8")) == {}
    assert ends(Sought("sb.home.12.0.4")).keys() == {"9"}
    forced = ends(Sought("sb.home.26.0.1795715165003"))["23"]
    assert "deleted by force" in forced[2]


def test_a_damaged_line_hides_no_other() -> None:
    text = recorded("accounting")
    found = accounting.ended_in(f"all.q:b-run1:che\n{text}all.q:b-run1:c", [Sought("sb.home.12.0.4")])
    assert [(each.id, each.owner) for each in found] == [("9", "ann")]
    with pytest.raises(AnswerError, match="3 fields"):
        accounting.ended_in("all.q:b-run1:che\n", [Sought("sb.home.12.0.4")])


def test_a_line_with_an_endless_number_is_damaged() -> None:
    line = next(each for each in recorded("accounting").splitlines() if ":sb.home.12.0.3:" in each)
    fields = line.split(":")
    fields[-3] = "inf"
    with pytest.raises(AnswerError, match="infinity"):
        accounting.ended_in(":".join(fields), [Sought("sb.home.12.0.3")])


@pytest.mark.parametrize(
    ("status", "end"),
    [("255", (255, 0)), ("192", (192, 64)), ("193", (193, 0)), ("-1", (0, 0)), ("70000", (255, 0))],
)
def test_an_end_is_one_that_can_be_told(status: str, end: tuple[int, int]) -> None:
    """The other side would heed no answer with it."""
    fields = next(line for line in recorded("accounting").splitlines() if ":sb.home.12.0.3:" in line).split(":")
    fields[accounting._FAILED], fields[accounting._STATUS] = "100", status
    (found,) = accounting.ended_in(":".join(fields), [Sought("sb.home.12.0.3")])
    assert (found.end.status, found.end.signal) == end
    msgspec.json.decode(msgspec.json.encode(found.end), type=type(found.end))


def test_the_usage_of_a_job() -> None:
    found = accounting.ended_in(recorded("accounting"), [Sought("sb.home.21.0.1795715165000")])
    assert len(found) == 1
    usage = found[0].end.usage
    assert (usage.host, usage.submitted, usage.started, usage.ended) == ("b-run1", 1795715273, 1795715273, 1795715304)
    assert (usage.wall_s, usage.cpu_s, usage.memory_bytes) == (31, 0.007638, 3551232)


async def test_the_accounting_is_searched_once_for_all() -> None:
    own, said = cell({"grep": Ran(1, b"", "")})
    assert await own.ended([]) == []
    assert await own.ended([Sought("sb.a.1.0.1", "5"), Sought("sb.a.2.0.1", "6")]) == []
    assert said.ran == ["grep --text -F -f /dev/stdin /accounting"]
    assert said.given == [b":sb.a.1.0.1:\n:sb.a.2.0.1:\n"]
    said.answers["grep"] = Ran(2, b"", "grep: /accounting: No such file or directory")
    assert await own.ended([Sought("sb.a.1.0.1")]) == [], "no job has ended yet"
    for answer, fault in (
        (Ran(2, b"", "grep: /accounting: Permission denied"), Fault.FAILED),
        ("a:b\n", Fault.GARBLED),
    ):
        said.answers["grep"] = answer
        outcome = await own.ended([Sought("sb.a.1.0.1")])
        assert isinstance(outcome, Unavailable)
        assert outcome.fault == fault


async def test_a_job_that_was_deleted_before_it_started_has_ended() -> None:
    own, _ = cell(
        {"qdel": "root has deleted job 21\nroot has registered the job 22 for deletion\n", "grep": Ran(1, b"", "")}
    )
    assert await own.act(Deed.DELETE, ["21", "22"]) is None
    found = await own.ended([Sought(MARK, "21"), Sought(MARK, "22")])
    assert not isinstance(found, Unavailable)
    assert [(each.id, each.end.signal, each.has_run) for each in found] == [("21", 9, False)]


# -- jobs of this cell --------------------------------------------------------------------------------------------


async def test_jobs_are_described_by_one_query() -> None:
    own, said = cell({SHOW: recorded("qstat-j.xml")})
    found = await own.describe(["7", "5", "6", "x"])
    assert not isinstance(found, Unavailable)
    assert said.ran == [f"{SHOW} 5,6,7"]
    assert found["5"] == Spec(
        user="ann",
        name="full",
        script="",
        environment=(("A", "b"), ("C", "d e")),
        directory="/srv/common/ann",
        shell="/bin/sh",
        output="/srv/common/ann/out.txt",
        errors="/srv/common/ann/err.txt",
        requests=(("h_rt", "3600"), ("h_vmem", "1G")),
        wishes=(("arch", "lx-amd64"),),
        parallel="smp",
        slots=2,
        may_rerun=True,
    )
    program, array = found["6"], found["7"]
    assert isinstance(program, Spec)
    assert (program.script, program.arguments, program.is_merged) == ('exec sleep "$@"\n', ("200",), True)
    assert isinstance(array, Spec)
    assert (array.first, array.last, array.step, array.output) == (2, 6, 2, "$HOME/o.$JOB_ID.$TASK_ID")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("<JB_ar>0<", "<JB_ar>3<", "advance reservation"),
        ("<JB_type>0<", "<JB_type>8<", "terminal"),
        ("<JB_deadline>", "<JB_checkpoint_name>c</JB_checkpoint_name><JB_deadline>", "checkpointing"),
        ("<JB_account>mine<", f"<JB_account>{MARK}<", "the mark of a job of another cluster"),
        ("<JB_job_name>full<", f"<JB_job_name>{'x' * 300}<", "more than another cluster can be told"),
    ],
)
async def test_what_no_other_cluster_can_run_stays(old: str, new: str, why: str) -> None:
    own, _ = cell({SHOW: recorded("qstat-j.xml").replace(old, new, 1)})
    found = await own.describe(["5"])
    assert not isinstance(found, Unavailable)
    refused = found["5"]
    assert isinstance(refused, Refused)
    assert why in refused.reason


async def test_a_job_is_kept_with_all_that_it_asks_for() -> None:
    """After qalter the lists have other elements than before."""
    own, said = cell({SHOW: recorded("qstat-j.xml"), "qalter": ""})
    states = iter([recorded("qstat-j.xml"), recorded("qstat-j-altered.xml")])
    said.answers[SHOW] = lambda: next(states)
    assert await own.keep("5") is None
    assert said.ran[1] == "qalter -soft -l arch=lx-amd64 -hard -l h_rt=3600,h_vmem=1G,remote=FALSE 5"
    said.answers[SHOW] = recorded("qstat-j-altered.xml").replace(">FALSE<", ">TRUE<")
    await own.keep("1")
    altered = [each for each in said.ran if each.startswith("qalter")][1]
    assert altered == "qalter -soft -l arch=lx* -hard -l local_licence=1,h_rt=100,remote=FALSE 1"
    said.answers[SHOW] = recorded("qstat-j-altered.xml")
    assert await own.keep("1") is None
    assert said.ran[-1].startswith(SHOW)


async def test_the_cell_of_a_plan_has_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    said = SaidCommands({SHOW: recorded("qstat-j.xml"), "qalter": "", "id -u": "700\n", SUBMIT: "17\n"})
    monkeypatch.setattr(running, "Commands", lambda *_: said)
    plan = Plan(host=1, queues=(TransferQueue(name="away.q"),), opt_out="abroad", uid_min=700)
    own = role.make_cell(TransferConfig(batch="gridengine"), plan)
    await own.keep("5")
    assert "qalter -soft -l arch=lx-amd64 -hard -l h_rt=3600,h_vmem=1G,abroad=FALSE 5" in said.ran
    assert isinstance(await own.submit(MARK, "ann", SPEC), Submitted)
    assert "-l abroad=FALSE" in said.ran[-1]
    refused = await own.submit(MARK, "ann", replace(SPEC, queue="away.q"))
    assert isinstance(refused, Refused)


async def test_a_job_that_cannot_be_kept_says_why() -> None:
    own, said = cell({SHOW: recorded("qstat-j-none.xml"), "qalter": Ran(1, b'unknown resource "remote"', "")})
    for job in ("99", "9 8"):
        refused = await own.keep(job)
        assert isinstance(refused, Refused)
        assert "nothing was changed" in refused.reason
    said.answers[SHOW] = recorded("qstat-j.xml")
    failed = await own.keep("5")
    assert isinstance(failed, Unavailable)
    assert "subord transfer setup" in failed.reason


def test_what_cannot_be_read_of_one_job_is_refused_for_it_alone() -> None:
    """What was requested is not to be lost, so such a job stays at home."""
    text = recorded("qstat-j.xml")
    whole = describing.specs_in(text, QUEUE, "remote")
    for tag, damaged in (("<CE_name>", "<CE_name/><CE_name>"), ("<JB_type>", "<JB_type>x")):
        before, _, behind = text.rpartition(tag)
        found = describing.specs_in(f"{before}{damaged}{behind}", QUEUE, "remote")
        (changed,) = [job for job in whole if found[job] != whole[job]]
        refused = found[changed]
        assert isinstance(refused, Refused)
        assert f"job {changed} cannot be described" in refused.reason
