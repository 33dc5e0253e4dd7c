"""Deliberate faults in the core, each of which the campaign must find.

    .venv/bin/python tests/mutations.py [--seeds N] [--control N] [--jobs N] [--list] [NAME ...]

For each mutation below (all, or the named ones) the package `subord` is copied into a temporary directory, one text
of the copy is replaced, and the seeds 0, 1, 2, ... are played against the copy until one fails, or N have passed
(default 1000). The control is the copy without a fault: it must pass its own N seeds (default 50) and every seed that
caught a mutation, so a catch shows the fault of the mutation.

Progress goes to stderr, the table to stdout. The exit code is 0 when every mutation is caught and the control passes,
1 when not, 2 for wrong arguments or a mutation that is out of date.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source
from os import sched_getaffinity
from pathlib import Path
from typing import Literal

MappingName = Literal["ip", "performance", "latency"]
PACKAGE = Path(__file__).resolve().parents[1] / "subord"
LASTS_S_MAX = 3600  # one mutation: 1000 seeds take a fifth of that on a busy machine


@dataclass(frozen=True)
class Mutation:
    """`old`, which occurs once in `file`, becomes `new`. `wrong` describes the fault in one sentence."""

    name: str
    wrong: str
    file: str  # below subord/
    old: str
    new: str
    mapping: MappingName = "ip"  # of the seeds that are played
    script: str = ""  # a scenario that is played with each seed instead of the drawn one
    services: bool = False  # the seeds are those of a campaign of orders


SILENT_TWICE = """
title = "All subordinates of the root are stopped twice, each time for more than one silence"
cluster = { nodes = 3, fanout = 2 }
steps = [
  { do = "start" }, { do = "pass", s = 20 },
  { do = "pause", nodes = "2-3" }, { do = "pass", s = 6 }, { do = "resume" }, { do = "pass", s = 10 },
  { do = "pause", nodes = "2-3" }, { do = "pass", s = 6 }, { do = "resume" }, { do = "pass", s = 10 },
]
"""
ASLEEP_WHEN_CUT = """
title = "A node hears that the stream to its leader is closed, and is stopped before the grace is over"
cluster = { nodes = 7, fanout = 2 }
steps = [
  { do = "start" }, { do = "pass", s = 20 }, { do = "weather", delay_s = 0.1 },
  { do = "pause", nodes = "2" }, { do = "hangup", nodes = "4" }, { do = "pass", s = 0.2 },
  { do = "pause", nodes = "4" }, { do = "resume", nodes = "2" }, { do = "pass", s = 1.5 },
  { do = "resume", nodes = "4" }, { do = "pass", s = 10 },
]
"""
VANISHED = """
title = "A leader vanishes in a dense cluster"
cluster = { nodes = 15, fanout = 2, timing = "lab" }
steps = [{ do = "start" }, { do = "pass", s = 20 }, { do = "vanish", nodes = "2" }]
"""
BACK_SOON = """
title = "A leader dies in a dense cluster, and is back after five seconds"
cluster = { nodes = 15, fanout = 2 }
steps = [
  { do = "start" }, { do = "pass", s = 20 },
  { do = "kill", nodes = "2" }, { do = "pass", s = 5 }, { do = "start" },
]
"""
FROM_BEHIND = """
title = "Guests start, the highest ranks first"
cluster = { positions = "101-140", fanout = 4, timing = "lab", announce = true }
steps = [{ do = "start", order = "reverse", gap_s = 1.0 }, { do = "pass", s = 1.0 }]
"""
MIXED = """
title = "Every second node has no identity"
cluster = { nodes = 15, fanout = 2, identities = "pinned", bare = "1,3,5,7,9,11,13,15" }
steps = [{ do = "start" }, { do = "pass", s = 20 }]
"""
IMPOSTORS = """
title = "A member forges rows, another one speaks in the names of others, and a host has a seized address"
cluster = { nodes = 15, fanout = 2, identities = "strict" }
steps = [
  { do = "start" }, { do = "pass", s = 20 },
  { do = "lie", nodes = "4", what = "forges" }, { do = "pose", nodes = "8", per_s = 50, for_s = 10 },
  { do = "seize", nodes = "7" }, { do = "vanish", nodes = "10" }, { do = "pass", s = 5 },
  { do = "restart", nodes = "8-9" }, { do = "pass", s = 15 },
]
"""
REPLACED = """
title = "A host with its clock behind takes an address, and stands deeper below the leader of the former one"
cluster = { nodes = 15, fanout = 2, identities = "pinned" }
steps = [
  { do = "start" }, { do = "pass", s = 20 },
  { do = "link", source = "5", target = "1-3", loss = 1 }, { do = "reuse", nodes = "5" }, { do = "pass", s = 20 },
]
"""

MUTATIONS = (
    Mutation(
        "any-rank-leads",
        "A node with a higher position may lead one with a lower one.",
        "core/mapping/mapping.py",
        "return candidate > 0 and self.rank(candidate) < self.rank(node)",
        "return 0 < candidate != node",
    ),
    Mutation(
        "no-displacement",
        "A full leader refuses even nodes that rank below its guests.",
        "core/edges/slots.py",
        "if wish is Wish.DISPLACE and above:",
        "if False:",
    ),
    Mutation(
        "slots-without-end",
        "Every guest is accepted, without a limit.",
        "core/edges/slots.py",
        "if len(guests) < self._mapping.guest_places:",
        "if True:",
    ),
    Mutation(
        "slot-leaks",
        "A node that says goodbye leaves the roster but keeps its slot.",
        "core/edges/subordinates.py",
        "self._release(source)",
        "self._roster.drop(source, self._context.now); self._roster.doubt(source); known.due_at = inf",
    ),
    Mutation(
        "dead-keep-their-place",
        "A subordinate is lost only after an hour of silence.",
        "core/edges/subordinates.py",
        "return each.due_at + ",
        "return 3600 + each.due_at + ",
    ),
    Mutation(
        "old-goodbyes-count",
        "The goodbye of an older incarnation of a subordinate ends the present one.",
        "core/edges/subordinates.py",
        "if goodbye.incarnation != known.incarnation:",
        "if False:",
    ),
    Mutation(
        "old-beats-count",
        "The beat of an older incarnation of a subordinate counts for the present one.",
        "core/edges/subordinates.py",
        "if beat.incarnation < known.incarnation:",
        "if False:",
    ),
    Mutation(
        "strangers-get-no-answer",
        "A beat of a node that is no subordinate gets no answer.",
        "core/edges/subordinates.py",
        "if known is None or beat.leader_incarnation",
        "if known is None:\n            return\n        if beat.leader_incarnation",
    ),
    Mutation(
        "own-sleep-ignored",
        "A node that slept judges its peers by that time.",
        "core/node.py",
        "slept = now - min(self.deadline, now) > context.timing.own_sleep_s",
        "slept = False",
    ),
    Mutation(
        "guests-never-climb",
        "A guest stays where it is after it is told that its home is back.",
        "core/search/joining.py",
        "if home is None or not self.search.may_return(home):",
        "if home is None or self._context.state.aim is Aim.BETTER or not self.search.may_return(home):",
    ),
    Mutation(
        "guests-move-anywhere",
        "A guest moves to any free place that is not the one it has.",
        "core/mapping/depth_rule.py",
        "if not is_too_deep(advice, level):",
        "if advice.hints:\n        return advice.hints[-1], Wish.GUEST\n    if False:",
    ),
    Mutation(
        "roots-never-search",
        "A root never searches again.",
        "core/state/states.py",
        "ROOT = Phase.ROOT, Aim.LOWER",
        "ROOT = Phase.ROOT, Aim.NOTHING",
    ),
    Mutation(
        "leader-never-given-up",
        "A leader that sends no echo is never lost.",
        "core/edges/leader.py",
        "self._unanswered_s(leader) >= self._silence_s",
        "self._unanswered_s(leader) >= 3600",
    ),
    Mutation(
        "octets-in-wrong-order",
        "In a /16 the last octet counts more than the one before it.",
        "core/address/network.py",
        "value = int(address)\n",
        "value = int(address)\n        if self._size == 65534:\n"
        "            value = value & ~0xFFFF | (value & 0xFF) << 8 | value >> 8 & 0xFF\n",
    ),
    Mutation(
        "rows-are-never-swept",
        "What a subordinate does not repeat in a new session stays in the roster.",
        "core/edges/reports.py",
        "if settled and not known.swept and repeated:",
        "if False:",
    ),
    Mutation(
        "missing-for-ever",
        "A node that vanished is shown as missing for ever.",
        "core/state/roster.py",
        "if at <= now or (not row.change.missing and via in self.claims):",
        "if False:",
    ),
    Mutation(
        "late-beats-are-read",
        "The rows of a beat that a later one has overtaken are taken.",
        "core/edges/subordinates.py",
        "if beat.number > known.number:",
        "if True:",
    ),
    Mutation(
        "guidance-is-kept-back",
        "An echo never carries the new path to the root.",
        "core/edges/subordinates.py",
        "news = guidance if agreement.guidance_differs(beat, guidance) else None",
        "news = None",
    ),
    Mutation(
        "answers-without-end",
        "A bounded map grows without end.",
        "core/tables.py",
        "if len(self) > self._entries_max:",
        "if False:",
    ),
    Mutation(
        "other-settings-accepted",
        "A proposal of a node with other settings is treated like any other.",
        "core/ingress.py",
        "if differs is not None:",
        "if False:",
    ),
    Mutation(
        "beats-never-rarer",
        "The pause between beats stays the shortest one.",
        "core/edges/leader.py",
        "self._plan(context.now + context.jittered(leader.interval.step(context.timing.beat_interval_s)))",
        "self._plan(context.now + context.jittered(leader.interval.delay_s))",
    ),
    Mutation(
        "asks-for-ever",
        "A guest whose root has no place itself asks it again as soon as it answers.",
        "core/search/moving.py",
        "and not advice.wanted and self._context.mapping.may_lead(advice.root, source):",
        "and not advice.wanted:",
    ),
    Mutation(
        "moves-for-ever",
        "A guest moves to every suitable place, although its own is suitable.",
        "core/mapping/depth_rule.py",
        "return 0 < advice.wanted < level",
        "return 0 < advice.wanted",
    ),
    Mutation(
        "silence-extended-once",
        "The silence of a subordinate is extended only once while the leader hears no node.",
        "core/edges/subordinates.py",
        "known.cut = known.extended = False",
        "known.cut = False",
        script=SILENT_TWICE,
    ),
    Mutation(
        "cut-survives-sleep",
        "A connection lost before the node slept counts against the leader afterwards.",
        "core/edges/leader.py",
        "leader.suspected, leader.in_doubt = False, True\n            leader.cut_at = inf",
        "leader.suspected, leader.in_doubt = False, True",
        script=ASLEEP_WHEN_CUT,
    ),
    Mutation(
        "older-proposals-count",
        "A proposal that a later one has overtaken begins a session.",
        "core/edges/subordinates.py",
        "if self.slots.is_older(source, propose.incarnation, propose.exchange, self._context.now):",
        "if False:",
    ),
    Mutation(
        "old-sessions-count",
        "A beat of the previous session counts in the new one.",
        "core/edges/subordinates.py",
        "number=propose.exchange,",
        "number=0,",
    ),
    Mutation(
        "alternates-without-path",
        "The alternates of a node lack the nodes above its leader.",
        "core/edges/subordinates.py",
        "dict.fromkeys((*spare, *reversed(self._uplink.path)))",
        "dict.fromkeys(spare)",
    ),
    Mutation(
        "places-are-kept",
        "An acceptance that no proposal waits for is not given back.",
        "core/search/search.py",
        "if not asking and (leader is None or leader.position != source):",
        "if False:",
    ),
    Mutation(
        "newcomers-too-deep",
        "A newcomer is sent one level below that of its rank.",
        "core/vacancies/vacancies.py",
        "return level_and_offset(living.bisect_left(node) + 1)[0]",
        "return level_and_offset(living.bisect_left(node) + 1)[0] + 1",
    ),
    Mutation(
        "those-above-are-taken-in",
        "A leader accepts a node that stands on its own path to the root.",
        "core/edges/subordinates.py",
        "return source in self._uplink.path or (is_new and self._uplink.is_in_doubt)",
        "return is_new and self._uplink.is_in_doubt",
        "performance",
    ),
    Mutation(
        "those-above-are-listed",
        "A node that is accepted keeps subordinates that now stand above it.",
        "core/node.py",
        "self.downlink.forget(self._path)",
        "pass",
        "performance",
    ),
    Mutation(
        "homes-are-held-long",
        "A home that was lost once is returned to after a minute.",
        "core/search/return_home.py",
        "doublings = round(self._losses) - 2",
        "doublings = round(self._losses) + 4",
        script=BACK_SOON,
    ),
    Mutation(
        "orphans-rest",
        "A node that has lost its leader rests ten search intervals before it looks for another.",
        "core/search/joining.py",
        "self._prober.begin_again(lost.position)\n        self.search.advance()",
        "self._requests.clear()\n        self._rest.begin(10 * self._context.timing.search_interval_s_max)",
        script=VANISHED,
    ),
    Mutation(
        "guests-stay-deep",
        "A guest that stands too deep stays.",
        "core/mapping/mapping.py",
        "found = better_place(advice, guest.level)",
        "found = None if guest.level else better_place(advice, guest.level)",
        script=FROM_BEHIND,
    ),
    Mutation(
        "proofs-are-not-verified",
        "Every proof counts.",
        "core/identity/identity.py",
        "return len(key) == KEY_BYTES and len(proof) == PROOF_BYTES and self._signer.verify(key, content, proof)",
        "return True",
        script=IMPOSTORS,
    ),
    Mutation(
        "any-key-speaks",
        "A message counts under another key than the one that is pinned.",
        "core/identity/identity.py",
        "if pinned and pinned != message.key:",
        "if False:",
        script=IMPOSTORS,
    ),
    Mutation(
        "silence-proves",
        "A message without proof counts for an address with a pinned key.",
        "core/identity/identity.py",
        "return Seen(NO_IDENTITY if pinned or self.strict else None)",
        "return Seen(None)",
        script=IMPOSTORS,
    ),
    Mutation(
        "any-key-signs-rows",
        "A row counts under another key than the one that is pinned.",
        "core/identity/identity.py",
        "return ROW_FOREIGN_KEY if self.is_foreign(change) else None",
        "return None",
        script=IMPOSTORS,
    ),
    Mutation(
        "replaced-hosts-are-missing",
        "A host that vanished is shown as missing, also when another one has its address and its pin.",
        "core/edges/subordinates.py",
        "if context.identity.is_foreign(row):",
        "if False:",
        script=REPLACED,
    ),
    Mutation(
        "strict-takes-unsigned-rows",
        "A strict node takes rows without proof.",
        "core/identity/identity.py",
        "return ROW_NO_IDENTITY if self.strict else None",
        "return None",
        script=IMPOSTORS,
    ),
    Mutation(
        "one-proof-for-all-rows",
        "A row with the proof of a row that is held is not verified, whatever else it says.",
        "core/identity/identity.py",
        "return bool(change.key) and rest == (other.place, other.moves, other.standing, other.performance)",
        "return bool(change.key)",
        script=IMPOSTORS,
    ),
    Mutation(
        "leaders-vouch",
        "The row of a node that was just accepted has no proof.",
        "core/edges/own_row.py",
        "if not (propose.key and context.identity.is_on):",
        "if True:",
        script=IMPOSTORS,
    ),
    Mutation(
        "missing-without-proof",
        "The row of a node that vanished has no proof.",
        "core/edges/own_row.py",
        "if signed is not None and signed.key:",
        "if False:",
        script=IMPOSTORS,
    ),
    Mutation(
        "signed-once",
        "A node does not sign its row again when it changes.",
        "core/identity/identity.py",
        "if content != self._row:",
        "if not self._row:",
        script=IMPOSTORS,
    ),
    Mutation(
        "proofs-for-old-releases",
        "A leader without identity is told a digest with the proofs, which it does not get.",
        "core/edges/leader.py",
        "digest = self._roster.digest - (0 if leader.key else self._roster.digest_of_proofs)",
        "digest = self._roster.digest",
        script=MIXED,
    ),
    Mutation(
        "reports-beyond-the-roster",
        "A leader counts as many nodes of a branch as its report says, also more than the roster lists.",
        "core/carriage/reports/coverage.py",
        "branch = min(told[via].nodes, living)",
        "branch = told[via].nodes",
        services=True,
    ),
    Mutation(
        "reports-of-former-subordinates",
        "A report counts as long as its edge is open, also when the node has moved.",
        "core/carriage/reports/reports.py",
        "return {via: service.held[via] for via in branches if via in service.held}",
        "return dict(service.held)",
        services=True,
    ),
    Mutation(
        "reports-last-for-ever",
        "A report that is not renewed is not dropped.",
        "core/carriage/reports/bounds.py",
        "STALE_INTERVALS: Final = 3",
        "STALE_INTERVALS: Final = 3000",
        services=True,
    ),
    Mutation(
        "coverage-waits",
        "A change of coverage goes up with the next report only.",
        "core/carriage/reports/reports.py",
        "elif service.is_changed:",
        "elif False:",
        services=True,
    ),
    Mutation(
        "reports-stay-young",
        "The age of a fold begins anew at each leader.",
        "core/carriage/reports/reports.py",
        "each.age_s + now - each.at",
        "now - each.at",
        services=True,
    ),
    Mutation(
        "results-count-twice",
        "A result counts again each time that it arrives.",
        "core/carriage/engine/tasks.py",
        "new = nodes & self.remaining\n        if new:\n            self.has_news = True",
        "new = nodes\n        if new:\n            self.has_news = True",
        services=True,
    ),
    Mutation(
        "invented-results-count",
        "A result counts also for nodes that were not asked through its sender.",
        "core/carriage/engine/asking.py",
        "return nodes & pending.part",
        "return nodes",
        services=True,
    ),
    Mutation(
        "tags-count-in-vain",
        "A node acts again on a tag that it has acted on.",
        "core/carriage/engine/acting/tags.py",
        "if entry is None:\n            if len",
        "if entry is None or entry.outcome is not None:\n            if len",
        services=True,
    ),
    Mutation(
        "tags-are-not-noted",
        "A node acts with effects before the tag is on its disk.",
        "core/carriage/engine/acting/acting.py",
        "if service.has_effects:",
        "if False:",
        services=True,
    ),
    Mutation(
        "noted-tags-are-forgotten",
        "A node does not read which tags its earlier lives have noted.",
        "core/carriage/engine/acting/tags.py",
        "for tag, keep_s in over:",
        "for tag, keep_s in ():",
        services=True,
    ),
    Mutation(
        "hung-nodes-hide-branches",
        "The branch of a node that does not answer is not asked.",
        "core/carriage/engine/asking.py",
        "branches = self._tree.split_below(peer, rest)",
        "branches = dict[Position, Ranges]()",
        services=True,
    ),
    Mutation(
        "hung-leaders-stop-orders",
        "Only the leader is asked for a coordinator, and no node above it.",
        "core/carriage/engine/routing.py",
        "for each in task.above if leader is None else (leader, *task.above):",
        "for each in () if leader is None else (leader,):",
        services=True,
    ),
    Mutation(
        "orders-end-late",
        "A node answers a second after the time given.",
        "core/carriage/engine/engine.py",
        'self._due.plan(task, "until", now + left_s)',
        'self._due.plan(task, "until", now + left_s + 1.0)',
        services=True,
    ),
    Mutation(
        "causes-are-left-out",
        "A node without result and cause is left out of the answer.",
        "core/carriage/engine/tasks.py",
        "        self.miss(self.unexplained, causes.EXPIRED)\n",
        "        pass\n",
        services=True,
    ),
    Mutation(
        "results-hold-room",
        "What has been sent is counted as held for ever.",
        "core/carriage/engine/folding.py",
        "self._room.give_back(self._held)",
        "pass",
        services=True,
    ),
    Mutation(
        "streams-are-not-counted-back",
        "The end of a stream of its own is not counted.",
        "core/carriage/engine/asking.py",
        "            del self.direct[link.link]\n            self._links.hang_up(link)",
        "            self._links.hang_up(link)",
        services=True,
    ),
    Mutation(
        "questions-stay",
        "A question of another node is kept when it is answered.",
        "core/carriage/engine/engine.py",
        "task.asker.link.held.pop(task.asker.number, None)",
        "pass",
        services=True,
    ),
    Mutation(
        "acknowledged-is-answered",
        "A node that has acknowledged is not checked any more.",
        "core/carriage/engine/asking.py",
        'self._due.plan(pending, "look_at", now + pending.pause_s)',
        'self._due.plan(pending, "look_at", inf)',
        services=True,
    ),
    Mutation(
        "all-but-the-coordinator",
        "The coordinator forgets itself among all members.",
        "core/roster_tree.py",
        "return known | self._remembered(State.UP, State.DOWN)",
        "return (known | self._remembered(State.UP, State.DOWN)) - Ranges.of((self.position,))",
        services=True,
    ),
    Mutation(
        "any-node-coordinates",
        "A node that does not list all targets coordinates.",
        "core/carriage/engine/routing.py",
        "if split.absent and not self._tree.is_root:",
        "if False:",
        services=True,
    ),
    Mutation(
        "half-blobs-are-whole",
        "A blob counts as whole when its manifest is there.",
        "core/carriage/blobs/blobs.py",
        "            if used.missing:",
        "            if False:",
        services=True,
    ),
    Mutation(
        "records-leave-before-they-are-stored",
        "A sink acknowledges records before they are on its disk.",
        "core/carriage/ledger/ledger.py",
        "self._links.actions.append(Store(batch.key, batch.records))",
        "self._links.actions.append(Store(batch.key, batch.records))\n"
        "            self._pass_stored(Stored(batch.key), None, self._sent_at)",
        services=True,
    ),
    Mutation(
        "sinks-that-fail-acknowledge",
        "A sink acknowledges records that its disk did not take.",
        "core/carriage/ledger/ledger.py",
        "        if event.ok:\n            self._pass_stored",
        "        if True:\n            self._pass_stored",
        services=True,
    ),
    Mutation(
        "the-middle-acknowledges-records",
        "A node acknowledges the records that it passes on.",
        "core/carriage/ledger/ledger.py",
        "            return\n        self._links.send(link, msgspec.structs.replace(batch",
        "            return\n        self._links.send(source, Stored(batch.key))\n"
        "        self._links.send(link, msgspec.structs.replace(batch",
        services=True,
    ),
    Mutation(
        "records-are-sent-once",
        "A batch without acknowledgement is not sent again while its way is the same.",
        "core/carriage/ledger/ledger.py",
        "        self._retry_at = now + self._pause_s",
        "        self._retry_at = inf",
        services=True,
    ),
    Mutation(
        "sinks-store-without-end",
        "A sink holds any number of batches until its disk has them.",
        "core/carriage/ledger/ledger.py",
        "        if self._storing.pop(event.key, None) is None:",
        "        if self._storing.get(event.key) is None:",
        services=True,
    ),
    Mutation(
        "end-is-not-passed-on",
        "A node that is told that an order is over does not tell the nodes that it has asked.",
        "core/carriage/engine/asking.py",
        "and (stops or not ends):",
        "and pending.task.asker is None:",
        services=True,
    ),
    Mutation(
        "young-roots-know-all",
        "A node that has only just become root takes the nodes that it knows for all members.",
        "core/carriage/engine/routing.py",
        '            task.lacks = "" if self._tree.is_settled(now) else YOUNG_ROOT',
        "            pass",
        services=True,
    ),
    Mutation(
        "first-roots-do-not-wait",
        "The first root of a cluster does not wait for nodes that wait for the daemon of their home.",
        "core/members/youth.py",
        "    if is_first:",
        "    if is_first and not node:",
        services=True,
    ),
    Mutation(
        "leases-are-not-renewed",
        "A node does not pass renewals on.",
        "core/carriage/engine/engine.py",
        "        self._asking.renew(task, now)",
        "        pass",
        services=True,
    ),
    Mutation(
        "leases-have-no-end",
        "What acts goes on without an issuer.",
        "core/carriage/engine/acting/lease.py",
        "        self.until = now + min(lease_s, bounds.LEASE_S)",
        "        self.until = float('inf')",
        services=True,
    ),
    Mutation(
        "lost-asker-cancels",
        "A node whose asker is lost ends what acts below it, though the issuer may find another way.",
        "core/carriage/engine/engine.py",
        "        for task in held:\n            self._forget(task, now)\n",
        "        for task in held:\n            self._forget(task, now, stops=True)\n",
        services=True,
    ),
)


class OutOfDateError(Exception):
    """The text that a mutation replaces does not occur once, because the core has changed."""


@dataclass(frozen=True)
class Outcome:
    """The result of a mutation. `broken` is the invariant, or "error"; empty: it survived all seeds."""

    name: str
    broken: str
    seed: int  # that caught it, or how many did not
    lasted_s: float
    text: str


# -- one mutation ---------------------------------------------------------------------------------------------------


def mutated(mutation: Mutation, package: Path = PACKAGE) -> str:
    """The text of the whole file with the fault. Raises OutOfDateError."""
    source = (package / mutation.file).read_text(encoding="utf-8")
    found = source.count(mutation.old)
    if found != 1:
        raise OutOfDateError(
            f"the mutation {mutation.name} is out of date: subord/{mutation.file} holds {mutation.old!r} {found} "
            "times, not once; nothing was run: adapt its text in tests/mutations.py"
        )
    return source.replace(mutation.old, mutation.new)


def copied(package: Path, target: Path) -> Path:
    """Copy the package into `target`, with what Python has compiled: to compile all of it again takes longer than to
    play a seed."""
    return Path(shutil.copytree(package, target / "subord"))


def replace(file: Path, source: str) -> None:
    """Write the file of a copy. Python tells what it has compiled by size and second, and both may be the same."""
    Path(cache_from_source(str(file))).unlink(missing_ok=True)
    file.write_text(source, encoding="utf-8")


def try_out(mutation: Mutation, seeds: Iterable[int], package: Path = PACKAGE) -> Outcome:
    """Play `seeds` against a copy of `package` with the fault. Raises OutOfDateError."""
    source = mutated(mutation, package)
    with tempfile.TemporaryDirectory(prefix="subord-mutation-") as directory:
        replace(copied(package, Path(directory)) / mutation.file, source)
        return _played(
            mutation.name, Path(directory), seeds, mutation.mapping, mutation.script, services=mutation.services
        )


def try_control(
    seeds: Iterable[int],
    package: Path = PACKAGE,
    mapping: MappingName = "ip",
    script: str = "",
    *,
    services: bool = False,
) -> Outcome:
    """The same without a fault."""
    with tempfile.TemporaryDirectory(prefix="subord-control-") as directory:
        copied(package, Path(directory))
        return _played("(control)", Path(directory), seeds, mapping, script, services=services)


def _played(
    name: str, directory: Path, seeds: Iterable[int], mapping: MappingName, script: str, *, services: bool
) -> Outcome:
    began, given = time.monotonic(), list(seeds)
    command = [sys.executable, str(Path(__file__).resolve()), "--inside", str(directory), "--mapping", mapping]
    request = json.dumps([given, script, services])
    try:
        ran = subprocess.run(
            command, input=request, stdout=subprocess.PIPE, text=True, timeout=LASTS_S_MAX, check=True
        )
    except subprocess.TimeoutExpired:
        return Outcome(name, "", 0, LASTS_S_MAX, "not ended within this time, and no checker failed")
    seed, broken, text = json.loads(ran.stdout)
    return Outcome(name, broken, len(given) if seed is None else seed, time.monotonic() - began, text)


def play_inside(
    directory: Path, seeds: Iterable[int], mapping: MappingName, script: str, services: bool
) -> tuple[int | None, str, str]:
    """In a process of its own: (seed, invariant, text) of the first failure of the copy in `directory`."""
    sys.path.insert(0, str(directory))
    import subord

    assert subord.__file__ is not None
    assert Path(subord.__file__).is_relative_to(directory), f"{subord.__file__} is not the copy"
    return first_failure(seeds, mapping, script, services=services)


def first_failure(
    seeds: Iterable[int], mapping: MappingName, script: str, *, services: bool
) -> tuple[int | None, str, str]:
    """(seed, invariant, text) of the first failure of the package that this process has."""
    from subord.sim.campaign import try_script, try_seed
    from subord.sim.draw.aim import Aim
    from subord.sim.scenario.definition import read

    for seed in seeds:
        try:
            aim = Aim(services=services)
            verdict = try_script(read(script), seed) if script else try_seed(seed, mapping, aim)
        except Exception as error:  # a fault in the drawing of scenarios
            return seed, "error", f"{type(error).__name__}: {error}"
        if verdict.broken:
            return seed, verdict.broken, verdict.text
    return None, "", ""


# -- all of them ----------------------------------------------------------------------------------------------------


def run(mutations: Sequence[Mutation], seeds: int, control_seeds: int, jobs: int) -> int:
    """Play all mutations and the control; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="subord-snapshot-") as directory, ThreadPoolExecutor(jobs) as pool:
        package = copied(PACKAGE, Path(directory))  # the working tree may change meanwhile
        for each in mutations:
            mutated(each, package)

        def tried(mutation: Mutation) -> Outcome:
            outcome = try_out(mutation, range(seeds), package)
            print(_line(outcome), outcome.text, file=sys.stderr, flush=True)
            return outcome

        outcomes = list(pool.map(tried, mutations))
        controls = []
        for services in sorted({each.services for each in mutations}):
            by_ip = {
                each.name for each in mutations if (each.mapping, each.script, each.services) == ("ip", "", services)
            }
            caught_at = {each.seed for each in outcomes if each.broken and each.name in by_ip}
            tried_seeds = sorted(caught_at.union(range(control_seeds)))
            controls.append(try_control(tried_seeds, package, services=services))
    print(*_table([*outcomes, *controls]), sep="\n")
    survived = [each.name for each in outcomes if not each.broken]
    if survived:
        print(f"mutations: {seeds} seeds did not catch {', '.join(survived)}", file=sys.stderr)
    failed = [each for each in controls if each.broken]
    for each in failed:
        print(f"mutations: without any fault seed {each.seed} fails: {each.text}", file=sys.stderr)
    return 1 if survived or failed else 0


