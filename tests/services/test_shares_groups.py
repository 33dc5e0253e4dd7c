"""Groups that an actuator leaves alone: by their names, or because there are too many."""

from __future__ import annotations

import os

import pytest
from fake_cgroups import FakeNode

from subord.services.shares.actuators import saved
from subord.services.shares.actuators.faults import ActuatorError
from tests.services.test_shares_actuator import BEFORE, GROUPS, TICKETS, node, scaled

__all__ = ["node"]


@pytest.mark.parametrize("name", [b"web-\xff", b"web-\x1b[2J", b"web-\n"])
def test_a_group_whose_name_cannot_be_printed_is_none(node: FakeNode, name: bytes) -> None:
    """Its name could not be written to the disk, nor told in a note."""
    path = os.fsdecode(b"/apps/" + name)
    node.group(path, 700)
    actuator = node.actuator()
    assert actuator.apply(TICKETS) == ()
    assert node.weights(path, *GROUPS) == [700, *scaled(node, 60, 30, 10)]
    actuator.restore()
    assert node.weights(path, *GROUPS) == [700, *BEFORE]


def test_weights_that_could_not_be_read_again_are_not_set(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "FILE_BYTES_MAX", 200)
    with pytest.raises(
        ActuatorError, match=r"cannot be kept in .*: they are of too many groups; nothing was changed"
    ):
        node.actuator().apply(TICKETS)
    assert node.weights(*GROUPS) == BEFORE
