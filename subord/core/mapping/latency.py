"""The mapping `latency`: rank is position, and a guest prefers a near leader (docs/protocol.md, section 7).

placement/latency.py measures and decides. A look costs a dozen probes, so looks are rarer than with other mappings.
"""

from __future__ import annotations

from subord.core.mapping.depth_rule import is_too_deep
from subord.core.mapping.mapping import Guest, Mapping, Move
from subord.core.messages import Advice
from subord.core.settings import Timing

REST_FACTOR = 8


class ByLatency(Mapping):
    measures_round_trips = True

    def choose(self, guest: Guest, advice: Advice) -> Move | None:
        guest.look_for_nearer(advice)
        return None

    def looks_soon(self, guest: Guest, advice: Advice) -> bool:
        return not guest.is_leader_near and super().looks_soon(guest, advice)

    def stands_well(self, guest: Guest, advice: Advice) -> bool:
        return guest.is_leader_near and not is_too_deep(advice, guest.level)

    def first_rest_s(self, guest: Guest, timing: Timing) -> float:
        """Longer below a near leader, because a look seldom finds a better one."""
        return super().first_rest_s(guest, timing) * (REST_FACTOR if guest.is_leader_near else 1)

    def rest_s_max(self, timing: Timing) -> float:
        return super().rest_s_max(timing) * REST_FACTOR
