"""The documents of one node: its state with addresses instead of positions.

Pure functions of the node's snapshots; the command line, other nodes, the lab and the tests read the same documents.
Ages are seconds before the moment of asking.
"""

from __future__ import annotations

import time

from subord import __version__
from subord.api.models.fields import (
    CandidateDocument,
    CountersDocument,
    EdgeDocument,
    PlaceName,
    RefusalDocument,
    RosterDocument,
    RowDocument,
    SealDocument,
    SettingsDocument,
    StatusDocument,
    WhyDocument,
)
from subord.api.models.ranking import ranking
from subord.api.node_api import NodeApi
from subord.core.settings import Settings
from subord.core.view import Edge, Place, Position, Refusal, RosterView, Snapshot, Why
from subord.runtime.counters import Counters


def settings(shared: Settings) -> SettingsDocument:
    return SettingsDocument(
        network=shared.network.text,
        positions=shared.network.size,
        fanout=shared.fanout,
        guest_slots=shared.guest_slots,
        mapping=shared.mapping,
        numbering=shared.numbering_name,
        timing=shared.timing_name,
        leader_silence_s=shared.timing.leader_silence_s,
    )


def status(node: NodeApi) -> StatusDocument:
    """What `subord status` prints."""
    view, shared = node.snapshot(), node.settings
    return StatusDocument(
        version=__version__,
        address=node.address,
        port=node.port,
        position=view.position,
        level=view.level,
        offset=view.offset,
        incarnation=view.incarnation,
        up_s=_up_s(node),
        phase=view.phase,
        place=_place_name(view.place),
        leader=_address(shared, view.leader),
        since_s=view.since_s,
        home=_address(shared, view.home),
        root=_address(shared, view.root),
        real_level=len(view.path),
        path=_addresses(shared, view.path),
        alternates=_addresses(shared, view.alternates),
        adrift=view.adrift,
        subordinates=tuple(_edge(shared, edge) for edge in view.subordinates),
        subtree_nodes=view.subtree_nodes,
        subtree_not_home=view.subtree_not_home,
        leader_changes=view.leader_changes,
        exchanges=view.exchanges,
        seal=seal(node),
        refusals=tuple(_refusal(refusal) for refusal in view.refusals),
        settings=settings(shared),
        ranking=ranking(shared, view.ranking, view.leader),
    )


def seal(node: NodeApi) -> SealDocument | None:
    """None: nothing is sealed."""
    if node.keeping is None:
        return None
    primary, keys, revision = node.keeping.ring
    others = sorted(key.name for key in keys.values() if key != primary)
    return SealDocument(revision=revision, keys=(primary.name, *others), saved=node.keeping.is_saved)


def why(shared: Settings, view: Why) -> WhyDocument:
    """What `subord why` prints."""
    answers = {asked.position: asked for asked in reversed(view.asked)}

    def candidate(position: Position) -> CandidateDocument:
        level, offset = shared.numbering.level_and_offset(position)
        asked = answers.get(position)
        return CandidateDocument(
            address=shared.network.address_text_of(position),
            position=position,
            level=level,
            offset=offset,
            answer=asked.answer if asked else None,
            ago_s=asked.ago_s if asked else None,
        )

    others = dict.fromkeys(asked.position for asked in view.asked if asked.position not in view.ranked)
    return WhyDocument(
        address=shared.network.address_text_of(view.position),
        position=view.position,
        place=_place_name(view.place),
        leader=_address(shared, view.leader),
        reason=view.reason,
        candidates=tuple(map(candidate, view.ranked)),
        others=tuple(map(candidate, others)),
        ranking=ranking(shared, view.ranking, view.leader),
    )


def roster(shared: Settings, view: RosterView) -> RosterDocument:
    """The subtree of one node, from which `tree` draws."""
    places = shared.numbering
    rows = []
    for row in view.rows:
        level, offset = places.level_and_offset(row.position)
        rows.append(
            RowDocument(
                address=shared.network.address_text_of(row.position),
                position=row.position,
                level=level,
                offset=offset,
                leader=_address(shared, row.leader),
                place=row.place.value,
                incarnation=row.incarnation,
                since_s=row.since_s,
                standing=row.standing.value,
                performance=_three_digits(row.performance),
                round_trip_s=_three_digits(row.round_trip_s),
            )
        )
    return RosterDocument(
        owner=shared.network.address_text_of(view.owner),
        is_root=view.is_root,
        root=_address(shared, view.root),
        leader=_address(shared, view.leader),
        quiet_s=view.quiet_s,
        rows=tuple(rows),
        unlisted=_addresses(shared, view.unlisted),
    )


def counters(node: NodeApi) -> CountersDocument:
    """What the daemon counts, for the lab and for `/v1/counters`."""
    counted: Counters = node.counters
    view: Snapshot = node.snapshot()
    return CountersDocument(
        up_s=_up_s(node),
        exchanges=view.exchanges,
        leader_changes=view.leader_changes,
        messages_sent=counted.messages_sent.total(),
        messages_received=counted.messages_received.total(),
        bytes_sent=counted.bytes_sent.total(),
        bytes_received=counted.bytes_received.total(),
        dropped=counted.dropped.total(),
        send_errors=counted.send_errors.total(),
        messages_sent_by_type=dict(counted.messages_sent),
        messages_received_by_type=dict(counted.messages_received),
        dropped_by_reason=dict(counted.dropped),
        send_errors_by_errno=dict(counted.send_errors),
        jobs_done=counted.jobs_done,
        jobs_per_hour=node.performance.jobs_per_hour,
    )


def path(node: NodeApi) -> tuple[str, ...]:
    """The addresses from the root down to the leader of this node."""
    return _addresses(node.settings, node.snapshot().path)


def _three_digits(quantity: float | None) -> float | None:
    """More digits of the middle of a class would be noise."""
    return None if quantity is None else float(f"{quantity:.3g}")


def _up_s(node: NodeApi) -> float:
    return time.monotonic() - node.started_mono


def _address(shared: Settings, position: Position | None) -> str | None:
    return None if position is None else shared.network.address_text_of(position)


def _addresses(shared: Settings, positions: tuple[Position, ...]) -> tuple[str, ...]:
    return tuple(map(shared.network.address_text_of, positions))


def _place_name(place: Place | None) -> PlaceName | None:
    return None if place is None else place.value


def _edge(shared: Settings, edge: Edge) -> EdgeDocument:
    return EdgeDocument(
        address=shared.network.address_text_of(edge.position),
        position=edge.position,
        place=edge.place.value,
        incarnation=edge.incarnation,
        since_s=edge.since_s,
        heard_s=edge.heard_s,
        below=edge.below,
        silent=edge.silent,
    )


def _refusal(refusal: Refusal) -> RefusalDocument:
    return RefusalDocument(
        address=refusal.address,
        by=refusal.by,
        reason=refusal.reason,
        ago_s=refusal.ago_s,
        times=refusal.times,
    )
