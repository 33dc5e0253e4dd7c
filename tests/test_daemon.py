"""Real daemons as processes: signals, files, sockets, and their log.

All run in one private network namespace whose loopback has the addresses 10.9.0.1 to .9 (two settled daemons, which
the tests share) and 10.8.0.1 to .9 (daemons of single tests).
"""

from __future__ import annotations

import base64
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import subord
from subord.cli import main
from subord.client import exit_codes
from subord.client.daemon import ask
from subord.runtime.net.transport import WARNING_S
from subord.sealing.keys import keyring_of, new_key, text_of

pytestmark = pytest.mark.slow

WAIT_S_MAX = 60.0
SOURCE = str(Path(subord.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}
ENVIRONMENT.pop("LOG_LEVEL", None)
SHARED, SINGLE = "10.9.0", "10.8.0"
KEY_RING = f"primary {base64.b64encode(bytes(range(32))).decode()}\n"

HOLDER = """
import sys
from pyroute2 import IPRoute
with IPRoute() as ip:
    lo = ip.link_lookup(ifname="lo")[0]
    ip.link("set", index=lo, state="up")
    for network in sys.argv[1:]:
        for number in range(1, 10):
            ip.addr("add", index=lo, address=f"{network}.{number}", prefixlen=24)
print("up", flush=True)
sys.stdin.read()
"""


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.02)


# -- a private network ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inside() -> Iterator[list[str]]:
    """The prefix of a command that runs in the namespace."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("no `unshare` and `nsenter` (util-linux) on this machine")
    pytest.importorskip("pyroute2", reason="pyroute2 is missing: install the extra `lab`")
    is_root = os.geteuid() == 0
    enter = ["unshare", "-n"] if is_root else ["unshare", "-Urn"]
    tried = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False, timeout=WAIT_S_MAX)
    if tried.returncode != 0:
        pytest.skip(f"neither root nor user namespaces here: {tried.stderr.strip()}")
    command = [*enter, sys.executable, "-c", HOLDER, SHARED, SINGLE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        words = ["nsenter", "-t", str(holder.pid), "-n"]
        yield words if is_root else [*words, "-U", "--preserve-credentials"]


class Started:
    """One daemon process with its log, events and API."""

    def __init__(self, inside: list[str], folder: Path, address: str, *assignments: str, **options: Any) -> None:
        """`options`: `config` (a file), `environment`, `files_max`. With an empty `address` the daemon chooses its
        own.
        """
        self.folder = folder
        self.control = folder / "control"
        self.log_path = folder / "log"
        self.events_path = folder / "events"
        self.key_path = folder / "cluster.key"
        self.key_path.touch(mode=0o600)
        self.key_path.write_text(KEY_RING)
        given: dict[str, object] = {
            "cluster.key_file": self.key_path,
            "cluster.network": f"{(address or SINGLE + '.1').rpartition('.')[0]}.0/24",
            "cluster.timing": "lab",
            "node.address": address,
            "node.control_socket": self.control,
            "node.event_log": self.events_path,
        }
        for each in assignments:
            key, _, value = each.partition("=")
            given[key] = value
        words = [word for name, text in given.items() if text for word in ("--set", f"{name}={text}")]
        if "config" in options:
            words += ["--config", str(options["config"])]
        if "files_max" in options:
            inside = [*inside, "sh", "-c", f'ulimit -n {options["files_max"]} && exec "$@"', "sh"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*inside, sys.executable, "-m", "subord", "run", *words],
                env={**ENVIRONMENT, **options.get("environment", {})},
                stderr=log,
            )

    @property
    def log(self) -> str:
        """`LEVEL message` for each line of JSON; other lines unchanged."""
        lines = self.log_path.read_text().splitlines(keepends=True)
        return "".join(shortened(each) if each.startswith("{") and each.endswith("\n") else each for each in lines)

    @property
    def whole_log(self) -> str:
        """The log including lines that were not written yet."""
        before = self.log.count("INFO state: ")
        self.tell(signal.SIGUSR1)
        until(lambda: self.log.count("INFO state: ") > before, "the log is written")
        return self.log

    @property
    def lines(self) -> list[dict[str, Any]]:
        return whole_lines(self.log_path)

    @property
    def events(self) -> list[dict[str, Any]]:
        return whole_lines(self.events_path)

    def show(self, page: str) -> dict[str, Any]:
        return ask(str(self.control), f"/v1/{page}", WAIT_S_MAX)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.log}"
        return self.events_path.exists() and any(each["event"] == "ready" for each in self.events)

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        return self.process.wait(WAIT_S_MAX)


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """Without a last one that is being written."""
    return [json.loads(line) for line in path.read_text().rpartition("\n")[0].splitlines()]


def shortened(line: str) -> str:
    found = json.loads(line)
    return f"{found['level'].upper()} {found['message']}\n"


Start = Callable[..., Started]


@pytest.fixture(scope="module")
def shared(inside: list[str]) -> Iterator[tuple[Started, Started]]:
    """A settled root and its subordinate; tests must not change them."""
    with settled(inside) as pair:
        yield pair


@contextmanager
def settled(inside: list[str], *assignments: str) -> Iterator[tuple[Started, Started]]:
    """A root and its subordinate."""
    with TemporaryDirectory(prefix="s") as name:
        pair = []
        for number in (1, 2):
            folder = Path(name) / str(number)
            folder.mkdir()
            pair.append(Started(inside, folder, f"{SHARED}.{number}", *assignments))
        first, second = pair
        try:
            until(lambda: first.is_ready() and second.is_ready(), "both are ready")
            until(lambda: second.show("status")["leader"] == f"{SHARED}.1", "the second follows the first")
            yield first, second
        finally:
            for each in pair:
                each.process.kill()
                each.process.wait()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory with a short name: a socket path has 107 bytes."""
    with TemporaryDirectory(prefix="s") as name:
        yield Path(name)


