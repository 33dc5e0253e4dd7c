"""The command line: one module per command, imported only when its command is given, so `subord --help` is fast.

A command is a module with `add(subparsers) -> None`, which describes its arguments and imports nothing heavy, and
`run(arguments) -> int`, which does the work and returns an exit code or raises CommandError. Invariant: a method of a
batch system starts without a parser, because a burst of jobs starts one for each job.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from subord.services import FAULTS, METHODS, NAMES, WORDS

if TYPE_CHECKING:
    from subord.cli.parsing import Parser

COMMANDS = {
    "run": "subord.cli.run",
    "tree": "subord.cli.tree",
    "status": "subord.cli.status",
    "why": "subord.cli.why",
    **{WORDS.get(name, name): f"subord.services.{name}.command" for name in NAMES},
    "members": "subord.cli.members",
    "forget": "subord.cli.changes.forget",
    "maintain": "subord.cli.changes.maintain",
    "nodeset": "subord.cli.nodeset",
    "events": "subord.cli.events",
    "top": "subord.cli.top",
    "wait": "subord.cli.wait",
    "position": "subord.cli.position",
    "speedup": "subord.cli.speedup",
    "simulate": "subord.cli.simulate",
    "job-done": "subord.cli.changes.job_done",
    "log-level": "subord.cli.changes.log_level",
    "operator": "subord.cli.operators",
    "config": "subord.cli.config_check",
    "completion": "subord.cli.completion",
}
"""The first word of a command line and its module, in the order of `--help`."""
HELP: Final = (("--help",), ("-h",))
"""All words of a method that asks for its help, which a parser has."""


def parser(command: str | None = None) -> Parser:
    """The parser of the whole command line, or of one command only, which does not import the others."""
    from subord import __version__
    from subord.cli.parsing import Indented, Parser
    from subord.client import exit_codes

    top = Parser(
        prog="subord",
        description="Arranges the nodes of a cluster into a tree of subordination, without consensus.",
        epilog=f"exit codes:\n{exit_codes.table()}",
        formatter_class=Indented,
    )
    top.add_argument("--version", action="version", version=f"subord {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for module in COMMANDS.values() if command is None else [COMMANDS[command]]:
        importlib.import_module(module).add(subparsers)
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run one command (default: the words of this process); returns the exit code. Argparse raises SystemExit."""
    words = sys.argv[1:] if words is None else words
    module = METHODS.get((words[0], words[1])) if len(words) > 1 else None
    if module is not None and tuple(words[2:]) not in HELP:
        return _method(module, words)
    from subord.client.errors import guarded

    return guarded(lambda: _command(words))


def _method(module: str, words: Sequence[str]) -> int:
    """What stops a method, its imports included, is never taken for the status of a job."""
    try:
        exit_code: int = importlib.import_module(module).main(words[1:])
    except Exception as error:
        exit_code = FAULTS.get((words[0], words[1]), 0)
        if not exit_code:
            raise
        print(f"subord {words[0]} {words[1]}: {type(error).__name__}: {error}", file=sys.stderr)
    return exit_code


def _command(words: Sequence[str]) -> int:
    first = words[0] if words and words[0] in COMMANDS else None
    arguments = parser(first).parse_args(words)
    exit_code: int = importlib.import_module(COMMANDS[arguments.command]).run(arguments)
    return exit_code
