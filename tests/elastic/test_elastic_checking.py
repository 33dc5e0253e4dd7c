"""What hinders a node to take its part in elastic growth, as the manager and `subord-agent --check` say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from subord.config.schema import ElasticConfig
from subord.services.batch import programs
from subord.services.elastic.checking import faults, managing_fault, overview
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Plan

PLAN = Plan(manager=1, options=Options(max_nodes=4))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for each in ("start", "stop", "list", "daemon", *programs.PROGRAMS["slurm"]):
        (tmp_path / each).touch(mode=0o755)
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "hosts").touch()
    return tmp_path


@pytest.fixture
def config(top: Path) -> ElasticConfig:
    """Without a fault."""
    return ElasticConfig(
        batch="slurm",
        batch_environment=(f"PATH={top}",),
        key=f"{top}/key",
        kinds=("small=4", "large=16"),
        start=(f"{top}/start",),
        stop=(f"{top}/stop",),
        list=(f"{top}/list",),
        hosts_file=f"{top}/hosts",
        exports_file=f"{top}/exports",
    )


def test_a_sound_node_has_no_fault(config: ElasticConfig) -> None:
    assert list(faults(config)) == []
    assert managing_fault(config, PLAN) == ""
    assert overview(config) == (
        "this node may manage a cluster of slurm; it adds nodes of small with 4 slots, large with 16 slots"
    )


def test_an_added_node_needs_no_key(top: Path) -> None:
    config = ElasticConfig(batch_daemon=(f"{top}/daemon", "start"), hosts_file=f"{top}/hosts")
    assert list(faults(config)) == []
    assert overview(config) == f"this node may be added to a cluster; it starts its batch daemon by {top}/daemon"


@pytest.mark.parametrize(
    ("changes", "begin", "end"),
    [
        ({"key": ""}, "elastic.key is empty", "name the key that signs orders to added nodes"),
        ({"key": "{top}/none"}, "elastic.key {top}/none cannot be read (No such file", "or correct elastic.key"),
        ({"start": ()}, "elastic.start is empty", "name the command that starts a node"),
        ({"stop": ()}, "elastic.stop is empty", "name the command that stops a node"),
        ({"list": ("{top}/none",)}, "elastic.list: {top}/none cannot be run", "those of the directories above it"),
        ({"batch_daemon": ("no-such-program",)}, "elastic.batch_daemon: no-such-program was not found", "whole path"),
        (
            {"batch_environment": ("PATH={top}/none",)},
            "elastic.batch is slurm, and sinfo, ",
            "give PATH in elastic.batch_environment",
        ),
        ({"hosts_file": "{top}/none/hosts"}, "elastic.hosts_file: there is no file", "correct the setting"),
        ({"exports_file": "{top}/none/e"}, "elastic.exports_file: there is no directory", "correct the setting"),
    ],
)
def test_each_fault_says_what_to_do(
    config: ElasticConfig, top: Path, changes: dict[str, Any], begin: str, end: str
) -> None:
    def placed(value: Any) -> Any:
        return tuple(map(placed, value)) if isinstance(value, tuple) else value.format(top=top)

    changed = msgspec.structs.replace(config, **{key: placed(value) for key, value in changes.items()})
    (fault,) = faults(changed)
    assert fault.startswith(begin.format(top=top))
    assert fault.endswith(end)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_can_read_is_a_fault(config: ElasticConfig, mode: int) -> None:
    Path(config.key).chmod(mode)
    assert list(faults(config)) == [f"elastic.key {config.key} can be read by other users: chmod 600 it"]
    assert managing_fault(config, PLAN)


@pytest.mark.parametrize("what", ["start", "stop", "list"])
def test_a_command_that_others_can_change_is_a_fault(config: ElasticConfig, top: Path, what: str) -> None:
    (top / what).chmod(0o777)
    (fault,) = faults(config)
    assert fault.startswith(f"elastic.{what}: {top}/{what} is not run: other users can change it")
    assert managing_fault(config, PLAN) == fault


def test_a_plan_may_ask_for_kinds_that_the_node_has_not(config: ElasticConfig) -> None:
    wanted = msgspec.structs.replace(PLAN, kinds=("small", "huge"))
    assert managing_fault(config, wanted) == (
        "elastic.kinds of this node does not have huge: add them, or change the plan"
    )


def test_a_trial_needs_a_batch_system_alone() -> None:
    trial = msgspec.structs.replace(PLAN, is_trial=True)
    assert managing_fault(ElasticConfig(batch="slurm"), trial) == ""
    assert managing_fault(ElasticConfig(), trial).startswith("elastic.batch is empty on this node")


def test_only_slurm_decides_itself(config: ElasticConfig) -> None:
    plan = Plan(manager=1, options=Options(max_nodes=4, decides="slurm"))
    assert managing_fault(config, plan) == ""
    wrong = managing_fault(msgspec.structs.replace(config, batch="gridengine"), plan)
    assert wrong == "elastic.batch of this node is gridengine, and the plan has --decides slurm: publish another plan"