@pytest.fixture
def start(inside: list[str], folder: Path) -> Iterator[Start]:
    """Starts daemons, each in a directory below `folder`; they end with the test."""
    started: list[Started] = []

    def start_one(address: str, *assignments: str, **options: Any) -> Started:
        own = folder / str(len(started))
        own.mkdir()
        started.append(Started(inside, own, address, *assignments, **options))
        return started[-1]

    yield start_one
    for each in started:
        each.process.kill()
        each.process.wait()


# -- signals --------------------------------------------------------------------------------------------------------


def test_sigterm_sends_goodbyes_and_leaves_no_files(start: Start) -> None:
    first = start(f"{SINGLE}.1", "node.grace_s=60")  # that must not be waited for
    until(first.is_ready, "the first is ready")
    second = start(f"{SINGLE}.2")
    until(second.is_ready, "the second is ready")
    until(lambda: second.show("status")["leader"] == f"{SINGLE}.1", "the second follows the first")
    first.tell(signal.SIGTERM)
    assert first.ended() == 0
    assert not first.control.exists()
    assert first.events[-1]["event"] == "stopped"
    until(lambda: second.show("status")["phase"] == "root", "the second has taken over")
    assert "subordinate_lost" not in [each["event"] for each in first.events]
    assert [each.get("cause") for each in second.events if each["event"] == "lost"] in ([], ["goodbye"])
    second.tell(signal.SIGINT)
    assert second.ended() == 0
    assert "Traceback" not in first.log + second.log


def test_a_second_sigterm_ends_the_daemon_at_once(start: Start) -> None:
    slow = "cluster.timing=wan"
    first, second = start(f"{SINGLE}.1", "node.grace_s=60", slow), start(f"{SINGLE}.2", slow)
    until(lambda: first.is_ready() and second.is_ready(), "both are ready")
    until(lambda: second.show("status")["leader"] == f"{SINGLE}.1", "the second follows the first")
    second.tell(signal.SIGSTOP)  # so that the goodbye is not answered
    first.tell(signal.SIGTERM)
    until(lambda: "leaving: goodbyes for up to 60 s" in first.log, "it says goodbye")
    assert first.show("status")["phase"] == "leaving"
    assert first.process.poll() is None
    first.tell(signal.SIGTERM)
    assert first.ended() == 0
    assert "subordinate_lost" not in [each["event"] for each in first.events]  # it did not wait for that
    assert not first.control.exists()
    second.tell(signal.SIGCONT)


def test_sighup_applies_reloadable_keys_and_logs_the_others(start: Start, folder: Path) -> None:
    config = folder / "subord.toml"
    config.write_text("[cluster]\nfanout = 4\nguest_slots = 2\n[node]\n")
    daemon = start(f"{SINGLE}.1", config=config)
    until(daemon.is_ready, "it is ready")

    config.write_text('[cluster]\nfanout = 5\nguest_slots = 2\n[node]\nlog_level = "debug"\ngrace_s = 0.25\n')
    daemon.tell(signal.SIGHUP)
    until(lambda: "configuration read again: " in daemon.log, "it is read again")
    assert "INFO configuration read again: node.grace_s, node.log_level\n" in daemon.log
    assert "WARNING changed, effective only after a restart: cluster.fanout\n" in daemon.log

    config.write_text("[cluster]\nfanout = \n")
    daemon.tell(signal.SIGHUP)
    until(lambda: "the configuration was rejected" in daemon.log, "the broken file is refused")
    (line,) = [each for each in daemon.log.splitlines() if "the configuration was rejected" in each]
    assert line.startswith(f"ERROR the configuration was rejected, the old one stays in use: {config}:2: ")
    assert daemon.show("status")["settings"]["fanout"] == 4

    daemon.tell(signal.SIGTERM)
    assert daemon.ended() == 0
    assert "leaving: goodbyes for up to 0.25 s" in daemon.log


