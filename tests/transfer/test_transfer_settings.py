"""What setup changes in a cell of Grid Engine: the words for qconf, from recorded settings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import trio
from loops import over
from said_commands import Answer, SaidCommands

from subord.services.batch.records import Done, Fault, Refused, Unavailable
from subord.services.batch.running import Ran
from subord.services.transfer.cells.gridengine import setup
from subord.services.transfer.cells.gridengine.settings import (
    DEFAULTS,
    Settings,
    gids_in,
    gids_text,
    host_fields,
    printed,
    queue_fields,
    ranges_in,
    scripts,
)
from subord.services.transfer.local import STATUS_ERROR
from subord.services.transfer.plan import Plan

DOCS = Path(__file__).parents[2] / "docs"
RECORDED = Path(__file__).parent / "recorded"
OWN = Settings("a-head", "/run/agent", queue="transfer1", slots=12, threshold=5, program=("/usr/bin/python3", "-I"))
READ = "sh -c for path;"
QUEUE = "qname all.q\ncomplex_values NONE\n"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def answers(**changed: Answer) -> dict[str, Answer]:
    """Of a cell without a transfer queue."""
    complexes = recorded("qconf-sc.txt")
    without = "".join(f"{line}\n" for line in complexes.splitlines() if not line.startswith(("remote", "pend_away")))
    found: dict[str, Answer] = {
        "qconf -sc": without,
        "qconf -sql": "all.q\n",
        "qconf -sconf": "#global:\ngid_range 65400-65500\n",
        "qconf -sconfl": Ran(1, b"no config defined\n", ""),
        "qconf -ssconf": recorded("qconf-ssconf.txt"),
        "qconf -sh": "a-head\n",
        "qconf -ss": Ran(1, b"no submit host defined\n", ""),
        "qconf -sel": "a-head\na-run1\n",
        "qconf -sq all.q": QUEUE,
        READ: "\1\0" * 5,
    }
    return found | {name.replace("_-", " -"): value for name, value in changed.items()}


def test_the_values_of_the_text() -> None:
    """As in transfer-queues.txt: the queue is of the type BATCH, the sensor reports every 9 s, and 5 alarms at 5."""
    fields = queue_fields(OWN)
    assert (fields["qtype"], fields["slots"], fields["load_thresholds"]) == ("BATCH", "12", "otherjobs=5")
    assert (fields["prolog"], fields["epilog"], fields["rerun"]) == ("NONE", "NONE", "TRUE")
    assert fields["complex_values"] == "remote=TRUE"
    assert host_fields(OWN) == {"load_sensor": "/etc/subord/transfer/sensor", "load_report_time": "00:00:09"}
    assert queue_fields(OWN._replace(threshold=None))["load_thresholds"] == "NONE", "for many short jobs"
    assert "remote remote BOOL == YES NO 0 0" in printed(OWN)
    assert "otherjobs otherjobs INT >= NO NO 0 0" in printed(OWN)
    assert "qconf -aattr queue complex_values remote=FALSE all.q" in printed(OWN)


def test_all_fields_of_a_queue_are_named() -> None:
    """qconf takes no queue that lacks one."""
    names = {line.split()[0] for line in recorded("qconf-aq.txt").splitlines()}
    assert names == {"qname"} | DEFAULTS.keys() | queue_fields(OWN).keys()


def test_scripts_are_shell(tmp_path: Path) -> None:
    """Whatever is in the paths."""
    program = tmp_path / "a b" / "python3"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf \'%s,\' "$0" "$@"\n')
    program.chmod(0o755)
    own = OWN._replace(socket="/run/an agent's", program=(str(program),))
    for path, text in scripts(own).items():
        script = tmp_path / Path(path).name
        script.write_text(text)
        said = subprocess.run(["sh", script, "a b", "$x"], capture_output=True, text=True, check=True).stdout
        last = "otherjobs" if script.name == "sensor" else "a b,$x"
        assert said == f"{program},{script.name},--socket,/run/an agent's,{last},"


@over("shell", ["sh", "bash"])
async def test_a_program_that_cannot_be_run_puts_the_job_into_the_error_state(shell: str) -> None:
    """And not 126 or 127, which would be the status of the job."""
    for program in ("/none/python3", "/etc/passwd"):
        text = scripts(OWN._replace(program=(program,)))["/etc/subord/transfer/start"]
        done = await trio.run_process([shell, "-s"], stdin=text.encode(), capture_stderr=True, check=False)
        assert done.returncode == STATUS_ERROR, program


async def test_all_is_made_in_an_order_in_which_no_job_comes_too_early() -> None:
    said = SaidCommands(answers(qconf="", sh=""))
    await setup.set_up(said, OWN)
    changes = [each for each in said.ran if not each.startswith(("qconf -s", READ))]
    first = changes[: changes.index("qconf -Aq /dev/stdin") + 1]
    short = [each.split(" sh ")[-1] if each.startswith("sh") else each for each in first]
    assert short == [
        "qconf -as a-head",
        "qconf -Mc /dev/stdin",
        *(f"/etc/subord/transfer/{each}" for each in ("start", "suspend", "resume", "terminate", "sensor")),
        "a-head -Aconf",
        "qconf -aattr queue complex_values remote=FALSE all.q",
        "qconf -Aq /dev/stdin",
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("65400-65500", 101),
        ("200", 1),
        ("200-209,300 400-401", 13),
        ("40000-40099,40000-40099", 100),
        ("9-1", None),
        ("", None),
        ("NONE", None),
    ],
)
def test_how_many_jobs_a_range_of_groups_is_for(text: str, count: int | None) -> None:
    assert gids_in(text) == count


def test_ranges_of_groups_are_written_as_grid_engine_shows_them() -> None:
    """Otherwise each pass would set them anew."""
    for text, shown in (("0200-0300, 400", "200-300,400"), ("300-400,200-299 350", "200-400"), ("7", "7")):
        assert gids_text(ranges_in(text) or ()) == shown


async def test_ranges_that_are_there_in_another_form_are_left_alone() -> None:
    fields = {**host_fields(OWN), "gid_range": "40000-40050, 40051-40199"}
    shown = "#a-head:\n" + "".join(f"{name} {value}\n" for name, value in fields.items())
    said = SaidCommands(answers(qconf="", sh="") | {"qconf -sconfl": "a-head\n", "qconf -sconf a-head": shown})
    await setup.set_up(said, OWN._replace(gids="40000-40199"))
    assert any(each.startswith("qconf -Aq") for each in said.ran)
    assert not any(each.endswith("conf") and each.startswith("sh -c cd") for each in said.ran)


async def test_the_slots_of_all_transfer_queues_need_groups() -> None:
    said = SaidCommands(answers(qconf="", sh=""))
    refused = await setup.set_up(said, OWN._replace(slots=100, together=200))
    assert isinstance(refused, Refused)
    assert "200 slots of its transfer queues need as many" in refused.reason


@pytest.mark.parametrize(
    ("slots", "gids", "local", "is_set_up"),
    [
        (101, "", "", True),
        (102, "", "", False),
        (102, "", "gid_range 300-401\n", True),
        (40, "", "gid_range 300-330\n", False),
        (200, "40000-40199", "gid_range 300-330\n", True),
        (201, "40000-40199", "", False),
    ],
)
async def test_no_queue_has_more_slots_than_its_host_has_groups_for_jobs(
    slots: int, gids: str, local: str, is_set_up: bool
) -> None:
    """A job over this number would be started, fail, and wait again, for ever."""
    there = answers(qconf="", sh="")
    if local:
        there |= {"qconf -sconfl": "a-head\n", "qconf -sconf a-head": f"#a-head:\n{local}"}
    said = SaidCommands(there)
    outcome = await setup.set_up(said, OWN._replace(slots=slots, gids=gids))
    is_changed = any(each.startswith("qconf -Aq") for each in said.ran)
    assert is_changed == is_set_up
    if not is_set_up:
        assert isinstance(outcome, Refused)
        assert "starts at most" in outcome.reason
        assert "--gids" in outcome.reason
    elif gids:
        assert host_fields(OWN._replace(gids=gids))["gid_range"] == gids


async def test_what_is_so_is_left_alone() -> None:
    own = OWN
    there = answers(
        **{
            "qconf_-sql": "all.q\ntransfer1\n",
            "qconf_-sc": recorded("qconf-sc.txt") + "otherjobs otherjobs INT >= NO NO 0 0\n",
            "qconf_-sconfl": "a-head\n",
            "qconf_-sconf a-head": "#a-head:\nmailer /bin/mail\nload_sensor /etc/subord/transfer/sensor\n"
            "load_report_time 00:00:09\n",
            "qconf_-ss": "a-head\n",
            "qconf_-sq all.q": QUEUE.replace("NONE", "licence=3,remote=FALSE"),
            "qconf_-sq transfer1": "".join(f"{name:<20} {value}\n" for name, value in queue_fields(own).items()),
            READ: "".join(f"{text}\0" for text in scripts(own).values()),
        }
    )
    said = SaidCommands(there)
    assert await setup.set_up(said, own) == Done(is_changed=False)
    said.answers["qstat"] = "job-ID\n"
    refused = await setup.take_away(said, own)
    assert isinstance(refused, Refused)
    assert "may run elsewhere; nothing was changed" in refused.reason
    said.answers |= {"qstat": "", "qconf": "", "sh": "", "rm": ""}
    await setup.take_away(said, own)
    changes = [each for each in said.ran if not each.startswith(("qconf -s", READ, "qstat"))]
    assert changes[:2] == ["qconf -dq transfer1", "qconf -dattr queue complex_values remote=FALSE all.q"]
    (host,) = {given for line, given in zip(said.ran, said.given, strict=True) if line.endswith("sh a-head -Mconf")}
    assert host == b"mailer /bin/mail\n"
    kept = next(given for line, given in zip(said.ran, said.given, strict=True) if line == "qconf -Mc /dev/stdin")
    assert b"remote" not in kept
    assert b"\narch " in kept


@over(("other", "is_last"), [("remote=TRUE", False), ("remote=FALSE", True)])
async def test_what_all_transfer_queues_need_goes_with_the_last(other: str, is_last: bool) -> None:
    """Otherwise Grid Engine refuses to delete complexes that the other queue refers to."""
    own = OWN._replace(folder="/m/transfer1", sensor="/m/sensor")
    there = answers(
        **{
            "qconf_-sql": "all.q\ntransfer1\ntransfer2\n",
            "qconf_-sc": recorded("qconf-sc.txt"),
            "qconf_-sconfl": "a-head\n",
            "qconf_-sconf a-head": "#a-head:\nload_sensor /m/sensor\nload_report_time 00:00:09\n",
            "qconf_-sq transfer1": "qname transfer1\ncomplex_values remote=TRUE\n",
            "qconf_-sq transfer2": f"qname transfer2\ncomplex_values {other}\n",
            READ: "".join(f"{text}\0" for text in scripts(own).values()),
            "qstat": "",
            "qconf": "",
            "rm": "",
        }
    )
    said = SaidCommands(there)
    await setup.take_away(said, own)
    assert "qconf -dq transfer1" in said.ran
    assert "rm -f /m/transfer1/start" in said.ran
    shared = ("rm -f /m/sensor", "qconf -Mc /dev/stdin", "qconf -dconf a-head")
    assert [each in said.ran for each in shared] == [is_last] * 3


@pytest.mark.parametrize(
    ("own", "word"),
    [(OWN._replace(host="b"), "no execution host"), (OWN._replace(others=("no.q",)), "no queue no.q")],
)
async def test_what_cannot_be_set_up_is_refused(own: Settings, word: str) -> None:
    said = SaidCommands(answers())
    refused = await setup.set_up(said, own)
    assert isinstance(refused, Refused)
    assert word in refused.reason
    assert "nothing was changed" in refused.reason
    assert all(each.startswith(("qconf -s", READ)) for each in said.ran)


async def test_a_user_without_rights_is_told_so() -> None:
    said = SaidCommands(answers(qconf=Ran(1, b"", 'denied: "ann" must be manager for this operation')))
    outcome = await setup.set_up(said, OWN)
    assert isinstance(outcome, Unavailable)
    assert outcome.fault == Fault.RIGHTS


def test_the_complexes_are_called_as_in_a_plan() -> None:
    plan = Plan(host=1)
    own = Settings("h", "/s", ("python3",))
    assert (own.value, own.remote) == (plan.sensor, plan.opt_out)
    assert not [each for each in DOCS.glob("transfer*.md") if "away_pending" in each.read_text(encoding="utf-8")]
