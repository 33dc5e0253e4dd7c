"""What a node measures, as a document: its performance, the nearest nodes and the leader, and the resulting rank.

With the mapping `ip` nothing is measured, and there is no such document.
"""

from __future__ import annotations

from subord.api.models.fields import NearDocument, RankingDocument
from subord.core.quantize import quantity_of
from subord.core.settings import Settings
from subord.core.view import Near, Position, Ranking

NEAR_SHOWN = 10  # and the leader


def ranking(shared: Settings, view: Ranking, leader: Position | None) -> RankingDocument | None:
    """None: the mapping measures nothing."""
    if not measures(view):
        return None
    return RankingDocument(
        mapping=view.mapping,
        performance=view.performance,
        performance_class=view.performance_class,
        standing=quantity_of(view.standing_class),
        standing_class=view.standing_class,
        wanted_level=view.wanted_level,
        level=view.level,
        leader_round_trip_s=leader_round_trip_s(view, leader),
        near=tuple(_near(shared, each) for index, each in enumerate(view.near) if _is_shown(index, each, leader)),
        moves=view.moves,
        moves_held=view.moves_held,
    )


def measures(view: Ranking) -> bool:
    return view.mapping != "ip"


def leader_round_trip_s(view: Ranking, leader: Position | None) -> float | None:
    """In seconds. None: no leader, or not measured yet."""
    return next((each.round_trip_s for each in view.near if each.position == leader), None)


def _is_shown(index: int, each: Near, leader: Position | None) -> bool:
    return index < NEAR_SHOWN or each.position == leader


def _near(shared: Settings, each: Near) -> NearDocument:
    return NearDocument(
        address=shared.network.address_text_of(each.position),
        position=each.position,
        round_trip_s=each.round_trip_s,
        performance=each.performance,
        ago_s=each.ago_s,
    )