def test_a_configuration_on_a_disk_that_does_not_answer_does_not_delay_the_end(start: Start, folder: Path) -> None:
    config = folder / "subord.toml"
    config.write_text("")
    daemon = start(f"{SINGLE}.1", config=config)
    until(daemon.is_ready, "it is ready")
    config.unlink()
    os.mkfifo(config)
    writers: list[int] = []

    def is_being_read() -> bool:
        try:  # without a reader that waits: ENXIO
            writers.append(os.open(config, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    daemon.tell(signal.SIGHUP)
    daemon.tell(signal.SIGHUP)
    until(is_being_read, "it reads the configuration, for ever: nothing is written, and the pipe stays open")
    daemon.tell(signal.SIGTERM)
    assert daemon.ended() == 0
    assert not daemon.control.exists()
    os.close(writers[0])


def test_sigusr1_writes_one_line_of_state_at_any_level(start: Start) -> None:
    daemon = start(f"{SINGLE}.1", "node.log_level=error")
    until(daemon.is_ready, "it is ready")
    assert daemon.log == ""
    daemon.tell(signal.SIGUSR1)
    until(lambda: daemon.log.endswith("\n"), "the line is written")
    (line,) = daemon.log.splitlines()
    state = json.loads(line.partition(" state: ")[2])
    assert (state["address"], state["phase"], state["subtree_nodes"]) == (f"{SINGLE}.1", "root", 1)


# -- the log --------------------------------------------------------------------------------------------------------


def moves(each: Started) -> list[dict[str, Any]]:
    return [line for line in each.lines if line["event"] == "place"]


def test_the_log_has_few_lines_and_one_for_each_change_of_place(start: Start) -> None:
    first = start(f"{SINGLE}.1", environment={"LOG_LEVEL": "debug"})
    until(first.is_ready, "the first is ready")
    second = start(f"{SINGLE}.2")
    until(lambda: [each["leader"] for each in moves(second)] == [f"{SINGLE}.1"], "the second follows the first")
    (joined,) = moves(second)
    assert joined["message"] == f"now at home below {SINGLE}.1: its computed leader"
    assert (joined["level"], joined["node"], joined["reason"]) == ("info", f"{SINGLE}.2", "its computed leader")

    first.process.kill()
    until(lambda: len(moves(second)) == 2, "it has lost its leader")
    second.tell(signal.SIGTERM)
    assert second.ended() == 0
    lost = moves(second)[1]
    why = f"no lower position answers (lost {SINGLE}.1: {lost['cause']}, silent for "
    assert lost["message"].startswith(f"now root, no longer below {SINGLE}.1: {why}")
    assert (lost["level"], lost["lost"]) == ("warning", f"{SINGLE}.1")
    assert 0 <= lost["without_leader_s"] < WAIT_S_MAX
    assert 0 <= lost["silence_s"] < WAIT_S_MAX
    assert [line["event"] for line in second.lines] == [None, "place", "place", None, None]
    assert "debug" not in {line["level"] for line in second.lines}

    propose = [line for line in first.lines if line.get("type") == "propose"]  # the first logs all messages
    assert [(line["level"], line["event"], line["peer"]) for line in propose][:1] == [
        ("debug", "received", f"{SINGLE}.2")
    ]
    assert propose[0]["message"] == f"received propose from {SINGLE}.2: {propose[0]['content']}"
    assert propose[0]["content"].startswith("Propose(")


# -- performance ----------------------------------------------------------------------------------------------------


def job_done(daemon: Started, *words: str) -> int:
    return main(["job-done", "--socket", str(daemon.control), "--timeout", f"{WAIT_S_MAX:g}", *words])


def jobs_per_hour(daemon: Started) -> float | None:
    number: float | None = daemon.show("counters")["jobs_per_hour"]
    return number


def test_reported_jobs_become_a_rate(start: Start) -> None:
    daemon = start(f"{SINGLE}.1", "node.performance_half_life_s=1")
    until(daemon.is_ready, "it is ready")
    assert (daemon.show("counters")["jobs_done"], jobs_per_hour(daemon)) == (0, None)
    assert job_done(daemon) == job_done(daemon, "--weight", "2.5") == exit_codes.OK
    assert daemon.show("counters")["jobs_done"] == 3.5
    until(lambda: jobs_per_hour(daemon) is not None, "it knows its performance")
    before = jobs_per_hour(daemon)
    assert before is not None
    assert 0 < before <= 3.5 * 3600 / 0.05
    daemon.tell(signal.SIGTERM)
    assert daemon.ended() == 0
    assert "Traceback" not in daemon.log


def test_sighup_applies_another_source_of_performance(
    start: Start, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, jobs = folder / "subord.toml", folder / "jobs"
    config.write_text("[node]\nperformance = 250\nperformance_half_life_s = 1\n")
    daemon = start(f"{SINGLE}.1", config=config)
    until(daemon.is_ready, "it is ready")
    assert jobs_per_hour(daemon) == 250
    assert job_done(daemon) == exit_codes.NOT_REACHED
    assert "comes from node.performance: nothing was counted" in capsys.readouterr().err

    config.write_text('[node]\nperformance_file = "jobs"\nperformance_half_life_s = 1\n')
    daemon.tell(signal.SIGHUP)
    until(lambda: "configuration read again: node.performance, node.performance_file\n" in daemon.log, "it is read")
    until(lambda: f"{jobs} does not exist; the performance stays 250 jobs an hour: " in daemon.log, "it is missed")
    assert jobs_per_hour(daemon) == 250
    number = 0

    def is_measured() -> bool:
        nonlocal number
        number += 1
        jobs.write_text(str(number))
        return jobs_per_hour(daemon) != 250

    until(is_measured, "the counter is followed")
    assert daemon.show("counters")["jobs_done"] == 0


def test_a_stopped_daemon_does_not_delay_an_epilog(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    daemon = start(f"{SINGLE}.1")
    until(daemon.is_ready, "it is ready")
    daemon.tell(signal.SIGSTOP)
    assert main(["job-done", "--socket", str(daemon.control)]) == exit_codes.TRY_AGAIN  # else it would wait for ever
    assert "does not answer within 0.7 s" in capsys.readouterr().err
    daemon.tell(signal.SIGCONT)


# -- seeds and multicast --------------------------------------------------------------------------------------------


def test_seeds_are_reloaded_and_names_without_an_address_are_logged_once(start: Start, folder: Path) -> None:
    config = folder / "subord.toml"
    config.write_text(f'[node]\nseeds = ["unknown.invalid", "{SINGLE}.1", "192.0.2.1"]\n')
    daemon = start(f"{SINGLE}.1", config=config)
    until(daemon.is_ready, "it is ready, whatever becomes of the name")
    until(lambda: "the seed unknown.invalid has no address: " in daemon.log, "the name has failed")
    config.write_text(f'[node]\nseeds = ["{SINGLE}.2", "192.0.2.1"]\n')
    daemon.tell(signal.SIGHUP)
    until(lambda: "INFO configuration read again: node.seeds\n" in daemon.log, "the list is taken over")
    warned = [line.partition(";")[0] for line in daemon.log.splitlines() if line.startswith("WARNING ")]
    assert warned[0] == "WARNING the seed 192.0.2.1 lies outside the network"
    assert len(warned) == 2


def test_announcements_of_a_root_are_received(start: Start) -> None:
    # Fifteen positions apart, so that the nodes do not find each other by probes.
    daemons = [start(f"{SINGLE}.{number}", "node.announce=true") for number in (2, 9)]
    until(lambda: all(each.is_ready() for each in daemons), "both are ready")
    first, second = daemons
    until(lambda: announced(first, "sent") > 0, "the root announces itself")
    until(lambda: announced(second, "received") > 0, "the other one hears it")
    assert [line for each in daemons for line in each.whole_log.splitlines() if not line.startswith("INFO ")] == []
    assert dropped(first, "own_address") == 0


def announced(each: Started, way: str) -> int:
    number: int = each.show("counters")[f"messages_{way}_by_type"].get("announce", 0)
    return number


# -- another network ------------------------------------------------------------------------------------------------


class Listed:
    """Daemons that share a host list."""

    def __init__(self, start: Start, folder: Path) -> None:
        self._start = start
        self.list = folder / "nodes.list"
        self.config = folder / "subord.toml"
        self.config.write_text('[cluster]\nnetwork_file = "nodes.list"\n')

    def start(self, number: int, *assignments: str, **options: Any) -> Started:
        return self._start(f"{SINGLE}.{number}", "cluster.network=", *assignments, config=self.config, **options)


@pytest.fixture
def listed(start: Start, folder: Path) -> Listed:
    return Listed(start, folder)


def starts(daemon: Started) -> list[dict[str, Any]]:
    return [each for each in daemon.events if each["event"] == "started"]


def ready(daemon: Started) -> int:
    return sum(each["event"] == "ready" for each in daemon.events)


def test_another_network_on_sighup_starts_the_daemon_again_in_the_same_process(listed: Listed) -> None:
    listed.list.write_text(f"{SINGLE}.1\n{SINGLE}.2  # the second\n")
    first, second = listed.start(1), listed.start(2)
    until(lambda: first.is_ready() and second.is_ready(), "both are ready")
    until(lambda: second.show("status")["leader"] == f"{SINGLE}.1", "the second follows the first")

    listed.list.write_text(f"{SINGLE}.[2-3]\n{SINGLE}.1\n")
    for each in (first, second):
        each.tell(signal.SIGHUP)
    until(lambda: ready(first) == ready(second) == 2, "both are ready again")
    until(lambda: first.show("status")["leader"] == f"{SINGLE}.2", "the first follows the second")
    assert [each["position"] for each in starts(first)] == [1, 3]
    assert [each["position"] for each in starts(second)] == [2, 1]
    for each in (first, second):
        (before, after) = starts(each)
        assert before["pid"] == after["pid"]
        assert before["incarnation"] < after["incarnation"] == each.show("status")["incarnation"]
        assert "INFO configuration read again, starting again with all of it: cluster.network\n" in each.whole_log
        assert [line for line in each.log.splitlines() if line.startswith("ERROR ")] == []
    assert first.show("status")["settings"]["network"] == f"{SINGLE}.2-{SINGLE}.3,{SINGLE}.1"
    first.tell(signal.SIGTERM)
    assert first.ended() == 0
    assert not first.control.exists()


def in_another_network(listed: Listed, settings: str) -> Started:
    """A daemon that has reloaded a longer list of nodes and these settings, and started again."""
    listed.list.write_text(f"{SINGLE}.1")
    daemon = listed.start(1)
    until(daemon.is_ready, "it is ready")
    listed.list.write_text(f"{SINGLE}.[1-2]")
    with listed.config.open("a") as file:
        file.write(settings)
    daemon.tell(signal.SIGHUP)
    until(lambda: ready(daemon) == 2, "it is ready again")
    return daemon


def test_all_other_changes_apply_with_a_new_network(listed: Listed) -> None:
    daemon = in_another_network(listed, 'fanout = 3\n[node]\nlog_level = "debug"\n')
    names = "cluster.network, node.log_level, cluster.fanout, cluster.guest_slots"
    assert f"starting again with all of it: {names}\n" in daemon.whole_log
    assert "only by a restart" not in daemon.log
    assert daemon.show("status")["settings"]["fanout"] == 3


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"# only words\n{SINGLE}.1-{SINGLE}.2",
            "INFO configuration read again: no change that takes effect now",
        ),
        (f"{SINGLE}.2", f"--set node.address={SINGLE}.1: address {SINGLE}.1 lies outside the network {SINGLE}.2"),
        (f"{SINGLE}.1\n{SINGLE}.1", "nodes.list:2: 10.8.0.1 is named more than once: name it once"),
        (f"{SINGLE}.1\nunknown.invalid", "nodes.list:2: unknown.invalid has no address: "),
        ("", "nodes.list: the host list is empty"),
    ],
)
def test_an_equal_or_unusable_list_changes_nothing(listed: Listed, text: str, line: str) -> None:
    listed.list.write_text(f"{SINGLE}.1\n{SINGLE}.2\n")
    daemon = listed.start(1)
    until(daemon.is_ready, "it is ready")
    before = daemon.show("status")
    listed.list.write_text(text)
    daemon.tell(signal.SIGHUP)
    until(lambda: line in daemon.log, "it is logged")
    after = daemon.show("status")
    assert (before["incarnation"], before["settings"]) == (after["incarnation"], after["settings"])
    assert len(starts(daemon)) == 1
    logged = [each for each in daemon.whole_log.splitlines() if each.startswith(("ERROR ", "WARNING "))]
    assert len(logged) == (0 if line.startswith("INFO") else 1)
    assert all(each.startswith("ERROR the configuration was rejected, the old one stays in use: ") for each in logged)


def test_a_network_with_no_or_several_own_addresses_changes_nothing(start: Start, folder: Path) -> None:
    config = folder / "subord.toml"
    config.write_text(f'[cluster]\nnetwork = "{SINGLE}.1"\n')
    daemon = start("", "cluster.network=", config=config)
    until(daemon.is_ready, "it is ready")
    for network, complaint in (
        (f"{SINGLE}.1-3", f"this machine has several addresses inside the network {SINGLE}.1-{SINGLE}.3: "),
        (f"{SINGLE}.2", f"the new network lacks this node's address {SINGLE}.1: add it to cluster.network\n"),
    ):
        config.write_text(f'[cluster]\nnetwork = "{network}"\n')
        daemon.tell(signal.SIGHUP)
        line = f"ERROR the configuration was rejected, the old one stays in use: {complaint}"
        until(partial(is_logged, daemon, line), "it is logged")
    assert daemon.show("status")["settings"]["positions"] == 1
    config.write_text(f'[cluster]\nnetwork = ["{SINGLE}.1", "10.7.0.0/24"]\n')
    daemon.tell(signal.SIGHUP)
    until(lambda: ready(daemon) == 2, "a network in the configuration itself may change, too")


def is_logged(daemon: Started, line: str) -> bool:
    return line in daemon.log


def test_a_failed_start_in_the_new_network_returns_to_the_old_one(listed: Listed) -> None:
    daemon = in_another_network(listed, '[node]\nmetrics = "192.0.2.1:9717"\n')
    assert (
        "ERROR cannot start in the new network, the old configuration stays in use: TCP 192.0.2.1:9717: "
        in daemon.whole_log
    )
    assert daemon.show("status")["settings"]["positions"] == 1
    first, second = starts(daemon)
    assert first["incarnation"] < second["incarnation"]


def test_sigterm_during_the_goodbye_before_another_start_ends_the_daemon(listed: Listed, folder: Path) -> None:
    listed.list.write_text(f"{SINGLE}.[1-2]")
    slow = "cluster.timing=wan"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(folder / "notify"))
        supervisor.settimeout(WAIT_S_MAX)
        heard: list[str] = []

        def hears(line: str) -> bool:
            while line not in heard:
                heard.extend(supervisor.recv(4096).decode().splitlines())
            return True

        environment = {"NOTIFY_SOCKET": str(folder / "notify")}
        first = listed.start(1, slow, "node.grace_s=60", environment=environment)
        second = listed.start(2, slow)
        until(lambda: first.is_ready() and second.is_ready(), "both are ready")
        until(lambda: second.show("status")["leader"] == f"{SINGLE}.1", "the second follows the first")
        second.tell(signal.SIGSTOP)  # so that the goodbye is not answered
        listed.list.write_text(f"{SINGLE}.[1-3]")
        first.tell(signal.SIGHUP)
        assert hears("RELOADING=1")
        assert first.show("status")["phase"] == "leaving"
        first.tell(signal.SIGTERM)
        assert hears("STOPPING=1")
        second.tell(signal.SIGCONT)
        assert first.ended() == 0
    assert len(starts(first)) == 1
    assert not first.control.exists()


