"""Whether a leader and its subordinate hold the same rows and the same guidance (docs/protocol.md, section 5).

Input is a beat, which carries the number and digest of the sender's rows and the digest of its guidance. Where they
differ after a complete report, the leader answers `Stranger` or sends its guidance again, so both agree again
whatever the cause: a flipped bit, or datagrams that arrive seconds late.
"""

from __future__ import annotations

from subord.core.edges.slots import Subordinate
from subord.core.messages import Beat, Guidance
from subord.core.state import digests
from subord.core.state.roster import Roster

OLDER_MAX = 3  # beats in a row with lower numbers, and beat intervals in which they arrive


def counts_differ(known: Subordinate, beat: Beat, roster: Roster) -> bool:
    """Whether the rows reported in this session differ in number from those that the subordinate lists."""
    return bool(beat.rows) and roster.told(known.position) + len(known.unproven) != beat.rows


def rows_differ(known: Subordinate, beat: Beat, roster: Roster) -> bool:
    """Whether both lists of the branch differ although the report is complete. `known` is settled.

    A session may begin without the subordinate's knowledge, when the acceptance is lost; then its claims stand.
    """
    if beat.more or not beat.rows:
        return False
    if counts_differ(known, beat, roster):
        return True
    if known.unproven or not beat.digest:
        return False
    return known.swept and digests.shown(roster.digests[known.position]) != beat.digest


def guidance_differs(beat: Beat, guidance: Guidance) -> bool:
    """Whether the sender holds another guidance."""
    if beat.guidance_seen != guidance.version:
        return True
    return bool(beat.guidance_digest) and beat.guidance_digest != digests.of_guidance(guidance)


def out_of_step(known: Subordinate, beat: Beat, now: float, beat_interval_s: float) -> bool:
    """Whether a damaged number put the session ahead of its beats; the next proposal then starts it anew.

    Late and reordered beats are no reason, because newer ones arrive meanwhile.
    """
    if beat.number > known.number:
        known.older, known.advanced_at = 0, now
    elif beat.number < known.number:
        known.older += 1
    if known.older < OLDER_MAX or now - known.advanced_at < OLDER_MAX * beat_interval_s:
        return False
    known.exchange = known.older = 0
    return True
