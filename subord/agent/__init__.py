"""The agent of a node, `subord-agent`: the process that acts on the node for services with effects.

It takes orders from the daemon of this node over a Unix socket, and does not trust it: every order is judged here, by
the operator's signature and the policy of this node (judge.py), and its tag is on the disk before anything is done
(journal.py). The daemon needs no rights for what the agent does, and a crash of the agent does not touch the tree.
"""
