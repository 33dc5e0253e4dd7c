"""The exception that reports a broken invariant."""

from __future__ import annotations


class Violation(Exception):  # noqa: N818 - `name` has the number
    """An invariant does not hold; `name` is its number in docs/protocol.md."""

    def __init__(self, name: str, at: float, text: str) -> None:
        super().__init__(f"{name} at {at:.3f} s: {text}")
        self.name, self.at, self.text = name, at, text
