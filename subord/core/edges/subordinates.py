"""The downlink: the edges of a node to its subordinates.

Inputs are proposals, questions, beats, goodbyes and time; outputs are answers, guidance, and the loss of
subordinates. slots.py decides on proposals, vacancies/vacancies.py on advice, state/roster.py keeps what subordinates
report. Invariant: an earlier process of a subordinate changes neither its rows nor its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf
from typing import assert_never

import msgspec

from subord.core.edges import agreement
from subord.core.edges.leader import NO_GUIDANCE, Uplink
from subord.core.edges.own_row import missing_row, provisional_row
from subord.core.edges.reports import Reports
from subord.core.edges.slots import Granted, Slots, Subordinate
from subord.core.events import Dropped, LostCause, SubordinateLeft, SubordinateLost
from subord.core.messages import (
    ALTERNATES_MAX,
    HINTS_MAX,
    PATH_POSITIONS_MAX,
    REFUSALS,
    RETRY_MS_MAX,
    Accept,
    Advice,
    Ask,
    Back,
    Beat,
    Echo,
    Goodbye,
    Guidance,
    Guide,
    No,
    Propose,
    Refuse,
    Stranger,
    Why,
)
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.state.coalescer import Coalescer
from subord.core.state.context import Context
from subord.core.state.roster import GUEST, OWN, Roster
from subord.core.state.states import SETTLED, State
from subord.core.timers import Timer
from subord.core.vacancies.vacancies import Vacancies
from subord.core.view import Incarnation, Place, Position

LED_MAX = 8  # kept for the next start


class Downlink:
    def __init__(self, context: Context, roster: Roster, uplink: Uplink) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self.slots = Slots(context.position, context.mapping)
        self.vacancies = Vacancies(context, roster)
        self.reports = Reports(context, roster, uplink)
        self.led: deque[Position] = deque(maxlen=LED_MAX)  # the last accepted nodes, also those that left
        self._guidance = NO_GUIDANCE
        self._coalescer = Coalescer(context)
        self._bucket = TokenBucket(context.timing.admissions_per_s, context.now)

    def admits(self) -> bool:
        """Whether one more question may be answered in this second."""
        return self._bucket.admit(self._context.now)

    def incarnation_of(self, neighbour: Position) -> Incarnation:
        """Of the other end of an edge; 0: there is no edge."""
        leader, known = self._uplink.leader, self.slots.taken.get(neighbour)
        above = leader.incarnation if leader is not None and leader.position == neighbour else 0
        return max(above, 0 if known is None else known.incarnation)

    # -- questions --------------------------------------------------------------------------------------

    def on_propose(self, source: Position, propose: Propose) -> None:
        """Accept or refuse. A repeated proposal is answered again and counted once."""
        if not self.admits():
            self._refuse(source, propose.exchange, No.BUSY, self._later_ms())
            return
        known = self.slots.taken.get(source)
        if known is not None and propose.incarnation < known.incarnation:
            # An older process, or the same host with its clock behind: refused until the known one is lost.
            self._context.note(Dropped("older_incarnation"))
            self._refuse(source, propose.exchange, No.BUSY, RETRY_MS_MAX)
            return
        if self.slots.is_older(source, propose.incarnation, propose.exchange, self._context.now):
            self._context.note(Dropped("older_proposal"))
            return
        verdict = (
            No.LEAVING
            if self._context.state is State.LEAVING
            else self.slots.judge(source, propose.wish, propose.nodes, self._roster.below, propose.standing)
        )
        match verdict:
            case Granted() if self._might_close_cycle(source):
                self._refuse(source, propose.exchange, No.BUSY, self._later_ms())
            case Granted():
                if verdict.evicted is not None:
                    self._evict(verdict.evicted, displacer=source)
                self._take(source, propose, verdict.place)
            case No():
                self._refuse(source, propose.exchange, verdict, standing=propose.standing)
            case _:
                assert_never(verdict)

    def _might_close_cycle(self, source: Position) -> bool:
        """A node on the known path; where ranks change also one above a leader whose rank may be outdated."""
        is_new = source not in self.slots.taken and self._context.mapping.ranks_change
        return source in self._uplink.path or (is_new and self._uplink.is_in_doubt)

    def _take(self, source: Position, propose: Propose, place: Place) -> None:
        context = self._context
        known = self.slots.taken.get(source)
        if known is None or (known.incarnation, known.exchange) != (propose.incarnation, propose.exchange):
            if source not in self.led:
                self.led.append(source)
            change = provisional_row(propose, source, context, place)
            self._roster.doubt(source)
            self.reports.verification.begin(source)
            self._roster.retract(OWN, source, context.now)  # it is no longer missing
            self.slots.taken[source] = Subordinate(
                position=source,
                place=place,
                incarnation=propose.incarnation,
                exchange=propose.exchange,
                since=known.since if known is not None else context.now,
                session_at=context.now,
                advanced_at=context.now,
                heard_at=context.now,
                due_at=context.now + min(context.answer_timeout.answer_s, context.timing.beat_interval_s),
                number=propose.exchange,  # earlier beats belong to the old session
                standing=propose.standing,
                key=propose.key if context.identity.is_on else b"",
                proposed=change,
                unproven=set(),
            )
            if not self._roster.is_live(source) or not self._roster.is_claimed(source, source):
                # Its former leader may report it gone before its first beat.
                self._roster.state(source, change, context.now)
            self._watch()
        context.send(source, Accept(context.incarnation, propose.exchange, self.guidance()))

    def _refuse(self, source: Position, exchange: int, no: No, retry_ms: int = 0, standing: int = 0) -> None:
        context = self._context
        context.send(
            source,
            Refuse(
                context.incarnation,
                exchange,
                no,
                REFUSALS[no],
                retry_ms,
                () if no is No.BUSY else self.hints(source, standing),
                self.slots.highest_guest,
                context.mapping.rank_classes.own,
            ),
        )

    def _later_ms(self) -> int:
        """A random delay, so that refused nodes do not return together."""
        return self._context.chance.randint(RETRY_MS_MAX // 4, RETRY_MS_MAX)

    def on_ask(self, source: Position, ask: Ask, lowest: Position) -> None:
        """Give advice: whether there is room, the root (or the `lowest` known), and the best places for `source`.

        A node without a place offers none: otherwise nodes that start together would form a chain.
        """
        context, above = self._context, self._uplink.path
        root = above[0] if above else lowest
        if ask.asker and not self.admits():
            context.note(Dropped("errand_busy"))  # a forged asker must not turn advice into a flood
            return
        if context.state.phase not in SETTLED:
            rank_classes = context.mapping.rank_classes
            unsettled = Advice(context.incarnation, ask.exchange, room=False, root=root, hints=(), highest_guest=0)
            context.send(
                source,
                msgspec.structs.replace(unsettled, standing=rank_classes.own, root_standing=rank_classes.of(root)),
            )
            return
        if not ask.asker and not self.admits():
            self._refuse(source, ask.exchange, No.BUSY, self._later_ms())
            return
        mapping = context.mapping
        places = self.vacancies.suggest(
            source,
            len(above),
            HINTS_MAX - 2,
            reserve=not ask.asker,
            standing=ask.standing,
            performance=ask.performance,
        )
        # Only a node without a leader knows the ranks of all, and so the level of the asker.
        wanted = 0 if above else places.wanted
        swap = 0 if above else self.vacancies.swap_for(source, places)
        context.send(
            source,
            Advice(
                context.incarnation,
                ask.exchange,
                self.slots.has_room_for(source, ask.standing),
                root,
                self._with_path(places.hints or self._displaceable(source)),
                self.slots.highest_guest,
                places.levels,
                wanted,
                swap,
                self.vacancies.level_of(swap) if swap else 0,
                mapping.rank_classes.own,
                mapping.rank_classes.of(root),
                self.vacancies.sample_for(source) if mapping.measures_round_trips and not above else (),
            ),
        )

    def hints(self, node: Position, standing: int = 0) -> tuple[Position, ...]:
        """Other live positions that may have room for `node`, best first, and the root."""
        places = self.vacancies.suggest(node, len(self._uplink.path), HINTS_MAX - 2, standing=standing)
        others = [p for p in places.hints if p != self._context.position]
        return self._with_path(others or self._displaceable(node))

    def _with_path(self, hints: Iterable[Position]) -> tuple[Position, ...]:
        """Add the root, which knows all places, and the own leader only while no root is known to live: otherwise an
        asker would visit the leaders of a full branch one by one."""
        path = self._uplink.path
        return tuple(dict.fromkeys((*hints, *path[:1], *(path[-1:] if self._uplink.is_orphaned else ()))))

    def _displaceable(self, node: Position) -> tuple[Position, ...]:
        """Without free places below: the leader of a guest that ranks above `node`."""
        leader = self.vacancies.giving_way(node)
        return (leader,) if leader else ()

    # -- beats --------------------------------------------------------------------------------------------

    def on_beat(self, source: Position, beat: Beat) -> None:
        """Answer every beat and take its changes in order. A stranger is told to propose again."""
        context = self._context
        known = self.slots.taken.get(source)
        if known is None or beat.leader_incarnation != context.incarnation or beat.incarnation > known.incarnation:
            context.send(source, Stranger(context.incarnation, beat.number))
            return
        if beat.incarnation < known.incarnation:
            context.note(Dropped("older_incarnation"))
            context.send(source, Stranger(context.incarnation, beat.number))
            return
        known.heard_at = context.now
        known.due_at = context.now + beat.next_ms / 1000
        known.cut = known.extended = False
        if agreement.out_of_step(known, beat, context.now, context.timing.beat_interval_s):
            self._begin_anew(source, beat, "out_of_step")
            return
        if beat.number > known.number:
            known.number = beat.number
            self.reports.take(known, beat)
            if self.reports.differ(known, beat):
                self._begin_anew(source, beat, "rows_differ")
                return
        guidance = self.guidance()
        news = guidance if agreement.guidance_differs(beat, guidance) else None
        context.send(source, Echo(context.incarnation, beat.number, news))

    def _begin_anew(self, source: Position, beat: Beat, reason: str) -> None:
        """As a stranger the subordinate proposes again and reports everything."""
        self._context.note(Dropped(reason))
        self._context.send(source, Stranger(self._context.incarnation, beat.number))

    def on_goodbye(self, source: Position, goodbye: Goodbye) -> None:
        """A subordinate leaves, or a node that believes to lead this one says goodbye."""
        if goodbye.why in (Why.LEAVING, Why.DISPLACED):
            if self.admits():
                self._context.send(source, Goodbye(self._context.incarnation, Why.MOVED))
            return
        known = self.slots.taken.get(source)
        if known is None:
            return
        if goodbye.incarnation != known.incarnation:
            self._context.note(Dropped("older_incarnation"))
            return
        if goodbye.why is Why.LEFT:
            self._context.note(SubordinateLeft(source))
        self._release(source)

    def forget(self, above: Iterable[Position]) -> None:
        """Drop subordinates that now stand above this node: their goodbyes were lost."""
        for position in above:
            if position in self.slots.taken:
                self._release(position)

    def dismiss(self, position: Position) -> None:
        """End the subordination; its next beat is answered as that of a stranger."""
        self._release(position)

    def _release(self, position: Position) -> None:
        self.slots.release(position, self._context.now)
        self.reports.verification.forget(position)
        self._roster.drop(position, self._context.now)

    def _evict(self, guest: Position, displacer: Position) -> None:
        """The displacer ranks below the guest and has free slots, so it is the guest's first hint."""
        context = self._context
        hints = self.hints(guest, self.slots.taken[guest].standing)
        context.send(guest, Goodbye(context.incarnation, Why.DISPLACED, (displacer, *hints)))
        self._release(guest)

    # -- loss -----------------------------------------------------------------------------------------------

    def lose_overdue(self) -> None:
        """Drop subordinates that are silent for too long after a promised beat."""
        timing, now = self._context.timing, self._context.now
        for each in [s for s in self.slots.taken.values() if now >= self._give_up_at(s)]:
            if not each.cut and not each.extended and self._hears_none():
                each.extended = True
                each.due_at = now + timing.beat_interval_s
                continue
            self.lose(each.position, "closed" if each.cut else "silence")
        self._context.timers.plan(Timer.EXPIRY, self._roster.expire_missing(now, timing.missing_keep_s) or inf)
        self._watch()

    def lose(self, position: Position, cause: LostCause) -> None:
        """A subordinate vanished without goodbye: show it as missing for a while. One under another key than the
        pinned one was replaced: its row would hide the present host, if the clock of that one is behind."""
        context = self._context
        if (known := self.slots.taken.get(position)) is None:
            return
        context.note(SubordinateLost(position, cause, context.now - known.heard_at))
        claim = self._roster.claims[position].get(position)
        row = missing_row(known, context, None if claim is None else claim.change)
        self._release(position)
        if context.identity.is_foreign(row):
            return
        self._roster.state(OWN, row, context.now)
        context.timers.plan(Timer.EXPIRY, context.now + context.timing.missing_keep_s)

    def on_cut(self, position: Position) -> None:
        """The stream of a subordinate closed: allow for a restart instead of a whole silence."""
        known = self.slots.taken.get(position)
        if known is not None:
            soon = self._context.now + self._context.timing.restart_grace_s - self._overdue_s
            known.due_at = min(known.due_at, soon)
            known.cut = True
            self._watch()

    def on_own_sleep(self) -> None:
        """The node slept: each subordinate has a whole silence before it is judged."""
        timing = self._context.timing
        for each in self.slots.taken.values():
            each.due_at = max(each.due_at, self._context.now + timing.beat_interval_s)
            each.advanced_at = self._context.now
        self._watch()

    def _hears_none(self) -> bool:
        """Silence of all nodes at once counts as a fault of this node (docs/protocol.md, section 4)."""
        silent_s = self._context.now - self._context.heard_at
        return len(self.slots.taken) > 1 and silent_s > self._context.timing.beat_interval_s

    @property
    def _overdue_s(self) -> float:
        """How late a promised beat may be. `on_cut` subtracts it, so the restart grace does not depend on it."""
        return self._context.timing.attempts * self._context.timing.answer_s

    def _give_up_at(self, each: Subordinate) -> float:
        return each.due_at + self._overdue_s

    def _watch(self) -> None:
        ends = (self._give_up_at(each) for each in self.slots.taken.values())
        self._context.timers.plan(Timer.LIVENESS, min(ends, default=inf))

    # -- what subordinates are told ---------------------------------------------------------------------------

    def guidance(self) -> Guidance:
        """The guidance for all subordinates; its version goes up when the content changes."""
        context, leader = self._context, self._uplink.leader
        path = (*self._uplink.path, context.position)
        above = leader.guidance if leader is not None else NO_GUIDANCE
        spare = [p for p in above.siblings if p != context.position]
        alternates = dict.fromkeys((*spare, *reversed(self._uplink.path)))
        room = (p for p in sorted(self.slots.taken) if self._roster.guests[p] < context.mapping.guest_places)
        fresh = Guidance(
            self._guidance.version,
            path if len(path) <= PATH_POSITIONS_MAX else path[:1] + path[1 - PATH_POSITIONS_MAX :],
            tuple(alternates)[:ALTERNATES_MAX],
            tuple(room)[:ALTERNATES_MAX],
            self._uplink.is_orphaned,
        )
        if fresh != self._guidance:
            old = self._guidance
            self._guidance = Guidance(old.version + 1, fresh.path, fresh.alternates, fresh.siblings, fresh.adrift)
        return self._guidance

    def tell_soon(self) -> None:
        """The path changed: tell subordinates, together with further changes of the next moment."""
        if self.slots.taken:
            self._context.timers.plan_if_unset(Timer.GUIDE, self._coalescer.next_at)

    def tell_subordinates(self) -> None:
        """Send the guidance at once: the leader is lost, or the path is new."""
        self._context.timers.plan(Timer.GUIDE, inf)
        self._coalescer.sent()
        guidance = self.guidance()
        for position in self.slots.taken:
            self._context.send(position, Guide(self._context.incarnation, guidance))

    def follow_roster(self) -> None:
        """After any event: take roster changes over into the index, and tell guests of homes that are alive."""
        self.vacancies.catch_up()
        if self._roster.news:
            self._announce_homes()

    def _announce_homes(self) -> None:
        """New rows: send `Back` to guests whose home is new, and to new guests whose home is alive.

        Only the node where both branches meet sends it, so one message goes out however deep the tree is.
        """
        for position in self._roster.news:
            row = self._roster.rows.get(position)
            if row is None or row[1].change.missing:
                continue
            home = self._context.mapping.home_of(position)
            if row[1].change.place == GUEST and home is not None:
                self._send_back(position, home)
            for guest in self._context.mapping.at_home_below(position):
                its = self._roster.rows.get(guest)
                if its is not None and its[1].change.place == GUEST:
                    self._send_back(guest, position)
        self._roster.news.clear()

    def _send_back(self, guest: Position, home: Position) -> None:
        rows = self._roster.rows
        if home in rows and self._roster.is_live(home) and rows[home][0] != rows[guest][0]:
            self._context.send(guest, Back(self._context.incarnation, home))

    def say_leaving(self) -> None:
        """Tell all subordinates to find another leader."""
        guidance = self.guidance()
        word = Goodbye(self._context.incarnation, Why.LEAVING, guidance.alternates)
        for position in self.slots.taken:
            self._context.send(position, word)