def test_systemd_is_notified_of_a_start_in_another_network(listed: Listed, folder: Path) -> None:
    listed.list.write_text(f"{SINGLE}.1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(folder / "notify"))
        supervisor.settimeout(WAIT_S_MAX)
        heard: list[str] = []
        daemon = listed.start(1, environment={"NOTIFY_SOCKET": str(folder / "notify")})
        until(daemon.is_ready, "it is ready")
        listed.list.write_text(f"{SINGLE}.[1-2]")
        daemon.tell(signal.SIGHUP)
        while heard.count("READY=1") < 2:
            heard.extend(supervisor.recv(4096).decode().splitlines())
    first, reloading = heard.index("READY=1"), heard.index("RELOADING=1")
    assert first < reloading < heard.index("READY=1", reloading)
    assert [line for line in heard if line.startswith("MONOTONIC_USEC=")]
    assert "STOPPING=1" not in heard


def test_a_second_sighup_during_the_goodbye_is_not_lost(listed: Listed) -> None:
    listed.list.write_text(f"{SINGLE}.[1-2]")
    slow = "cluster.timing=wan"
    first, second = listed.start(1, slow, "node.grace_s=60"), listed.start(2, slow)
    until(lambda: first.is_ready() and second.is_ready(), "both are ready")
    until(lambda: second.show("status")["leader"] == f"{SINGLE}.1", "the second follows the first")
    second.tell(signal.SIGSTOP)
    listed.list.write_text(f"{SINGLE}.[1-3]")
    first.tell(signal.SIGHUP)
    until(lambda: first.show("status")["phase"] == "leaving", "it says goodbye")
    listed.list.write_text(f"{SINGLE}.[1-4]")
    first.tell(signal.SIGHUP)
    first.tell(signal.SIGUSR1)
    until(lambda: " state: " in first.log, "both signals have arrived")
    second.process.kill()  # the returned datagrams tell that it is gone
    until(lambda: len(starts(first)) == 3, "it starts a third time")
    until(lambda: first.show("status")["settings"]["positions"] == 4, "in the last network")


def test_starting_again_leaks_no_file_descriptors(listed: Listed, inside: list[str]) -> None:
    listed.list.write_text(f"{SINGLE}.1")
    daemon = listed.start(1)
    until(daemon.is_ready, "it is ready")

    def files() -> int:
        return len(os.listdir(f"/proc/{starts(daemon)[0]['pid']}/fd"))

    before = files()
    for number in range(2, 5):
        listed.list.write_text(f"{SINGLE}.[1-{number}]")
        daemon.tell(signal.SIGHUP)
        until(partial(is_ready_times, daemon, number), "it is ready again")
    until(lambda: files() <= before, "as many files are open as before")


def is_ready_times(daemon: Started, times: int) -> bool:
    return ready(daemon) == times


# -- systemctl reload ------------------------------------------------------------------------------------------------


def test_the_units_reload_fails_on_a_broken_file_and_changes_nothing(
    start: Start, folder: Path, inside: list[str]
) -> None:
    if os.geteuid() == 0 and "subord" in [each.pw_name for each in pwd.getpwall()]:
        pytest.skip("the check of root would run as the user subord, which has no access to the files of this test")
    file = folder / "subord.toml"
    text = (
        f'[cluster]\nnetwork = "{SINGLE}.0/24"\nkey_file = "0/cluster.key"\n'
        f'[node]\naddress = "{SINGLE}.1"\nmetrics = ":9717"\ncontrol_socket = "{folder}/0/control"\n'
    )
    file.write_text(text)
    daemon = start(f"{SINGLE}.1", config=file)
    until(daemon.is_ready, "it is ready")
    unit = (Path(SOURCE) / "deploy/subord.service").read_text()
    (line,) = re.findall(r"^ExecReload=(.*)$", unit, re.MULTILINE)
    (options,) = re.findall(r"^ExecStart=.* run --config (.*)$", unit, re.MULTILINE)
    assert f" config check --here {options} " in line
    line = line.replace("/opt/subord/bin/subord", f"{sys.executable} -m subord")
    line = line.replace("/etc/subord/subord.toml", str(file)).replace("/var/lib/subord", str(folder))

    def reload() -> subprocess.CompletedProcess[str]:
        """As systemd does."""
        pid = starts(daemon)[0]["pid"]
        environment = {**ENVIRONMENT, "MAINPID": str(pid)}
        return subprocess.run(
            [*inside, *shlex.split(line)],
            env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S_MAX,
        )  # fmt: skip

    elsewhere = text.replace(SINGLE, SHARED, 1).replace("address", "#address")
    for broken, reason in (
        (text.replace("network", "net_work"), 'unknown key "net_work"'),
        (elsewhere, f"the network lacks {SINGLE}.1, the address of the running daemon"),
    ):
        file.write_text(broken)
        ran = reload()
        assert ran.returncode != 0, reason
        assert reason in ran.stderr
    file.write_text(text)
    daemon.key_path.write_text("primary broken\n")
    ran = reload()
    assert (ran.returncode, "the running daemon keeps its configuration" in ran.stderr) == (78, True)
    daemon.key_path.write_text(KEY_RING)
    assert "configuration" not in daemon.whole_log
    file.write_text(f'{text}log_level = "debug"\n')
    ran = reload()
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    until(lambda: "configuration read again: node.log_level" in daemon.log, "it was read again")


# -- starts that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "code", "line"),
    [
        (
            (f"{SHARED}.1", ()), exit_codes.TRY_AGAIN,
            f"UDP {SHARED}.1 port 7117 is taken: is another subord running? Stop it, or set cluster.port",
        ),
        (
            ("", ("cluster.network=10.7.0.0/24",)), exit_codes.TRY_AGAIN,
            "this machine has no address inside the network 10.7.0.0/24",
        ),
        (("", ()), exit_codes.TRY_AGAIN, "set node.address"),
        (
            (f"{SINGLE}.1", ("node.control_socket=/nonexistent/control",)), exit_codes.TRY_AGAIN,
            "the directory /nonexistent of the control socket does not exist: create it or choose another",
        ),
        (
            (f"{SINGLE}.1", ("node.event_log=/nonexistent/events",)), exit_codes.CONFIGURATION,
            "cannot open the event log /nonexistent/events: No such file or directory; set node.event_log",
        ),
        (
            (f"{SINGLE}.1", ("node.event_log=/tmp",)), exit_codes.CONFIGURATION,
            "cannot open the event log /tmp: Is a directory; set node.event_log",
        ),
        (
            (f"{SINGLE}.1", ("node.metrics=192.0.2.1:9717",)), exit_codes.TRY_AGAIN,
            "TCP 192.0.2.1:9717: this host has no address 192.0.2.1",
        ),
        ((f"{SINGLE}.1", ("cluster.fanout=1",)), exit_codes.CONFIGURATION, "--set cluster.fanout=1"),
        ((f"{SINGLE}.1", ("node.address=10.9.0.1",)), exit_codes.CONFIGURATION, "--set node.address=10.9.0.1"),
    ],
)  # fmt: skip
def test_a_failed_start_logs_the_reason_in_one_line(
    start: Start, shared: tuple[Started, Started], given: tuple[str, tuple[str, ...]], code: int, line: str
) -> None:
    address, assignments = given
    daemon = start(address, *assignments)
    assert daemon.ended() == code
    assert daemon.log.startswith("subord: ")
    assert line in daemon.log
    assert daemon.log.count("\n") == 1
    assert not daemon.control.exists()
    assert shared[0].show("status")["phase"] == "root"


