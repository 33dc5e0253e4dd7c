"""The settings that all nodes of one tree must share (docs/configuration.md).

Proposals and questions carry them (messages.Terms); a node with other settings is refused with the difference.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from subord.core.address.network import Network
from subord.core.address.numbering import Numbering, numbering
from subord.core.view import Position

NumberingName = Literal["complete", "paper"]
TimingName = Literal["lan", "wan", "lab"]


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations in seconds (`_s`) and rates of one tree. A preset sets only what differs from `lan`."""

    beat_interval_s: float = 2.5
    """Between two beats of a settled node. Shorter finds a silent death sooner and costs more packets."""
    beat_interval_s_min: float = 1.0
    """Between the first beats after a change of place; doubles up to `beat_interval_s`."""
    answer_s: float = 0.4
    """Wait before an unanswered beat, proposal or question is repeated; longer while answers are slow."""
    attempts: int = 5
    """Repetitions of an unanswered beat before the other end is given up; subordinates repeat twice as fast."""
    restart_grace_s: float = 0.4
    """How long a leader whose process is known to be gone may take to restart before it is given up."""
    own_sleep_s: float = 0.5
    """If a timer fires later than this, the node itself slept, and does not count that time as silence of others."""
    patience_s: float = 2.0
    """At first start: how long a node looks for a leader before it becomes root; a guest place will do after twice
    `answer_s`."""
    host_patience_s: float = 8.0
    """The same while the host of the computed leader answers that no daemon listens: one may be starting."""
    report_s: float = 0.06
    """How long a change of the subtree waits for others before it is reported upwards."""
    probe_gap_s: float = 0.0875
    """Between two probes of addresses that may be unused: at most 36 ARP requests in any second (wan: 12)."""
    fast_probes_max: int = 512
    """Addresses that a node without contacts probes at that pace; then it slows down."""
    probe_interval_s: float = 1.0
    """Between two such probes from then on."""
    search_interval_s: float = 1.0
    """Between two looks of a root, or of a guest away from home, for a better place; doubles."""
    search_interval_s_max: float = 8.0
    """Upper bound of that interval for a root: the parts of a healed partition find each other within it."""
    home_interval_s_max: float = 30.0
    """Upper bound of that interval for a guest."""
    return_hold_s: float = 2.0
    """Wait before a node returns to a home that it lost twice in a row; doubles with every further loss."""
    return_hold_s_max: float = 60.0
    """Upper bound of that hold; each such time without a loss cancels one loss."""
    admissions_per_s: float = 500.0
    """Proposals and questions that a node answers per second; to further ones it answers that it is busy."""
    missing_keep_s: float = 60.0
    """How long a subordinate that vanished without goodbye is shown as missing."""

    @property
    def leader_silence_s(self) -> float:
        """Longest silence before the other end of a tree edge is given up."""
        return self.beat_interval_s + self.attempts * self.answer_s


LAN = Timing()
WAN = Timing(
    probe_gap_s=0.25,
    beat_interval_s=5.0,
    beat_interval_s_min=1.0,
    answer_s=1.5,
    restart_grace_s=2.0,
    patience_s=10.0,
    host_patience_s=30.0,
    report_s=0.2,
    probe_interval_s=4.0,
    search_interval_s_max=30.0,
    home_interval_s_max=120.0,
    return_hold_s=5.0,
    return_hold_s_max=120.0,
)
LAB = Timing(
    probe_gap_s=0.035,
    beat_interval_s=1.0,
    beat_interval_s_min=0.5,
    answer_s=0.2,
    patience_s=1.0,
    host_patience_s=3.0,
    probe_interval_s=0.25,
    search_interval_s=0.5,
    search_interval_s_max=2.0,
    home_interval_s_max=4.0,
    return_hold_s=0.5,
    return_hold_s_max=4.0,
    missing_keep_s=10.0,
)
PRESETS: dict[TimingName, Timing] = {"lan": LAN, "wan": WAN, "lab": LAB}


def preset_for(round_trip_s: float) -> TimingName:
    """The preset whose answer time such round trips fit, `lan` or else `wan`; `lab` is for tests."""
    return "lan" if LAN.answer_s > round_trip_s else "wan"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster-wide settings of one tree (docs/configuration.md)."""

    network: Network
    fanout: int = 8
    guest_slots: int = 8
    mapping: str = "ip"  # a name of mapping/registry.py
    numbering_name: NumberingName = "complete"
    timing_name: TimingName = "lan"
    expected: tuple[Position, ...] = ()  # members that the operator expects even if they never came
    cluster_name: str = ""  # part of what operators sign

    @property
    def numbering(self) -> Numbering:
        return numbering(self.numbering_name, self.fanout)

    @property
    def timing(self) -> Timing:
        return PRESETS[self.timing_name]
