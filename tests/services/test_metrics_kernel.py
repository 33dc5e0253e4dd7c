"""The readings of a node from texts of the kernel, and counters as rates."""

from __future__ import annotations

from math import inf, nan

import pytest
from loops import over

from subord.core.carriage.reports.bounds import NAME_CHARS_MAX
from subord.services.metrics import kernel
from subord.services.metrics.growth import Growth
from subord.services.metrics.kernel import Samples
from subord.services.metrics.rates import Counters, name_of_rate, rated
from subord.services.metrics.wanted import CARRIED_MAX, USUAL, Wanted, chosen, fits

MEMORY = "MemTotal:       16384 kB\nMemAvailable:    8192 kB\nHugePages_Total:       3\nSwapTotal: lots kB\n"
STAT = """\
cpu  100 0 50 800 25 0 5 0 0 0
cpu0 50 0 25 400 10 0 5 0 0 0
cpu1 50 0 25 400 15 0 0 0 0 0
intr 12345 1 2 3
ctxt 777
btime 1790000000
processes 99
procs_running 2
procs_blocked 1
"""
DISKS = """\
   8       0 sda 10 0 200 5 20 0 400 7 0 1500 12 0 0 0 0
   8       1 sda1 10 0 200 5 20 0 400 7 0 1500 12 0 0 0 0
 259       0 nvme0n1 1 0 2 0 1 0 4 0 0 500 0 0 0 0 0
 259       1 nvme0n1p1 1 0 2 0 1 0 4 0 0 500 0 0 0 0 0
 253       0 dm-0 9 0 9999 9 9 0 9999 9 0 9999 9
   7       0 loop0 9 0 9999 9 9 0 9999 9 0 9999 9
 broken line
"""
NETWORK = """\
Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 999 9 9 9 0 0 0 0 999 9 9 9 0 0 0 0
  eth0: 100 10 1 2 0 0 0 0 50 5 3 4 0 0 0 0
  eth1:1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
"""
SOME = "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n"


@over(
    ("parse", "text", "samples"),
    [
        (kernel.load, "0.50 1.25 2.00 3/456 789\n", {"node_load1": 0.5, "node_load5": 1.25, "node_load15": 2.0}),
        (kernel.load, "0.50 1.25", {}),
        (kernel.load, "x y z 1/2 3", {}),
        (
            kernel.memory,
            MEMORY,
            {"node_memory_MemTotal_bytes": 16384 * 1024.0, "node_memory_MemAvailable_bytes": 8192 * 1024.0},
        ),
        (
            kernel.processors,
            STAT,
            {
                'node_cpu_seconds_total{mode="user"}': 1.0,
                'node_cpu_seconds_total{mode="nice"}': 0.0,
                'node_cpu_seconds_total{mode="system"}': 0.5,
                'node_cpu_seconds_total{mode="idle"}': 8.0,
                'node_cpu_seconds_total{mode="iowait"}': 0.25,
                'node_cpu_seconds_total{mode="irq"}': 0.0,
                'node_cpu_seconds_total{mode="softirq"}': 0.05,
                'node_cpu_seconds_total{mode="steal"}': 0.0,
                "node_context_switches_total": 777.0,
                "node_boot_time_seconds": 1.79e9,
                "node_forks_total": 99.0,
                "node_procs_running": 2.0,
                "node_procs_blocked": 1.0,
                "node_cpus": 2.0,
            },
        ),
        (kernel.processors, "", {}),
        (
            kernel.disks,
            DISKS,
            {
                'node_disk_read_bytes_total{device="sda"}': 200 * 512.0,
                'node_disk_written_bytes_total{device="sda"}': 400 * 512.0,
                'node_disk_io_time_seconds_total{device="sda"}': 1.5,
                'node_disk_read_bytes_total{device="nvme0n1"}': 2 * 512.0,
                'node_disk_written_bytes_total{device="nvme0n1"}': 4 * 512.0,
                'node_disk_io_time_seconds_total{device="nvme0n1"}': 0.5,
            },
        ),
        (kernel.disks, "", {}),
        (
            lambda text: kernel.network(text, {"lo", "eth0"}),
            NETWORK,
            {
                'node_network_receive_bytes_total{device="eth0"}': 100.0,
                'node_network_receive_packets_total{device="eth0"}': 10.0,
                'node_network_receive_errs_total{device="eth0"}': 1.0,
                'node_network_receive_drop_total{device="eth0"}': 2.0,
                'node_network_transmit_bytes_total{device="eth0"}': 50.0,
                'node_network_transmit_packets_total{device="eth0"}': 5.0,
                'node_network_transmit_errs_total{device="eth0"}': 3.0,
                'node_network_transmit_drop_total{device="eth0"}': 4.0,
            },
        ),
        (lambda text: kernel.network(text, ["x"]), "only\nheads\n", {}),
        (
            lambda text: kernel.pressure("io", text),
            SOME,
            {"node_pressure_io_waiting_seconds_total": 2.5, "node_pressure_io_stalled_seconds_total": 1.0},
        ),
        (lambda text: kernel.pressure("cpu", text), SOME, {"node_pressure_cpu_waiting_seconds_total": 2.5}),
        (lambda text: kernel.pressure("io", text), "some avg10=0\n\n", {}),
        (lambda text: kernel.temperature(text.split()), "41000 55500 -1 x 999999", {"node_hwmon_temp_celsius": 55.5}),
        (lambda text: kernel.temperature(text.split()), "x", {}),
    ],
)
def test_a_text_of_the_kernel(parse: object, text: str, samples: Samples) -> None:
    assert dict(parse(text)) == samples  # type: ignore[operator]


