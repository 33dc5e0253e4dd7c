"""Two guests of two servers, by the service: jobs are submitted, and machines come, move and stop by themselves.

Real daemons and agents, a real Slurm, and emulated guests. Needs what test_machines_guests.py needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import libvirt_room
import pytest
import qemu_room
import server_room
from guests_service import ADDRESSES, Service

pytestmark = pytest.mark.long
JOB = """trap 'exit 0' USR1
scontrol update JobId=$SLURM_JOB_ID "Comment=$(hostname)/$(cat /etc/machine-id)/$(uname -r)"
while :; do sleep 1; done
"""
"""Says where it runs, and ends when it is told."""
WITHIN_S = 300.0


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The first server is faster, and has room for one machine; the other one has room for two."""
    qemu_room.need_qemu()
    with server_room.servers(qemu_room.unpacked_kernel(tmp_path_factory.mktemp("kernel"))) as servers:
        found = Service(servers, {"s1": {"cores": 1, "mhz": 3000}, "s2": {"cores": 2, "mhz": 2000}})
        try:
            found.start()
            yield found
        finally:
            found.stop()


def until(service: Service, condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}\n{facts(service)}"
        time.sleep(0.5)


def facts(service: Service) -> str:
    room = service.room
    return f"{service.do('machines', 'status')}\n{room.controller.states()}\n{room.said()}\n{service.logs()}"


def comments(service: Service, *jobs: str) -> list[str]:
    told = [service.room.controller.told(job) for job in jobs]
    return [each.get("Comment", "") for each in told if each["JobState"] == "RUNNING"]


def run(service: Service, *jobs: str) -> set[str]:
    """Where they run, all at the same time; then they end."""
    until(service, lambda: all(comments(service, *jobs)) and len(comments(service, *jobs)) == len(jobs), "all run")
    where = set(comments(service, *jobs))
    service.room.room.run("scancel", "--batch", "--signal=USR1", *jobs)
    ended = ["COMPLETED"] * len(jobs)
    until(
        service,
        lambda: [service.room.controller.told(job)["JobState"] for job in jobs] == ended,
        "all end by themselves",
    )
    return where


def ids(service: Service, server: str) -> dict[str, str]:
    """Of machines of a server, as its libvirt has them."""
    connection = libvirt_room.need_binding().open(service.room.daemons[server].uri)
    found = {each.name(): each.UUIDString().replace("-", "") for each in connection.listAllDomains()}
    connection.close()
    return {name: id_ for name, id_ in found.items() if name != server_room.TEMPLATE}


def said(service: Service, machines: dict[str, str]) -> set[str]:
    return {f"{name}/{id_}/{service.room.release}" for name, id_ in machines.items()}


def test_machines_come_and_go_with_the_jobs(service: Service) -> None:
    service.publish()
    jobs = [service.room.controller.submit(JOB) for _ in range(2)]
    where = run(service, *jobs)
    first, second = ids(service, "s1"), ids(service, "s2")
    assert (len(first), len(second)) == (1, 1), facts(service)
    assert where == said(service, first | second)
    (moved,) = first

    # The faster server is drained: its machine is stopped, and moves when both are wanted again.
    service.do("machines", "drain", ADDRESSES["s1"])
    until(service, lambda: service.machines()["s1"] == {moved: "off"}, "the idle machine is stopped")
    jobs = [service.room.controller.submit(JOB) for _ in range(2)]
    assert run(service, *jobs) == said(service, first | second)
    assert (ids(service, "s1"), ids(service, "s2")) == ({}, first | second), facts(service)
    service.publish("headroom = {cores = 3}")
    until(service, lambda: set(service.machines()["s2"].values()) == {"off"}, "idle machines are stopped")
