"""subord arranges the nodes of a cluster into a tree of subordination, without consensus."""

__version__ = "0.2.0"
