"""Batch systems behind one interface: Grid Engine and Slurm. A library for services; it is not a service itself.

An adapter (adapter.py) runs the batch system's own commands on the node of its master or controller, and returns
records (records.py). Parsers are pure functions of text. What the batch system does, also that it does not answer,
is a value: nothing here raises for it. Effects are idempotent: each reads what is there, changes what differs, and
reads again. docs/batch.md has the versions, commands and limits.
"""
