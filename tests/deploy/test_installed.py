"""The package and its unit on a clean Debian with systemd, from the first installation to the purge.

All tests use one machine, in their order. It has no network access, so the installation needs only the package.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pytest
from clean_machine import Machine, until
from releases import PREVIOUS, wheel_of

import subord

REPOSITORY = Path(__file__).parents[2]
CONFIG = "/etc/subord/subord.toml"
KEY = "/etc/subord/cluster.key"
TEXT = """# of this site
[cluster]
network = "10.0.0.0/24"
fanout = 4
key_file = "/etc/subord/cluster.key"

[node]
address = "10.0.0.1"
metrics = "127.0.0.1:9717"
event_log = "/var/log/subord/events.jsonl"
"""
NEWER = "99.0.0"
DROP_IN = "/run/systemd/system/subord.service.d/test.conf"
SECOND = ["--unit=second", "--property=User=subord", "--property=RuntimeDirectory=second", "--property=Type=notify"]
SECOND_EVENTS = "/run/second/events"
SECOND_KEYS = {
    "node.address": "10.0.0.2",
    "node.control_socket": "/run/second/control.sock",
    "node.metrics": "",
    "node.event_log": SECOND_EVENTS,
}


def write(machine: Machine, path: str, text: str) -> None:
    machine.run("sh", "-c", 'mkdir -p "$(dirname "$0")"; cat > "$0"', path, stdin=text)


def incarnation(machine: Machine) -> int:
    """Of the running daemon, as in the event log."""
    lines = machine.asked("cat", "/var/log/subord/events.jsonl").splitlines()
    (*_, last) = [event for event in map(json.loads, lines) if event["event"] == "started"]
    return int(last["incarnation"])


FIRST_OPERATOR = """
cd /root; mkdir -p -m 700 .ssh
test -e .ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519
printf 'root %s\\n' "$(cat .ssh/id_ed25519.pub)" > /etc/subord/allowed_signers
"""


def is_active(machine: Machine) -> bool:
    return machine.shown("ActiveState") == "active"


@pytest.fixture
def fresh(machine: Machine) -> Machine:
    """Installed, at the version that was built, and not configured."""
    machine.run("dpkg", "--purge", "subord")
    machine.run("dpkg", "--install", "/subord.deb")
    return machine


@pytest.fixture
def running(machine: Machine) -> Machine:
    """This version, with TEXT as its configuration and a key, running, whatever the test before did."""
    wanted = f"install ok installed {machine.asked('dpkg-deb', '--field', '/subord.deb', 'Version')}"
    form = "--showformat=${Status} ${Version}"
    if machine.run("dpkg-query", "--show", form, "subord", check=False).stdout != wanted:
        machine.run("dpkg", "--install", "/subord.deb")
    if machine.run("cat", CONFIG, check=False).stdout != TEXT:
        machine.run("systemctl", "stop", "subord")  # it may have read the other text
        write(machine, CONFIG, TEXT)
    if machine.run("test", "-e", KEY, check=False).returncode != 0:
        key = machine.asked("subord", "key", "generate")
        machine.run("install", "--mode", "0600", "--owner", "subord", "/dev/stdin", KEY, stdin=f"{key}\n")
    machine.run("sh", "-ec", FIRST_OPERATOR)
    machine.run("systemctl", "reset-failed")
    machine.run("systemctl", "start", "subord")
    return machine


# -- installation --------------------------------------------------------------------------------------------------


def test_a_first_installation_starts_nothing(machine: Machine) -> None:
    output = machine.run("dpkg", "--install", "/subord.deb").stdout
    assert "not started yet. Set cluster.network" in output
    assert machine.shown("ActiveState") == "inactive"
    assert machine.shown("UnitFileState") == "disabled"
    assert machine.asked("subord", "--version") == f"subord {subord.__version__}"
    assert machine.asked("systemd-analyze", "--man=no", "verify", "subord.service") == ""
    assert machine.asked("stat", "--format", "%U %a", CONFIG) == "root 644"
    assert machine.asked("getent", "passwd", "subord").endswith(":/usr/sbin/nologin")


def typed_on_each_node() -> str:
    """The commands of docs/install.md for the package."""
    part = (
        (REPOSITORY / "docs/install.md")
        .read_text()
        .partition("## Install the Debian package")[2]
        .partition("### Upgrade")[0]
    )
    build, *blocks = re.findall(r"^```sh\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
    assert build == "./dev deb\n"
    assert len(blocks) == 4
    return "".join(blocks)


def test_the_commands_of_the_page_lead_to_a_tree(machine: Machine) -> None:
    """As root, because the machine has no sudo."""
    machine.run("dpkg", "--purge", "subord")
    machine.run("useradd", "looker")
    commands = typed_on_each_node().replace("sudo ", "")
    ran = machine.run("sh", "-ec", f"cd; USER=looker; {commands}")
    assert f"{CONFIG}: ok, 254 positions" in ran.stdout
    last = r"1 node, depth 0, all at home, root (?P<name>\S+)\n(?P=name)\n\Z"  # its own host name
    assert re.search(last, ran.stdout)
    assert machine.run("runuser", "--user", "looker", "--", "subord", "status").stdout


def test_a_wrong_configuration_is_not_tried_again(fresh: Machine) -> None:
    assert fresh.run("subord", "config", "check", CONFIG, check=False).returncode == 78
    assert fresh.run("systemctl", "start", "subord", check=False).returncode == 1
    assert (fresh.shown("ActiveState"), fresh.shown("ExecMainStatus"), fresh.shown("NRestarts")) == (
        "failed",
        "78",
        "0",
    )
    assert 'key "network" is missing' in fresh.journal()
    # Configured, but without the key: the same.
    write(fresh, CONFIG, TEXT)
    assert fresh.run("systemctl", "start", "subord", check=False).returncode == 1
    assert (fresh.shown("ExecMainStatus"), fresh.shown("NRestarts")) == ("78", "0")
    assert f"{KEY}: there is no such file" in fresh.journal()


def test_an_address_that_comes_late_is_found(fresh: Machine) -> None:
    """75: try again. `--no-block`, because the start ends only when the node has its place."""
    write(fresh, CONFIG, TEXT.replace('"10.0.0.1"', '"10.0.0.3"'))
    fresh.run("sh", "-c", f"subord key generate | install --mode 0600 --owner subord /dev/stdin {KEY}")
    fresh.run("systemctl", "start", "--no-block", "subord")
    until(lambda: fresh.shown("ExecMainStatus") == "75", "it ended without its address")
    until(lambda: int(fresh.shown("NRestarts")) >= 2, "it was restarted twice")
    fresh.run("ip", "address", "add", "10.0.0.3/24", "dev", "lo")
    until(lambda: is_active(fresh), "it runs")
    fresh.run("systemctl", "stop", "subord")
    fresh.run("ip", "address", "delete", "10.0.0.3/24", "dev", "lo")


def test_a_key_that_was_copied_as_root_is_given_to_the_daemon(running: Machine) -> None:
    running.run("chown", "root:root", KEY)
    running.run("systemd-tmpfiles", "--create", "subord.conf")
    assert running.asked("stat", "--format", "%U %a", KEY) == "subord 600"


# -- operation ------------------------------------------------------------------------------------------------------


def test_started_means_that_the_node_has_its_place(running: Machine) -> None:
    running.run("systemctl", "restart", "subord")
    until(lambda: running.shown("StatusText") == "root, 0 below", "its status is set")  # after it was ready
    assert running.asked("subord", "tree", "--addresses").splitlines()[-1] == "10.0.0.1"


def test_the_daemon_has_no_needless_rights(running: Machine) -> None:
    status = running.asked("cat", f"/proc/{running.shown('MainPID')}/status")
    shown = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    number = running.asked("id", "--user", "subord")
    assert set(shown["Uid"].split()) == {number}
    assert {int(shown[f"Cap{each}"], 16) for each in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert (shown["NoNewPrivs"], shown["Seccomp"]) == ("1", "2")
    assert running.asked("stat", "--format", "%U %a", "/var/lib/subord") == "subord 700"
    assert running.asked("stat", "--format", "%U %a", "/run/subord/control.sock") == "subord 660"


def test_the_daemon_works_within_the_limits_of_the_unit(running: Machine) -> None:
    """The process metrics need /proc, the key ring needs the state directory, events need the log directory."""
    fetch = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9717/metrics').read().decode())"
    metrics = running.asked("/usr/lib/subord/bin/python3", "-c", fetch)
    assert re.search(r"^process_start_time_seconds \d", metrics, re.MULTILINE)
    running.run("subord", "key", "install")
    assert running.asked("stat", "--format", "%U %a", "/var/lib/subord/keyring") == "subord 600"
    assert incarnation(running) > 0
    assert "accepted as root" in running.asked("subord", "operator", "sign", "--dry-run", "--power", "keys")
    assert "WARNING" not in running.journal()


def test_the_group_may_read_and_only_root_may_change(running: Machine) -> None:
    running.run("useradd", "--groups", "subord", "member")
    running.run("useradd", "stranger")
    for user, command, code in (
        ("member", "subord tree", 0),
        ("member", "subord key install", 77),
        ("stranger", "subord tree", 77),
    ):
        ran = running.run("runuser", "--user", user, "--", *command.split(), check=False)
        assert ran.returncode == code, f"{user}: {command}: {ran.stderr}"


def test_reload_reads_the_configuration_again(running: Machine) -> None:
    write(running, CONFIG, f'{TEXT}log_level = "debug"\n')
    before = running.shown("MainPID")
    running.run("systemctl", "reload", "subord")
    until(lambda: "configuration read again: node.log_level" in running.journal(), "it was read again")
    assert running.shown("MainPID") == before


def test_a_reload_with_a_broken_file_fails_and_changes_nothing(running: Machine) -> None:
    before = running.shown("MainPID")
    write(running, CONFIG, TEXT.replace("network", "net_work"))
    assert running.run("systemctl", "reload", "subord", check=False).returncode != 0
    assert 'unknown key "net_work"' in running.journal()
    write(running, CONFIG, TEXT)
    running.run("chmod", "0640", KEY)
    assert running.run("systemctl", "reload", "subord", check=False).returncode != 0
    running.run("chmod", "0600", KEY)
    until(lambda: "the running daemon keeps its configuration" in running.journal(), "the reason is logged")
    assert (is_active(running), running.shown("MainPID")) == (True, before)
    assert "configuration was rejected" not in running.journal()


def test_a_daemon_that_hangs_is_started_again(running: Machine) -> None:
    write(running, DROP_IN, "[Service]\nWatchdogSec=3\n")
    running.run("systemctl", "daemon-reload")
    running.run("systemctl", "restart", "subord")
    hanging = running.shown("MainPID")
    try:
        running.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", "subord")
        until(lambda: is_active(running) and running.shown("MainPID") != hanging, "another daemon runs")
        assert "Watchdog timeout" in running.journal()
    finally:
        running.run("rm", DROP_IN)
        running.run("systemctl", "daemon-reload")
        running.run("systemctl", "restart", "subord")


def test_a_stopped_daemon_says_goodbye(running: Machine) -> None:
    """To a second daemon, which then takes over at once, without a lost leader."""
    running.run("ip", "address", "add", "10.0.0.2/24", "dev", "lo")
    keys = [f"--set={key}={value}" for key, value in SECOND_KEYS.items()]
    running.run("systemd-run", *SECOND, "subord", "run", "--config", CONFIG, *keys)
    try:
        below = "subordinate of 10.0.0.1, level 1, 0 below"
        until(lambda: running.shown("StatusText", "second") == below, "the second follows the first")
        running.run("systemctl", "stop", "subord")
        assert (running.shown("Result"), running.shown("ExecMainStatus")) == ("success", "0")
        until(lambda: running.shown("StatusText", "second") == "root, 0 below", "the second is root")
        events = [json.loads(line) for line in running.asked("cat", SECOND_EVENTS).splitlines()]
        assert {"lost", "subordinate_lost"}.isdisjoint(event["event"] for event in events), "it got the goodbye"
    finally:
        running.run("systemctl", "stop", "second")
        running.run("ip", "address", "delete", "10.0.0.2/24", "dev", "lo")


# -- upgrades ----------------------------------------------------------------------------------------------


def repacked(package: Path, version: str, program: Callable[[Path], None], wanted: Path) -> None:
    """The package with another version; `program` changes the directory of the program."""
    with TemporaryDirectory(prefix="subord-repacked-") as folder:
        subprocess.run(["dpkg-deb", "--raw-extract", package, folder], check=True, timeout=300)
        control = Path(folder) / "DEBIAN/control"
        control.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}-1", control.read_text()))
        (there,) = Path(folder).glob("usr/lib/subord/lib/python3*/site-packages/subord")
        program(there)
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", folder, str(wanted)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def newer(package: Path, machine: Machine) -> str:
    """The same package with a later version."""

    def rename(there: Path) -> None:
        init = there / "__init__.py"
        init.write_text(init.read_text().replace(subord.__version__, NEWER))

    repacked(package, NEWER, rename, machine.root / "newer.deb")
    return "/newer.deb"


@pytest.fixture(scope="module")
def previous(package: Path, machine: Machine) -> str:
    """With the program of the previous release."""

    def replace(there: Path) -> None:
        shutil.rmtree(there)
        with ZipFile(wheel_of(PREVIOUS)) as wheel:
            wheel.extractall(there.parent, [name for name in wheel.namelist() if name.startswith("subord/")])

    repacked(package, PREVIOUS, replace, machine.root / "previous.deb")
    return "/previous.deb"


def test_the_previous_release_and_back_keep_what_the_node_has(running: Machine, previous: str) -> None:
    def ring() -> str:
        """Of all nodes, as soon as the root knows all."""
        until(lambda: "incomplete" not in running.asked("subord", "key", "list"), "all are known")
        return running.asked("subord", "key", "list")

    running.run("subord", "key", "install")
    before = ring()
    running.run("systemctl", "restart", "subord")
    incarnations = [incarnation(running)]
    for file, version in ((previous, PREVIOUS), ("/subord.deb", subord.__version__)):
        running.run("dpkg", "--install", file)
        assert f"version {version}" in running.asked("subord", "status"), "it runs"
        incarnations.append(incarnation(running))
        assert ring() == before
    assert incarnations == sorted(set(incarnations))
    assert "ignored" not in running.journal()
    assert running.asked("cat", CONFIG) == TEXT.strip()


def test_up_and_down_again_keep_what_the_node_has(running: Machine, newer: str) -> None:
    running.run("systemctl", "stop", "subord")  # so that it saves its neighbourhood
    running.run("systemctl", "start", "subord")
    key = running.asked("cat", KEY)
    incarnations = [incarnation(running)]

    running.run("dpkg", "--install", newer)
    assert running.asked("subord", "status").find(f"version {NEWER}") > 0, "the new daemon runs"
    incarnations.append(incarnation(running))

    # A later version may save more than this one knows, and its clock may have been far ahead.
    state = "/var/lib/subord/neighbourhood.json"
    running.run("systemctl", "stop", "subord")
    remembered = json.loads(running.asked("cat", state))
    remembered["neighbourhood"] |= {"incarnation": incarnations[1] + 10**9, "of_a_later_version": {"x": [1]}}
    remembered["also_later"] = 1
    remembered["terms"].append("a later term")
    write(running, state, json.dumps(remembered))
    running.run("systemctl", "start", "subord")
    incarnations.append(incarnation(running))
    assert incarnations[2] > 10**9 + incarnations[1]

    running.run("dpkg", "--install", "/subord.deb")
    assert f"version {subord.__version__}" in running.asked("subord", "status"), "the old daemon runs"
    incarnations.append(incarnation(running))
    assert incarnations == sorted(set(incarnations)), "each start read the state of the one before"
    assert "ignored" not in running.journal()
    assert running.asked("cat", CONFIG) == TEXT.strip()
    assert running.asked("cat", KEY) == key


def test_a_node_that_was_stopped_stays_so(running: Machine, newer: str) -> None:
    running.run("systemctl", "stop", "subord")
    running.run("dpkg", "--install", newer)
    assert running.shown("ActiveState") == "inactive"
    running.run("dpkg", "--install", "/subord.deb")


def test_an_upgrade_completes_without_a_starting_daemon(running: Machine) -> None:
    write(running, CONFIG, "[cluster]\n")
    output = running.run("dpkg", "--install", "/subord.deb").stderr
    assert "the daemon did not restart: see journalctl" in output
    assert running.asked("dpkg-query", "--show", "--showformat=${Status}", "subord") == "install ok installed"


def test_a_manual_installation_is_reported(running: Machine) -> None:
    own = "/usr/local/bin/subord"
    assert own not in running.run("dpkg", "--install", "/subord.deb").stderr
    running.run("ln", "--symbolic", "/opt/subord/bin/subord", own)
    running.run("ln", "--symbolic", "/dev/null", "/etc/systemd/system/subord.service")
    output = running.run("dpkg", "--install", "/subord.deb").stderr
    assert f"an older manual installation takes precedence: remove {own}" in output
    running.run("rm", own, "/etc/systemd/system/subord.service")
    running.run("systemctl", "daemon-reload")


def test_a_removal_that_dpkg_gives_up_leaves_the_node_running(running: Machine) -> None:
    """If it is enabled: prerm has stopped it, and dpkg calls postinst with `abort-remove`."""
    script = "/var/lib/dpkg/info/subord.postinst"
    for word, state in (("disable", "inactive"), ("enable", "active")):
        running.run("systemctl", word, "subord")
        running.run("/var/lib/dpkg/info/subord.prerm", "remove")
        running.run("env", "DPKG_MAINTSCRIPT_PACKAGE=subord", script, "abort-remove")
        assert running.shown("ActiveState") == state
    running.run("systemctl", "disable", "subord")


# -- removal ---------------------------------------------------------------------------------------------------


# -- the agent -----------------------------------------------------------------------------------------------------

POLICY = '[[allow]]\nprincipals = ["root"]\nservices = ["*"]\nusers = ["root"]\n'
TALK = """
import socket
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(30)
connection.connect("/run/subord-agent.sock")
connection.sendall(bytes([0, 0, 0, 1, 193]))
print(connection.recv(1000))
"""
"""What is no order, in a frame; and the answer of the agent."""


def test_the_socket_starts_the_agent_for_the_daemon_alone(running: Machine) -> None:
    agent = "subord-agent.service"
    write(running, "/etc/subord/policy.toml", POLICY)
    running.run("chmod", "644", "/etc/subord/policy.toml")
    assert running.shown("UnitFileState", "subord-agent.socket") == "disabled"
    running.run("systemctl", "enable", "--now", "subord-agent.socket")
    assert running.asked("systemd-analyze", "--man=no", "verify", agent) == ""
    assert running.shown("ActiveState", agent) == "inactive"

    def talked(user: str) -> subprocess.CompletedProcess[str]:
        door = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
        return running.run(*door, "/usr/lib/subord/bin/python3", "-Ic", TALK, check=False)

    assert "malformed" in talked("subord").stdout
    assert running.shown("ActiveState", agent) == "active"
    assert "refused, malformed" in running.journal("subord-agent")
    assert "PermissionError" in talked("daemon").stderr
    found = running.asked("subord-agent", "--config", CONFIG, "--check")
    assert found.splitlines()[-1] == "journal: /var/lib/subord-agent: ok"
    assert running.asked("stat", "--format", "%U %a", "/var/lib/subord-agent") == "root 700"
    running.run("systemctl", "disable", "--now", "subord-agent.socket")
    running.run("systemctl", "stop", agent)


def test_commands_need_the_lines_for_exec(running: Machine) -> None:
    """As docs/exec.md has them: before, a command can write nothing and be no other user; afterwards it can."""
    agent, lines = "subord-agent.service", "/etc/systemd/system/subord-agent.service.d/exec.conf"
    running.run("sh", "-ec", FIRST_OPERATOR)
    write(running, "/etc/subord/policy.toml", POLICY.replace('["root"]\n', '["root", "daemon"]\n'))
    running.run("chmod", "644", "/etc/subord/policy.toml")
    running.run("systemctl", "start", "subord-agent.socket")

    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        return running.run("subord", "exec", "-a", "-q", "-n", "--addresses", *words, check=False)

    until(lambda: typed("true").returncode == 0, "the agent carries it out")
    assert "Read-only file system" in typed("touch", "/etc/typed").stderr
    assert "may not act as this user" in typed("-u", "daemon", "true").stderr
    page = (REPOSITORY / "docs/exec.md").read_text()
    (script,) = re.findall(r"^    (sudo install .*?)^    ```$", page, re.DOTALL | re.MULTILINE)
    running.run("sh", "-ec", script.replace("sudo ", ""))
    running.run("systemctl", "stop", agent)
    assert running.asked("systemd-analyze", "--man=no", "verify", agent) == ""
    assert typed("touch", "/etc/typed").returncode == 0
    running.run("test", "-e", "/etc/typed")
    assert typed("-u", "daemon", "--shell", "id -un; id -Gn; pwd").stdout.split() == [
        word for each in ("daemon", "daemon", "/usr/sbin") for word in ("10.0.0.1:", each)
    ]
    assert "its time was over" in typed("-u", "daemon", "-t", "0.5", "sleep", "600").stderr
    assert typed("--shell", "sleep 601 & sleep 602 & :").returncode == 0
    assert running.asked("pgrep", "-c", "sleep") == "2"
    running.run("systemctl", "stop", agent)
    assert running.run("pgrep", "sleep", check=False).stdout == ""
    running.run("rm", "-r", str(Path(lines).parent))
    running.run("systemctl", "daemon-reload")
    running.run("systemctl", "stop", "subord-agent.socket")


def test_removed_it_leaves_configuration_and_state(running: Machine) -> None:
    running.run("systemctl", "enable", "subord")
    running.run("dpkg", "--remove", "subord")
    assert "leaving: goodbyes" in running.journal()
    assert running.shown("LoadState") == "not-found"
    running.run("test", "-s", CONFIG)
    running.run("test", "-s", KEY)
    running.run("test", "-s", "/var/lib/subord/neighbourhood.json")
    running.run("dpkg", "--install", "/subord.deb")
    assert running.asked("cat", CONFIG) == TEXT.strip()


def test_purged_it_leaves_nothing_but_its_user(running: Machine) -> None:
    running.run("dpkg", "--purge", "subord")
    places = "/etc/subord /var/lib/subord /var/lib/subord-agent /var/log/subord /usr/lib/subord /usr/bin /run/subord"
    left = running.run("find", *places.split(), "/etc/logrotate.d", "-name", "*subord*", check=False).stdout
    assert left == ""
    assert running.asked("find", "/etc/systemd", "-name", "subord*") == ""
    running.run("getent", "passwd", "subord")
