"""The documents of one node: its state with addresses instead of positions.

Pure functions of the node's snapshots; the command line, other nodes, the lab and the tests read the same documents.
Ages are seconds before the moment of asking.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from msgspec.structs import asdict

from subord import __version__
from subord.api.models.document import time_text
from subord.api.models.fields import (
    CandidateDocument,
    CountersDocument,
    EdgeDocument,
    IdentityDocument,
    NearDocument,
    RankingDocument,
    RefusalDocument,
    SealDocument,
    SettingsDocument,
    StatusDocument,
    WhyDocument,
)
from subord.api.models.members import RosterDocument, RowDocument
from subord.api.node_api import NodeApi
from subord.core.quantize import quantity_of
from subord.core.settings import Settings
from subord.core.view import Position, Ranking, RosterRow, RosterView, Why
from subord.sealing.openssh import fingerprint

NEAR_SHOWN = 10  # and the leader


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
        place=view.place,
        leader=address(shared, view.leader),
        since_s=view.since_s,
        home=address(shared, view.home),
        root=address(shared, view.root),
        real_level=len(view.path),
        path=addresses(shared, view.path),
        alternates=addresses(shared, view.alternates),
        adrift=view.adrift,
        subordinates=tuple(
            EdgeDocument(address=shared.network.address_text_of(edge.position), **asdict(edge))
            for edge in view.subordinates
        ),
        subtree_nodes=view.subtree_nodes,
        subtree_not_home=view.subtree_not_home,
        leader_changes=view.leader_changes,
        exchanges=view.exchanges,
        seal=seal(node),
        identity=identity(node),
        refusals=tuple(RefusalDocument(**asdict(refusal)) for refusal in view.refusals),
        settings=settings(shared),
        ranking=ranking(shared, view.ranking, view.leader),
        refused=view.refused,
    )


def seal(node: NodeApi) -> SealDocument | None:
    """None: nothing is sealed."""
    if node.key_ring is None:
        return None
    primary, keys, revision = node.key_ring.ring
    others = sorted(key.name for key in keys.values() if key != primary)
    return SealDocument(revision=revision, keys=(primary.name, *others), saved=node.key_ring.is_saved)


def identity(node: NodeApi) -> IdentityDocument | None:
    """None: this node has no identity."""
    ours = node.identity
    if not ours.fingerprint:
        return None
    until_s = ours.expires_at
    return IdentityDocument(
        fingerprint=ours.fingerprint,
        since=time_text(ours.since_s),
        certified=until_s is not None and time.time() < until_s,
        valid_until=None if until_s is None else time_text(until_s),
    )


def identity_of(node: NodeApi, address: str) -> str | None:
    """The fingerprint of the key that counts for an address; None: none is known."""
    position, pins = node.settings.network.position_of(address), node.tracker.membership.pins
    pinned = b"" if position is None or pins is None else pins.key_of(position)
    key = node.identity.signer.key if address == node.address else pinned or node.peers.key_of(address)
    return fingerprint(key) if key else None


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
        place=view.place,
        leader=address(shared, view.leader),
        reason=view.reason,
        candidates=tuple(map(candidate, view.ranked)),
        others=tuple(map(candidate, others)),
        ranking=ranking(shared, view.ranking, view.leader),
    )


def ranking(shared: Settings, view: Ranking, leader: Position | None) -> RankingDocument | None:
    """None: the mapping measures nothing."""
    if not measures(view):
        return None
    shown = (each for index, each in enumerate(view.near) if index < NEAR_SHOWN or each.position == leader)
    to_address = shared.network.address_text_of
    near = tuple(NearDocument(address=to_address(each.position), **asdict(each)) for each in shown)
    return RankingDocument(
        standing=quantity_of(view.standing_class),
        leader_round_trip_s=leader_round_trip_s(view, leader),
        **{**asdict(view), "near": near},
    )


def measures(view: Ranking) -> bool:
    return view.mapping != "ip"


def leader_round_trip_s(view: Ranking, leader: Position | None) -> float | None:
    """In seconds. None: no leader, or not measured yet."""
    return next((each.round_trip_s for each in view.near if each.position == leader), None)


def roster(shared: Settings, view: RosterView) -> RosterDocument:
    """The subtree of one node, from which `tree` draws."""
    return RosterDocument(
        owner=shared.network.address_text_of(view.owner),
        is_root=view.is_root,
        root=address(shared, view.root),
        leader=address(shared, view.leader),
        quiet_s=view.quiet_s,
        rows=tuple(_row(shared, row) for row in view.rows),
        unlisted=addresses(shared, view.unlisted),
        refused=view.refused,
    )


def _row(shared: Settings, row: RosterRow) -> RowDocument:
    level, offset = shared.numbering.level_and_offset(row.position)
    return RowDocument(
        address=shared.network.address_text_of(row.position),
        position=row.position,
        level=level,
        offset=offset,
        leader=address(shared, row.leader),
        place=row.place,
        incarnation=row.incarnation,
        since_s=row.since_s,
        standing=row.liveness.value,
        performance=_three_digits(row.performance),
        round_trip_s=_three_digits(row.round_trip_s),
    )


def counters(node: NodeApi) -> CountersDocument:
    """What the daemon counts, for the lab and for `/v1/counters`."""
    counted, view = node.counters, node.snapshot()
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
        orders_refused_by_reason=dict(counted.orders_refused),
        send_errors_by_errno=dict(counted.send_errors),
        jobs_done=counted.jobs_done,
        jobs_per_hour=node.performance.jobs_per_hour,
    )


def path(node: NodeApi) -> tuple[str, ...]:
    """The addresses from the root down to the leader of this node."""
    return addresses(node.settings, node.snapshot().path)


def address(shared: Settings, position: Position | None) -> str | None:
    """None: there is no such node, or it is not known."""
    return None if position is None else shared.network.address_text_of(position)


def addresses(shared: Settings, positions: Iterable[Position]) -> tuple[str, ...]:
    """Of those that are in the network; other nodes may name any position."""
    network = shared.network
    return tuple(network.address_text_of(each) for each in positions if 0 < each <= network.size)


def _three_digits(quantity: float | None) -> float | None:
    """More digits of the middle of a class would be noise."""
    return None if quantity is None else float(f"{quantity:.3g}")


def _up_s(node: NodeApi) -> float:
    return time.monotonic() - node.started_mono
