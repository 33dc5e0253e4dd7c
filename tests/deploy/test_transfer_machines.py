"""The commands of docs/transfer.md on two machines that boot systemd, each with a tree and a cell of Grid Engine.

The agents run in the unit of the package, and a job crosses with its files. IPAddressDeny counts there as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import gridengine_machine as cells
import pytest
from clean_machine import Machine, overlaid, told, until
from machine_room import ADMIN, furnish, typed, wire

pytestmark = pytest.mark.lab
PAGE = Path(__file__).parents[2] / "docs" / "transfer.md"
ADDRESSES = {"north": "10.0.0.5", "south": "10.0.1.5"}
SLOTS = 4
HOME = f"/home/{ADMIN}"
LINES = "/etc/systemd/system/subord-agent.service.d/transfer.conf"
LACKED = {
    "IPAddressDeny=",
    "RuntimeDirectory=subord-transfer",
    "CapabilityBoundingSet=",
    "NoNewPrivileges=no",
    "ProtectHome=no",
    "PrivateTmp=no",
    "ProtectProc=default",
    "ProcSubset=all",
    "SystemCallFilter=",
}


ORPHANS = "cd /proc/sys/net/ipv4; echo 1 >tcp_fin_timeout; echo 1 >tcp_orphan_retries"
"""Connections between the machines keep the network of one that was killed, and its end waits for that: without this
for half a minute."""


class Place(NamedTuple):
    """A transfer host."""

    name: str
    machine: Machine

    @property
    def address(self) -> str:
        return ADDRESSES[self.name]

    def typed(self, script: str, *, check: bool = True) -> str:
        return typed(self.machine, script, HOME, check=check)

    def status(self) -> dict[str, Any]:
        said = self.typed("subord transfer status --json", check=False)
        return dict(json.loads(said)["host"] or {}) if said.startswith("{") else {}


def blocks(heading: str, kind: str) -> list[str]:
    """Of a part of the page, in its order."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n{heading}\n")[2].partition("\n##")[0]
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def places(package: Path, base: Path) -> Iterator[list[Place]]:
    """Before the first step of the page: a tree of one node, operators, the agent, and a cell."""
    if packages := cells.missing():
        pytest.skip(f"a program is missing: apt-get install {' '.join(packages)}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="subord-transfer-")))
        told("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id")
        found = []
        for name in ADDRESSES:
            root = stack.enter_context(overlaid(base, folder / name))
            furnish(root, folder)
            cells.copy_programs(root)
            (root / "subord.deb").write_bytes(package.read_bytes())
            found.append(Place(name, stack.enter_context(cells.filtered(root))))
        wire([each.machine for each in found], list(ADDRESSES.values()))
        found[0].machine.run("ip", "route", "add", "10.0.1.0/24", "dev", "wire")
        found[1].machine.run("ip", "route", "add", "10.0.0.0/24", "dev", "eth0")
        for each in found:
            each.machine.run("sh", "-c", ORPHANS)
            begin(each)
        yield found


def begin(place: Place) -> None:
    machine = place.machine
    cells.name_hosts(machine, place.name, ADDRESSES)
    cells.make_cell(machine, place.name, SLOTS)
    machine.run("dpkg", "--install", "/subord.deb")
    (config,) = blocks("### 1. The transfer hosts", "toml")
    (policy,) = blocks("### 1. The transfer hosts", "text")
    network = f"{place.address.rpartition('.')[0]}.0/24"
    give(machine, "/etc/subord/subord.toml", config.replace("10.0.0.0/24", network))
    give(machine, "/etc/subord/policy.toml", policy.replace("ann", ADMIN))
    own = machine.asked("cat", f"{HOME}/.ssh/id_ed25519.pub")
    give(machine, "/etc/subord/allowed_signers", f"{ADMIN} {own}\n")
    machine.run("usermod", "--append", "--groups", "subord", ADMIN)
    key = machine.asked("subord", "key", "generate")
    where = "/etc/subord/cluster.key"
    machine.run("install", "--mode", "0600", "--owner", "subord", "/dev/stdin", where, stdin=f"{key}\n")
    machine.run("systemctl", "start", "subord")
    machine.run("systemctl", "enable", "--quiet", "--now", "subord-agent.socket")


def give(machine: Machine, path: str, text: str) -> None:
    machine.run("install", "--mode", "0644", "/dev/stdin", path, stdin=text)


def plan_of(place: Place, other: Place, key: str) -> str:
    """That of the page, which is that of north. `key`: the certificate of the other cluster."""
    (text,) = blocks("### 3. The plan", "toml")
    names = {"north": place.name, "south": other.name, "10.0.0.5": place.address, "10.0.1.5": other.address}
    told = re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], text)
    return told.replace("MIIAAA==", key)


def publish(places: list[Place], *changes: tuple[str, str]) -> None:
    """The plan of each; `changes`: a text of the plan of each, and what stands there instead."""
    printed = [place.typed("sudo subord transfer key").splitlines()[-1] for place in places]
    keys = [re.findall(r'"(.*)"', each)[0] for each in printed]
    for place, other, key, change in zip(places, places[::-1], keys[::-1], changes, strict=True):
        give(place.machine, f"{HOME}/plan.toml", plan_of(place, other, key).replace(*change))
        for command in blocks("### 3. The plan", "sh"):
            place.typed(command)


