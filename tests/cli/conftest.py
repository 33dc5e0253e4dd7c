"""The commands see no names and no groups of the machine that runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_operators import sign

from subord.client import naming
from subord.client.node_sets import choice
from subord.client.orders import signing
from subord.config.resolve import ResolveError
from tests.api.fake_node_api import FakeTracker
from tests.api.tree_nodes import AT_MS


@pytest.fixture(autouse=True)
def _of_a_fake_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands sign as `ann`, an operator of the fake nodes."""
    monkeypatch.setattr(signing, "sign", lambda content, namespace, _: sign(content, namespace))


@pytest.fixture
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks of all nodes stand still."""
    monkeypatch.setattr(FakeTracker, "wall_ms", AT_MS + 1_000_500)


@pytest.fixture(autouse=True)
def _of_no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(*_: object) -> tuple[str, ...]:
        raise ResolveError("name or service not known", passing=False)

    monkeypatch.setattr(naming, "HOSTS_FILE", os.devnull)
    monkeypatch.setattr(choice, "addresses_of", unknown)
    monkeypatch.setenv(choice.FILE_VARIABLE, str(tmp_path / "no-groups"))
    monkeypatch.setenv(choice.FOLDER_VARIABLE, str(tmp_path / "no-clustershell"))
