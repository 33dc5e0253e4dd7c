"""What the rounds of the queue's node took, as it tells them of itself.

Input is the state that its daemon shows, looked at all the time; output is one line for each round. Between two looks
a round may be missed; its messages and actions are then those of the next line, which says how many rounds it stands
for.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import Any, Final, NamedTuple

from netlab.common.results import Record

DONE: Final = ("opened", "closed", "started", "cloned", "stopped", "deleted")
"""Kinds of actions that a process counts since its begin. A move is a start, too."""


class Round(NamedTuple):
    """`rounds`: of which this is the sum. `actions`: that were decided. `life`: of the process that decided."""

    at: str
    life: int
    number: int
    rounds: int
    actions: int
    messages: int
    message_bytes: int
    decide_s: float
    ask_s: float
    order_s: float
    waiting: int
    hindrance: str


class Rounds:
    """`look` takes the document of the daemon of the queue's node."""

    def __init__(self) -> None:
        self.all: list[Round] = []
        self._before: dict[str, Any] | None = None

    def look(self, state: dict[str, Any]) -> None:
        """A state that does not come from the queue's node, or that was seen, is left."""
        before = self._before
        if not state.get("life") or (before and _key(before) == _key(state)):
            return
        self._before = state
        if before is None or before["life"] != state["life"]:
            return  # what the first round of a process was is not told
        had, has = before["totals"], state["totals"]
        self.all.append(
            Round(
                at=state["seen"],
                life=state["life"],
                number=state["round"],
                rounds=state["round"] - before["round"],
                actions=sum(has[each] - had[each] for each in DONE),
                messages=has["messages"] - had["messages"],
                message_bytes=has["message_bytes"] - had["message_bytes"],
                decide_s=state["decide_s"],
                ask_s=state["ask_s"],
                order_s=state["order_s"],
                waiting=state["waiting"],
                hindrance=state["hindrance"],
            )
        )


def summary(rounds: list[Round]) -> Record:
    """Of rounds that have decided; and of those with no action."""
    told = [each for each in rounds if not each.hindrance and each.rounds > 0]
    if not told:
        return {"rounds": 0}
    quiet = [each for each in told if not each.actions]
    found: Record = {
        "rounds": sum(each.rounds for each in told),
        "actions": sum(each.actions for each in told),
        "actions_max": max(each.actions for each in told),
        "decide_ms": round(1e3 * median(each.decide_s for each in told), 1),
        "decide_ms_max": round(1e3 * max(each.decide_s for each in told), 1),
        "ask_ms": round(1e3 * median(each.ask_s for each in told)),
        "ask_ms_max": round(1e3 * max(each.ask_s for each in told)),
        "order_ms_max": round(1e3 * max(each.order_s for each in told)),
        "round_messages": round(fmean(each.messages / each.rounds for each in told), 1),
        "round_bytes": round(fmean(each.message_bytes / each.rounds for each in told)),
    }
    if quiet:
        found["quiet_messages"] = round(fmean(each.messages / each.rounds for each in quiet), 1)
        found["quiet_bytes"] = round(fmean(each.message_bytes / each.rounds for each in quiet))
    return found


def _key(state: dict[str, Any]) -> tuple[Any, ...]:
    return state["life"], state["round"]
