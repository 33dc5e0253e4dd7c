"""The readings of a node from texts of the kernel, and counters as rates."""

from __future__ import annotations

from math import inf, nan

import pytest
from loops import over

from subord.services.metrics import kernel
from subord.services.metrics.kernel import Samples
from subord.services.metrics.rates import Counters, name_of_rate, rated
from subord.services.metrics.wanted import CARRIED_MAX, chosen, fits

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
                "node_disk_read_bytes_total": 202 * 512.0,
                "node_disk_written_bytes_total": 404 * 512.0,
                "node_disk_io_time_seconds_total": 2.0,
            },
        ),
        (kernel.disks, "", {}),
        (
            kernel.network,
            NETWORK,
            {
                "node_network_receive_bytes_total": 101.0,
                "node_network_receive_packets_total": 11.0,
                "node_network_receive_errs_total": 1.0,
                "node_network_receive_drop_total": 2.0,
                "node_network_transmit_bytes_total": 51.0,
                "node_network_transmit_packets_total": 6.0,
                "node_network_transmit_errs_total": 3.0,
                "node_network_transmit_drop_total": 4.0,
            },
        ),
        (kernel.network, "only\nheads\n", {}),
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


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_what_is_no_number_is_left_out(value: float) -> None:
    found, kept = rated({"y": value, "x_total": value}, Counters(0.0, {"x_total": 1.0}), 10.0)
    assert (found, kept) == ({}, Counters(10.0, {}))


# -- what is carried ----------------------------------------------------------------------------------------


def test_patterns() -> None:
    assert fits('a{b="[1]"}', 'a{b="[1]"}')
    assert fits("node_load1", "node_load*")
    assert not fits("node_load1", "load1")


def test_equal_nodes_carry_the_same_and_say_what_has_no_room() -> None:
    samples = {f"m{number:03}": float(number) for number in range(CARRIED_MAX + 5)}
    kept, left_out = chosen(dict(reversed(samples.items())), ["m044", "m*", "other"])
    assert list(kept) == ["m044", *list(samples)[: CARRIED_MAX - 1]]
    assert left_out == 5
