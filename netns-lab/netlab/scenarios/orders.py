"""The orders of a scenario: each is a request to a real daemon, as `subord ping` makes it, and its answer is judged.

Inputs are the steps `order` and `answered`; output is what was seen, or a Shortfall. Requests wait in threads, so
that the scenario goes on meanwhile. What an answer must say is one rule for the simulator and the lab
(`subord/sim/scenario/ordering.py`).
"""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from netlab.errors import LabError
from netlab.lab import Lab
from netlab.scenarios.assertions import Shortfall, Wait
from netlab.scenarios.node_state import NodeState, Positions
from netlab.scenarios.report import Answers
from netlab.topology.addresses import position_of
from subord.sim.scenario.ordering import Answered, Heard, Order, complaint

AT_ONCE_MAX = 512
GRACE_S = 10.0


class Given(NamedTuple):
    """An order under way."""

    issuer: int
    running: Positions  # when it was given
    answer: Future[dict[str, Any]]


class GivenOrders:
    """The orders of one scenario. Use it as a context; it ends with all requests."""

    def __init__(self, lab: Lab, state: NodeState, network: str) -> None:
        self._lab = lab
        self._state = state
        self._network = network
        self._given: list[Given] = []
        self._threads = ThreadPoolExecutor(AT_ONCE_MAX)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def give(self, step: Order, issuers: Collection[int]) -> None:
        """Ask each of these nodes that runs."""
        for issuer in issuers:
            if issuer in self._state.living:
                for _ in range(step.times):
                    answer = self._threads.submit(self._ask, issuer, step.left_s)
                    self._given.append(Given(issuer, frozenset(self._state.running), answer))

    def _ask(self, issuer: int, left_s: float) -> dict[str, Any]:
        """What a node answers; `took_s`: the time of the whole request. Raises LabError."""
        began = time.monotonic()
        found = self._lab.document(issuer, f"/v1/ping?budget={left_s:g}", left_s + GRACE_S)
        return {**found, "took_s": time.monotonic() - began}

    def judge(self, step: Answered, allowed: Collection[int], wait: Wait) -> Answers:
        """Wait for all answers. Raises Shortfall."""
        given, self._given = self._given, []
        wait(time.monotonic() + step.within_s + GRACE_S, lambda: all(each.answer.done() for each in given))
        took_s, causes = [0.0], dict[str, int]()
        for each in given:
            heard = self._heard(each)
            if heard is None:
                continue
            running = each.running & self._state.running
            wrong = complaint(step, heard, running, frozenset(allowed))
            if wrong is not None:
                raise Shortfall(wrong)
            took_s.append(heard.took_s)
            for cause in heard.missing.values():
                causes[cause] = causes.get(cause, 0) + 1
        void = len(given) - len(took_s) + 1
        return Answers(orders=len(took_s) - 1, took_s_max=max(took_s), void=void, missing=causes)

    def _heard(self, given: Given) -> Heard | None:
        """The answer to one order; None: the node that gave it has ended. Raises Shortfall."""
        is_running = given.issuer in self._state.running
        if not given.answer.done():
            if not is_running:
                return None
            raise Shortfall(f"{given.issuer} has no answer yet")
        try:
            found = given.answer.result()
        except LabError as reason:
            if is_running and given.issuer in given.running:
                raise Shortfall(f"an order has no answer: {reason}") from None
            return None
        missing = {
            position_of(address, self._network): str(each["cause"])
            for each in found["missing"]
            for address in each["addresses"]
        }
        told = given.running - missing.keys()
        if found["told"] + sum(each["count"] for each in found["missing"]) != found["asked"]:
            raise Shortfall(f"the answer to {given.issuer} does not add up: {found}")
        if found["told"] < len(told & self._state.running):
            raise Shortfall(
                f"{given.issuer} was told by {found['told']} nodes, and {len(told)} are neither told nor missing"
            )
        return Heard(given.issuer, float(found["took_s"]), told, missing)
