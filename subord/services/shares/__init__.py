"""`subord shares`: the nodes of a cluster divide themselves among classes of work as an operator wants: 60/30/10.

Order: a question. Result: how the node follows the document, and at the root what its branches report; or why the row
of a node is as it is (telling/). Document: `shares/plan`, which an operator signs. Report, settings, metrics: none.
Authority: every member may ask; the power `shares` changes the document.

The parts: how a leader divides the nodes below it from one round of reports (policy.py, with bank.py and
reserves.py), whole tickets for a node (tickets.py), what a leader reports of its branches (folding.py), all of it as
the carriage is given it (dividing.py), wanted shares as a text (wanted.py), what nodes tell (telling/), what they
keep for the page (past/), what the command does (commands/), the experiments of the paper (simulation/), and what the
agent does to its node (agent.py, with newest.py and given.py; actuators/). The way over the tree is in
core/carriage/shares.

"The paper" in these modules is Li and Parker, "Cluster Resource Management: A Scalable Approach".
"""
