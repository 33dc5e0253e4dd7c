"""The agent of the transfer host at work: both sides, their records, the cell, the methods' socket and the link.

All effects begin here. `writing` has the one rule that the sides demand: what follows from a change is done when the
change is on the disk.
"""
