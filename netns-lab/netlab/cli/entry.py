"""What `netns-lab/lab` does: a word by which the lab calls itself, or the command of a user.

Input: the arguments; output: the exit code. A test run starts hundreds of processes of the first kind, so these
import only what they need. The command of a user imports the parser; only commands that measure import experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from netlab.cli.ending import exit_code

INSIDE = {
    "send-bad-input": "scenarios.bad_input:send",
    "scan-from": "experiments.scan:send",
    "record": "attack.recorder:record",
    "intrude": "attack.intruder:intrude",
    "fetch": "peers.page_reader:fetch",
}
"""Words for processes inside a node's namespace, or in that of the bridges (enter.py)."""


def main(arguments: Sequence[str]) -> int:
    match [*arguments]:
        case ["keep", options]:  # launch.py
            keep: Callable[[str], int] = _named("processes.keeper:keep")
            return keep(options)
        case ["supply", order]:  # elastic/hosted.py
            supply: Callable[[str], int] = _named("elastic.supplier:supply")
            return supply(order)
        case ["exec-in", name, node, *command]:  # enter.py
            return exit_code(lambda: _execute(name, node, command))
        case [word, order] if word in INSIDE:
            carry_out: Callable[[Callable[..., Any], str], int] = _named("processes.enter:carry_out")
            return carry_out(_named(INSIDE[word]), order)
    command_line: Callable[[Sequence[str]], int] = _named("cli.commands:main")
    return command_line(arguments)


def _execute(name: str, node: str, command: Sequence[str]) -> int:
    with _named("processes.client:attach")(name) as lab:
        code: int = _named("processes.enter:run_in")(lab, node, command)
        return code


def _named(place: str) -> Any:
    """Of a module of the lab and a name in it."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"netlab.{module}"), name)
