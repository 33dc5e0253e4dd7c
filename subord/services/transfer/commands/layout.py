"""Lines that several actions of `subord transfer` print: the plan, and counts of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from subord.client.daemon import Document
from subord.client.naming import with_address
from subord.client.text import count
from subord.services.following import conflict_line, published_line

NEVER: Final = "no job crosses: no plan was published; `subord transfer plan FILE` publishes one"
OFF: Final = "transfer is off; jobs stay where they are"
CONFLICT: Final = conflict_line("plan")
DIGITS_SHOWN: Final = 16


def heading(plan: Document, names: Mapping[str, str], would: str = "") -> str:
    """`version 3 published by ann at 2026-11-26 10:30:00 UTC: head (10.0.0.1) is the transfer host of north`."""
    if not plan["version"]:
        return NEVER
    what = f"this release cannot follow it: {plan['fault']}"
    if plan["off"]:
        what = OFF
    elif plan["host"]:
        what = f"{with_address(plan['host'], dict(names))} is the transfer host of {plan['cluster']}"
    return published_line(plan, what, would)


def is_in_force(plan: Document) -> bool:
    """Whether jobs are to cross."""
    return plan["host"] is not None


def before(host: Document) -> str:
    """Of a transfer host whose agent does not follow the plan now."""
    return f"{_state(host)}; what follows is from before"


def unknown_host(found: Document, names: Mapping[str, str]) -> str:
    """Why the transfer host tells nothing of jobs."""
    host = found["plan"]["host"]
    said = next((each for each in found["states"] if host in each["addresses"]), None)
    words = "has told nothing" if said is None else f"says: {_state(said)}"
    return f"{with_address(host, dict(names))} {words}"


def _state(each: Document) -> str:
    return f"{each['state']}: {each['text']}{': ' if each['detail'] else ''}{each['detail']}"


def plan_lines(plan: Document) -> Iterator[str]:
    """Of a plan in force."""
    peer = plan["peer"]
    prints = ", ".join(f"{each[:DIGITS_SHOWN]}..." for each in peer["fingerprints"])
    yield f"the other cluster is {peer['name']} at {', '.join(peer['addresses'])}, certificate {prints}"
    if plan["queues"]:
        queues = ", ".join(f"{each['name']}{_target(each)}" for each in plan["queues"])
        yield f"jobs leave from {queues}; one without a permit for {plan['permit_s']} s goes back"
    else:
        yield "no job leaves: the plan has no queues"
    if plan["slots_max"]:
        idle = f"while at most {count(plan['idle_pending_max'], 'job')} wait here"
        when = "whatever waits here" if plan["high_throughput"] else idle
        users = "each as the user of the same name" if plan["same_users"] else "as users of the table alone"
        yield f"at most {count(plan['slots_max'], 'job')} come, {when}, {users}"
    else:
        yield "no job comes: slots_max is 0"
    tables = [count(plan[key], word) for key, word in (("users", "user"), ("requests", "request")) if plan[key]]
    mapped = f"; mapped: {', '.join(tables)}" if tables else ""
    yield f"a look at the batch system each {plan['poll_s']} s, permits for {plan['lease_s']} s{mapped}"


def _target(queue: Document) -> str:
    parts = [f"to {queue['queue']}"] if queue["queue"] else []
    parts += [f"with {', '.join(queue['requests'])}"] if queue["requests"] else []
    return f" ({' '.join(parts)})" if parts else ""


def numbers(found: Mapping[str, int]) -> str:
    """`3 running, 1 held`; "": none."""
    return ", ".join(f"{number} {word}" for word, number in found.items() if number)
