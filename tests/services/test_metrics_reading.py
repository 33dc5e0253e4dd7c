"""What a node reads of its own kernel: file systems, interfaces, sensors; some of their names are given by others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from loops import over

from subord.services.metrics import reading
from subord.services.metrics.reading import Kernel, counted_interfaces, file_systems, local_mounts


def test_the_kernel_of_this_machine() -> None:
    found = Kernel().read()
    assert {"node_load1", "node_cpus", "node_time_seconds"} <= found.keys()
    assert not [name for name in found if "device=" in name]


# -- file systems -------------------------------------------------------------------------------------------


@over(
    ("text", "found"),
    [
        ("/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\nsrv:/x /x nfs rw 0 0\n", [("/", "/dev/a")]),
        ("rootfs / rootfs rw\n/dev/a / xfs rw\n", [("/", "/dev/a")]),
        ("/dev/a / ext4 rw\n/dev/b /home ext4 rw\ntmpfs /home tmpfs rw\n", [("/", "/dev/a")]),
        ("/dev/a /a\\040b ext4 rw\n", [("/a b", "/dev/a")]),
        ("overlay / overlay rw\n", [("/", "overlay")]),
        ("overlay /var/lib/docker/overlay2/1/merged overlay rw\n/dev/p /var/lib/kubelet/pods/1 ext4 rw\n", []),
        ("\nbroken\n", []),
    ],
)
def test_local_mounts(text: str, found: list[tuple[str, str]]) -> None:
    assert list(local_mounts(text)) == found


def test_a_file_system_that_cannot_be_read_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / os.fsdecode(b'n\xff"')
    odd.mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_bytes(b"/dev/a / ext4 rw\n/dev/b /no/such/place ext4 rw\n/dev/c %s ext4 rw\n" % os.fsencode(odd))
    monkeypatch.setattr(reading, "MOUNTS", str(mounts))
    found = file_systems()
    assert found['node_filesystem_size_bytes{mountpoint="/"}'] > 0
    assert len(found) == 4
    assert any(name.endswith('n\ufffd\\""}') for name in found), "and its name can be sent"


# -- interfaces ---------------------------------------------------------------------------------------------


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reading, "INTERFACES", str(tmp_path / "net"))
    monkeypatch.setattr(reading, "VIRTUAL", str(tmp_path / "virtual"))
    return tmp_path


def plant(sysfs: Path, name: str, *links: str, is_virtual: bool = True, leader: str = "") -> None:
    (sysfs / "net" / name).mkdir(parents=True)
    if is_virtual:
        (sysfs / "virtual" / name).mkdir(parents=True)
    for link in links:
        (sysfs / "net" / name / link).touch()
    if leader:
        (sysfs / "net" / name / "master").symlink_to(f"../{leader}")


def test_the_bytes_of_a_bond_are_those_of_its_ports(sysfs: Path) -> None:
    for port in ("eth0", "eth1"):
        plant(sysfs, port, is_virtual=False, leader="bond0")
    names = ["lo", "bond0", "bond0.100", "br0", "docker0", "veth12", "tun0"]
    for each in names:
        plant(sysfs, each)
    assert counted_interfaces([*names, "eth0", "eth1"]) == {"eth0", "eth1"}


def test_a_virtual_function_behind_an_interface_is_counted_once(sysfs: Path) -> None:
    plant(sysfs, "eth0", is_virtual=False)
    plant(sysfs, "enP1s1", is_virtual=False, leader="eth0")
    assert counted_interfaces(["eth0", "enP1s1"]) == {"eth0"}


def test_a_container_has_virtual_interfaces_only(sysfs: Path) -> None:
    for each in ("lo", "eth0", "eth1"):
        plant(sysfs, each)
    plant(sysfs, "bond0", "lower_eth0", "lower_eth1")
    assert counted_interfaces(["lo", "eth0", "eth1", "bond0"]) == {"lo", "eth0", "eth1"}


def test_without_sysfs_all_interfaces_are_counted(sysfs: Path) -> None:
    assert counted_interfaces(["lo", "eth0"]) == {"eth0"}


def test_interfaces_that_come_are_looked_up(sysfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "{}: {} 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"
    net = tmp_path / "dev"
    monkeypatch.setattr(reading.kernel, "NETWORK", str(net))
    plant(sysfs, "eth0", is_virtual=False)
    kernel, found = Kernel(), []
    for eth0, eth1 in ((5, 0), (9, 0), (10, 100), (11, 102)):
        if eth1 == 100:
            plant(sysfs, "eth1", is_virtual=False)
        net.write_text("\n\n" + row.format("eth0", eth0) + (row.format("eth1", eth1) if eth1 else ""))
        found.append(kernel.read()["node_network_receive_bytes_total"])
    assert found == [0.0, 4.0, 5.0, 8.0]


# -- sensors ------------------------------------------------------------------------------------------------


def test_sensors_are_listed_again_when_there_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SENSORS", str(tmp_path))
    kernel = Kernel()
    assert not kernel.temperature()
    for name, text in (("temp1_input", "41000"), ("temp1_max", "99000"), ("temp2_input", "x")):
        (tmp_path / "hwmon0").mkdir(exist_ok=True)
        (tmp_path / "hwmon0" / name).write_text(text + "\n")
    assert kernel.temperature() == {"node_hwmon_temp_celsius": 41.0}
    (tmp_path / "hwmon0" / "temp1_input").unlink()
    assert not kernel.temperature(), "one that is gone costs nothing"
    (tmp_path / "hwmon1").mkdir()
    (tmp_path / "hwmon1" / "temp1_input").write_text("55500\n")
    assert kernel.temperature() == {"node_hwmon_temp_celsius": 55.5}