def test_the_control_socket_of_a_running_daemon_is_not_replaced(
    start: Start, shared: tuple[Started, Started]
) -> None:
    living = shared[0].control
    daemon = start(f"{SINGLE}.1", f"node.control_socket={living}")
    assert daemon.ended() == exit_codes.TRY_AGAIN
    assert f"another daemon answers at {living}; it was left alone" in daemon.log
    assert shared[0].show("status")["address"] == f"{SHARED}.1"


def test_a_control_socket_that_replaced_the_own_is_not_removed(start: Start) -> None:
    first = start(f"{SINGLE}.1")
    until(first.is_ready, "the first is ready")
    first.control.unlink()
    second = start(f"{SINGLE}.2", f"node.control_socket={first.control}")
    until(second.is_ready, "the second is ready")
    first.tell(signal.SIGTERM)
    assert first.ended() == 0
    assert ask(str(first.control), "/v1/status", WAIT_S_MAX)["address"] == f"{SINGLE}.2"


def test_a_missing_state_directory_of_a_daemon_is_logged_once(start: Start, folder: Path) -> None:
    daemon = start(f"{SINGLE}.1", f"node.state_directory={folder / 'none'}")
    until(daemon.is_ready, "it is ready")
    daemon.tell(signal.SIGTERM)
    assert daemon.ended() == 0
    error, *warnings = [line for line in daemon.log.splitlines() if not line.startswith("INFO ")]
    assert error.startswith(f"ERROR {folder / 'none'}/identity: No such file or directory; the node runs without")
    expected = (
        f"WARNING cannot save the neighbourhood: the directory {folder / 'none'} does not exist; "
        "create it or correct node.state_directory; continuing without"
    )
    assert expected in warnings
    assert len(warnings) == len(set(warnings)), "each is said once"
    assert not (folder / "none").exists()