def test_every_text_of_this_kernel_is_understood() -> None:
    for each in kernel.FILES:
        try:
            with open(each.path, encoding="utf-8") as file:
                samples = each.parse(file.read())
        except OSError:
            assert each.is_optional, each.path
            continue
        assert samples or each.is_optional, each.path


DISK = "1 0 {name} 1 0 8 1 1 0 8 1 0 1000 1\n"
IDLE_DISK = "1 0 {name} 0 0 0 0 0 0 0 0 0 0 0\n"


@over(
    ("names", "idle", "counted"),
    [
        (("sda", "sda1", "sdb2"), (), ["sda", "sdb2"]),
        (("mmcblk0", "mmcblk0p1", "mmcblk0boot0"), (), ["mmcblk0", "mmcblk0boot0"]),
        (("sda", "dm-0", "md127", "zd0", "bcache0", "drbd1", "zram0"), (), ["sda"]),
        (("nvme0n1", "nvme0c0n1", "nvme0c1n1"), (), ["nvme0n1"]),
        (("nvme0c0n1", "nvme0c1n1"), ("nvme0n1",), ["nvme0c0n1", "nvme0c1n1", "nvme0n1"]),
    ],
)
def test_no_bytes_of_a_disk_are_counted_twice(
    names: tuple[str, ...], idle: tuple[str, ...], counted: list[str]
) -> None:
    text = "".join([*(DISK.format(name=each) for each in names), *(IDLE_DISK.format(name=each) for each in idle)])
    found = [name for name in kernel.disks(text) if name.startswith("node_disk_read_bytes")]
    assert found == [f'node_disk_read_bytes_total{{device="{each}"}}' for each in counted]


# -- sums over devices --------------------------------------------------------------------------------------

BYTES = "node_network_receive_bytes_total"


def test_devices_that_come_and_go_make_no_rate() -> None:
    growth = Growth()

    def summed(**devices: float) -> float:
        return growth.of({f'{BYTES}{{device="{each}"}}': value for each, value in devices.items()})[BYTES]

    assert summed(eth0=1000.0, veth1=9e11) == 0.0
    assert summed(eth0=1100.0) == 100.0, "one that goes takes nothing away"
    assert summed(eth0=1200.0, veth2=9e11) == 200.0, "one that comes brings nothing"
    assert summed(eth0=1200.0, veth2=9e11 + 5) == 205.0
    assert summed(eth0=100.0, veth2=9e11 + 6) == 206.0, "a counter with 32 bits was full"
    assert summed(eth0=150.0, veth2=9e11 + 6) == 256.0


