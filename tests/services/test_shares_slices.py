"""Slices of systemd, with a program in the place of systemctl that keeps properties in files."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_cgroups import FakeNode
from loops import over

from subord.services.shares.actuators import slices
from subord.services.shares.actuators.faults import ActuatorError
from subord.services.shares.actuators.putting_back import recover

CLASSES = ("web=web.slice", "batch=batch-*.slice", "rest=*.slice")
TICKETS = {"web": 60, "batch": 30, "rest": 10}
SYSTEMCTL = """#!/bin/sh
top="$(dirname "$0")"
echo "$@" >> "$top/calls"
[ -e "$top/hangs" ] && sleep 60
case "$1" in
show) [ "$2 $3 $4" = "--property=CPUWeight --value --" ] || exit 9
  cat "$top/$5" 2>/dev/null || echo "[not set]";;
set-property) [ "$2 $3" = "--runtime --" ] || exit 9
  [ -e "$top/refuse-$4" ] && { echo "Failed to set unit properties on $4: Access denied" >&2; exit 4; }
  value="${5#CPUWeight=}"
  if [ -n "$value" ]; then echo "$value" > "$top/$4"; else rm -f "$top/$4"; fi
  [ -e "$top/late-$4" ] && { echo "Connection timed out" >&2; exit 1; }
  [ -e "$top/once-$4" ] && { mv "$top/once-$4" "$top/refuse-$4"; exit 1; } || true;;
*) exit 9;;
esac
"""


class Systemd:
    """The properties of slices as systemd has them."""

    def __init__(self, top: Path) -> None:
        top.mkdir()
        self.top = top
        self.program = str(top / "systemctl")
        Path(self.program).write_text(SYSTEMCTL)
        Path(self.program).chmod(0o755)

    def weight(self, name: str) -> str:
        path = self.top / name
        return path.read_text().strip() if path.exists() else ""

    def weights(self) -> list[str]:
        return [self.weight(name) for name in ("web.slice", "batch-1.slice", "user.slice")]

    def calls(self) -> list[str]:
        path = self.top / "calls"
        found = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return found


@pytest.fixture
def systemd(tmp_path: Path) -> Systemd:
    made = Systemd(tmp_path / "systemd")
    (made.top / "batch-1.slice").write_text("150\n")
    (made.top / "user.slice").write_text("18446744073709551615\n")
    return made


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    """With two slices beside each other."""
    made = FakeNode(tmp_path, 2)
    for path in ("/web.slice", "/user.slice"):
        made.group(path)
    return made


def test_slices_get_weights_and_get_back_what_they_had(node: FakeNode, systemd: Systemd) -> None:
    actuator = node.actuator("web=web.slice", "rest=*.slice", systemctl=systemd.program)
    assert actuator.apply({"web": 60, "rest": 40}) == ()
    assert systemd.weights() == ["600", "150", "400"]
    assert systemd.calls() == [
        "show --property=CPUWeight --value -- web.slice",
        "show --property=CPUWeight --value -- user.slice",
        "set-property --runtime -- web.slice CPUWeight=600",
        "set-property --runtime -- user.slice CPUWeight=400",
    ]
    actuator.apply({"web": 60, "rest": 40})
    assert systemd.calls() == [], "nothing has changed"
    node.remove("/user.slice")  # as systemd does when nothing runs in it
    assert actuator.restore() == ()
    assert systemd.weight("web.slice") == ""
    assert systemd.weight("user.slice") == ""


def test_a_crashed_agent_of_slices(node: FakeNode, systemd: Systemd) -> None:
    (systemd.top / "web.slice").write_text("70\n")
    node.actuator("web=web.slice", "rest=*.slice", systemctl=systemd.program).apply({"web": 60, "rest": 40})
    assert recover(str(node.state), str(node.root), systemd.program) == ()
    assert [systemd.weight("web.slice"), systemd.weight("user.slice")] == ["70", ""]


def test_slices_below_different_ones_are_refused(node: FakeNode, systemd: Systemd) -> None:
    node.group("/batch.slice/batch-1.slice")
    with pytest.raises(
        ActuatorError, match=r"/web.slice of class web and /batch.slice/batch-1.slice of class batch do"
    ):
        node.actuator(*CLASSES, systemctl=systemd.program).apply(TICKETS)
    assert systemd.calls() == []


@over("refused", ["web", "user"])
def test_when_systemd_refuses_one_slice_all_have_what_they_had(
    refused: str, tmp_path_factory: pytest.TempPathFactory, node: FakeNode
) -> None:
    systemd = Systemd(tmp_path_factory.mktemp("systemd") / "here")
    (systemd.top / "web.slice").write_text("70\n")
    (systemd.top / f"refuse-{refused}.slice").touch()
    actuator = node.actuator("web=web.slice", "rest=*.slice", systemctl=systemd.program)
    with pytest.raises(ActuatorError) as failed:
        actuator.apply({"web": 60, "rest": 40})
    words = f"systemctl set-property ended with 4: Failed to set unit properties on {refused}.slice: Access denied"
    assert str(failed.value).endswith(f"cannot be set: {words}; the weights of all classes are as before")
    assert [systemd.weight("web.slice"), systemd.weight("user.slice")] == ["70", ""]
    (systemd.top / f"refuse-{refused}.slice").unlink()
    actuator.restore()


def test_a_value_that_systemd_takes_though_systemctl_fails_is_put_back(node: FakeNode, systemd: Systemd) -> None:
    (systemd.top / "late-user.slice").touch()
    actuator = node.actuator("web=web.slice", "rest=*.slice", systemctl=systemd.program)
    with pytest.raises(ActuatorError, match="Connection timed out; the weights of all classes are as before"):
        actuator.apply({"web": 60, "rest": 40})
    assert systemd.weights() == ["", "150", ""]


def test_a_value_that_systemd_takes_and_does_not_give_back_is_named(node: FakeNode, systemd: Systemd) -> None:
    (systemd.top / "once-user.slice").touch()
    actuator = node.actuator("web=web.slice", "rest=*.slice", systemctl=systemd.program)
    with pytest.raises(
        ActuatorError, match=r"; /user.slice could not be put back: the next start of the agent tries"
    ):
        actuator.apply({"web": 60, "rest": 40})
    assert systemd.weights() == ["", "150", "400"]
    (systemd.top / "refuse-user.slice").unlink()
    assert recover(str(node.state), str(node.root), systemd.program) == ()
    assert systemd.weights() == ["", "150", ""]


def test_a_systemd_that_does_not_answer(node: FakeNode, systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "RUN_S_MAX", 0.2)
    (systemd.top / "hangs").touch()
    actuator = node.actuator("web=web.slice", "rest=*.slice", systemctl=systemd.program)
    with pytest.raises(
        ActuatorError, match=r"read: systemctl show did not end within 0\.2 s, and was killed; nothing"
    ):
        actuator.apply({"web": 60, "rest": 40})


def test_a_machine_without_systemctl(node: FakeNode) -> None:
    actuator = node.actuator("web=web.slice", "rest=*.slice", systemctl="/no/such/systemctl")
    with pytest.raises(ActuatorError, match="systemctl show cannot be run: No such file or directory; nothing was"):
        actuator.apply({"web": 60, "rest": 40})
