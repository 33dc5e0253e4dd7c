"""Strangers in the namespaces of nodes, who babble beside the scenario (scenarios/bad_input.py says what).

Intuition: hecklers who are let in, watched, and led out at the end.
"""

from __future__ import annotations

from netlab.lab import Lab
from netlab.processes.node_command import Envoy
from netlab.scenarios.bad_input import READY, Speech


class Babblers:
    """Every process is started by `start` and has ended after `end`."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._envoys: list[Envoy] = []

    def start(self, position: int, speech: Speech) -> None:
        """Returns when the first word is about to be said. Raises LabError."""
        self._envoys.append(Envoy(self._lab, position, "babble", speech.to_json(), speech.for_s))
        self._envoys[-1].await_word(READY)

    def finish(self) -> int:
        """Wait until all have said everything; datagrams sent. Raises LabError when one could say nothing."""
        return sum(envoy.finish()["sent"] for envoy in self._envoys)

    def end(self) -> None:
        """Safe to repeat."""
        for envoy in self._envoys:
            envoy.end()
        self._envoys.clear()
