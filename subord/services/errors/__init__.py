"""`subord errors`: the problems of the whole cluster, each once, with the set of its nodes.

Order: no payload. Result: what the node has to say, by itself and about other nodes; nodes without problems say the
same. Report, document, settings, metrics: none. Authority: every member, and every user of the control socket.
"""
