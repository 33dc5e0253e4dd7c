"""`subord key`: which nodes have which ring of the cluster's keys, and changes of the ring.

Order: no payload. Result: the names of the keys, the revision of the ring, and whether it is on disk. A change is a
document that an operator signs and that spreads by itself (core/carriage/documents.py); the order shows how far it
came. Authority: every member, and every user of the control socket; for a change an operator's signature.
"""
