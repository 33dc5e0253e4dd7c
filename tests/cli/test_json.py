"""What every command prints with `--json` fits its schema in docs/schemas/; docs/json.md has the style."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastjsonschema
import msgspec
import pytest
from loops import over
from schemas import SCHEMAS, fits

from subord import SCHEMA_VERSION, cli
from subord.api.models import document, fields, members
from subord.cli import main
from subord.cli.changes import forget
from subord.client import exit_codes
from subord.client.daemon import ask, change
from subord.core.carriage.reports import coverage as reports
from subord.core.carriage.reports.reports import Fold
from subord.core.members.membership import REGISTER
from subord.core.members.register import Record, Run, State
from subord.core.view import Refusal
from subord.sealing.keys import keyring_of, new_key
from subord.sealing.rotation import install
from subord.services.metrics.record import record_of
from tests.api.fake_node_api import MEASURED, World, key_ring_of
from tests.api.served_node import fake_daemon, fixed_answer

NODE = 7
CHANGE = members.ChangeDocument(
    number=3, wall=1.6e9, kind="moved", address="10.0.0.4", leader="10.0.0.3", old="10.0.0.2", place=None
)
CHANGES = members.ChangesDocument(source="10.0.0.1", token="1.2.3", missed=False, changes=(CHANGE,))
KEY = new_key()
RINGS = fields.AllKeysDocument(
    rings=(fields.CountedRing(revision=1, keys=("00000000",), nodes=2, addresses=("10.0.0.1",), unsaved=0),),
    silent=(),
    silent_nodes=0,
    asked="10.0.0.1",
    complete=True,
    note=None,
)
ANSWERS = {"/v1/keys": RINGS, "/v1/changes": CHANGES}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A tree of eleven nodes with keys; one refuses another."""
    world = World()
    world.refusals = (Refusal(address="10.0.0.70", by="us", reason="fan-out 8, we use 4", ago_s=2.0, times=3),)
    ring = keyring_of(new_key())
    world.key_rings = {position: key_ring_of(tmp_path, ring) for position in world.leaders}
    return world


def fitting(command: str, text: str) -> dict[str, Any]:
    """The object that a command printed. Raises fastjsonschema.JsonSchemaException if it does not fit."""
    document: dict[str, Any] = json.loads(text)
    fits(command.replace(" ", "-"), document)
    assert document["schema_version"] == SCHEMA_VERSION
    return document


CONFIG = '[cluster]\nnetwork = "10.0.0.0/24"\ninsecure = true\n'
ASKED = {
    "status": "status",
    "tree": "tree --ghosts",
    "members": "members",
    "ping": "ping",
    "errors": "errors",
    "metrics": "metrics",
    "account status": "account status",
    "hosts": "hosts",
    "hosts status": "hosts status",
    "why": "why",
    "wait": "wait --state placed",
    "maintain": "maintain 10.0.0.4 --reason fan",
    "nodeset": "nodeset 10.0.0.[1-3]",
    "key list": "key list",
    "log-level": "log-level",
}
"""Words of a command line that asks the daemon."""
ALONE = {
    "position": "position 10.0.0.4 --network 10.0.0.0/24",
    "speedup": "speedup --alpha 0.1 --beta 2 --gamma 0.001",
    "config check": "config check {file}",
}
"""Words of one that asks none."""


CHANGING = {
    "events": "events",
    "key install": "key install --timeout 0.5",
    "key use": "key use {key} --timeout 0.5",
    "key remove": "key remove {key} --force --timeout 0.5",
    "forget": "forget 10.0.0.12 --reason gone",
}
"""Words of one whose answer is given below."""


@pytest.mark.parametrize("command", ASKED)
def test_an_answer_of_the_daemon_fits(world: World, capsys: pytest.CaptureFixture[str], command: str) -> None:
    node = world.node(NODE)
    node.orders.folds["metrics"] = Fold(record_of({"node_load1": 1.0}, 1), reports.Coverage(1, 1), 2.0, is_root=True)
    with fake_daemon(node) as path:
        assert main([*ASKED[command].split(), "--json", "--socket", path]) == exit_codes.OK
    fitting(command, capsys.readouterr().out)


