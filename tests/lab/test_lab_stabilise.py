"""`lab stabilise` on the stand-in daemon, whose figures are known beforehand; as root and as the user `nobody`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .lab_helpers import FAKE, SCRIPT, as_nobody, run_lab, traces

pytestmark = pytest.mark.lab

QUIET = "--quiet", "0.5"
CONTRACT = {
    *("nodes", "fanout", "layout", "start", "stable_s", "stable_after_last_start_s", "roots", "depth"),
    *("subordinates_max", "at_home", "leader_changes_per_node", "exchanges_per_node", "datagrams_per_node"),
    *("bytes_per_node", "cpu_s_per_node", "pss_mib_per_node", "rest_packets_per_s", "rest_bytes_per_s"),
    *("rest_cpu_percent", "machine", "seed", "timing", "version"),
}


def test_figures_of_the_known_tree(tmp_path):
    file = tmp_path / "figures.json"
    arguments = ["--nodes", "15,16", "--fanout", "2", "--start", "reverse", "--rest", "1", "--json", file, *QUIET]
    result = run_lab("stabilise", *arguments, "--daemon", FAKE)
    assert result.returncode == 0, result.stderr
    fifteen, sixteen = json.loads(file.read_text())
    for run in (fifteen, sixteen):
        nodes = run["nodes"]
        assert set(run) >= CONTRACT
        assert run["stable"] is True
        assert 0 <= run["stable_after_last_start_s"] <= run["stable_s"] < 20
        assert (run["roots"], run["at_home"], run["subordinates_max"]) == (1, nodes, 2)
        assert run["leader_changes_per_node"] == 0
        assert run["exchanges_per_node"] == pytest.approx((nodes - 1) / nodes)
        # hello, its answer, here, its answer: 4 a node except the root; two more each time a node asks again
        again = run["stable_s"] / 0.2  # RETRY_S of the stand-in daemon
        assert 4 * (nodes - 1) / nodes <= run["datagrams_per_node"] <= 4 + 2 * again
        assert run["bytes_per_node"] > run["datagrams_per_node"] * 42  # headers of Ethernet, IPv4 and UDP
        assert 0 < run["cpu_s_per_node"] < 1
        assert 0.5 < run["pss_mib_per_node"] < 60
        assert 0 <= run["rest_cpu_percent"] < 5
        assert run["machine"]["cores"] == os.cpu_count()
    assert (fifteen["depth"], sixteen["depth"]) == (3, 4)
    title, *rows = result.stdout.splitlines()[-3:]
    assert title.split()[0] == "nodes"
    assert [row.split()[0] for row in rows] == ["15", "16"]


def test_at_rest_every_frame_is_counted_once(tmp_path):
    """A daemon that sends 50 datagrams of 100 bytes a second: 50 frames of 142 bytes, whatever receives them.

    Twice or half as many would be a mistake; a few may be late, or come in the place of those before the rest.
    """
    chatty = tmp_path / "chatty.py"
    chatty.write_text(CHATTY.format(fake=str(FAKE.parent)))
    file = tmp_path / "figures.json"
    result = run_lab("stabilise", "--nodes", 4, "--rest", 2, *QUIET, "--json", file, "--daemon", chatty)
    assert result.returncode == 0, result.stderr
    (run,) = json.loads(file.read_text())
    assert run["rest_packets_per_s"] == pytest.approx(50, rel=0.45)
    assert run["rest_bytes_per_s"] / run["rest_packets_per_s"] == pytest.approx(142, rel=0.05)
    assert 0 < run["rest_cpu_percent"] < 100
    # The others chat to the first, which is the root: what is brought to it counts there, too.
    assert run["rest_root_packets_per_s"] == pytest.approx(4 * 50, rel=0.45)
    assert len(file.with_suffix(".csv").read_text().splitlines()) == 2


CHATTY = """
import sys
sys.path.insert(0, {fake!r})
import trio
from fake_daemon import Node
import tomllib

async def chat(node):
    other = "10.0.0.1" if node.position > 1 else "10.0.0.2"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.run)
        with trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM) as socket:
            due = trio.current_time()
            while True:
                due += 0.02
                await trio.sleep_until(due)  # a late one catches up
                await socket.sendto(bytes(100), (other, 9))  # discarded; the ICMP answers are limited to 1 a second

def main(argv):
    with open(argv[2], "rb") as file:
        node = Node(tomllib.load(file))
    trio.run(chat, node)
"""


def test_not_stable_is_said_with_the_facts(tmp_path):
    mute = tmp_path / "mute.py"
    mute.write_text("import time\ndef main(argv):\n    time.sleep(1000)\n")
    file = tmp_path / "figures.json"
    arguments = ["--nodes", "3", "--rest", "0.2", "--timeout", "2", "--json", file, "--daemon", mute]
    result = run_lab("stabilise", *arguments)
    assert result.returncode == 3
    (run,) = json.loads(file.read_text())
    assert (run["stable"], run["stable_s"], run["exchanges_per_node"]) == (False, None, None)
    assert run["facts"].startswith("Not stable after 2 s. 3 of 3 nodes live, 0 have a place, 0 roots")


def test_rootless():
    """As a user without any right, where only permanent neighbour entries help: 30 nodes are 870 pairs."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        if os.geteuid() == 0:
            os.chown(directory, 65534, 65534)
        python, environment = as_nobody(directory)
        file = directory / "figures.json"
        arguments = [
            "stabilise",
            "--nodes",
            "30",
            "--rest",
            "0.5",
            *QUIET,
            "--json",
            str(file),
            "--daemon",
            str(FAKE),
        ]
        command = [*python, str(SCRIPT), *arguments]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            _, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, complaint
        (run,) = json.loads(file.read_text())
        assert (run["stable"], run["roots"], run["at_home"], run["neighbours"]) == (True, 1, 30, "permanent")
        assert sorted(path.name for path in directory.iterdir()) == ["figures.csv", "figures.json"]
        assert traces(f"at-{process.pid}-") == []
    finally:
        shutil.rmtree(directory)


def test_ctrl_c_keeps_the_runs_that_are_done(tmp_path):
    import signal

    file = tmp_path / "figures.json"
    command = [sys.executable, SCRIPT, "stabilise", "--nodes", "3", "--repeat", "9", "--rest", "0.2"]
    command += ["--json", file, "--daemon", FAKE, *QUIET]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "run 2 of 9" in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert len(json.loads(file.read_text())) == 1
    assert traces(f"at-{process.pid}-") == []
