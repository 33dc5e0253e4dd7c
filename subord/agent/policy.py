"""The policy of a node: which operator may use which service as which user.

Input is the text of a file in TOML; output are rules, and whether they allow an order. Principals, services and users
are patterns as in the operators file (ssh_config(5), PATTERNS). Invariant: what no rule allows is denied, and a file
with one mistake allows nothing.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from subord.runtime.security.allowed_signers import matches

EXAMPLE: Final = """\
[[allow]]
principals = ["alice@example.org", "*@operators"]
services = ["exec"]
users = ["root", "slurm"]
"""
RULES_MAX: Final = 1024
_Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Patterns = Annotated[tuple[_Pattern, ...], msgspec.Meta(min_length=1, max_length=RULES_MAX)]


class PolicyError(ValueError):
    """What is wrong with the file; one clause."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one table `[[allow]]` allows."""

    principals: _Patterns
    services: _Patterns
    users: _Patterns


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of one file."""

    allow: Annotated[tuple[Rule, ...], msgspec.Meta(max_length=RULES_MAX)] = ()

    def allows(self, principal: str, service: str, user: str) -> bool:
        """Whether one rule allows it."""
        return any(
            matches(rule.principals, principal) and matches(rule.services, service) and matches(rule.users, user)
            for rule in self.allow
        )


@lru_cache(maxsize=1)
def parse(text: str) -> Policy:
    """Raises PolicyError. The agent reads the file for each order, and it seldom changes."""
    try:
        return msgspec.convert(tomllib.loads(text), Policy)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise PolicyError(str(error)) from None
