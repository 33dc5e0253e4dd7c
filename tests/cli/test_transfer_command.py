"""`subord transfer`: what is published, refused, shown and set up, and the exit codes."""

from __future__ import annotations

import grp
import io
import pwd
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from loops import over

from subord.client import exit_codes
from subord.services.batch.records import Done, Fault, Refused, Unavailable
from subord.services.transfer.cells.gridengine import setup
from subord.services.transfer.cells.gridengine.settings import Settings, host_fields, scripts
from subord.services.transfer.commands.given import GivenError, parsed
from subord.services.transfer.plan import Plan
from subord.services.transfer.telling.published import fingerprint
from tests.api.served_node import fake_daemon
from tests.api.transfer_nodes import CERTIFICATE, PLAN
from tests.cli.test_json import fitting
from tests.cli.transfer_stage import FILE, Said, TransferStage

LINES = [
    "jobs leave from transfer; one without a permit for 60 s goes back",
    "at most 16 jobs come, while at most 4 jobs wait here, each as the user of the same name",
    "a look at the batch system each 5 s, permits for 30 s; mapped: 1 user",
]
MEND = "set it, unless it is set since, and give `systemctl restart subord.service subord-agent.service`"
"""A daemon that was not restarted does not know what stands in the file now."""
COMPARE = f"compare with `subord transfer key` of the other cluster: SHA-256 {fingerprint(CERTIFICATE)}"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[TransferStage]:
    stage = TransferStage(tmp_path)
    with fake_daemon(stage.node) as stage.path:
        yield stage


# -- plan -----------------------------------------------------------------------------------------------------------


def test_the_first_plan(stage: TransferStage, capsys: Said) -> None:
    code, lines, err = stage.type(capsys, "plan", "FILE")
    assert (code, err) == (exit_codes.OK, "")
    assert stage.plan == PLAN
    assert lines[0].startswith("version 1 published by ann at 20")
    assert lines[0].endswith(": 10.0.0.1 is the transfer host of north")
    assert lines[1].startswith("the other cluster is south at 10.0.1.5:9720, certificate ")
    assert lines[2:] == [*LINES, COMPARE]
    code, lines, _ = stage.type(capsys, "plan", "FILE")
    assert (code, lines[-1]) == (exit_codes.OK, "nothing differs from version 1")


def test_a_plan_in_json(stage: TransferStage, capsys: Said) -> None:
    document = {**msgspec.to_builtins(PLAN), "host": "10.0.0.1"}
    stage.write(msgspec.json.encode(document).decode())
    code, lines, _ = stage.type(capsys, "plan", "FILE", "--json")
    found = fitting("transfer-plan", lines[0])
    assert (code, found["version"], found["batch"], found["host"]) == (exit_codes.OK, 1, "gridengine", "10.0.0.1")
    assert stage.plan == PLAN


def test_a_plan_from_standard_input(stage: TransferStage, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILE.encode())))
    assert stage.type(capsys, "plan", "-")[0] == exit_codes.OK
    assert stage.plan == PLAN


def test_a_check_changes_nothing(stage: TransferStage, capsys: Said) -> None:
    code, lines, _ = stage.type(capsys, "plan", "FILE", "--check")
    assert (code, lines[0]) == (
        exit_codes.OK,
        "version 1 would be published by ann: 10.0.0.1 is the transfer host of north",
    )
    assert COMPARE in lines
    assert stage.plan is None


def test_a_plan_by_which_nothing_crosses(stage: TransferStage, capsys: Said) -> None:
    stage.write(FILE.replace("slots_max = 16", "").replace('[[queues]]\nname = "transfer"\n', ""))
    code, lines, _ = stage.type(capsys, "plan", "FILE")
    assert code == exit_codes.OK
    assert "no job leaves: the plan has no queues" in lines
    assert "no job comes: slots_max is 0" in lines
    assert lines[-1].startswith("note: no job leaves, and none comes")


def test_other_names_and_hosts_are_noted(stage: TransferStage, capsys: Said) -> None:
    """What is under way does not follow them."""
    stage.configure(4, batch="gridengine")
    stage.type(capsys, "plan", "FILE")
    for old, new, words in (
        ('cluster = "north"', 'cluster = "east"', "the cluster was north with the peer south before"),
        ('name = "south"', 'name = "west"', "the cluster was north with the peer south before"),
        ('host = "10.0.0.1"', 'host = "10.0.0.4"', "the transfer host was 10.0.0.1 before"),
        ("= 16", "= 17", ""),
    ):
        stage.write(FILE.replace(old, new))
        code, lines, _ = stage.type(capsys, "plan", "FILE", "--check")
        notes = " ".join(lines).partition("note: ")[2]
        assert (code, notes.startswith(words), bool(notes)) == (exit_codes.OK, True, bool(words)), notes


