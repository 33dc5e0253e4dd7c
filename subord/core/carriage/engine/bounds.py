"""The bounds of the engine and its times: every table and every wait of the other modules is limited by one of these.

Times are seconds unless the name says otherwise.
"""

from __future__ import annotations

from typing import Final

# -- sizes ------------------------------------------------------------------------------------------------

FRAME_BYTES_MAX: Final = 65_536
PAYLOAD_BYTES_MAX: Final = 32_768
AUTHORITY_BYTES_MAX: Final = 8_192
TARGETS_BYTES_MAX: Final = 12_000
"""Ranges of an order as given; more of them are `too large`."""
PART_BYTES_MAX: Final = 8_000
"""Ranges of one frame; more of them take several."""
RESULT_BYTES_MAX: Final = 32_768
SERVICE_CHARS_MAX: Final = 32
TAG_BYTES: Final = 16
ITEMS_BYTES_MAX: Final = 48_000
"""Results and ranges of one frame of answers; one result and its ranges always fit."""

# -- tables -----------------------------------------------------------------------------------------------

ORDERS_MAX: Final = 256
"""Orders that a node holds at once, its own and those that pass."""
ORDERS_OF_OTHERS_MAX: Final = 192
"""Of them, those of other nodes: a neighbour may name any issuer, and leaves place to commands here."""
ORDERS_OF_ONE_MAX: Final = 64
"""Of these of one issuer; also orders of commands here."""
ACTIVE_MAX: Final = 16
"""Orders that a node gives or distributes at once; others wait."""
READINGS_ACTIVE_MIN: Final = 4
READINGS_ACTIVE_MAX: Final = 12
"""Of them, orders without authority: the former number where none was under way, and while messages are late. There
is one place more for each that becomes free, up to the latter; the other places are for orders with authority."""
PASSED_MAX: Final = 128
"""Nodes that an order climbs through; it does not climb in a circle."""
OPEN_MAX: Final = 4_096
"""Questions that a node holds open with other nodes, of all orders."""
TARGETS_MAX: Final = 131_072
"""Of an order for all members, as another node says them."""
DIRECT_MAX: Final = 64
"""Streams of their own that a node has open to other nodes at once; more wait."""
LINKS_MAX: Final = 4_096
ENDED_MAX: Final = 16
"""Orders that ended, which an operator may still see."""
GROUPS_MAX: Final = 1_024
"""Different results in one answer; the nodes with others are counted without their results."""
ANSWER_BYTES_MAX: Final = 1 << 20
"""Results that one answer holds or passes on; the nodes with others are counted without their results."""
HELD_BYTES_MAX: Final = 16 << 20
"""Results that a node holds of all orders."""
TAGS_MAX: Final = 16_384
READINGS_MAX: Final = 1024
"""Of these, tags of orders without effects."""
TAG_KEEP_S: Final = 900.0
"""A tag is kept this long after the order's end: a stopped node may pass an old order on when it continues."""
OUTCOMES_BYTES_MAX: Final = 16 << 20
"""Outcomes that are kept to answer a repeated question."""

# -- times ------------------------------------------------------------------------------------------------

LEFT_MS_MAX: Final = 86_400_000
MARGIN_S: Final = 0.05
MARGIN_ROUND_TRIPS_S_MAX: Final = 0.25
"""A hop keeps MARGIN_S, and two round trips of the edge, of the time left. The round trip of an idle edge may be an
old one, so it counts up to a bound, and what exceeds that of the open link halves each SLOW_HALF_S."""
ACK_S_MIN: Final = 0.25
ACK_ROUND_TRIPS: Final = 4
"""Without acknowledgement for so many round trips, at least ACK_S_MIN, a node counts as hung; its branch is asked
directly."""
DIRECT_ACK_S_MIN: Final = 0.5
DIRECT_ACK_ROUND_TRIPS: Final = 10
"""The same over a stream of its own, which must open first."""
GIVE_UP_S: Final = 0.6
"""A hung node is missing after this, if all others have answered."""
GIVE_UP_S_MAX: Final = 3.0
SLOW_HALF_S: Final = 3.0
SLOW_S_MAX: Final = 0.75
SLOW_ACKS: Final = 2.0
SLOW_GIVE_UPS: Final = 4.0
"""After late acknowledgements, or late calls of this node, ACK_S_MIN and GIVE_UP_S grow to so many times the longest
of these delays, which halves each SLOW_HALF_S. With other peers in doubt both are multiplied, up to GIVE_UP_S_MAX."""
SLOT_S: Final = 2.0
"""For so long an order counts among ACTIVE_MAX: what still runs then costs its nodes no messages."""
LATE_S: Final = 5.0
"""So long after a late message a node gives few readings at once: those of other nodes may be late, too."""
LEASE_S: Final = 15.0
"""A node holds an order of another node so long without a renewal. An agent acts so long without one, if the service
is leased."""
RENEW_S: Final = 5.0
"""The issuer renews the leases of its orders with this pause; so two renewals may be lost."""
RENEW_S_MIN: Final = 2.5
"""A renewal that lengthens a lease by less counts for nothing; so a node passes on one in this time at most."""
LEASE_MS_MAX: Final = 600_000
"""In a frame; a node counts LEASE_S at most."""
CHECK_S: Final = 0.5
CHECK_S_MAX: Final = 5.0
"""Until the first look whether a node still works at an order; each further pause is twice the last, up to this."""
FLUSH_FIRST_S: Final = 0.5
"""Results go up with the end of a question that takes less than this, or than a quarter of its time: frames that are
not needed delay the whole answer where many nodes share a machine."""
FLUSH_S: Final = 0.1
FLUSH_SHARE: Final = 0.1
"""Later, of orders with effects, where nodes are gone, and at the issuer, part answers go on after FLUSH_S, and after
this share of the time since the order came, whichever is later."""
LOOK_S: Final = 0.1
LOOK_S_MAX: Final = 1.0
LOOKS_MAX: Final = 24
ATTEMPTS_MAX: Final = 32
"""Looks of the coordinator for targets that move, and of the issuer for a coordinator; each pause doubles.
Looks begin anew with further such targets, until there were ATTEMPTS_MAX attempts."""
STAND_IN_ATTEMPT: Final = 2
"""From this attempt on the highest node that is reached asks its own branch."""
SETTLE_S: Final = 2.0
"""A target that is not found is looked for until the roster has been quiet for this long, and no longer than this."""
LISTED_S: Final = 6.0
"""A target that the roster has below a subordinate, and that the subordinate does not list, is asked for again for so
long: a leader that has just started learns of its branch from its subordinates."""
YOUNG_LOOK_S: Final = 1.0
"""Pause between looks whether a young root has settled, while it has an order for all members."""
ROUND_TRIP_S: Final = 0.001
"""Of a link whose round trip is not known."""
ROUND_TRIP_S_MAX: Final = 0.25
"""A longer round trip counts as this: it may have been measured when the network was slow."""
