"""What can go wrong in a lab without being a bug: one plain sentence for whoever typed the command."""

from __future__ import annotations


class LabError(Exception):
    """Says whose fault it is, what was left unchanged, and what to do."""
