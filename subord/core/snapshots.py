"""The state of a node as plain values (view.py). Reading changes nothing."""

from __future__ import annotations

from itertools import islice

from subord.core.claims import Claim
from subord.core.edges.slots import Subordinate
from subord.core.edges.subordinates import LED_MAX
from subord.core.events import Neighbourhood, Notice, PlaceChanged, RosterChanged
from subord.core.messages import Change
from subord.core.node import Node
from subord.core.placement.latency import Reading
from subord.core.quantize import UNKNOWN, quantity_of
from subord.core.state.states import Phase
from subord.core.view import (
    PLACES,
    Edge,
    Liveness,
    Near,
    Position,
    Ranking,
    RosterRow,
    RosterView,
    Snapshot,
    Why,
)

RANKED_SHOWN = 10
DISPUTED_SHOWN = 64


def snapshot(node: Node, now: float) -> Snapshot:
    """The state of one node as one value."""
    context, leader = node.context, node.uplink.leader
    level, offset = context.settings.numbering.level_and_offset(context.position)
    seeking = node.phase in (Phase.SEEKING, Phase.ORPHAN)
    return Snapshot(
        position=context.position,
        level=level,
        offset=offset,
        incarnation=context.incarnation,
        phase=node.phase.value,
        place=None if seeking else node.place,
        leader=leader.position if leader else None,
        since_s=now - node.placed_at,
        home=context.mapping.home_of(context.position),
        root=root_of(node),
        path=node.uplink.path,
        alternates=leader.guidance.alternates if leader else (),
        adrift=node.uplink.is_orphaned,
        subordinates=tuple(_edge(node, each, now) for _, each in sorted(node.downlink.slots.taken.items())),
        subtree_nodes=node.roster.live,
        subtree_not_home=node.roster.not_home,
        leader_changes=node.leader_changes,
        exchanges=node.search.exchanges,
        refusals=node.refusals.shown(now),
        tables=table_sizes(node),
        ranking=ranking(node, now),
        unlisted=node.listing.unlisted(now),
        refused=_refused(node),
        disputed=_disputed(node, now),
        unbound=node.roster.unbound,
        rekeyed=tuple(node.context.identity.pins.conflicts[:DISPUTED_SHOWN]),
    )


def _refused(node: Node) -> str | None:
    return node.search.refusals if node.phase is Phase.ROOT else None


def _disputed(node: Node, now: float) -> tuple[Position, ...]:
    """Nodes that two subordinates claim for longer than a move takes: the old leader retracts within two silences."""
    since, rivals = now - 2 * node.context.timing.leader_silence_s, node.roster.rivals
    return tuple(islice((position for position, at in rivals.items() if at < since), DISPUTED_SHOWN))


def root_of(node: Node) -> Position | None:
    """The root of the tree, as far as the node knows."""
    if node.uplink.path:
        return node.uplink.path[0]
    return node.context.position if node.phase is Phase.ROOT else None


def _edge(node: Node, each: Subordinate, now: float) -> Edge:
    return Edge(
        position=each.position,
        place=each.place,
        incarnation=each.incarnation,
        since_s=now - each.since,
        heard_s=now - each.heard_at,
        below=node.roster.below(each.position),
        silent=_is_silent(node, each, now),
    )


def _is_silent(node: Node, each: Subordinate, now: float) -> bool:
    return now > each.due_at + 2 * node.context.timing.answer_s


def roster(node: Node, now: float) -> RosterView:
    """The whole subtree, the owner first."""
    silent = {p for p, each in node.downlink.slots.taken.items() if _is_silent(node, each, now)}
    rows = [
        _row(position, claim, _liveness(claim.change, via in silent, node.uplink.is_orphaned), now)
        for position, (via, claim) in sorted(node.roster.rows.items())
    ]
    rows.sort(key=lambda row: row.position != node.context.position)
    leader = node.uplink.leader
    return RosterView(
        owner=node.context.position,
        is_root=node.phase is Phase.ROOT,
        root=root_of(node),
        leader=leader.position if leader else None,
        quiet_s=now - node.roster.changed_at,
        rows=tuple(rows),
        unlisted=node.listing.unlisted(now),
        refused=_refused(node),
    )


def _liveness(change: Change, silent: bool, held: bool) -> Liveness:
    if change.missing:
        return Liveness.MISSING
    if silent:
        return Liveness.STALE
    return Liveness.HELD if held else Liveness.LIVE


