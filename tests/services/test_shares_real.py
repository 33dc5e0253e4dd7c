"""The actuator on this machine's own cgroups: three classes of busy loops divide a quarter of one processor.

pytest tests/services/test_shares_real.py -n 0 -rP    also prints the mean and the standard deviation of each class
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory

import pytest

from subord.config.schema import SharesConfig
from subord.services.shares.actuators.actuator import Actuator
from subord.services.shares.actuators.faults import ActuatorError, NoControllerError
from subord.services.shares.actuators.mounts import Places, mounts_of, places_of
from subord.services.shares.actuators.putting_back import recover
from subord.services.shares.actuators.tasks import Budget, runnable
from subord.services.shares.actuators.versions import Second

pytestmark = pytest.mark.slow

TICKETS = {"web": 60, "batch": 30, "rest": 10}
QUOTA_US, PERIOD_US = 125_000, 500_000
"""The kernel gives time in slices of some milliseconds, and forgets at the end of a quota what a group is still owed:
with 12.5 ms of 50 ms the class with 10 percent gets 4 to 6, with 50 ms of 200 ms 8."""
SETTLE_S, ROUND_S, ROUNDS = 0.3, 0.5, 5
POINTS = 5.0
NOBODY = 65534
LOOP = "read go; while :; do :; done"


class Groups:
    """A node of a quarter of one processor, with a group for each class."""

    def __init__(self, *tops: str) -> None:
        self.name = f"/subord-test-{os.getpid()}"
        self._tops = [Path(top + self.name) for top in tops]
        self._loops: list[subprocess.Popen[bytes]] = []

    def make(self) -> None:
        for top in self._tops:
            top.mkdir()
            for name in TICKETS:
                (top / name).mkdir()
        (self._tops[0] / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (self._tops[0] / "cpu.cfs_quota_us").write_text(str(QUOTA_US))

    def remove(self) -> None:
        for loop in self._loops:
            loop.kill()
            loop.communicate()
        for top in self._tops:
            for group in [*(top / name for name in TICKETS), top]:
                if group.exists():
                    group.rmdir()

    def load(self) -> None:
        """One busy loop for each class, all on the same processor: shares divide each processor by itself."""
        processor = min(os.sched_getaffinity(0))
        for name in TICKETS:
            loop = subprocess.Popen(["sh", "-c", LOOP], stdin=subprocess.PIPE)
            self._loops.append(loop)
            os.sched_setaffinity(loop.pid, {processor})
            for top in self._tops:
                (top / name / "cgroup.procs").write_text(str(loop.pid))
        for loop in self._loops:
            assert loop.stdin is not None
            loop.stdin.write(b"\n")
            loop.stdin.flush()

    def stop(self, name: str) -> None:
        """Stop its loop. One that waits for the quota takes the signal when it runs again."""
        loop = self._loops[list(TICKETS).index(name)]
        loop.send_signal(signal.SIGSTOP)
        while ") T " not in Path(f"/proc/{loop.pid}/stat").read_text(encoding="utf-8"):
            time.sleep(0.01)

    def shares(self) -> list[int]:
        return [int((self._tops[0] / name / "cpu.shares").read_text()) for name in TICKETS]

    def make_idle(self, name: str) -> bool:
        path = self._tops[0] / name / "cpu.idle"
        if path.exists():
            path.write_text("1")
        return path.exists()

    @property
    def config(self) -> SharesConfig:
        return SharesConfig(classes=tuple(f"{name}={self.name}/{name}" for name in TICKETS))


@pytest.fixture
def groups() -> Iterator[Groups]:
    try:
        places = places_of(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    except ActuatorError as error:
        pytest.skip(str(error))
    if places.version != 1:
        pytest.skip("no cgroup v1 with the controllers cpu and cpuacct here")
    made = Groups(*dict.fromkeys((places.cpu, places.usage)))
    try:
        try:
            made.make()
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        yield made
    finally:
        made.remove()


def test_three_classes_get_their_shares(groups: Groups, tmp_path: Path) -> None:
    actuator = Actuator(groups.config, str(tmp_path))
    groups.load()
    assert actuator.apply(TICKETS) == ()
    assert groups.shares() == [6000, 3000, 1000]
    time.sleep(SETTLE_S)
    actuator.read(time.monotonic())
    readings = []
    for _ in range(ROUNDS):
        time.sleep(ROUND_S)
        reading = actuator.read(time.monotonic())
        assert reading is not None
        assert reading.notes == ()
        readings.append(reading.loads)
    assert actuator.restore() == ()
    usages = {name: [loads[name].usage for loads in readings] for name in TICKETS}
    print({name: (round(fmean(each), 1), round(stdev(each), 1)) for name, each in usages.items()})
    total = sum(fmean(each) for each in usages.values())
    assert 0 < total <= 100 + 1e-9
    assert {name: 100 * fmean(each) / total for name, each in usages.items()} == pytest.approx(TICKETS, abs=POINTS)
    assert all(load.is_needy for loads in readings for load in loads.values()), "all have work left over"
    assert groups.shares() == [1024, 1024, 1024]
    groups.stop("rest")
    actuator.read(time.monotonic())
    time.sleep(0.1)
    reading = actuator.read(time.monotonic())
    assert reading is not None
    assert reading.loads["rest"] == (0.0, False), "a class without work has none left over"


def said_to(user: int, work: Callable[[], object]) -> str:
    """The error of this work for another user, in a child process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            work()
        except Exception as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.filterwarnings("ignore:This process")  # of fork beside threads
