"""Deliberate faults in the service, each of which the campaign of simulated servers must find.

    PYTHONPATH=. .venv/bin/python tests/machines/faults.py [--seeds N] [NAME ...]

For each fault the package `subord` is copied, one text of the copy is replaced, and the seeds 0, 1, 2, ... are played
against the copy until one breaks an invariant, or N have passed (default 500).
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.mutations import Mutation  # found by the line above
from tests.seeds import Caught, caught_by, run_faults

CAMPAIGN = "tests.machines.campaign"
HERE = "services/machines"
FAULTS = (
    Mutation(
        "guard-without-room",
        "The agent of a server starts whatever it is told.",
        f"{HERE}/guarding.py",
        'return f"{lacks} on the server {server.name}; nothing was started" if lacks else ""',
        'return ""',
    ),
    Mutation(
        "paused-is-free",
        "A machine that is paused does not count on its server.",
        f"{HERE}/model.py",
        "is_coming or self.state != State.OFF",
        "is_coming or self.state not in (State.OFF, State.PAUSED)",
    ),
    Mutation(
        "pending-is-forgotten",
        "What was ordered before is not waited for.",
        f"{HERE}/deciding/waiting.py",
        "        if now > each.until or",
        "        if True or",
    ),
    Mutation(
        "pending-takes-no-room",
        "The room of a start that is under way is given again.",
        f"{HERE}/deciding/picture.py",
        "            if here.server != action.server or not machine.is_counted:",
        "            if False:",
    ),
    Mutation(
        "coming-is-not-counted",
        "A machine that starts is not seen as coming.",
        f"{HERE}/deciding/picture.py",
        "            self.supply[kind.name].coming[name] = kind.slots\n        elif",
        "            pass\n        elif",
    ),
    Mutation(
        "busy-is-idle",
        "A machine with a job may be stopped.",
        f"{HERE}/deciding/picture.py",
        "        if not machine.busy:\n            self.idle",
        "        if True:\n            self.idle",
    ),
    Mutation(
        "always-on-is-ours",
        "A machine that is always on is treated as any other.",
        f"{HERE}/deciding/picture.py",
        "        return machine.always_on or machine.name in self.always_on",
        "        return False",
    ),
    Mutation(
        "windows-without-end",
        "A machine is open for its type for ever.",
        f"{HERE}/deciding/windows.py",
        "return now >= ends",
        "return False",
    ),
    Mutation(
        "last-come-first-served",
        "Jobs choose in the opposite order.",
        f"{HERE}/deciding/offering.py",
        "    for want in wants:",
        "    for want in reversed(list(wants)):",
    ),
    Mutation(
        "images-without-end",
        "The agent of a server clones into a full store.",
        f"{HERE}/guarding.py",
        "if image_mb > store_free_mb:",
        "if False:",
    ),
    Mutation(
        "given-starts",
        "A server starts a machine that it has given away.",
        f"{HERE}/deciding/picture.py",
        "        here = [each for each in found if not each.machine.given_to]",
        "        here = found[:1]",
    ),
    Mutation(
        "overbooked-is-left",
        "A server that is overbooked stops nothing.",
        f"{HERE}/deciding/emptying.py",
        "        elif room.is_overbooked:",
        "        elif False:",
    ),
    Mutation(
        "no-hold",
        "A process decides at once after its start.",
        f"{HERE}/fencing.py",
        "    return hold if process.is_alone else hold + waits.answer_s",
        "    return 0",
    ),
    Mutation(
        "forgets-first",
        "The server that gives a machine forgets it before the other one has it.",
        f"{HERE}/managing/moves.py",
        "return Arrive(name, target, source, result.id, result.xml) if result.xml else _settle(move)",
        "return Forget(name, source) if result.xml else _settle(move)",
    ),
    Mutation(
        "settles-first",
        "A machine that arrives starts while the other server may have it.",
        f"{HERE}/managing/moves.py",
        "                return Forget(name, source)\n",
        "                return _settle(move)\n",
    ),
    Mutation(
        "sleep-is-not-noticed",
        "A process that has slept goes on with its old picture, and obeys no newer fence.",
        f"{HERE}/fencing.py",
        "        if answer.fence > process.fence:",
        "        if False:",
    ),
)


def try_out(fault: Mutation, first: int, seeds: int) -> Caught:
    return caught_by(CAMPAIGN, fault, first, seeds)


if __name__ == "__main__":
    sys.exit(run_faults(sys.argv[1:], "deliberate faults that the campaign of machines must find", CAMPAIGN, FAULTS))
