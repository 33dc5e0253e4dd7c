"""subord arranges the nodes of a cluster into a tree of subordination, without consensus."""

__version__ = "0.3.0"

SCHEMA_VERSION = 1
"""Of all JSON that users read (docs/json.md). Higher after a change that a reader must know of: a field is gone, or
means something else."""
