"""`subord files push` on real daemons and agents, as an operator types it. Each agent has a /srv of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab
from netlab.processes.enter import command_in

from .lab_helpers import SUBORD, blocks, prints_as_shown, settled

pytestmark = pytest.mark.lab(few=True)

PAGE = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
NODES = 9
WAIT_S_MAX = 60.0
KIB = 1 << 10
MIB = 1 << 20


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(WAIT_S_MAX, nodes=NODES, fanout=2, timing="lab", agents=True) as lab:
        for each in lab.positions:
            (srv(lab, each) / "example").mkdir(parents=True)
        yield lab


def srv(lab: Lab, position: int) -> Path:
    """What the agent of a node has as /srv."""
    return lab.directory.node(position) / "srv"


def typed(lab: Lab, *words: str, at: int = 5) -> subprocess.CompletedProcess[str]:
    return lab.run(at, SUBORD, "files", "push", *words)


def page_works(lab: Lab, folder: Path, block: str, lines: Sequence[str]) -> None:
    """A block of the page prints as shown, and these lines of it work, where the files are in this folder."""

    def shell(line: str) -> subprocess.CompletedProcess[str]:
        return lab.run(5, "sh", "-c", f"cd {folder} && {line} 2>&1")

    prints_as_shown(block, shell)
    for line in lines:
        done = shell(line)
        assert done.returncode == 0, (line, done.stdout)


def test_the_document_shows_what_is_printed(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "motd").write_text("welcome\n")
    lines = re.findall(r"^subord files push .*$", PAGE, re.MULTILINE)
    assert len(lines) == 3
    page_works(lab, tmp_path, blocks(PAGE)[0], lines)
    for each in lab.positions:
        assert (srv(lab, each) / "example" / "motd").read_text() == "welcome\n"


def test_a_tree_of_files_comes_to_all_nodes(lab: Lab, tmp_path: Path) -> None:
    content = os.urandom(MIB)
    (tmp_path / "big").write_bytes(content)
    (tmp_path / "d" / "e f").mkdir(parents=True)
    (tmp_path / "d" / "e f" / "empty").touch(mode=0o600)
    (tmp_path / "d" / "link").symlink_to("/etc/shadow")
    done = typed(lab, "-a", "--to", "/srv", "--json", str(tmp_path / "big"), str(tmp_path / "d"))
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert json.loads(done.stdout)["ended"] == {"changed": NODES}
    for each in lab.positions:
        assert (srv(lab, each) / "big").read_bytes() == content
        assert os.readlink(srv(lab, each) / "d" / "link") == "/etc/shadow"
        assert (srv(lab, each) / "d" / "e f" / "empty").stat().st_mode & 0o777 == 0o600
    (srv(lab, 7) / "big").write_bytes(content[:-1])
    done = typed(lab, "-a", "--to", "/srv", str(tmp_path / "big"), "--dry-run")
    assert done.stdout.splitlines() == [
        "10.0.0.[1-6,8-9]: unchanged, 1 as it was",
        "10.0.0.7: would change, 1 replaced (other big)",
    ]


def test_failures_of_nodes_are_told(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (srv(lab, 3) / "new").mkdir()
    (srv(lab, 4) / "at").symlink_to("/etc")
    (srv(lab, 5) / "at").mkdir()
    done = typed(lab, "-w", "10.0.0.[3,5]", "--to", "/srv", str(tmp_path / "new"))
    assert done.returncode == 1
    assert "subord: 10.0.0.3: a directory is there, and a file or link is wanted (/srv/new)" in done.stderr
    done = typed(lab, "-w", "10.0.0.[3-5]", "--to", "/srv/at", str(tmp_path / "new"))
    assert done.stdout == "10.0.0.5: changed, 1 made\n"
    assert "subord: 10.0.0.3: there is no such directory (/srv/at)" in done.stderr
    assert "subord: 10.0.0.4: a symlink is in the path of the target: name the real path (/srv/at)" in done.stderr


def on_node(lab: Lab, line: str) -> None:
    """A line for the shell of node 3, whose agent has mounts of its own as long as it runs."""
    done = lab.run(5, SUBORD, "exec", "-n", "-q", "-w", "10.0.0.3", "--shell", line)
    assert done.returncode == 0, done.stderr


def test_a_full_and_a_read_only_disk_are_told_and_the_next_order_succeeds(lab: Lab, tmp_path: Path) -> None:
    for each in lab.positions:
        (srv(lab, each) / "small").mkdir()
    on_node(lab, f"mount -t tmpfs -o size={96 * KIB} none /srv/small")
    (tmp_path / "file").write_text("o" * 40 * KIB)

    def push() -> subprocess.CompletedProcess[str]:
        return typed(lab, "-a", "--to", "/srv/small", str(tmp_path / "file"))

    assert push().returncode == 0
    full, read_only = "No space left on device", "Read-only file system"
    for letter, fault, said, mend in (
        ("x", "true", f"no room on the disk (/srv/small: {full})", f"size={MIB}"),
        ("y", "mount -o remount,ro /srv/small", f"the file system is read-only (/srv/small: {read_only})", "rw"),
    ):
        on_node(lab, fault)
        (tmp_path / "file").write_text(letter * 80 * KIB)
        done = push()
        assert done.stdout == "10.0.0.[1-2,4-9]: changed, 1 replaced\n"
        assert f"subord: 10.0.0.3: {said}" in done.stderr
        on_node(lab, f'test "$(ls -A /srv/small)" = file && ! grep -q {letter} /srv/small/file')
        on_node(lab, f"mount -o remount,{mend} /srv/small")
        assert "10.0.0.3: changed, 1 replaced" in push().stdout.splitlines()


def test_a_node_whose_cache_takes_nothing_passes_content_on_and_says_why(lab: Lab, tmp_path: Path) -> None:
    """Node 4 leads 8 and 9."""
    (tmp_path / "cached").write_bytes(os.urandom(MIB))
    blobs = lab.directory.node(4) / "state" / "blobs"
    blobs.mkdir(exist_ok=True)
    blobs.rename(blobs.with_name("moved"))
    blobs.touch()
    try:
        done = typed(lab, "-a", "--to", "/srv", str(tmp_path / "cached"))
    finally:
        blobs.unlink()
        blobs.with_name("moved").rename(blobs)
    assert done.stdout == "10.0.0.[1-3,5-9]: changed, 1 made\n"
    said = "subord: 10.0.0.4: the content did not come (the cache of blobs cannot be written: Not a directory)"
    assert said in done.stderr.splitlines()
    assert typed(lab, "-w", "10.0.0.4", "--to", "/srv", str(tmp_path / "cached")).returncode == 0


def test_an_agent_that_is_killed_before_the_files_count_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "killed").write_text("new")
    check = "test $SUBORD_NODE != 10.0.0.6 || kill -9 $PPID"
    done = typed(lab, "-w", "10.0.0.[6-7]", "--to", "/srv", "--check", check, str(tmp_path / "killed"))
    assert done.stdout == "10.0.0.7: changed, 1 made\n"
    assert done.stderr.splitlines()[-1].endswith("missing: 10.0.0.6 outcome unknown")
    log = lab.directory.node(6) / "agent.log"
    assert wait_until(lambda: "is undone" in log.read_text(), WAIT_S_MAX, 0.05), "the next agent begins with that"
    assert not (srv(lab, 6) / "killed").exists()
    assert list(srv(lab, 6).glob(".subord*")) == []
    words = ("-w", "10.0.0.6", "--to", "/srv", str(tmp_path / "killed"))
    assert wait_until(lambda: typed(lab, *words).returncode == 0, WAIT_S_MAX, 0.2), "the agent is back"


def test_the_end_of_an_interior_node_costs_only_that_node(lab: Lab, tmp_path: Path) -> None:
    """It is killed while it passes the content on."""
    content = os.urandom(24 * MIB)
    (tmp_path / "large").write_bytes(content)
    words = (SUBORD, "files", "push", "-w", "10.0.0.[1-9]", "--to", "/srv", "--json", str(tmp_path / "large"))
    with subprocess.Popen(command_in(lab.options.name, "5", words), stdout=subprocess.PIPE) as process:
        below = lab.directory.node(8) / "state" / "blobs"
        size = len(list(below.iterdir()))
        assert wait_until(lambda: len(list(below.iterdir())) > size + 3, WAIT_S_MAX, 0.005), "the content comes"
        lab.kill(4, signal.SIGKILL)
        out, _ = process.communicate(timeout=WAIT_S_MAX)
    found = json.loads(out)
    assert found["ended"] == {"changed": NODES - 1}
    (missing,) = found["missing"]
    assert missing["addresses"] == ["10.0.0.4"]
    assert missing["cause"] in {"down", "silent"}
    for each in set(lab.positions) - {4}:
        assert (srv(lab, each) / "large").read_bytes() == content
