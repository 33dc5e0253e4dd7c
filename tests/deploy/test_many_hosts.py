"""The Ansible role: its syntax, and a rollout by ansible to a clean machine.

A replacement for ssh runs the commands in the machine.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from clean_machine import Machine

pytest.importorskip("ansible", reason="ansible-core is missing: install the extra `dev`")
ROLE = Path(__file__).parents[2] / "deploy" / "ansible"
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
POLICY = '[[allow]]\nprincipals = ["ann"]\nservices = ["*"]\nusers = ["root"]\n'
CHECK = "subord-agent", "--config", "/etc/subord/subord.toml", "--check"
KEY_LINE = "primary AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"


def played(inventory: Path, own: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A run of the playbook; `own` is ansible's home."""
    environment = {
        **os.environ,
        "ANSIBLE_HOME": str(own),
        "ANSIBLE_SSH_ARGS": "",
        "ANSIBLE_SSH_TRANSFER_METHOD": "piped",
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    command = [PLAYBOOK, "--inventory", inventory, *words, "site.yml"]
    return subprocess.run(
        command, cwd=ROLE, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def recap(ran: subprocess.CompletedProcess[str]) -> dict[str, int]:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (line,) = re.findall(r"^node1 +: (.*)$", ran.stdout, re.MULTILINE)
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)}


def test_the_syntax_and_the_example_inventory(tmp_path: Path) -> None:
    ran = played(ROLE / "inventory.example.ini", tmp_path, "--syntax-check")
    assert ran.returncode == 0, ran.stderr
    listed = played(ROLE / "inventory.example.ini", tmp_path, "--list-hosts")
    assert "hosts (128):" in listed.stdout


@pytest.fixture
def inventory(machine: Machine, package: Path, tmp_path: Path) -> Path:
    """Of one host, the machine, without subord."""
    machine.run("dpkg", "--purge", "subord")
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nfor last; do :; done\nexec {shlex.join(machine.door)} sh -c "$last"\n')
    ssh.chmod(0o755)
    (tmp_path / "cluster.key").write_text(KEY_LINE)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "operator"], check=True)
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "allowed_signers").write_text(f"ann {(tmp_path / 'operator.pub').read_text()}")
    hosts = tmp_path / "hosts.ini"
    lines = {
        "ansible_user": "root",
        "ansible_ssh_executable": str(ssh),
        "ansible_python_interpreter": "/usr/bin/python3",
        "subord_package": os.path.relpath(package, ROLE),  # as in the example
        "subord_key": os.path.relpath(tmp_path / "cluster.key", ROLE),
        "subord_policy": os.path.relpath(tmp_path / "policy.toml", ROLE),
        "subord_allowed_signers": os.path.relpath(tmp_path / "allowed_signers", ROLE),
        "subord_network": "10.0.0.0/24",
        "subord_node": "'address = \"10.0.0.1\"'",
    }
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    hosts.write_text(f"[subord]\nnode1\n\n[subord:vars]\n{text}")
    return hosts


def test_a_second_rollout_changes_nothing(machine: Machine, inventory: Path) -> None:
    ran = played(inventory, inventory.parent, "--diff", "-vvv")
    assert recap(ran)["changed"] >= 5
    assert KEY_LINE.split()[1] not in ran.stdout, "the key stays secret"
    assert machine.shown("ActiveState") == "active"
    assert (machine.shown("UnitFileState"), machine.shown("NRestarts")) == ("enabled", "0")
    assert machine.asked("subord", "tree", "--addresses").splitlines()[-1] == "10.0.0.1"
    assert machine.asked("stat", "--format", "%U %a", "/etc/subord/cluster.key") == "subord 600"
    assert machine.asked("stat", "--format", "%U %a", "/etc/subord/allowed_signers") == "root 644"
    assert machine.asked("stat", "--format", "%U %a", "/etc/subord/policy.toml") == "root 644"
    assert machine.asked("stat", "--format", "%U %G %a", "/run/subord-agent.sock") == "root subord 660"
    assert "policy: /etc/subord/policy.toml: 1 rules" in machine.asked(*CHECK)
    daemon = machine.shown("MainPID")

    assert recap(played(inventory, inventory.parent))["changed"] == 0
    assert machine.shown("MainPID") == daemon

    # A wrong setting changes no file.
    ran = played(inventory, inventory.parent, "--extra-vars", "subord_fanout=1")
    assert ran.returncode != 0
    assert "fanout" in ran.stdout
    assert machine.shown("MainPID") == daemon
    assert "fanout = 8" in machine.asked("cat", "/etc/subord/subord.toml")

    assert recap(played(inventory, inventory.parent, "--extra-vars", "subord_fanout=4"))["changed"] == 2
    assert machine.shown("MainPID") != daemon
    assert "fan-out 4" in machine.asked("subord", "status")


def test_a_missing_setting_is_named(inventory: Path) -> None:
    inventory.write_text(inventory.read_text().replace("subord_network", "another_network"))
    ran = played(inventory, inventory.parent)
    assert ran.returncode != 0
    assert "set subord_package, subord_key and subord_network" in ran.stdout


def test_a_failure_after_the_configuration_changed_loses_no_restart(machine: Machine, inventory: Path) -> None:
    """A missing key fails after the configuration; a second run would find nothing changed."""
    recap(played(inventory, inventory.parent))
    ran = played(inventory, inventory.parent, "--extra-vars", "subord_fanout=4 subord_key=/nowhere")
    assert ran.returncode != 0
    assert "fan-out 4" in machine.asked("subord", "status")
