"""What an added node does for each order of the queue's node, and what the queue's node does to export directories.

`carrying.py` is the way in on an added node: users and groups (users.py), NFS mounts (mounts.py), the batch daemon
(daemon.py). exports.py is the part of the queue's node. All of them work by commands (commands.py) and small files,
look first whether something is to be done at all, and can be carried out again after a death at any point. What a
plan asks for is checked as a whole before the first change (checks.py), and so are the rights of the agent
(rights.py).
"""