def test_a_daemon_keeps_its_identity_and_proves_it_to_its_leader(start: Start, folder: Path) -> None:
    key = folder / "cluster.key"
    key.touch(mode=0o600)
    key.write_text(text_of(keyring_of(new_key())))
    options = [f"cluster.key_file={key}", f"node.state_directory={folder / 'state'}"]
    (folder / "state").mkdir()
    (folder / "root").mkdir()
    root = start(f"{SINGLE}.1", options[0], f"node.state_directory={folder / 'root'}")
    found = []
    for _ in range(2):
        guest = start(f"{SINGLE}.2", *options)
        until(lambda guest=guest: guest.is_ready() and guest.show("status")["leader"], "it has a leader")
        identity = guest.show("status")["identity"]
        found.append(identity["fingerprint"])
        until(lambda: identities(root).get(f"{SINGLE}.2") == found[-1], "the edge has proved it")
        guest.tell(signal.SIGTERM)
        assert guest.ended() == 0
    assert found[0] == found[1] != root.show("status")["identity"]["fingerprint"]


def identities(daemon: Started) -> dict[str, str | None]:
    members = ask(str(daemon.control), "/v1/members", WAIT_S_MAX)["members"]
    return {each["address"]: each["identity"] for each in members}


def test_a_daemon_without_a_state_directory_has_no_identity(start: Start) -> None:
    """Its next process would have another, which the other nodes would refuse."""
    daemon = start(f"{SINGLE}.1")
    until(daemon.is_ready, "it is ready")
    assert daemon.show("status")["identity"] is None