def test_a_counter_of_the_kernel_that_steps_back_has_no_rate_of_all_its_years() -> None:
    idle, growth = 'node_cpu_seconds_total{mode="idle"}', Growth()
    found = [growth.of({idle: value, "node_load1": 0.5}) for value in (900_000.0, 899_999.99, 900_001.0)]
    assert [round(each[idle], 2) for each in found] == [0.0, 0.0, 1.01]
    assert found[0]["node_load1"] == 0.5


# -- counters -----------------------------------------------------------------------------------------------


def rates(before: float, after: float, apart_s: float = 10.0) -> dict[str, float]:
    _, kept = rated({"x_total": before}, None, 100.0)
    return dict(rated({"x_total": after}, kept, 100.0 + apart_s)[0])


def test_a_counter_is_told_as_its_rate() -> None:
    assert rates(100.0, 150.0) == {"x_per_second": 5.0}
    assert rates(100.0, 100.0) == {"x_per_second": 0.0}
    assert rates(100.0, 30.0) == {"x_per_second": 3.0}, "it has begun anew at 0"
    assert rates(100.0, -30.0) == {"x_per_second": 0.0}
    assert name_of_rate('x_total{a="b"}') == 'x_per_second{a="b"}'
    assert name_of_rate("x_total_count") == "x_total_count"


def test_the_first_sample_of_a_counter_has_no_rate() -> None:
    found, kept = rated({"x_total": 1.0, "y": 2.0}, None, 5.0)
    assert found == {"y": 2.0}
    assert kept == Counters(5.0, {"x_total": 1.0})
    assert rated({"x_total": 2.0, "z_total": 9.0}, kept, 6.0)[0] == {"x_per_second": 1.0}


def test_two_samples_at_once_give_no_rate() -> None:
    _, kept = rated({"x_total": 1.0}, None, 5.0)
    found, again = rated({"x_total": 9.0}, kept, 5.05)
    assert found == {}
    assert again == kept, "the next rate is over the whole time"


def test_no_rate_is_taken_over_a_long_time() -> None:
    assert rates(0.0, 600.0, apart_s=60.0) == {"x_per_second": 10.0}
    assert rates(0.0, 600.0, apart_s=61.0) == {}


@pytest.mark.parametrize("value", [nan, inf, -inf, 1.1e18, -1.7e308])
def test_what_nobody_can_add_up_is_left_out(value: float) -> None:
    found, kept = rated({"y": value, "x_total": value}, Counters(0.0, {"x_total": 1.0}), 10.0)
    assert (found, kept) == ({}, Counters(10.0, {}))


# -- what is carried ----------------------------------------------------------------------------------------


def test_patterns() -> None:
    assert fits('a{b="[1]"}', 'a{b="[1]"}')
    assert fits("node_load1", "node_load*")
    assert not fits("node_load1", "load1")
    assert not fits("node_load1", "node_load?")
    assert not fits("a" * 60, "*a" * 30 + "b"), "and the answer comes at once"


def test_a_family_is_wanted_for_its_samples_and_rates() -> None:
    wanted = Wanted(['a{b="c"}', "x_per_second*"])
    assert [each for each in ("a", "a_total", "x_total", "x", "y") if wanted.has_family(each)] == [
        "a",
        "x_total",
        "x",
    ]


def test_the_usual_patterns_take_file_systems_of_a_node_and_not_of_its_exporter() -> None:
    wanted = Wanted(USUAL)
    assert wanted.place('node_filesystem_avail_bytes{mountpoint="/"}') is not None
    assert wanted.place('node_filesystem_avail_bytes{device="/dev/vda1",fstype="ext4",mountpoint="/"}') is None


def test_a_name_without_room_in_a_report_is_not_carried() -> None:
    names = ["x" * NAME_CHARS_MAX, "x" * (NAME_CHARS_MAX + 1)]
    assert chosen(dict.fromkeys(names, 1.0), ["x*"]) == ({names[0]: 1.0}, 1)


def test_equal_nodes_carry_the_same_and_say_what_has_no_room() -> None:
    samples = {f"m{number:03}": float(number) for number in range(CARRIED_MAX + 5)}
    kept, left_out = chosen(dict(reversed(samples.items())), ["m044", "m*", "other"])
    assert list(kept) == ["m044", *list(samples)[: CARRIED_MAX - 1]]
    assert left_out == 5
