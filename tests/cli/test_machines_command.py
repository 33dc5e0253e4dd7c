"""`subord machines plan`, `off` and `policy check`: what is published, what is refused, and the exit codes."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from loops import over

from subord.client import exit_codes
from subord.client.orders import publishing
from subord.runtime.machines.state import NO_AGENT, Amount, MachineState, State
from subord.services.machines.commands.given import GivenError, parsed
from subord.services.machines.plan import Headroom, Plan, Waits
from tests.api.machines_nodes import ALMA, PLAN, SERVERS, TEMPLATES
from tests.api.served_node import fake_daemon
from tests.cli.machines_stage import FILE, MachinesStage, Said
from tests.cli.other_operators import publish_after, sign_as
from tests.cli.test_json import fitting

TABLE = [
    "type         template   queues       cores  memory   image  slots  window  most",
    "alma         alma-9     long, short      4   8 GiB  20 GiB      1       -     -",
    "deb (tests)  debian-12  debian           1   2 GiB   4 GiB      2  3600 s     6",
    "a round every 30 s; images take at most 200 GiB; machines move to the fastest server",
]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[MachinesStage]:
    stage = MachinesStage(tmp_path)
    stage.have_templates()
    with fake_daemon(stage.node) as stage.path:
        yield stage


# -- plan -----------------------------------------------------------------------------------------------------------


def test_the_first_plan(stage: MachinesStage, capsys: Said) -> None:
    code, lines, err = stage.type(capsys, "plan", "FILE")
    assert (code, err) == (exit_codes.OK, "")
    assert stage.plan == PLAN
    assert lines[0].startswith("version 1 published by ann at 20")
    assert lines[0].endswith(" UTC: 10.0.0.1 has the queues")
    assert lines[1:] == TABLE


def test_a_trial(stage: MachinesStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "plan", "FILE", "--trial")
    assert code == exit_codes.OK
    assert stage.plan == msgspec.structs.replace(PLAN, is_trial=True)
    assert lines[0].endswith(": 10.0.0.1 has the queues; it is a trial, and nothing is done")
    code, lines, _ = stage.type(capsys, "plan", "FILE")
    assert (code, stage.plan) == (exit_codes.OK, PLAN)
    assert lines[-2:] == ["changed  now  before", "trial    no   yes"]


def test_what_has_changed_is_shown(stage: MachinesStage, capsys: Said) -> None:
    stage.type(capsys, "plan", "FILE")
    second = FILE.replace("cores = 4\n", "cores = 8\n").partition('\n[[types]]\nname = "deb"')[0]
    stage.write(f'period_s = 20\nalways_on = ["head"]\n{second}\n[headroom]\ncores = 4\n[waits]\nstart_s = 200\n')
    code, lines, _ = stage.type(capsys, "plan", "FILE")
    assert code == exit_codes.OK
    assert stage.plan == msgspec.structs.replace(
        PLAN,
        types=(msgspec.structs.replace(ALMA, cores=8),),
        period_s=20,
        always_on=("head",),
        headroom=Headroom(cores=4),
        waits=Waits(start_s=200),
    )
    assert lines[4:12] == [
        "headroom: 4 cores stay free",
        "always on: head",
        "changed         now      before",
        "period_s        20       30",
        "always_on       head     -",
        "headroom.cores  4        0",
        "waits.start_s   200      300",
        "types.alma      cores 8  cores 4",
    ]
    assert lines[12:] == ["types.deb       -        template debian-12, debian"]
    stage.write(FILE.replace("cores = 4", "cores = 6\nslots = 3"))
    _, lines, _ = stage.type(capsys, "plan", "FILE")
    assert [line for line in lines if line.startswith("types.")] == [
        "types.alma      cores 6, slots 3  cores 8, slots 1",
        "types.deb       as above          -",
    ]
    code, lines, _ = stage.type(capsys, "plan", "FILE")
    assert (code, lines[-1]) == (exit_codes.OK, "nothing differs from version 3")


def test_the_json_says_what_has_changed(stage: MachinesStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "plan", "FILE", "--json")
    found = fitting("machines-plan", lines[0])
    assert (code, found["version"], found["batch"], found["manager"]) == (exit_codes.OK, 1, "gridengine", "10.0.0.1")
    assert {"name": "types.alma.cores", "before": None, "now": "4"} in found["changed"]
    stage.write(FILE.replace("cores = 4", "cores = 8"))
    _, lines, _ = stage.type(capsys, "plan", "FILE", "--json")
    assert fitting("machines-plan", lines[0])["changed"] == [{"name": "types.alma.cores", "before": "4", "now": "8"}]


def test_a_check_changes_nothing(stage: MachinesStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "plan", "FILE", "--check")
    assert (code, lines[0]) == (exit_codes.OK, "version 1 would be published by ann: 10.0.0.1 is to have the queues")
    code, lines, _ = stage.type(capsys, "plan", "FILE", "--check", "--json")
    assert fitting("machines-plan", lines[0])["time"] is None
    assert stage.plan is None


def test_the_manager(stage: MachinesStage, capsys: Said) -> None:
    """The option counts before the file, that before the plan, and that before this node."""
    for position in (4, 7):
        stage.world.known[position].machines.batch = "slurm"
    stage.type(capsys, "plan", "FILE", "--manager", "10.0.0.4")
    assert stage.plan is not None
    assert stage.plan.manager == 4
    stage.write(FILE.partition("\n")[2])
    stage.type(capsys, "plan", "FILE")
    assert stage.plan.manager == 4
    stage.node.tracker.membership.documents.drop(["machines/plan"])
    stage.type(capsys, "plan", "FILE")
    assert stage.plan.manager == 7


def test_a_plan_from_standard_input(stage: MachinesStage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILE.encode())))
    assert stage.type(capsys, "plan", "-")[0] == exit_codes.OK
    assert stage.plan == PLAN


# -- wrong files ----------------------------------------------------------------------------------------------------

BARE = FILE.partition('\n[[types]]\nname = "deb"')[0].partition("\n")[2]
WRONG = [
    ("x = ", "it is no TOML: Invalid value (at end of document)"),
    ("x = " + "[" * 5000, "it is no TOML of a plan: its tables or lists are nested too deeply"),
    ("x\n", "it is no TOML: Expected '=' after a key in a key/value pair (at line 1, column 2)"),
    ("", "it has no types of machines: write a table [[types]] for each"),
    ("trial = true\n" + BARE, "trial is no key of a plan: give --trial with the command"),
    ("is_trial = true\n" + BARE, "is_trial is no key of a plan: give --trial with the command"),
    ("manager = 3\n" + BARE, "manager must be a string: the name or the address of the node that has the queues"),
    (
        "colour = 1\n" + BARE,
        "the plan: there is no key 'colour': its keys are manager, types, headroom, period_s, waits,",
    ),
    (BARE + "colour = 1\n", "the type alma: there is no key 'colour': its keys are name, template, queues, cores,"),
    (BARE + "[waits]\norder = 3\n", "the table waits: there is no key 'order': its keys are order_s, answer_s,"),
    (BARE + "[headroom]\nslots = 3\n", "the table headroom: there is no key 'slots': its keys are cores, memory_mb"),
    (BARE.replace("memory_mb = 8192\n", ""), "the type alma: the key memory_mb is missing"),
    (BARE.replace('name = "alma"\n', ""), "the type number 1: the key name is missing"),
    (BARE.replace("8192", '"8 GiB"'), "the type alma: the key memory_mb must be a whole number, not a string"),
    (BARE.replace("8192", "0"), "the type alma: the key memory_mb must be a whole number of at least 1"),
    (BARE.replace("20480\n", "1.5\n"), "the key image_mb must be a whole number, not a number with a point"),
    (BARE.replace('"alma"', '"Alma"'), "the type Alma: the key name must be at most 40 small letters, digits and -"),
    (BARE.replace('["long", "short"]', '"long"'), "the type alma: the key queues must be a list, not a string"),
    (BARE.replace('"short"', '"a b"'), "the type alma: the key queues must be names: at most 63 letters"),
    (BARE.replace('"alma-9"', '"alma 9"'), "the type alma: the key template must be a name of libvirt"),
    ("period_s = 0\n" + BARE, "the plan: the key period_s must be a whole number of at least 1"),
    ("moves = 1\n" + BARE, "the plan: the key moves must be true or false, not a whole number"),
    (
        "types = 3\n",
        "the plan: the key types must be a list of tables: write [[types]] with two brackets",
    ),
    ('[types]\nname = "alma"\n', "write [[types]] with two brackets before each type"),
    (
        BARE.replace('["long", "short"]', "[]"),
        "the type alma: the key queues must not be empty: name each queue that the machines",
    ),
    ("types = [1]\n", "the plan: the key types must be a table, not a whole number"),
    ("waits = 1\n" + BARE, "the plan: the key waits must be a table, not a whole number"),
    ("store_mb = 5\n" + BARE.replace("store_mb = 204800", ""), "an image of the type alma has 20480 MiB, and the"),
    (FILE.replace('["debian"]', '["long"]'), "the queue long has two types, alma and deb: leave it to one of them"),
    (FILE.replace('name = "deb"', 'name = "alma"'), "there are two types alma: a name stands for one type"),
    ("[waits]\nanswer_s = 20\n" + BARE.replace("store_mb = 204800", ""), "answer_s (20) is not above period_s (30)"),
]


@over(("text", "complaint"), WRONG)
def test_a_wrong_file(text: str, complaint: str) -> None:
    with pytest.raises(GivenError) as raised:
        parsed(text)
    assert complaint in str(raised.value)
    assert not str(raised.value).endswith(".")


@over(
    "words", [("plan", "FILE"), ("plan", "FILE", "--check"), ("plan", "FILE", "--force"), ("policy", "check", "FILE")]
)
def test_a_wrong_file_changes_nothing(words: tuple[str, ...], capsys: Said, tmp_path: Path) -> None:
    stage = MachinesStage(tmp_path)
    stage.write("colour = 1\n")
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, *words)
        assert (code, lines, stage.plan) == (exit_codes.USAGE, [], None)
        assert err.startswith("subord: plan.toml: the plan: there is no key 'colour'")
        assert len(err.splitlines()) == 1
        assert err.endswith("; nothing was changed\n") is (words[0] == "plan")
        assert stage.node.orders.given == [], "no node is asked"
        stage.file.write_bytes(b"\xff")
        assert "is no text in UTF-8" in stage.type(capsys, *words)[2]
        stage.file.write_bytes(b"#" * 300_000)
        assert "has more than 262144 bytes" in stage.type(capsys, *words)[2]
        stage.file.unlink()
        code, _, err = stage.type(capsys, *words)
        assert (code, "cannot read plan.toml: No such file or directory" in err) == (exit_codes.USAGE, True)


def test_a_plan_that_is_too_long(stage: MachinesStage, capsys: Said) -> None:
    names = ", ".join(f'"{"n" * 50}{number}"' for number in range(200))
    stage.write(f"always_on = [{names}]\n{FILE}")
    code, _, err = stage.type(capsys, "plan", "FILE")
    assert (code, stage.plan) == (exit_codes.USAGE, None)
    assert "at most 8192 have room: give fewer types or names; nothing was changed" in err


@over("node", ["11.0.0.1", "nowhere"])
def test_an_unknown_manager(node: str, capsys: Said, tmp_path: Path) -> None:
    stage = MachinesStage(tmp_path)
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, "plan", "FILE", "--manager", node)
        assert (code, lines, stage.plan) == (exit_codes.NO_SUCH_NODE, [], None), err
        assert err.startswith("subord: --manager: ")
        stage.write(FILE.replace("10.0.0.1", node))
        code, _, err = stage.type(capsys, "plan", "FILE")
    assert (code, err.startswith("subord: manager of plan.toml: "), err.endswith("; nothing was changed\n")) == (
        exit_codes.NO_SUCH_NODE,
        True,
        True,
    )


# -- what nodes lack ------------------------------------------------------------------------------------------------


def refused(stage: MachinesStage, capsys: Said, exit_code: int) -> str:
    """What is said of a plan that is not published, and is with --force."""
    code, lines, err = stage.type(capsys, "plan", "FILE")
    assert (code, lines, stage.plan) == (exit_code, [], None), err
    assert err.endswith("; nothing was changed\n")
    assert "--force" in err
    assert len(err.splitlines()) == 1
    code, lines, _ = stage.type(capsys, "plan", "FILE", "--force")
    assert (code, stage.plan is not None) == (exit_codes.OK, True)
    return err


def test_a_node_without_a_queue(stage: MachinesStage, capsys: Said) -> None:
    stage.write(FILE.replace("10.0.0.1", "10.0.0.4"))
    err = refused(stage, capsys, exit_codes.CONFIGURATION)
    assert "10.0.0.4 has no batch system: set machines.batch in its configuration and restart its daemon and " in err


@pytest.mark.parametrize(
    ("trouble", "words"),
    [("gone", "the node is down"), ("lying", "its answer cannot be read: it is of another release")],
)
def test_a_queues_node_that_tells_nothing(stage: MachinesStage, capsys: Said, trouble: str, words: str) -> None:
    if trouble == "lying":
        stage.world.lying[4] = b"\xff"
    else:
        stage.world.gone.add(4)
    stage.write(FILE.replace("10.0.0.1", "10.0.0.4"))
    err = refused(stage, capsys, exit_codes.TRY_AGAIN)
    assert f"whether 10.0.0.4 has a batch system is not known: {words}" in err


def test_a_queues_node_that_is_not_there(stage: MachinesStage, capsys: Said) -> None:
    """Its address is one of the network."""
    stage.write(FILE.replace("10.0.0.1", "10.0.0.200"))
    err = refused(stage, capsys, exit_codes.TRY_AGAIN)
    assert "whether 10.0.0.200 has a batch system is not known: no member has this address" in err


def test_no_server_at_all(stage: MachinesStage, capsys: Said) -> None:
    for each in SERVERS:
        stage.is_server(each, "")
        stage.world.known[each].machines.server = None
    assert "no node that has answered is a server: set machines.uri" in refused(
        stage, capsys, exit_codes.CONFIGURATION
    )


def test_a_template_that_is_on_no_server(stage: MachinesStage, capsys: Said) -> None:
    for each in SERVERS:
        stage.has(each, TEMPLATES[0])
    err = refused(stage, capsys, exit_codes.CONFIGURATION)
    assert "the template debian-12 of the type deb is on no server: define it there" in err


def test_a_machine_that_fits_on_no_server(stage: MachinesStage, capsys: Said) -> None:
    stage.write(FILE.replace("cores = 4", "cores = 32"))
    err = refused(stage, capsys, exit_codes.CONFIGURATION)
    assert "a machine of the type alma fits on no server, even if it is empty: on 10.0.0." in err
    assert "16 of 32 cores are free" in err


def test_a_queue_that_the_batch_system_does_not_have(stage: MachinesStage, capsys: Said) -> None:
    stage.manage(queues=("all.q", "long", "debian"))
    code, _, err = stage.type(capsys, "plan", "FILE")
    assert code == exit_codes.CONFIGURATION
    assert "the type alma serves the queue short, and the batch system has only all.q, long, debian" in err


def test_what_is_odd_hinders_no_plan(stage: MachinesStage, capsys: Said) -> None:
    old = MachineState(name="old-1", type="old", state="on", cores=1, memory=1024)
    stage.has(2, *TEMPLATES, old, have=Amount(16, 512, 0, 64))
    stage.has(3, MachineState(name="alma-9", state="on"), fault="")
    code, lines, _ = stage.type(capsys, "plan", "FILE")
    assert code == exit_codes.OK
    assert lines[5:] == [
        "note: 10.0.0.2 is overbooked: no machine starts there before it is not",
        "note: the template alma-9 of the type alma on 10.0.0.3 is on: it is cloned when it is off",
        "note: the template debian-12 of the type deb is not on 10.0.0.3: no machine is cloned there",
        "note: 1 machine of types that are not in the plan (old) are counted, and left alone",
    ]


def test_servers_that_tell_nothing_hinder_no_plan(stage: MachinesStage, capsys: Said) -> None:
    """What they have is not known: it may be enough."""
    stage.world.gone.add(9)
    stage.has(2, fault="libvirt at qemu:///system cannot be reached: start libvirtd there", at=0.0)
    stage.world.known[3].machines.server = None
    stage.say(State(word=NO_AGENT), 3)
    code, lines, _ = stage.type(capsys, "plan", "FILE")
    assert (code, stage.plan) == (exit_codes.OK, PLAN)
    assert lines[5:] == [
        "note: what is on 10.0.0.3 is not known: there is no agent on the node, or it cannot be reached:",
        "  start subord-agent.socket",
        "note: what is on 10.0.0.9 is not known: the node is down, or its process ended before it answered",
        "note: 10.0.0.2: libvirt at qemu:///system cannot be reached: start libvirtd there",
    ]


# -- policy check ---------------------------------------------------------------------------------------------------


def test_a_plan_without_a_fault(stage: MachinesStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "policy", "check", "FILE")
    assert (code, stage.plan) == (exit_codes.OK, None)
    assert lines[:-1] == ["10.0.0.1 is to have the queues; 2 servers answered", *TABLE, "nothing is wrong with it"]
    assert lines[-1].startswith("11 of 11 answered in ")
    assert not any(each["authority"] for each in stage.node.orders.signed)


def test_faults_and_warnings_are_told_apart(stage: MachinesStage, capsys: Said) -> None:
    stage.has(3, TEMPLATES[0])
    code, lines, _ = stage.type(capsys, "policy", "check", "FILE")
    assert code == exit_codes.OK, "a note hinders nothing"
    assert "note: the template debian-12 of the type deb is not on 10.0.0.3: no machine is cloned there" in lines
    stage.has(2)
    code, lines, _ = stage.type(capsys, "policy", "check", "FILE")
    assert code == exit_codes.USAGE
    assert "wrong: the template debian-12 of the type deb is on no server: define it there" in lines
    code, lines, _ = stage.type(capsys, "policy", "check", "FILE", "--json")
    found = fitting("machines-policy-check", lines[0])
    assert (code, found["servers"], found["plan"]["version"]) == (exit_codes.USAGE, 2, 0)
    assert found["faults"] == ["the template debian-12 of the type deb is on no server: define it there"]
    assert len(found["warnings"]) == 1


def test_a_manager_that_is_no_member(stage: MachinesStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "policy", "check", "FILE", "--manager", "10.0.0.99")
    assert (code, lines[0]) == (
        exit_codes.NOT_REACHED,
        "10.0.0.99, which is no member, is to have the queues; 2 servers answered",
    )


def test_each_fault_of_a_file_has_a_line(stage: MachinesStage, capsys: Said) -> None:
    stage.write(
        "moves = 1\n[waits]\norder_s = 0\n"
        + FILE.replace("cores = 4", "cores = 0").replace("slots = 2", 'slots = "2"')
    )
    wrong = [
        "  the plan: the key moves must be true or false, not a whole number",
        "  the type alma: the key cores must be a whole number of at least 1",
        "  the type deb: the key slots must be a whole number, not a string",
        "  the table waits: the key order_s must be a whole number of at least 1",
    ]
    for words in (("plan", "FILE"), ("policy", "check", "FILE")):
        code, lines, err = stage.type(capsys, *words)
        assert (code, lines, stage.plan) == (exit_codes.USAGE, [], None)
        end = "; nothing was changed" if words[0] == "plan" else ""
        assert err.splitlines() == [f"subord: plan.toml: 4 faults{end}", *wrong]


def test_each_thing_that_is_lacking_has_a_line(stage: MachinesStage, capsys: Said) -> None:
    for each in SERVERS:
        stage.has(each)
    code, lines, err = stage.type(capsys, "plan", "FILE")
    assert (code, lines) == (exit_codes.CONFIGURATION, [])
    assert err.splitlines() == [
        "subord: 2 faults; --force publishes it all the same; nothing was changed",
        "  the template alma-9 of the type alma is on no server: define it there",
        "  the template debian-12 of the type deb is on no server: define it there",
    ]


# -- off ------------------------------------------------------------------------------------------------------------


def test_off_keeps_the_plan_without_its_manager(stage: MachinesStage, capsys: Said) -> None:
    stage.type(capsys, "plan", "FILE")
    code, lines, _ = stage.type(capsys, "off", "--check")
    assert (code, lines) == (
        exit_codes.OK,
        ["version 2 would be published by ann: it ends the plan; machines stay as they are"],
    )
    assert stage.plan == PLAN
    code, lines, _ = stage.type(capsys, "off", "--json")
    found = fitting("machines-off", lines[0])
    assert (code, found["off"], found["manager"], found["version"]) == (exit_codes.OK, True, None, 2)
    assert stage.plan == msgspec.structs.replace(PLAN, manager=0)


@over("before", [None, Plan(manager=0)])
@over("words", [(), ("--check",), ("--json",)])
def test_without_a_plan_in_force_off_changes_nothing(
    before: Plan | None, words: tuple[str, ...], capsys: Said, tmp_path: Path
) -> None:
    stage = MachinesStage(tmp_path)
    if before is not None:
        stage.hold(5, before)
    with fake_daemon(stage.node) as stage.path:
        code, lines, _ = stage.type(capsys, "off", *words)
        assert (code, stage.plan) == (exit_codes.OK, before)
        assert not stage.node.orders.given
        if "--json" in words:
            assert fitting("machines-off", lines[0])["version"] == (0 if before is None else 5)
        else:
            assert lines[1:] == ["there is no plan to end; nothing was changed"]


@over("body", [b"[]", b'{"manager":1,"types":[{}]}', b'{"manager":99999999}'])
def test_off_without_a_plan_that_can_be_followed(body: bytes, capsys: Said, tmp_path: Path) -> None:
    stage = MachinesStage(tmp_path)
    stage.hold(5, body)
    with fake_daemon(stage.node) as stage.path:
        code, lines, _ = stage.type(capsys, "off")
        assert (code, stage.plan) == (exit_codes.OK, Plan(manager=0))
        assert lines[0].endswith("it ends the plan; machines stay as they are")
        stage.have_templates()
        assert stage.type(capsys, "plan", "FILE")[0] == exit_codes.OK
        assert stage.plan == PLAN


# -- operators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "words"), [((), "refused: machines/plan"), (("--check",), "would be refused")])
def test_an_operator_without_the_power(
    stage: MachinesStage, capsys: Said, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    sign_as("mia", monkeypatch)
    for typed, plan in ((("plan", "FILE"), None), (("off",), PLAN)):
        if plan is not None:
            stage.hold(1, plan)
        code, lines, err = stage.type(capsys, *typed, *options)
        assert (code, lines, stage.plan) == (exit_codes.PERMISSION, [], plan)
        assert words in err
        assert "othing was changed" in err


def test_of_two_operators_at_once_one_is_told(
    stage: MachinesStage, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_after(lambda: stage.hold(2, PLAN, principal="bob"), monkeypatch, publishing)
    code, lines, err = stage.type(capsys, "plan", "FILE")
    assert (code, lines) == (exit_codes.NOT_REACHED, [])
    assert "version 2 of bob counts, which was published at the same time: publish again" in err


@over(
    ("typed", "complaint"),
    [
        (["plan"], "the following arguments are required: FILE"),
        (["plan", "FILE", "--dry-run"], "unrecognized arguments"),
        (["policy", "test", "FILE"], "invalid choice"),
        (["why"], "required: JOB"),
        (["list", "10.0.0.4", "--all"], "give NODES or --all, not both"),
        (["drain"], "say which servers: subord machines drain NODES, or --all; nothing was changed"),
        (["start", "alma-1"], "invalid choice"),
    ],
)
def test_wrong_words(typed: list[str], complaint: str, capsys: Said, tmp_path: Path) -> None:
    stage = MachinesStage(tmp_path)
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, *typed)
    assert (code, lines) == (exit_codes.USAGE, []), err
    assert complaint in err
    assert len(err.splitlines()) == 1
