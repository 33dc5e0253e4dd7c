"""`subord ping`: which nodes answer over the tree, and which do not and why.

Order: no payload. Result: the level of the node and the class of its round trip to the leader. Report, document,
settings, metrics: none. Authority: every member, and every user of the control socket.
"""
