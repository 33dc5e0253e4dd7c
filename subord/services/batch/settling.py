"""An effect: read what is there, run what is missing, and read again.

Inputs are a plan, which reads, and the commands; output is the outcome. Invariant: Done is only returned if the last
reading had nothing left to do, whatever the commands have printed. Another actor that does the same meanwhile does no
harm.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from subord.services.batch.faults import Pattern, failed
from subord.services.batch.records import Done, Fault, NewHost, Refused, Unavailable
from subord.services.batch.running import Commands

ROUNDS_MAX: Final = 8
AGAIN: Final = "what was done before stays; call it again"
NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
"""Of a host: no word of a command that means something else."""

OTHER_MEANINGS: Final = frozenset({"all", "default", "global", "localhost", "none"})


class Step(NamedTuple):
    words: tuple[str, ...]
    given: bytes = b""
    may_fail: bool = False


Plan: TypeAlias = Callable[[], Awaitable[Iterable[Step] | Refused | Unavailable]]


async def settle(plan: Plan, commands: Commands, patterns: Sequence[Pattern]) -> Done | Refused | Unavailable:
    """After a step that fails the rest is planned again. A reading of the plan may refuse."""
    before: list[Step] = []
    unmet = Unavailable(Fault.FAILED, "the batch system says that it did what it was told, and has not")
    for _ in range(ROUNDS_MAX):
        read = await plan()
        if isinstance(read, Refused | Unavailable):
            return read
        steps = list(read)
        if not steps:
            return Done(is_changed=bool(before))
        if steps == before:
            break
        before = steps
        for step in steps:
            ran = await commands.run(*step.words, given=step.given)
            if isinstance(ran, Unavailable):
                return ran._replace(reason=f"{ran.reason}; {AGAIN}")
            if ran.code != 0 and not step.may_fail:
                unmet = failed(" ".join(step.words), ran, patterns)
                break
    return unmet._replace(reason=f"{unmet.reason}; {AGAIN}")


def known(names: Iterable[str], wanted: str) -> str | Refused | None:
    """The name that the batch system has for a host, whose domain may be left out on either side; None: it has
    none."""
    lower = {each.lower(): each for each in names}
    if (exact := lower.get(wanted.lower())) is not None:
        return exact
    first, _, domain = wanted.lower().partition(".")
    near = [name for each, name in lower.items() if (each == first if domain else each.partition(".")[0] == first)]
    if len(near) > 1:
        return Refused(f"{wanted} may be {' or '.join(sorted(near))}; nothing was changed: write the whole name")
    return near[0] if near else None


def wrong_name(name: str) -> Refused | None:
    """A name that no host can have is not passed to a command."""
    if NAME.fullmatch(name) and name.lower() not in OTHER_MEANINGS:
        return None
    return Refused(f"{name[:80]!r} is not the name of a host; nothing was changed: take letters, digits, dots and -")


def wrong_host(host: NewHost) -> Refused | None:
    """What no batch system takes."""
    if host.slots < 1:
        return Refused(f"{host.name[:80]!r} has {host.slots} slots; nothing was changed: give it 1 or more")
    return wrong_name(host.name)
