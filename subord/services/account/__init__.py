"""`subord account`: what jobs the cluster has run, from records that every node writes and a sink keeps.

Order: no payload. Result: what waits in the spool of the node, whether it is a sink, and whether it reaches one; in
classes, so that many nodes say the same. Records: of the kinds `job` and `command` in the ledger (record.py). Report,
document, metrics: none. Authority: every member may ask for the status; root and the daemon's own user may write; a
report needs only a database that can be read.
"""
