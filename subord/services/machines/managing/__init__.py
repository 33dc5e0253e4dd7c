"""Decides which machines servers turn on, on the node that has the queue, and has it done.

Pure: one round after the other, from answers of servers to orders (rounds.py), the steps of cold moves (moves.py),
jobs and hosts of the batch system as the decision sees them (joining.py), what has become of actions (deeds.py), and
what is told (telling.py). With effects: commands of the batch system (batching.py), lives of processes (lives.py),
their clock (clock.py), and all together (manager.py). role.py is how long the node manages, and which daemons are
told. What servers are asked and told is in servers.py; tests have the same rounds decide over simulated servers.
"""
