"""`subord machines`: servers turn virtual machines on for the jobs that wait in a queue, and are never overbooked.

Order: a question; or what the queue's node tells a server, and the order of an operator that drains one (task.py).
Result: how the node takes part, and what is on a server; of the queue's node what it sees and decides; or what came
of an order. Document: `machines/plan`, which an operator signs. Report: none. Settings: [machines]. Authority: every
member may ask; the power `plans` changes the plan; the key of the queue's node gives orders to servers; an operator
drains them.

The parts: servers and machines (model.py), the plan (plan.py), what is ordered (orders.py), what is decided from all
of these (deciding/), how a need finds a server (placing.py), when a process may decide (fencing.py), and what the
agent of a server checks before it acts (guarding.py), all of them pure; what libvirt is told (power/); the part of a
server (serving/); how the queue's node asks servers (servers.py, asking.py); what nodes tell (telling/), and what the
command does (commands/). All effects begin in agent.py.

"The text" in these modules is "Resource management on a VM based computer cluster for scientific computing".
docs/machines.md has its rules, and where these modules differ.
"""
