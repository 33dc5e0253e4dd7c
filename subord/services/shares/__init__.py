"""Shares: the nodes of a cluster divide themselves among classes of work as an operator wants, for example 60/30/10.

So far the pure part, not yet a service of the registry: how a leader divides the nodes below it from one round of
reports (policy.py, with bank.py and reserves.py), whole tickets for a node (tickets.py), what a leader reports of its
branches (folding.py), all of it as the carriage is given it (dividing.py), wanted shares as a text (wanted.py), and
the experiments of the paper (simulation/). The way over the tree is in core/carriage/shares.

"The paper" in these modules is Li and Parker, "Cluster Resource Management: A Scalable Approach".
"""