def _row(position: Position, claim: Claim, liveness: Liveness, now: float) -> RosterRow:
    change = claim.change
    return RosterRow(
        position=position,
        leader=change.leader or None,
        place=PLACES[change.place],
        incarnation=change.incarnation,
        since_s=now - claim.since,
        liveness=liveness,
        performance=quantity_of(change.performance),
        round_trip_s=quantity_of(change.round_trip),
        key=change.key,
    )


def ranking(node: Node, now: float) -> Ranking:
    """What the node measures, and its rank."""
    context, optimizer = node.context, node.optimizer
    return Ranking(
        mapping=context.settings.mapping,
        performance=optimizer.rank_change.jobs,
        performance_class=context.performance,
        standing_class=context.mapping.rank_classes.own,
        wanted_level=optimizer.rank_change.wanted,
        level=len(node.uplink.path),
        near=tuple(_near(node, now)),
        moves=optimizer.budget.moves,
        moves_held=optimizer.budget.held,
    )


def _near(node: Node, now: float) -> list[Near]:
    """Nearest first, the leader included: by its echoes if it was not measured otherwise."""
    known, leader = dict(node.optimizer.latencies.known), node.uplink.leader
    if node.context.mapping.keeps_homes:
        return []
    if leader is not None and leader.position not in known and node.uplink.round_trip_s:
        known[leader.position] = Reading(node.uplink.round_trip_s, UNKNOWN, leader.heard_at)
    return [
        Near(position=p, round_trip_s=each.seconds, performance=quantity_of(each.performance), ago_s=now - each.at)
        for p, each in sorted(known.items(), key=lambda pair: pair[1].seconds)
    ]


def why(node: Node, now: float) -> Why:
    """The ranked candidates, their last answers, and the reason for the present place."""
    context, leader = node.context, node.uplink.leader
    return Why(
        position=context.position,
        place=node.place,
        leader=leader.position if leader else None,
        reason=_reason(node),
        ranked=tuple(islice(context.mapping.candidates(context.position), RANKED_SHOWN)),
        asked=node.search.answers.shown(now),
        ranking=ranking(node, now),
    )


def _reason(node: Node) -> str:
    if node.phase is Phase.ORPHAN:
        return "the leader was lost: looking for the next one, subordinates are held"
    if node.phase is Phase.SEEKING:
        return "just started: the first place is being asked for"
    if node.context.mapping.keeps_homes and node.context.mapping.home_of(node.context.position) is None:
        return "the lowest position of the network has no leader"
    return node.reason


def neighbourhood(node: Node) -> Neighbourhood | None:
    """What the next start needs; None: the node has no place, so the file on disk stays."""
    leader, is_root = node.uplink.leader, node.phase is Phase.ROOT
    if leader is None and not is_root:
        return None
    # Also those that have left or not returned yet, as when a whole cluster stops.
    peers, led = node.search.peers, node.downlink.led
    kept = dict.fromkeys((*reversed(led), *peers.remembered.led)) if is_root else ()
    return Neighbourhood(
        node.context.incarnation,
        leader.position if leader else None,
        tuple(peers),
        tuple(islice(kept, LED_MAX)),
        node.context.mapping.rank_classes.own,
    )


def is_memorable(node: Node, notice: Notice) -> bool:
    """Whether `notice` may change the neighbourhood. A root keeps its place when subordinates come and go."""
    return isinstance(notice, PlaceChanged) or (isinstance(notice, RosterChanged) and node.phase is Phase.ROOT)


def table_sizes(node: Node) -> dict[str, int]:
    """The entries of every table that can grow (docs/protocol.md, S5)."""
    leader = node.uplink.leader
    return {
        "subordinates": len(node.downlink.slots.taken),
        "former": len(node.downlink.slots.former),
        **node.search.sizes(),
        "distances": len(node.optimizer.latencies),
        "standings": len(node.context.mapping.rank_classes),
        "vain_beats": len(leader.pending) if leader else 0,
        "refusals": len(node.refusals),
        "hidden": len(node.listing),
        "row_probes": len(node.downlink.reports.verification),
        "rows": len(node.roster.rows),
        "claims": sum(map(len, node.roster.claims.values())),
        "unreported": node.roster.unreported,
        "unproven": sum(len(each.unproven) for each in node.downlink.slots.taken.values()),
        "pins": node.context.identity.pins.size,
    }
