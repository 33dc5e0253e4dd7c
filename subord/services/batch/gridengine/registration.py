"""What a host needs to be registered with Grid Engine, and the commands of qconf that are still to be run.

Inputs are the answers of qconf; outputs are steps. Invariant: a plan for what is already so has no step, so an effect
that was interrupted goes on where it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from subord.services.batch.settling import Step

HOST: Final = (
    "load_scaling",
    "complex_values",
    "user_lists",
    "xuser_lists",
    "projects",
    "xprojects",
    "usage_scaling",
    "report_variables",
)
"""Fields of an execution host, all of which are wanted, besides its name."""


class QueueText(NamedTuple):
    """What of a queue's configuration concerns its hosts."""

    members: tuple[str, ...]
    """Hosts and host groups."""
    slots: Mapping[str, int]
    """Of hosts and host groups that have a number of their own."""
    named: frozenset[str]
    """Hosts and host groups with any value of their own."""


class Registered(NamedTuple):
    """What qmaster knows."""

    administrative: frozenset[str]
    submit: frozenset[str]
    execution: frozenset[str]
    configured: frozenset[str]
    """With a configuration of their own (`qconf -sconfl`)."""
    groups: Mapping[str, tuple[str, ...]]
    queues: Mapping[str, QueueText]

    def names(self) -> frozenset[str]:
        return self.administrative | self.submit | self.execution | {each for h in self.groups.values() for each in h}


def queue_in(text: str) -> QueueText:
    """The output of `qconf -sq`, each field in one line."""
    fields = dict(re.findall(r"^(\w+)[ \t]+(.*?)[ \t]*$", text, re.MULTILINE))
    own = re.findall(r"\[([^\[\]=]+)=([^\]]*)\]", fields.get("slots", ""))
    named = frozenset(re.findall(r"\[([^\[\]=]+)=", text))
    slots = {name: int(number) for name, number in own if number.isdigit()}
    return QueueText(members_in(fields.get("hostlist", "")), slots, named)


def group_in(text: str) -> tuple[str, ...]:
    """The members in the output of `qconf -shgrp`."""
    found = re.search(r"^hostlist[ \t]+(.*?)[ \t]*$", text, re.MULTILINE)
    return members_in(found[1] if found else "")


def members_in(text: str) -> tuple[str, ...]:
    return () if text.strip() == "NONE" else tuple(text.replace(",", " ").split())


def steps_to_add(now: Registered, name: str, slots: int, queue: str, group: str) -> Iterator[Step]:
    """`name`: as qmaster has it, if it does. The group comes late, so that no job starts before the slots are set."""
    if name not in now.administrative:
        yield Step(("qconf", "-ah", name))
    if name not in now.submit:
        yield Step(("qconf", "-as", name))
    if name not in now.execution:
        text = f"hostname {name}\n" + "".join(f"{each} NONE\n" for each in HOST)
        yield Step(("qconf", "-Ae", "/dev/stdin"), text.encode())
    if now.queues[queue].slots.get(name) != slots:
        yield Step(("qconf", "-rattr", "queue", "slots", f"[{name}={slots}]", queue))
    if name not in now.groups.get(group, ()):
        yield Step(("qconf", "-aattr", "hostgroup", "hostlist", name, group))


def steps_to_remove(now: Registered, name: str, *, is_up: bool) -> Iterator[Step]:
    """In the order in which no reference to the host is left behind."""
    for group, members in now.groups.items():
        if name in members:
            yield Step(("qconf", "-dattr", "hostgroup", "hostlist", name, group))
    for queue, text in now.queues.items():
        if name in text.members:
            yield Step(("qconf", "-dattr", "queue", "hostlist", name, queue))
        if name in text.named:
            yield Step(("qconf", "-purge", "queue", "*", f"{queue}@{name}"))
    if name in now.execution:
        if is_up:
            yield Step(("qconf", "-ke", name), may_fail=True)  # its machine may be gone
        yield Step(("qconf", "-de", name))
    if name in now.configured:
        yield Step(("qconf", "-dconf", name))
    if name in now.administrative:
        yield Step(("qconf", "-dh", name))
    if name in now.submit:
        yield Step(("qconf", "-ds", name))
