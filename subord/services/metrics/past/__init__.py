"""The last minutes of the figures of a branch: the ring of a node, and what `subord metrics --history` shows."""