@pytest.mark.parametrize("command", CHANGING)
def test_the_answer_to_a_change_fits(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(forget, "WAIT_S", 0.0)
    handlers = {path: fixed_answer(msgspec.json.encode(each)) for path, each in ANSWERS.items()}
    node = world.node(1)
    assert node.key_ring is not None
    ring = install(node.key_ring.ring, KEY)
    node.key_ring.take(ring)
    down = Run(12, 12, Record(1, State.DOWN))
    node.tracker.membership.exchange.spread(REGISTER, [down])
    with fake_daemon(node, handlers) as path:
        main([*CHANGING[command].format(key=KEY.name).split(), "--json", "--socket", path])
    fitting(command, capsys.readouterr().out)


@pytest.mark.parametrize("command", ALONE)
def test_an_answer_without_the_daemon_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    file = tmp_path / "subord.toml"
    file.write_text(CONFIG)
    assert main([*ALONE[command].format(file=file).split(), "--json"]) == exit_codes.OK
    fitting(command, capsys.readouterr().out)


@pytest.mark.slow
def test_the_result_of_a_campaign_fits(tmp_path: Path) -> None:
    file = tmp_path / "campaign.json"
    assert main(["simulate", "--seeds", "1", "--jobs", "1", "--json", str(file)]) == exit_codes.OK
    fitting("simulate", file.read_text())


@over("figure", ["3", "4"])
def test_the_figures_of_shares_fit(capsys: pytest.CaptureFixture[str], figure: str) -> None:
    assert main(["simulate", "shares", "--figure", figure, "--seeds", "1", "--json"]) == exit_codes.OK
    fitting("simulate-shares", capsys.readouterr().out)


@over(
    ("name", "path"),
    [
        ("tree-rows", "/v1/tree?form=rows"),
        ("changes", "/v1/changes"),
        ("counters", "/v1/counters"),
        ("names", "/v1/names"),
        ("statements", "/v1/statements"),
        ("sets", "/v1/sets"),
    ],
)
def test_answers_that_no_command_prints_fit(name: str, path: str) -> None:
    with fake_daemon(World().node(1)) as socket_path:
        fitting(name, json.dumps(ask(socket_path, path)))


def test_jobs_fit() -> None:
    with fake_daemon(World().node(1)) as path:
        fitting("job-done", json.dumps(change(path, "/v1/job-done?weight=2")))


def test_rankings_fit(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.ranking = MEASURED
    with fake_daemon(world.node(NODE)) as path:
        for command in ("status", "why"):
            assert main([command, "--json", "--socket", path]) == exit_codes.OK
            assert fitting(command, capsys.readouterr().out)["ranking"]["near"][0]["since_s"] == 4.0


@over(
    ("name", "document"),
    [
        ("nodeset", {"schema_version": 1, "addresses": ["10.0.0.1"], "more": 1}),
        ("nodeset", {"schema_version": 1, "addresses": "10.0.0.1"}),
        ("nodeset", {"schema_version": 1}),
    ],
)
def test_what_does_not_fit_is_found(name: str, document: dict[str, object]) -> None:
    with pytest.raises(fastjsonschema.JsonSchemaException):
        fitting(name, json.dumps(document))


def test_every_command_with_json_has_a_schema() -> None:
    with_json = set(_with_json(cli.parser(), ()))
    of_operators = {each for each in with_json if each.startswith("operator ")}  # test_operators_cli.py
    of_sets = {f"files {each}" for each in ("publish", "status", "diff", "history", "rollback", "gc")}
    of_agents = {
        "exec",
        "files push",
        *of_sets,
    }  # test_exec_command.py, test_files_command.py, test_files_sets_command.py
    of_shares = {f"shares {each}" for each in ("set", "status", "why", "off")}  # test_shares_command.py
    of_plans = {f"elastic {each}" for each in ("set", "off", "status", "why", "nodes", "poll", "statistics")}
    of_machines = {f"machines {each}" for each in ("plan", "off", "list", "status", "why", "drain", "policy check")}
    of_transfer = {f"transfer {each}" for each in ("key", "plan", "off", "setup", "status", "jobs")}
    of_sinks = "account report"  # test_account_command.py
    of_documents = of_shares | of_plans | of_machines | of_transfer | {"hosts off"}  # test_hosts_command.py
    assert with_json == {*ASKED, *CHANGING, *ALONE, *of_operators, *of_agents, *of_documents, of_sinks, "simulate"}
    assert with_json <= {file.stem.replace("-", " ").replace("log level", "log-level") for file in SCHEMAS.iterdir()}


def _with_json(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[str]:
    for action in parser._actions:
        if "--json" in action.option_strings:
            yield " ".join(words)
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from _with_json(each, (*words, name))


def test_old_names_say_the_same(world: World) -> None:
    with fake_daemon(world.node(NODE)) as path:
        for target in ("/v1/status", "/v1/why", "/v1/errors", "/v1/keys"):
            _compare(ask(path, target))
    _compare(msgspec.to_builtins(CHANGES))


OLD = {"since_s": "ago_s", "silent_addresses": "silent", "older_addresses": "older", "former_leader": "old"}


def _compare(value: object) -> None:
    if isinstance(value, dict):
        for new, old in OLD.items():
            assert new not in value or old not in value or value[new] == value[old]
        for each in value.values():
            _compare(each)
    elif isinstance(value, list):
        for each in value:
            _compare(each)


@over(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1795358974.4264, "2026-11-22T14:49:34.426Z"),
        (1e18, "9999-12-31T23:59:59.999Z"),
        (-1e18, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert document.time_text(seconds) == text
