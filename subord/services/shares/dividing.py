"""A policy of shares as the part of the carriage is given one (core/carriage/shares).

Input is a policy; output is an Arithmetic. Invariant: whatever a policy fails with is UndecidedError.
"""

from __future__ import annotations

from collections.abc import Sequence

from subord.core.carriage.shares.interface import Branch, Decision, Row, UndecidedError
from subord.services.shares import folding, policy
from subord.services.shares.policy import Policy, UnsolvedError


class Dividing:
    """What a leader needs of a policy."""

    def __init__(self, chosen: Policy) -> None:
        self._policy = chosen

    def fault_of(self, branch: Branch, classes: int) -> str:
        return policy.fault_of(branch, classes)

    def folded(self, branches: Sequence[Branch]) -> Branch:
        return folding.folded(branches)

    def decide(self, branches: Sequence[Branch], wanted: Row, accounts: Row) -> Decision:
        """Raises UndecidedError."""
        try:
            return self._policy.decide(branches, wanted, accounts)
        except (ValueError, UnsolvedError) as error:
            raise UndecidedError(str(error)) from None
