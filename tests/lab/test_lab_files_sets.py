"""Sets of files on real daemons and agents, as an operator types it. Each agent has a /srv of its own."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab

from subord.services.files.sets.words import OCCUPIED, SENTENCES

from .lab_helpers import SUBORD, blocks, settled
from .test_lab_files import PAGE, page_works, srv

pytestmark = pytest.mark.lab(few=True)

NODES = 9
WAIT_S_MAX = 60.0
MISSING_8_AND_9 = re.compile(
    r"missing: 10\.0\.0\.(\[8-9\] (down|silent)|8 (down|silent), 10\.0\.0\.9 (down|silent)"
    r"|9 (down|silent), 10\.0\.0\.8 (down|silent))$",
    re.MULTILINE,
)
"""A daemon that has just been killed is `silent` before it is `down`, and each has its own time."""
STAGED = ".subord-files-*"
KIB = 1 << 10


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(WAIT_S_MAX, nodes=NODES, fanout=2, timing="lab", agents=True) as lab:
        for each in lab.positions:
            srv(lab, each).mkdir(parents=True, exist_ok=True)
        yield lab


def typed(lab: Lab, *words: str, at: int = 5) -> subprocess.CompletedProcess[str]:
    return lab.run(at, SUBORD, "files", *words)


def publish(lab: Lab, name: str, directory: Path, *words: str, at: int = 5) -> subprocess.CompletedProcess[str]:
    given = words or ("-a",)
    return typed(lab, "publish", *given, "--name", name, "--to", f"/srv/{name}", str(directory), at=at)


def states(lab: Lab, name: str, at: int = 5) -> dict[str, list[str]]:
    """Nodes by state."""
    found: dict[str, list[str]] = {}
    done = typed(lab, "status", name, "--json", at=at)
    assert done.returncode in (0, 1), done.stderr
    for each in json.loads(done.stdout)["nodes"]:
        found.setdefault(each["state"], []).extend(each["nodes"])
    return found


def until(condition: Any, what: str) -> None:
    assert wait_until(condition, WAIT_S_MAX, 0.1), what


def text(lab: Lab, name: str, position: int, file: str = "a") -> str:
    path = srv(lab, position) / name / file
    return path.read_text() if path.exists() else ""


def texts(lab: Lab, name: str, *others: int) -> set[str]:
    """The file of all nodes but these."""
    return {text(lab, name, each) for each in set(lab.positions) - set(others)}


def directory(top: Path, content: str) -> Path:
    made = top / "files"
    made.mkdir(exist_ok=True)
    (made / "a").write_text(content)
    return made


def test_the_document_shows_what_is_printed(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index").write_text("some text\n")
    (tmp_path / "pages" / "more").write_text("b\n")
    lines = re.findall(r"^subord files (?!push).*$", PAGE, re.MULTILINE)
    assert len(lines) == 7
    page_works(lab, tmp_path, blocks(PAGE)[1], lines)
    for each in lab.positions:
        assert (srv(lab, each) / "web" / "index").read_text() == "new\n", "version 2, after all"


def test_drift_is_seen_named_and_mended_by_the_next_version(lab: Lab, tmp_path: Path) -> None:
    files = directory(tmp_path, "one")
    assert publish(lab, "drift", files).returncode == 0
    (srv(lab, 3) / "drift" / "a").write_text("local")
    (srv(lab, 3) / "drift" / "more").touch()
    done = typed(lab, "status", "drift")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        "  10.0.0.[1-2,4-9]: current",
        "  10.0.0.3: drifted, 2 paths differ: see `subord files diff drift 10.0.0.3`, publish again to restore",
    ]
    done = typed(lab, "diff", "drift", "10.0.0.3")
    assert (done.returncode, done.stdout) == (1, "other content: a\nnot of the set: more\n")
    assert text(lab, "drift", 3) == "local", "nothing is mended before it is asked for"
    assert publish(lab, "drift", files).returncode == 0
    assert typed(lab, "diff", "drift", "10.0.0.3").returncode == 0
    assert texts(lab, "drift") == {"one"}


def test_nodes_that_are_off_or_new_get_the_newest_version_also_without_the_publisher(
    lab: Lab, tmp_path: Path
) -> None:
    """Node 9 is off, node 8 comes without what it knew, and node 5, where it was published, is down then."""
    files = directory(tmp_path, "one")
    assert publish(lab, "late", files).returncode == 0
    for each in (8, 9):
        lab.kill_agent(each)
        lab.kill(each, signal.SIGKILL)
    files = directory(tmp_path, "two")
    done = publish(lab, "late", files, "-a", "-t", "20")
    assert done.returncode == 1
    assert "  10.0.0.[1-7]: current" in done.stdout.splitlines()
    assert MISSING_8_AND_9.search(done.stderr), done.stderr
    lab.kill(5, signal.SIGKILL)
    node = lab.directory.node(8)
    for each in [*(node / "agent").iterdir(), *srv(lab, 8).iterdir(), node / "state" / "blobs"]:
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    (node / "state" / "members.bin").unlink()
    lab.start(8, 9)
    until(lambda: texts(lab, "late", 5) == {"two"}, "both have the newest version")
    lab.start(5)
    lab.wait_stable(WAIT_S_MAX)
    until(lambda: states(lab, "late") == {"current": [f"10.0.0.{each}" for each in range(1, 10)]}, "all say so")
    until(lambda: lab.document(5, "/v1/members")["complete"], "the root knows all members again")


def test_an_agent_that_is_killed_before_the_exchange_carries_it_out_when_it_is_back(lab: Lab, tmp_path: Path) -> None:
    files = directory(tmp_path, "one")
    assert publish(lab, "killed", files).returncode == 0
    files = directory(tmp_path, "two")
    mark = lab.directory.node(6) / "killed-once"
    check = f"test $SUBORD_NODE != 10.0.0.6 || test -e {mark} || {{ touch {mark}; kill -9 $PPID; }}"
    after = f'echo "$SUBORD_VERSION" >> {lab.directory.node(6).parent}/$SUBORD_NODE-ran'
    publish(lab, "killed", files, "-a", "-t", "10", "--check", check, "--after", after)
    until(lambda: texts(lab, "killed") == {"two"}, "all have the new version")
    assert mark.exists()
    for each in lab.positions:
        assert len(list(srv(lab, each).glob(STAGED))) <= len(list(srv(lab, each).iterdir())), "only previous versions"
    until(lambda: list(states(lab, "killed")) == ["current"], "it is the whole of one version, and nothing is left")
    ran = [lab.directory.node(6).parent / f"10.0.0.{each}-ran" for each in lab.positions]
    assert [each.read_text() for each in ran] == ["2\n"] * NODES
    assert "is undone, and will be staged again" in (lab.directory.node(6) / "agent.log").read_text()


def test_of_two_documents_with_one_version_one_counts_everywhere_and_is_shown(lab: Lab, tmp_path: Path) -> None:
    """Node 9 is cut off while both are published, so neither operator knows of the other."""
    made = {}
    for at in (2, 9):
        (tmp_path / str(at)).mkdir()
        made[at] = directory(tmp_path / str(at), f"of {at}")
    lab.cut(9)
    publish(lab, "both", made[9], "-a", "--no-wait", at=9)
    until(lambda: text(lab, "both", 9) == "of 9", "the one is in place where it was given")
    publish(lab, "both", made[2], "-a", "--no-wait", at=2)
    until(lambda: texts(lab, "both", 9) == {"of 2"}, "the other one is in place on all others")
    lab.cut(9, connected=True)
    until(lambda: texts(lab, "both") == {"of 2"}, "the later one counts everywhere")
    until(lambda: list(states(lab, "both")) == ["current"], "all say so")
    head = typed(lab, "status", "both", at=9).stdout.splitlines()[0]
    assert head.endswith("; another document has the same version, and this one counts")


def test_failures_have_words(lab: Lab, tmp_path: Path) -> None:
    files = directory(tmp_path, "one")
    (srv(lab, 2) / "faults").write_text("a file")
    (srv(lab, 3) / "faults").symlink_to("/etc")
    (srv(lab, 4) / "faults").mkdir()
    (srv(lab, 4) / "faults" / "precious").touch()
    lab.remove_agent(7)
    done = publish(lab, "faults", files, "-w", "10.0.0.[1-4,7]")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        "  10.0.0.1: current",
        "  10.0.0.2: failed, it is not a directory (/srv/faults)",
        f"  10.0.0.4: failed, {SENTENCES[OCCUPIED]} (/srv/faults)",
        "  10.0.0.3: failed, a symlink is in the path of the target: name the real path (/srv/faults)",
    ]
    assert done.stderr.endswith("missing: 10.0.0.7 no agent\n")
    assert publish(lab, "faults", files, "-w", "10.0.0.4", "--replace").returncode == 0
    assert list(srv(lab, 4).glob(f"{STAGED}/precious"))
    done = publish(lab, "faults", files, "-x", "10.0.0.[1-9]")
    assert done.returncode == 68
    assert "no node is left" in done.stderr


def test_gc_frees_what_no_set_names(lab: Lab, tmp_path: Path) -> None:
    files = directory(tmp_path, "x" * 100 * KIB)
    assert publish(lab, "old", files, "-w", "10.0.0.[1-4]").returncode == 0
    directory(tmp_path, "y" * 100 * KIB)
    assert publish(lab, "old", files, "-w", "10.0.0.[1-4]").returncode == 0
    assert typed(lab, "withdraw", "old").returncode == 0

    def freed() -> bool:
        """The withdrawal comes to all nodes."""
        found = json.loads(typed(lab, "gc", "--json").stdout)
        by_node = {node: each for each in found["freed"] for node in each["nodes"]}
        totals[0] += sum(by_node[f"10.0.0.{each}"]["directory_bytes"] for each in range(1, 5))
        cached = [each.stat().st_size for each in (lab.directory.node(3) / "state" / "blobs").iterdir()]
        return totals[0] >= 4 * 100 * KIB and max(cached, default=0) < 100 * KIB

    totals = [0]
    until(freed, "nothing from before is left, neither in directories nor in caches")
    assert {text(lab, "old", each)[:1] for each in range(1, 5)} == {"y"}, "the files stay"
