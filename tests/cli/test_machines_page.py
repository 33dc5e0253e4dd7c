"""docs/machines.md: the plan that it shows is one, the commands print what stands there, and its words are in use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from subord.client import exit_codes
from subord.config.load import load
from subord.runtime.machines.state import DONE, Action, Amount, JobState, KindCount, MachineState, SeenServer, Totals
from subord.services.machines.commands.given import parsed
from subord.services.machines.plan import Plan, Type
from subord.services.machines.task import Results, encode
from subord.services.serving import signed_handlers
from tests.api.machines_nodes import PLAN, SERVERS, TEMPLATES
from tests.api.served_node import fake_daemon
from tests.cli.machines_stage import FILE, MachinesStage, Said

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "machines.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


pytestmark = pytest.mark.usefixtures("still_clock")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[MachinesStage]:
    stage = MachinesStage(tmp_path)
    stage.have_templates()
    with fake_daemon(stage.node, orders=signed_handlers(stage.node)) as stage.path:
        yield stage


def work(stage: MachinesStage) -> None:
    """What the page shows: a machine with a job, one that comes, and a job that waits for room."""
    now = stage.now
    have = Amount(16, 30_720, 0, 64)
    stage.manage(
        version=2,
        waiting=2,
        running=1,
        unmet=1,
        jobs=(
            JobState(id="4712", queue="long", type="alma", slots=1, why="the machine alma-002 is coming up"),
            JobState(
                id="4713",
                queue="debian",
                type="deb",
                why="6 machines of the type deb are on, and 6 are the most",
            ),
        ),
        actions=(
            Action(
                at=now - 34,
                kind="clone",
                machine="alma-002",
                server="10.0.0.3",
                job="4712",
                why="the machine alma-002 is cloned from alma-9 on 10.0.0.3",
            ),
            Action(
                at=now - 154,
                kind="open",
                machine="alma-001",
                job="4711",
                result=DONE,
                why="the machine alma-001 is opened for it",
            ),
        ),
        pending=1,
        store=65_536,
        store_most=204_800,
        have=Amount(32, 61_440, 0, 128),
        used=Amount(16, 34_816, 0, 9),
        kinds=(
            KindCount(type="alma", on=2, open=1, busy=1, coming=1, cores=8, memory=16_384),
            KindCount(type="deb", on=6, busy=6, cores=6, memory=12_288),
            KindCount(type="", on=1, off=4, cores=2, memory=6144),
        ),
        servers_all=2,
        servers=(SeenServer(name="10.0.0.2", have=have), SeenServer(name="10.0.0.3", have=have)),
        totals=Totals(rounds=12, opened=8, closed=1, cloned=7),
    )
    stage.has(
        2,
        MachineState(name="alma-001", type="alma", state="on", cores=4, memory=8192, since=now - 7300),
        *(
            MachineState(name=f"deb-00{n}", type="deb", state="on", cores=1, memory=2048, since=now - 950)
            for n in (1, 2)
        ),
        MachineState(name="ldap", state="on", cores=2, memory=6144, since=now - 900_000),
        *TEMPLATES,
    )
    stage.has(
        3,
        MachineState(name="alma-002", type="alma", state="on", doing="cloning", cores=4, memory=8192, since=now - 34),
        *(
            MachineState(name=f"deb-00{n}", type="deb", state="on", cores=1, memory=2048, since=now - 950)
            for n in (3, 4, 5, 6)
        ),
        *TEMPLATES,
    )


def shown(command: str) -> list[str]:
    """The lines that stand below `$ COMMAND`."""
    (found,) = (
        text.split(f"$ {command}\n")[1].split("\n$ ")[0]
        for kind, text in BLOCKS
        if kind == "text" and f"$ {command}\n" in text
    )
    return found.splitlines()


def typed(stage: MachinesStage, capsys: Said, command: str) -> list[str]:
    words = ["FILE" if each == "plan.toml" else each for each in command.split()[2:]]
    code, lines, err = stage.type(capsys, *words)
    assert (code, err) == (exit_codes.OK, "")
    return [re.sub(r" in [\d.]+ ms", " in 4 ms", line) for line in lines]


# -- the plan -------------------------------------------------------------------------------------------------------


def test_the_plan_of_the_page_is_a_plan() -> None:
    (text,) = (text for kind, text in BLOCKS if kind == "toml" and "[[types]]" in text)
    assert text == FILE
    assert parsed(text).plan.types == PLAN.types


def test_all_keys_of_a_plan_stand_there() -> None:
    keys = set(re.findall(r"^\| `([a-z_.]+)` \|", PAGE, re.MULTILINE))
    wanted = {each for each in Plan.__struct_fields__ if each not in ("types", "headroom", "waits", "is_trial")}
    for table in ("headroom", "waits"):
        wanted |= {f"{table}.{each}" for each in getattr(PLAN, table).__struct_fields__}
    wanted |= set(PLAN.types[0].__struct_fields__)
    assert wanted <= keys


def test_the_defaults_stand_there() -> None:
    """`must`: there is none."""
    cells = dict(re.findall(r"^\| `([a-z_.]+)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    plan = Plan(manager=0)
    wanted = {each: getattr(plan, each) for each in ("store_mb", "period_s", "moves", "always_on")}
    for table in ("headroom", "waits"):
        wanted |= {f"{table}.{key}": value for key, value in msgspec.structs.asdict(getattr(plan, table)).items()}
    for field in msgspec.structs.fields(Type):
        wanted[field.encode_name] = "must" if field.default is msgspec.NODEFAULT else field.default
    shown = {True: "`true`", (): "`[]`", "": '""'}
    assert {key: cells[key] for key in wanted} == {
        key: shown.get(value, str(value)) if not isinstance(value, int) or value is True else str(value)
        for key, value in wanted.items()
    }


def test_configurations_of_the_page_can_be_loaded(tmp_path: Path) -> None:
    found = [text for kind, text in BLOCKS if kind == "toml" and "[machines]" in text]
    assert len(found) == 2
    for text in found:
        (tmp_path / "subord.toml").write_text(text.replace("/etc/subord/cluster.key", ""))
        config = load(str(tmp_path / "subord.toml"), ["cluster.insecure=true"])
        assert config.machines.uri or config.machines.batch


# -- commands -------------------------------------------------------------------------------------------------------


def test_the_first_plan_is_checked_and_published(stage: MachinesStage, capsys: Said) -> None:
    for command in ("subord machines policy check plan.toml", "subord machines plan plan.toml --trial"):
        lines = typed(stage, capsys, command)
        assert [re.sub(r"at [\d-]+ [\d:]+ UTC", "at 2026-11-26 08:31:02 UTC", line) for line in lines] == shown(
            command
        )


def test_what_commands_show(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    for command in (
        "subord machines list",
        "subord machines status",
        "subord machines why 4712",
        "subord machines why 4713",
    ):
        assert typed(stage, capsys, command) == shown(command), command


def test_a_drained_server(stage: MachinesStage, capsys: Said) -> None:
    work(stage)
    for each in SERVERS:
        stage.world.lying[each] = encode(Results())
    for command in ("subord machines drain 10.0.0.3", "subord machines drain 10.0.0.3 --undo"):
        assert typed(stage, capsys, command) == shown(command)
