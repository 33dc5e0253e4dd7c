"""Which lines of its drop-in the unit of the agent lacks: by what the kernel shows of a process."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from loops import over

from subord.config.schema import TransferConfig
from subord.runtime.transfer.state import TEXT_CHARS_MAX
from subord.services.transfer.driving import unit
from subord.services.transfer.driving.unit import CAPABILITIES, DROP_IN, Probes, lacking

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = "0::/system.slice/subord-agent.service\n"
ALL = "000001ffffffffff"
BARE = "0" * 16
OPEN = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw - proc proc rw
24 22 8:1 /tmp /tmp rw - ext4 /dev/sda1 rw
"""
PRIVATE = """\
42 1 8:1 / / ro shared:1 master:1 - ext4 /dev/sda1 rw
43 42 0:41 / /proc rw - proc proc rw,hidepid=invisible,subset=pid
44 42 8:1 /tmp/systemd-private-1-subord-agent.service-x/tmp /tmp rw - ext4 /dev/sda1 rw
45 42 0:20 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw
"""


def allowed() -> None:
    """Nothing forbids it."""


def denied() -> None:
    raise PermissionError(1, "Operation not permitted")


FREE = Probes(allowed, allowed)


def proc_of(
    folder: Path,
    *,
    cgroup: str = UNIT,
    capabilities: str = ALL,
    forbids: int = 0,
    mounts: str = OPEN,
    machine: str = "",
) -> str:
    """`machine`: the capabilities that its first process may have; "": the unit hides this process."""
    own = folder / "self"
    own.mkdir(parents=True)
    if machine:
        (folder / "1").mkdir()
        (folder / "1" / "status").write_text(f"Name:\tsystemd\nCapBnd:\t{machine}\n")
    (own / "cgroup").write_text(cgroup)
    (own / "status").write_text(f"Name:\tpython3\nCapBnd:\t{capabilities}\nNoNewPrivs:\t{forbids}\n")
    (own / "mountinfo").write_text(mounts)
    return str(folder)


def test_a_unit_without_the_drop_in_lacks_all_of_its_lines(tmp_path: Path) -> None:
    """As they stand in the file, but for two that no process sees."""
    proc = proc_of(tmp_path / "proc", capabilities=BARE, forbids=1, mounts=PRIVATE)
    found = lacking("/run/subord-transfer/methods", Probes(denied, denied), proc, str(tmp_path))
    assert found.startswith(f"install {DROP_IN} as a drop-in of subord-agent.service (docs/transfer.md), which")
    told = set(found.partition("which lacks ")[2].split(", "))
    text = (DEPLOY / DROP_IN).read_text()
    lines = re.findall(r"^([A-Z]\w+=.*)$", text, re.MULTILINE)
    capabilities = {word for each in lines if each.startswith("CapabilityB") for word in each.split("=")[1].split()}
    assert capabilities == set(CAPABILITIES)
    unseen = {"LimitNOFILE=16384", "MemoryDenyWriteExecute=no", "RuntimeDirectoryMode=0755"}
    bounding = "CapabilityBoundingSet="
    assert told == {each for each in lines if not each.startswith(bounding)} - unseen | {bounding}


def test_all_lines_fit_into_what_an_agent_tells(tmp_path: Path) -> None:
    """With the socket that cannot be made for want of them, as role.py joins both."""
    proc = proc_of(tmp_path / "proc", capabilities=BARE, forbids=1, mounts=PRIVATE)
    socket = TransferConfig().socket
    found = lacking(socket, Probes(denied, denied), proc, str(tmp_path))
    assert len(f"{socket} cannot be made: No such file or directory: {found}") <= TEXT_CHARS_MAX


@over(
    ("given", "probes", "line"),
    [
        ({}, FREE, ""),
        ({}, Probes(denied, allowed), "IPAddressDeny="),
        ({}, Probes(allowed, denied), "SystemCallFilter="),
        ({"capabilities": "000001ffffffff7f"}, FREE, "CapabilityBoundingSet=CAP_SETUID"),
        ({"capabilities": "000001ffffffff7f", "machine": ALL}, FREE, "CapabilityBoundingSet=CAP_SETUID"),
        ({"capabilities": "000001ffffffff7f", "machine": "000001ffffffff7f"}, FREE, ""),
        ({"forbids": 1}, FREE, "NoNewPrivileges=no"),
        ({"mounts": OPEN + PRIVATE.splitlines()[3]}, FREE, "ProtectHome=no"),
        ({"mounts": OPEN + PRIVATE.splitlines()[2]}, FREE, "PrivateTmp=no"),
        ({"mounts": OPEN.replace("proc rw", "proc rw,hidepid=2")}, FREE, "ProtectProc=default"),
        ({"mounts": OPEN.replace("proc rw", "proc rw,subset=pid")}, FREE, "ProcSubset=all"),
    ],
)
def test_one_line_is_missing(given: dict[str, str], probes: Probes, line: str, tmp_path: Path) -> None:
    proc = proc_of(Path(mkdtemp(dir=tmp_path)), **given)  # type: ignore[arg-type]
    found = lacking("/run/x/methods", probes, proc, "/run/x")
    assert found.partition("which lacks ")[2] == line


@over(("cgroup", "probe"), [("0::/user.slice/session-1.scope\n", denied), ("", denied)])
def test_what_is_no_unit_lacks_no_line(cgroup: str, probe: Callable[[], None], tmp_path: Path) -> None:
    """An agent that is started by hand, or in the lab."""
    proc = proc_of(tmp_path / f"{len(cgroup)}", cgroup=cgroup, capabilities=BARE, forbids=1, mounts=PRIVATE)
    assert lacking("/run/subord-transfer/methods", Probes(probe, probe), proc) == ""
    assert lacking("/run/subord-transfer/methods", Probes(probe, probe), "/nowhere") == ""


def test_nothing_forbids_what_this_process_may_do() -> None:
    """The probes themselves."""
    unit.PROBES.send()
    unit.PROBES.become()
