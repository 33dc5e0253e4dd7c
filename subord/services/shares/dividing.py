"""A policy of shares as the part of the carriage is given one (core/carriage/shares).

Input is a policy; output is an Arithmetic, whose reports and decisions are those of the policy in types of the core.
"""

from __future__ import annotations

from collections.abc import Sequence

from subord.core.carriage.shares import interface
from subord.core.carriage.shares.interface import Decided, Row, UndecidedError
from subord.services.shares import folding, policy
from subord.services.shares.policy import Policy
from subord.services.shares.reserves import UnsolvedError


class Dividing:
    """What a leader needs of a policy."""

    def __init__(self, chosen: Policy) -> None:
        self._policy = chosen

    def fault_of(self, branch: interface.Branch, classes: int) -> str:
        return policy.fault_of(policy.Branch(*branch), classes)

    def folded(self, branches: Sequence[interface.Branch]) -> interface.Branch:
        return interface.Branch(*folding.folded([policy.Branch(*each) for each in branches]))

    def decide(self, branches: Sequence[interface.Branch], wanted: Row, accounts: Row) -> Decided:
        """Raises UndecidedError."""
        try:
            found = self._policy.decide([policy.Branch(*each) for each in branches], wanted, accounts)
        except (ValueError, UnsolvedError) as error:
            raise UndecidedError(str(error)) from None
        return Decided(found.rows, found.accounts, tuple(interface.Step(*each) for each in found.steps))
