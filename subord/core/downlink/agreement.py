"""Do a leader and its subordinate hold the same rows and the same guidance? (protocol section 5)

A beat carries the number and the digest of the rows that its sender lists, and the digest of the guidance that it
holds. Where they differ after all is reported, the leader answers `Stranger` and the subordinate reports everything
anew, or the leader sends its guidance again. What made them differ does not matter: a bit flipped in a datagram, or
datagrams that come seconds late.
"""

from __future__ import annotations

from subord.core.downlink import digests
from subord.core.downlink.slots import Subordinate
from subord.core.messages import Beat, Guidance
from subord.core.state.roster import Roster

OLDER_MAX = 3  # beats in a row with numbers below the last one, and beat intervals in which they come


def counts_differ(known: Subordinate, beat: Beat, roster: Roster) -> bool:
    """Has the subordinate reported in its session as many rows as it lists?"""
    return bool(beat.rows) and roster.told(known.position) != beat.rows


def rows_differ(known: Subordinate, beat: Beat, roster: Roster) -> bool:
    """Do our lists of the subordinate's branch differ, though all was reported? Asked of a settled session.

    A session may begin without the subordinate's knowledge, when our acceptance is lost. Meanwhile its claims stand.
    """
    if beat.more or not beat.rows:
        return False
    if counts_differ(known, beat, roster):
        return True
    return known.swept and bool(beat.digest) and digests.shown(roster.digests[known.position]) != beat.digest


def guidance_differs(beat: Beat, guidance: Guidance) -> bool:
    """Does the sender hold another guidance than ours?"""
    if beat.guidance_seen != guidance.version:
        return True
    return bool(beat.guidance_digest) and beat.guidance_digest != digests.of_guidance(guidance)


def out_of_step(known: Subordinate, beat: Beat, now: float, beat_interval_s: float) -> bool:
    """Has a damaged number put the session ahead of its beats? Then the next proposal begins it anew.

    Beats that come late and out of order are no reason: a live subordinate sends newer ones meanwhile.
    """
    if beat.number > known.number:
        known.older, known.advanced_at = 0, now
    elif beat.number < known.number:
        known.older += 1
    if known.older < OLDER_MAX or now - known.advanced_at < OLDER_MAX * beat_interval_s:
        return False
    known.exchange = known.older = 0
    return True
