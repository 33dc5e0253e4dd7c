"""What the agent does to give the classes of its node their shares of the processors.

`actuator.py` is the way in: a class whose methods block, for a thread of the agent. Configured groups belong to
classes (config/classes.py of subord, groups.py). Their weights are set in cgroup v1, cgroup v2 or by systemd
(versions.py, slices.py, on files.py and mounts.py), from whole tickets (weights.py). What each class used is computed
from counters (usage.py); whether work was left over, from pressure, runnable tasks or a queue (backlog.py, tasks.py,
queues.py). saved.py keeps the values from before, putting_back.py uses them. Invariants: the weights of all classes
are set or none; what was there before is on the disk before the first change, and `restore` or `recover` puts it
back, also after a crash of the agent.
"""