def test_a_damaged_identity_prevents_the_start(start: Start, folder: Path) -> None:
    (folder / "identity").touch(mode=0o600)
    daemon = start(f"{SINGLE}.1", f"node.state_directory={folder}")
    assert daemon.ended() == exit_codes.CONFIGURATION
    assert daemon.log == (
        f"subord: {folder}/identity: it is no private key in OpenSSH's format: the identity of this node; restore it "
        "from a backup, or remove it and have an operator admit the node's new key: `subord forget "
        f"{SINGLE}.1`\n"
    )
    assert (folder / "identity").read_bytes() == b""


def test_a_daemon_stopped_after_its_first_place_saves_it(start: Start, folder: Path) -> None:
    states = [folder / "root", folder / "guest"]
    for state in states:
        state.mkdir()
    root, guest = (start(f"{SINGLE}.{n}", f"node.state_directory={state}") for n, state in enumerate(states, start=1))
    until(lambda: guest.is_ready() and guest.show("status")["leader"] == f"{SINGLE}.1", "one leads the other")
    incarnations = [each.show("status")["incarnation"] for each in (root, guest)]
    for each in (guest, root):
        each.tell(signal.SIGTERM)
        assert each.ended() == 0
    kept = [json.loads((state / "neighbourhood.json").read_text())["neighbourhood"] for state in states]
    assert [each["incarnation"] for each in kept] == incarnations
    assert [(each["leader"], each["led"]) for each in kept] == [(None, [2]), (1, [])]


def started_after(start: Start, folder: Path, incarnation: int) -> tuple[Started, Path]:
    """A settled node whose file had this incarnation, and the file."""
    state = folder / "state"
    state.mkdir()
    option = f"node.state_directory={state}"
    first = start(f"{SINGLE}.1", option)
    until(first.is_ready, "it has a place")
    first.tell(signal.SIGTERM)
    assert first.ended() == 0
    path = state / "neighbourhood.json"
    kept = json.loads(path.read_text())
    kept["neighbourhood"]["incarnation"] = incarnation
    path.write_text(json.dumps(kept))
    second = start(f"{SINGLE}.1", option)
    until(second.is_ready, "it has a place again")
    return second, path


def test_an_incarnation_ahead_of_the_clock_is_saved_before_it_is_sent(start: Start, folder: Path) -> None:
    """Else a daemon killed at once would start again with the same incarnation (seed 517, performance)."""
    ahead = int(time.time() * 1000) + 3_600_000
    daemon, path = started_after(start, folder, ahead)
    daemon.tell(signal.SIGKILL)
    daemon.ended()
    assert json.loads(path.read_text())["neighbourhood"]["incarnation"] == ahead + 1


def test_a_saved_incarnation_past_2109_is_not_exceeded(start: Start, folder: Path) -> None:
    daemon, _ = started_after(start, folder, 1 << 43)
    assert time.time() * 1000 < daemon.show("status")["incarnation"] < 1 << 42


# -- a supervisor ---------------------------------------------------------------------------------------------------


def test_systemd_gets_the_status(start: Start, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(folder / "notify"))
        supervisor.settimeout(WAIT_S_MAX)
        heard: list[str] = []

        def hears(line: str) -> bool:
            while line not in heard:
                heard.extend(supervisor.recv(4096).decode().splitlines())
            return True

        first = start(f"{SINGLE}.1")
        until(first.is_ready, "the first is ready")
        second = start(
            f"{SINGLE}.2",
            environment={"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "200000"},
        )
        assert hears("READY=1")
        assert hears(f"STATUS=subordinate of {SINGLE}.1, level 1, 0 below")
        assert hears("WATCHDOG=1")
        first.tell(signal.SIGKILL)
        assert hears("STATUS=root, 0 below")
        second.tell(signal.SIGTERM)
        assert hears("STOPPING=1")
        assert second.ended() == 0
        assert heard.index("READY=1") < heard.index(f"STATUS=subordinate of {SINGLE}.1, level 1, 0 below")


# -- hostile neighbours ---------------------------------------------------------------------------------------------

NOISE = """
import random, socket, sys
from subord.core.messages import Propose, Terms, Wish
from subord.wire.codec import HEADER, encode
target, chance = (sys.argv[1], 7117), random.Random(7)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind((sys.argv[2], 0))
    for number in range(100):
        for _ in range(4):
            head = HEADER if chance.random() < 0.5 else b""
            sock.sendto(head + chance.randbytes(chance.randrange(1, 1300)), target)
        text = f"{number}\\nINFO a forged line\\x1b[2J"
        sock.sendto(encode(Propose(1, 1, Terms(text, 8, 8, "ip", "complete", "lab"), Wish.HOME)), target)
        if number % 10 == 9:
            print(number + 1, flush=True)
            sys.stdin.readline()  # so that it does not send faster than the daemon reads
for number in range(60):
    with socket.create_connection(target, 20, (sys.argv[2], 0)) as sock:
        try:
            sock.sendall(chance.randbytes(chance.randrange(1, 3000)))
            if number % 2:
                sock.recv(1)
        except OSError:
            pass
"""


STREAM_REASONS = ("stream_malformed", "stream_strangers", "tls_refused", "tls_broken", "tls_too_slow")
SEALED_REASONS = ("too_short", "not_subord", "unsealed", "oversized", "unknown_version")
UDP_REASONS = ("too_short", "not_subord", "malformed", "oversized", "unknown_version")


def make_noise(inside: list[str], target: str, source: str, are_read: Callable[[int], bool]) -> None:
    """`are_read(n)`: whether the daemon has read the first n volleys."""
    command = [*inside, sys.executable, "-c", NOISE, target, source]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes) as noisy:  # type: ignore[call-overload]
        try:
            for line in noisy.stdout:
                until(partial(are_read, int(line)), f"{line.strip()} volleys are read")
                noisy.stdin.write("go on\n")
                noisy.stdin.flush()
            assert noisy.wait(WAIT_S_MAX) == 0
        finally:
            noisy.kill()