def test_the_host(stage: TransferStage, capsys: Said) -> None:
    """The option counts before the file, that before the plan, and that before this node."""
    for each in (4, 7):
        stage.configure(each, batch="gridengine")
    stage.type(capsys, "plan", "FILE", "--host", "10.0.0.4")
    assert stage.plan is not None
    assert stage.plan.host == 4
    stage.write(FILE.partition("\n")[2])
    stage.type(capsys, "plan", "FILE")
    assert stage.plan.host == 4
    stage.node.tracker.membership.documents.drop(["transfer/plan"])
    stage.type(capsys, "plan", "FILE")
    assert stage.plan.host == 7


BARE = FILE.partition("\n")[2]
TOP = BARE.partition("[[queues]]")[0]


@over(
    ("text", "complaint"),
    [
        ("x = ", "it is no TOML: Invalid value"),
        ('{"host": ', "it is no JSON: "),
        ("x = " + "[" * 5000, "nested too deeply"),
        ("", "it is empty: write at least a table [peer] with name, addresses and certificates"),
        (" \n", "it is empty: write at least"),
        ("slots_max = 1", "it names no other cluster: write a table [peer]"),
        ('peer = "south"', "peer: it must be a table: write [peer], and name, addresses and certificates below it"),
        ("queues = 3\n" + TOP, "queues: it must be a list, not a whole number"),
        (BARE.replace('"north"', '"North"'), "cluster: it must be at most 32 small letters, digits and -, with a"),
        (BARE.replace('"south"', '"South"'), "peer.name: it must be at most 32 small letters, digits and -, with a"),
        (
            BARE.replace(f'"{CERTIFICATE}"', f"'''-----BEGIN CERTIFICATE-----\n{CERTIFICATE}'''"),
            "peer.certificates: each must be one line, as `subord transfer key` prints it in the other cluster",
        ),
        (BARE.replace('"ann"', '"a n"'), "users.ours: it must be the name of an account"),
        ("host = 3\n" + BARE, "host must be a string: the name or the address of the transfer host"),
        ("colour = 1\n" + BARE, "the plan: there is no key colour"),
        (BARE.replace("certificates", "keys"), "peer: there is no key keys"),
        (BARE.replace('name = "south"\n', ""), "peer: the key name is missing"),
        (BARE.replace("= 16", "= -1"), "slots_max: it must be a whole number of at least 0"),
        (BARE.replace('"10.0.1.5:9720"', '"10.0.1.5"'), "the address 10.0.1.5 is not HOST:PORT"),
        (BARE.replace(CERTIFICATE, "AAAA"), "is no certificate"),
        (BARE.replace('"south"', '"north"'), "this cluster and its peer are both called north"),
        (BARE.replace('"ann"', '"root"'), "a job of the other cluster would run as root"),
    ],
)
def test_a_wrong_file(text: str, complaint: str) -> None:
    with pytest.raises(GivenError) as raised:
        parsed(text)
    assert complaint in str(raised.value)
    assert not str(raised.value).endswith(".")


def test_a_wrong_file_changes_nothing(stage: TransferStage, capsys: Said) -> None:
    for content, words in (
        (b"colour = 1\n", "it names no other cluster"),
        (b"\xff", "is no text in UTF-8"),
        (b"#" * 100_000, "has more than 65536 bytes"),
    ):
        stage.file.write_bytes(content)
        code, lines, err = stage.type(capsys, "plan", "FILE", "--force")
        assert (code, lines, stage.plan) == (exit_codes.USAGE, [], None)
        assert words in err
        assert err.endswith("; nothing was changed\n")
    stage.file.unlink()
    assert "cannot read plan.toml: No such file" in stage.type(capsys, "plan", "FILE")[2]
    assert stage.node.orders.given == [], "no node is asked"


def test_what_only_looks_like_a_certificate_is_refused(stage: TransferStage, capsys: Said) -> None:
    """As the placeholder of docs/transfer.md."""
    stage.write(FILE.replace(CERTIFICATE, "MIIAAA=="))
    for words in ((), ("--check",), ("--force",)):
        code, lines, err = stage.type(capsys, "plan", "FILE", *words)
        assert (code, lines, stage.plan) == (exit_codes.USAGE, [], None)
        assert "the plan names a certificate that is none (MIIAAA==...)" in err
        assert err.endswith("; nothing was changed\n")


def test_a_plan_that_is_too_long(stage: TransferStage, capsys: Said) -> None:
    users = "".join(f'[[users]]\ntheirs = "u{each:060}"\nours = "u{each:060}"\n' for each in range(100))
    stage.write(FILE + users)
    code, _, err = stage.type(capsys, "plan", "FILE")
    assert (code, stage.plan) == (exit_codes.USAGE, None)
    assert "at most 8192 have room: shorten its tables; nothing was changed" in err


