"""The one exception that a lab raises for what is not a bug."""

from __future__ import annotations


class LabError(Exception):
    """One plain sentence: what is wrong, what was left unchanged, and what to do."""