def await_status(place: Place, is_so: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
    """What its status says of the transfer host."""
    found: list[dict[str, Any]] = []

    def is_told() -> bool:
        found[:] = [place.status()]
        return bool(is_so(found[0]))

    try:
        until(is_told, what)
    except AssertionError as error:
        raise AssertionError(f"{error}: {found} {place.machine.journal('subord-agent')[-3000:]}") from None
    return found[0]


def has_firewall(machine: Machine) -> bool:
    """Whether IPAddressDeny has an effect there."""
    words = ("systemd-run", "--quiet", "--wait", "--property=IPAddressDeny=any", "python3", "-c", cells.SEND)
    return machine.run(*words, check=False).returncode != 0


def has_said(place: Place, words: str) -> bool:
    """Whether its status has these words by now."""
    return words in place.typed("subord transfer status", check=False)


# -- the steps of the page, in their order ------------------------------------------------------------------------


def test_the_unit_without_the_drop_in_names_its_lines(places: list[Place]) -> None:
    """In both clusters: in the log, and in the status, which ends with 1."""
    publish(places, ("", ""), ("", ""))
    for place in places:
        names_them = lambda place=place: "which lacks" in place.machine.journal("subord-agent")  # noqa: E731
        until(names_them, "the agent names them")
        wanted = LACKED - (set() if has_firewall(place.machine) else {"IPAddressDeny="})
        (first, *_) = re.findall(r"which lacks (.*)", place.machine.journal("subord-agent"))
        assert set(first.split(", ")) == wanted
        until(partial(has_said, place, f"which lacks {first}"), "the status names them")
        assert place.typed("subord transfer status >/dev/null || echo $?") == "1\n"


def test_the_unit_with_the_drop_in_lacks_nothing_and_a_job_crosses(places: list[Place]) -> None:
    north, south = places
    (lines,) = blocks("### 1. The transfer hosts", "sh")
    for place in places:
        place.typed(lines)
    for place in places:
        told = await_status(place, lambda host: host.get("poll_age_s") is not None, "the cell was seen")
        await_status(place, lambda host: not host["unit_fault"], "no line is missing")
        assert told["state"] == "transfers"
    (setup,) = blocks("### 4. The transfer queue", "sh")
    for place in places:
        place.typed(f"{setup}\nsudo service gridengine-exec restart")
        is_open = lambda place=place: place.typed("qstat -f -q transfer").split()[-1] == "lx-amd64"  # noqa: E731
        until(is_open, "the transfer queue is open")
        await_status(place, lambda host: host["link"]["asked_s"] is not None, "the other cluster has asked")
    _, submit, _ = blocks("### 5. The first job", "sh")[0].splitlines()
    north.typed(submit)
    ended = "qsub -q transfer -o /dev/null -j y -sync y -S /bin/sh"
    assert "exited with exit code 7" in north.typed(f"echo 'exit 7' | {ended}", check=False)
    until(lambda: south.typed(f"cat {HOME}/hello.log", check=False).strip() == "south", "the first job has run there")
    assert north.typed("subord transfer status; echo $?").split()[-1] == "0"


@pytest.mark.long
def test_a_job_brings_its_files_where_the_units_may_write(places: list[Place]) -> None:
    """Before, the agent names the setting."""
    north, south = places
    south.machine.run("install", "-d", "-m", "1777", "/scratch/transfer")
    queues = '[[queues]]\nname = "transfer"\n'
    limit = "slots_max = 40\n"
    brings = (queues, f"{queues}brings_files = true\n")
    takes = (limit, f'{limit}files_directory = "/scratch/transfer"\n')
    publish(places, brings, takes)
    begin_there = "mkdir -p trial; cd trial; echo seven >input; echo 'cat input >result; exit 7' >job.sh; "
    north.typed(f"{begin_there} qsub -q transfer -cwd job.sh")
    said = await_status(south, lambda host: host["files"]["fault"], "its files cannot be written")["files"]["fault"]
    assert "name it in ReadWritePaths of subord-agent.service" in said
    for place, path in ((north, "/home"), (south, "/scratch/transfer")):
        place.typed(f"echo ReadWritePaths={path} | sudo tee -a {LINES}; sudo systemctl daemon-reload")
        place.typed("sudo systemctl restart subord-agent")
    for place in places:
        await_status(place, lambda host: host.get("poll_age_s") is not None, "the cell was seen")
        await_status(place, lambda host: not host["unit_fault"], "no line is missing")
    said = north.typed(f"{begin_there} qsub -q transfer -cwd -sync y job.sh", check=False)
    assert "exited with exit code 7" in said
    assert north.typed("cat trial/result") == "seven\n"
    assert north.machine.asked("stat", "--format", "%U", f"{HOME}/trial/result") == ADMIN