@over("node", ["11.0.0.1", "nowhere"])
def test_an_unknown_host(node: str, capsys: Said, tmp_path: Path) -> None:
    stage = TransferStage(tmp_path)
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, "plan", "FILE", "--host", node)
    assert (code, lines, stage.plan) == (exit_codes.NO_SUCH_NODE, [], None), err
    assert err.endswith("; nothing was changed\n")


@over(
    ("batch", "exit_code", "words"),
    [
        ("", exit_codes.CONFIGURATION, f"transfer.batch was empty when the daemon of 10.0.0.1 started: {MEND} there"),
        (None, exit_codes.TRY_AGAIN, "whether 10.0.0.4 has a batch system is not known: the node is down"),
    ],
)
def test_a_host_that_cannot_follow(
    batch: str | None, exit_code: int, words: str, capsys: Said, tmp_path: Path
) -> None:
    stage = TransferStage(tmp_path)
    if batch is None:
        stage.world.gone.add(4)
        stage.write(FILE.replace("10.0.0.1", "10.0.0.4"))
    else:
        stage.configure(1, batch=batch)
    with fake_daemon(stage.node) as stage.path:
        code, lines, err = stage.type(capsys, "plan", "FILE")
        assert (code, lines, stage.plan) == (exit_code, [], None), err
        assert words in err
        assert "--force" in err
        code, _, _ = stage.type(capsys, "plan", "FILE", "--force")
        assert (code, stage.plan is not None) == (exit_codes.OK, True)


def test_off(stage: TransferStage, capsys: Said) -> None:
    stage.type(capsys, "plan", "FILE")
    code, lines, _ = stage.type(capsys, "off", "--check")
    assert (code, lines) == (
        exit_codes.OK,
        ["version 2 would be published by ann: transfer is off; jobs stay where they are"],
    )
    code, lines, _ = stage.type(capsys, "off")
    assert code == exit_codes.OK
    assert lines[0].endswith(": transfer is off; jobs stay where they are")
    assert stage.plan == Plan(host=0)
    _, lines, _ = stage.type(capsys, "off", "--json")
    assert fitting("transfer-off", lines[0])["off"] is True


def test_the_plans_of_the_page_can_be_followed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "transfer.md").read_text(encoding="utf-8")
    blocks = [each.partition("```")[0] for each in page.split("```toml\n")[1:]]
    whole = [parsed(each).plan for each in blocks if "[peer]" in each]
    of_kinds = [each for each in whole if {"time", "h_rt"} & {request.name for request in each.requests}]
    assert [[request.to for request in each.requests] for each in of_kinds] == [
        ["time", "mem-per-cpu"],
        ["h_rt", "h_vmem"],
    ]
    plans = [each for each in whole if each not in of_kinds]
    assert [each.slots_max for each in plans] == [40, 40, 0, 40]
    assert [[each.queues[0].brings_files, each.files_directory] for each in plans if each.queues] == [
        [False, ""],
        [False, ""],
        [True, ""],
    ]
    assert plans[3].takes_bytes_max == 100_000_000
    keys = {key for key in msgspec.structs.asdict(Plan(host=0)) if f"| `{key}` |" in page}
    assert keys == set(msgspec.structs.asdict(Plan(host=0)))


# -- setup ----------------------------------------------------------------------------------------------------------


def test_setup_prints(stage: TransferStage, capsys: Said) -> None:
    stage.hold(1)
    stage.configure(7, batch="gridengine", socket="/run/methods")
    code, lines, _ = stage.type(capsys, "setup", "--slots", "12", "--idle", "9", "--host", "head")
    assert code == exit_codes.OK
    text = "\n".join(" ".join(line.split()) for line in lines)
    for each in (
        "qconf -ah head",
        "slots 12",
        "load_thresholds otherjobs=10",
        "remote remote BOOL == YES NO 0 0",
        "qconf -aattr queue complex_values remote=FALSE all.q",
        "-I -m subord transfer start --socket /run/methods",
    ):
        assert each in text
    _, lines, _ = stage.type(capsys, "setup", "--json")
    found = fitting("transfer-setup", lines[0])
    assert (found["applied"], found["queues"]) == (False, ["transfer"])


def test_setup_needs_a_plan_and_grid_engine(stage: TransferStage, capsys: Said) -> None:
    code, _, err = stage.type(capsys, "setup")
    assert (code, "there is no plan with transfer queues" in err) == (exit_codes.CONFIGURATION, True)
    stage.hold(1)
    code, _, err = stage.type(capsys, "setup", "--apply")
    assert (code, f"when the daemon of this node started: {MEND}, or" in err) == (exit_codes.CONFIGURATION, True), err


