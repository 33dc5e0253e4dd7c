"""The policy: what rules allow, and files that allow nothing."""

from __future__ import annotations

import pytest

from subord.agent.policy import EXAMPLE, PolicyError, parse


@pytest.mark.parametrize(
    ("principal", "service", "user", "allowed"),
    [
        ("alice@example.org", "exec", "root", True),
        ("bob@operators", "exec", "slurm", True),
        ("alice@example.org", "exec", "nobody", False),
        ("alice@example.org", "files", "root", False),
        ("mallory@example.org", "exec", "root", False),
        ("", "exec", "root", False),
    ],
)
def test_what_the_example_allows(principal: str, service: str, user: str, allowed: bool) -> None:
    assert parse(EXAMPLE).allows(principal, service, user) is allowed


def test_rules_add_up_and_patterns_except() -> None:
    rule = '[[allow]]\nprincipals = ["{}"]\nservices = ["*"]\nusers = ["*", "!root"]\n'
    found = parse(rule.format("ann") + rule.format("bob"))
    assert found.allows("bob", "exec", "www-data")
    assert not found.allows("bob", "exec", "root")


def test_an_empty_file_allows_nothing() -> None:
    assert not parse("").allows("ann", "exec", "root")


@pytest.mark.parametrize(
    "text",
    [
        "[[allow]",
        "[allow]\nprincipals = ['ann']",
        "[[allow]]\nprincipals = ['ann']\nservices = ['exec']",
        "[[allow]]\nprincipals = []\nservices = ['exec']\nusers = ['root']",
        "[[allow]]\nprincipals = 'ann'\nservices = ['exec']\nusers = ['root']",
        "[[allow]]\nprincipals = ['ann']\nservices = ['exec']\nusers = ['root']\ndeny = true",
        "[[deny]]\nprincipals = ['ann']",
    ],
)
def test_a_file_with_a_mistake_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(PolicyError):
        parse(text)