def _table(outcomes: Iterable[Outcome]) -> list[str]:
    return [f"{'mutation':27} {'caught by':10} {'at seed':>8} {'after':>8}", *map(_line, outcomes)]


def _line(outcome: Outcome) -> str:
    seed = str(outcome.seed) if outcome.broken else f"({outcome.seed})"
    return f"{outcome.name:27} {outcome.broken or 'none':10} {seed:>8} {outcome.lasted_s:6.0f} s"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="deliberate faults, each of which the campaign must find")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a mutation (default: all)")
    parser.add_argument("--seeds", type=int, default=1000, help="that a mutation may survive (default: %(default)s)")
    parser.add_argument("--control", type=int, default=50, help="seeds without a fault (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=len(sched_getaffinity(0)), help="mutations at the same time")
    parser.add_argument("--list", action="store_true", help="list the mutations and stop")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--mapping", default="ip", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.inside is not None:
        seeds, script, services = json.load(sys.stdin)
        print(json.dumps(play_inside(given.inside, seeds, given.mapping, script, services)))
        return 0
    known = {each.name: each for each in MUTATIONS}
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"there is no mutation {', '.join(unknown)}: --list names them")
    if min(given.seeds, given.control, given.jobs) < 1:
        parser.error("--seeds, --control and --jobs must be at least 1")
    if given.list:
        print(*(f"{each.name:27} {each.wrong}" for each in MUTATIONS), sep="\n")
        return 0
    try:
        return run([known[name] for name in given.names] or MUTATIONS, given.seeds, given.control, given.jobs)
    except OutOfDateError as reason:
        print(f"mutations: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
