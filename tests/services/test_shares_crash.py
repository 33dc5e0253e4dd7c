"""An agent that is killed with shares in force: its next start puts back what was there, wherever it was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_cgroups import FakeNode

from subord.services.shares.actuators.putting_back import recover
from subord.services.shares.actuators.versions import Version

pytestmark = pytest.mark.filterwarnings("ignore:This process")  # of fork beside threads

TICKETS = {"web": 60, "batch": 30, "rest": 10}
GROUPS = ("/apps/web-1", "/apps/batch", "/apps/mail")
BEFORE = [201, 302, 403]


@pytest.fixture(params=[1, 2])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> FakeNode:
    made = FakeNode(tmp_path, request.param)
    for path, weight in zip(GROUPS, BEFORE, strict=True):
        made.group(path, weight)
    return made


def killed(work: Callable[[Callable[[], None]], object]) -> None:
    """Do this work in a child process, and kill it where the work calls its argument."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:

        def stop() -> None:
            os.write(writer, b"there")
            signal.pause()

        try:
            work(stop)
        finally:
            os._exit(1)
    os.close(writer)
    try:
        assert os.read(reader, 5) == b"there", "the work has ended before"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)


def stopping_at(node: FakeNode, change: int, stop: Callable[[], None]) -> None:
    """Apply tickets, and stop before this change of a weight, or at the end."""
    put, changes = Version.put, iter(range(9))

    def count(self: Version, group: str, identity: int, text: str) -> None:
        if next(changes) == change:
            stop()
        put(self, group, identity, text)

    Version.put = count  # type: ignore[method-assign] - the process ends here
    node.actuator().apply(TICKETS)
    stop()


@pytest.mark.parametrize("changes", [0, 1, 2, 3])
def test_a_killed_agent(changes: int, node: FakeNode) -> None:
    killed(lambda stop: stopping_at(node, changes, stop))
    assert sum(now != was for now, was in zip(node.weights(*GROUPS), BEFORE, strict=True)) == changes
    assert recover(str(node.state), str(node.root)) == ()
    assert node.weights(*GROUPS) == BEFORE
    assert os.listdir(node.state / "shares") == []
    assert recover(str(node.state), str(node.root)) == ()


def test_an_agent_that_is_killed_again_while_it_puts_back(node: FakeNode) -> None:
    killed(lambda stop: stopping_at(node, 3, stop))

    def again(stop: Callable[[], None]) -> None:
        put, changes = Version.put, iter(range(9))

        def count(self: Version, group: str, identity: int, text: str) -> None:
            if next(changes) == 1:
                stop()
            put(self, group, identity, text)

        Version.put = count  # type: ignore[method-assign] - the process ends here
        recover(str(node.state), str(node.root))

    killed(again)
    assert node.weights(*GROUPS) != BEFORE
    assert recover(str(node.state), str(node.root)) == ()
    assert node.weights(*GROUPS) == BEFORE


def test_an_agent_that_is_killed_before_the_values_are_on_disk(node: FakeNode) -> None:
    def work(stop: Callable[[], None]) -> None:
        os.fsync = lambda _: stop()
        node.actuator().apply(TICKETS)

    killed(work)
    assert node.weights(*GROUPS) == BEFORE, "nothing was changed before"
    assert os.listdir(node.state / "shares") == ["before.new"]
    actuator = node.actuator()
    assert actuator.notes == ()
    actuator.apply(TICKETS)
    actuator.restore()
    assert node.weights(*GROUPS) == BEFORE
    assert os.listdir(node.state / "shares") == []


def test_a_killed_agent_whose_groups_have_gone(node: FakeNode) -> None:
    killed(lambda stop: stopping_at(node, 3, stop))
    node.remove("/apps")
    assert sorted(recover(str(node.state), str(node.root))) == sorted(f"the group {path} is gone" for path in GROUPS)
    assert recover(str(node.state), str(node.root)) == ()