def test_another_user_than_root_is_told(groups: Groups) -> None:
    if os.geteuid():
        pytest.skip("only root can become another user")
    with TemporaryDirectory() as state:  # not below the directories of pytest, which are root's
        os.chown(state, NOBODY, NOBODY)
        said = said_to(NOBODY, lambda: Actuator(groups.config, state).apply(TICKETS))
    words = "no permission: the agent must run as root; the weights of all classes are as before"
    assert said == f"cpu.shares of {groups.name}/web of class web cannot be set: {words}"
    assert groups.shares() == [1024, 1024, 1024]


def test_a_group_that_the_kernel_keeps_idle_leaves_the_others_as_they_were(groups: Groups, tmp_path: Path) -> None:
    if not groups.make_idle("rest"):
        pytest.skip("this kernel has no cpu.idle")
    before = groups.shares()
    with pytest.raises(ActuatorError, match=r"an idle group has no weight; nothing was changed"):
        Actuator(groups.config, str(tmp_path)).apply(TICKETS)
    assert groups.shares() == before


def test_counters_of_the_second_version(tmp_path: Path) -> None:
    mounts = mounts_of(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    mount = next((mount for mount in mounts if mount.version == 2), None)
    if mount is None:
        pytest.skip("no cgroup v2 is mounted here")
    version, group = Second(Places(2, mount.place, mount.place, False)), f"/subord-test-{os.getpid()}"
    top = Path(mount.place + group)
    try:
        top.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        before, began_ns = version.counters(group), time.monotonic_ns()
        loop = subprocess.Popen(["sh", "-c", LOOP], stdin=subprocess.PIPE)
        (top / "cgroup.procs").write_text(str(loop.pid))
        assert loop.stdin is not None
        loop.stdin.write(b"\n")
        loop.stdin.flush()
        time.sleep(0.3)
        ready = runnable(str(top), version.tasks, "/proc", 1, Budget(9))
        loop.kill()
        loop.communicate()
        after, lasted_ns = version.counters(group), time.monotonic_ns() - began_ns
        assert ready == 1
        assert 0 < after.used_ns - before.used_ns <= lasted_ns
        if (top / "cpu.pressure").exists():
            assert after.waited_ns is not None
            assert 0 <= after.waited_ns <= lasted_ns
        if not (top / "cpu.weight").exists():
            with pytest.raises(
                NoControllerError, match=r"the group has no cpu.weight: write \+cpu to .*subtree_control"
            ):
                version.value(group, version.identity(group))
    finally:
        top.rmdir()


@pytest.mark.filterwarnings("ignore:This process")  # of fork beside threads
def test_what_a_killed_agent_left_is_put_back(groups: Groups, tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        try:
            Actuator(groups.config, str(tmp_path)).apply(TICKETS)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert groups.shares() == [6000, 3000, 1000]
    assert recover(str(tmp_path)) == ()
    assert groups.shares() == [1024, 1024, 1024]


def test_a_group_that_was_removed_is_gone_for_the_kernel_too(groups: Groups, tmp_path: Path) -> None:
    actuator = Actuator(groups.config, str(tmp_path))
    actuator.apply(TICKETS)
    groups.remove()
    assert actuator.restore() == tuple(f"the group {groups.name}/{name} is gone" for name in TICKETS)
    with pytest.raises(ActuatorError, match="none of the classes has a group on this node"):
        actuator.apply(TICKETS)


def test_a_group_that_was_made_anew_is_another_one_for_the_kernel_too(groups: Groups, tmp_path: Path) -> None:
    actuator = Actuator(groups.config, str(tmp_path))
    actuator.apply(TICKETS)
    groups.remove()
    groups.make()
    assert actuator.restore() == tuple(f"the group {groups.name}/{name} is gone" for name in TICKETS)
    assert groups.shares() == [1024, 1024, 1024]
