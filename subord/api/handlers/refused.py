"""A request that cannot be granted."""

from __future__ import annotations


class RefusedError(Exception):
    """`args`: HTTP status, and one sentence that says what was left unchanged."""