def assert_log_is_genuine(each: Started) -> None:
    """The log contains no line and no control character that another host sent."""
    lines = each.whole_log.splitlines()
    assert not [line for line in lines if not line.startswith(("INFO ", "WARNING "))]
    assert "INFO a forged line" not in lines
    assert "\x1b" not in each.log


def test_invalid_input_at_both_ports_does_not_disturb_the_tree(
    inside: list[str], shared: tuple[Started, Started]
) -> None:
    first, second = shared
    before = [each.show("status") for each in shared]
    for target, each in enumerate(shared, 1):
        began = time.monotonic()
        make_noise(
            inside,
            f"{SHARED}.{target}",
            f"{SHARED}.9",
            lambda volleys, each=each: dropped_all(each, 5 * volleys, *SEALED_REASONS),
        )
        until(partial(dropped_all, each, 60, *STREAM_REASONS), "the invalid input on TCP is counted")
        until(partial(dropped_all, each, 500, *SEALED_REASONS), "that on UDP is counted")
        assert_log_is_genuine(each)
        logged = len([line for line in each.log.splitlines() if f"datagram from {SHARED}.9" in line])
        assert 1 <= logged <= 1 + (time.monotonic() - began) / WARNING_S
    after = [each.show("status") for each in shared]
    same = ("incarnation", "phase", "place", "leader", "path", "leader_changes", "subtree_nodes")
    assert [{key: each[key] for key in same} for each in after] == [
        {key: each[key] for key in same} for each in before
    ]
    assert after[1]["leader"] == first.show("status")["address"]
    assert second.process.poll() is None


def test_invalid_input_without_a_key_is_counted_and_refusals_have_a_bounded_rate(
    inside: list[str], start: Start
) -> None:
    daemon = start(f"{SINGLE}.1", "cluster.key_file=", "cluster.insecure=true")
    until(daemon.is_ready, "it is ready")
    make_noise(inside, f"{SINGLE}.1", f"{SINGLE}.9", lambda volleys: dropped_all(daemon, 4 * volleys, *UDP_REASONS))
    until(partial(dropped_all, daemon, 60, "stream_malformed"), "the invalid input on TCP is counted")
    until(partial(dropped_all, daemon, 400, *UDP_REASONS), "that on UDP is counted")
    assert_log_is_genuine(daemon)
    assert 0 < len([line for line in daemon.log.splitlines() if " refused (told by " in line]) < 100
    logged = [each for each in daemon.events if each["event"] == "refused"]
    assert dropped(daemon, "refusals_not_told") == 100 - len(logged)


def dropped_all(each: Started, number: int, *reasons: str) -> bool:
    return sum(dropped(each, reason) for reason in reasons) == number


def dropped(each: Started, reason: str) -> int:
    number: int = each.show("counters")["dropped_by_reason"].get(reason, 0)
    return number


CROWD = """
import socket, sys
crowd = []
for number in range(200):
    sock = socket.socket()
    sock.bind((sys.argv[2], 0))
    sock.settimeout(20)
    sock.connect((sys.argv[1], 7117))
    crowd.append(sock)
print("here", flush=True)
sys.stdin.read()
"""


def test_many_streams_leave_file_descriptors_for_the_control_socket(inside: list[str], start: Start) -> None:
    daemon = start(f"{SINGLE}.1", files_max=125)  # 25 streams, 12 of them pending
    until(daemon.is_ready, "it is ready")
    command = [*inside, sys.executable, "-c", CROWD, f"{SINGLE}.1", f"{SINGLE}.9"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as crowd:
        assert crowd.stdout is not None
        assert crowd.stdout.readline() == b"here\n"
        until(lambda: dropped(daemon, "stream_strangers") >= 150, "most of them are refused")
        assert daemon.show("status")["phase"] == "root"
    assert [
        line for line in daemon.whole_log.splitlines() if not line.startswith(("INFO ", "WARNING no TLS with"))
    ] == []


FETCH = """
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], 9717, timeout=20)
connection.request("GET", "/metrics", headers={"Host": sys.argv[2]})
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""
TABLES = {
    "documents", "duplicates", "events", "false_signers", "identities", "keys_refused", "names", "orders_logged",
    "pins", "probes_out", "problems", "register_runs", "seal_rings", "sealed_listeners", "sealed_peers", "verdicts",
    "wire_versions",
}  # fmt: skip
"""Outside the core, which shows its own (tests/core/test_snapshots.py)."""


def test_the_web_address_answers_only_under_known_names(inside: list[str], start: Start) -> None:
    daemon = start(f"{SINGLE}.1", "node.metrics=:9717", 'node.web_names=["proxy.example.org"]')
    until(daemon.is_ready, "it is ready")
    hosts = {f"{SINGLE}.1:9717": 200, "localhost": 200, "proxy.example.org": 200, "evil.example:9717": 421}
    for host, status in hosts.items():
        words = [*inside, sys.executable, "-c", FETCH, f"{SINGLE}.1", host]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S_MAX, check=True)
        assert int(ran.stdout.split()[0]) == status, host
        if status == 200:
            assert set(re.findall(r'subord_table_entries\{table="(\w+)"', ran.stdout)) > TABLES
    assert dropped(daemon, "foreign_host") == 1


def test_python_before_3_11_4_is_told_to_fork(inside: list[str], tmp_path: Path) -> None:
    """With vfork(2) a program that cannot be read, as of metrics, would hold up all threads."""
    tell = "trio.run = lambda *_: print('vfork:', subprocess._USE_VFORK, file=sys.stderr)"
    code = (
        f"import subprocess, sys, trio; from subord.cli import main; {tell}; "
        "sys.version_info = (3, 11, 3, 'final', 0); sys.exit(main())"
    )
    (tmp_path / "key").write_text(KEY_RING)
    (tmp_path / "key").chmod(0o600)
    config = tmp_path / "subord.toml"
    config.write_text(f'[cluster]\nnetwork = "{SINGLE}.0/24"\nkey_file = "key"\n')
    words = [*inside, sys.executable, "-c", code, "run", "--config", str(config)]
    ran = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=WAIT_S_MAX)
    assert ran.stderr.endswith("vfork: False\n"), ran.stderr