@over(
    ("gids", "words"),
    [
        ("1-99999999", "must be numbers from 100 to 2147483647"),
        ("40000-2147483648", "must be numbers from 100 to 2147483647"),
        ("40000-", "is not of the form FIRST-LAST, or several of it with commas"),
    ],
)
def test_what_are_no_numbers_of_groups(gids: str, words: str, capsys: Said, tmp_path: Path) -> None:
    code, _, err = TransferStage(tmp_path).type(capsys, "setup", "--gids", gids)
    assert (code, words in err) == (exit_codes.USAGE, True), err


def test_groups_in_use_are_no_groups_for_jobs(
    stage: TransferStage, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job would have their rights, and its end could kill all their processes."""
    given = list[Settings]()

    async def act(_: object, own: Settings) -> Done:
        given.append(own)
        return Done(True)

    monkeypatch.setattr(setup, "set_up", act)
    monkeypatch.setattr(grp, "getgrall", lambda: [grp.struct_group(("staff", "x", 40_100, []))])
    user = pwd.struct_passwd(("ann", "x", 1000, 40_500, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [user])
    stage.hold(1)
    stage.configure(7, batch="gridengine")
    for gids, words in (("40000-40399", "40100 (staff); "), ("40000-40600", "40100 (staff), and 1 more; ")):
        code, _, err = stage.type(capsys, "setup", "--apply", "--gids", gids)
        assert (code, words in err, given) == (exit_codes.CONFIGURATION, True, []), err
    assert "40500 (that of ann)" in stage.type(capsys, "setup", "--apply", "--gids", "40500")[2]
    code, _, _ = stage.type(capsys, "setup", "--apply", "--gids", "040600-40700, 40650-40900")
    assert (code, [each.gids for each in given]) == (exit_codes.OK, ["40600-40900"])


@pytest.mark.parametrize("word", ["apply", "remove"])
def test_setup_acts(stage: TransferStage, capsys: Said, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """Several queues have scripts of their own, and are no queues whose jobs stay."""
    given = list[Settings]()
    outcomes: list[Any] = [Done(True), Done(False), Refused("jobs are in it"), Unavailable(Fault.SLOW, "no answer")]

    async def act(_: object, own: Settings) -> Any:
        given.append(own)
        return outcomes[len(given) - 1]

    monkeypatch.setattr(setup, "set_up" if word == "apply" else "take_away", act)
    queues = tuple(msgspec.structs.replace(PLAN.queues[0], name=each) for each in ("big", "small"))
    stage.hold(1, msgspec.structs.replace(PLAN, queues=queues, is_high_throughput=True))
    stage.configure(7, batch="gridengine")
    code, lines, _ = stage.type(capsys, "setup", f"--{word}", "--host", "head", "--other", "all.q", "--other", "big")
    assert code == exit_codes.OK
    assert lines[:2] == [f"big: {'set up' if word == 'apply' else 'taken away'}", "small: nothing was to be done"]
    assert any("restart the execd of head" in line for line in lines) == (word == "apply")
    assert [each.folder for each in given] == ["/etc/subord/transfer/big", "/etc/subord/transfer/small"]
    assert {host_fields(each)["load_sensor"] for each in given} == {"/etc/subord/transfer/sensor"}
    assert len({scripts(each)["/etc/subord/transfer/sensor"] for each in given}) == 1, "otherwise it never settles"
    assert [(each.others, each.threshold) for each in given] == [(("all.q",), None)] * 2
    for reason in ("big: jobs are in it", "big: no answer"):
        code, _, err = stage.type(capsys, "setup", f"--{word}")
        assert (code, reason in err) == (exit_codes.NOT_REACHED, True), err


# -- key ------------------------------------------------------------------------------------------------------------


def test_the_key_is_made_once(stage: TransferStage, capsys: Said, tmp_path: Path) -> None:
    path = tmp_path / "link.key"
    stage.configure(7, key=str(path))
    code, lines, _ = stage.type(capsys, "key")
    assert code == exit_codes.OK
    assert lines[0].startswith(f"# made: {path}; SHA-256 ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = stage.type(capsys, "key")[1]
    assert again[0].startswith(f"# read: {path}; ")
    assert again[1:] == lines[1:]
    _, lines, _ = stage.type(capsys, "key", "--json", "--file", str(path))
    found = fitting("transfer-key", lines[0])
    assert again[2] == f'certificates = ["{found["certificate"]}"]'
    assert found["fingerprint"] in again[0]
    plan = FILE.replace(f'certificates = ["{CERTIFICATE}"]', again[2])
    assert parsed(plan).plan.peer is not None


def test_a_key_that_others_read_is_refused(stage: TransferStage, capsys: Said, tmp_path: Path) -> None:
    path = tmp_path / "link.key"
    stage.type(capsys, "key", "--file", str(path))
    path.chmod(0o644)
    code, lines, err = stage.type(capsys, "key", "--file", str(path))
    assert (code, lines) == (exit_codes.CONFIGURATION, []), err
