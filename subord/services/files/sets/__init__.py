"""Sets of files: `subord files publish` and what looks after them.

Document: `files/NAME` (core/carriage/published.py). The daemon of each node hands it to the agent (following.py), the
agent judges it, brings the files to their directory (keeping.py), and answers orders about it (answering.py).
"""
