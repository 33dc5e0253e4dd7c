"""The neighbour table that all namespaces share: when it is thick enough, and that it is put back."""

import json
import os
from pathlib import Path

import pytest
from loops import over

from .lab_helpers import FAKE, need_neighbours, netlab

pytestmark = pytest.mark.lab(few=True)

KERNEL_DEFAULT = (128, 512, 1024)


@over(
    ("nodes", "limits", "fits"),
    [
        (23, KERNEL_DEFAULT, True),  # 506 pairs
        (24, KERNEL_DEFAULT, False),
        (24, (), False),  # unknown limits are taken for too low
        (100, (6400, 12800, 25600), True),
        (101, (6400, 12800, 25600), False),
    ],
)
def test_fits(nodes, limits, fits):
    assert netlab("topology.neighbours").fits(nodes, limits) is fits


def test_out_of_reach_is_said_plainly(monkeypatch):
    neighbours = netlab("topology.neighbours")
    monkeypatch.setattr(neighbours, "memory_available_bytes", lambda: 1 << 30)
    neighbours.check_permanent(500)
    with pytest.raises(netlab("errors").LabError, match="1000 nodes are out of reach"):
        neighbours.check_permanent(1000)


@pytest.fixture
def table_files(tmp_path, monkeypatch):
    """The table's files, as plain files of ours."""
    neighbours = netlab("topology.neighbours")
    limits = []
    for number, value in enumerate(KERNEL_DEFAULT, 1):
        path = tmp_path / f"gc_thresh{number}"
        path.write_text(str(value))
        limits.append(str(path))
    monkeypatch.setattr(neighbours, "_LIMITS", tuple(limits))
    monkeypatch.setattr(neighbours, "_LEDGER", str(tmp_path / "ledger"))
    return lambda: tuple(int(Path(path).read_text()) for path in limits)


def test_the_last_lab_puts_the_limits_back(table_files, tmp_path):
    neighbours = netlab("topology.neighbours")
    first, second = neighbours.Table(), neighbours.Table()
    second._owner = f"{os.getppid()}/{netlab('common.linux').started_at(os.getppid())}"
    assert first.make_room(100)
    assert table_files() == (6400, 12800, 25600)
    assert second.make_room(50)
    assert neighbours.lasting_limits() == KERNEL_DEFAULT
    first.restore()
    assert table_files() == (6400, 12800, 25600)
    second.restore()
    second.restore()
    assert table_files() == KERNEL_DEFAULT
    assert json.loads((tmp_path / "ledger").read_text()) == {"before": [], "users": []}


@pytest.mark.parametrize("inner_ends_first", [True, False])
def test_labs_with_a_ledger_of_their_own_leave_no_limit_raised(table_files, tmp_path, monkeypatch, inner_ends_first):
    """A lab in a container sees the limits of the machine, but not the ledger in /run of the machine."""
    neighbours = netlab("topology.neighbours")
    outer, inner = neighbours.Table(), neighbours.Table()
    assert outer.make_room(100)
    monkeypatch.setattr(neighbours, "_LEDGER", str(tmp_path / "ledger of the container"))
    assert inner.make_room(150)
    for table in (inner, outer) if inner_ends_first else (outer, inner):
        table.restore()
    assert table_files() == KERNEL_DEFAULT


def test_a_killed_lab_does_not_count(table_files, tmp_path):
    (tmp_path / "ledger").write_text(json.dumps({"before": KERNEL_DEFAULT, "users": ["1/0", "999999999/5"]}))
    table = netlab("topology.neighbours").Table()
    assert table.make_room(100)
    assert len(json.loads((tmp_path / "ledger").read_text())["users"]) == 1


def test_the_machine_gets_its_own_limits_back():
    need_neighbours()

    def limits():
        return [int(Path(f"/proc/sys/net/ipv4/neigh/default/gc_thresh{n}").read_text()) for n in (1, 2, 3)]

    with netlab("lab").Lab(30, daemon=FAKE) as lab:
        assert limits() >= [64 * 30, 128 * 30, 256 * 30]
        ledger = json.loads(Path("/run/subord-lab-neighbours").read_text())
        assert any(user.startswith(f"{lab.handle.keeper}/") for user in ledger["users"])
        before = ledger["before"]
    ledger = json.loads(Path("/run/subord-lab-neighbours").read_text())
    assert not any(user.startswith(f"{lab.handle.keeper}/") for user in ledger["users"])
    if not ledger["users"]:  # else another lab on this machine still needs them
        assert limits() == before
